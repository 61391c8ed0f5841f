"""The functions of the package, one for each operation, written out from the catalogue.

A call on torch tensors that want neither gradient nor trace costs a check and one call of the
binding; every line of it counts, so that the source of each function is generated without loops.
All else goes the general way: torch.ops (_torch.py), or other libraries' arrays (_arrays.py).
"""

import inspect
import textwrap
from collections.abc import Callable
from typing import Any

from warpsmith import _arrays
from warpsmith._catalogue import Operation

try:
    import torch
except ImportError:
    torch = None


def parameters_of(operation: Operation) -> str:
    """The parameter list of an operation's function, as source."""
    attributes = [f"{a.name}={a.default!r}" for a in operation.attributes]
    return ", ".join([*operation.inputs, *attributes, "*", "rung=None", "out=None"])


def docstring_of(operation: Operation) -> str:
    """The docstring of an operation's function."""
    first = operation.rungs[0]["name"]
    lines = [f"{operation.summary[0].upper()}{operation.summary[1:]}.", ""]
    lines += [f"    {operation.formula}", "", "Args:"]
    for name in operation.inputs:
        lines.append(f"    {name}: {operation.docs[name]}.")
    for a in operation.attributes:
        choices = f" One of {', '.join(map(repr, a.choices))}." if a.choices else ""
        lines.append(f"    {a.name}: {a.doc}.{choices}")
    lines += [
        f"    rung: A rung's name, an address such as {operation.name}/{first},",
        "        or a seed name; None picks the fastest that takes the call.",
        "    out: Written and returned instead of a new array.",
        "",
        "Returns:",
        *(f"    {operation.docs[name]}." for name in operation.outputs),
        "",
        f"dtypes: {', '.join(operation.dtypes)}. CPU arrays run in the emulator,",
        "CUDA arrays on their GPU and the caller's current stream.",
        "",
        "Raises:",
        "    ValueError: shapes, dtypes, devices or names that do not fit; the text has values.",
        "    RuntimeError: the device or the kernel failed.",
        "",
        f"Rungs: {', '.join(rung['name'] for rung in operation.rungs)}.",
    ]
    if operation.source:
        lines.append(f"Source: {operation.source}.")
    return "\n".join(lines)


def _general(operation: Operation) -> Callable[..., Any]:
    """The function for every kind of array; arguments in order: inputs, attributes, rung, out."""
    count = len(operation.inputs)

    def general(*arguments: Any) -> Any:
        inputs, values = arguments[:count], arguments[count:-2]
        rung, out = arguments[-2:]
        if torch is not None and isinstance(inputs[0], torch.Tensor):
            from warpsmith import _torch

            return _torch.call(operation, inputs, values, rung, out)
        return _arrays.call(operation, inputs, values, rung, out)

    return general


def _source(operation: Operation) -> str:
    """The source of the quick function: see the module's docstring."""
    inputs = operation.inputs
    arguments = ", ".join([*inputs, *(a.name for a in operation.attributes), "rung", "out"])
    # Anything that is no plain tensor, or asks for more than the result, goes the general way.
    plain = [f"type({name}) is Tensor" for name in inputs]
    plain += [f"not ({name}.requires_grad and grad_enabled())" for name in inputs]
    plain += ["not dispatch_modes()", "forward_ad._current_level < 0"]
    encoded = [
        f"{a.name}_codes[{a.name}]" if a.kind == "choice" else a.name for a in operation.attributes
    ]
    run = ", ".join([*inputs, "OUT", *encoded])
    if operation.like >= 0:
        empty = f"empty_like({inputs[operation.like]})"
    else:
        values = ", ".join([*inputs, *(a.name for a in operation.attributes)])
        empty = f"{inputs[0]}.new_empty(shape_of({values}))"
    return f"""
def {operation.name}({parameters_of(operation)}):
    if {" and ".join(plain)}:
        try:
            if out is None:
                result = {empty}
                if rung is None:
                    run({run.replace("OUT", "result")})
                else:
                    run({run.replace("OUT", "result")}, rung_codes[rung])
                return result
            if type(out) is Tensor and not out.requires_grad:
                if rung is None:
                    run({run.replace("OUT", "out")})
                else:
                    run({run.replace("OUT", "out")}, rung_codes[rung])
                increment_version((out,))
                return out
        except Exception:
            pass  # the general way says what is wrong, or does it another way
    return general({arguments})
"""


def _plain_source(operation: Operation) -> str:
    arguments = [*operation.inputs, *(a.name for a in operation.attributes), "rung", "out"]
    return f"""
def {operation.name}({parameters_of(operation)}):
    return general({", ".join(arguments)})
"""


def make(operation: Operation) -> Callable[..., Any]:
    """The package's function for an operation."""
    scope: dict[str, Any] = {
        "__name__": "warpsmith",
        "general": _general(operation),
        "run": operation.run_quick,
        "rung_codes": operation.codes,
    }
    quick = False
    if torch is not None and len(operation.outputs) == 1:
        from warpsmith import _torch

        quick = operation.like >= 0 or operation.name in _torch.SHAPES
    if quick:
        scope |= {
            "shape_of": _torch.SHAPES.get(operation.name),
            "Tensor": torch.Tensor,
            "empty_like": torch.empty_like,
            "grad_enabled": torch.is_grad_enabled,
            "dispatch_modes": torch._C._len_torch_dispatch_stack,
            "increment_version": torch._C._increment_version,
            "forward_ad": torch.autograd.forward_ad,
        }
        for a in operation.attributes:
            if a.kind == "choice":
                scope[f"{a.name}_codes"] = {c: float(i) for i, c in enumerate(a.choices)}
    exec(_source(operation) if quick else _plain_source(operation), scope)
    function = scope[operation.name]
    function.__doc__ = docstring_of(operation)
    function.__module__ = "warpsmith"
    function.__qualname__ = operation.name
    if torch is not None:
        _torch.trace_as_operator(operation, function, parameters_of(operation))
    return function


def signature_of(operation: Operation) -> inspect.Signature:
    """The signature of the package's function for an operation."""
    scope: dict[str, Any] = {}
    exec(textwrap.dedent(f"def f({parameters_of(operation)}): ..."), scope)
    return inspect.signature(scope["f"])
