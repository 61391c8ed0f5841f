"""index_add, index_select, gather and scatter_add are torch's, along any dimension."""

from collections.abc import Callable

import pytest
import torch
import warpsmith
from conftest import assert_close
from warpsmith._catalogue import OPERATIONS


def indices(*shape: int, rows: int) -> torch.Tensor:
    return torch.randint(rows, shape, generator=torch.Generator().manual_seed(5))


def dense(x: torch.Tensor) -> torch.Tensor:
    return x


def transposed(x: torch.Tensor) -> torch.Tensor:
    return x.mT.contiguous().mT


def repeated(x: torch.Tensor) -> torch.Tensor:
    return x[:1].expand(x.shape)


LAYOUTS = [dense, transposed, repeated]
Layout = Callable[[torch.Tensor], torch.Tensor]


@pytest.mark.parametrize("dim", [0, 1, 2, -2])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
def test_lists_of_indices(dim: int, layout: Layout, dtype: torch.dtype) -> None:
    x = layout(torch.randn(4, 5, 8)).requires_grad_()
    index = indices(11, rows=x.shape[dim]).to(dtype)
    taken = warpsmith.index_select(x, dim, index)
    assert torch.equal(taken, torch.index_select(x, dim, index))
    shape = list(x.shape)
    shape[dim] = 11
    source = layout(torch.randn(shape)).requires_grad_()
    ours = warpsmith.index_add(x, dim, index, source, alpha=-2)
    theirs = torch.index_add(x, dim, index, source, alpha=-2)
    assert_close(ours, theirs)
    g = torch.randn(x.shape)
    for mine, right in zip(
        torch.autograd.grad(ours, (x, source), g),
        torch.autograd.grad(theirs, (x, source), g),
        strict=True,
    ):
        assert_close(mine, right)
    (mine,) = torch.autograd.grad(taken, x, torch.ones_like(taken))
    (right,) = torch.autograd.grad(torch.index_select(x, dim, index), x, torch.ones_like(taken))
    assert_close(mine, right)


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_index_for_each_element(dim: int, layout: Layout) -> None:
    x = layout(torch.randn(4, 5, 8)).requires_grad_()
    shape = [3, 4, 6]
    shape[dim] = 9
    index = layout(indices(*shape, rows=x.shape[dim]))
    ours, theirs = warpsmith.gather(x, dim, index), torch.gather(x, dim, index)
    assert torch.equal(ours, theirs)
    g = torch.randn(shape)
    (mine,) = torch.autograd.grad(ours, x, g)
    (right,) = torch.autograd.grad(theirs, x, g)
    assert_close(mine, right)
    src = layout(torch.randn([n + 1 for n in shape]))
    assert_close(warpsmith.scatter_add(x, dim, index, src), torch.scatter_add(x, dim, index, src))


@pytest.mark.parametrize("rung", [rung["name"] for rung in OPERATIONS["index_add"].rungs])
def test_in_place(rung: str) -> None:
    """Rows that get nothing are not touched, and those that do are torch's."""
    dtype = {"packed_acc_f16": torch.float16, "packed_acc_bf16": torch.bfloat16}
    x = torch.randn(9, 16).to(dtype.get(rung, torch.float32))
    index, source = torch.tensor([3, 7, 3]), torch.randn(3, 16).to(x.dtype)
    want = torch.index_add(x, 0, index, source)
    version = x._version
    assert warpsmith.index_add(x, 0, index, source, rung=rung, out=x) is x
    assert x._version > version
    assert_close(x, want)


def test_an_index_that_is_no_row() -> None:
    x, source = torch.randn(4, 8), torch.randn(5, 8)
    index = torch.tensor([1, 0, 4, 3, 1])
    keeps = torch.tensor([0, 1, 3, 4])
    want = torch.index_add(x, 0, index[keeps], source[keeps])
    for rung in OPERATIONS["index_add"].rungs:
        if "f32" not in rung["dtypes"]:
            continue
        out = torch.empty(4, 8)
        with pytest.raises(ValueError, match="index 4 at position 2 of 'index'"):
            warpsmith.index_add(x, 0, index, source, rung=rung["name"], out=out)
        assert_close(out, want)
    for rung in OPERATIONS["index_select"].rungs:
        out = torch.full((5, 8), 7.0)
        with pytest.raises(ValueError, match="index 4 at position 2 of 'index'"):
            warpsmith.index_select(x, 0, index, rung=rung["name"], out=out)
        assert torch.equal(out[keeps], x[index[keeps]])
        assert torch.equal(out[2], torch.full((8,), 7.0))
    wrong = torch.tensor([[0, 1, -1]])
    with pytest.raises(ValueError, match="index -1 at position 2 of 'index'"):
        warpsmith.gather(x, 0, wrong)
    with pytest.raises(ValueError, match="index -1 at position 2 of 'index'"):
        warpsmith.scatter_add(x, 0, wrong, source)


def test_what_is_refused() -> None:
    x, index = torch.randn(4, 8), indices(3, rows=4)
    for call, match in (
        (lambda: warpsmith.index_add(x, 2, index, x), r"dim is 2, of f32 \[4, 8\]"),
        (lambda: warpsmith.index_add(x, 0, index, x), r"'source' is f32 \[4, 8\]"),
        (lambda: warpsmith.index_add(x, 0, index, x[:3].half()), r"'source' is f16"),
        (lambda: warpsmith.index_add(x, 0, index[None], x[:3]), r"'index' is i64 \[1, 3\]"),
        (lambda: warpsmith.index_select(x, 0, index.float()), "'index' is f32"),
        (lambda: warpsmith.gather(x, 0, index), r"'index' is i64 \[3\], 'x' is f32 \[4, 8\]"),
        (lambda: warpsmith.gather(x, 1, indices(5, 2, rows=8)), r"'index' is i64 \[5, 2\]"),
        (lambda: warpsmith.scatter_add(x, 0, indices(5, 2, rows=4), x), r"'src' is f32"),
        (lambda: warpsmith.index_add(x, 0, index, (y := x[:3].clone()), out=y), r"out|y"),
    ):
        with pytest.raises(ValueError, match=match):
            call()
    same = x.clone()
    with pytest.raises(ValueError, match="'y' may be the memory of 'x', not that of 'source'"):
        warpsmith.index_add(x, 0, indices(4, rows=4), same, out=same)


def test_compiles() -> None:
    def loss(x: torch.Tensor, index: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
        added = warpsmith.index_add(x, 0, index, source)
        return warpsmith.index_select(added, 0, index).square().sum()

    x, source = torch.randn(6, 8, requires_grad=True), torch.randn(9, 8, requires_grad=True)
    index = indices(9, rows=6)
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    ours = torch.autograd.grad(compiled(x, index, source), (x, source))
    right = torch.index_add(x, 0, index, source).index_select(0, index).square().sum()
    for mine, want in zip(ours, torch.autograd.grad(right, (x, source)), strict=True):
        assert_close(mine, want)
