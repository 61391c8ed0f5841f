"""topk and sort by torch's arguments: ties, NaN, zeros, dimensions, rows that are hard on bounds.

What they compute in general is tested where all operations are.
"""

import math

import pytest
import torch
import warpsmith
from warpsmith._catalogue import OPERATIONS

RUNGS = [rung["name"] for rung in OPERATIONS["topk"].rungs]
dtypes = pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int32], ids=str
)


def expected(
    x: torch.Tensor, k: int, dim: int = -1, largest: bool = True
) -> tuple[torch.Tensor, torch.Tensor]:
    values, indices = torch.sort(x.cpu(), dim=dim, descending=largest, stable=True)
    return values.narrow(dim, 0, k), indices.narrow(dim, 0, k)


def check(x: torch.Tensor, k: int, dim: int = -1, largest: bool = True, rung: str | None = None):
    values, indices = warpsmith.topk(x, k=k, dim=dim, largest=largest, rung=rung)
    want, places = expected(x, k, dim, largest)
    assert indices.dtype == torch.int64
    assert torch.equal(indices.cpu(), places)
    same = values.cpu() == want
    assert (same | (values.cpu().isnan() & want.isnan())).all()
    # The elements themselves, whichever zero and whichever NaN they are.
    bits = {2: torch.int16, 4: torch.int32}[x.element_size()]
    taken = torch.gather(x, dim, indices)
    assert torch.equal(values.contiguous().view(bits), taken.contiguous().view(bits))


def special_rows(dtype: torch.dtype) -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(7, 300, generator=generator).mul(4).round() / 4
    x[1] = torch.arange(300) - 150.0
    x[2] = -x[1]
    x[3] = 1.5
    if dtype.is_floating_point:
        x[4, 5:200:7] = math.nan
        x[4, 3] = -math.nan
        x[5] = torch.where(torch.arange(300) % 3 == 0, 0.0, -0.0)
        x[6] = -math.inf
        x[6, 100] = math.inf
        x[6, [17, 250]] = 2.0
    return x.to(dtype)


@dtypes
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("rung", RUNGS)
def test_ties_nan_and_zeros(rung: str, largest: bool, dtype: torch.dtype, device: str) -> None:
    x = special_rows(dtype).to(device)
    for k in (1, 8, 60):
        try:
            check(x, k, largest=largest, rung=rung)
        except ValueError as error:
            assert "does not take" in str(error)


@pytest.mark.parametrize("dim", [0, 1, 2, -1, -2, -3])
def test_dimensions(dim: int, device: str) -> None:
    x = torch.randn(4, 7, 5, generator=torch.Generator().manual_seed(1)).to(device)
    for k in (0, 1, 3, x.shape[dim]):
        check(x, k, dim)
        check(x.transpose(0, 2), min(k, 4), dim)
    values, indices = warpsmith.sort(x, dim=dim, descending=True)
    assert torch.equal(torch.gather(x, dim, indices), values)
    assert torch.equal(values.cpu(), torch.sort(x.cpu(), dim=dim, descending=True).values)


def test_scalars_and_single_columns(device: str) -> None:
    x = torch.tensor(2.5, device=device)
    values, indices = warpsmith.topk(x, k=1)
    assert values.shape == indices.shape == () and values.item() == 2.5 and indices.item() == 0
    values, indices = warpsmith.sort(x)
    assert values.item() == 2.5 and indices.item() == 0
    check(torch.randn(9, 1, device=device), 1)


@pytest.mark.parametrize("columns", [0, 3])
def test_of_nothing(columns: int, device: str) -> None:
    for shape in ((0, columns), (columns, 0)):
        x = torch.zeros(shape, device=device)
        values, indices = warpsmith.topk(x, k=0)
        assert values.shape == indices.shape == (shape[0], 0)
        assert warpsmith.sort(x)[1].shape == shape


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"k": 6}, "k is 6"),
        ({"k": -1}, "k is -1"),
        ({"k": 1, "dim": 2}, "dim 2"),
        ({"k": 1, "dim": -3}, "dim -3"),
    ],
)
def test_bad_arguments(arguments: dict, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        warpsmith.topk(torch.zeros(4, 5), **arguments)
    with pytest.raises(TypeError):
        warpsmith.topk(torch.zeros(4, 5))


def test_many_runs(device: str) -> None:
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(2, 21000, generator=generator).to(torch.bfloat16).to(device)
    values, indices = warpsmith.sort(x)
    want, places = torch.sort(x.cpu(), stable=True)
    assert torch.equal(values.cpu(), want)
    assert torch.equal(indices.cpu(), places)
    check(x, 1000, largest=False)
    check(x, 64)


def test_outputs_with_strides(device: str) -> None:
    x = torch.randn(6, 40, generator=torch.Generator().manual_seed(4)).to(device)
    values = torch.zeros(6, 20, device=device)[:, ::2]
    indices = torch.zeros(10, 6, dtype=torch.int64, device=device).T
    warpsmith.topk(x, k=10, out=(values, indices))
    want, places = expected(x, 10)
    assert torch.equal(values.cpu(), want)
    assert torch.equal(indices.cpu(), places)


def test_gradients_go_where_values_came_from() -> None:
    x = torch.randn(5, 33, generator=torch.Generator().manual_seed(5))
    ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    weights = torch.randn(5, 7, generator=torch.Generator().manual_seed(6))
    (warpsmith.topk(ours, k=7, largest=False)[0] * weights).sum().backward()
    (torch.topk(theirs, 7, largest=False)[0] * weights).sum().backward()
    assert torch.equal(ours.grad, theirs.grad)
    ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    (warpsmith.sort(ours, dim=0)[0] * x).sum().backward()
    (torch.sort(theirs, dim=0)[0] * x).sum().backward()
    assert torch.equal(ours.grad, theirs.grad)


def test_argmax_is_topk_of_one() -> None:
    x = special_rows(torch.float32)
    assert torch.equal(warpsmith.topk(x, k=1)[1][:, 0], warpsmith.argmax(x, dim=1))
