"""What a gradient reads of a call.

A node of autograd's graph keeps no more than that: memory is free as early, and as much may be
changed in place, as with torch's own operations.
"""

import ast
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from warpsmith import _expressions


class Outline:
    """What a tensor was, for a gradient that reads none of its elements."""

    ATTRIBUTES = frozenset(
        {"shape", "dtype", "device", "ndim", "dim", "numel", "stride", "requires_grad"}
    )

    def __init__(self, tensor: Any) -> None:
        self.shape = tensor.shape
        self.dtype = tensor.dtype
        self.device = tensor.device
        self.ndim = tensor.ndim
        self.strides = tensor.stride()
        self.requires_grad = tensor.requires_grad

    def dim(self) -> int:
        return self.ndim

    def numel(self) -> int:
        return math.prod(self.shape)  # not a number where extents are torch.compile's symbols

    def stride(self, dim: int) -> int:
        return self.strides[dim]


class Plan(NamedTuple):
    """Places, among the tensors that a gradient names, of those that it reads."""

    needs: tuple[bool, ...]  # of each input, whether its gradient is wanted
    elements: tuple[int, ...]
    outlines: tuple[int, ...]  # of which it reads but what an Outline has


def by_need(text: str, count: int) -> str:
    """A gradient that computes what `needs`, a tuple of bools, says of a tuple that it writes out.

    Args:
        text: The gradient.
        count: Of inputs. That of a single one is always wanted.
    """
    tree = _parsed(text)
    if count > 1:
        tree = ast.fix_missing_locations(_ByNeed().visit(tree))
    (function,) = tree.body
    assert isinstance(function, ast.FunctionDef)
    return "\n".join(ast.unparse(statement) for statement in function.body)


def plan(
    text: str, names: Sequence[str], needs: tuple[bool, ...], values: Mapping[str, Any]
) -> Plan:
    """What a gradient of by_need() reads.

    Args:
        text: The gradient.
        names: Of tensors.
        needs: As in Plan.
        values: Of attributes that say which parts of it are computed.
    """
    tree = _parsed(text)
    own = _bound_in(tree)
    known = {name: value for name, value in values.items() if name not in own}
    tree = _Known({"needs": needs, **known}).visit(tree)
    named: Counter[str] = Counter()
    outlined: Counter[str] = Counter()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name):
                named[name] += 1
            case ast.Attribute(value=ast.Name(id=name), attr=attribute):
                outlined[name] += attribute in Outline.ATTRIBUTES
            case ast.Compare(
                left=ast.Name(id=name),
                ops=[ast.Is() | ast.IsNot()],
                comparators=[ast.Constant(None)],
            ):
                outlined[name] += 1
    read = [i for i, name in enumerate(names) if named[name] > outlined[name]]
    seen = [i for i, name in enumerate(names) if named[name] == outlined[name] > 0]
    return Plan(needs, tuple(read), tuple(seen))


def _parsed(text: str) -> ast.Module:
    return ast.parse(_expressions.source("gradient", [], text))


def _bound_in(tree: ast.Module) -> set[str]:
    """Names that a text gives a meaning of its own."""
    names = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                names.add(name)
    return names


class _ByNeed(ast.NodeTransformer):
    """Of tuples that are returned, makes each element None that is not needed."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self.generic_visit(node) if node.name == "gradient" else node  # not those inside

    def visit_Return(self, node: ast.Return) -> ast.AST:
        elements = node.value.elts if isinstance(node.value, ast.Tuple) else []
        if elements and not any(isinstance(element, ast.Starred) for element in elements):
            node.value.elts = [self._wanted(i, element) for i, element in enumerate(elements)]
        return node

    @staticmethod
    def _wanted(i: int, element: ast.expr) -> ast.expr:
        if isinstance(element, ast.Constant):
            return element
        test = ast.parse(f"needs[{i}]", mode="eval").body
        return ast.IfExp(test, element, ast.Constant(None))


class _Known(ast.NodeTransformer):
    """Leaves out branches that are not taken, where values say so."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = dict(values)

    def _takes(self, test: ast.expr) -> bool | None:
        names = {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}
        if not names <= self.values.keys():
            return None
        return bool(eval(compile(ast.Expression(test), "<expression>", "eval"), {}, self.values))

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        takes = self._takes(node.test)
        if takes is None:
            return self.generic_visit(node)
        return self.visit(node.body if takes else node.orelse)

    def visit_If(self, node: ast.If) -> Any:
        takes = self._takes(node.test)
        if takes is None:
            return self.generic_visit(node)
        taken = ast.Module(node.body if takes else node.orelse, [])
        return self.generic_visit(taken).body
