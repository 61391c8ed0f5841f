"""torch's interpolate on the kernels of the catalogue: images by nearest pixels or bilinear."""

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import torch

import warpsmith
from warpsmith._matmul import _check_tensors, _raise_as_torch

_MODES = ("nearest", "nearest-exact", "bilinear")


def interpolate(
    input: torch.Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> torch.Tensor:
    """torch.nn.functional.interpolate of images: nearest, nearest-exact and bilinear.

    Args:
        input: [N, C, H, W], f32, f16 or bf16. Contiguous and channels_last are fastest.
        size: Rows and columns of the result, or one number for both.
        scale_factor: By how much there are more of them; not with size.
        mode: "nearest", "nearest-exact" or "bilinear".
        align_corners: Of bilinear: the corners' centres stay where they are.
        recompute_scale_factor: Pixels go by the ratio of the sizes, not by scale_factor.
        antialias: False: no kernel has it.

    Returns:
        dtype and memory format of input.

    Raises:
        ValueError: a mode, a dtype or a number of dimensions that no kernel takes; and, as torch
            raises it, what does not go together.
        TypeError: what is no torch tensor.
    """
    name = "interpolate"
    _check_tensors(name, input=input)
    if mode not in _MODES:
        raise ValueError(f"{name} has the modes {', '.join(_MODES)}, not {mode!r}")
    bilinear = mode == "bilinear"
    if bilinear and antialias:
        raise ValueError(f"{name}: antialias is False here, not {antialias}")
    if input.dim() != 4:
        raise ValueError(f"{name} takes images [N, C, H, W], not {list(input.shape)}")
    told = [size is not None, scale_factor is not None]
    pair = _pair(size if scale_factor is None else scale_factor)
    wrong_size = size is not None and not all(_is_whole(one) and one > 0 for one in pair)
    recomputes_size = bool(recompute_scale_factor) and size is not None
    if (
        sum(told) != 1
        or len(pair) != 2
        or wrong_size
        or recomputes_size
        or (align_corners is not None and not bilinear)
        or antialias
    ):
        _raise_as_torch(
            torch.nn.functional.interpolate,
            input.detach(),
            size,
            scale_factor,
            mode,
            align_corners,
            recompute_scale_factor,
            antialias,
        )
    height, width = pair
    if scale_factor is not None:
        height, width = (int(n * by) for n, by in zip(input.shape[2:], pair, strict=True))
    scales = (None, None) if size is not None or recompute_scale_factor else map(float, pair)
    scale_height, scale_width = scales
    # Channels that lie inside stay inside.
    inside = _has_channels_last(input) and not input.is_contiguous()
    # Between pixels 0 times infinity is no number: where no pixel lies between others, a copy.
    if (
        bilinear
        and (height, width) == input.shape[2:]
        and all(scale in (None, 1.0) for scale in (scale_height, scale_width))
        and _is_taken(input)
    ):
        laid = input.permute(0, 2, 3, 1) if inside else input
        copy = laid.clone(memory_format=torch.contiguous_format)
        return copy.permute(0, 3, 1, 2) if inside else copy
    resample = warpsmith.upsample_bilinear2d if bilinear else warpsmith.upsample_nearest2d
    how = {"align_corners": bool(align_corners)} if bilinear else {"exact": mode == "nearest-exact"}
    result = resample(
        input.permute(0, 2, 3, 1) if inside else input,
        height=height,
        width=width,
        scale_height=scale_height,
        scale_width=scale_width,
        channels_last=inside,
        **how,
    )
    return result.permute(0, 3, 1, 2) if inside else result


interpolate.__module__ = "warpsmith"


def _is_taken(input: torch.Tensor) -> bool:
    """Whether kernels take it: the operation says of others why not."""
    taken = (torch.float32, torch.float16, torch.bfloat16)
    return input.dtype in taken and input.device.type in ("cpu", "cuda")


def _is_whole(one: Any) -> bool:
    return isinstance(one, (Integral, torch.SymInt))  # NumPy's and torch.compile's, too


def _has_channels_last(input: torch.Tensor) -> bool:
    """As is_contiguous(memory_format=...) says, which torch.vmap does not know."""
    _, channels, _, width = input.shape
    inner = zip(input.shape[1:], input.stride()[1:], (1, width * channels, channels), strict=True)
    return all(extent == 1 or stride == wanted for extent, stride, wanted in inner)


def _pair(value: object) -> tuple[object, ...]:
    return tuple(value) if isinstance(value, Sequence) else (value, value)
