"""torch.ops.warpsmith.*: what torch.compile, autograd, vmap and modes see of the operations.

For each operation `NAME(inputs, attributes, *, str? rung=None) -> Tensor` and
`NAME_out(inputs, attributes, *, str? rung=None, Tensor(a!) out) -> ()`.
"""

import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

import torch

from warpsmith import _arrays, _gradients
from warpsmith._catalogue import OPERATIONS, Attribute, Operation
from warpsmith._libraries import DEVICE_CPU, DEVICE_CUDA

LIBRARY = torch.library.Library("warpsmith", "DEF")
_SCHEMA_TYPES = {"float": "float", "int": "int", "bool": "bool", "choice": "str"}
_TORCH_DTYPES = {
    (2, 32): torch.float32,
    (2, 16): torch.float16,
    (4, 16): torch.bfloat16,
    (10, 8): torch.float8_e4m3fn,
    (12, 8): torch.float8_e5m2,
    (0, 32): torch.int32,
    (0, 64): torch.int64,
    (6, 8): torch.bool,
}
_CODES = {dtype: code for code, dtype in _TORCH_DTYPES.items()}


def _schema_of(attribute: Attribute) -> str:
    default = attribute.default
    text = f'"{default}"' if isinstance(default, str) else str(default)
    return f"{_SCHEMA_TYPES[attribute.kind]} {attribute.name}={text}"


def _schemas(operation: Operation) -> tuple[str, str]:
    """The schemas of the two operators."""
    arguments = [f"Tensor {name}" for name in operation.inputs]
    arguments += [_schema_of(a) for a in operation.attributes]
    arguments += ["*", "str? rung=None"]
    outputs = [f"Tensor({chr(97 + i)}!) {name}" for i, name in enumerate(operation.outputs)]
    results = ", ".join("Tensor" for _ in outputs)
    results = results if len(outputs) == 1 else f"({results})"
    return (
        f"{operation.name}({', '.join(arguments)}) -> {results}",
        f"{operation.name}_out({', '.join(arguments + outputs)}) -> ()",
    )


def _check(operation: Operation, tensors: Sequence[Any]) -> None:
    names = (*operation.inputs, *operation.outputs)
    for name, tensor in zip(names, tensors, strict=False):
        if not isinstance(tensor, torch.Tensor):
            kind = f"{type(tensor).__module__}.{type(tensor).__name__}"
            raise TypeError(f"{operation.name}: '{name}' is a {kind}, the others are torch tensors")
        if tensor.layout != torch.strided:
            raise ValueError(
                f"{operation.name}: '{name}' has the layout {tensor.layout}, not dense"
            )
        if tensor.device.type not in ("cpu", "cuda"):
            raise ValueError(
                f"{operation.name}: '{name}' is on {tensor.device}; kernels take cpu and cuda"
            )


def _infer(
    operation: Operation, inputs: Sequence[torch.Tensor], values: Sequence[Any]
) -> list[tuple[torch.dtype, tuple[int, ...]]]:
    """dtype and shape of each output; looks at no data, which fake tensors do not have."""
    device = DEVICE_CUDA if inputs[0].device.type == "cuda" else DEVICE_CPU
    views = []
    for name, tensor in zip(operation.inputs, inputs, strict=True):
        code = _CODES.get(tensor.dtype)
        if code is None:
            raise ValueError(
                f"{operation.name}: '{name}': {tensor.dtype} is none that kernels take"
            )
        shape = [int(extent) for extent in tensor.shape]
        strides = [int(stride) for stride in tensor.stride()]
        views.append(_arrays.memory(0, code, shape, strides, (device, tensor.device.index or 0)))
    flat = operation.functions(device).infer(*views, *operation.encode(tuple(values)))
    return [(_TORCH_DTYPES[code, bits], shape) for code, bits, shape in _arrays.shapes_of(flat)]


def _empty(
    operation: Operation, inputs: Sequence[torch.Tensor], values: Sequence[Any]
) -> tuple[torch.Tensor, ...]:
    """New outputs, for real and fake inputs alike."""
    if operation.like >= 0:
        first = inputs[operation.like]
        if all(tensor.shape == first.shape for tensor in inputs):
            return (torch.empty_like(first, requires_grad=False),)
        # Of the operations that mostly take after an input, the others broadcast.
        shape = torch.broadcast_shapes(*(tensor.shape for tensor in inputs))
        return (first.new_empty(shape),)
    known = SHAPES.get(operation.name)
    if known is not None:
        return (inputs[0].new_empty(known(*inputs, *values)),)
    return tuple(
        torch.empty(shape, dtype=dtype, device=inputs[0].device)
        for dtype, shape in _infer(operation, inputs, values)
    )


def _gemm_shape(a: torch.Tensor, b: torch.Tensor, layout: str) -> tuple[Any, Any]:
    return a.shape[layout[0] == "t"], b.shape[layout[1] == "n"]


# Shapes as functions of symbolic extents, of operations whose output is like none of its inputs.
# One that is missing here works under torch.compile too, but is compiled anew for every shape.
SHAPES: dict[str, Callable[..., tuple[Any, ...]]] = {"gemm": _gemm_shape}


def _run(
    operation: Operation,
    inputs: Sequence[torch.Tensor],
    values: Sequence[Any],
    rung: str | None,
    outs: Sequence[torch.Tensor],
) -> None:
    attributes = operation.encode(tuple(values))
    operation.run(*inputs, *outs, *attributes, operation.codes[rung])


def _define(operation: Operation) -> None:
    """Registers the two operators of an operation."""
    count = len(operation.inputs)
    single = len(operation.outputs) == 1

    def values_of(arguments: Sequence[Any]) -> Sequence[Any]:
        # torch leaves trailing defaults away.
        given = arguments[count:]
        return [*given, *(a.default for a in operation.attributes[len(given) :])]

    # Below autograd and torch's resolution of negated views: tensors are what they seem.
    def functional(*arguments: Any, rung: str | None = None) -> Any:
        inputs, values = arguments[:count], values_of(arguments)
        try:
            outs = _empty(operation, inputs, values)
            _run(operation, inputs, values, rung, outs)
        except (RuntimeError, IndexError):
            # Inputs that do not fit are our ValueError, where torch was the first to notice.
            _check(operation, inputs)
            _infer(operation, inputs, values)
            raise
        return outs[0] if single else outs

    def fake(*arguments: Any, rung: str | None = None) -> Any:
        del rung
        outs = _empty(operation, arguments[:count], values_of(arguments))
        return outs[0] if single else outs

    def writing(*arguments: Any, rung: str | None = None, **outputs: torch.Tensor) -> None:
        outs = [outputs[output] for output in operation.outputs]
        _run(operation, arguments[:count], values_of(arguments), rung, outs)
        torch._C._increment_version(outs)  # autograd must know

    def fake_writing(*arguments: Any, **others: Any) -> None:
        del arguments, others

    functional_schema, writing_schema = _schemas(operation)
    for schema, real, traced in (
        (functional_schema, functional, fake),
        (writing_schema, writing, fake_writing),
    ):
        # pt2_compliant_tag: that is what tests/python checks with opcheck.
        LIBRARY.define(schema, tags=(torch.Tag.pt2_compliant_tag,))
        name = schema[: schema.index("(")]
        for key in ("CPU", "CUDA"):
            LIBRARY.impl(name, real, key)
        torch.library.register_fake(f"warpsmith::{name}", traced, lib=LIBRARY)

    backward, setup = _gradients.formula(operation)
    torch.library.register_autograd(
        f"warpsmith::{operation.name}", backward, setup_context=setup, lib=LIBRARY
    )


def call(
    operation: Operation,
    inputs: Sequence[Any],
    values: Sequence[Any],
    rung: str | None,
    out: Any,
) -> Any:
    """The general way for torch tensors: through the operator."""
    outs = () if out is None else out if isinstance(out, tuple) else (out,)
    if out is not None and len(outs) != len(operation.outputs):
        raise ValueError(f"{operation.name} has {len(operation.outputs)} outputs, out {len(outs)}")
    _check(operation, (*inputs, *outs))
    operation.encode(tuple(values))  # before torch's parser, which does not know the choices
    operation.codes[rung]
    if out is None:
        return getattr(torch.ops.warpsmith, operation.name)(*inputs, *values, rung=rung)
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (*inputs, *outs)):
        raise ValueError(f"{operation.name}: out= has no gradient, but an argument requires one")
    names = dict(zip(operation.outputs, outs, strict=True))
    getattr(torch.ops.warpsmith, f"{operation.name}_out")(*inputs, *values, rung=rung, **names)
    return out


# Where torch.compile finds what stands in for the package's functions: it looks their globals up by
# the module's name.
_TRACED = types.ModuleType("warpsmith._traced", "What torch.compile sees of each function.")
_TRACED.operators = torch.ops.warpsmith
sys.modules[_TRACED.__name__] = _TRACED


def trace_as_operator(operation: Operation, function: Callable[..., Any], parameters: str) -> None:
    """Has torch.compile see the operator where the package's function is called."""
    arguments = ", ".join([*operation.inputs, *(a.name for a in operation.attributes)])
    outputs = operation.outputs
    written = (
        f"{outputs[0]}=out"
        if len(outputs) == 1
        else ", ".join(f"{name}=out[{i}]" for i, name in enumerate(outputs))
    )
    source = f"""
def {operation.name}({parameters}):
    if out is None:
        return operators.{operation.name}({arguments}, rung=rung)
    operators.{operation.name}_out({arguments}, rung=rung, {written})
    return out
"""
    exec(source, _TRACED.__dict__)
    torch.compiler.substitute_in_graph(function)(getattr(_TRACED, operation.name))


for _operation in OPERATIONS.values():
    _define(_operation)
