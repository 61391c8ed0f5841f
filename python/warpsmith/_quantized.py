"""quantized_linear of any number of dimensions, as torch's linear takes them."""

import functools
from typing import Any

import torch

import warpsmith

_of_rows = warpsmith.quantized_linear


@functools.wraps(_of_rows)
def quantized_linear(x: Any, weight: Any, *arguments: Any, out: Any = None, **keywords: Any) -> Any:
    if not isinstance(weight, torch.Tensor) or not _folds(x):
        return _of_rows(x, weight, *arguments, out=out, **keywords)
    rows = x.reshape(x.shape[:-1].numel(), x.shape[-1])
    if out is None:
        y = _of_rows(rows, weight, *arguments, **keywords)
        return y.reshape(*x.shape[:-1], weight.shape[0])
    shape = (*x.shape[:-1], weight.shape[0])
    if isinstance(out, (tuple, list)) and len(out) == 1:
        (out,) = out
    if not isinstance(out, torch.Tensor) or out.shape != shape:
        given = tuple(out.shape) if isinstance(out, torch.Tensor) else type(out).__name__
        raise ValueError(f"quantized_linear: out is {given}, the result {shape}")
    try:
        folded = out.view(rows.shape[0], shape[-1])
    except RuntimeError:
        raise ValueError(
            f"quantized_linear: out of strides {out.stride()} has rows that are not evenly apart"
        ) from None
    _of_rows(rows, weight, *arguments, out=folded, **keywords)
    return out


def _folds(x: Any) -> bool:
    """Whether its rows lie in other dimensions than one; unseen by modes, which see the call."""
    if not isinstance(x, torch.Tensor):
        return False
    with torch._C.DisableTorchFunction():
        return x.dim() not in (0, 2)


_doc = _of_rows.__doc__ or ""
for _before, _after in (("x: [M, K]", "x: [..., K]"), ("    [M, N]", "    [..., N]")):
    _doc = _doc.replace(_before, _after)
quantized_linear.__doc__ = _doc
del _doc, _before, _after
