"""Sparse products by torch's arguments: its sparse tensors, gradients, what is refused and raised.

What they compute in general is tested where all operations are.
"""

import json
import re
from typing import Any

import bench_matrices
import networkx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
import warpsmith
from warpsmith._catalogue import OPERATIONS
from warpsmith._libraries import has_gpu

INDICES = pytest.mark.parametrize("index", [torch.int32, torch.int64], ids=str)
DTYPES = pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16], ids=str
)


def matrix(
    dtype: torch.dtype = torch.float32,
    index: torch.dtype = torch.int32,
    device: str = "cpu",
    rows: int = 37,
    columns: int = 23,
) -> torch.Tensor:
    generator = torch.Generator().manual_seed(rows)
    dense = torch.randn(rows, columns, generator=generator, dtype=torch.float64)
    dense[torch.rand(dense.shape, generator=generator) < 0.8] = 0
    dense[3:6] = 0
    sparse = dense.to_sparse_csr()
    crow, col = sparse.crow_indices().to(index), sparse.col_indices().to(index)
    values = sparse.values().to(dtype)
    return torch.sparse_csr_tensor(crow, col, values, dense.shape, device=device)


def dense_of(a: torch.Tensor) -> torch.Tensor:
    wide = torch.sparse_csr_tensor(
        a.crow_indices().cpu(), a.col_indices().cpu(), a.values().double().cpu(), a.shape
    )
    return wide.to_dense()


def operand(*shape: int, dtype: torch.dtype = torch.float32, device: str = "cpu") -> torch.Tensor:
    generator = torch.Generator().manual_seed(len(shape))
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype).to(device)


def close(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    allowed = 1e-2 if ours.dtype in (torch.float16, torch.bfloat16) else 1e-5
    torch.testing.assert_close(ours.cpu(), theirs.to(ours.dtype), rtol=allowed, atol=allowed)


@DTYPES
@INDICES
def test_torchs_sparse_tensors(dtype: torch.dtype, index: torch.dtype, device: str) -> None:
    a = matrix(dtype, index, device)
    x = operand(23, dtype=dtype, device=device)
    b = operand(23, 8, dtype=dtype, device=device)
    close(warpsmith.spmv(a, x), dense_of(a) @ x.double().cpu())
    close(warpsmith.spmm(a, b), dense_of(a) @ b.double().cpu())
    parts = (a.crow_indices(), a.col_indices(), a.values())
    assert torch.equal(warpsmith.spmv(*parts, x), warpsmith.spmv(a, x))
    assert torch.equal(warpsmith.spmm(*parts, b), warpsmith.spmm(a, b))


def dense_row() -> sp.csr_array:
    """Every other row is empty, and one has an entry in each column."""
    matrix = sp.random_array((40, 300), density=0.01, rng=5, format="lil")
    matrix[::2] = 0
    matrix[17] = np.arange(300) % 7 + 1
    return sp.csr_array(matrix)


def block_diagonal() -> sp.csr_array:
    return sp.csr_array(sp.block_diag([np.full((n, n + 1), n + 0.5) for n in range(1, 9)]))


# What scipy and networkx make: what tools/bench_matrices.py times, small, and corners of the two.
MADE = {name: lambda make=make: make(70) for name, make in bench_matrices.MATRICES.items()} | {
    "random": lambda: sp.random_array((83, 61), density=0.1, rng=5, format="csr"),
    "block diagonal": block_diagonal,
    "a dense row": dense_row,
    "no entries": lambda: sp.csr_array((13, 7), dtype=np.float64),
    "no rows": lambda: sp.csr_array((0, 7), dtype=np.float64),
    "explicit zeros": lambda: sp.csr_array(([0.0, 2, 0], [1, 1, 4], [0, 2, 2, 3]), shape=(3, 5)),
    "grid": lambda: bench_matrices.graph(networkx.grid_2d_graph(9, 7)),
    "path": lambda: bench_matrices.graph(networkx.path_graph(50)),
    "no edges": lambda: bench_matrices.graph(networkx.empty_graph(6)),
    "directed": lambda: bench_matrices.graph(networkx.gnp_random_graph(40, 0.1, 3, directed=True)),
}


@pytest.mark.parametrize("name", MADE)
@INDICES
def test_matrices_of_scipy_and_networkx(name: str, index: torch.dtype, device: str) -> None:
    """By compressed rows and by coordinates, in every rung, as scipy multiplies.

    Numbers are small and whole: sums are exact, in whichever order.
    """
    a = MADE[name]()
    a.data = np.rint(4 * a.data)
    host = np.random.default_rng(7).integers(-8, 9, a.shape[1]).astype(np.float64)
    want = torch.from_numpy(a @ host)
    coo = a.tocoo()  # by rows
    shuffled = np.random.default_rng(8).permutation(a.nnz)
    for dtype in (torch.float32, torch.float64):

        def moved(array: np.ndarray, to: torch.dtype = dtype) -> torch.Tensor:
            return torch.from_numpy(np.array(array)).to(device, to)

        def same(y: torch.Tensor) -> None:
            assert torch.equal(y.cpu().double(), want)

        x, values = moved(host), moved(a.data)
        compressed = moved(a.indptr, index), moved(a.indices, index), values
        same(warpsmith.spmv(*compressed, x))
        same(warpsmith.spmm(*compressed, x[:, None])[:, 0])
        for rung in OPERATIONS["spmv_csr"].rungs:
            same(warpsmith.spmv(*compressed, x, rung=rung["name"]))
        for order, ordered in ((np.arange(a.nnz), True), (shuffled, False)):
            row, col = (moved(at[order], index) for at in coo.coords)
            numbers = moved(coo.data[order])
            whole = torch.sparse_coo_tensor(torch.stack((row, col)), numbers, a.shape)
            same(warpsmith.spmv(whole, x))
            for rung in (None, *(rung["name"] for rung in OPERATIONS["spmv_coo"].rungs)):
                if rung == "coo_segments" and not ordered:
                    continue
                how = {"rows": a.shape[0], "ordered": ordered, "rung": rung}
                same(warpsmith.spmv_coo(numbers, row, col, x, **how))
    warpsmith.check()


def test_the_benchmark_of_such_matrices(capsys: pytest.CaptureFixture[str]) -> None:
    """Its products are right; its times are a GPU's, or none."""
    assert bench_matrices.main(["--rows", "64", "--runs", "2", "--rung", "scalar", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["matrix"] for one in told["results"]] == list(bench_matrices.MATRICES)
    for one in told["results"]:
        assert [m["name"] for m in one["measurements"]] == ["best", "scalar", "torch"]
        for m in one["measurements"]:
            assert m["verdict"] == "passed"
            assert (m["median_us"] is not None) == has_gpu()
    assert bench_matrices.main(["star", "--rows", "64", "--runs", "2", "--dtype", "f64"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("star: f64, 64 x 64, 126 entries, the longest row has 63\n")
    assert text.count(" torch") == 1 + 2 * has_gpu()
    for wrong in (["moon"], ["--rows", "31"], ["star", "--rows", "64", "--rung", "none"]):
        with pytest.raises(SystemExit):
            bench_matrices.main(wrong)


# On a GPU over 2^31 entries, whose places and sums of places need 64 bits.
SIZES = [
    pytest.param("cpu", 4, id="cpu"),
    pytest.param("cuda", 20, marks=pytest.mark.cuda, id="cuda-large"),
]


@pytest.mark.parametrize(("device", "bits"), SIZES, indirect=["device"])
def test_rows_of_2048(device: str, bits: int) -> None:
    """2^bits rows of 0 to 4096 entries, 2048 on average, and one of 4096: y is their length.

    Entries of the last eighth, and the last row's, are 2, so that it matters which are read. Sums
    are exact in f16: what is above 2048 is even, and above 4096 a multiple of four.
    """
    rows, width = 2**bits + 1, 8
    entries = 2048 * 2**bits + 4096
    if device == "cuda":
        torch.cuda.empty_cache()  # of what tests before had
        if torch.cuda.mem_get_info()[0] < 40 << 30:
            pytest.skip("needs 40 GB of GPU memory")
    # In pairs of 2048 - k and 2048 + k, so that those of an even row begin at a multiple of 4096.
    k = 2 * (torch.arange(rows // 2) * 389 % 1025)
    lengths = torch.cat((torch.stack((2048 - k, 2048 + k), 1).flatten(), torch.tensor([4096])))
    want = lengths.double()
    want[7 * rows // 8 :] *= 2
    crow = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
    assert crow[-1] == entries and crow[7 * rows // 8] % 4096 == 0
    values = torch.ones(entries, dtype=torch.float16, device=device)
    values[crow[7 * rows // 8] :] = 2
    col = torch.empty(entries, dtype=torch.int32, device=device)
    col.view(-1, 4096).copy_(torch.arange(4096, device=device))
    x = torch.ones(4096, dtype=torch.float16, device=device)

    row = torch.empty_like(col)
    for some in torch.arange(rows).split(1 << 16):
        numbers = torch.repeat_interleave(some.int().to(device), lengths[some].to(device))
        row[crow[some[0]] : crow[some[-1] + 1]] = numbers
    for rung in ("coo_segments", "coo_atomic"):
        y = warpsmith.spmv_coo(values, row, col, x, rows=rows, ordered=True, rung=rung)
        assert torch.equal(y.cpu().double(), want), rung
    del row, numbers

    crow, col = crow.to(device), col.long()
    for rung in [row["name"] for row in OPERATIONS["spmv_csr"].rungs]:
        y = warpsmith.spmv_csr(values, crow, col, x, rung=rung)
        assert torch.equal(y.cpu().double(), want), rung
    b = x[:, None].repeat(1, width)
    for rung in [row["name"] for row in OPERATIONS["spmm_csr"].rungs]:
        c = warpsmith.spmm_csr(values, crow, col, b, rung=rung)
        assert torch.equal(c.cpu().double(), want[:, None].expand(rows, width)), rung
    warpsmith.check()


LAYOUTS = pytest.mark.parametrize("layout", ["coalesced", "any order", "blocks", "slots"])


def as_layout(a: torch.Tensor, layout: str) -> tuple[torch.Tensor, ...]:
    """A matrix in compressed rows as what `spmv` takes before x; gradients reach its values."""
    if layout == "blocks":
        return (a.to_dense().to_sparse_bsr((3, 2)),)
    dense = a.to_dense()
    if layout == "slots":
        columns = torch.arange(dense.shape[1], device=a.device).expand(dense.shape)
        return torch.where(dense == 0, -1, columns), dense
    coo = dense.to_sparse_coo()
    if layout == "coalesced":
        return (coo,)
    # Each entry in two halves, the last one first.
    indices, values = coo.indices().flip(1), coo.values().flip(0) / 2
    return (torch.sparse_coo_tensor(indices.repeat(1, 2), values.repeat(2), coo.shape),)


@DTYPES
@LAYOUTS
def test_other_layouts(dtype: torch.dtype, layout: str, device: str) -> None:
    a = matrix(dtype, rows=36, columns=24, device=device)
    x = operand(24, dtype=dtype, device=device)
    parts = as_layout(a, layout)
    want = dense_of(a) @ x.double().cpu()
    close(warpsmith.spmv(*parts, x), want)
    added = operand(36, dtype=dtype, device=device)
    ours = warpsmith.spmv(*parts, x, added=added, alpha=-2.0, beta=0.5)
    close(ours, -2 * want + 0.5 * added.double().cpu())
    assert torch.equal(ours, warpsmith.spmv(*parts, x, added=added, alpha=-2.0, beta=0.5))


def test_blocks_by_their_tensors(device: str) -> None:
    a = matrix(rows=36, columns=24, device=device).to_dense().to_sparse_bsr((4, 8))
    x = operand(24, device=device)
    parts = (a.crow_indices(), a.col_indices(), a.values())
    assert torch.equal(warpsmith.spmv(*parts, x), warpsmith.spmv(a, x))


@pytest.mark.parametrize("layout", ["rows", "blocks", "coalesced"])
def test_compiles_around_torchs_sparse_tensors(layout: str, device: str) -> None:
    a = matrix(rows=36, columns=24, device=device)
    (made,) = (a,) if layout == "rows" else as_layout(a, layout)
    x = operand(24, device=device)
    compiled = torch.compile(lambda m, d: warpsmith.spmv(m, d * 2) + 1, backend="aot_eager")
    assert torch.equal(compiled(made, x), warpsmith.spmv(made, x * 2) + 1)
    b = operand(24, 8, device=device)
    if layout == "rows":
        product = torch.compile(lambda m, d: warpsmith.spmm(m, d) * 2, backend="aot_eager")
        assert torch.equal(product(made, b), warpsmith.spmm(made, b) * 2)


@LAYOUTS
def test_gradients_of_other_layouts(layout: str) -> None:
    a = matrix(torch.float64, torch.int64, rows=12, columns=8)
    parts = as_layout(a, layout)
    values = parts[-1]
    x = operand(8, dtype=torch.float64).requires_grad_()
    added = operand(12, dtype=torch.float64).requires_grad_()
    if layout == "slots":
        numbers = values.clone()
    else:
        numbers = (values.values() if layout == "blocks" else values._values()).clone()
    numbers.requires_grad_()

    def product(numbers: torch.Tensor, x: torch.Tensor, added: torch.Tensor) -> torch.Tensor:
        if layout == "slots":
            sparse = (parts[0], numbers)
        elif layout == "blocks":
            indices = (values.crow_indices(), values.col_indices())
            sparse = (torch.sparse_bsr_tensor(*indices, numbers, a.shape),)
        else:
            sparse = (torch.sparse_coo_tensor(values._indices(), numbers, a.shape),)
        return warpsmith.spmv(*sparse, x, added=added, alpha=1.5, beta=-2.0)

    assert torch.autograd.gradcheck(product, (numbers, x, added))


def test_scaled_and_added(device: str) -> None:
    a = matrix(device=device)
    x, added = operand(46, device=device)[::2], operand(37, 1, device=device)[:, 0]
    want = -2 * dense_of(a) @ x.double().cpu() + 0.5 * added.double().cpu()
    close(warpsmith.spmv(a, x, added=added, alpha=-2.0, beta=0.5), want)
    added = torch.full((37,), float("nan"), device=device)
    close(warpsmith.spmv(a, x, added=added, beta=0.0), dense_of(a) @ x.double().cpu())


@pytest.mark.parametrize("layout", ["parts", "tensor"])
def test_gradients(layout: str) -> None:
    a = matrix(torch.float64, torch.int64)
    crow, col = a.crow_indices(), a.col_indices()

    def operands(values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        if layout == "parts":
            return crow, col, values
        return (torch.sparse_csr_tensor(crow, col, values, a.shape),)

    values = a.values().clone().requires_grad_()
    x = operand(23, dtype=torch.float64).requires_grad_()
    added = operand(37, dtype=torch.float64).requires_grad_()
    b = operand(23, 4, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda values, x, added: warpsmith.spmv(
            *operands(values), x, added=added, alpha=1.5, beta=-2.0
        ),
        (values, x, added),
    )
    assert torch.autograd.gradcheck(
        lambda values, b: warpsmith.spmm(*operands(values), b), (values, b)
    )


@DTYPES
@INDICES
def test_sampled_product(dtype: torch.dtype, index: torch.dtype, device: str) -> None:
    a = matrix(dtype, index, device)
    crow, col = a.crow_indices(), a.col_indices()
    left = operand(37, 8, dtype=dtype, device=device)
    right = operand(23, 8, dtype=dtype, device=device)
    rows = torch.repeat_interleave(torch.arange(37), crow.cpu().diff())
    want = (left.double().cpu() @ right.double().cpu().T)[rows, col.cpu()]
    close(warpsmith.sddmm_csr(left, crow, col, right), want)


def test_gradients_of_the_sampled_product_and_of_gradients() -> None:
    a = matrix(torch.float64, torch.int32)
    crow, col = a.crow_indices(), a.col_indices()
    values = a.values().clone().requires_grad_()
    left = operand(37, 3, dtype=torch.float64).requires_grad_()
    right = operand(23, 3, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda left, right: warpsmith.sddmm_csr(left, crow, col, right), (left, right)
    )
    assert torch.autograd.gradgradcheck(
        lambda values, right: warpsmith.spmm(crow, col, values, right), (values, right)
    )


def test_entries_behind_the_last_row_have_no_gradient_by_a_matrix() -> None:
    crow = torch.tensor([0, 2, 2, 3], dtype=torch.int32)
    col = torch.tensor([0, 1, 1, 99, -7], dtype=torch.int32)
    values = torch.tensor([1.0, 2, 3, float("nan"), 5], requires_grad=True)
    b = torch.tensor([[2.0, 1], [3, 4]], requires_grad=True)
    c = warpsmith.spmm(crow, col, values, b)
    assert c.tolist() == [[8, 9], [0, 0], [9, 12]]
    c.sum().backward()
    assert values.grad.tolist() == [3, 7, 7, 0, 0]
    assert b.grad.tolist() == [[1, 1], [5, 5]]
    warpsmith.check()


def test_entries_behind_the_last_row_have_no_gradient() -> None:
    crow = torch.tensor([0, 2, 2, 3], dtype=torch.int32)
    col = torch.tensor([0, 1, 1, 99, -7], dtype=torch.int32)
    values = torch.arange(1.0, 6.0).requires_grad_()
    x = torch.tensor([2.0, 3.0], requires_grad=True)
    y = warpsmith.spmv(crow, col, values, x)
    assert y.tolist() == [8, 0, 9]
    y.sum().backward()
    assert values.grad.tolist() == [2, 3, 3, 0, 0]
    assert x.grad.tolist() == [1, 5]


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ((matrix(),), TypeError, "not 1 tensors"),
        ((torch.eye(4).to_sparse_csc(), operand(4)), ValueError, "sparse_csr or sparse_bsr"),
        ((matrix().to_dense().to_sparse_coo(), operand(22)), ValueError, "takes 23 rows"),
        ((matrix().to_dense().to_sparse_coo(), operand(23, 2)), ValueError, "of 1 dimensions"),
        ((torch.eye(4).to_sparse(1), operand(4)), ValueError, "1 sparse and 1 dense"),
        ((torch.eye(4), torch.eye(4), operand(4)), ValueError, "col, i32 or i64"),
        ((torch.eye(4).int(), operand(4, 3), operand(4)), ValueError, "as many of one"),
        (
            (torch.zeros(2).int(), torch.zeros(2).int(), operand(2, 2, 3), operand(4)),
            ValueError,
            "whole columns",
        ),
        ((matrix(), [1.0]), TypeError, "not list"),
        ((matrix().to_dense(), operand(23)), ValueError, "layout sparse_csr"),
        ((matrix(), operand(22)), ValueError, "takes 23 rows"),
        ((matrix(), operand(23, 2)), ValueError, "of 1 dimensions"),
        ((matrix(), operand(23, dtype=torch.float64)), ValueError, "one dtype"),
    ],
)
def test_refused(arguments: tuple[Any, ...], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        warpsmith.spmv(*arguments)


def test_sampled_product_refused() -> None:
    a = matrix()
    crow, col = a.crow_indices(), a.col_indices()
    with pytest.raises(ValueError, match="of an element more than a has rows"):
        warpsmith.sddmm_csr(operand(36, 4), crow, col, operand(23, 4))
    with pytest.raises(ValueError, match="of as many columns"):
        warpsmith.sddmm_csr(operand(37, 4), crow, col, operand(23, 5))
    with pytest.raises(ValueError, match="one dtype"):
        warpsmith.sddmm_csr(operand(37, 4), crow, col, operand(23, 4).double())
    wrong = col.clone()
    wrong[5] = 23
    with pytest.raises(ValueError, match=r"index 23 at position 5 of 'col' is outside \[0, 23\)"):
        warpsmith.sddmm_csr(operand(37, 4), crow, wrong, operand(23, 4))
        warpsmith.check()


def test_wrong_columns_are_raised() -> None:
    a = matrix()
    col = a.col_indices().clone()
    col[5] = 23
    with pytest.raises(ValueError, match=r"index 23 at position 5 of 'col' is outside \[0, 23\)"):
        warpsmith.spmv(a.crow_indices(), col, a.values(), operand(23))
        warpsmith.check()


@pytest.mark.parametrize(
    ("row", "ordered", "told"),
    [
        ([0, 2, 1], True, "index 1 at position 2 of 'row' is outside [2, 3)"),
        ([0, 3, 1], True, "index 3 at position 1 of 'row' is outside [0, 3)"),
        ([0, 3, 1], False, "index 3 at position 1 of 'row' is outside [0, 3)"),
    ],
)
def test_wrong_rows_are_raised(row: list[int], ordered: bool, told: str) -> None:
    col, values, x = torch.tensor([0, 1, 2]), torch.ones(3), torch.ones(5)
    with pytest.raises(ValueError, match=re.escape(told)):
        warpsmith.spmv_coo(values, torch.tensor(row), col, x, rows=3, ordered=ordered)
        warpsmith.check()


def test_padding_is_minus_one() -> None:
    values, x = torch.ones(1, 3), torch.ones(5)
    with pytest.raises(ValueError, match=r"index -2 at position 1 of 'col' is outside \[0, 5\)"):
        warpsmith.spmv(torch.tensor([[-1, -2, 0]]), values, x)
        warpsmith.check()


def test_nothing_to_do(device: str) -> None:
    def none(rows: int) -> torch.Tensor:
        return torch.zeros(rows + 1, dtype=torch.int32, device=device)

    empty = torch.zeros(0, dtype=torch.int32, device=device)
    values, x = empty.float(), torch.ones(5, device=device)
    assert warpsmith.spmv(none(0), empty, values, x).shape == (0,)
    assert warpsmith.spmv(none(3), empty, values, x).tolist() == [0, 0, 0]
    assert warpsmith.spmv(none(3), empty, values, x[:0]).tolist() == [0, 0, 0]
    assert warpsmith.spmm(none(3), empty, values, x[:, None]).tolist() == [[0], [0], [0]]
