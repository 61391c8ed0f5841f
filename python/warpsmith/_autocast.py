"""torch.autocast: what it makes of an operation's inputs, as it does of torch's own version's.

No list says it. Under autocast the operation's expression in torch is asked, on fakes, which dtype
its result has, and inputs are cast so that the operator's has the same: down for a product, up for
a softmax, not at all where autocast leaves torch's version alone.
"""

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from warpsmith import _expressions
from warpsmith._catalogue import Operation

DEVICES = {"cpu": "AutocastCPU", "cuda": "AutocastCUDA"}
_CAST = {  # names of torch's functions for which autocast has a kernel
    name.partition("::")[2].partition(".")[0]
    for key in DEVICES.values()
    for name in torch._C._dispatch_get_registrations_for_dispatch_key(key)
}


def _expression(operation: Operation) -> str:
    """torch's version as its users call it."""
    return operation.python_peers.get("torch") or operation.torch


def torch_version(operation: Operation) -> Callable[..., Any]:
    """That version as a function of inputs and, by keyword, attributes."""
    return _expressions.torch_function(operation.name, _expression(operation))


def may_cast(operation: Operation) -> bool:
    """Whether autocast knows anything that the operation's expression in torch calls.

    It is not asked of in-out tensors, nor of a loop over steps, which is no function of torch's,
    nor of what reads data, which fakes have not.
    """
    names = _expressions.names_in(_expression(operation))
    if not operation.outputs or operation.in_out or not names.isdisjoint(("range", "tolist")):
        return False
    return any(name in _CAST or f"linalg_{name}" in _CAST for name in names)


def _extent(number: Any) -> int:
    """A number for one of torch.compile's symbols; dtypes do not depend on it."""
    return number if isinstance(number, int) else number.node.hint


def _layout(tensor: Any) -> dict[str, Any] | None:
    """What torch.empty_strided takes for another tensor like it."""
    if tensor is None:
        return None
    size, stride = ([_extent(n) for n in ns] for ns in (tensor.shape, tensor.stride()))
    return {"size": size, "stride": stride, "dtype": tensor.dtype, "device": tensor.device}


def to(dtype: torch.dtype | None, inputs: Sequence[Any], left: int = -1) -> list[Any]:
    """The inputs, those of f32, f16 and bf16 in a dtype, but for the one that is left as it is;
    None leaves all."""
    if dtype is None:
        return list(inputs)
    narrow = (torch.float32, torch.float16, torch.bfloat16)
    return [
        x.to(dtype) if x is not None and i != left and x.dtype in narrow else x
        for i, x in enumerate(inputs)
    ]


class Rule:
    """What an operation's inputs become, on one kind of device."""

    def __init__(self, operation: Operation, operator: Callable[..., Any], device: str) -> None:
        self._operation = operation
        self._operator = operator
        self._device = device
        self._off = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, DEVICES[device]))
        self._known: dict[Any, tuple[torch.dtype | None, int]] = {}  # what to() is to do

    def __call__(self, inputs: Sequence[Any], attributes: dict[str, Any], rung: Any) -> Any:
        """The operator's results for inputs as they are cast."""
        narrow = torch.get_autocast_dtype(self._device)
        dtypes = [None if x is None else x.dtype for x in inputs]
        key = (narrow, *dtypes, *map(str, attributes.values()))
        if key not in self._known:
            self._known[key] = self.casts(inputs, attributes, narrow)
        dtype, left = self._known[key]
        cast = to(dtype, inputs, left)
        with torch._C._ExcludeDispatchKeyGuard(self._off):
            return self._operator(*cast, **attributes, rung=rung)

    def casts(
        self, inputs: Sequence[Any], attributes: dict[str, Any], narrow: torch.dtype
    ) -> tuple[torch.dtype | None, int]:
        """What inputs are cast to, None where torch's version says nothing, and the one that is
        not: scales of a quantized weight are f32."""
        layouts = [_layout(x) for x in inputs]
        with ThreadPoolExecutor(1) as thread:  # where no mode and no transform is active
            return thread.submit(self._ask, layouts, attributes, narrow).result()

    def _ask(
        self, layouts: Sequence[Any], attributes: dict[str, Any], narrow: torch.dtype
    ) -> tuple[torch.dtype | None, int]:
        with FakeTensorMode():
            fakes = [None if one is None else torch.empty_strided(**one) for one in layouts]
            torch.set_autocast_dtype(self._device, narrow)
            torch.set_autocast_enabled(self._device, True)
            wanted = _result_dtype(torch_version(self._operation), fakes, attributes)
            torch.set_autocast_enabled(self._device, False)
            if wanted is None:
                return None, -1
            for left in range(-1, len(fakes)):
                for dtype in (None, narrow, torch.float32):
                    cast = to(dtype, fakes, left)
                    if _result_dtype(self._operator, cast, attributes) == wanted:
                        return dtype, left
        return None, -1


def _result_dtype(
    function: Callable[..., Any], inputs: Sequence[Any], attributes: dict[str, Any]
) -> torch.dtype | None:
    """The dtype of the first result; None where the function refuses, or asks for data."""
    log = logging.getLogger("torch._subclasses.fake_tensor")  # which reports every refusal
    was_disabled, log.disabled = log.disabled, True
    try:
        with torch.no_grad():
            results = function(*inputs, **attributes)
    except (RuntimeError, TypeError, ValueError):
        return None
    finally:
        log.disabled = was_disabled
    first = results[0] if isinstance(results, tuple) else results
    return first.dtype
