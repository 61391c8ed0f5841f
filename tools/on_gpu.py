#!/usr/bin/env python3
"""What a GPU has to say of a change, in one go and in the order that wastes least of its time.

Usage: tools/on_gpu.py PLAN [--seconds 1500] [--out FOLDER] [--only build,verify,sanitize,bench]

PLAN is a text of lines, in any order; `#` begins a comment:

    families gemm linear                          what is built, into build/on_gpu; none: all
    check gemm/mma_direct linear                  verify, then memcheck, racecheck and synccheck
    bench addmm --dtype bf16 --peer torch         as `python -m warpsmith.bench` takes it

Everything that is checked is checked on its smoke shapes first, on its verify shapes then, the
sanitizers side by side. Lines of `bench` run in their order until the time is up, each for
--line-seconds at most (a peer may take seconds a call); what was not run is told. FOLDER
(build/on_gpu/out) gets what each command printed, and a result file of each line, for
`tools/results_table.py --add`. Exit code 1: something failed, or was not run.

Needs nvcc, CMake and Ninja (of .venv, else of the PATH), compute-sanitizer, and for `bench` a
python3 with apache-tvm-ffi, and with torch where that is a peer. Headers and packages elsewhere
are found through CMAKE_PREFIX_PATH and PYTHONPATH.
"""

import argparse
import math
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "on_gpu"
STEPS = ("build", "verify", "sanitize", "bench")
# The tools' tables of barriers are small if nobody says more: a kernel with a few in each block
# overflows them, and what is reported then is the tool's own.
BARRIERS = ("--num-cuda-barriers", "1024")
TOOLS = {"memcheck": (), "racecheck": BARRIERS, "synccheck": BARRIERS}


@dataclass
class Plan:
    families: list[str] = field(default_factory=list)
    check: list[str] = field(default_factory=list)
    bench: list[list[str]] = field(default_factory=list)


def read(text: str) -> Plan:
    """Raises ValueError for a line that begins otherwise."""
    plan = Plan()
    for number, line in enumerate(text.splitlines(), 1):
        words = shlex.split(line, comments=True)
        if not words:
            continue
        verb, arguments = words[0], words[1:]
        if not arguments or verb not in ("families", "check", "bench"):
            raise ValueError(
                f"line {number}: 'families', 'check' or 'bench' and names, not {line!r}"
            )
        if verb == "bench":
            plan.bench.append(arguments)
        else:
            getattr(plan, verb).extend(arguments)
    return plan


@dataclass
class Step:
    """A command, and the name of the log that it leaves."""

    name: str
    command: Sequence[str | Path]
    most_seconds: float = math.inf


def of_venv(name: str) -> str:
    local = ROOT / ".venv" / "bin" / name
    return str(local) if local.exists() else name


def build_steps(plan: Plan) -> Iterator[Step]:
    program = [of_venv("cmake"), "-G", "Ninja", "-S", ROOT, "-B", BUILD]
    options = ["-DWS_EMULATED=OFF", f"-DWS_FAMILIES={';'.join(plan.families)}"]
    yield Step("configure", [*program, *options, f"-DPython_EXECUTABLE={sys.executable}"])
    targets = ["warpsmith", *(["libwarpsmith"] if plan.bench else [])]
    yield Step("build", [program[0], "--build", BUILD, "--target", *targets])


def verify_steps(plan: Plan) -> Iterator[Step]:
    for cases in ("smoke", "verify"):
        if plan.check:
            yield Step(
                f"verify-{cases}", [BUILD / "warpsmith", "verify", *plan.check, "--cases", cases]
            )


def sanitizer_steps(plan: Plan) -> Iterator[Step]:
    smoke = [BUILD / "warpsmith", "verify", *plan.check, "--cases", "smoke"]
    for tool, options in TOOLS.items():
        if plan.check:
            tool_command = ["compute-sanitizer", "--tool", tool, "--error-exitcode", "9", *options]
            yield Step(tool, [*tool_command, *smoke])


def bench_steps(plan: Plan, out: Path, line_seconds: float) -> Iterator[Step]:
    for number, arguments in enumerate(plan.bench):
        name = f"bench-{number:02}-{arguments[0].replace('/', '-')}"
        command = [sys.executable, "-m", "warpsmith.bench", *arguments, "-o", out / f"{name}.json"]
        yield Step(name, command, line_seconds)


def run(step: Step, out: Path, seconds_left: float) -> bool:
    """Whether it ended well, in time. Its text goes to a log, of a failure its end is printed."""
    log = out / f"{step.name}.log"
    start = time.monotonic()
    environment = os.environ | {"WARPSMITH_LIBRARY": str(BUILD / "libwarpsmith.so")}
    paths = [str(ROOT / "python"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    with log.open("w") as text:
        print("$", shlex.join(map(str, step.command)), file=text, flush=True)
        try:
            done = subprocess.run(
                step.command,
                cwd=ROOT,
                env=environment,
                stdout=text,
                stderr=subprocess.STDOUT,
                timeout=min(max(seconds_left, 1), step.most_seconds),
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            done = "out of time"
        except OSError as error:
            done = str(error)
    took = time.monotonic() - start
    print(f"{step.name}: {'done' if done == 0 else f'FAILED ({done})'}, {took:.0f} s", flush=True)
    lines = log.read_text(errors="replace").splitlines()
    for line in lines[-15:] if done != 0 else lines[-1:]:
        print(f"  {line[:160]}", flush=True)
    return done == 0


def steps(plan: Plan, only: Sequence[str], out: Path, line_seconds: float) -> Iterator[list[Step]]:
    """In groups: those of one run side by side, and groups one after the other."""
    if "build" in only:
        yield from ([step] for step in build_steps(plan))
    if "verify" in only:
        yield from ([step] for step in verify_steps(plan))
    if "sanitize" in only:
        yield [*sanitizer_steps(plan)]
    if "bench" in only:
        yield from ([step] for step in bench_steps(plan, out, line_seconds))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("plan", type=Path)
    parser.add_argument("--seconds", type=float, default=1500, help="for all of it")
    parser.add_argument("--line-seconds", type=float, default=120, help="for a line of bench")
    parser.add_argument("--out", type=Path, default=BUILD / "out")
    parser.add_argument("--only", default=",".join(STEPS), help="some of " + ",".join(STEPS))
    parser.add_argument("--dry-run", action="store_true", help="print the commands, run none")
    options = parser.parse_args()
    only = options.only.split(",")
    if not set(only) <= set(STEPS):
        parser.error(f"--only {options.only}: some of {','.join(STEPS)}")
    try:
        plan = read(options.plan.read_text())
    except (OSError, ValueError) as error:
        parser.error(f"{options.plan}: {error}")
    end = time.monotonic() + options.seconds
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    wrong: list[str] = []
    for group in steps(plan, only, out, options.line_seconds):
        if options.dry_run:
            print("\n".join(shlex.join(map(str, step.command)) for step in group))
            continue
        left = end - time.monotonic()
        is_lost = wrong and wrong[0] in ("configure", "build")  # nothing there to be run
        if is_lost or left <= 0:
            wrong += [f"{step.name} (not run)" for step in group]
            continue
        with ThreadPoolExecutor(max(len(group), 1)) as pool:
            ended = pool.map(lambda step, left=left: run(step, out, left), group)
            wrong += [step.name for step, good in zip(group, ended, strict=True) if not good]
    print(f"on_gpu: {'wrong: ' + ', '.join(wrong) if wrong else 'all done'}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
