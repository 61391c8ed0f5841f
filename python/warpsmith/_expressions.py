"""The catalogue's Python expressions, made functions: shapes, gradients, torch's version.

An expression is over the names of an operation's tensors and attributes, those that are absent
being None, and over `torch`, `sum_to`, `reduced_shape`, `laid_as`, `refuse`,
`lengths_of`, `tensors_of`, `scanned` and `to_latest`.
"""

import ast
import textwrap
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from warpsmith._catalogue import Operation, Parameter


def sum_to(tensor: Any, shape: Sequence[int]) -> Any:
    """Undoes a broadcast: the sum of a tensor over what was repeated; of None, None."""
    if tensor is None or tensor.shape == shape:
        return tensor
    return tensor.sum_to_size(shape)


def reduced_shape(
    shape: Sequence[Any], dim: int | Sequence[int] | None, keepdim: bool = False
) -> tuple[Any, ...]:
    """What is left of a shape without dimensions: one, several, or None or () for all."""
    rank = len(shape)
    if dim is None or (not isinstance(dim, int) and len(dim) == 0):
        gone = range(rank)
    else:
        gone = [d % max(rank, 1) for d in ((dim,) if isinstance(dim, int) else dim)]
    if keepdim:
        return tuple([1 if d in gone else extent for d, extent in enumerate(shape)])
    return tuple([extent for d, extent in enumerate(shape) if d not in gone])


class Laid(tuple[Any, ...]):
    """A shape of [batch, heads, rows, columns], and whether rows come before heads in memory."""

    rows_first: bool


def _rows_first(tensor: Any) -> bool:
    _, heads, rows, _ = tensor.stride()
    return tensor.shape[1] > 1 and 0 < heads < rows


def laid_as(tensor: Any, shape: Sequence[Any]) -> Laid:
    """A shape of [batch, heads, rows, columns], in memory rows before heads as in a tensor's."""
    laid = Laid(shape)
    laid.rows_first = _rows_first(tensor)
    return laid


def new_laid(first: Any, shape: Sequence[Any], dtype: Any, rows_first: bool) -> Any:
    """A new tensor of a Laid shape, on the device of another."""
    if not rows_first:
        return first.new_empty(shape, dtype=dtype)
    batch, heads, rows, columns = shape
    return first.new_empty((batch, rows, heads, columns), dtype=dtype).transpose(1, 2)


def new_as(tensor: Any, shape: Sequence[Any]) -> Any:
    """A new tensor of laid_as(tensor, shape) and its dtype: in one step, which is quicker."""
    return new_laid(tensor, shape, tensor.dtype, _rows_first(tensor))


def refuse(reason: str) -> Any:
    """For a peer that does not compute a case: the bench loop skips it, and says why."""
    raise ValueError(reason)


def lengths_of(starts: Any) -> list[int]:
    """For a peer that wants them as numbers: how long sequences are that begin at `starts`.

    Read from the device in the first call with a tensor, which is not timed.
    """
    known = starts.__dict__.get("_warpsmith_lengths")
    if known is None:
        known = starts._warpsmith_lengths = starts.diff().tolist()
    return known


def tensors_of(memory: Any, pieces: Any) -> list[list[Any]]:
    """For a peer that wants tensors where ours takes a table of where they begin and how long.

    Made in the first call with a table, which is not timed: a list for each column but the last.
    """
    known = pieces.__dict__.get("_warpsmith_tensors")
    if known is None:
        rows = pieces.tolist()
        known = pieces._warpsmith_tensors = [
            [memory[row[k] : row[k] + row[-1]] for row in rows] for k in range(pieces.shape[1] - 1)
        ]
    return known


def scanned(
    function: Callable[..., Any], x: Any, dim: int, none: float, exclusive: bool, reverse: bool
) -> Any:
    """A scan of torch's, from the other end or without each element itself, as it has neither.

    Args:
        function: Of a tensor and a dimension: torch's scan.
        x: The tensor.
        dim: Along which.
        none: What comes of no elements.
        exclusive: Without the element itself.
        reverse: From the other end.
    """
    import torch

    if not (exclusive or reverse):
        return function(x, dim)
    line = x.reshape(1) if x.ndim == 0 else x
    y = function(line.flip(dim) if reverse else line, dim)
    if exclusive and line.shape[dim] > 0:
        first = torch.full_like(y.narrow(dim, 0, 1), none)
        y = torch.cat([first, y.narrow(dim, 0, line.shape[dim] - 1)], dim)
    return (y.flip(dim) if reverse else y).reshape(x.shape)


def to_latest(ops: Any, chosen: Any, g: Any, dim: int, exclusive: bool, reverse: bool) -> Any:
    """The gradient of a scan that hands elements on: each g goes to the latest chosen one so far.

    Args:
        ops: The package's operators.
        chosen: Bools, of the elements that results are of from there on.
        g: Gradient of the results.
        dim: Along which.
        exclusive: A result is of what lies before it: the first is nobody's.
        reverse: From the other end.
    """
    import torch

    places = ops.cumsum(torch.ones_like(g, dtype=torch.int32), dim=dim, reverse=reverse) - 1
    latest = ops.scan_max(
        torch.where(chosen, places, -1), dim=dim, exclusive=exclusive, reverse=reverse
    )
    found = latest.clamp_min(0)
    if reverse and g.ndim > 0:
        found = g.shape[dim] - 1 - found
    sums = torch.zeros_like(g, dtype=torch.float32)
    return sums.scatter_add(dim, found, torch.where(latest < 0, 0, g.float())).to(g.dtype)


def scope() -> dict[str, Any]:
    """What expressions may name beside tensors and attributes."""
    import torch

    helpers = (sum_to, reduced_shape, laid_as, refuse, lengths_of, tensors_of, scanned, to_latest)
    return {"torch": torch, **{helper.__name__: helper for helper in helpers}}


def _body(text: str) -> list[str]:
    """The lines of a function's body: of an expression, or of one that returns by itself."""
    lines = textwrap.dedent(text).strip("\n").splitlines()
    if any(line.lstrip().startswith("return ") for line in lines):
        return lines
    return ["return (", *lines, ")"]


def source(name: str, parameters: Sequence[str], text: str) -> str:
    """The source of the function that make() makes."""
    body = "\n".join(f"    {line}" for line in _body(text))
    return f"def {name}({', '.join(parameters)}):\n{body}\n"


def names_in(text: str) -> set[str]:
    """The names that an expression looks up."""
    pending = [compile(source("names", [], text), "<expression>", "exec")]
    names: set[str] = set()
    while pending:
        one = pending.pop()
        names.update(one.co_names)
        pending += [constant for constant in one.co_consts if hasattr(constant, "co_names")]
    return names


def make(name: str, parameters: Sequence[str], text: str, **more: Any) -> Callable[..., Any]:
    """A function of these parameters.

    Args:
        name: Of the function.
        parameters: As between a def's parentheses.
        text: An expression, or the body of a function: lines of which one begins with `return`.
        more: What it may name beside parameters and scope().
    """
    found = scope() | more
    exec(source(name, parameters, text), found)
    return found[name]


def arguments_of(operation: Operation) -> list[str]:
    """What expressions of an operation's outputs may name: what is read, then attributes."""
    return [*operation.inputs, *(a.name for a in operation.attributes)]


def is_there(output: Parameter) -> str:
    """An expression that says whether a call has an output; "True" where it always has."""
    if not output.optional:
        return "True"
    texts = [text for text in (output.shape, output.torch_dtype) if "None" in text]
    parts = [_is_no_none(ast.parse(text, mode="eval").body) for text in texts]
    return " and ".join(part for part in parts if part != "True") or "True"


def _is_no_none(node: ast.expr) -> str:
    """An expression that says whether another is not None, without the values it chooses among.

    Those may be what torch.fx's proxies do not compute.
    """
    if isinstance(node, ast.IfExp):
        parts = _is_no_none(node.body), _is_no_none(node.orelse)
        if parts == ("True", "True"):
            return "True"
        return f"({parts[0]} if {ast.unparse(node.test)} else {parts[1]})"
    text = ast.unparse(node)
    return f"({text} is not None)" if "None" in text else "True"


@cache
def torch_function(name: str, text: str | None = None) -> Callable[..., Any]:
    """torch's own version of an operation, or another expression over the same names.

    Args:
        name: Of the operation.
        text: The expression; None takes torch's.

    Returns:
        A function of what the operation reads (None for what is left out) and, by keyword, of its
        attributes. It gives one value or a tuple of them: of in-out tensors, then of outputs.
    """
    from warpsmith._catalogue import OPERATIONS

    operation = OPERATIONS[name]
    attributes = [a.name if a.required else f"{a.name}={a.default!r}" for a in operation.attributes]
    keywords = ["*", *attributes] if attributes else []
    return make(name, [*operation.inputs, *keywords], text or operation.torch)
