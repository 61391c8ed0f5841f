"""verify and bench from Python: the C++ harness, with torch's operations as contenders."""

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tvm_ffi

from warpsmith._catalogue import OPERATIONS, Operation
from warpsmith._libraries import MODULES

PEERS = ("torch", "compile")


def _module(device: str | None) -> Any:
    """The library for a device: "cpu", "cuda", or the GPU's where there is one."""
    if device not in (None, "cpu", "cuda"):
        raise ValueError(f"device is 'cpu', 'cuda' or None, not {device!r}")
    if device is None:
        device = "cuda" if "cuda" in MODULES and _has_gpu() else "cpu"
    variant = "cuda" if device == "cuda" else "emulated"
    if variant not in MODULES:
        raise ValueError(f"the {variant} library is not built, so nothing runs on {device!r}")
    return MODULES[variant]


def _has_gpu() -> bool:
    try:
        import torch
    except ImportError:
        return True  # the C++ side says what it finds
    return torch.cuda.is_available()


def _options(names: Iterable[str], **options: Any) -> str:
    given = {key: value for key, value in options.items() if value is not None}
    return json.dumps({"names": list(names), **given})


def verify(
    *names: str,
    dtypes: Sequence[str] | None = None,
    cases: str = "verify",
    shapes: Sequence[Sequence[int]] | None = None,
    attributes: dict[str, Any] | None = None,
    seed: int = 1,
    device: str | None = None,
) -> dict[str, Any]:
    """Compares rungs with the double-precision reference, on random inputs.

    Args:
        names: Families, operations, rungs or seed names; none stands for everything.
        dtypes: Only these, such as "f16".
        cases: The list of shapes: "smoke", "verify" or "bench".
        shapes: Extents to take instead, in the order of the operation's extent names.
        attributes: Values of attributes, for every case.
        seed: Of the inputs.
        device: "cpu" is the emulator; None takes the GPU where there is one.

    Returns:
        As `warpsmith verify --json`: "device", "seed", "failed", "skipped" and "results".

    Raises:
        ValueError: an unknown name, dtype or shape.
    """
    text = _options(
        names, dtypes=dtypes, cases=cases, shapes=shapes, attributes=attributes, seed=seed
    )
    return json.loads(_module(device).verify(text))


def torch_expression(operation: Operation, values: Sequence[Any]) -> Callable[..., Any]:
    """torch's own version of an operation, a function of its inputs.

    Args:
        operation: Which.
        values: Of the attributes, as Python has them; fixed in the function.
    """
    import torch

    scope: dict[str, Any] = {"torch": torch}
    scope |= {a.name: value for a, value in zip(operation.attributes, values, strict=True)}
    source = f"def {operation.name}({', '.join(operation.inputs)}):\n    return {operation.torch}\n"
    exec(source, scope)
    return scope[operation.name]


class _TorchPeer:
    """A contender for the bench loop: torch, eager or compiled, on the loop's own tensors."""

    def __init__(self, name: str) -> None:
        if name not in PEERS:
            raise ValueError(f"peers are {', '.join(map(repr, PEERS))}, not {name!r}")
        self._compiled = name == "compile"
        self._functions: dict[Any, Callable[..., Any]] = {}
        self._tensors: dict[Any, list[Any]] = {}

    def __call__(self, operation: int, attributes: Any, tensors: Any, stream: int) -> None:
        del stream  # torch's current one: bench() was told it
        which = (operation, *attributes)
        function = self._functions.get(which)
        if function is None:
            function = self._functions[which] = self._make(operation, attributes)
        # Converting costs more host time than the call: done once for each of the loop's tensors,
        # which live as long as the problem is timed.
        first = tensors[0]
        key = (which, first.data_ptr(), first.shape, str(first.dtype))
        inputs = self._tensors.get(key)
        if inputs is None:
            inputs = self._tensors[key] = self._convert(operation, tensors)
        function(*inputs)

    def _make(self, operation: int, attributes: Any) -> Callable[..., Any]:
        import torch

        row = next(op for op in OPERATIONS.values() if op.id == operation)
        values = [
            a.choices[int(number)] if a.kind == "choice" else _KINDS[a.kind](number)
            for a, number in zip(row.attributes, attributes, strict=True)
        ]
        function = torch_expression(row, values)
        if not self._compiled:
            return function
        torch._dynamo.reset()  # of one code object it compiles eight variants, then no more
        return torch.compile(function, fullgraph=True)

    def _convert(self, operation: int, tensors: Any) -> list[Any]:
        import torch

        row = next(op for op in OPERATIONS.values() if op.id == operation)
        return [torch.from_dlpack(tensors[i]) for i in range(len(row.inputs))]


_KINDS: dict[str, Callable[[float], Any]] = {"float": float, "int": int, "bool": bool}


def bench(
    *names: str,
    peers: Sequence[str] = PEERS,
    dtypes: Sequence[str] | None = None,
    shapes: Sequence[Sequence[int]] | None = None,
    attributes: dict[str, Any] | None = None,
    min_runs: int | None = None,
    min_milliseconds: float | None = None,
    seed: int = 1,
) -> dict[str, Any]:
    """Times rungs on the GPU beside their peers, in turns: A B C A B C.

    Args:
        names: Families, operations, rungs or seed names; none stands for everything.
        peers: Of "torch" (eager) and "compile" (torch.compile); those of C++ always take part.
        dtypes: Only these, such as "f16".
        shapes: Extents to take instead of the bench list, in the order of the extent names.
        attributes: Values of attributes, for every case.
        min_runs: Timed runs of each contender, unless min_milliseconds of timed time come first.
        min_milliseconds: See there.
        seed: Of the inputs.

    Returns:
        A result file, as `warpsmith bench --json`: device and versions, "options" and "results".

    Raises:
        ValueError: an unknown name, dtype or shape, or no CUDA library.
        RuntimeError: the GPU failed.
    """
    text = _options(
        names,
        dtypes=dtypes,
        shapes=shapes,
        attributes=attributes,
        min_runs=min_runs,
        min_milliseconds=min_milliseconds,
        seed=seed,
    )
    contenders = [tvm_ffi.convert(_TorchPeer(name)) for name in peers]
    stream = 0
    if contenders:
        import torch

        if torch.cuda.is_available():
            stream = torch.cuda.current_stream().cuda_stream
    module = MODULES.get("cuda") or MODULES["emulated"]
    return json.loads(module.bench(text, list(peers), contenders, stream))


def _shape(text: str) -> list[int]:
    return [int(extent) for extent in text.split("x")]


def main(arguments: Sequence[str] | None = None) -> int:
    """`python -m warpsmith.bench`: the program's bench, with torch among the peers."""
    parser = argparse.ArgumentParser(prog="python -m warpsmith.bench", description=main.__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="families, operations, rungs, seeds"
    )
    parser.add_argument("--peer", action="append", choices=PEERS, default=[], help="repeatable")
    parser.add_argument("--dtype", action="append", help="only these; repeatable")
    parser.add_argument(
        "--shape", action="append", type=_shape, help="such as 4096x1024; repeatable"
    )
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--min-runs", type=int)
    parser.add_argument("--min-milliseconds", type=float)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="the result file instead of a table")
    options = parser.parse_args(arguments)
    try:
        result = bench(
            *options.names,
            peers=options.peer,
            dtypes=options.dtype,
            shapes=options.shape,
            attributes=dict(setting.split("=", 1) for setting in options.set) or None,
            min_runs=options.min_runs,
            min_milliseconds=options.min_milliseconds,
            seed=options.seed,
        )
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps(result, indent=2))
    else:
        for group in result["results"]:
            _print_table(group)
    failed = [m for g in result["results"] for m in g["measurements"] if m["verdict"] == "failed"]
    return 1 if failed else 0


def _print_table(group: dict[str, Any]) -> None:
    unit, scale = ("GB/s", 1e-9) if group["bound"] == "memory" else ("TFLOP/s", 1e-12)
    print(f"{group['problem']}: % of {group['ceiling_name']}")
    for m in group["measurements"]:
        if "median_us" not in m:
            print(f"  {m['name']:<36} {m['verdict']}: {m.get('reason', '')}")
            continue
        ceiling = f"{100 * m['of_ceiling']:6.1f} %" if m["of_ceiling"] is not None else ""
        peer = f"{m['over_peer']:6.2f}x peer" if "over_peer" in m else ""
        note = f"  {m['verdict']}: {m['reason']}" if m["verdict"] != "passed" else ""
        print(
            f"  {m['name']:<36} {m['median_us']:10.2f} us {scale * m['rate']:9.1f} {unit} "
            f"{ceiling} {peer}{note}"
        )
