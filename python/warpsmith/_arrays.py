"""Arrays of NumPy, JAX, CuPy and anyone else with __dlpack__: in, out, and on which stream.

torch has a path of its own (_torch.py), which is the quick one.
"""

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import tvm_ffi

from warpsmith._catalogue import Operation
from warpsmith._libraries import DEVICE_CPU, DEVICE_CUDA, module_for

# DLPack's (code, bits) of the dtypes that NumPy knows by itself; ml_dtypes' are added by name.
_KINDS = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_NAMED = {"bfloat16": (4, 16), "float8_e4m3fn": (10, 8), "float8_e5m2": (12, 8)}
_OF_CODE = {
    (2, 32): "float32",
    (2, 16): "float16",
    (0, 32): "int32",
    (0, 64): "int64",
    (6, 8): "bool",
    **{code: name for name, code in _NAMED.items()},
}
_LEGACY_DEFAULT_STREAM = 1  # DLPack's number for CUDA's default stream


def dtype_code(dtype: Any) -> tuple[int, int]:
    """DLPack's (code, bits) of a NumPy dtype."""
    named = _NAMED.get(dtype.name)
    if named is not None:
        return named
    if dtype.kind not in _KINDS or not dtype.isnative:
        raise ValueError(f"dtype {dtype!r} is none that kernels take")
    return _KINDS[dtype.kind], dtype.itemsize * 8


def dtype_named(code: int, bits: int) -> np.dtype:
    """The NumPy dtype of DLPack's (code, bits); bf16 and fp8 need ml_dtypes."""
    name = _OF_CODE[code, bits]
    if (code, bits) in _NAMED.values():
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, name))
    return np.dtype(name)


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


def shapes_of(flat: Sequence[int]) -> list[tuple[int, int, tuple[int, ...]]]:
    """(code, bits, shape) of each output, from what `infer` returns."""
    outputs = []
    at = 0
    while at < len(flat):
        code, bits, rank = flat[at : at + 3]
        outputs.append((code, bits, tuple(flat[at + 3 : at + 3 + rank])))
        at += 3 + rank
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
        inputs: Arrays of one library.
        values: Of the attributes.
        rung: Name, or None for the best.
        out: None, an array, or a tuple of them where there are several outputs.
    """
    outs = () if out is None else out if isinstance(out, tuple) else (out,)
    if out is not None and len(outs) != len(operation.outputs):
        raise ValueError(f"{operation.name} has {len(operation.outputs)} outputs, out {len(outs)}")
    adapter = adapter_of(operation, (*inputs, *outs))
    attributes = operation.encode(values)
    code = operation.codes[rung]
    with adapter.scope():
        views = [adapter.view(array) for array in inputs]
        functions = operation.functions(adapter.device_type(views[0]))
        if outs:
            out_views = [adapter.output(array) for array in outs]
        else:
            shapes = shapes_of(functions.infer(*views, *attributes))
            outs = tuple(adapter.empty(*shape) for shape in shapes)
            out_views = [adapter.view(array) for array in outs]
        workspace = None
        if adapter.stream is not None:
            needed = functions.workspace(*views, *attributes, code)
            if needed:
                workspace = adapter.view(adapter.empty(0, 32, ((needed + 3) // 4,)))
        operation.run(*views, *out_views, *attributes, code, adapter.stream, workspace)
        results = tuple(map(adapter.result, outs, out_views))
    return results[0] if len(results) == 1 else results
