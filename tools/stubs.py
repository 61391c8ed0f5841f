#!/usr/bin/env python3
"""Writes python/warpsmith/__init__.pyi: what editors and type checkers see of the package.

Usage: PYTHONPATH=python tools/stubs.py [--check]

Functions of the catalogue are made at import, so nobody finds them in a source; here they stand
with their types. All else is imported from the module that has it, where its types are.
"""

import inspect
import json
import sys
from pathlib import Path
from typing import Any

import warpsmith
from warpsmith import _functions, _signatures
from warpsmith._catalogue import OPERATIONS, Attribute, Operation

ROOT = Path(__file__).resolve().parents[1]
STUBS = ROOT / "python/warpsmith/__init__.pyi"
PACKAGE = ROOT / "python"

HEAD = '''"""Written by tools/stubs.py from the catalogue; a test says when it is not current."""

# ruff: noqa
import builtins
from collections.abc import Sequence
from typing import Any, Literal, TypeVar

'''

ARRAY = """
# torch's, NumPy's, CuPy's or JAX's: what a call makes is of the library that it is given.
_Array = TypeVar("_Array")

__version__: str
__all__: builtins.list[str]
"""

_TYPES = {
    "float": "builtins.float",
    "int": "builtins.int",
    "bool": "builtins.bool",
    "dims": "builtins.int | Sequence[builtins.int]",
}


def type_of(attribute: Attribute) -> str:
    """The annotation of an attribute."""
    if attribute.choices:
        text = f"Literal[{', '.join(map(json.dumps, attribute.choices))}]"
        if attribute.is_dtype:
            text += " | Any"  # torch's own dtypes too
    else:
        text = _TYPES[attribute.kind]
    may_be_absent = not attribute.required and attribute.default is None
    return f"{text} | None" if may_be_absent else text


def _annotation(operation: Operation, name: str) -> str:
    """Of what callers write, which may be torch's name of it, or torch's alone."""
    own = {a.name: a.own for a in _signatures.arguments_of(operation)}.get(name, name)
    for p in operation.parameters:
        if p.name == own:
            if own != operation.inputs[0] and operation.batch == "elements":
                return "_Array | builtins.float"
            return "_Array | None" if p.optional else "_Array"
    for a in operation.attributes:
        if a.name == own:
            return type_of(a)
    if name == "out":
        several = len(operation.outputs) > 1
        return f"_Array{' | tuple[_Array, ...]' if several else ''} | None"
    return "builtins.str | None" if name == "rung" else "Any"


def _result(operation: Operation) -> str:
    """What the function returns."""
    made = [p for p in operation.parameters if not p.is_read]
    if not made:
        made = [p for p in operation.parameters if p.is_written]
    if len(made) == 1:
        return "_Array"
    if any(p.optional for p in made):
        return "Any"  # an array, or a tuple of those that the call has
    return f"tuple[{', '.join('_Array' for _ in made)}]"


def definition(operation: Operation) -> str:
    """The stub of an operation's function, with the signature that the package has."""
    parts = []
    star = False
    for p in inspect.signature(getattr(warpsmith, operation.name)).parameters.values():
        if p.kind is p.KEYWORD_ONLY and not star:
            parts.append("*")
            star = True
        default = "" if p.default is p.empty else f" = {_source(p.default)}"
        parts.append(f"{p.name}: {_annotation(operation, p.name)}{default}")
    lines = [f"def {operation.name}(", *(f"    {part}," for part in parts)]
    summary = f"{operation.summary[0].upper()}{operation.summary[1:]}."
    return "\n".join([*lines, f') -> {_result(operation)}:\n    """{summary}"""\n'])


def _source(value: Any) -> str:
    """A literal, in the formatter's quotes."""
    return json.dumps(value) if isinstance(value, str) else repr(value)


def _made(name: str) -> bool:
    """Whether a name is a function that the package wrote out from the catalogue, or wraps one."""
    thing = getattr(warpsmith, name)
    return not isinstance(thing, type) and inspect.unwrap(thing).__code__.co_filename in _FILES


_FILES = {_functions.file_of(operation) for operation in OPERATIONS.values()}


def _module_of(thing: object) -> tuple[str, str]:
    """Module and name under which a class or function stands in its source."""
    if isinstance(thing, type):
        return thing.__module__, thing.__name__
    function = inspect.unwrap(thing)
    file = Path(function.__code__.co_filename)
    module = ".".join(file.resolve().relative_to(PACKAGE).with_suffix("").parts)
    return module, function.__name__


def public_names() -> list[str]:
    """What the package offers: functions and classes that no underscore hides."""
    return [
        name
        for name, thing in sorted(vars(warpsmith).items())
        if not name.startswith("_") and callable(thing)  # modules and tables are none
    ]


def stubs() -> str:
    """The whole file."""
    made = [name for name in public_names() if _made(name)]
    imports = []
    for name in public_names():
        if name in made:
            continue
        module, original = _module_of(getattr(warpsmith, name))
        imports.append(f"from {module} import {original} as {name}")
    imports.sort()
    definitions = [definition(OPERATIONS[name]) for name in made if name in OPERATIONS]
    # By torch's names: silu, of swish.
    names = [name for name in made if name not in OPERATIONS]
    aliases = [f"{name} = {getattr(warpsmith, name).__name__}\n" for name in names]
    return "\n".join([HEAD + "\n".join(imports), ARRAY, *definitions, *aliases])


def main() -> int:
    text = stubs()
    if "--check" not in sys.argv[1:]:
        STUBS.write_text(text)
        return 0
    if STUBS.read_text() == text:
        return 0
    print(f"{STUBS.relative_to(ROOT)} is not what tools/stubs.py writes: run it")
    return 1


if __name__ == "__main__":
    sys.exit(main())
