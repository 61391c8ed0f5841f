"""torch.bincount, torch.histc and torch.histogram on the kernels of the catalogue.

The catalogue's operations are told how many bins there are and where they lie, and never ask the
data; torch's ask where the caller does not say. These do that as torch does it: by a minimum and a
maximum, which come to the host, so that the call waits for the device.
"""

import functools
import math
from typing import Any

import torch
from torch._subclasses.fake_tensor import is_fake

import warpsmith
from warpsmith import _as_torch
from warpsmith._matmul import _check_tensors

_histc = warpsmith.histc
_WEIGHTS = (torch.float32, torch.float16, torch.bfloat16)


def bincount(
    input: torch.Tensor, weights: torch.Tensor | None = None, minlength: int = 0
) -> torch.Tensor:
    """How often each value occurs, or the sum of the weights that go with it, as torch.bincount.

    The result has as many bins as the largest value asks for, so that its size depends on the data:
    the call waits for the device, as torch's does. `warpsmith.count_bins` and `sum_bins`, which are
    told how many bins there are, do not wait.

    Args:
        input: 1-d, of integers from 0 on.
        weights: f32, f16 or bf16, the shape of input.
        minlength: The least number of bins.

    Returns:
        [max(input) + 1], or [minlength] where that is more: i64, with weights f32, in which they
        are added up. Of no values i64 zeros, as torch has it.

    Raises:
        RuntimeError: as torch raises it, of shapes, dtypes and values that do not fit.
        TypeError: what is no torch tensor.
        ValueError: weights of other dtypes, which f32 would round.
    """
    given = {"input": input} | ({} if weights is None else {"weights": weights})
    _check_tensors("bincount", **given)
    fits = (
        input.dim() == 1
        and not input.is_floating_point()
        and not input.is_complex()
        and input.dtype != torch.bool
        and minlength >= 0
        and (weights is None or weights.shape == input.shape)
    )
    if not fits:
        torch.bincount(input, weights, minlength)
        raise ValueError(f"bincount does not take {input.dtype} of shape {tuple(input.shape)}")
    if weights is not None and weights.dtype not in _WEIGHTS:
        raise ValueError(f"bincount takes weights of float32 and 16 bits, not {weights.dtype}")
    values = input if input.dtype in (torch.uint8, torch.int32, torch.int64) else input.int()
    if values.numel() == 0:
        return torch.zeros(minlength, dtype=torch.int64, device=input.device)
    ends = (warpsmith.amin(values), warpsmith.amax(values))
    least, largest = (int(end) for end in torch.stack(ends).tolist())
    if least < 0:
        torch.bincount(input, weights, minlength)  # says so
    bins = max(minlength, largest + 1)
    if weights is None:
        return warpsmith.count_bins(values, bins=bins)
    return warpsmith.sum_bins(values, weights.float(), bins=bins)


@functools.wraps(_histc)
def histc(
    input: Any,
    bins: int = 100,
    min: float = 0.0,
    max: float = 0.0,
    *,
    rung: str | None = None,
    out: Any = None,
) -> Any:
    given = {"input": input}
    if min == max and _as_torch.has_proxy(given):
        return _as_torch.recorded(histc, given, {"bins": bins, "rung": rung, "out": out})
    # As torch: the data's range, which has to be waited for.
    if min == max and torch.is_tensor(input):
        min, max = _range_of(input, 1.0)
    return _histc(input, bins, min, max, rung=rung, out=out)


def histogram(
    input: torch.Tensor,
    bins: int | torch.Tensor,
    *,
    range: tuple[float, float] | None = None,
    weight: torch.Tensor | None = None,
    density: bool = False,
) -> Any:
    """How many numbers lie between edges, as torch.histogram.

    Edges that are a tensor are looked at on the device: where one is below the one before it, all
    counts are 0, and the next call raises it. A range that is not given is the data's, which the
    call waits for. `warpsmith.count_between` has exact counts of 64 bits.

    Args:
        input: f32, any shape.
        bins: The edges, f32, in order; or how many bins of one width.
        range: Where the first bin begins and the last one ends.
        weight: f32, the shape of input: what each number counts for, added up by
            `warpsmith.sum_between`; of views, and in more than 512 bins, in the order of arrival.
        density: Divided by the sum of all counts and by the widths.

    Returns:
        hist and bin_edges, f32, as torch.histogram names them.

    Raises:
        TypeError: what is no torch tensor.
        ValueError: dtypes and shapes that no kernel takes.
    """
    _check_tensors("histogram", input=input)
    if input.dtype != torch.float32:
        raise ValueError(f"histogram takes float32, not {input.dtype}")
    if isinstance(bins, torch.Tensor):
        if range is not None:
            torch.histogram(input, bins, range=range)  # says so
        edges = bins
    else:
        low, high = _range_of(input, 0.5) if range is None else range
        if low == high:
            low, high = low - 0.5, high + 0.5
        edges = torch.linspace(low, high, bins + 1, device=input.device)
    if weight is None:
        hist = warpsmith.count_between(input, edges).to(torch.float32)
    else:
        hist = warpsmith.sum_between(input, edges, weight)
    if density:
        hist = hist / (hist.sum() * edges.diff())
    return torch.return_types.histogram((hist, edges))


for _function in (bincount, histc, histogram):
    _function.__module__ = "warpsmith"
del _function


def _range_of(x: torch.Tensor, margin: float) -> tuple[float, float]:
    """The least and the largest element; a range of no width is made wider, as torch does."""
    if x.numel() == 0 or is_fake(x):  # of which only shapes are asked
        return 0.0, 1.0
    low, high = torch.stack((warpsmith.amin(x), warpsmith.amax(x))).tolist()
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(f"histc: range of [{low}, {high}] is not finite")
    return (low - margin, high + margin) if low == high else (low, high)
