"""AdamW of a list of tensors, in one launch, on the kernels of the catalogue.

The catalogue's `multi_tensor_adamw` takes one memory in which everything lies, and a table of where
it does. Here that memory is the stretch of addresses from the first to the last byte of the
tensors, seen as one tensor; the table lists their pieces, and nothing else of the stretch is
touched. What the list says is checked before any address is handed over.
"""

import ctypes
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch

import warpsmith

# Elements of a piece, which a block takes: 16 KiB of f32 of each tensor.
PIECE = 4096

_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
_TABLES = 16  # lists whose tables are kept: the last; beside those that a CUDA graph reads


@torch.compiler.disable  # a compiled graph would copy the stretch of memory, and write it back
def adamw_(
    params: Sequence[torch.Tensor],
    grads: Sequence[torch.Tensor],
    exp_avgs: Sequence[torch.Tensor],
    exp_avg_sqs: Sequence[torch.Tensor],
    step: torch.Tensor | float,
    *,
    lr: float = 1e-3,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 1e-2,
    maximize: bool = False,
    grad_scale: torch.Tensor | None = None,
    found_inf: torch.Tensor | None = None,
) -> None:
    """A step of torch.optim.AdamW of many tensors, in place.

    Contiguous tensors of one dtype with moments of that dtype are one launch; so are all others,
    each for itself (`warpsmith.adamw`): 16-bit parameters with moments of f32, and tensors of other
    strides (channels_last). The table of where tensors lie is made when a list is first seen. It is
    kept for a while, and for ever where a CUDA graph was captured with it: call once right before
    the capture, with a step that is a tensor.

    Args:
        params: f32, f16 or bf16, on one device.
        grads: Shape and dtype of params.
        exp_avgs: The same; or of f32.
        exp_avg_sqs: As exp_avgs.
        step: The number of this step, from 1: a number, or f32 with one element on the device.
        lr: Learning rate.
        betas: How much of each moment stays.
        eps: Outside of the root.
        weight_decay: Times lr: what a parameter loses of itself.
        maximize: Goes the gradient's way.
        grad_scale: f32 with one element: gradients are divided by it.
        found_inf: f32 with one element: where it is not 0, nothing is written.

    Raises:
        ValueError: lists of different lengths, tensors that do not go together, a tensor that is
            listed twice, a step before the first.
        TypeError: what is no torch tensor.
    """
    lists = {
        "params": list(params),
        "grads": list(grads),
        "exp_avgs": list(exp_avgs),
        "exp_avg_sqs": list(exp_avg_sqs),
    }
    _check(lists)
    if not torch.is_tensor(step) and not float(step) >= 1:
        raise ValueError(f"adamw_: the first step is 1, not {step}")
    if not lists["params"]:
        return
    device = lists["params"][0].device
    if not torch.is_tensor(step):
        step = torch.full((), float(step), dtype=torch.float32, device=device)
    keywords: dict[str, Any] = {
        "lr": lr,
        "beta1": betas[0],
        "beta2": betas[1],
        "eps": eps,
        "weight_decay": weight_decay,
        "maximize": maximize,
    }
    groups: dict[torch.dtype, list[tuple[torch.Tensor, ...]]] = {}
    alone = []
    for tensors in zip(*lists.values(), strict=True):
        of_one_dtype = all(t.dtype == tensors[0].dtype for t in tensors)
        if of_one_dtype and all(t.is_contiguous() for t in tensors):
            groups.setdefault(tensors[0].dtype, []).append(tensors)
        else:
            alone.append(tensors)
    if alone or len(groups) > 1:  # a single group is checked with its table
        _check_apart(lists)
    with torch.no_grad():
        for tensors in alone:
            p, g, m, v = (t.detach() for t in tensors)
            warpsmith.adamw(p, g, m, v, step, grad_scale, found_inf, **keywords)
        for dtype, group in groups.items():
            base, size, table = _table_of(group, dtype, device)
            memory = _stretch(base, size, dtype, device)
            warpsmith.multi_tensor_adamw(memory, table, step, grad_scale, found_inf, **keywords)
    torch.autograd.graph.increment_version(
        [t for name in ("params", "exp_avgs", "exp_avg_sqs") for t in lists[name]]
    )


adamw_.__module__ = "warpsmith"


def _check(lists: dict[str, list[torch.Tensor]]) -> None:
    lengths = {name: len(tensors) for name, tensors in lists.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"adamw_: lists of {lengths}")
    seen: set[int] = set()
    for i in range(lengths["params"]):
        param = lists["params"][i]
        for name, tensors in lists.items():
            tensor = tensors[i]
            where = f"adamw_: {name}[{i}]"
            if not isinstance(tensor, torch.Tensor):
                raise TypeError(f"{where} is of {type(tensor).__name__}, not a torch tensor")
            if tensor.device != lists["params"][0].device:
                raise ValueError(f"{where} is on {tensor.device}, not where params[0] is")
            if tensor.shape != param.shape:
                raise ValueError(
                    f"{where} is of shape {tuple(tensor.shape)}, its parameter of "
                    f"{tuple(param.shape)}"
                )
            wide = name.startswith("exp") and tensor.dtype == torch.float32
            if param.dtype not in _DTYPES or (tensor.dtype != param.dtype and not wide):
                raise ValueError(f"{where} is of {tensor.dtype}, its parameter of {param.dtype}")
            if tensor.numel() == 0:
                continue
            if tensor.data_ptr() in seen:
                raise ValueError(f"{where} begins where another tensor of the lists does")
            seen.add(tensor.data_ptr())


def _check_apart(lists: dict[str, list[torch.Tensor]]) -> None:
    """That no two contiguous tensors share memory; others may lie in each other's gaps."""
    stretches = sorted(
        (t.data_ptr(), t.data_ptr() + t.numel() * t.element_size())
        for tensors in lists.values()
        for t in tensors
        if t.numel() > 0 and t.is_contiguous()
    )
    if any(end > begin for (_, end), (begin, _) in pairwise(stretches)):
        raise ValueError("adamw_: tensors of the lists share memory")


_tables: dict[Any, tuple[int, int, torch.Tensor]] = {}  # the last that was asked for at the end
_captured: dict[Any, tuple[int, int, torch.Tensor]] = {}


def _table_of(
    group: list[tuple[torch.Tensor, ...]], dtype: torch.dtype, device: torch.device
) -> tuple[int, int, torch.Tensor]:
    """The stretch that holds a group, and the table of its pieces."""
    key = (
        dtype,
        device,
        *((*(t.data_ptr() for t in tensors), tensors[0].numel()) for tensors in group),
    )
    found = _captured.get(key) or _tables.pop(key, None) or _new_table(key[2:], dtype, device)
    if device.type == "cuda" and torch.cuda.is_current_stream_capturing():
        _captured[key] = found
    elif key not in _captured:
        while len(_tables) >= _TABLES:
            del _tables[next(iter(_tables))]
        _tables[key] = found
    return found


def _new_table(
    rows: Sequence[tuple[int, ...]], dtype: torch.dtype, device: torch.device
) -> tuple[int, int, torch.Tensor]:
    there = torch.tensor([row for row in rows if row[-1] > 0], dtype=torch.int64).reshape(-1, 5)
    if there.shape[0] == 0:
        return 0, 0, there.to(device)
    starts, elements = there[:, :4], there[:, 4]
    # Written tensors lie apart, and no gradient in one of them.
    begins, order = starts.flatten().sort()
    ends = (starts + elements[:, None] * dtype.itemsize).flatten()[order]
    if bool((begins[1:] < ends[:-1]).any()):
        raise ValueError("adamw_: tensors of the lists share memory")
    base = int(begins[0])
    offsets = starts - base
    if bool((offsets % dtype.itemsize != 0).any()):
        raise ValueError(f"adamw_: tensors that are not a multiple of {dtype.itemsize} bytes apart")
    offsets //= dtype.itemsize
    pieces = (elements + PIECE - 1) // PIECE
    tensor = torch.repeat_interleave(torch.arange(len(pieces)), pieces)
    number = torch.arange(len(tensor)) - (pieces.cumsum(0) - pieces)[tensor]
    first = number * PIECE
    table = torch.empty(len(tensor), 5, dtype=torch.int64)
    table[:, :4] = offsets[tensor] + first[:, None]
    table[:, 4] = torch.minimum(elements[tensor] - first, torch.tensor(PIECE))
    return base, (int(ends.max()) - base) // dtype.itemsize, table.to(device)


class _Memory:
    """Addresses of a GPU, as torch.as_tensor takes them."""

    def __init__(self, base: int, elements: int, dtype: torch.dtype) -> None:
        self.__cuda_array_interface__ = {
            "shape": (elements,),
            "typestr": f"<i{dtype.itemsize}",
            "data": (base, False),
            "version": 3,
        }


def _stretch(base: int, elements: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Memory from an address on, as a tensor that owns nothing."""
    if elements == 0:
        return torch.empty(0, dtype=dtype, device=device)
    if device.type == "cuda":
        return torch.as_tensor(_Memory(base, elements, dtype), device=device).view(dtype)
    raw = (ctypes.c_char * (elements * dtype.itemsize)).from_address(base)
    return torch.frombuffer(raw, dtype=dtype)
