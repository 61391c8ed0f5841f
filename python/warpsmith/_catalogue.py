"""The catalogue as Python sees it: operations, rungs, and the names that both answer to."""

import keyword
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from warpsmith._libraries import CATALOGUE, MODULES, module_for

BEST = -1  # the rung code of "the fastest that takes the call"
_ROW_BITS = 16  # of a rung code; above are the dtypes that a seed name fixes


def _identifier(name: str) -> str:
    return f"{name}_" if keyword.iskeyword(name) else name


@dataclass(frozen=True)
class Attribute:
    """A keyword of an operation that is no array."""

    name: str
    kind: str  # "float", "int", "bool" or "choice"
    default: Any
    choices: tuple[str, ...]
    doc: str

    def encode(self, value: Any) -> float:
        """The number that the C++ side takes for a value; ValueError where it is not one."""
        if self.kind == "choice":
            if value not in self.choices:
                known = ", ".join(repr(choice) for choice in self.choices)
                raise ValueError(f"{self.name} is one of {known}, not {value!r}")
            return float(self.choices.index(value))
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise ValueError(f"{self.name} is a number, not {value!r}") from None
        if self.kind != "float" and not number.is_integer():
            raise ValueError(f"{self.name} is an integer, not {value!r}")
        return number


@dataclass(frozen=True)
class Functions:
    """The functions of one operation in one library: see python/binding/ffi.cpp."""

    infer: Any
    workspace: Any
    reason: Any
    choice: Any


@dataclass(frozen=True)
class Operation:
    """What a user calls: softmax, gelu, gemm."""

    id: int
    name: str
    family: str
    summary: str
    source: str
    formula: str
    torch: str
    dtypes: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    docs: dict[str, str]  # by parameter
    attributes: tuple[Attribute, ...]
    rungs: tuple[dict[str, Any], ...]  # of the family: name, idea, dtypes, arch
    seeds: tuple[dict[str, Any], ...]  # name, rung, dtypes
    like: int  # the input whose shape and dtype the output mostly has, or -1
    _functions: dict[int, Functions] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def run(self) -> Any:
        """run(*inputs, *outputs, *attributes, rung=BEST, stream=None, workspace=None)."""
        return self._run(False)

    @cached_property
    def run_quick(self) -> Any:
        """`run` for torch tensors of which nothing was asked; what it may not take, it refuses."""
        return self._run(True)

    def _run(self, quick: bool) -> Any:
        function = None
        for variant in ("emulated", "cuda"):
            if variant in MODULES:
                function = MODULES[variant].function_of(self.id, function, quick)
        return function

    def functions(self, device_type: int) -> Functions:
        """The queries of the library for arrays on a DLPack device type."""
        if device_type not in self._functions:
            module = module_for(device_type)
            self._functions[device_type] = Functions(
                module.infer_of(self.id),
                module.workspace_of(self.id),
                module.reason_of(self.id),
                module.choice_of(self.id),
            )
        return self._functions[device_type]

    @cached_property
    def codes(self) -> "RungCodes":
        """From the name of a rung to its code."""
        return RungCodes(self)

    def encode(self, values: tuple[Any, ...]) -> list[float]:
        """The attributes' values as the C++ side takes them."""
        return [a.encode(value) for a, value in zip(self.attributes, values, strict=True)]


class RungCodes(dict[str | None, int]):
    """Rung names of one operation and their codes, resolved when first asked for.

    A name is a rung ("warp_per_row"), an address ("softmax/warp_per_row") or a seed name. One that
    is none of these, or another operation's, is a ValueError that suggests near names.
    """

    def __init__(self, operation: Operation) -> None:
        super().__init__({None: BEST})
        self._operation = operation

    def __missing__(self, name: str) -> int:
        operation = self._operation
        if not isinstance(name, str):
            raise ValueError(f"{operation.name}: rung is a name or None, not {name!r}")
        family, other, code = self._resolve(name)
        if family != operation.family or other not in (operation.name, None):
            raise ValueError(f"'{name}' is a rung of {other or family}, not of {operation.name}")
        if code == BEST:
            rungs = ", ".join(rung["name"] for rung in operation.rungs)
            raise ValueError(f"'{name}' is no rung; those of {operation.name}: {rungs}")
        self[name] = code
        return code

    def _resolve(self, name: str) -> tuple[str, str | None, int]:
        local = f"{self._operation.name}/{name}"
        if any(rung["name"] == name for rung in self._operation.rungs):
            return resolve(local)
        try:
            return resolve(name)
        except ValueError as error:
            if "did you mean" in str(error) or "/" in name:
                raise
        return resolve(local)  # for the names that are near to it


def resolve(name: str) -> tuple[str, str | None, int]:
    """Family, operation (None where the name is a family's alone) and rung code of a name."""
    family, operation, code = next(iter(MODULES.values())).resolve(name)
    return (
        CATALOGUE["families"][family]["name"],
        None if operation < 0 else _BY_ID[operation].name,
        code,
    )


def _operations() -> dict[str, Operation]:
    operations = {}
    for family in CATALOGUE["families"]:
        for row in family["operations"]:
            inputs = [_identifier(p["name"]) for p in row["parameters"] if not p["output"]]
            outputs = [_identifier(p["name"]) for p in row["parameters"] if p["output"]]
            operations[row["name"]] = Operation(
                id=row["id"],
                name=row["name"],
                family=family["name"],
                summary=row["summary"],
                source=row["source"],
                formula=row["formula"],
                torch=row["torch"],
                dtypes=tuple(row["dtypes"]),
                inputs=tuple(inputs),
                outputs=tuple(outputs),
                docs={_identifier(p["name"]): p["doc"] for p in row["parameters"]},
                attributes=tuple(
                    Attribute(
                        _identifier(a["name"]),
                        a["kind"],
                        a["default"],
                        tuple(a["choices"]),
                        a["doc"],
                    )
                    for a in row["attributes"]
                ),
                rungs=tuple(family["rungs"]),
                seeds=tuple(row["seeds"]),
                like=row["like"],
            )
    return operations


OPERATIONS = _operations()
_BY_ID = {operation.id: operation for operation in OPERATIONS.values()}


def list_rungs() -> list[dict[str, Any]]:
    """Every rung of every operation, in teaching order.

    Returns:
        Dictionaries with "name" ("softmax/warp_per_row"), "operation", "family", "rung", "idea",
        "dtypes", "arch" (the least it needs) and "seeds" (the seed names it also answers to).
    """
    rows = []
    for operation in OPERATIONS.values():
        for rung in operation.rungs:
            seeds = [seed["name"] for seed in operation.seeds if seed["rung"] == rung["name"]]
            rows.append(
                {
                    "name": f"{operation.name}/{rung['name']}",
                    "operation": operation.name,
                    "family": operation.family,
                    "rung": rung["name"],
                    "idea": rung["idea"],
                    "dtypes": [d for d in rung["dtypes"] if d in operation.dtypes],
                    "arch": rung["arch"],
                    "seeds": seeds,
                }
            )
    return rows
