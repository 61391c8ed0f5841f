"""explain(): which rung runs a call, and why not each other."""

from dataclasses import dataclass
from typing import Any

import warpsmith
from warpsmith import _arrays, _as_torch, _functions, _signatures
from warpsmith._catalogue import BEST, OPERATIONS, Operation, resolve
from warpsmith._explore import _Table
from warpsmith._libraries import DEVICE_CPU, DEVICE_CUDA

_OF_TORCHS_NAME = {_signatures.torch_name(one): name for name, one in OPERATIONS.items()}
_TAKES = "takes it; {} comes first"
_FIRST_OUTPUT = 1 << 10  # times 2^48: an address at which no tensor lies
_NARROW = "adds up in {}: runs only where named"


@dataclass(frozen=True, repr=False)
class Explanation(_Table):
    """Of a call: the rung that runs where none is named, and of each other why it does not."""

    call: str  # "softmax(float32 [16, 1024], float32 [...], dim=-1)"
    rung: str
    rungs: tuple[dict[str, Any], ...]  # in teaching order: "rung", "runs", "takes", "why", "idea"

    @property
    def title(self) -> str:
        return f"{self.call}: {self.rung} runs"

    @property
    def rows(self) -> list[dict[str, str]]:
        return [
            {"rung": row["rung"], "takes": "yes" if row["takes"] else "no", "why": row["why"]}
            for row in self.rungs
        ]


def explain(operation: str, *arrays: Any, **attributes: Any) -> Explanation:
    """Says which rung runs a call, and why not each other. Nothing runs.

    Args:
        operation: Such as "softmax": one of the catalogue, as `warpsmith.list()` has them.
        arrays: What the call reads; None for what is left out.
        attributes: By keyword, and arrays too, as to the operation's own operator.

    Returns:
        An object that shows itself as a table, with `rung`, the name of the one that runs, and
        `rungs`, a dictionary for each in teaching order: "rung", "runs" (bool), "takes" (bool),
        "why" (text) and "idea".

    Raises:
        ValueError: an unknown operation, or a call that it does not take.
        TypeError: arguments that it does not have.
    """
    found = _operation_of(operation)
    inputs, values = _arguments(found, arrays, attributes)
    adapter = _adapter_of(found, inputs)
    with adapter.scope():
        views = [None if array is None else adapter.view(array) for array in inputs]
        functions = found.functions(adapter.device_type(views[0]))
        outputs = [None for _ in found.outputs]  # dense ones
        if isinstance(adapter, _Torch):
            outputs = _outputs_of(found, inputs, values)
        call = (*views, *outputs, *found.encode(values))
        chosen = str(functions.choice(*call, BEST))
        rows = []
        for rung in found.rungs:
            name = rung["name"]
            refusal = str(functions.reason(*call, found.codes[name]))
            rows.append(_row(rung, chosen, refusal))
    return Explanation(_call_text(found, inputs, values), chosen, tuple(rows))


def _row(rung: dict[str, Any], chosen: str, refusal: str) -> dict[str, Any]:
    runs = rung["name"] == chosen
    why = refusal or _TAKES.format(chosen)
    if rung["accumulate"] != "f32" and not refusal:
        why = _NARROW.format(rung["accumulate"])
    return {
        "rung": rung["name"],
        "runs": runs,
        "takes": not refusal,
        "why": "runs" if runs else why,
        "idea": rung["idea"],
    }


def _operation_of(name: str) -> Operation:
    if not isinstance(name, str):
        raise ValueError(f"explain takes the name of an operation, not {name!r}")
    if name not in OPERATIONS:
        name = _OF_TORCHS_NAME.get(name, name)
    if name not in OPERATIONS:
        if name in warpsmith.__all__:
            raise ValueError(f"explain takes an operation of the catalogue: {name} calls such")
        _, found, code = resolve(name)  # suggests near names
        if found is None or code != BEST:
            raise ValueError(f"explain takes the name of an operation, not of a rung: {name!r}")
        name = found
    return OPERATIONS[name]


def _arguments(
    operation: Operation, arrays: tuple[Any, ...], keywords: dict[str, Any]
) -> tuple[list[Any], list[Any]]:
    """Inputs and attributes' values, as the function's signature binds them."""
    bound = _functions.signature_of(operation).bind(*arrays, **keywords)
    bound.apply_defaults()
    for name in {"rung", "out"}.difference(operation.inputs):  # an in-out tensor may be `out`
        if bound.arguments.get(name) is not None:
            raise TypeError(f"explain looks at all rungs of a call, and takes no {name}=")
    for name, by_itself in _as_torch.extras_of(operation).items():
        if bound.arguments[name] != by_itself:
            raise TypeError(
                f"explain looks at {operation.name} by itself, and takes no"
                f" {name}={bound.arguments[name]!r}"
            )
    arguments = _signatures.arguments_of(operation)
    given = {a.own: bound.arguments[a.name] for a in arguments if a.own is not None}
    for a in arguments:
        if a.none_is_default and given[a.own] is None:
            given[a.own] = a.default
    inputs = [given[name] for name in operation.inputs]
    if inputs[0] is None:
        raise TypeError(f"{operation.name}: '{arguments[0].name}' is None")
    return inputs, [given[a.name] for a in operation.attributes]


def _adapter_of(operation: Operation, inputs: list[Any]) -> _arrays.Generic:
    there = [array for array in inputs if array is not None]
    if _functions.torch is not None and isinstance(there[0], _functions.torch.Tensor):
        from warpsmith import _torch

        _torch._check(operation, inputs)
        return _Torch(there[0])
    return _arrays.adapter_of(operation, there)


class _Torch(_arrays.Generic):
    """torch's tensors as they lie; also those that want a gradient, which dlpack refuses."""

    name = "torch"

    def view(self, array: Any) -> Any:
        from warpsmith import _torch

        code = _torch._CODES.get(array.dtype)
        if code is None:
            raise ValueError(f"{array.dtype} is none that kernels take")
        kind = DEVICE_CUDA if array.is_cuda else DEVICE_CPU
        where = (kind, array.device.index or 0)
        return _arrays.memory(array.data_ptr(), code, array.shape, array.stride(), where)


def _outputs_of(operation: Operation, inputs: list[Any], values: list[Any]) -> list[Any]:
    """What a call on torch's tensors makes, whose strides follow its inputs'; without memory."""
    import torch

    from warpsmith import _torch

    with torch.no_grad():
        of_inputs = [
            None
            if x is None
            else torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta")
            for x in inputs
        ]
        named = [*of_inputs, *operation.checked(values).values()]
        makers = [_torch._Output(operation, p) for p in operation.parameters if not p.is_read]
        outputs = [maker.empty(named) for maker in makers]
    where = (DEVICE_CUDA, inputs[0].device.index or 0) if inputs[0].is_cuda else (DEVICE_CPU, 0)
    return [
        None
        if out is None
        else _arrays.memory(i << 48, _torch._CODES[out.dtype], out.shape, out.stride(), where)
        for i, out in enumerate(outputs, _FIRST_OUTPUT)
    ]


def _call_text(operation: Operation, inputs: list[Any], values: list[Any]) -> str:
    parts = [
        "None" if x is None else f"{str(x.dtype).removeprefix('torch.')} {list(x.shape)}"
        for x in inputs
    ]
    pairs = zip(operation.attributes, values, strict=True)
    parts += [f"{a.name}={value!r}" for a, value in pairs if value != a.default]
    return f"{operation.name}({', '.join(parts)})"
