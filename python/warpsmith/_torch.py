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
from torch._functorch.utils import enable_single_level_autograd_function
from torch.autograd import forward_ad
from torch.utils.flop_counter import register_flop_formula

from warpsmith import (
    _arrays,
    _as_torch,
    _autocast,
    _batch,
    _expressions,
    _functions,
    _saving,
    _signatures,
)
from warpsmith._catalogue import DTYPES, OPERATIONS, Attribute, Operation, Parameter
from warpsmith._libraries import DEVICE_CPU, DEVICE_CUDA

LIBRARY = torch.library.Library("warpsmith", "DEF")
_SCHEMA_TYPES = {"float": "float", "int": "int", "bool": "bool", "choice": "str", "dims": "int[1]"}
_TORCH_DTYPES = {(d.code, d.bits): getattr(torch, d.torch) for d in DTYPES.values()}
_CODES = {dtype: code for code, dtype in _TORCH_DTYPES.items()}
DTYPE_NAMES = {getattr(torch, d.torch): d.torch for d in DTYPES.values()}


# ---- Schemas ------------------------------------------------------------------------------------


def name_in_out(attribute: str) -> str:
    """An attribute's name in `NAME_out`.

    torch.compile hands what that operator gets by name to functions of its own, one of whose
    parameters is `mode`.
    """
    return "mode_" if attribute == "mode" else attribute


def _schema_of(attribute: Attribute, name: str) -> str:
    default = attribute.default
    optional = "?" if default is None and not attribute.required else ""
    text = f"{_SCHEMA_TYPES[attribute.kind]}{optional} {name}"
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
    keywords, keywords_of_out = (
        ["*", *(_schema_of(a, name_of(a.name)) for a in operation.attributes), "str? rung=None"]
        for name_of in (str, name_in_out)
    )
    results = ", ".join("Tensor" for _ in outputs)
    results = results if len(outputs) == 1 else f"({results})"
    return (
        f"{operation.name}({', '.join(tensors + keywords)}) -> {results}",
        f"{operation.name}_out({', '.join(tensors + keywords_of_out + outputs)}) -> ()",
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
            if hasattr(type(tensor), "__torch_function__"):  # torch.fx's proxy, for one
                continue
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


def _refuse_negated(operation: Operation, tensors: Sequence[Any]) -> None:
    """Of views that stand for the negative of their memory: torch resolves those that are read."""
    with torch._C.DisableTorchFunction():  # as in call()
        for p, tensor in zip(operation.parameters, tensors, strict=False):
            if p.is_written and isinstance(tensor, torch.Tensor) and tensor.is_neg():
                raise ValueError(f"{operation.name}: '{p.name}' is a negated view, and written")


def _refuse_gradients(operation: Operation, tensors: Sequence[Any]) -> None:
    """For operators that write into the caller's memory: neither gradients nor tangents follow."""
    what = "out= has" if operation.outputs else "in-out tensors have"
    _as_torch.refuse_gradients(operation.name, what, tensors)
    if _duals([tensor for tensor in tensors if tensor is not None])[1] is not None:
        raise _no_tangent(operation)


def _no_tangent(operation: Operation) -> NotImplementedError:
    return NotImplementedError(f"warpsmith.{operation.name} has no forward-mode derivative")


def _duals(tensors: Sequence[Any]) -> tuple[list[Any], list[Any] | None]:
    """Tensors and their tangents of forward-mode differentiation; None where there are none."""
    if forward_ad._current_level < 0:
        return list(tensors), None
    pairs = [(x, None) if x is None else forward_ad.unpack_dual(x) for x in tensors]
    tangents = [tangent for _, tangent in pairs]
    if all(tangent is None for tangent in tangents):
        return list(tensors), None
    # What has no tangent stays itself: as a primal it would lose that of functorch's other levels.
    primals = [x if t is None else p for x, (p, t) in zip(tensors, pairs, strict=True)]
    return primals, tangents


def _versions_of(tensors: Sequence[torch.Tensor | None]) -> list[int | None]:
    """How often each has been changed in place; None of what does not count that."""
    return [None if x is None or x.is_inference() else x._version for x in tensors]


def _is_concrete(tensors: Sequence[torch.Tensor | None]) -> bool:
    """Whether all extents and strides are numbers, not torch.compile's symbols."""
    return all(
        isinstance(number, int)
        for tensor in tensors
        if tensor is not None
        for number in (*tensor.shape, *tensor.stride(), tensor.storage_offset())
    )


def _device_of(tensor: torch.Tensor) -> int:
    return DEVICE_CUDA if tensor.device.type == "cuda" else DEVICE_CPU


def _views(operation: Operation, tensors: Sequence[torch.Tensor | None]) -> list[Any]:
    """What the binding's queries take for tensors, of which they look at no data.

    Fake tensors have none: addresses are made up, so that tensors of one storage lie in it as they
    do.
    """
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
        where = (_device_of(tensor), tensor.device.index or 0)
        views.append(_arrays.memory(address, code, tensor.shape, tensor.stride(), where))
    return views


def _infer(
    operation: Operation, tensors: Sequence[torch.Tensor | None], values: Sequence[Any], rung: Any
) -> list[tuple[torch.dtype, tuple[int, ...]] | None]:
    """dtype and shape of each output, None where the call has it not; ValueError for a wrong call.

    Looks at no data.
    """
    device = _device_of(tensors[0])
    views = _views(operation, tensors)
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


class _Quick:
    """Operators by name; where the arguments are the same, the package's function.

    That goes the quick way where it can, and else to the operator: as most gradients are plain.
    Outputs that a call has not are empty tensors of the one and None of the other.
    """

    def __getattr__(self, name: str) -> Callable[..., Any]:
        found: Callable[..., Any] = getattr(torch.ops.warpsmith, name)
        operation = OPERATIONS.get(name)
        function = _TRACED.functions.get(name)
        if operation is None or function is None or operation.in_out:
            pass
        elif all(a.own == a.name for a in _signatures.arguments_of(operation)):
            found = _with_all_outputs(operation, function)
        setattr(self, name, found)
        return found


def _with_all_outputs(operation: Operation, function: Callable[..., Any]) -> Callable[..., Any]:
    """The package's function, but with None for outputs that a call has not."""
    if all(not p.optional for p in operation.parameters if not p.is_read):
        return function
    wanted = _WANTED[operation.name]
    count = len(operation.inputs)
    defaults = {a.name: a.default for a in operation.attributes}

    def all_outputs(*inputs: Any, **attributes: Any) -> Any:
        missing = (None,) * (count - len(inputs))
        there = wanted(*inputs, *missing, *(defaults | attributes).values())
        return _spread(function(*inputs, **attributes), there)

    return all_outputs


def _spread(result: Any, there: Sequence[bool]) -> Sequence[Any]:
    """All outputs of an operation, None for those that a call has not: undoes `gathered`."""
    found = iter(result if isinstance(result, tuple) else (result,))
    return [next(found) if is_there else None for is_there in there]


_QUICK = _Quick()


def _gradient_of(operation: Operation) -> tuple[Callable[..., Any], ...]:
    """setup, backward and tangents of an operation, from the catalogue's expression."""
    wanted = _WANTED[operation.name]
    count = len(operation.inputs)
    text = _saving.by_need(operation.gradient or "()", count)
    attributes = [a.name for a in operation.attributes]
    incoming = ["g"] if len(operation.outputs) == 1 else [f"g_{name}" for name in operation.outputs]
    tensors = [*operation.inputs, *operation.outputs]
    looked_up = _expressions.names_in(text)
    used = [i for i, name in enumerate(tensors) if name in looked_up]
    names = [tensors[i] for i in used]
    parameters = [*names, *attributes, *incoming, "needs"]
    gradient = _expressions.make("gradient", parameters, text, ops=_QUICK)
    # Attributes that may say which branch is taken.
    switches = [i for i, a in enumerate(operation.attributes) if a.kind in ("bool", "choice")]
    plans: dict[Any, _saving.Plan] = {}

    def plan_of(needs: tuple[bool, ...], values: Sequence[Any]) -> _saving.Plan:
        key = (needs, *[values[i] for i in switches])
        found = plans.get(key)
        if found is None:
            known = {attributes[i]: values[i] for i in switches}
            found = plans[key] = _saving.plan(text, names, needs, known)
        return found

    def setup(
        ctx: Any,
        inputs: Sequence[Any],
        values: Sequence[Any],
        outputs: Sequence[Any],
        missing: Sequence[torch.Tensor] = (),
    ) -> None:
        """Keeps what backward needs.

        Args:
            ctx: Where.
            inputs: All that the operation has, None where the call has them not.
            values: The attributes'.
            outputs: Likewise all.
            missing: What the operator gives for outputs that the call has not.
        """
        fixed = [out for out in outputs if out is not None and not out.is_floating_point()]
        fixed += missing
        if fixed:
            ctx.mark_non_differentiable(*fixed)
        ctx.set_materialize_grads(False)
        ctx.values = values
        ctx.plan = plan = plan_of(ctx.needs_input_grad[-count:], values)
        there = (*inputs, *outputs)
        if plan.outlines:
            seen = [there[used[i]] for i in plan.outlines]
            ctx.outlines = [None if x is None else _saving.Outline(x) for x in seen]
        if plan.elements:
            ctx.save_for_backward(*[there[used[i]] for i in plan.elements])

    def backward(ctx: Any, *gradients: torch.Tensor | None) -> tuple[Any, ...]:
        """Of each input, where `gradients` are those of all outputs."""
        if not operation.gradient:
            raise NotImplementedError(f"warpsmith.{operation.name} has no gradient")
        if all(g is None for g in gradients):
            return (None,) * count
        plan = ctx.plan
        known: list[Any] = [None] * len(used)
        if plan.outlines:
            for i, outline in zip(plan.outlines, ctx.outlines, strict=True):
                known[i] = outline
        if plan.elements:
            for i, tensor in zip(plan.elements, ctx.saved_tensors, strict=True):
                known[i] = tensor
        if forward_ad._current_level >= 0 and hasattr(ctx, "duals"):
            of_duals = with_tangents(ctx)
            known = [None if x is None else of_duals[i] for i, x in zip(used, known, strict=True)]
        found = gradient(*known, *ctx.values, *gradients, plan.needs)
        found = found if isinstance(found, tuple) else (found,)
        return tuple([g if need else None for g, need in zip(found, plan.needs, strict=True)])

    def with_tangents(ctx: Any) -> Sequence[Any]:
        """All tensors of a call whose inputs had tangents; those of its outputs are made again.

        An output that the node kept with its tangent would keep the node in turn.
        """
        duals, versions, keywords = ctx.duals
        if versions != _versions_of(duals):
            raise RuntimeError(
                f"an input of {operation.name} with a tangent, which a gradient within its "
                "dual_level needs, has been modified by an inplace operation"
            )
        results = getattr(torch.ops.warpsmith, operation.name)(*duals, **keywords)
        return [*duals, *(results if isinstance(results, tuple) else (results,))]

    def tangents(
        inputs: Sequence[Any], given: Sequence[Any], outputs: Sequence[Any], values: Sequence[Any]
    ) -> Sequence[Any]:
        """Of each output, where `given` are those of the inputs.

        The gradient is linear in what comes in, and its own gradient is the derivative in forward
        mode. It is taken at 1, since an expression may have a corner at 0 (logcumsumexp's).
        """
        there = wanted(*inputs, *values)
        differentiable = [
            has and out.is_floating_point() for out, has in zip(outputs, there, strict=True)
        ]
        with torch.enable_grad():
            ones = [
                torch.ones_like(out, requires_grad=True) if is_it else None
                for out, is_it in zip(outputs, differentiable, strict=True)
            ]
            outs = [out if has else None for out, has in zip(outputs, there, strict=True)]
            both = [*inputs, *outs]
            needs = tuple([tangent is not None for tangent in given])
            found = gradient(*(both[i] for i in used), *values, *ones, needs)
        found = found if isinstance(found, tuple) else (found,)
        pairs = [
            (g, tangent)
            for g, tangent in zip(found, given, strict=True)
            if tangent is not None and g is not None and g.requires_grad
        ]
        if not pairs:  # the outputs do not depend on what has tangents
            return [None] * len(outputs)
        sums = [one for one in ones if one is not None]
        derivatives = iter(
            torch.autograd.grad(
                [g for g, _ in pairs],
                sums,
                [tangent for _, tangent in pairs],
                create_graph=torch.is_grad_enabled(),
                materialize_grads=True,
            )
        )
        return [next(derivatives) if is_it else None for is_it in differentiable]

    return setup, backward, tangents


class NotQuickError(Exception):
    """What the quick way does not take: it goes the general one, outside of the quick way's node.

    Inside, what autograd followed there would be lost: torch's older batched tensors look plain.
    """


def differentiable(operation: Operation, fresh: Callable[..., Any]) -> Callable[..., Any]:
    """A function (inputs, values, rung) that makes autograd's node as the operator does.

    It does without the dispatcher, so it is for plain tensors where nothing else looks on.

    Args:
        operation: Which; it writes outputs alone.
        fresh: A function (*inputs, *values, rung) that gives new outputs, those that there are, or
            raises NotQuickError, as the result then does.
    """
    setup, backward, _ = _GRADIENTS[operation.name]
    wanted = _WANTED[operation.name]
    optional = any(p.optional for p in operation.parameters if not p.is_read)

    def forward(ctx: Any, values: Sequence[Any], rung: str | None, *inputs: Any) -> Any:
        result = fresh(*inputs, *values, rung)
        if optional:
            ctx.there = wanted(*inputs, *values)
            outputs = _spread(result, ctx.there)
        else:
            outputs = result if isinstance(result, tuple) else (result,)
        setup(ctx, inputs, values, outputs)
        return result

    def backward_of(ctx: Any, *gradients: torch.Tensor | None) -> tuple[Any, ...]:
        given = _spread(gradients, ctx.there) if optional else gradients
        return (None, None, *backward(ctx, *given))

    apply = _node(operation, forward, backward_of).apply

    def differentiated(inputs: Sequence[Any], values: Sequence[Any], rung: str | None) -> Any:
        return apply(tuple(operation.checked(values).values()), rung, *inputs)

    return differentiated


def _node(operation: Operation, forward: Callable[..., Any], backward: Callable[..., Any]) -> Any:
    """The class of an operation's nodes in autograd's graph.

    Not a torch.autograd.Function: where functorch's transforms are active that wants to do what the
    dispatcher has done by the time that it gets here.
    """
    methods = {
        "forward": staticmethod(forward),
        "backward": staticmethod(backward),
        "_compiled_autograd_key": staticmethod(lambda ctx: (ctx._autograd_function_id,)),
    }
    return type(operation.name, (torch.autograd.function._SingleLevelFunction,), methods)


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
        values = [
            keywords.get(name, keywords.get(name_in_out(name), default))
            for name, default in defaults.items()
        ]
        return inputs, values, keywords.get("rung")

    def returned(outs: Sequence[torch.Tensor | None], first: torch.Tensor) -> Any:
        """What the functional operator gives."""
        results = tuple([first.new_empty((0,)) if out is None else out for out in outs])
        return results[0] if len(results) == 1 else results

    def run(inputs: Sequence[Any], outs: Sequence[Any], values: Sequence[Any], rung: Any) -> None:
        call = (*inputs, *outs, *operation.encode(values), operation.codes[rung])
        operation.log_choice(*call)
        operation.run(*call)

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

    def below_autograd(operator: Any, keyset: Any, arguments: Any, keywords: Any) -> Any:
        with torch._C._AutoDispatchBelowAutograd():
            return operator.redispatch(
                keyset & torch._C._after_autograd_keyset, *arguments, **keywords
            )

    def without_gradient(operator: Any) -> Callable[..., Any]:
        def autograd(keyset: Any, *arguments: Any, **keywords: Any) -> Any:
            outs = [keywords.get(output) for output in operation.outputs]
            _refuse_gradients(operation, [*arguments, *outs])
            return below_autograd(operator, keyset, arguments, keywords)

        return autograd

    def with_gradient(operator: Any) -> Callable[..., Any]:
        setup, backward, tangents_of = _GRADIENTS[operation.name]
        wanted = _WANTED[operation.name]

        def forward(ctx: Any, keyset: Any, keywords: dict[str, Any], *inputs: Any) -> Any:
            if torch._C._are_functorch_transforms_active():  # the outer ones differentiate, too
                with torch.enable_grad(), forward_ad._set_fwd_grad_enabled(True):
                    result = below_autograd(operator, keyset, inputs, keywords)
            else:
                result = below_autograd(operator, keyset, inputs, keywords)
            outputs = result if isinstance(result, tuple) else (result,)
            _, values, _ = split(inputs, keywords)
            there = wanted(*inputs, *values)
            pairs = list(zip(outputs, there, strict=True))
            found = [out if is_there else None for out, is_there in pairs]
            setup(ctx, inputs, values, found, [out for out, is_there in pairs if not is_there])
            return result

        function = _node(operation, forward, lambda ctx, *g: (None, None, *backward(ctx, *g)))

        def differentiated(keyset: Any, inputs: Sequence[Any], keywords: dict[str, Any]) -> Any:
            if not (torch.is_grad_enabled() and torch._C._any_requires_grad(*inputs)):
                return below_autograd(operator, keyset, inputs, keywords)
            if not torch._C._are_functorch_transforms_active():
                return function.apply(keyset, keywords, *inputs)
            with enable_single_level_autograd_function():
                return function.apply(keyset, keywords, *inputs)

        def autograd(keyset: Any, *arguments: Any, **keywords: Any) -> Any:
            duals, values, _ = split(arguments, keywords)
            inputs, tangents = _duals(duals)
            result = differentiated(keyset, inputs, keywords)
            if tangents is None:
                return result
            if not operation.gradient:
                raise _no_tangent(operation)
            results = result if isinstance(result, tuple) else (result,)
            node = next((x.grad_fn for x in results if x.grad_fn is not None), None)
            if node is not None and not torch._C._are_functorch_transforms_active():
                node.duals = duals, _versions_of(duals), keywords
            try:
                of_results = tangents_of(inputs, tangents, results, values)
            except NotImplementedError as error:  # the gradient has itself no gradient
                raise _no_tangent(operation) from error
            duals = tuple(
                [
                    x if tangent is None else forward_ad.make_dual(x, tangent)
                    for x, tangent in zip(results, of_results, strict=True)
                ]
            )
            return duals if isinstance(result, tuple) else duals[0]

        return autograd

    def with_autocast(operator: Any, device: str) -> Callable[..., Any]:
        rule = _autocast.Rule(operation, operator, device)

        def autocast(*arguments: Any, **keywords: Any) -> Any:
            inputs, values, rung = split(arguments, keywords)
            return rule(inputs, dict(zip(names, values, strict=True)), rung)

        return autocast

    def flops(*arguments: Any, out_val: Any = None, **keywords: Any) -> int:
        """What FlopCounterMode counts: the catalogue's cost."""
        inputs, values, _ = split(arguments, keywords)
        outs = [keywords.get(output) for output in operation.outputs]
        views = _views(operation, [*inputs, *outs])
        query = operation.functions(_device_of(inputs[0])).flops
        return int(query(*views, *operation.encode(values)))

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
        register_flop_formula(getattr(torch.ops.warpsmith, name), get_raw=True)(flops)
    if changed:
        return
    operator = getattr(torch.ops.warpsmith, operation.name).default
    if _autocast.may_cast(operation):
        for device, key in _autocast.DEVICES.items():
            LIBRARY.impl(operation.name, with_autocast(operator, device), key)
    rule = _batch.rule_of(operation, operator)
    if rule is not None:
        torch.library.register_vmap(f"warpsmith::{operation.name}", rule, lib=LIBRARY)


# ---- Calls --------------------------------------------------------------------------------------


def call(
    operation: Operation,
    inputs: Sequence[Any],
    values: Sequence[Any],
    rung: str | None,
    out: Any,
) -> Any:
    """The general way for torch tensors: through the operator."""
    keywords = operation.checked(values)  # before torch's parser, which does not know the choices
    operation.codes[rung]
    with torch._C.DisableTorchFunction():  # who overrides functions sees the operator alone
        _check(operation, inputs)
        wanted = _WANTED[operation.name](*inputs, *keywords.values())
    operator = getattr(torch.ops.warpsmith, operation.name)
    if not operation.outputs:
        _refuse_negated(operation, inputs)
        operator(*inputs, **keywords, rung=rung)
        changed = [x for x, p in zip(inputs, operation.parameters, strict=False) if p.is_written]
        return changed[0] if len(changed) == 1 else tuple(changed)
    if out is None:
        results = operator(*inputs, **keywords, rung=rung)
        return _functions.gathered((results,) if len(wanted) == 1 else results, wanted)
    outs = _functions.outputs_of(operation, out, wanted)
    _check(operation, [*inputs, *outs])
    _refuse_negated(operation, [*inputs, *outs])
    _refuse_gradients(operation, [*inputs, *outs])
    named = {name_in_out(name): value for name, value in keywords.items()}
    named |= dict(zip(operation.outputs, outs, strict=True))
    getattr(torch.ops.warpsmith, f"{operation.name}_out")(*inputs, rung=rung, **named)
    return out


_WANTED = {operation.name: _functions.wanted_of(operation) for operation in OPERATIONS.values()}
_GRADIENTS = {
    operation.name: _gradient_of(operation)
    for operation in OPERATIONS.values()
    if not operation.in_out
}

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
    arguments, arguments_of_out = (
        ", ".join(
            [
                *operation.inputs,
                *(f"{name_of(a.name)}={a.name}" for a in operation.attributes),
                "rung=rung",
            ]
        )
        for name_of in (str, name_in_out)
    )
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
    operators.{operation.name}_out({arguments_of_out}, {outputs[0]}=out)
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
    operators.{operation.name}_out({arguments_of_out}, {written})
    return out
"""
    this = f"functions[{operation.name!r}]"
    lines = [*_functions.prologue_of(operation, this), *_functions.promotion_of(operation, this)]
    for a in operation.attributes:
        if a.kind == "dims":  # torch's parser takes a number for a list, but no symbol
            lines += [f"if isinstance({a.name}, int):", f"    {a.name} = ({a.name},)"]
    body = "".join(f"    {line}\n" for line in lines) + body
    _TRACED.functions[operation.name] = function
    # Not by its own name, which may be that of a builtin: sum, any.
    name = f"traced_{operation.name}"
    exec(f"def {name}({parameters}):\n{body}", _TRACED.__dict__)
    torch.compiler.substitute_in_graph(function)(getattr(_TRACED, name))


for _operation in OPERATIONS.values():
    _define(_operation)
if torch.distributed.is_available():
    _batch.register_shardings()
