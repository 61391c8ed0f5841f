"""torch.mm, torch.matmul and grouped_mm of torch.nn.functional on the kernels of the catalogue.

They are written by hand: the catalogue's gemm, gemv, dot and bmm each take tensors of one rank, and
these choose between them as torch does. Whatever they do beside one call is a view, so that
autograd, torch.compile and the rest see operators that they know.
"""

import math
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn

import torch

import warpsmith
from warpsmith._batch import one_by_one
from warpsmith._catalogue import OPERATIONS


def mm(
    input: torch.Tensor,
    mat2: torch.Tensor,
    out_dtype: torch.dtype | None = None,
    *,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Matrix product, as torch.mm.

    Args:
        input: [M, K], f32, f16 or bf16; any strides.
        mat2: [K, N], dtype of input; any strides.
        out_dtype: The dtype of input, None for that, or torch.float32 of f16 and bf16: sums are not
            rounded then.
        out: Written and returned instead of a new tensor; resized where it has another shape.

    Returns:
        [M, N], dtype of input or out_dtype, accumulated in f32. On a GPU f32 is cut to TF32 where
        torch's settings allow that.

    Raises:
        RuntimeError: as torch raises it, of shapes and dtypes that do not fit.
        TypeError: what is no torch tensor.
        ValueError: dtypes and devices that no kernel takes.
    """
    _check_tensors("mm", input=input, mat2=mat2)
    if out is None:
        input, mat2 = _autocast(input, mat2)
    if input.dim() != 2 or mat2.dim() != 2 or not _fits(input, mat2):
        _raise_as_torch(torch.mm, input, mat2)
    wide = _is_wide(out_dtype, input)
    if not wide and out_dtype not in (None, input.dtype):
        raise ValueError(f"mm: out_dtype is {out_dtype}, of {input.dtype} that or torch.float32")
    shape = (input.shape[0], mat2.shape[1])
    if out is not None:
        _prepare(out, shape, torch.mm, input, mat2, dtype=torch.float32 if wide else None)
    if wide:
        nothing = mat2.new_empty(1)  # which beta says not to read
        return warpsmith.addmm(nothing, input, mat2, beta=0.0, out_dtype="float32", out=out)
    return warpsmith.gemm(input, mat2, out=out, **_precision(input))


def matmul(
    input: torch.Tensor, other: torch.Tensor, *, out: torch.Tensor | None = None
) -> torch.Tensor:
    """Matrix product, as torch.matmul: of vectors, matrices and batches of them.

    A vector on the left is a row, on the right a column, and the result does not have its
    dimension. Dimensions before the last two are a batch, and broadcast. One matrix on the right
    multiplies the rows of the whole batch as one product; everything else is one call of bmm, in
    which a matrix that is broadcast is read where it lies. Only a batch that is broadcast in some
    dimensions and not in others, or whose strides do not merge, is copied.

    Args:
        input: [K], [M, K] or [..., M, K], f32, f16 or bf16; any strides.
        other: [K], [K, N] or [..., K, N], dtype of input; any strides.
        out: Written and returned instead of a new tensor; resized where it has another shape.

    Returns:
        [], [M], [N], [M, N] or [..., M, N], dtype of input, accumulated in f32. On a GPU products
        of matrices of f32 are cut to TF32 where torch's settings allow that.

    Raises:
        RuntimeError: as torch raises it, of shapes and dtypes that do not fit.
        TypeError: what is no torch tensor.
        ValueError: dtypes and devices that no kernel takes.
    """
    _check_tensors("matmul", input=input, other=other)
    if out is None:
        input, other = _autocast(input, other)
    if input.dim() == 0 or other.dim() == 0 or not _fits(input, other):
        _raise_as_torch(torch.matmul, input, other)
    batch = _broadcast(input.shape[:-2], other.shape[:-2])
    if batch is None:
        _raise_as_torch(torch.matmul, input, other)
    rows = input.shape[-2:-1]  # none of a vector
    columns = other.shape[1:][-1:]
    shape = (*batch, *rows, *columns)
    if out is not None:
        _prepare(out, shape, torch.matmul, input, other)

    if other.dim() == 1 and input.dim() == 1:
        return warpsmith.dot(input, other, out=out)
    if other.dim() == 2 and input.dim() == 1:
        return warpsmith.gemv(other.t(), input, out=out)
    if other.dim() <= 2 and (input.dim() == 2 or _folds(input, other, out)):
        inner = input.shape[-1]
        folded = (math.prod(batch) * rows[0], *columns)
        left = input if input.dim() == 2 else input.reshape(folded[0], inner)
        function = warpsmith.gemv
        if other.dim() == 2:
            function = partial(warpsmith.gemm, **_precision(input))
        return _in_shape(function, left, other, folded, shape, out)

    left = input.unsqueeze(0) if input.dim() == 1 else input
    right = other.unsqueeze(1) if other.dim() == 1 else other
    left, right = _batch_of(left, batch), _batch_of(right, batch)
    folded = (left.shape[0], left.shape[1], right.shape[2])
    function = partial(warpsmith.bmm, **_precision(input))
    return _in_shape(function, left, right, folded, shape, out)


def grouped_mm(
    mat_a: torch.Tensor,
    mat_b: torch.Tensor,
    *,
    offs: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """A product for each group, as torch.nn.functional.grouped_mm.

    Rows that torch leaves unwritten, those after the last group, are zeros here. Strides are any,
    also those that torch refuses. Wrong offsets are found on the device: the next call raises it.

    Args:
        mat_a: [T, K], rows in groups; [M, T], T in groups, where mat_b is [T, N]; or [G, M, K].
            f32, f16 or bf16.
        mat_b: [G, K, N]; [T, N]; or [K, N], columns in groups, where mat_a is [G, M, K]. Dtype of
            mat_a.
        offs: i32 [G], where each group ends; None where both are batches.
        bias: None: torch has none yet.
        out_dtype: The dtype of mat_a, None for that, or torch.float32 of f16 and bf16: sums are not
            rounded then.

    Returns:
        [T, N]; [G, M, N]; or [M, N]. Dtype of mat_a or out_dtype, accumulated in f32. On a GPU
        batches of f32 are cut to TF32 where torch's settings allow that.

    Raises:
        RuntimeError: as torch raises it, of shapes and dtypes that do not fit.
        TypeError: what is no torch tensor.
        ValueError: dtypes and devices that no kernel takes.
    """
    _check_tensors("grouped_mm", mat_a=mat_a, mat_b=mat_b)
    ranks = (mat_a.dim(), mat_b.dim())
    grouped = ranks != (3, 3)
    fits = (
        set(ranks) <= {2, 3}
        and mat_a.dtype == mat_b.dtype
        and mat_a.shape[-1] == mat_b.shape[-2]
        and grouped == (offs is not None)
        and bias is None
        and (out_dtype in (None, mat_a.dtype) or _is_wide(out_dtype, mat_a))
    )
    if fits and offs is not None:
        groups = mat_a.shape[0] if ranks[0] == 3 else mat_b.shape[0]
        fits = (
            offs.dim() == 1
            and offs.dtype == torch.int32
            and (ranks == (2, 2) or offs.shape[0] == groups)
        )
    elif fits:
        fits = mat_a.shape[0] == mat_b.shape[0]
    if not fits:
        torch.nn.functional.grouped_mm(mat_a, mat_b, offs=offs, bias=bias, out_dtype=out_dtype)
        shapes = [tuple(x.shape) for x in (mat_a, mat_b)]
        raise ValueError(f"grouped_mm does not take tensors of {shapes}")
    kind = {"out_dtype": "float32"} if _is_wide(out_dtype, mat_a) else {}
    if ranks == (3, 3):
        return warpsmith.bmm(mat_a, mat_b, **kind, **_precision(mat_a))
    if ranks == (2, 2):
        return warpsmith.grouped_gemm_weight(mat_a, mat_b, offs, **kind)
    if ranks == (2, 3):
        return warpsmith.grouped_gemm(mat_a, mat_b, offs, **kind)
    # Columns are rows of the transpose.
    return warpsmith.grouped_gemm(mat_b.t(), mat_a.mT, offs, **kind).t()


for _function in (mm, matmul, grouped_mm):
    _function.__module__ = "warpsmith"
del _function


def _register_vmap(name: str) -> None:
    """Makes a batch of calls of a product one of bmm; of one matrix on the right, one of gemm."""
    operator = getattr(torch.ops.warpsmith, name)

    def rule(
        info: Any, in_dims: tuple[int | None, int | None], *inputs: Any, **keywords: Any
    ) -> tuple[torch.Tensor, int]:
        left, right = (
            x if d is None else x.movedim(d, 0) for x, d in zip(inputs, in_dims, strict=True)
        )
        if keywords.get("rung") is not None:  # which bmm has not
            tensors = (left, right)
            return one_by_one(name, operator, info.batch_size, in_dims, tensors, keywords), 0
        layout = keywords.get("layout", "nn")
        ranks = [x.dim() - (d is not None) for x, d in zip((left, right), in_dims, strict=True)]
        left = left.mT if layout[0] == "t" else left.unsqueeze(-2) if ranks[0] == 1 else left
        right = right.unsqueeze(-1) if ranks[1] == 1 else right.mT if layout[1] == "t" else right
        # What gemm and bmm have and what bmm has; gemv and dot have neither.
        precision = {k: v for k, v in keywords.items() if k == "precision"}
        kind = {k: v for k, v in keywords.items() if k == "out_dtype"}
        if name == "gemm" and right.dim() == 2:
            product = operator(left.flatten(0, 1), right, **precision).unflatten(0, left.shape[:2])
        else:
            batch = _broadcast(left.shape[:-2], right.shape[:-2])
            product = warpsmith.bmm(
                _batch_of(left, batch), _batch_of(right, batch), **precision, **kind
            )
            product = product.unflatten(0, batch)
        product = product.squeeze(-1) if ranks[1] == 1 else product
        return product.squeeze(-1) if ranks[0] == 1 else product, 0

    torch.library.register_vmap(f"warpsmith::{name}", rule)


for _name in ("gemm", "bmm", "gemv", "dot"):
    if _name in OPERATIONS:  # another catalogue (WARPSMITH_LIBRARY) need not have it
        _register_vmap(_name)


def _check_tensors(name: str, **tensors: Any) -> None:
    for position, (argument, tensor) in enumerate(tensors.items(), 1):
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(
                f"{name}(): argument '{argument}' (position {position}) must be Tensor, "
                f"not {type(tensor).__name__}"
            )


def _is_wide(out_dtype: torch.dtype | None, input: torch.Tensor) -> bool:
    """Whether the result is to be of f32 and the operands are not."""
    return out_dtype == torch.float32 and input.dtype in (torch.float16, torch.bfloat16)


def _fits(input: torch.Tensor, other: torch.Tensor) -> bool:
    inner = other.shape[0] if other.dim() == 1 else other.shape[-2]
    return input.dtype == other.dtype and input.shape[-1] == inner


def _autocasts(tensor: torch.Tensor) -> bool:
    """Whether torch.autocast is on where a tensor is.

    It does not know every device (meta); of those that it does not the operation says that no
    kernel takes them.
    """
    kind = tensor.device.type
    return kind in ("cpu", "cuda") and torch.is_autocast_enabled(kind)


def _autocast(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """What torch.autocast makes of the arguments of a product."""
    if not _autocasts(tensors[0]):
        return tensors
    dtype = torch.get_autocast_dtype(tensors[0].device.type)
    return tuple(
        [x.to(dtype) if x.is_floating_point() and x.dtype != torch.float64 else x for x in tensors]
    )


def _precision(tensor: torch.Tensor) -> dict[str, str]:
    """What gemm is told where torch's settings let matrix products of f32 on a GPU be cut to TF32.

    That is one setting under several names: allow_tf32, fp32_precision, "high" and "medium" of
    torch.set_float32_matmul_precision.
    """
    if not tensor.is_cuda or tensor.dtype != torch.float32:
        return {}
    settings = torch.backends.cuda.matmul
    # torch.compile knows the old name alone, which raises where the setting was made by the new.
    old = torch.compiler.is_compiling()
    allowed = settings.allow_tf32 if old else settings.fp32_precision == "tf32"
    return {"precision": "tf32"} if allowed else {}


def _broadcast(left: Sequence[int], right: Sequence[int]) -> tuple[int, ...] | None:
    """The batch of two; None where they do not broadcast."""
    rank = max(len(left), len(right))
    left = (*((1,) * (rank - len(left))), *left)
    right = (*((1,) * (rank - len(right))), *right)
    if any(x != y and x != 1 and y != 1 for x, y in zip(left, right, strict=True)):
        return None
    return tuple([y if x == 1 else x for x, y in zip(left, right, strict=True)])


def _folds(input: torch.Tensor, other: torch.Tensor, out: torch.Tensor | None) -> bool:
    """Whether a batch times one matrix is one product of all rows.

    It is where the rows lie evenly. Where the matrix wants a gradient it is always, as in torch: a
    copy is less than a gradient for every product of the batch, and their sum.
    """
    if out is None and other.requires_grad and torch.is_grad_enabled():
        return True
    shape, strides = input.shape, input.stride()
    return input.numel() == 0 or all(
        shape[d] == 1 or strides[d] == strides[d + 1] * shape[d + 1] for d in range(len(shape) - 2)
    )


def _batch_of(tensor: torch.Tensor, batch: tuple[int, ...]) -> torch.Tensor:
    """[B, rows, columns], broadcast to the batch; a view where strides allow it."""
    matrix = tensor.shape[-2:]
    return tensor.expand(*batch, *matrix).reshape(math.prod(batch), *matrix)


def _in_shape(
    function: Callable[..., torch.Tensor],
    left: torch.Tensor,
    right: torch.Tensor,
    folded: tuple[int, ...],
    shape: tuple[int, ...],
    out: torch.Tensor | None,
) -> torch.Tensor:
    """function(left, right), which is of the shape `folded`, in `shape`."""
    # A vector by a batch of two dimensions is of as many as its folded product, and another shape.
    is_folded = len(shape) == len(folded) and shape == folded
    if out is None:
        result = function(left, right)
        return result if is_folded else result.view(shape)
    if is_folded:
        return function(left, right, out=out)
    if not out.is_contiguous():
        return out.copy_(function(left, right).view(shape))
    function(left, right, out=out.view(folded))
    return out


def _prepare(
    out: torch.Tensor,
    shape: tuple[int, ...],
    function: Callable[..., torch.Tensor],
    *inputs: torch.Tensor,
    dtype: torch.dtype | None = None,
) -> None:
    """Gives `out` its shape, as torch's functions do, or raises what they raise."""
    if not isinstance(out, torch.Tensor):
        raise TypeError(
            f"{function.__name__}(): argument 'out' must be Tensor, not {type(out).__name__}"
        )
    wants_gradient = torch.is_grad_enabled() and any(x.requires_grad for x in (*inputs, out))
    if dtype is not None:  # torch's function without out_dtype has another opinion of out
        if out.dtype != dtype:
            raise RuntimeError(f"Expected out tensor to have dtype {dtype}, but got {out.dtype}")
        if wants_gradient:
            raise RuntimeError(
                f"{function.__name__}(): functions with out=... arguments don't support automatic "
                "differentiation, but one of the arguments requires grad."
            )
    elif wants_gradient or out.dtype != inputs[0].dtype:
        _raise_as_torch(function, *inputs, out=out)
    if out.shape != shape:
        if out.numel() > 0:
            warnings.warn(
                f"An output with one or more elements was resized since it had shape "
                f"{[*out.shape]}, which does not match the required output shape {[*shape]}",
                stacklevel=3,
            )
        out.resize_(shape)


def _raise_as_torch(
    function: Callable[..., torch.Tensor], *inputs: Any, out: torch.Tensor | None = None
) -> NoReturn:
    """Raises torch's own error, by asking it for the product that it does not compute either."""
    if out is None:
        function(*inputs)
    else:
        empty = torch.empty(0, dtype=out.dtype, device=out.device, requires_grad=out.requires_grad)
        function(*inputs, out=empty)
    shapes = [tuple(x.shape) for x in inputs if isinstance(x, torch.Tensor)]
    raise ValueError(f"{function.__name__} does not take tensors of {shapes}")
