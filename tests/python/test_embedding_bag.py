"""warpsmith.embedding_bag is torch's, with its gradients; wrong indices and offsets are told."""

from typing import Any

import pytest
import torch
import warpsmith
from conftest import assert_close
from warpsmith._catalogue import OPERATIONS

F = torch.nn.functional
RUNGS = [rung["name"] for rung in OPERATIONS["embedding_bag"].rungs]
ROWS = 9

# Offsets, or None where indices are of two dimensions.
SHAPES: list[tuple[tuple[int, ...], list[int] | None]] = [
    ((12,), [0, 5, 5, 6]),
    ((12,), [0]),
    ((7,), [0, 0, 7, 7]),
    ((4, 3), None),
]
OPTIONS: list[dict[str, Any]] = [
    {},
    {"mode": "sum"},
    {"mode": "max"},
    {"mode": "mean", "padding_idx": 4},
    {"mode": "max", "padding_idx": -5},
    {"mode": "sum", "scale_grad_by_freq": True, "padding_idx": 1},
    {"mode": "mean", "scale_grad_by_freq": True},
]


def indices(*shape: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    return torch.randint(ROWS, shape, generator=generator).to(dtype)


def table(columns: int = 8) -> torch.Tensor:
    generator = torch.Generator().manual_seed(5)
    return torch.randn(ROWS, columns, generator=generator)


@pytest.mark.parametrize(("shape", "offsets"), SHAPES, ids=str)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_values_and_gradients(
    shape: tuple[int, ...], offsets: list[int] | None, options: dict[str, Any]
) -> None:
    weight = table().requires_grad_()
    double = weight.detach().double().requires_grad_()
    for dtype in (torch.int32, torch.int64):
        index = indices(*shape, dtype=dtype)
        starts = None if offsets is None else torch.tensor(offsets, dtype=dtype)
        ours = warpsmith.embedding_bag(index, weight, starts, **options)
        theirs = F.embedding_bag(index, double, starts, **options)
        assert_close(ours, theirs)
        g = torch.randn(theirs.shape)
        (mine,) = torch.autograd.grad(ours, weight, g)
        (right,) = torch.autograd.grad(theirs, double, g.double())
        assert_close(mine, right)


@pytest.mark.parametrize(("shape", "offsets"), SHAPES, ids=str)
@pytest.mark.parametrize("padding_idx", [None, 2])
def test_weights_of_samples(
    shape: tuple[int, ...], offsets: list[int] | None, padding_idx: int | None
) -> None:
    index = indices(*shape)
    starts = None if offsets is None else torch.tensor(offsets)
    leaves = [table().requires_grad_(), torch.randn(shape).requires_grad_()]
    doubles = [leaf.detach().double().requires_grad_() for leaf in leaves]
    options = {"mode": "sum", "padding_idx": padding_idx}
    ours = warpsmith.embedding_bag(
        index, leaves[0], starts, per_sample_weights=leaves[1], **options
    )
    theirs = F.embedding_bag(index, doubles[0], starts, per_sample_weights=doubles[1], **options)
    assert_close(ours, theirs)
    g = torch.randn(theirs.shape)
    for mine, right in zip(
        torch.autograd.grad(ours, leaves, g),
        torch.autograd.grad(theirs, doubles, g.double()),
        strict=True,
    ):
        assert_close(mine, right)


def test_last_offset_and_entries_of_no_bag() -> None:
    """Entries after the last offset belong to none: as if they were not there."""
    weight, index = table().requires_grad_(), indices(12)
    offsets = torch.tensor([0, 4, 9])
    for mode in ("sum", "mean", "max"):
        options = {"mode": mode, "include_last_offset": True}
        ours = warpsmith.embedding_bag(index, weight, offsets, **options)
        theirs = F.embedding_bag(index[:9], weight, offsets, **options)
        assert_close(ours, theirs)
        g = torch.randn(ours.shape)
        assert_close(*(torch.autograd.grad(y, weight, g)[0] for y in (ours, theirs)))


def test_a_maximum_is_its_first() -> None:
    """Of equal rows the first gets the gradient; a NaN counts only where it is the first."""
    weight = torch.tensor([[1.0, 2.0], [1.0, 3.0], [float("nan"), 0.0]], requires_grad=True)
    index, offsets = torch.tensor([0, 1, 2, 2, 0]), torch.tensor([0, 3])
    ours = warpsmith.embedding_bag(index, weight, offsets, mode="max")
    theirs = F.embedding_bag(index, weight, offsets, mode="max")
    assert torch.equal(ours.isnan(), theirs.isnan())
    assert torch.equal(ours.nan_to_num(7), theirs.nan_to_num(7))
    g = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    (mine,) = torch.autograd.grad(ours, weight, g)
    assert torch.equal(mine, torch.tensor([[1.0, 4.0], [0.0, 2.0], [3.0, 0.0]]))


def test_second_gradient() -> None:
    index, offsets = indices(7), torch.tensor([0, 3, 3])
    leaves = [table(3).double().float().requires_grad_(), torch.randn(7).requires_grad_()]
    g = torch.randn(3, 3, requires_grad=True)

    def penalty(function: Any) -> torch.Tensor:
        y = function(index, leaves[0], offsets, mode="sum", per_sample_weights=leaves[1])
        grads = torch.autograd.grad(y, leaves, g, create_graph=True)
        return sum(grad.square().sum() for grad in grads)

    def plain(index: Any, weight: Any, offsets: Any, mode: str, per_sample_weights: Any) -> Any:
        rows = weight[index] * per_sample_weights[:, None]
        bag = torch.searchsorted(offsets, torch.arange(7), right=True) - 1
        return torch.zeros(3, 3).index_add(0, bag, rows)

    wanted = [*leaves, g]
    for mine, right in zip(
        torch.autograd.grad(penalty(warpsmith.embedding_bag), wanted),
        torch.autograd.grad(penalty(plain), wanted),
        strict=True,
    ):
        assert_close(mine, right)


@pytest.mark.parametrize("rung", RUNGS)
@pytest.mark.parametrize("wrong", [ROWS, -1, 2**40])
def test_an_index_that_is_no_row(rung: str, wrong: int) -> None:
    weight, index, offsets = table(), indices(12), torch.tensor([0, 6])
    index[7] = wrong
    out = torch.empty(2, 8)
    with pytest.raises(ValueError, match=rf"index {wrong} at position 7 of 'index'"):
        warpsmith.embedding_bag(index, weight, offsets, mode="sum", rung=rung, out=out)
    rest = torch.cat([index[:7], index[8:]])
    assert_close(out, F.embedding_bag(rest, weight, offsets, mode="sum"))


@pytest.mark.parametrize("rung", RUNGS)
@pytest.mark.parametrize(
    ("offsets", "wrong", "position", "right"),
    [
        ([1, 4], 1, 0, [False, True]),
        ([0, 6, 4], 4, 2, [True, False, True]),
        ([0, 13], 13, 1, [False, False]),
        ([0, -2, 5], -2, 1, [False, False, True]),
    ],
    ids=str,
)
def test_offsets_that_are_none(
    rung: str, offsets: list[int], wrong: int, position: int, right: list[bool]
) -> None:
    weight, index = table(), indices(12)
    out = torch.empty(len(offsets), 8)
    with pytest.raises(ValueError, match=rf"index {wrong} at position {position} of 'offsets'"):
        warpsmith.embedding_bag(index, weight, torch.tensor(offsets), rung=rung, out=out)
    ends = [*offsets[1:], 12]
    for bag, is_right in enumerate(right):
        rows = index[offsets[bag] : ends[bag]] if is_right else index[:0]
        assert_close(out[bag : bag + 1], F.embedding_bag(rows, weight, torch.tensor([0])))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_indices_and_offsets_of_two_widths(mode: str) -> None:
    weight, index, offsets = table().requires_grad_(), indices(12), torch.tensor([0, 6])
    want = F.embedding_bag(index, weight, offsets, mode=mode)
    (right,) = torch.autograd.grad(want.square().sum(), weight)
    for given in ((index.int(), offsets), (index, offsets.int()), (index.int(), offsets.int())):
        found = warpsmith.embedding_bag(given[0], weight, offsets=given[1], mode=mode)
        assert_close(found, want)
        assert_close(torch.autograd.grad(found.square().sum(), weight)[0], right)


def test_what_is_refused() -> None:
    weight, index, offsets = table(), indices(12), torch.tensor([0, 6])
    wide = indices(4, 3)
    for arguments, keywords, match in (
        ((index.float(), weight, offsets), {}, "'index' is f32"),
        ((index, weight.double(), offsets), {}, "'weight' is f64"),
        ((index, weight), {}, "offsets are wanted of 1 dimension, and of 2 none"),
        ((wide, weight, offsets), {}, "offsets are wanted of 1 dimension, and of 2 none"),
        ((index, weight, offsets.short()), {}, "'offsets'"),
        ((index, weight, offsets[:0]), {"include_last_offset": True}, "without the last one"),
        ((index, weight, offsets), {"padding_idx": 9}, "padding_idx is 9, of a table of 9 rows"),
        ((index, weight, offsets), {"per_sample_weights": torch.ones(12)}, "mode=sum alone"),
        (
            (index, weight, offsets),
            {"mode": "sum", "per_sample_weights": torch.ones(3)},
            "'per_sample_weights' is f32",
        ),
        ((wide, weight), {"mode": "max", "scale_grad_by_freq": True}, "not of mode=max"),
        ((wide, weight), {"mode": "min"}, "min"),
    ):
        with pytest.raises(ValueError, match=match):
            warpsmith.embedding_bag(*arguments, **keywords)
    with pytest.raises(NotImplementedError, match=r"max_norm is None here, not 1\.0"):
        warpsmith.embedding_bag(wide, weight, max_norm=1.0)
    with pytest.raises(NotImplementedError, match="sparse is False here, not True"):
        warpsmith.embedding_bag(wide, weight, sparse=True)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_compiles(mode: str) -> None:
    def loss(index: torch.Tensor, weight: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        y = warpsmith.embedding_bag(index, weight, offsets, mode=mode, padding_idx=0)
        return y.square().sum()

    weight, index, offsets = table().requires_grad_(), indices(12), torch.tensor([0, 5, 5])
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    (mine,) = torch.autograd.grad(compiled(index, weight, offsets), weight)
    want = F.embedding_bag(index, weight, offsets, mode=mode, padding_idx=0).square().sum()
    (right,) = torch.autograd.grad(want, weight)
    assert_close(mine, right)
