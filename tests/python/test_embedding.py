"""warpsmith.embedding is torch's; its gradient too, and an index that is no row is told."""

from typing import Any

import pytest
import torch
import warpsmith
from conftest import assert_close
from warpsmith._catalogue import OPERATIONS

F = torch.nn.functional
RUNGS = [rung["name"] for rung in OPERATIONS["embedding_backward"].rungs]


def indices(
    *shape: int, rows: int = 9, dtype: torch.dtype = torch.int64, device: str = "cpu"
) -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    return torch.randint(rows, shape, generator=generator).to(device, dtype)


@pytest.mark.parametrize("shape", [(), (0,), (7,), (2, 3), (2, 1, 3, 2, 2)])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_any_shape_of_indices(shape: tuple[int, ...], dtype: torch.dtype, device: str) -> None:
    weight = torch.randn(9, 8, device=device, requires_grad=True)
    index = indices(*shape, dtype=dtype, device=device)
    ours, theirs = warpsmith.embedding(index, weight), F.embedding(index, weight)
    assert torch.equal(ours, theirs)
    g = torch.randn(theirs.shape, device=device)
    (mine,) = torch.autograd.grad(ours, weight, g)
    (right,) = torch.autograd.grad(theirs, weight, g)
    assert_close(mine, right)


@pytest.mark.parametrize(
    "options",
    [{"padding_idx": 4}, {"padding_idx": -9}, {"scale_grad_by_freq": True}],
    ids=str,
)
def test_gradients(options: dict[str, Any], device: str) -> None:
    weight = torch.randn(9, 6, device=device, requires_grad=True)
    double = weight.detach().double().requires_grad_()
    for index in (
        indices(40, device=device),
        indices(5, 8, device=device).t(),
        indices(1, device=device).expand(200),
    ):
        ours = warpsmith.embedding(index, weight, **options)
        theirs = F.embedding(index, double, **options)
        for g in (torch.randn_like(weight[index]), weight.new_ones(()).expand(theirs.shape)):
            (mine,) = torch.autograd.grad(ours, weight, g, retain_graph=True)
            (right,) = torch.autograd.grad(theirs, double, g.double(), retain_graph=True)
            assert_close(mine, right)


@pytest.mark.parametrize("options", [{}, {"padding_idx": 1}, {"scale_grad_by_freq": True}], ids=str)
def test_second_gradient(options: dict[str, Any], device: str) -> None:
    index = indices(12, rows=4, device=device)
    dy = torch.randn(12, 3, device=device, requires_grad=True)
    result = warpsmith.embedding_backward(dy, index, num_weights=4, **options)
    g = torch.randn(4, 3, device=device)
    (mine,) = torch.autograd.grad(result, dy, g)
    rows = [
        [warpsmith.embedding_backward(one, index, num_weights=4, **options) for one in unit]
        for unit in torch.eye(36, device=device).view(12, 3, 12, 3)
    ]
    want = torch.stack([torch.stack([(g * one).sum() for one in row]) for row in rows])
    assert_close(mine, want)


@pytest.mark.parametrize("wrong", [9, -1, 2**40])
def test_an_index_that_is_no_row(wrong: int, device: str) -> None:
    index, weight = indices(5, device=device), torch.randn(9, 8, device=device)
    index[3] = wrong
    y = torch.full((5, 8), 7.0, device=device)
    for rung in OPERATIONS["embedding"].rungs:
        with pytest.raises(ValueError, match=rf"index {wrong} at position 3 of 'index'"):
            warpsmith.embedding(index, weight, rung=rung["name"], out=y)
            warpsmith.check()
        assert y[3].eq(7).all()
        assert torch.equal(y[:3], weight[index[:3]])
    dy = torch.randn(5, 8, device=device)
    for rung in RUNGS:
        out = torch.full((9, 8), 7.0, device=device)
        with pytest.raises(ValueError, match=rf"index {wrong} at position 3 of 'index'"):
            warpsmith.embedding_backward(dy, index, num_weights=9, rung=rung, out=out)
            warpsmith.check()
        right = torch.ops.aten.embedding_dense_backward(
            dy[[0, 1, 2, 4]], index[[0, 1, 2, 4]], 9, -1, False
        )
        assert_close(out, right)


def test_what_is_refused() -> None:
    weight = torch.randn(9, 8)
    for index, table, match in (
        (indices(3).float(), weight, "'index' is f32"),
        (indices(3), weight[0], "'weight' is f32 .8."),
        (indices(3), weight.double(), "'weight' is f64"),
        (indices(1, 1, 1, 1, 1, 1), weight, "a tensor of 7 dimensions"),
    ):
        with pytest.raises(ValueError, match=match):
            warpsmith.embedding(index, table)
    with pytest.raises(ValueError, match="padding_idx is 9, of a table of 9 rows"):
        warpsmith.embedding(indices(3), weight, 9)
    with pytest.raises(NotImplementedError, match=r"max_norm is None here, not 1\.0"):
        warpsmith.embedding(indices(3), weight, max_norm=1.0)
    with pytest.raises(NotImplementedError, match="sparse is False here, not True"):
        warpsmith.embedding(indices(3), weight, sparse=True)
    with pytest.raises(ValueError, match="num_weights is -1"):
        warpsmith.embedding_backward(torch.randn(3, 2), indices(3), num_weights=-1)
    with pytest.raises(ValueError, match=r"'dy' is f32 \[4, 2\], 'index' is i64 \[3\]"):
        warpsmith.embedding_backward(torch.randn(4, 2), indices(3), num_weights=9)


def test_compiles(device: str) -> None:
    def loss(index: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return warpsmith.embedding(index, weight, padding_idx=0).square().sum()

    weight = torch.randn(9, 8, device=device, requires_grad=True)
    index = indices(2, 7, device=device)
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    (mine,) = torch.autograd.grad(compiled(index, weight), weight)
    want = F.embedding(index, weight, padding_idx=0).square().sum()
    (right,) = torch.autograd.grad(want, weight)
    assert_close(mine, right)


def test_more_indices_than_a_merge_takes(device: str) -> None:
    """Sixteen runs of 1024 become one; then those are merged."""
    index, dy = indices(20000, rows=700, device=device), torch.randn(20000, 2, device=device)
    ours = warpsmith.embedding_backward(dy, index, num_weights=700, rung="backward_sorted")
    right = torch.zeros(700, 2, dtype=torch.float64, device=device)
    right = right.index_add(0, index, dy.double())
    assert_close(ours, right)
    again = warpsmith.embedding_backward(dy, index, num_weights=700, rung="backward_sorted")
    assert torch.equal(ours, again)
