"""What callers of an operation write: its own parameters, or those of torch's function of its name.

Where torch has a function of an operation's name, ours takes torch's parameters: their positions
and names are read from torch itself. A parameter is one of the operation's tensors, one of its
attributes, or torch's alone. What the operation is at one of the last kind is told by its row: a
constant in the row's call of the function (`torch.softmax(x, -1)`), else torch's default. Other
values are for _as_torch.py. What torch has not stands behind, by keyword.
"""

import ast
import inspect
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from warpsmith._catalogue import Operation

try:
    import torch
except ImportError:
    torch = None

REQUIRED = inspect.Parameter.empty
# Required by torch's function and left out by who means what an operation does by itself.
_MAY_BE_LEFT_OUT = ("normalized_shape",)


@dataclass(frozen=True)
class Argument:
    """A parameter of a function of the package."""

    name: str
    own: str | None  # the operation's name of it; None: torch's alone
    default: Any = REQUIRED
    by_keyword: bool = False
    # None means the default, since it is torch's default.
    none_is_default: bool = False

    @property
    def source(self) -> str:
        """As it stands in a parameter list."""
        return self.name if self.default is REQUIRED else f"{self.name}={self.default!r}"


@dataclass(frozen=True)
class _Theirs:
    """A parameter of torch's function."""

    name: str
    is_tensor: bool
    default: Any
    by_keyword: bool


def torch_name(operation: Operation) -> str:
    """The operation's name, or that of the function of torch that is all of its row's expression.

    `silu` of swish, whose row says "torch.nn.functional.silu(x)".
    """
    statements = ast.parse(textwrap.dedent(operation.torch).strip()).body
    call = statements[0].value if isinstance(statements[0], ast.Expr) else None
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
        given = [a.id for a in call.args if isinstance(a, ast.Name)]
        if given == list(operation.inputs) and len(given) == len(call.args) and not call.keywords:
            return call.func.attr
    return operation.name


def arguments_of(operation: Operation) -> list[Argument]:
    """The parameters of an operation's function, in order, without rung and out."""
    if operation.name not in _KNOWN:
        own, theirs = _own(operation), _theirs(operation)
        _KNOWN[operation.name] = (
            own if theirs is None else _merged(own, theirs, _constants(operation, theirs))
        )
    return _KNOWN[operation.name]


_KNOWN: dict[str, list[Argument]] = {}


def tensor_names(operation: Operation) -> list[str]:
    """What callers write for what the operation reads, in the order of the row."""
    names = {argument.own: argument.name for argument in arguments_of(operation)}
    return [names[name] for name in operation.inputs]


def _own(operation: Operation) -> list[Argument]:
    """Tensors by position, attributes by keyword."""
    arguments: list[Argument] = []
    may_be_left_out = True
    for p in reversed([p for p in operation.parameters if p.is_read]):
        may_be_left_out = may_be_left_out and p.optional
        default = None if may_be_left_out else REQUIRED
        arguments.insert(0, Argument(p.name, p.name, default))
    for a in operation.attributes:
        default = REQUIRED if a.required else a.default
        arguments.append(Argument(a.name, a.name, default, by_keyword=True))
    return arguments


# ---- torch's side -------------------------------------------------------------------------------


def _theirs(operation: Operation) -> list[_Theirs] | None:
    """The parameters of torch's function; None where it has none that takes what ours takes."""
    name = torch_name(operation)
    found = [] if torch is None else [list(one) for one in _signatures(name)]
    own = {argument.own: argument for argument in _own(operation)}
    tensors = sum(1 for name in operation.inputs if own[name].default is REQUIRED)

    def strange(theirs: Sequence[_Theirs]) -> int:
        """How many it requires that the operation has not."""
        known = {*own, *_MAY_BE_LEFT_OUT, *_constants(operation, theirs)}
        return sum(
            1
            for one in theirs
            if one.default is REQUIRED and not one.is_tensor and one.name not in known
        )

    found = [
        one
        for one in found
        if strange(one) == 0
        and sum(1 for p in one if p.is_tensor and p.default is REQUIRED) == tensors
    ]
    return max(found, key=lambda one: sum(not p.by_keyword for p in one), default=None)


def _signatures(name: str) -> Iterator[Iterator[_Theirs]]:
    """All that torch takes under a name."""
    functional = getattr(torch.nn.functional, name, None)
    if inspect.isfunction(functional):
        parameters = inspect.signature(functional).parameters.values()
        # With private ones (softmax's _stacklevel) the positions are not for callers.
        if not any(p.name.startswith("_") for p in parameters):
            yield (
                _Theirs(p.name, "Tensor" in str(p.annotation), p.default, p.kind == p.KEYWORD_ONLY)
                for p in parameters
            )
            return
    for space, prefix in (
        (torch, ""),
        (torch.nn.functional, ""),
        (torch.special, "special_"),
        (torch.linalg, "linalg_"),
    ):
        if not hasattr(space, name):
            continue
        packet = getattr(torch.ops.aten, prefix + name, None)
        for overload in packet.overloads() if packet else ():
            parameters = getattr(packet, overload)._schema.arguments
            if not any(p.is_out for p in parameters):
                yield (
                    _Theirs(
                        "input" if p.name == "self" else p.name,
                        isinstance(p.type, torch.TensorType),
                        p.default_value if p.has_default_value() else REQUIRED,
                        p.kwarg_only,
                    )
                    for p in parameters
                )


def _constants(operation: Operation, theirs: Sequence[_Theirs]) -> dict[str, Any]:
    """What the row's calls of torch's function say of its parameters, where that is a constant."""
    positions = [p.name for p in theirs if not p.by_keyword]
    known: dict[str, Any] = {}
    for node in ast.walk(ast.parse(textwrap.dedent(operation.torch).strip())):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr != torch_name(operation):
            continue
        named = [(keyword.arg, keyword.value) for keyword in node.keywords]
        for name, value in [*zip(positions, node.args, strict=False), *named]:
            try:
                known[name] = ast.literal_eval(value)
            except ValueError:
                continue  # a tensor or an attribute
    return known


# ---- Both ---------------------------------------------------------------------------------------


def _merged(
    own: Sequence[Argument], theirs: Sequence[_Theirs], constants: dict[str, Any]
) -> list[Argument]:
    """torch's parameters in torch's order, and what is left of ours by keyword."""
    left = {argument.own: argument for argument in own}
    names = {p.name for p in theirs}
    arguments = []
    for p in theirs:
        ours = left.get(p.name)
        if ours is None and p.is_tensor:  # the next that torch calls by another name
            ours = next((a for a in left.values() if not a.by_keyword and a.own not in names), None)
        if ours is None:
            default = constants.get(p.name, None if p.default is REQUIRED else p.default)
            arguments.append(Argument(p.name, None, default, p.by_keyword))
            continue
        del left[ours.own]
        none_is_default = p.default is None and ours.default not in (None, REQUIRED)
        arguments.append(
            replace(ours, name=p.name, by_keyword=p.by_keyword, none_is_default=none_is_default)
        )
    arguments += [replace(argument, by_keyword=True) for argument in left.values()]
    return sorted(arguments, key=lambda argument: argument.by_keyword)
