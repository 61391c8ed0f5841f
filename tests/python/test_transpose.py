"""transpose and permute by torch's arguments: bits, dimensions, strides, odd shapes, gradients.

What they compute in general is tested where all operations are.
"""

from itertools import permutations

import pytest
import torch
import warpsmith
from warpsmith._catalogue import OPERATIONS

RUNGS = [rung["name"] for rung in OPERATIONS["permute"].rungs]
BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


ONE_OF_EACH = [torch.uint8, torch.float16, torch.int32, torch.float64]


def bits_of(x: torch.Tensor) -> torch.Tensor:
    return x.cpu().view(BITS[x.element_size()])


def numbered(shape: tuple[int, ...], dtype: torch.dtype = torch.int32) -> torch.Tensor:
    """Any bits at all."""
    bits = BITS[dtype.itemsize]
    info = torch.iinfo(bits)
    generator = torch.Generator().manual_seed(1)
    x = torch.randint(info.min, info.max, shape, generator=generator, dtype=bits)
    return (x & 1 if dtype == torch.bool else x).view(dtype)


def check(x: torch.Tensor, dims: tuple[int, ...], rung: str | None = None) -> None:
    y = warpsmith.permute(x, dims, rung=rung)
    assert y.is_contiguous()
    assert torch.equal(bits_of(y), bits_of(x).permute(dims))


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float64,
        torch.float32,
        torch.float16,
        torch.bfloat16,
        torch.float8_e4m3fn,
        torch.float8_e5m2,
        torch.int64,
        torch.int32,
        torch.int8,
        torch.uint8,
        torch.bool,
    ],
    ids=str,
)
def test_bits_move_as_they_are(dtype: torch.dtype, device: str) -> None:
    x = numbered((40, 48), dtype)
    y = warpsmith.transpose(x.to(device), 0, 1)
    assert y.dtype == dtype
    assert torch.equal(bits_of(y), bits_of(x).T)


@pytest.mark.parametrize("dtype", ONE_OF_EACH, ids=str)
@pytest.mark.parametrize("rung", [None, *RUNGS])
def test_every_rung(rung: str | None, dtype: torch.dtype, device: str) -> None:
    shapes = {(8, 3, 16, 32): (3, 1, 2, 0), (2, 20, 32): (0, 2, 1), (3, 16, 5): (1, 0, 2)}
    for shape, dims in shapes.items():
        try:
            check(numbered(shape, dtype).to(device), dims, rung)
        except ValueError as error:
            assert rung is not None
            assert "does not take" in str(error)


def test_every_order_of_four_dimensions(device: str) -> None:
    x = numbered((5, 8, 3, 16), torch.float16).to(device)
    for dims in permutations(range(4)):
        check(x, dims)
        check(x, tuple(d - 4 for d in dims))


def test_strides(device: str) -> None:
    x = numbered((6, 40, 50)).to(device)
    for view in (
        x[:, ::2, 1:],
        x[..., ::3],
        x.transpose(0, 2),
        x[:, :1].expand(6, 7, 50),
        x[0, 0].expand(4, 3, 50),
        x[1:, 3:37, 2:34],
    ):
        for dims in permutations(range(3)):
            check(view, dims)


def test_thin_matrices(device: str) -> None:
    for shape in ((1000, 3), (3, 1000), (700, 1), (1, 700), (97, 2, 3), (40, 5, 3)):
        x = numbered(shape).to(device)
        got = warpsmith.transpose(x, -2, -1)
        assert torch.equal(got.cpu(), x.cpu().transpose(-2, -1))


def test_dimensions_by_torch_s_arguments(device: str) -> None:
    x = numbered((4, 5, 6)).to(device)
    assert torch.equal(warpsmith.transpose(x, 0, -1).cpu(), x.cpu().transpose(0, 2))
    assert torch.equal(warpsmith.transpose(input=x, dim0=1, dim1=1).cpu(), x.cpu())
    assert torch.equal(warpsmith.permute(input=x, dims=[2, 0, 1]).cpu(), x.cpu().permute(2, 0, 1))
    scalar = torch.tensor(3.5, device=device)
    assert warpsmith.transpose(scalar, 0, -1).item() == 3.5
    assert warpsmith.permute(scalar, ()).item() == 3.5
    assert warpsmith.permute(x[:0], (2, 0, 1)).shape == (6, 0, 5)


def test_outputs_with_strides(device: str) -> None:
    x = numbered((30, 40)).to(device)
    y = torch.zeros(40, 60, dtype=torch.int32, device=device)[:, ::2]
    warpsmith.transpose(x, 0, 1, out=y)
    assert torch.equal(y.cpu(), x.cpu().T)
    columns = torch.zeros(30, 40, dtype=torch.int32, device=device).T
    warpsmith.transpose(x, 0, 1, out=columns)
    assert torch.equal(columns.cpu(), x.cpu().T)


@pytest.mark.parametrize(
    ("dims", "text"),
    [
        ((0, 1), r"2 dimensions \(0, 1\)"),
        ((0, 1, 1), "dimension 1 stands twice in 0, 1, 1"),
        ((0, -1, 2), "dimension 2 stands twice in 0, -1, 2"),
        ((0, 1, 3), "dimension 3 of"),
    ],
)
def test_bad_dimensions(dims: tuple[int, ...], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        warpsmith.permute(torch.zeros(2, 3, 4), dims)
    with pytest.raises(ValueError, match="dimension 3 of"):
        warpsmith.transpose(torch.zeros(2, 3, 4), 0, 3)


def test_gradients_go_back(device: str) -> None:
    x = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(2)).to(device)
    weights = torch.randn(5, 3, 4, generator=torch.Generator().manual_seed(3)).to(device)
    ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    (warpsmith.permute(ours, (-1, 0, 1)) * weights).sum().backward()
    (torch.permute(theirs, (2, 0, 1)) * weights).sum().backward()
    assert torch.equal(ours.grad, theirs.grad)
    ours.grad = theirs.grad = None
    (warpsmith.transpose(ours, 0, 2).transpose(1, 2) * weights).sum().backward()
    (theirs.transpose(0, 2).transpose(1, 2) * weights).sum().backward()
    assert torch.equal(ours.grad, theirs.grad)
