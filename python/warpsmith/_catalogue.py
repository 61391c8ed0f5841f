"""The catalogue as Python sees it: operations, rungs, and the names that both answer to."""

import keyword
import logging
import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from warpsmith._libraries import CATALOGUE, MODULES, module_for
from warpsmith._log import LOG

BEST = -1  # the rung code of "the fastest that takes the call"


def _identifier(name: str) -> str:
    return f"{name}_" if keyword.iskeyword(name) else name


@dataclass(frozen=True)
class DType:
    """A dtype of the catalogue."""

    name: str  # "f32"
    torch: str  # "float32": torch's, and NumPy's or that of ml_dtypes
    code: int  # DLPack's, with `bits`
    bits: int
    is_float: bool


DTYPES = {
    row["name"]: DType(row["name"], row["torch"], row["code"], row["bits"], row["float"])
    for row in CATALOGUE["dtypes"]
}


_TORCH_NAMES = {dtype.torch for dtype in DTYPES.values()}


@dataclass(frozen=True)
class Parameter:
    """A tensor of an operation."""

    name: str
    role: str  # "in", "out" or "inout"
    optional: bool
    doc: str
    # Of an output, expressions over tensors and attributes; None where it is left out. Empty: as
    # the first tensor.
    shape: str
    torch_dtype: str
    rows: str  # what it has of a batch of rows: "leading", "broadcast" or "shared"

    @property
    def is_read(self) -> bool:
        return self.role != "out"

    @property
    def is_written(self) -> bool:
        return self.role != "in"


_WANTED = {
    "bool": "True or False",
    "int": "an integer",
    "float": "a number",
    "dims": "a dimension or several",
}
_INT64 = range(-(2**63), 2**63)
_INT8 = range(-128, 128)


@dataclass(frozen=True)
class Attribute:
    """A keyword of an operation that is no array."""

    name: str
    kind: str  # "float", "int", "bool", "choice" or "dims"
    required: bool
    default: Any  # None where it may be absent
    choices: tuple[str, ...]
    doc: str

    @property
    def is_dtype(self) -> bool:
        """Whether it chooses among dtypes, which torch's own then also name."""
        return bool(self.choices) and all(choice in _TORCH_NAMES for choice in self.choices)

    def checked(self, value: Any) -> Any:
        """The value as a bool, int, float, str or tuple of ints; ValueError where it is none."""
        if value is None and not self.required and self.default is None:
            return None
        try:
            checked = self._convert(value)
        except (TypeError, ValueError, OverflowError):
            checked = None
        if checked is None:
            wanted = _WANTED.get(self.kind) or f"one of {', '.join(map(repr, self.choices))}"
            raise ValueError(f"{self.name} is {wanted}, not {value!r}")
        return checked

    def _convert(self, value: Any) -> Any:
        if self.kind == "choice":
            if type(value).__name__ == "dtype":  # torch's, where choices are names of dtypes
                value = str(value).removeprefix("torch.")
            return value if value in self.choices else None
        if self.kind == "float":
            return float(value)
        if self.kind == "bool":
            return bool(value) if operator.index(value) in (0, 1) else None
        if self.kind == "int":
            number = operator.index(value)
            return number if number in _INT64 else None
        dims = value if isinstance(value, Sequence) else (value,)
        dims = tuple(map(operator.index, dims))
        return dims if len(dims) <= 8 and all(dim in _INT8 for dim in dims) else None

    def encode(self, value: Any) -> Any:
        """What the C++ side takes for a value; ValueError where it is none."""
        checked = self.checked(value)
        return self.choices.index(checked) if self.kind == "choice" and checked else checked


@dataclass(frozen=True)
class Functions:
    """The functions of one operation in one library: see python/binding/ffi.cpp."""

    infer: Any
    workspace: Any
    reason: Any
    choice: Any
    flops: Any


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
    gradient: str
    in_place: bool
    batch: str  # what of its tensors is one: "none", "elements" or "rows"
    dtypes: tuple[str, ...]  # of the first tensor
    parameters: tuple[Parameter, ...]  # those that are read before the others
    attributes: tuple[Attribute, ...]
    extent_names: tuple[str, ...]
    python_peers: dict[str, str]  # expressions by name
    rungs: tuple[dict[str, Any], ...]  # name, from, idea, dtypes, arch, deterministic ...
    seeds: tuple[dict[str, Any], ...]  # name, rung, dtypes
    _functions: dict[int, Functions] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """Names of what is read: inputs and in-out tensors."""
        return tuple(p.name for p in self.parameters if p.is_read)

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """Names of what is made: not the in-out tensors."""
        return tuple(p.name for p in self.parameters if not p.is_read)

    @cached_property
    def in_out(self) -> tuple[str, ...]:
        """Names of the in-out tensors."""
        return tuple(p.name for p in self.parameters if p.role == "inout")

    @cached_property
    def run(self) -> Any:
        """run(*parameters, *attributes, rung=BEST, stream=None, workspace=None)."""
        function = None
        for variant in ("emulated", "cuda"):
            if variant in MODULES:
                function = MODULES[variant].function_of(self.id, function)
        return function

    @cached_property
    def run_fresh(self) -> Any:
        """`run` for torch tensors of which nothing was asked, and outputs that are new.

        Returns True where the call was enqueued, False for what it does not take: then nothing has
        run.
        """
        return self._quick_call(1)

    @cached_property
    def run_given(self) -> Any:
        """The same where outputs are the caller's."""
        return self._quick_call(2)

    @cached_property
    def run_made(self) -> Any:
        """As run_fresh, but makes the outputs and returns them, a tuple where there are several.

        None for what it does not take: also what is not such as the last call of it or run_fresh.
        """
        return self._quick_call(3)

    def _quick_call(self, way: int) -> Any:
        from warpsmith import _quick

        return _quick.call_of(self, way)

    def functions(self, device_type: int) -> Functions:
        """The queries of the library for arrays on a DLPack device type."""
        if device_type not in self._functions:
            module = module_for(device_type)
            self._functions[device_type] = Functions(
                module.infer_of(self.id),
                module.workspace_of(self.id),
                module.reason_of(self.id),
                module.choice_of(self.id),
                module.flops_of(self.id),
            )
        return self._functions[device_type]

    def log_choice(self, *call: Any) -> None:
        """Tells, at DEBUG, the rung that `run` takes for these arguments."""
        if LOG.isEnabledFor(logging.DEBUG):
            device_type = int(call[0].__dlpack_device__()[0])
            LOG.debug("%s: %s", self.name, self.functions(device_type).choice(*call))

    @cached_property
    def codes(self) -> "RungCodes":
        """From the name of a rung to its code."""
        return RungCodes(self)

    def checked(self, values: Sequence[Any]) -> dict[str, Any]:
        """The attributes by name, each of its Python type; ValueError where one is not."""
        pairs = zip(self.attributes, values, strict=True)
        return {a.name: a.checked(value) for a, value in pairs}

    def encode(self, values: Sequence[Any]) -> list[Any]:
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
        for seed in self._operation.seeds:  # one may be called as the operation is
            if seed["name"] == name == self._operation.name:
                return resolve(f"{name}/{seed['rung']}")
        try:
            return resolve(name)
        except ValueError as error:
            if "/" in name:
                raise
            unknown = error
        try:
            return resolve(local)  # for rungs of this operation that are near to it
        except ValueError as error:
            raise error if "did you mean" in str(error) else unknown from None


def resolve(name: str) -> tuple[str, str | None, int]:
    """Family, operation (None where the name is a family's alone) and rung code of a name."""
    family, operation, code = next(iter(MODULES.values())).resolve(name)
    return (
        CATALOGUE["families"][family]["name"],
        None if operation < 0 else BY_ID[operation].name,
        code,
    )


def _operation_of(family: dict[str, Any], row: dict[str, Any]) -> Operation:
    name = row["name"]
    rungs = [
        rung | {"dtypes": rung["operations"][name]}
        for rung in family["rungs"]
        if name in rung["operations"]
    ]
    return Operation(
        id=row["id"],
        name=name,
        family=family["name"],
        summary=row["summary"],
        source=row["source"],
        formula=row["formula"],
        torch=row["torch"],
        gradient=row["gradient"],
        in_place=row["in_place"],
        batch=row["batch"],
        dtypes=tuple(row["dtypes"]),
        parameters=tuple(
            Parameter(
                _identifier(p["name"]),
                p["role"],
                p["optional"],
                p["doc"],
                p["shape"],
                p["torch_dtype"],
                p["rows"],
            )
            for p in row["parameters"]
        ),
        attributes=tuple(
            Attribute(
                _identifier(a["name"]),
                a["kind"],
                a["required"],
                tuple(a["default"]) if isinstance(a["default"], list) else a["default"],
                tuple(a["choices"]),
                a["doc"],
            )
            for a in row["attributes"]
        ),
        extent_names=tuple(row["extents"]),
        python_peers={peer["name"]: peer["expression"] for peer in row["python_peers"]},
        rungs=tuple(rungs),
        seeds=tuple(row["seeds"]),
    )


OPERATIONS = {
    row["name"]: _operation_of(family, row)
    for family in CATALOGUE["families"]
    for row in family["operations"]
}
BY_ID = {operation.id: operation for operation in OPERATIONS.values()}


def list_rungs() -> list[dict[str, Any]]:
    """Every rung of every operation, in teaching order.

    Returns:
        Dictionaries with "name" ("softmax/warp_per_row"), "operation", "family", "rung", "from"
        (the rung it grew from), "idea", "dtypes", "arch" (the least it needs), "deterministic",
        "accumulate" (what it adds up in: "f32" also where that is wider) and "seeds" (the seed
        names it also answers to).
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
                    "from": rung["from"],
                    "idea": rung["idea"],
                    "dtypes": rung["dtypes"],
                    "arch": rung["arch"],
                    "deterministic": rung["deterministic"],
                    "accumulate": rung["accumulate"],
                    "seeds": seeds,
                }
            )
    return rows
