"""verify and bench from Python: the C++ harness, with Python's packages as contenders."""

import argparse
import ast
import builtins
import importlib
import importlib.metadata
import importlib.util
import json
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import tvm_ffi

from warpsmith import _expressions
from warpsmith._catalogue import OPERATIONS, Operation
from warpsmith._libraries import MODULES, has_gpu
from warpsmith._log import LOG

TORCH_PEERS = ("torch", "compile")  # of every operation: torch eager, and torch.compile


def _module(device: str | None) -> Any:
    """The library for a device: "cpu", "cuda"; None takes the GPU's where there is one.

    Without one it is the emulator's; of a build without the emulator it is the GPU's all the same,
    which says what is missing.
    """
    if device not in (None, "cpu", "cuda"):
        raise ValueError(f"device is 'cpu', 'cuda' or None, not {device!r}")
    if device is None:
        device = "cuda" if has_gpu() or "emulated" not in MODULES else "cpu"
        LOG.debug("device None is %r", device)
    variant = "cuda" if device == "cuda" else "emulated"
    if variant not in MODULES:
        raise ValueError(f"the {variant} library is not built, so nothing runs on {device!r}")
    if variant == "cuda":
        MODULES[variant].require_device()
    return MODULES[variant]


def _options(names: Iterable[str], **options: Any) -> str:
    given = {key: value for key, value in options.items() if value is not None}
    return json.dumps({"names": list(names), **given})


def verify(
    *names: str,
    dtypes: Sequence[str] | None = None,
    cases: str = "verify",
    shapes: Sequence[Sequence[int]] | None = None,
    attributes: dict[str, Any] | None = None,
    problems: Sequence[str] | None = None,
    random: int = 0,
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
        problems: Of the cases those that a table calls so, or partly: "bf16 [4096, 4096]".
        random: So many problems of each dtype instead that are not in the list but between its.
        seed: Of the inputs, and of random problems.
        device: "cpu" is the emulator; None takes the GPU where there is one, else the emulator.

    Returns:
        As `warpsmith verify --json`: "device", "seed", "failed", "skipped" and "results".

    Raises:
        ValueError: an unknown name, dtype or shape; neither a GPU nor the emulator's library.
    """
    text = _options(
        names,
        dtypes=dtypes,
        cases=cases,
        shapes=shapes,
        attributes=attributes,
        problems=problems,
        random=random,
        seed=seed,
    )
    return json.loads(_module(device).verify(text))


def peer_names() -> list[str]:
    """Those of torch, and those that some operation has from another package."""
    names = {name: None for op in OPERATIONS.values() for name in op.python_peers}
    return list(dict.fromkeys([*TORCH_PEERS, *names]))


def _expression(operation: Operation, peer: str) -> str | None:
    """How a peer computes an operation, over the names of its tensors and attributes.

    torch's is the formula that tests know, or one of its own that the operation has to be timed.
    """
    if peer in TORCH_PEERS:
        return operation.python_peers.get("torch") or operation.torch or None
    return operation.python_peers.get(peer)


def _names(operation: Operation) -> list[str]:
    """Of all tensors and attributes."""
    return [row.name for row in (*operation.parameters, *operation.attributes)]


def _paths(operation: Operation, expression: str) -> list[str]:
    """The dotted names in an expression that are not the operation's own: "quack.softmax.f"."""
    nodes = list(ast.walk(ast.parse(textwrap.dedent(expression))))
    assigned = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    own = {*_names(operation), *assigned, *_expressions.scope(), *dir(builtins)}
    return [p for p in map(_dotted, nodes) if p and p.partition(".")[0] not in own]


class _Package:
    """A module by whose name its submodules are found, also where a function of it shadows one."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        inner = sys.modules.get(f"{self._module.__name__}.{name}")
        return getattr(self._module, name) if inner is None else _Package(inner)


def _modules(operation: Operation, expression: str) -> dict[str, _Package]:
    """The packages that an expression names, imported as deep as it reaches into them."""
    found = {}
    for path in _paths(operation, expression):
        root = path.partition(".")[0]
        found[root] = _Package(importlib.import_module(root))
        # As far as names are modules; what follows is a function in the last of them.
        for end in range(2, path.count(".") + 1):
            try:
                importlib.import_module(".".join(path.split(".")[:end]))
            except ModuleNotFoundError as error:
                if error.name is None or not path.startswith(error.name):
                    raise  # the module is there, and what it needs is not
                break
    return found


def _dotted(node: ast.AST) -> str:
    """The path of a.b.c, or "" where the node is none."""
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(names)]) if names and isinstance(node, ast.Name) else ""


class _Peer:
    """A contender for the bench loop: an expression of Python, on the loop's own tensors."""

    def __init__(self, name: str) -> None:
        known = peer_names()
        if name not in known:
            raise ValueError(f"peers are {', '.join(map(repr, known))}, not {name!r}")
        self.name = name
        self._functions: dict[Any, Callable[..., Any]] = {}
        self._arguments: dict[Any, dict[str, Any]] = {}
        self.packages = {"torch"} if name in TORCH_PEERS else set[str]()
        for operation in OPERATIONS.values():
            if name not in TORCH_PEERS and (expression := _expression(operation, name)):
                self.packages |= {p.partition(".")[0] for p in _paths(operation, expression)}
        missing = [p for p in sorted(self.packages) if importlib.util.find_spec(p) is None]
        if missing:
            raise ValueError(f"peer {name!r} needs {', '.join(missing)}, which is not installed")

    def __call__(self, operation: int, attributes: str, tensors: Any, stream: int) -> None:
        del stream  # torch's current one: bench() was told it
        given = [tensor for tensor in tensors if tensor is not None]
        layouts = tuple((t.shape, t.strides, str(t.dtype)) for t in given)
        which = (operation, str(attributes), layouts)  # a problem
        function = self._functions.get(which)
        if function is None:
            function = self._functions[which] = self._make(operation)
        # Converting costs more host time than the call: done once for each of the loop's tensors,
        # which live as long as the problem is timed.
        key = (which, *(t.data_ptr() for t in given))
        arguments = self._arguments.get(key)
        if arguments is not None:
            function(**arguments)
            return
        arguments = self._convert(operation, str(attributes), tensors)
        self._first_call(function, arguments)
        self._arguments[key] = arguments

    def _first_call(self, function: Callable[..., Any], arguments: dict[str, Any]) -> None:
        """A call of tensors not seen before: what another package cannot do shows here.

        Its exceptions of any kind become the ValueError that the loop takes as a skip, with the
        reason; torch, which takes every problem, must not fail, though torch.compile may make no
        graph of what asks for data. What the GPU itself reports the loop sees all the same.
        """
        try:
            function(**arguments)
        except ValueError:
            raise
        except Exception as error:
            if self.name == "compile" and _is_no_graph(error):
                raise ValueError("torch.compile makes no one graph of it") from error
            if self.name in TORCH_PEERS:
                raise
            told = str(error).strip().splitlines()
            reason = f": {told[0]}" if told else ""
            raise ValueError(f"{type(error).__name__}{reason}") from error

    def _make(self, number: int) -> Callable[..., Any]:
        operation = _BY_ID[number]
        expression = _expression(operation, self.name)
        if expression is None:  # a ValueError is a skip to the loop
            raise ValueError(f"{operation.name} has no peer {self.name!r}")
        modules = {} if self.name in TORCH_PEERS else _modules(operation, expression)
        function = _expressions.make(operation.name, _names(operation), expression, **modules)
        if self.name != "compile":
            return function
        import torch

        # Of one code object it compiles eight variants, then no more, and those after the first
        # for sizes of all kinds.
        torch._dynamo.reset()
        return torch.compile(function, fullgraph=True)

    def _convert(self, number: int, attributes: str, tensors: Any) -> dict[str, Any]:
        import torch

        operation = _BY_ID[number]
        here = [None if tensor is None else torch.from_dlpack(tensor) for tensor in tensors]
        values = [tuple(v) if isinstance(v, list) else v for v in json.loads(attributes)]
        return dict(zip(_names(operation), [*here, *values], strict=True))


def _is_no_graph(error: Exception) -> bool:
    import torch

    return isinstance(error, torch._dynamo.exc.Unsupported | torch._dynamo.exc.UserError)


def _versions(peers: Iterable[_Peer]) -> dict[str, str]:
    """Of the packages that peers call, for the result file."""
    names = importlib.metadata.packages_distributions()
    return {
        package: importlib.metadata.version(package)
        for peer in peers
        for root in sorted(peer.packages)
        for package in dict.fromkeys(names.get(root, []))
    }


_BY_ID = {operation.id: operation for operation in OPERATIONS.values()}


def bench(
    *names: str,
    peers: Sequence[str] = TORCH_PEERS,
    dtypes: Sequence[str] | None = None,
    shapes: Sequence[Sequence[int]] | None = None,
    attributes: dict[str, Any] | None = None,
    problems: Sequence[str] | None = None,
    min_runs: int | None = None,
    min_milliseconds: float | None = None,
    sustained: bool = False,
    windows: int | None = None,
    seed: int = 1,
) -> dict[str, Any]:
    """Times rungs on the GPU beside their peers, in turns: A B C A B C.

    A peer gets its own best: of a library's ways of computing a problem (the algorithms that
    cuBLASLt's heuristic names) the fastest is found first; "quack_tuned" tunes in its first call,
    which is not timed and takes up to minutes.

    Args:
        names: Families, operations, rungs or seed names; none stands for everything.
        peers: "torch" (eager), "compile" (torch.compile), and those that operations have from
            other packages, such as "quack", where these are installed. What they return is not
            compared. Those of C++ always take part.
        dtypes: Only these, such as "f16".
        shapes: Extents to take instead of the bench list, in the order of the extent names.
        attributes: Values of attributes, for every case.
        problems: Of the cases those that a table calls so, or partly: "bf16 [4096, 4096]".
        min_runs: Timed runs of each contender, unless min_milliseconds of timed time come first.
        min_milliseconds: See there.
        sustained: Calls back to back in windows of a second, so that power and clocks settle, with
            inputs that exceed the L2 together; otherwise single calls, the L2 flushed before each.
        windows: How many of them each contender gets, 3 if left out.
        seed: Of the inputs.

    Returns:
        A result file, as `warpsmith bench --json`: device and versions, "options" and "results".

    Raises:
        ValueError: an unknown name, dtype or shape, a peer that is unknown or not installed, or no
            CUDA library.
        RuntimeError: the GPU failed.
    """
    return json.loads(
        _bench_text(
            *names,
            peers=peers,
            dtypes=dtypes,
            shapes=shapes,
            attributes=attributes,
            problems=problems,
            min_runs=min_runs,
            min_milliseconds=min_milliseconds,
            sustained=sustained,
            windows=windows,
            seed=seed,
        )
    )


def _bench_text(
    *names: str,
    peers: Sequence[str],
    done: Callable[[str], None] | None = None,
    **options: Any,
) -> str:
    """The result file, a line for each measurement; `done` gets it so far after each problem."""
    contenders = [_Peer(name) for name in peers]
    stream = 0
    if contenders:
        import torch

        if torch.cuda.is_available():
            stream = torch.cuda.current_stream().cuda_stream
    text = _options(names, packages=_versions(contenders) or None, **options)
    functions = [tvm_ffi.convert(contender) for contender in contenders]
    module = MODULES.get("cuda") or MODULES["emulated"]
    tell = None if done is None else tvm_ffi.convert(lambda so_far: done(str(so_far)))
    return str(module.bench(text, list(peers), functions, stream, tell))


def _shape(text: str) -> list[int]:
    return [int(extent) for extent in text.split("x")]


def main(arguments: Sequence[str] | None = None) -> int:
    """`python -m warpsmith.bench`: the program's bench, with Python's packages as peers."""
    parser = argparse.ArgumentParser(prog="python -m warpsmith.bench", description=main.__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="families, operations, rungs, seeds"
    )
    parser.add_argument(
        "--peer", action="append", choices=peer_names(), default=[], help="repeatable"
    )
    parser.add_argument("--dtype", action="append", help="only these; repeatable")
    parser.add_argument(
        "--shape", action="append", type=_shape, help="such as 4096x1024; repeatable"
    )
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument(
        "--problem", action="append", help="those with this text in a table's line; repeatable"
    )
    parser.add_argument("--min-runs", type=int)
    parser.add_argument("--min-milliseconds", type=float)
    parser.add_argument(
        "--sustained", action="store_true", help="calls back to back, in windows of a second"
    )
    parser.add_argument("--windows", type=int, help="of each, 3 if left out")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", "-o", type=Path, help="write the result file here")
    parser.add_argument("--json", action="store_true", help="the result file instead of a table")
    options = parser.parse_args(arguments)

    def done(so_far: str) -> None:
        if options.output:  # a run that is cut short has left what it measured
            options.output.write_text(so_far)
        if not options.json:
            _print_table(json.loads(so_far)["results"][-1])

    try:
        text = _bench_text(
            *options.names,
            peers=options.peer,
            done=done,
            dtypes=options.dtype,
            shapes=options.shape,
            attributes=dict(setting.split("=", 1) for setting in options.set) or None,
            problems=options.problem,
            min_runs=options.min_runs,
            min_milliseconds=options.min_milliseconds,
            sustained=options.sustained,
            windows=options.windows,
            seed=options.seed,
        )
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if options.json:
        print(text, end="")
    groups = json.loads(text)["results"]
    failed = [m for group in groups for m in group["measurements"] if m["verdict"] == "failed"]
    return 1 if failed else 0


def _print_table(group: dict[str, Any]) -> None:
    unit, scale = ("GB/s", 1e-9) if group["bound"] == "memory" else ("TFLOP/s", 1e-12)
    mode = ", sustained" if group.get("mode") == "sustained" else ""
    print(f"{group['problem']}{mode}: % of {group['ceiling_name']}")
    for m in group["measurements"]:
        if "median_us" not in m:
            print(f"  {m['name']:<36} {m['verdict']}: {m.get('reason', '')}")
            continue
        ceiling = f"{100 * m['of_ceiling']:6.1f} %" if m["of_ceiling"] is not None else ""
        peer = f"{m['over_peer']:6.2f}x peer" if "over_peer" in m else ""
        if "over_from" in m:
            peer += f"  {m['over_from']:.2f}x {m['from'].split('/')[1]}"
        note = f"  {m['verdict']}: {m['reason']}" if m["verdict"] != "passed" else ""
        name = m["name"]
        if "variant" in m:
            name += f" ({m['variant']} of {m['variants']})"
        print(
            f"  {name:<36} {m['median_us']:10.2f} us {scale * m['rate']:9.1f} {unit} "
            f"{ceiling} {peer}{note}",
            flush=True,
        )
