"""What the built programs say: the catalogue, the rungs, what the emulator counts, the pictures."""

import json
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "emulated"

# The problem that a rung's pictures are of, where it takes it: rows for every lane of a warp, and
# small. A rung that takes it only with a promise gets the promise; else the ladder's own problem.
PICTURED = ("--shape", "64x256")


class ProgramError(Exception):
    """A program refused or is missing; the text says which and why."""


def run(program: str, *arguments: str) -> str:
    """What a program of the build prints."""
    path = BUILD / program
    if not path.exists():
        raise ProgramError(f"{path.relative_to(ROOT)} is not built: `make docs` builds it")
    result = subprocess.run((path, *arguments), cwd=ROOT, capture_output=True, text=True)
    if result.returncode != 0:
        raise ProgramError(f"{program} {' '.join(arguments)}: {result.stderr.strip()}")
    return result.stdout


def read(program: str, *arguments: str) -> Any:
    """The same, of JSON."""
    return json.loads(run(program, *arguments))


@cache
def catalogue() -> dict[str, Any]:
    return read("warpsmith", "list", "--json")


@cache
def models() -> dict[str, Any]:
    return read("book_models")


@cache
def plot(kind: str, results: Path, problem: str) -> str:
    """A picture of a result file, as SVG."""
    chosen = ("--results", str(results), "--problem", problem)
    return follow_switch(run("warpsmith", "plot", kind, *chosen))


def follow_switch(svg: str) -> str:
    """A plot whose colours follow the system's mode, made to follow the site's switch too."""
    light = re.search(r"\.ws-plot \{([^}]*)\}", svg)
    dark = re.search(r"prefers-color-scheme: dark\) \{\s*\.ws-plot \{([^}]*)\}", svg)
    if light is None or dark is None:
        raise ProgramError("a plot has no colours for light and for dark pages")
    rules = (
        f'body[data-theme="light"] .ws-plot {{{light[1]}}}\n'
        f'body[data-theme="dark"] .ws-plot {{{dark[1]}}}\n'
    )
    return svg.replace("</style>", f"{rules}</style>", 1)


def trace(rung: str, problem: tuple[str, ...] = ()) -> dict[str, Any]:
    """A rung's trace, by events, on a problem, or on the ladder's own where it does not take it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        try:
            run("warpsmith", "trace", rung, *problem, "-o", str(path))
        except ProgramError:
            if not problem:
                raise
            run("warpsmith", "trace", rung, "-o", str(path))
        return json.loads(path.read_text())


def profile(rung: str, flags: tuple[str, ...]) -> dict[str, Any]:
    """A rung's counts on the pictured problem, or on the ladder's own."""
    tries = [(*PICTURED, "--dtype", "f32"), PICTURED]
    tries += [(*problem, "--set", f"{flag}=true") for flag in flags for problem in tries[:2]]
    for problem in tries:
        try:
            return read("warpsmith", "profile", rung, *problem, "--json")
        except ProgramError:
            continue  # it does not take this one
    return read("warpsmith", "profile", rung, "--json")


def first_operation(family: dict[str, Any], rung: dict[str, Any]) -> dict[str, Any]:
    """Of a family's operations the first that a rung computes: the one that it is shown on."""
    return next(o for o in family["operations"] if o["name"] in rung["operations"])


def told_rungs() -> dict[tuple[str, str], dict[str, Any]]:
    """`show --json` of each rung with its `profile` beside it, by family and rung.

    There is none of a rung that needs a GPU: None.
    """

    def tell(family: dict[str, Any], rung: dict[str, Any]) -> dict[str, Any]:
        operation = first_operation(family, rung)
        address = f"{operation['name']}/{rung['name']}"
        flags = tuple(a["name"] for a in operation["attributes"] if a["kind"] == "bool")
        shown = read("warpsmith", "show", address, "--json")
        counts = None if rung["gpu_only"] else profile(address, flags)
        return {**rung, **shown, "profile": counts}

    pairs = [(family, rung) for family in catalogue()["families"] for rung in family["rungs"]]
    with ThreadPoolExecutor() as pool:
        told = pool.map(lambda pair: tell(*pair), pairs)
        keys = [(family["name"], rung["name"]) for family, rung in pairs]
        return dict(zip(keys, told, strict=True))


def say(text: str) -> None:
    print(f"docs: {text}", file=sys.stderr, flush=True)
