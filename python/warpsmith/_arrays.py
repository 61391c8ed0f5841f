"""Arrays of NumPy, JAX, CuPy and anyone else with __dlpack__: in, out, and on which stream.

torch has a path of its own (_torch.py), which is the quick one.
"""

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import tvm_ffi

from warpsmith._catalogue import DTYPES, Operation
from warpsmith._libraries import DEVICE_CPU, DEVICE_CUDA, module_for

_BY_NAME = {d.torch: (d.code, d.bits) for d in DTYPES.values()}
_BY_CODE = {code: name for name, code in _BY_NAME.items()}
_LEGACY_DEFAULT_STREAM = 1  # DLPack's number for CUDA's default stream


def dtype_code(dtype: Any) -> tuple[int, int]:
    """DLPack's (code, bits) of a NumPy dtype."""
    code = _BY_NAME.get(dtype.name)
    if code is None or not dtype.isnative:
        raise ValueError(f"dtype {dtype!r} is none that kernels take")
    return code


def dtype_named(code: int, bits: int) -> np.dtype:
    """The NumPy dtype of DLPack's (code, bits); bf16 and fp8 need ml_dtypes."""
    name = _BY_CODE[code, bits]
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, name))


def memory(
    address: int,
    code: tuple[int, int],
    shape: Sequence[int],
    strides: Sequence[int],
    device: tuple[int, int] = (DEVICE_CPU, 0),
) -> Any:
    """A tvm-ffi tensor over memory that the caller keeps alive; strides in elements."""
    view = module_for(device[0]).view_of_memory
    return view(address, *code, *device, tuple(shape), tuple(strides))


class Generic:
    """Arrays that have __dlpack__ and nothing else that is known of them; they need out=."""

    name = "DLPack"
    stream: int | None = None  # none: what tvm-ffi finds

    @staticmethod
    def owns(array: Any) -> bool:
        return hasattr(array, "__dlpack__") or isinstance(array, tvm_ffi.Tensor)

    def __init__(self, array: Any) -> None:
        del array

    def scope(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def view(self, array: Any) -> Any:
        return array if isinstance(array, tvm_ffi.Tensor) else tvm_ffi.from_dlpack(array)

    def output(self, array: Any) -> Any:
        return self.view(array)

    def device_type(self, view: Any) -> int:
        return view.__dlpack_device__()[0]

    def empty(self, code: int, bits: int, shape: tuple[int, ...]) -> Any:
        raise ValueError(f"arrays of type {self.name} need out=: their library is not known")

    def result(self, array: Any, view: Any) -> Any:
        del view
        return array


class NumPy(Generic):
    """NumPy arrays run in the emulator."""

    name = "NumPy"

    @staticmethod
    def owns(array: Any) -> bool:
        return isinstance(array, np.ndarray)

    # Not through __dlpack__, which knows neither read-only arrays nor ml_dtypes.
    def view(self, array: Any) -> Any:
        code = dtype_code(array.dtype)
        size = array.dtype.itemsize
        if any(stride % size for stride in array.strides) or array.ctypes.data % size:
            raise ValueError(
                f"an array of {array.dtype} whose strides {array.strides} or address are no "
                f"multiples of its {size} bytes"
            )
        strides = [stride // size for stride in array.strides]
        return memory(array.ctypes.data, code, array.shape, strides)

    def output(self, array: Any) -> Any:
        if not array.flags.writeable:
            raise ValueError("out is read-only")
        return self.view(array)

    def device_type(self, view: Any) -> int:
        del view
        return DEVICE_CPU

    def empty(self, code: int, bits: int, shape: tuple[int, ...]) -> Any:
        return np.empty(shape, dtype_named(code, bits))


class CuPy(Generic):
    """CuPy arrays: on CuPy's current stream."""

    name = "CuPy"

    @staticmethod
    def owns(array: Any) -> bool:
        cupy = sys.modules.get("cupy")
        return cupy is not None and isinstance(array, cupy.ndarray)

    def __init__(self, array: Any) -> None:
        import cupy

        self._cupy = cupy
        self._device = array.device
        with self._device:
            self.stream = cupy.cuda.get_current_stream().ptr

    def scope(self) -> AbstractContextManager[Any]:
        return self._device

    # By its address, not through __dlpack__, which would order other streams and has no bf16.
    def view(self, array: Any) -> Any:
        size = array.dtype.itemsize
        strides = [stride // size for stride in array.strides]
        device = (DEVICE_CUDA, array.device.id)
        return memory(array.data.ptr, dtype_code(array.dtype), array.shape, strides, device)

    def device_type(self, view: Any) -> int:
        del view
        return DEVICE_CUDA

    def empty(self, code: int, bits: int, shape: tuple[int, ...]) -> Any:
        return self._cupy.empty(shape, dtype_named(code, bits))


class Jax(Generic):
    """JAX arrays, outside of jit: on CUDA's default stream, and the call waits for the result.

    JAX orders work by its own streams and frees memory by them; a kernel that it does not know of
    has to be over before it goes on.
    """

    name = "JAX"

    @staticmethod
    def owns(array: Any) -> bool:
        jax = sys.modules.get("jax")
        return jax is not None and isinstance(array, jax.Array)

    def __init__(self, array: Any) -> None:
        import jax

        if isinstance(array, jax.core.Tracer):
            raise TypeError("warpsmith takes concrete JAX arrays: call it outside of jax.jit")
        self._jax = jax
        (self._device,) = array.devices()
        if self._device.platform != "cpu":
            self.stream = 0

    def view(self, array: Any) -> Any:
        if isinstance(array, tvm_ffi.Tensor):
            return array
        stream = None if self.stream is None else _LEGACY_DEFAULT_STREAM
        return tvm_ffi.from_dlpack(array.__dlpack__(stream=stream))

    def output(self, array: Any) -> Any:
        raise ValueError("JAX arrays cannot be written: call without out=")

    # A new JAX array that nobody else has yet, seen as one that may be written.
    def empty(self, code: int, bits: int, shape: tuple[int, ...]) -> Any:
        dtype = dtype_named(code, bits)
        return self.view(self._jax.numpy.empty(shape, dtype, device=self._device))

    def result(self, array: Any, view: Any) -> Any:
        kind, device = map(int, view.__dlpack_device__())
        if self.stream is not None:
            module_for(kind).synchronize(device, self.stream)
        return self._jax.dlpack.from_dlpack(view)


def shapes_of(flat: Sequence[int]) -> list[tuple[int, int, tuple[int, ...]] | None]:
    """(code, bits, shape) of each output, from what `infer` returns; None where there is none."""
    outputs: list[tuple[int, int, tuple[int, ...]] | None] = []
    numbers = list(flat)
    at = 0
    while at < len(numbers):
        code, bits, rank = numbers[at : at + 3]
        at += 3 + max(rank, 0)
        outputs.append(None if rank < 0 else (code, bits, tuple(numbers[at - rank : at])))
    return outputs


def adapter_of(operation: Operation, arrays: Sequence[Any]) -> Generic:
    """How to handle the library that all these arrays are of; TypeError where there is none."""
    for kind in (NumPy, Jax, CuPy):
        owned = [kind.owns(array) for array in arrays]
        if all(owned):
            return kind(arrays[0])
        if any(owned):
            break
    else:
        if all(Generic.owns(array) for array in arrays):
            return Generic(arrays[0])
    names = ", ".join(f"{type(a).__module__}.{type(a).__name__}" for a in arrays)
    raise TypeError(f"{operation.name} takes arrays of one library, got {names}")


def call(
    operation: Operation,
    inputs: tuple[Any, ...],
    values: tuple[Any, ...],
    rung: str | None,
    out: Any,
) -> Any:
    """Runs an operation on arrays that are not torch's.

    Args:
        operation: Which.
        inputs: Arrays of one library, None for what is left out.
        values: Of the attributes.
        rung: Name, or None for the best.
        out: None, an array, or a tuple of them where there are several outputs.
    """
    from warpsmith import _functions

    read = [p for p in operation.parameters if p.is_read]
    for p, array in zip(read, inputs, strict=True):
        if array is None and not p.optional:
            raise TypeError(f"{operation.name}: '{p.name}' is None")
    brought = () if out is None else out if isinstance(out, (tuple, list)) else (out,)
    there = [array for array in (*inputs, *brought) if array is not None]
    adapter = adapter_of(operation, there)
    attributes = operation.encode(values)
    code = operation.codes[rung]
    with adapter.scope():
        views = [
            None if array is None else (adapter.output if p.is_written else adapter.view)(array)
            for p, array in zip(read, inputs, strict=True)
        ]
        functions = operation.functions(adapter.device_type(views[0]))
        none = [None] * len(operation.outputs)
        shapes = shapes_of(functions.infer(*views, *none, *attributes))
        wanted = [shape is not None for shape in shapes]
        if brought:
            outs = _functions.outputs_of(operation, out, wanted)
            out_views = [None if array is None else adapter.output(array) for array in outs]
        else:
            outs = tuple(None if shape is None else adapter.empty(*shape) for shape in shapes)
            out_views = [None if array is None else adapter.view(array) for array in outs]
        workspace = None
        if adapter.stream is not None:
            needed = functions.workspace(*views, *out_views, *attributes, code)
            if needed:
                workspace = adapter.view(adapter.empty(*_BY_NAME["int32"], ((needed + 3) // 4,)))
        operation.log_choice(*views, *out_views, *attributes, code)
        operation.run(*views, *out_views, *attributes, code, adapter.stream, workspace)
        if not operation.outputs:
            changed = [a for a, p in zip(inputs, read, strict=True) if p.is_written]
            return changed[0] if len(changed) == 1 else tuple(changed)
        pairs = zip(outs, out_views, strict=True)
        results = [None if array is None else adapter.result(array, view) for array, view in pairs]
    return out if brought else _functions.gathered(results, wanted)
