"""index_add, index_select, gather and scatter_add are torch's, along any dimension."""

from collections.abc import Callable

import pytest
import torch
import warpsmith
from conftest import assert_close, torch_dtype
from warpsmith._catalogue import OPERATIONS


def indices(*shape: int, rows: int, device: str = "cpu") -> torch.Tensor:
    generator = torch.Generator().manual_seed(5)
    return torch.randint(rows, shape, generator=generator).to(device)


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
def test_lists_of_indices(dim: int, layout: Layout, dtype: torch.dtype, device: str) -> None:
    x = layout(torch.randn(4, 5, 8, device=device)).requires_grad_()
    index = indices(11, rows=x.shape[dim], device=device).to(dtype)
    taken = warpsmith.index_select(x, dim, index)
    assert torch.equal(taken, torch.index_select(x, dim, index))
    shape = list(x.shape)
    shape[dim] = 11
    source = layout(torch.randn(shape, device=device)).requires_grad_()
    ours = warpsmith.index_add(x, dim, index, source, alpha=-2)
    theirs = torch.index_add(x, dim, index, source, alpha=-2)
    assert_close(ours, theirs)
    g = torch.randn(x.shape, device=device)
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
def test_an_index_for_each_element(dim: int, layout: Layout, device: str) -> None:
    x = layout(torch.randn(4, 5, 8, device=device)).requires_grad_()
    shape = [3, 4, 6]
    shape[dim] = 9
    index = layout(indices(*shape, rows=x.shape[dim], device=device))
    ours, theirs = warpsmith.gather(x, dim, index), torch.gather(x, dim, index)
    assert torch.equal(ours, theirs)
    g = torch.randn(shape, device=device)
    (mine,) = torch.autograd.grad(ours, x, g)
    (right,) = torch.autograd.grad(theirs, x, g)
    assert_close(mine, right)
    src = layout(torch.randn([n + 1 for n in shape], device=device))
    assert_close(warpsmith.scatter_add(x, dim, index, src), torch.scatter_add(x, dim, index, src))


def rungs_of(operation: str, *but: str) -> pytest.MarkDecorator:
    """Each rung of an operation but these, and a dtype that it takes."""
    rows = [row for row in OPERATIONS[operation].rungs if row["name"] not in but]
    return pytest.mark.parametrize(
        ("rung", "dtype"),
        [pytest.param(r["name"], torch_dtype(r["dtypes"][0]), id=r["name"]) for r in rows],
    )


@rungs_of("index_add", "add_lines")  # of lines: below
def test_in_place(rung: str, dtype: torch.dtype, device: str) -> None:
    """Rows that get nothing are not touched, and those that do are torch's."""
    x = torch.randn(9, 16, device=device).to(dtype)
    index = torch.tensor([3, 7, 3], device=device)
    source = torch.randn(3, 16, device=device).to(dtype)
    want = torch.index_add(x, 0, index, source)
    version = x._version
    assert warpsmith.index_add(x, 0, index, source, rung=rung, out=x) is x
    assert x._version > version
    assert_close(x, want)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("rows", [2000, 500, 20])  # few sources beside them, more, many
def test_a_hot_row_among_others(rows: int, dtype: torch.dtype, device: str) -> None:
    """One of several pieces, two of two sources, and those that have one."""
    x = torch.randn(rows, 40, device=device).to(dtype)
    index = torch.arange(300, device=device) * 7 % rows
    index[:201] = 11
    index[250:254] = torch.tensor([0, 3, 0, 3], device=device)
    source = torch.randn(300, 40, device=device).to(dtype)
    want = torch.index_add(x.double(), 0, index, source.double(), alpha=0.5)
    got = warpsmith.index_add(x, 0, index, source, alpha=0.5, rung="sorted")
    torch.testing.assert_close(got.double(), want, rtol=0.01, atol=0.01 if rows > 20 else 0.1)
    again = warpsmith.index_add(x, 0, index, source, alpha=0.5, rung="sorted")
    assert torch.equal(got, again)


# What is no row of four, at place 2 of the indices: the element there is left out of a sum, or is
# what it was, and all others are as they would be without it.
WRONG = pytest.mark.parametrize("wrong", [4, -1, 2**40])
KEEPS = [0, 1, 3, 4]


def told_of(wrong: int, call: Callable[[], object]) -> None:
    """That a call, or the check behind it, names the index and its place."""
    with pytest.raises(ValueError, match=rf"index {wrong} at position 2 of 'index'"):
        call()
        warpsmith.check()


@WRONG
@rungs_of("index_add", "add_lines")  # of lines: below
def test_index_add_of_no_row(rung: str, dtype: torch.dtype, wrong: int, device: str) -> None:
    x = torch.randn(4, 8, device=device).to(dtype)
    source = torch.randn(5, 8, device=device).to(dtype)
    index = torch.tensor([1, 0, wrong, 3, 1], device=device)
    want = torch.index_add(x, 0, index[KEEPS], source[KEEPS])
    out = torch.empty_like(x)
    told_of(wrong, lambda: warpsmith.index_add(x, 0, index, source, rung=rung, out=out))
    assert_close(out, want)
    # Of nothing but wrong indices, in place: not a bit of it is written.
    before = x.clone()
    index[:] = wrong
    with pytest.raises(ValueError, match=rf"index {wrong} at position \d of 'index'"):
        warpsmith.index_add(x, 0, index, source, rung=rung, out=x)
        warpsmith.check()
    assert torch.equal(x, before)


@WRONG
@rungs_of("scatter_add", "own_columns", "add_lines")  # of columns, of lines: below
def test_scatter_add_of_no_row(rung: str, dtype: torch.dtype, wrong: int, device: str) -> None:
    x = torch.randn(4, 8, device=device).to(dtype)
    src = torch.randn(2, 6, device=device).to(dtype)
    index = indices(2, 6, rows=4, device=device)
    index[0, 2] = wrong
    sound, rest = index.clone(), src.clone()
    sound[0, 2] = rest[0, 2] = 0
    want = torch.scatter_add(x, 0, sound, rest)
    out = torch.empty_like(x)
    told_of(wrong, lambda: warpsmith.scatter_add(x, 0, index, src, rung=rung, out=out))
    assert_close(out, want)
    before = x.clone()
    index[:] = wrong
    with pytest.raises(ValueError, match=rf"index {wrong} at position \d of 'index'"):
        warpsmith.scatter_add(x, 0, index, src, rung=rung, out=x)
        warpsmith.check()
    assert torch.equal(x, before)


@WRONG
@rungs_of("index_select", "take_lines")  # along the last dimension: below
def test_index_select_of_no_row(rung: str, dtype: torch.dtype, wrong: int, device: str) -> None:
    x = torch.randn(4, 8, device=device).to(dtype)
    index = torch.tensor([1, 0, wrong, 3, 1], device=device)
    out = torch.full((5, 8), 7, device=device, dtype=dtype)
    told_of(wrong, lambda: warpsmith.index_select(x, 0, index, rung=rung, out=out))
    assert torch.equal(out[KEEPS], x[index[KEEPS]])
    assert out[2].eq(7).all()


@WRONG
@rungs_of("gather", "take_lines", "take_rows", "take_columns")  # of lines, rows, columns: below
def test_gather_of_no_row(rung: str, dtype: torch.dtype, wrong: int, device: str) -> None:
    x = torch.randn(4, 8, device=device).to(dtype)
    index = indices(2, 6, rows=4, device=device)
    want = torch.gather(x, 0, index)
    index[0, 2], want[0, 2] = wrong, 7
    out = torch.full((2, 6), 7, device=device, dtype=dtype)
    told_of(wrong, lambda: warpsmith.gather(x, 0, index, rung=rung, out=out))
    assert torch.equal(out, want)


@WRONG
@pytest.mark.parametrize("outer", [1, 3])
def test_gather_of_a_row_that_is_none(wrong: int, outer: int, device: str) -> None:
    """Rows whose elements share an index: one number, repeated at a stride of 0."""
    x = torch.randn(outer, 4, 8, device=device)
    index = indices(outer, 5, 1, rows=4, device=device)
    index[0, 2] = wrong
    out = torch.full((outer, 5, 8), 7.0, device=device)
    spread = index.expand(outer, 5, 8)
    with pytest.raises(ValueError, match=rf"index {wrong} at position 16 of 'index'"):
        warpsmith.gather(x, 1, spread, rung="take_rows", out=out)
        warpsmith.check()
    index[0, 2] = 0
    want = torch.gather(x, 1, spread)
    want[0, 2] = 7
    assert torch.equal(out, want)


@WRONG
@pytest.mark.parametrize("columns", [8, 7])  # fours of them, and one at a time
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
def test_an_index_of_a_column_that_is_no_row(
    wrong: int, columns: int, dtype: torch.dtype, device: str
) -> None:
    if dtype == torch.int32:
        wrong = min(wrong, 2**31 - 1)
    x = torch.randn(4, columns, device=device).half()
    src = torch.randn(11, columns, device=device).half()
    index = indices(11, columns, rows=4, device=device).to(dtype)
    index[9, 6] = wrong
    sound, rest = index.clone(), src.clone()
    sound[9, 6] = rest[9, 6] = 0
    want = torch.scatter_add(x.float(), 0, sound.long(), rest.float()).half()
    out = torch.empty_like(x)
    place = 9 * columns + 6
    with pytest.raises(ValueError, match=f"index {index[9, 6]} at position {place} of 'index'"):
        warpsmith.scatter_add(x, 0, index, src, rung="own_columns", out=out)
        warpsmith.check()
    assert_close(out, want)


def test_the_copy_engine_multiplies_nothing() -> None:
    x, index = torch.randn(4, 8), torch.tensor([1])
    with pytest.raises(ValueError, match="adds the source itself, not -2 of it"):
        warpsmith.index_add(x, 0, index, x[:1], alpha=-2, rung="bulk_reduce")


def test_sums_of_nothing_change_nothing(device: str) -> None:
    """Not even the sign of a zero, whatever alpha is; of a NaN a GPU may give other bits."""
    x = torch.tensor([[-0.0, 0.0, 1.0, torch.inf]], device=device).repeat(3, 1)
    index, source = torch.tensor([1], device=device), torch.ones(1, 4, device=device)
    for alpha in (1, torch.inf):
        y = warpsmith.index_add(x, 0, index, source, alpha=alpha, rung="own_columns")
        assert torch.equal(y[::2].view(torch.int32), x[::2].view(torch.int32))
        assert_close(y[1], x[1] + alpha)


@pytest.mark.parametrize("wrong", [-1, 24, 2**32 + 1])
def test_an_index_that_a_line_has_not(wrong: int) -> None:
    x, index = torch.randn(3, 24).half(), indices(3, 36, rows=24)
    want = torch.gather(x, 1, index)
    index[1, 7] = wrong
    want[1, 7] = 7
    out = torch.full((3, 36), 7).half()
    with pytest.raises(ValueError, match=f"index {wrong} at position 43 of 'index'"):
        warpsmith.gather(x, 1, index, rung="take_lines", out=out)
    assert torch.equal(out, want)


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("wrong", [None, -1, 24, 2**32 + 1])
def test_an_index_that_sums_of_a_line_have_not(
    wrong: int | None, in_place: bool, device: str
) -> None:
    """Of lanes that are all at one sum, too: the second line's."""
    x = torch.randn(3, 24, device=device).half()
    index, src = indices(3, 300, rows=24, device=device), torch.randn(3, 300, device=device).half()
    index[1] = 5
    sound, rest = index.clone(), src.clone()
    if wrong is not None:
        index[1, 7], index[2, 299] = wrong, wrong
        sound[1, 7] = sound[2, 299] = rest[1, 7] = rest[2, 299] = 0
    want = torch.scatter_add(x.float(), 1, sound, rest.float()).half()
    out = x if in_place else torch.empty_like(x)

    def call() -> None:
        warpsmith.scatter_add(x, 1, index, src, rung="add_lines", out=out)
        warpsmith.check()

    if wrong is None:
        call()
    else:
        with pytest.raises(ValueError, match=rf"index {wrong} at position (307|899) of 'index'"):
            call()
    assert_close(out, want)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
def test_a_list_of_which_a_line_of_sums_is_made(dtype: torch.dtype, device: str) -> None:
    x, source = torch.randn(3, 24, device=device), torch.randn(3, 36, device=device)
    index = indices(36, rows=24, device=device)
    got = warpsmith.index_add(x, 1, index.to(dtype), source, alpha=-2, rung="add_lines")
    assert_close(got, torch.index_add(x, 1, index, source, alpha=-2))
    index[7] = 24
    keeps = [i for i in range(36) if i != 7]
    want = torch.index_add(x, 1, index[keeps], source[:, keeps], alpha=-2)
    out = torch.empty_like(x)
    with pytest.raises(ValueError, match="index 24 at position 7 of 'index'"):
        warpsmith.index_add(x, 1, index.to(dtype), source, alpha=-2, rung="add_lines", out=out)
        warpsmith.check()
    assert_close(out, want)


def test_lines_of_sums_that_are_no_whole_vectors_are_left_to_others() -> None:
    memory = torch.randn(4 * 24 + 4).half()
    x, index, src = memory[:96].view(4, 24), indices(4, 36, rows=16), torch.randn(4, 36).half()
    for of_x, of_index, of_src in (
        (memory[4:].view(4, 24), index, src),
        (memory[:84].view(4, 21), index, src),
        (x, index[:, 1:], src[:, 1:]),
        (x, index[:, ::2], src[:, ::2]),
        (x, index[:3], src[:3]),  # a line that gets nothing
    ):
        with pytest.raises(ValueError, match="takes lines of whole vectors along the dimension"):
            warpsmith.scatter_add(of_x, 1, of_index, of_src, rung="add_lines")
        want = torch.scatter_add(of_x, 1, of_index, of_src)
        assert_close(warpsmith.scatter_add(of_x, 1, of_index, of_src), want)
    with pytest.raises(ValueError, match="takes lines of up to 24576 elements, not 24584"):
        warpsmith.scatter_add(torch.zeros(4, 24584).half(), 1, index, src, rung="add_lines")


def test_strips_of_columns_that_have_none() -> None:
    x, index = torch.randn(4, 7), indices(9, 7, rows=4)
    with pytest.raises(ValueError, match="takes several strips of columns"):
        warpsmith.gather(x, 0, index, rung="take_strips")
    with pytest.raises(ValueError, match="takes several strips of columns"):
        warpsmith.scatter_add(x, 0, index, torch.randn(9, 7), rung="add_strips")


@WRONG
@pytest.mark.parametrize("outer", [1, 2])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
def test_an_index_that_a_block_has_no_row_of(
    wrong: int, outer: int, dtype: torch.dtype, device: str
) -> None:
    if dtype == torch.int32:
        wrong = min(wrong, 2**31 - 1)
    x = torch.randn(outer, 4, 12, device=device).half()
    index = indices(outer, 70, 12, rows=4, device=device)
    want = torch.gather(x, 1, index)
    index[-1, 67, 6], want[-1, 67, 6] = wrong, 7
    out = torch.full((outer, 70, 12), 7, device=device).half()
    place = (70 * outer - 3) * 12 + 6
    with pytest.raises(ValueError, match=rf"index {wrong} at position {place} of 'index'"):
        warpsmith.gather(x, 1, index.to(dtype), rung="take_columns", out=out)
        warpsmith.check()
    assert torch.equal(out, want)


def test_columns_that_are_no_whole_vectors_are_left_to_others() -> None:
    x, index = torch.randn(4 * 24 + 1), indices(9, 24, rows=4)
    for refused, of_it in (
        (x[1:].view(4, 24), index),
        (x[:92].view(4, 23), index[:, :23]),
        (x[:96].view(4, 24), index[:, 1:]),
        (x[:96].view(24, 4).t(), index),
    ):
        with pytest.raises(ValueError, match="takes columns along the dimension"):
            warpsmith.gather(refused, 0, of_it, rung="take_columns")
        assert torch.equal(warpsmith.gather(refused, 0, of_it), torch.gather(refused, 0, of_it))
    with pytest.raises(ValueError, match="takes up to 384 rows, not 385"):
        warpsmith.gather(torch.zeros(385, 24), 0, index, rung="take_columns")


def test_lines_that_are_no_whole_vectors_are_left_to_others() -> None:
    x, index = torch.randn(4 * 24 + 4).half(), indices(4, 36, rows=16)
    for refused, of_it in (
        (x[4:].view(4, 24), index),
        (x[:84].view(4, 21), index),
        (x[:96].view(4, 24), index[:, 1:]),
        (x[:96].view(4, 24), index[:, ::2]),
        (x[:96].view(24, 4).t(), index),
    ):
        with pytest.raises(ValueError, match="takes lines of whole vectors"):
            warpsmith.gather(refused, 1, of_it, rung="take_lines")
        assert torch.equal(warpsmith.gather(refused, 1, of_it), torch.gather(refused, 1, of_it))
    with pytest.raises(ValueError, match="lines of up to 24576 elements, not 24580"):
        warpsmith.gather(torch.zeros(1, 24580), 1, index[:1], rung="take_lines")


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


def test_compiles(device: str) -> None:
    def loss(x: torch.Tensor, index: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
        added = warpsmith.index_add(x, 0, index, source)
        return warpsmith.index_select(added, 0, index).square().sum()

    x = torch.randn(6, 8, device=device, requires_grad=True)
    source = torch.randn(9, 8, device=device, requires_grad=True)
    index = indices(9, rows=6, device=device)
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    ours = torch.autograd.grad(compiled(x, index, source), (x, source))
    right = torch.index_add(x, 0, index, source).index_select(0, index).square().sum()
    for mine, want in zip(ours, torch.autograd.grad(right, (x, source)), strict=True):
        assert_close(mine, want)
