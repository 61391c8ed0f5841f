"""The functions of the package, one for each operation, written out from the catalogue.

A call on torch tensors that want no trace costs a check and one call of the binding, and, where a
gradient is wanted, autograd's node; every line of it counts, so that the source of each function is
generated without loops. All else goes the general way: torch.ops (_torch.py), or other libraries'
arrays (_arrays.py).
"""

import inspect
import linecache
import re
from collections.abc import Callable, Sequence
from typing import Any

from warpsmith import _arrays, _as_torch, _expressions, _signatures
from warpsmith._catalogue import Operation, Parameter

try:
    import torch
except ImportError:
    torch = None
else:
    from warpsmith import _autocast


def parameters_of(operation: Operation) -> str:
    """The parameter list of an operation's function, as source."""
    arguments = _signatures.arguments_of(operation)
    parts = [a.source for a in arguments if not a.by_keyword]
    parts.append("*")
    parts += [a.source for a in arguments if a.by_keyword]
    parts.append("rung=None")
    if operation.outputs:
        parts.append("out=None")
    return ", ".join(parts)


def _given(operation: Operation) -> tuple[str, str]:
    """Sources of two dictionaries by a function's own names: what is read, and the rest of ours."""
    arguments = _signatures.arguments_of(operation)
    reads = [a.name for a in arguments if a.own in operation.inputs]
    keywords = [*(a.name for a in operation.attributes), "rung"]
    keywords += ["out"] if operation.outputs else []
    return _dictionary(reads), _dictionary(keywords)


def _dictionary(names: Sequence[str]) -> str:
    return f"{{{', '.join(f'{name!r}: {name}' for name in names)}}}"


def prologue_of(operation: Operation, this: str) -> list[str]:
    """Source that makes what the operation takes of a function's parameters.

    Args:
        operation: Which.
        this: Source that gives the function.
    """
    arguments = _signatures.arguments_of(operation)
    lines = [f"{a.own} = {a.name}" for a in arguments if a.own not in (None, a.name)]
    for a in arguments:
        if a.none_is_default:
            lines += [f"if {a.name} is None:", f"    {a.name} = {a.default!r}"]
    lines += [
        f"{a.name} = dtype_names.get({a.name}, {a.name})"
        for a in operation.attributes
        if a.is_dtype
    ]
    casts = _as_torch.casts_of(operation)
    if casts:
        given = ", ".join([repr(operation.name), *_given(operation), "{'dtype': (dtype, None)}"])
        lines += [
            f"if dtype is not None and dtype in {casts}:",
            f"    return as_torch({this}, {given})",
        ]
    extras = _as_torch.extras_of(operation)
    if extras:
        x = operation.inputs[0]
        conditions = []
        for name, default in extras.items():
            differs = f"{name} {'!=' if type(default) in (int, float) else 'is not'} {default!r}"
            if name in _as_torch.SAME:
                same = _as_torch.SAME[name].format(x)
                differs = f"({differs} and not (type({x}) is Tensor and {same}))"
            conditions.append(differs)
        pairs = ", ".join(f"{name!r}: ({name}, {default!r})" for name, default in extras.items())
        given = ", ".join([repr(operation.name), *_given(operation), f"{{{pairs}}}"])
        lines += [f"if {' or '.join(conditions)}:", f"    return as_torch({this}, {given})"]
    return lines


def promotion_of(operation: Operation, this: str) -> list[str]:
    """Source that calls the function again with operands of one dtype, where they are of two."""
    if not _as_torch.promotes(operation):
        return []
    given = ", ".join(_given(operation))
    return [f"if differ({', '.join(operation.inputs)}):", f"    return promote({this}, {given})"]


def _returns(operation: Operation) -> list[str]:
    if not operation.outputs:
        return [f"    {name}, the same array." for name in operation.in_out]
    docs = {p.name: p.doc for p in operation.parameters}
    if len(operation.outputs) == 1:
        return [f"    {docs[operation.outputs[0]]}."]
    lines = ["    A tuple of those that the call has:"]
    return lines + [f"    {name}: {docs[name]}." for name in operation.outputs]


def docstring_of(operation: Operation) -> str:
    """The docstring of an operation's function."""
    first = operation.rungs[0]["name"]
    lines = [f"{operation.summary[0].upper()}{operation.summary[1:]}.", ""]
    lines += [f"    {operation.formula}", "", "Args:"]
    ours = {a.own: a.name for a in _signatures.arguments_of(operation)}
    for p in operation.parameters:
        if p.is_read:
            note = " Optional." if p.optional else ""
            note += " Written too." if p.is_written else ""
            note += f" In the formula {p.name}." if ours[p.name] != p.name else ""
            lines.append(f"    {ours[p.name]}: {p.doc}.{note}")
    for a in operation.attributes:
        choices = f" One of {', '.join(map(repr, a.choices))}." if a.choices else ""
        lines.append(f"    {a.name}: {a.doc}.{choices}")
    for name, default in _as_torch.extras_of(operation).items():
        lines.append(f"    {name}: {_as_torch.doc_of(name, default)}.")
    lines += [
        f"    rung: A rung's name, an address such as {operation.name}/{first},",
        "        or a seed name; None picks the fastest that takes the call.",
    ]
    if operation.outputs:
        several = ", a tuple where there are several" if len(operation.outputs) > 1 else ""
        lines.append(f"    out: Written and returned instead of a new array{several}.")
    inexact = [rung["name"] for rung in operation.rungs if not rung["deterministic"]]
    narrow = [
        f"{rung['name']} ({rung['accumulate']})"
        for rung in operation.rungs
        if rung["accumulate"] != "f32"
    ]
    lines += [
        "",
        "Returns:",
        *_returns(operation),
        "",
        f"dtypes: {', '.join(operation.dtypes)}. CPU arrays run in the emulator,",
        "CUDA arrays on their GPU and the caller's current stream.",
        "",
        "Raises:",
        "    TypeError: what is no array, or arguments that the signature has not.",
        "    ValueError: shapes, dtypes, devices or names that do not fit; the text has values.",
        "    RuntimeError: the device or the kernel failed.",
        "",
        f"Rungs: {', '.join(rung['name'] for rung in operation.rungs)}.",
    ]
    if inexact:
        lines.append(f"Not the same bits in every run: {', '.join(inexact)}.")
    if narrow:
        lines.append(f"Add up in less than f32, and run only where named: {', '.join(narrow)}.")
    if operation.source:
        lines.append(f"Source: {operation.source}.")
    return "\n".join(lines)


def outputs_of(operation: Operation, out: Any, wanted: Sequence[bool]) -> tuple[Any, ...]:
    """What the caller brought as `out`, for each output; None for those that the call has not.

    Args:
        operation: Which.
        out: An array, or a tuple: one for each output that the call has, or for each that the
            operation has.
        wanted: Whether the call has an output, for each.
    """
    outs = out if isinstance(out, (tuple, list)) else (out,)
    if len(outs) == len(wanted):
        return tuple(outs)
    if len(outs) != sum(wanted):
        raise ValueError(
            f"{operation.name} has {sum(wanted)} outputs here, out is of {len(outs)} arrays"
        )
    rest = iter(outs)
    return tuple([next(rest) if there else None for there in wanted])


def gathered(results: Sequence[Any], wanted: Sequence[bool]) -> Any:
    """What a function returns: the only output that there is, else a tuple of those there are."""
    # By number: torch.fx's proxy of several results cannot be iterated.
    found = tuple([results[i] for i, there in enumerate(wanted) if there])
    return found[0] if len(found) == 1 else found


def wanted_of(operation: Operation) -> Callable[..., tuple[bool, ...]]:
    """A function of inputs and attributes that says which outputs a call has."""
    parts = [_expressions.is_there(p) for p in operation.parameters if not p.is_read]
    text = f"({''.join(f'{part}, ' for part in parts)})"
    arguments = _expressions.arguments_of(operation)
    if torch is None and all(part == "True" for part in parts):
        return lambda *_: (True,) * len(parts)
    return _expressions.make("wanted", arguments, text)


def _general(operation: Operation) -> Callable[..., Any]:
    """The function for every kind of array; arguments in order: inputs, attributes, rung, out."""
    count = len(operation.inputs)
    named = result_type_of(operation)

    def general(*arguments: Any) -> Any:
        inputs, values = arguments[:count], arguments[count:-2]
        rung, out = arguments[-2:]
        if torch is not None and (
            isinstance(inputs[0], torch.Tensor) or torch.overrides.has_torch_function(inputs)
        ):
            from warpsmith import _torch

            result = _torch.call(operation, inputs, values, rung, out)
            return result if named is None or out is not None else named(result)
        return _arrays.call(operation, inputs, values, rung, out)

    return general


_BROADCAST = re.compile(r"torch\.broadcast_shapes\((\w+)\.shape(?:, ?\w+\.shape)*,?\)")


def like_first(operation: Operation, output: Parameter) -> bool:
    """Whether an output has the first tensor's shape, or has it where all inputs do."""
    match = _BROADCAST.fullmatch(output.shape)
    first = operation.inputs[0]
    return not output.optional and (not output.shape or (match and match[1] == first))


def _new(operation: Operation, output: Parameter) -> str:
    """Source that makes an output; where the guess is wrong, the binding does not take it."""
    first = operation.inputs[0]
    dtype = f", dtype={output.torch_dtype}" if output.torch_dtype else ""
    if like_first(operation, output):
        return f"empty_like({first}{dtype})"
    shape = output.shape or f"{first}.shape"
    if shape.startswith("laid_as(") and not dtype:  # of the dtype of what it lies as
        return f"new_as{shape.removeprefix('laid_as')}"
    if not output.optional or "None" not in output.shape:
        return f"{first}.new_empty({shape}{dtype})"
    return f"({first}.new_empty(shape{dtype}) if (shape := ({shape})) is not None else None)"


def _called(operation: Operation, way: str, written: Sequence[str] = ()) -> str:
    """Source that runs a call of the binding, in one of its ways."""
    encoded = [
        f"{a.name}_codes.get({a.name}, -1)" if a.kind == "choice" else a.name
        for a in operation.attributes
    ]
    given = ", ".join([*operation.inputs, *written, *encoded])
    return f"{way}({given}) if rung is None else {way}({given}, rung_codes[rung])"


def _touch(names: Sequence[str]) -> list[str]:
    return [f"increment_version(({''.join(f'{name}, ' for name in names)}))"] if names else []


def _fresh(operation: Operation, result_type: str = "") -> list[str]:
    """Source that returns new outputs where the quick way takes the call.

    As in the last call, whose outputs the binding knows; else as the row has them.
    """
    outputs = [p for p in operation.parameters if not p.is_read]
    results = [f"result{i}" for i in range(len(outputs))]
    news = [_new(operation, output) for output in outputs]
    made = ", ".join(results)
    optional = any(output.optional for output in outputs)
    value = results[0] if len(outputs) == 1 else f"gathered(({made}))" if optional else made
    result = "made"
    if result_type:
        value, result = f"{result_type}(({made}))", f"{result_type}(made)"
    return [
        f"made = {_called(operation, 'run_made')}",
        "if made is not None:",
        *_indented([*_touch(operation.in_out), f"return {result}"]),
        "try:",
        *_indented([f"{name} = {new}" for name, new in zip(results, news, strict=True)]),
        "except Exception:  # an argument is not what it seems",
        "    done = False",
        "else:",
        f"    done = {_called(operation, 'run_fresh', results)}",
        "if done:",
        *_indented([*_touch(operation.in_out), f"return {value}"]),
    ]


def _given_outputs(operation: Operation) -> list[str]:
    """Source, after that of new outputs, that writes the caller's where the quick way does."""
    outputs = [p for p in operation.parameters if not p.is_read]
    outs = [f"out{i}" for i in range(len(outputs))]

    def call(written: Sequence[str]) -> list[str]:
        touched = _touch([*operation.in_out, *written])
        taken = _indented([*touched, "return out"])
        return [f"if {_called(operation, 'run_given', written)}:", *taken]

    if len(outputs) == 1:
        return ["elif type(out) is Tensor and not out.requires_grad:", *_indented(call(["out"]))]
    if any(output.optional for output in outputs):
        return []
    fit = " and ".join(f"type({out}) is Tensor and not {out}.requires_grad" for out in outs)
    unpacked = [f"{', '.join(outs)} = out", f"if {fit}:", *_indented(call(outs))]
    return [f"elif type(out) is tuple and len(out) == {len(outs)}:", *_indented(unpacked)]


def _with_gradient(operation: Operation, result_type: str) -> list[str]:
    """Source that returns what autograd follows, of new outputs."""
    # functorch's tensors look plain; operands of two dtypes are cast first.
    conditions = ["out is None", "not functorch()"]
    if _as_torch.promotes(operation):
        conditions.append(f"not differ({', '.join(operation.inputs)})")
    inputs = "".join(f"{name}, " for name in operation.inputs)
    values = "".join(f"{a.name}, " for a in operation.attributes)
    value = f"differentiated(({inputs}), ({values}), rung)"
    value = f"{result_type}({value})" if result_type else value
    tried = ["try:", f"    return {value}", "except NotQuickError:", "    pass"]
    return [f"if {' and '.join(conditions)}:", *_indented(tried)]


def _source(operation: Operation) -> str:
    """The source of the quick function: see the module's docstring."""
    arguments = _expressions.arguments_of(operation)
    everything = ", ".join([*arguments, "rung", "out" if operation.outputs else "None"])
    result_type = "" if result_type_of(operation) is None else "result_type"

    # Anything that is no plain tensor, or asks for more than the result, goes the general way.
    plain = ["not function_mode()"]  # first: it would see what the others ask
    wants_gradient = []
    for p in operation.parameters:
        if p.is_read:
            is_plain = f"(type({p.name}) is Tensor or type({p.name}) is Parameter)"
            plain.append(f"({p.name} is None or {is_plain})" if p.optional else is_plain)
            wants = f"{p.name}.requires_grad"
            wants_gradient.append(f"{p.name} is not None and {wants}" if p.optional else wants)
    plain += ["not dispatch_modes()", "forward_ad._current_level < 0", "tracing_state() is None"]
    plain.append("not profiler._is_profiler_enabled")
    if _autocast.may_cast(operation):
        plain.append("not autocast()")

    if operation.outputs:
        fresh = ["if out is None:", *_indented(_fresh(operation, result_type))]
        body = [*fresh, *_given_outputs(operation)]
    else:
        changed = list(operation.in_out)
        value = changed[0] if len(changed) == 1 else f"({', '.join(changed)})"
        taken = _indented([*_touch(changed), f"return {value}"])
        body = [f"if {_called(operation, 'run_given')}:", *taken]
    wants = f"({' or '.join(wants_gradient)}) and grad_on()"
    if operation.in_out:  # which has no gradient, and says so
        body = [f"if not ({wants}):", *_indented(body)]
    else:
        followed = _indented(_with_gradient(operation, result_type))
        body = [f"if {wants}:", *followed, "else:", *_indented(body)]
    lines = [
        *prologue_of(operation, "this"),
        f"if {' and '.join(plain)}:",
        *_indented(body),
        *promotion_of(operation, "this"),
        f"return general({everything})",
    ]
    head = f"def {operation.name}({parameters_of(operation)}):"
    return "\n".join([head, *_indented(lines)]) + "\n"


def _fresh_source(operation: Operation) -> str:
    """The source of what runs in autograd's node: new outputs, that nothing differentiates."""
    arguments = ", ".join([*_expressions.arguments_of(operation), "rung"])
    lines = [*_fresh(operation), "raise NotQuickError"]
    return "\n".join([f"def fresh({arguments}):", *_indented(lines)]) + "\n"


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _plain_source(operation: Operation) -> str:
    out = "out" if operation.outputs else "None"
    arguments = [*_expressions.arguments_of(operation), "rung", out]
    return f"""
def {operation.name}({parameters_of(operation)}):
    return general({", ".join(arguments)})
"""


def _there(results: tuple[Any, ...]) -> tuple[Any, ...]:
    found = tuple([result for result in results if result is not None])
    return found[0] if len(found) == 1 else found


def result_type_of(operation: Operation) -> Any:
    """torch's tuple with names, which torch's function of the operation's name returns, or None."""
    name = _signatures.torch_name(operation)
    return None if torch is None else getattr(torch.return_types, name, None)


def file_of(operation: Operation) -> str:
    """The name under which the source of an operation's function is known."""
    return f"<warpsmith {operation.name}>"


def _differ(a: Any, b: Any) -> bool:
    """_as_torch.differ, unseen by modes and subclasses, which are to see the call alone."""
    with torch._C.DisableTorchFunction():
        return _as_torch.differ(a, b)


def make(operation: Operation) -> Callable[..., Any]:
    """The package's function for an operation."""
    scope: dict[str, Any] = {
        "__name__": "warpsmith",
        "general": _general(operation),
        "gathered": _there,
        "rung_codes": operation.codes,
    }
    if torch is not None:
        from warpsmith import _torch

        scope |= _expressions.scope() | {
            "run_fresh": operation.run_fresh,
            "run_given": operation.run_given,
            "run_made": operation.run_made,
            "new_as": _expressions.new_as,
            "Tensor": torch.Tensor,
            "Parameter": torch.nn.Parameter,
            "empty_like": torch.empty_like,
            "grad_on": torch.is_grad_enabled,
            "dispatch_modes": torch._C._len_torch_dispatch_stack,
            "tracing_state": torch._C._get_tracing_state,  # of torch.jit.trace
            "function_mode": torch._C._is_torch_function_mode_enabled,
            "profiler": torch.autograd.profiler,
            "autocast": torch._C._is_any_autocast_enabled,
            "increment_version": torch._C._increment_version,
            "forward_ad": torch.autograd.forward_ad,
            "functorch": torch._C._are_functorch_transforms_active,
            "result_type": result_type_of(operation),
            "dtype_names": _torch.DTYPE_NAMES,
            "as_torch": _as_torch.apply,
            "differ": _differ,
            "promote": _as_torch.promote,
            "NotQuickError": _torch.NotQuickError,
        }
        for a in operation.attributes:
            if a.kind == "choice":
                codes: dict[Any, Any] = {choice: i for i, choice in enumerate(a.choices)}
                scope[f"{a.name}_codes"] = codes | {None: None}
        if operation.outputs and not operation.in_out:
            exec(_fresh_source(operation), scope)
            scope["differentiated"] = _torch.differentiable(operation, scope["fresh"])
    source = _plain_source(operation).lstrip() if torch is None else _source(operation)
    # Under this name inspect.getsource and tracebacks find the lines.
    file = file_of(operation)
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    exec(compile(source, file, "exec"), scope)
    function = scope["this"] = scope[operation.name]
    function.__doc__ = docstring_of(operation)
    function.__module__ = "warpsmith"
    function.__qualname__ = operation.name
    if torch is not None:
        _torch.trace_as_operator(operation, function, parameters_of(operation))
    return function


def signature_of(operation: Operation) -> inspect.Signature:
    """The signature of the package's function for an operation."""
    scope: dict[str, Any] = {}
    exec(f"def f({parameters_of(operation)}): ...", scope)
    return inspect.signature(scope["f"])
