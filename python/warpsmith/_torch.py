"""torch.ops.warpsmith.*: what torch.compile, autograd, vmap and modes see of the operations.

For each operation `NAME(tensors, *, attributes, str? rung=None)` returns all of its outputs (those
that a call has not as empty tensors of shape (0,)), and `NAME_out`, with a keyword for each output,
writes into the caller's. Attributes are by keyword. In-out tensors are `Tensor(a!)`.
"""

import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._library.autograd import Info, make_autograd_impl

from warpsmith import _arrays, _as_torch, _expressions, _functions
from warpsmith._catalogue import DTYPES, OPERATIONS, Attribute, Operation, Parameter
from warpsmith._libraries import DEVICE_CPU, DEVICE_CUDA

LIBRARY = torch.library.Library("warpsmith", "DEF")
_SCHEMA_TYPES = {"float": "float", "int": "int", "bool": "bool", "choice": "str", "dims": "int[1]"}
_TORCH_DTYPES = {(d.code, d.bits): getattr(torch, d.torch) for d in DTYPES.values()}
_CODES = {dtype: code for code, dtype in _TORCH_DTYPES.items()}
DTYPE_NAMES = {getattr(torch, d.torch): d.torch for d in DTYPES.values()}


# ---- Schemas ------------------------------------------------------------------------------------


def _schema_of(attribute: Attribute) -> str:
    default = attribute.default
    optional = "?" if default is None and not attribute.required else ""
    text = f"{_SCHEMA_TYPES[attribute.kind]}{optional} {attribute.name}"
    if attribute.required:
        return text
    if isinstance(default, str):
        return f'{text}="{default}"'
    return f"{text}={list(default) if isinstance(default, tuple) else default}"


def _schemas(operation: Operation) -> tuple[str, str]:
    """The schemas of the two operators."""
    letters = iter("abcdefghijklmnop")
    tensors, outputs = [], []
    for i, p in enumerate(operation.parameters):
        alias = f"({next(letters)}!)" if p.is_written else ""
        text = f"Tensor{alias}{'?' if p.optional else ''} {p.name}"
        if not p.is_read:
            outputs.append(text)
        elif all(later.optional or not later.is_read for later in operation.parameters[i:]):
            tensors.append(f"{text}=None")
        else:
            tensors.append(text)
    keywords = ["*", *map(_schema_of, operation.attributes), "str? rung=None"]
    results = ", ".join("Tensor" for _ in outputs)
    results = results if len(outputs) == 1 else f"({results})"
    return (
        f"{operation.name}({', '.join(tensors + keywords)}) -> {results}",
        f"{operation.name}_out({', '.join(tensors + keywords + outputs)}) -> ()",
    )


# ---- Checks -------------------------------------------------------------------------------------


def _check(operation: Operation, tensors: Sequence[Any]) -> None:
    """That tensors, in the order of the parameters, are torch's and such as kernels take."""
    for p, tensor in zip(operation.parameters, tensors, strict=False):
        if tensor is None:
            if not p.optional:
                raise TypeError(f"{operation.name}: '{p.name}' is None")
            continue
        if not isinstance(tensor, torch.Tensor):
            kind = f"{type(tensor).__module__}.{type(tensor).__name__}"
            raise TypeError(
                f"{operation.name}: '{p.name}' is a {kind}, the others are torch tensors"
            )
        if tensor.layout != torch.strided:
            raise ValueError(
                f"{operation.name}: '{p.name}' has the layout {tensor.layout}, not dense"
            )
        if tensor.device.type not in ("cpu", "cuda"):
            raise ValueError(
                f"{operation.name}: '{p.name}' is on {tensor.device}; kernels take cpu and cuda"
            )


def _refuse_gradients(operation: Operation, tensors: Sequence[Any]) -> None:
    """For operators that write into the caller's memory, which gradients do not follow."""
    there = [tensor for tensor in tensors if tensor is not None]
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in there):
        what = "out= has" if operation.outputs else "in-out tensors have"
        raise ValueError(f"{operation.name}: {what} no gradient, but an argument requires one")
    _refuse_tangents(operation, there)


def _refuse_tangents(operation: Operation, tensors: Sequence[Any]) -> None:
    if torch.autograd.forward_ad._current_level < 0:
        return
    for tensor in tensors:
        if tensor is None or not torch.is_tensor(tensor):
            continue
        if torch.autograd.forward_ad.unpack_dual(tensor).tangent is not None:
            raise NotImplementedError(
                f"warpsmith.{operation.name} has no forward-mode derivative; backward mode has one"
            )


def _is_concrete(tensors: Sequence[torch.Tensor | None]) -> bool:
    """Whether all extents and strides are numbers, not torch.compile's symbols."""
    return all(
        isinstance(number, int)
        for tensor in tensors
        if tensor is not None
        for number in (*tensor.shape, *tensor.stride(), tensor.storage_offset())
    )


def _infer(
    operation: Operation, tensors: Sequence[torch.Tensor | None], values: Sequence[Any], rung: Any
) -> list[tuple[torch.dtype, tuple[int, ...]] | None]:
    """dtype and shape of each output, None where the call has it not; ValueError for a wrong call.

    Looks at no data, which fake tensors do not have; addresses are made up, so that tensors of one
    storage lie in it as they do.
    """
    first = tensors[0]
    device = DEVICE_CUDA if first.device.type == "cuda" else DEVICE_CPU
    storages: dict[int, int] = {}
    views = []
    for p, tensor in zip(operation.parameters, tensors, strict=True):
        if tensor is None:
            views.append(None)
            continue
        code = _CODES.get(tensor.dtype)
        if code is None:
            raise ValueError(
                f"{operation.name}: '{p.name}': {tensor.dtype} is none that kernels take"
            )
        storage = storages.setdefault(tensor.untyped_storage()._cdata, len(storages) + 1)
        address = (storage << 48) + tensor.storage_offset() * tensor.element_size()
        where = (
            DEVICE_CUDA if tensor.device.type == "cuda" else DEVICE_CPU,
            tensor.device.index or 0,
        )
        views.append(_arrays.memory(address, code, tensor.shape, tensor.stride(), where))
    functions = operation.functions(device)
    encoded = operation.encode(values)
    flat = functions.infer(*views, *encoded)
    if device == DEVICE_CPU or torch.cuda.is_available():  # which rung it is asks the device
        functions.choice(*views, *encoded, operation.codes[rung])
    return [
        None if known is None else (_TORCH_DTYPES[known[:2]], known[2])
        for known in _arrays.shapes_of(flat)
    ]


# ---- Outputs ------------------------------------------------------------------------------------


class _Output:
    """How an output is made from what is read and the attributes."""

    def __init__(self, operation: Operation, output: Parameter) -> None:
        first = operation.inputs[0]
        names = _expressions.arguments_of(operation)
        self._like_first = _functions.like_first(operation, output)
        self._broadcasts = bool(output.shape)
        self._count = len(operation.inputs)
        self._shape = _expressions.make("shape", names, output.shape or f"{first}.shape")
        self._dtype = _expressions.make("dtype", names, output.torch_dtype or f"{first}.dtype")

    def empty(self, arguments: Sequence[Any]) -> torch.Tensor | None:
        """A new tensor, for real and fake inputs alike; None where the call has it not."""
        first = arguments[0]
        dtype = self._dtype(*arguments)
        if dtype is None:
            return None
        if self._like_first:
            tensors = [t for t in arguments[1 : self._count] if t is not None]
            if not self._broadcasts or all(tensor.shape == first.shape for tensor in tensors):
                return torch.empty_like(first, dtype=dtype, requires_grad=False)
        shape = self._shape(*arguments)
        if isinstance(shape, _expressions.Laid):
            return _expressions.new_laid(first, shape, dtype, shape.rows_first)
        return None if shape is None else first.new_empty(shape, dtype=dtype)


# ---- Gradients ----------------------------------------------------------------------------------


def _gradient_of(operation: Operation) -> tuple[Callable[..., Any], Callable[..., None]]:
    """backward and setup_context of an operation, from the catalogue's expression."""
    wanted = _functions.wanted_of(operation)
    text = operation.gradient or "()"
    attributes = [a.name for a in operation.attributes]
    incoming = ["g"] if len(operation.outputs) == 1 else [f"g_{name}" for name in operation.outputs]
    used = _names_used(text, [*operation.inputs, *operation.outputs])
    everything = [*operation.inputs, *operation.outputs, *attributes, *incoming]
    gradient = _expressions.make("gradient", everything, text, ops=torch.ops.warpsmith)
    defaults = {a.name: a.default for a in operation.attributes}

    def setup(ctx: Any, inputs: tuple[Any, ...], keyword_only_inputs: Any, output: Any) -> None:
        given = defaults | keyword_only_inputs
        ctx.values = {name: given[name] for name in attributes}
        outputs = output if isinstance(output, tuple) else (output,)
        there = wanted(*inputs, *ctx.values.values())
        ctx.mark_non_differentiable(
            *(
                tensor
                for tensor, is_there in zip(outputs, there, strict=True)
                if not is_there or not tensor.is_floating_point()
            )
        )
        ctx.set_materialize_grads(False)
        found = dict(zip(operation.inputs, inputs, strict=True))
        pairs = zip(operation.outputs, outputs, there, strict=True)
        found |= {name: tensor if is_there else None for name, tensor, is_there in pairs}
        ctx.has_gradient = [tensor is not None for tensor in inputs]
        ctx.save_for_backward(*(found[name] for name in used))

    def backward(ctx: Any, *gradients: torch.Tensor | None) -> tuple[Any, ...]:
        if not operation.gradient:
            raise NotImplementedError(f"warpsmith.{operation.name} has no gradient")
        if all(g is None for g in gradients):
            return (None,) * len(operation.inputs)
        arguments = dict.fromkeys(everything)
        arguments |= ctx.values | dict(zip(used, ctx.saved_tensors, strict=True))
        arguments |= dict(zip(incoming, gradients, strict=True))
        found = gradient(**arguments)
        found = found if isinstance(found, tuple) else (found,)
        there = zip(found, ctx.has_gradient, strict=True)
        return tuple([g if has else None for g, has in there])

    return backward, setup


def _names_used(text: str, names: Sequence[str]) -> list[str]:
    looked_up = _expressions.names_in(text)
    return [name for name in names if name in looked_up]


# ---- Operators ----------------------------------------------------------------------------------


def _define(operation: Operation) -> None:
    """Registers the two operators of an operation."""
    makers = [_Output(operation, p) for p in operation.parameters if not p.is_read]
    defaults = {a.name: a.default for a in operation.attributes}
    names = list(defaults)
    changed = [i for i, p in enumerate(operation.parameters) if p.role == "inout"]
    count = len(operation.inputs)

    def split(
        arguments: Sequence[Any], keywords: dict[str, Any]
    ) -> tuple[list[Any], list[Any], str | None]:
        """Inputs, attributes' values and rung; torch leaves defaults away."""
        inputs = [*arguments, *(None for _ in range(count - len(arguments)))]
        return inputs, [keywords.get(n, defaults[n]) for n in names], keywords.get("rung")

    def returned(outs: Sequence[torch.Tensor | None], first: torch.Tensor) -> Any:
        """What the functional operator gives."""
        results = tuple([first.new_empty((0,)) if out is None else out for out in outs])
        return results[0] if len(results) == 1 else results

    def run(inputs: Sequence[Any], outs: Sequence[Any], values: Sequence[Any], rung: Any) -> None:
        operation.run(*inputs, *outs, *operation.encode(values), operation.codes[rung])

    def touch(tensors: Sequence[torch.Tensor | None]) -> None:
        there = [tensor for tensor in tensors if tensor is not None]
        if there:
            torch._C._increment_version(there)  # autograd must know

    # Below autograd and torch's resolution of negated views: tensors are what they seem.
    def functional(*arguments: Any, **keywords: Any) -> Any:
        inputs, values, rung = split(arguments, keywords)
        try:
            outs = [maker.empty([*inputs, *values]) for maker in makers]
        except Exception:
            # Inputs that do not fit are our ValueError, where torch was the first to notice.
            _check(operation, inputs)
            _infer(operation, [*inputs, *(None for _ in makers)], values, rung)
            raise
        run(inputs, outs, values, rung)
        touch([inputs[i] for i in changed])
        return returned(outs, inputs[0]) if outs else None

    def fake(*arguments: Any, **keywords: Any) -> Any:
        inputs, values, rung = split(arguments, keywords)
        known = None
        if _is_concrete(inputs):
            known = _infer(operation, [*inputs, *(None for _ in makers)], values, rung)
        outs = [maker.empty([*inputs, *values]) for maker in makers]
        made = [None if out is None else (out.dtype, tuple(out.shape)) for out in outs]
        if known not in (None, made):
            raise RuntimeError(
                f"{operation.name}: the catalogue's expressions make {made}, its kernels {known}"
            )
        return returned(outs, inputs[0]) if outs else None

    def writing(*arguments: Any, **keywords: Any) -> None:
        inputs, values, rung = split(arguments, keywords)
        outs = [keywords.get(output) for output in operation.outputs]
        run(inputs, outs, values, rung)
        touch([*(inputs[i] for i in changed), *outs])

    def fake_writing(*arguments: Any, **keywords: Any) -> None:
        inputs, values, rung = split(arguments, keywords)
        tensors = [*inputs, *(keywords.get(output) for output in operation.outputs)]
        if _is_concrete(tensors):
            _infer(operation, tensors, values, rung)

    def without_gradient(operator: Any) -> Callable[..., Any]:
        def autograd(keyset: Any, *arguments: Any, **keywords: Any) -> Any:
            outs = [keywords.get(output) for output in operation.outputs]
            _refuse_gradients(operation, [*arguments, *outs])
            with torch._C._AutoDispatchBelowAutograd():
                return operator.redispatch(
                    keyset & torch._C._after_autograd_keyset, *arguments, **keywords
                )

        return autograd

    def with_gradient(operator: Any) -> Callable[..., Any]:
        inner = make_autograd_impl(operator, Info(*_gradient_of(operation)))

        def autograd(keyset: Any, *arguments: Any, **keywords: Any) -> Any:
            _refuse_tangents(operation, arguments)
            return inner(keyset, *arguments, **keywords)

        return autograd

    functional_schema, writing_schema = _schemas(operation)
    for schema, real, traced, gradient in (
        (functional_schema, functional, fake, without_gradient if changed else with_gradient),
        (writing_schema, writing, fake_writing, without_gradient),
    ):
        if real is writing and not operation.outputs:
            continue
        # pt2_compliant_tag: that is what tests/python checks with opcheck.
        LIBRARY.define(schema, tags=(torch.Tag.pt2_compliant_tag,))
        name = schema[: schema.index("(")]
        for key in ("CPU", "CUDA"):
            LIBRARY.impl(name, real, key)
        torch.library.register_fake(f"warpsmith::{name}", traced, lib=LIBRARY)
        operator = getattr(torch.ops.warpsmith, name).default
        LIBRARY.impl(name, gradient(operator), "Autograd", with_keyset=True)


# ---- Calls --------------------------------------------------------------------------------------


def call(
    operation: Operation,
    inputs: Sequence[Any],
    values: Sequence[Any],
    rung: str | None,
    out: Any,
) -> Any:
    """The general way for torch tensors: through the operator."""
    _check(operation, inputs)
    keywords = operation.checked(values)  # before torch's parser, which does not know the choices
    operation.codes[rung]
    operator = getattr(torch.ops.warpsmith, operation.name)
    if not operation.outputs:
        operator(*inputs, **keywords, rung=rung)
        changed = [x for x, p in zip(inputs, operation.parameters, strict=False) if p.is_written]
        return changed[0] if len(changed) == 1 else tuple(changed)
    wanted = _WANTED[operation.name](*inputs, *keywords.values())
    if out is None:
        results = operator(*inputs, **keywords, rung=rung)
        return _functions.gathered((results,) if len(wanted) == 1 else results, wanted)
    outs = _functions.outputs_of(operation, out, wanted)
    _check(operation, [*inputs, *outs])
    _refuse_gradients(operation, [*inputs, *outs])
    names = dict(zip(operation.outputs, outs, strict=True))
    getattr(torch.ops.warpsmith, f"{operation.name}_out")(*inputs, **keywords, rung=rung, **names)
    return out


_WANTED = {operation.name: _functions.wanted_of(operation) for operation in OPERATIONS.values()}

# Where torch.compile finds what stands in for the package's functions: it looks their globals up by
# the module's name.
_TRACED = types.ModuleType("warpsmith._traced", "What torch.compile sees of each function.")
_TRACED.__dict__.update(_expressions.scope())
_TRACED.operators = torch.ops.warpsmith
_TRACED.operations = OPERATIONS
_TRACED.gathered = _functions.gathered
_TRACED.outputs_of = _functions.outputs_of
_TRACED.dtype_names = DTYPE_NAMES
_TRACED.functions = {}  # the package's, by the name of the operation
_TRACED.as_torch = _as_torch.apply
_TRACED.differ = _as_torch.differ
_TRACED.promote = _as_torch.promote
_TRACED.Tensor = torch.Tensor
_TRACED.return_types = torch.return_types
sys.modules[_TRACED.__name__] = _TRACED


def trace_as_operator(operation: Operation, function: Callable[..., Any], parameters: str) -> None:
    """Has torch.compile see the operator where the package's function is called."""
    keywords = [f"{a.name}={a.name}" for a in operation.attributes]
    arguments = ", ".join([*operation.inputs, *keywords, "rung=rung"])
    called = f"operators.{operation.name}({arguments})"
    parts = [_expressions.is_there(p) for p in operation.parameters if not p.is_read]
    wanted = f"({''.join(f'{part}, ' for part in parts)})"
    outputs = operation.outputs
    if not outputs:
        changed = ", ".join(operation.in_out)
        body = f"    {called}\n    return {changed}\n"
    elif len(outputs) == 1:
        body = f"""    if out is None:
        return {called}
    operators.{operation.name}_out({arguments}, {outputs[0]}=out)
    return out
"""
    else:
        written = ", ".join(f"{name}=outs[{i}]" for i, name in enumerate(outputs))
        named = _functions.result_type_of(operation)
        results = f"gathered({called}, {wanted})"
        if named is not None:
            results = f"return_types.{named.__name__}({results})"
        body = f"""    if out is None:
        return {results}
    outs = outputs_of(operations[{operation.name!r}], out, {wanted})
    operators.{operation.name}_out({arguments}, {written})
    return out
"""
    this = f"functions[{operation.name!r}]"
    lines = [*_functions.prologue_of(operation, this), *_functions.promotion_of(operation, this)]
    body = "".join(f"    {line}\n" for line in lines) + body
    _TRACED.functions[operation.name] = function
    # Not by its own name, which may be that of a builtin: sum, any.
    name = f"traced_{operation.name}"
    exec(f"def {name}({parameters}):\n{body}", _TRACED.__dict__)
    torch.compiler.substitute_in_graph(function)(getattr(_TRACED, name))


for _operation in OPERATIONS.values():
    _define(_operation)
