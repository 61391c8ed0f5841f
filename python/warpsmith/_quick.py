"""The quick calls: the binding's functions that take torch's tensors as they are.

They are functions of Python's own kind, since tvm-ffi's cost a tensor's export for each argument,
and make their outputs as torch's own operations do, past dispatcher and argument parser.
"""

import ctypes
from typing import Any

import torch

from warpsmith._catalogue import DTYPES, Operation
from warpsmith._libraries import MODULES

_VARIANTS = {"emulated": "_empty_strided_cpu", "cuda": "_empty_strided_cuda"}
_capsule = ctypes.pythonapi.PyCapsule_GetPointer
_capsule.restype, _capsule.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)


_KEPT: list[Any] = []  # what the binding has by address


def _address_of(thing: Any) -> int:
    _KEPT.append(thing)
    return id(thing)


def _use_torch() -> None:
    exchange = _capsule(torch.Tensor.__dlpack_c_exchange_api__, b"dlpack_exchange_api")
    dtypes = [_address_of(getattr(torch, dtype.torch)) for dtype in DTYPES.values()]
    has_names = getattr(torch.Tensor, "has_names", None)  # of torch that names dimensions
    for variant, module in MODULES.items():
        module.use_torch(
            exchange,
            _address_of(getattr(torch._C._dynamo.guards, _VARIANTS[variant])),
            _address_of(torch._C._get_deterministic_algorithms),
            _address_of(has_names) if has_names else 0,
            _address_of(module.rethrow),
            dtypes,
        )


_use_torch()


def call_of(operation: Operation, way: int) -> Any:
    """A function (parameters, attributes, rung=BEST) that enqueues one call of an operation.

    It takes plain tensors alone, and does not take what may be negated, nor what is not right: then
    nothing ran, and it returns False.

    Args:
        operation: Which.
        way: 1 where outputs are new, 2 where they are the caller's; 3 makes them: it takes inputs
            alone, such as its operation's last call of way 1 or 3 had, and returns the output, or a
            tuple of them; None where it does not take the call.
    """
    address = 0
    for variant in _VARIANTS:
        if variant in MODULES:
            module = MODULES[variant]
            address = module.quick_call_of(operation.id, way, address)
    object_of = module.object_of
    object_of.release_gil = False  # it makes an object of Python's
    return ctypes.cast(object_of(address), ctypes.py_object).value
