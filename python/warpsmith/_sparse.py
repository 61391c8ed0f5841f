"""Sparse products by torch's sparse tensors, on the kernels of the catalogue.

The catalogue's operations take the tensors of a matrix, one operation for each format. Here that
may also be a tensor of torch's layouts sparse_csr, sparse_coo and sparse_bsr, whose values
gradients reach.
"""

from typing import Any

import torch

import warpsmith


def spmv(*arguments: torch.Tensor, **keywords: Any) -> torch.Tensor:
    """Sparse matrix times a vector: a tensor of torch's, or the tensors of its format.

        y = alpha * A x + beta * added

    What is wrong in the matrix' indices is found on the device, and raised by the next call or by
    `warpsmith.check()`; nothing is read or written out of bounds. Of layout sparse_coo one that is
    not coalesced is sorted within the call, or coalesced before it where it has a gradient.

    Args:
        arguments: A tensor of layout sparse_csr, sparse_coo or sparse_bsr, [M, N], and x, [N]; or
            `crow, col, values` of compressed rows, values being [nnz] or blocks, [n, r, c], and x;
            or `col, values` of as many slots in each row, [M, K], padding having column -1, and x.
        keywords: added, alpha, beta, rung and out, as of warpsmith.spmv_csr.

    Returns:
        [M], dtype of values.

    Raises:
        TypeError: what is no torch tensor.
        ValueError: shapes, dtypes and layouts that do not fit.
    """
    _require_tensors("spmv", arguments)
    if len(arguments) == 3:
        col, values, x = arguments
        return warpsmith.spmv_ell(values, col, x, **keywords)
    if len(arguments) == 2:
        return _spmv_of_torch(*arguments, **keywords)
    return _spmv_of_rows(*_operands("spmv", arguments), **keywords)


def spmm(*arguments: torch.Tensor, **keywords: Any) -> torch.Tensor:
    """Sparse matrix in compressed rows times a dense one: of torch's, or `crow, col, values`.

    Args:
        arguments: A tensor of layout sparse_csr, [M, K], and B, [K, N], of any strides; or the
            matrix' `crow`, `col` and `values`, and B.
        keywords: rung and out, as of warpsmith.spmm_csr.

    Returns:
        [M, N], dtype of values.

    Raises:
        TypeError: what is no torch tensor.
        ValueError: shapes, dtypes and layouts that do not fit.
    """
    _require_tensors("spmm", arguments)
    if len(arguments) == 2:
        return _spmm_of_torch(*arguments, **keywords)
    crow, col, values, b = _operands("spmm", arguments)
    return warpsmith.spmm_csr(values, crow, col, b, **keywords)


def _spmv_of_rows(
    crow: torch.Tensor, col: torch.Tensor, values: torch.Tensor, x: torch.Tensor, **keywords: Any
) -> torch.Tensor:
    product = warpsmith.spmv_bsr if values.dim() == 3 else warpsmith.spmv_csr
    return product(values, crow, col, x, **keywords)


@torch.compiler.disable  # which cannot trace what a sparse tensor consists of
def _spmv_of_torch(matrix: torch.Tensor, x: torch.Tensor, **keywords: Any) -> torch.Tensor:
    if matrix.layout == torch.sparse_coo:
        return _coordinates(matrix, x, **keywords)
    return _spmv_of_rows(*_parts_of("spmv", matrix, x, 1), x, **keywords)


@torch.compiler.disable
def _spmm_of_torch(matrix: torch.Tensor, b: torch.Tensor, **keywords: Any) -> torch.Tensor:
    crow, col, values = _parts_of("spmm", matrix, b, 2)
    return warpsmith.spmm_csr(values, crow, col, b, **keywords)


def _coordinates(matrix: torch.Tensor, x: torch.Tensor, **keywords: Any) -> torch.Tensor:
    if matrix.sparse_dim() != 2 or matrix.dense_dim() != 0:
        raise ValueError(
            f"spmv takes a matrix of numbers, not {matrix.sparse_dim()} sparse and "
            f"{matrix.dense_dim()} dense dimensions"
        )
    _require_rows("spmv", matrix, x, 1)
    if matrix.requires_grad:  # whose values torch gives away with their gradient only so
        matrix = matrix.coalesce()
    ordered = matrix.is_coalesced()
    values = matrix.values() if ordered else matrix._values()
    row, col = matrix._indices()
    keywords |= {"rows": matrix.shape[0], "ordered": ordered}
    return warpsmith.spmv_coo(values, row, col, x, **keywords)


def _operands(name: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """crow, col, values and what they are multiplied with."""
    if len(arguments) != 4:
        raise TypeError(
            f"{name} takes a sparse matrix and a dense operand, or the matrix' tensors and that, "
            f"not {len(arguments)} tensors"
        )
    return arguments


def _parts_of(
    name: str, matrix: torch.Tensor, dense: torch.Tensor, rank: int
) -> tuple[torch.Tensor, ...]:
    """crow, col and values of one of torch's."""
    layouts = (torch.sparse_csr, torch.sparse_bsr) if rank == 1 else (torch.sparse_csr,)
    if matrix.layout not in layouts or matrix.dim() != 2:
        names = " or ".join(str(layout).removeprefix("torch.") for layout in layouts)
        raise ValueError(
            f"{name} takes a matrix of layout {names}, not {matrix.dim()} dimensions of "
            f"{matrix.layout}"
        )
    _require_rows(name, matrix, dense, rank)
    return matrix.crow_indices(), matrix.col_indices(), matrix.values()


def _require_tensors(name: str, arguments: tuple[Any, ...]) -> None:
    for argument in arguments:
        if not torch.is_tensor(argument):
            raise TypeError(f"{name} takes torch tensors, not {type(argument).__name__}")


def _require_rows(name: str, matrix: torch.Tensor, dense: torch.Tensor, rank: int) -> None:
    if dense.dim() != rank or dense.shape[0] != matrix.shape[1]:
        raise ValueError(
            f"{name} takes {matrix.shape[1]} rows of {rank} dimensions for a matrix of "
            f"{tuple(matrix.shape)}, not {tuple(dense.shape)}"
        )


for _function in (spmv, spmm):
    _function.__module__ = "warpsmith"
del _function
