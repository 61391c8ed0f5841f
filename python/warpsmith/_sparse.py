"""Sparse products by torch's sparse tensors, on the kernels of the catalogue.

The catalogue's `spmv_csr` and `spmm_csr` take the three tensors of a matrix in compressed rows.
Here that may also be a tensor of torch's layout sparse_csr, whose values gradients reach.
"""

from typing import Any

import torch

import warpsmith


def spmv(*arguments: torch.Tensor, **keywords: Any) -> torch.Tensor:
    """Sparse matrix in compressed rows times a vector: of torch's, or `crow, col, values`.

        y = alpha * A x + beta * added

    What is wrong in `crow` or `col` is found on the device, and raised by the next call or by
    `warpsmith.check()`; nothing is read or written out of bounds.

    Args:
        arguments: A tensor of layout sparse_csr, [M, N], and x, [N]; or the matrix' `crow`, `col`
            and `values`, and x.
        keywords: added, alpha, beta, rung and out, as of warpsmith.spmv_csr.

    Returns:
        [M], dtype of values.

    Raises:
        TypeError: what is no torch tensor.
        ValueError: shapes, dtypes and layouts that do not fit.
    """
    crow, col, values, x = _operands("spmv", arguments, 1)
    return warpsmith.spmv_csr(values, crow, col, x, **keywords)


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
    crow, col, values, b = _operands("spmm", arguments, 2)
    return warpsmith.spmm_csr(values, crow, col, b, **keywords)


def _operands(name: str, arguments: tuple[Any, ...], rank: int) -> tuple[torch.Tensor, ...]:
    """crow, col, values and what they are multiplied with."""
    for argument in arguments:
        if not torch.is_tensor(argument):
            raise TypeError(f"{name} takes torch tensors, not {type(argument).__name__}")
    if len(arguments) == 4:
        return arguments
    if len(arguments) != 2:
        raise TypeError(
            f"{name} takes a sparse matrix and a dense operand, or crow, col, values and that, "
            f"not {len(arguments)} tensors"
        )
    matrix, dense = arguments
    if matrix.layout != torch.sparse_csr or matrix.dim() != 2:
        raise ValueError(
            f"{name} takes a matrix of layout sparse_csr, not {matrix.dim()} dimensions of "
            f"{matrix.layout}"
        )
    if dense.dim() != rank or dense.shape[0] != matrix.shape[1]:
        raise ValueError(
            f"{name} takes {matrix.shape[1]} rows of {rank} dimensions for a matrix of "
            f"{tuple(matrix.shape)}, not {tuple(dense.shape)}"
        )
    return matrix.crow_indices(), matrix.col_indices(), matrix.values(), dense


for _function in (spmv, spmm):
    _function.__module__ = "warpsmith"
del _function
