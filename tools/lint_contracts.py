#!/usr/bin/env python3
"""Checks the house rules that no compiler knows.

Prints FILE:LINE: what is wrong, and exits 1 if anything is. The rules are those under "Contracts"
and "A family" in the design.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

# (what code must not say, what to do instead)
OUTSIDE_THE_DEVICE_LAYER = [
    (r"\basm\b", "asm: call a function of include/warpsmith/ptx/"),
    (r"<<<", "<<<: call ws::launch"),
    (r"\b__CUDA_ARCH__\b", "__CUDA_ARCH__: only include/warpsmith/ asks for it"),
    (r"\bextern\s+__shared__", "extern __shared__: declare SharedStorage"),
]
IN_THE_LIBRARY = [
    (r"\bf?printf\s*\(", "printf: return it, or throw ws::Error"),
    (r"\bexit\s*\(", "exit: throw ws::Error"),
]
LIBRARY = ("include/", "kernels/", "catalogue/", "harness/")

# `[.]` keeps this file from naming what it forbids.
IN_ANY_FILE = [
    (r"(?<![\w.}])/(home|root|Users|work|tmp)/\w", "a path of one machine"),
    (
        r"(pypi|pythonhosted|deb[.]debian|anaconda|pypi[.]nvidia|download[.]pytorch)[.](org|com)"
        r"|archive[.]ubuntu[.]com|--(extra-)?index-url",
        "a package registry: requirements name packages, never where they come from",
    ),
]

SOURCES = {".cu", ".cuh", ".hpp", ".cpp"}
COMMENT_OR_STRING = re.compile(
    r"//[^\n]*"
    r"|/\*.*?\*/"
    r'|R"(?P<mark>\w*)\(.*?\)(?P=mark)"'
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'(?:\\.|[^'\\\n])'",
    re.DOTALL,
)

RUNG = re.compile(r"\d\d_(\w+)\.cuh")
MAX_RUNG_LINES = 150
MAX_HEADER_LINES = 10

Problem = tuple[int, str]  # line, message


def code_only(text: str) -> str:
    """The text with comments and strings blanked; its lines keep their numbers."""
    return COMMENT_OR_STRING.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def check_lines(text: str, rules: list[tuple[str, str]]) -> Iterator[Problem]:
    for number, line in enumerate(text.splitlines(), 1):
        for pattern, message in rules:
            if re.search(pattern, line):
                yield number, message


def check_rung(path: Path, text: str) -> Iterator[Problem]:
    lines = text.splitlines()
    header = next((i for i, line in enumerate(lines) if not line.startswith("//")), len(lines))
    if not text.startswith("// Idea:"):
        yield 1, "a rung starts with a comment `// Idea: ...`"
    elif header > MAX_HEADER_LINES:
        yield header, f"a header comment of {header} lines; at most {MAX_HEADER_LINES}"
    if len(lines) > MAX_RUNG_LINES and "// Long: " not in text:
        allowed = f"at most {MAX_RUNG_LINES}, or say why in a line `// Long: ...`"
        yield len(lines), f"a rung of {len(lines)} lines; {allowed}"
    idea = RUNG.fullmatch(path.name)[1]
    table = path.parent / f"{path.parent.name}.cu"
    rows = table.read_text() if table.exists() else ""
    if not re.search(rf'"{idea}(_\w+)?"|"{path.name}"', rows):
        yield 1, f'{table.name} has no row "{idea}", nor one whose file is "{path.name}"'


def check_file(root: Path, name: str) -> Iterator[Problem]:
    path = root / name
    try:
        text = path.read_text()
    except UnicodeDecodeError:
        return  # a picture
    yield from check_lines(text, IN_ANY_FILE)
    if path.suffix in SOURCES:
        if not name.startswith("include/warpsmith/"):
            yield from check_lines(code_only(text), OUTSIDE_THE_DEVICE_LAYER)
        if name.startswith(LIBRARY):
            yield from check_lines(code_only(text), IN_THE_LIBRARY)
    if name.startswith("kernels/") and RUNG.fullmatch(path.name):
        yield from check_rung(path, text)


def lint(root: Path, names: list[str]) -> list[str]:
    """A message for each broken rule in the files `names`, which are relative to `root`."""
    return [
        f"{name}:{number}: {message}"
        for name in sorted(names)
        for number, message in check_file(root, name)
    ]


def main() -> int:
    root = Path(__file__).resolve().parent.parent
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    )
    names = [name for name in listing.stdout.splitlines() if (root / name).is_file()]
    messages = lint(root, names)
    print("\n".join([*messages, f"contracts: {len(names)} files, {len(messages)} broken rules"]))
    return bool(messages)


if __name__ == "__main__":
    sys.exit(main())
