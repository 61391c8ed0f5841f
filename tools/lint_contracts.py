#!/usr/bin/env python3
"""Checks the house rules that no compiler knows.

Prints FILE:LINE: what is wrong, and exits 1 if anything is. The rules are those under "A family"
and "How a kernel is launched" in docs/architecture.md.
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
# The device layer, and CUDA files as others write them: `warpsmith run` takes those.
SPEAKS_CUDA = (
    "include/warpsmith/",
    "learn/",
    "own_kernel/driver.cuh",
    "tests/cuda_file/",
    "examples/lessons/",
)
IN_THE_LIBRARY = [
    (r"\bf?printf\s*\(", "printf: return it, or throw ws::Error"),
    (r"\bexit\s*\(", "exit: throw ws::Error"),
]
LIBRARY = ("include/", "kernels/", "catalogue/", "harness/", "microbench/", "report/")

# `[.]` keeps this file from naming what it forbids.
IN_ANY_FILE = [
    (r"(?<![\w.}])/(home|root|Users|work|tmp)/\w", "a path of one machine"),
    (
        r"(pypi|pythonhosted|deb[.]debian|anaconda|pypi[.]nvidia|download[.]pytorch)[.](org|com)"
        r"|archive[.]ubuntu[.]com|--(extra-)?index-url",
        "a package registry: requirements name packages, never where they come from",
    ),
]

# Who asks which build this is: everybody else asks warpsmith/runtime.hpp, and kernels that a host
# compiler may meet say `#if WS_DEVICE_CODE`. Whether a library's header is there is one question.
KNOWS_THE_BUILD = ("include/warpsmith/", "emulator/", "runtime/", "tests/", "tools/")
WHICH_BUILD = [
    (
        r"^\s*#(?!.*__has_include).*\bWS_EMULATED\b",
        "WS_EMULATED: ask warpsmith/runtime.hpp, or say why in a line `// Build: ...`",
    ),
]
# The layers, lowest first: what a file of the folder must not include.
LAYERS = [
    ("include/warpsmith/ptx/", r"warpsmith/(thread|warp|block|cluster|row|tile)/"),
    ("include/warpsmith/", r"(catalogue|harness|report|kernels|cli|python)/"),
    ("catalogue/", r"(harness|report|kernels/(?!\w+/families)|cli|python)/"),
    ("kernels/", r"(harness|report|cli|python|tests)/"),
    ("harness/", r"(report|kernels|cli|python|tests|emulator)/"),
    ("microbench/", r"(report|kernels|cli|python|tests|emulator)/"),
    ("report/", r"(kernels|cli|python|tests|emulator)/"),
    ("cli/", r"(kernels|python|tests|emulator)/"),
    ("python/", r"(kernels|cli|tests|emulator)/"),
]
# The program would end at its start, whatever it was asked, where CLI11 is newer than Debian 12's.
IN_THE_PROGRAM = [
    (r'add_(option|flag)\("[^"]*\s', "a space in an option's name: CLI11 2.4 and later refuse it"),
]
# Right on the host, and in device code the constant 32.
IN_KERNELS = [
    (
        r"\bstd::(count[lr]_(zero|one)|popcount|bit_width)\b",
        "a function of <bit>: nvcc folds it in device code; call one of warpsmith/ptx/bits.hpp",
    ),
]
KERNELS = ("kernels/", "microbench/", "include/warpsmith/")
IN_A_TABLE = [
    (r"\b__device__\b|\blaunch<", "F.cu is the family's table: kernels stand in their rungs"),
]

SOURCES = {".cu", ".cuh", ".hpp", ".cpp"}
MAX_PROSE_COLUMNS = 100
COMMENT_OR_STRING = re.compile(
    r"//[^\n]*"
    r"|/\*.*?\*/"
    r'|R"(?P<mark>\w*)\(.*?\)(?P=mark)"'
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'(?:\\.|[^'\\\n])'",
    re.DOTALL,
)

RUNG = re.compile(r"\d\d_(\w+)\.cuh?")
ROW = re.compile(r"\bRung\s+(k\w+)")
MAX_RUNG_LINES = 150
MAX_HEADER_LINES = 10
PART_WITHIN = re.compile(r"\. (From \w+:|Traffic:|Limits:|Long:)")

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
    for number, line in enumerate(lines[:header], 1):
        if part := PART_WITHIN.search(line):
            yield number, f"'{part[1]}' begins a line of a rung's header"
    if len(lines) > MAX_RUNG_LINES and "// Long: " not in text:
        allowed = f"at most {MAX_RUNG_LINES}, or say why in a line `// Long: ...`"
        yield len(lines), f"a rung of {len(lines)} lines; {allowed}"
    table = path.parent / f"{path.parent.name}.cu"
    listed = set(re.findall(r"\bk\w+", table.read_text())) if table.exists() else set()
    defined = path.with_suffix(".cu")  # of a heavy rung, whose header ends without its row
    rows = set(ROW.findall(text))
    if defined != path and defined.exists():
        rows |= set(ROW.findall(defined.read_text()))
    if not rows:
        yield len(lines), "a rung ends with its row: `inline constexpr Rung kName = rung_of<...>`"
    for row in sorted(rows - listed):
        yield 1, f"{table.name} does not list {row}"


def check_private_kernels(text: str) -> Iterator[Problem]:
    """A member type in a private section that names a kernel: the stubs that nvcc writes for a
    launch name it too, where it is private. A compile to a cubin does not see it."""
    private = False
    member = 0  # the line at which the member type begins that this line is of
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(r" (private|public|protected):|\};", line):
            private = line.startswith(" private:")
        if re.match(r"  \S", line):
            member = number if re.match(r"  (struct|using) ", line) else 0
        if private and member and re.search(r"\w+Kernel<", line):
            yield member, "nvcc's stubs name kernels' types: none of a private section"
            member = 0


def is_second_half(path: Path) -> bool:
    """Whether a heavy rung's header stands beside it, in which the rung is told."""
    return path.suffix == ".cu" and path.with_suffix(".cuh").exists()


def includes_reference(text: str) -> Iterator[Problem]:
    rule = r'#include ".*(reference|peers)\.cpp"'
    yield from check_lines(text, [(rule, "nvcc reads no reference.cpp and no peers.cpp")])


def check_layers(name: str, text: str) -> Iterator[Problem]:
    """What a file includes: nothing of the layers above it."""
    for folder, above in LAYERS:
        if not name.startswith(folder):
            continue
        for number, line in enumerate(text.splitlines(), 1):
            match = re.match(rf'\s*#include "({above}\S*)"', line)
            if match:
                yield number, f"{folder} includes nothing of {match[1]}"


def check_prose(text: str) -> Iterator[Problem]:
    """Lines of Markdown, but for tables, code and what cannot be broken."""
    code = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            code = not code
        elif code or len(line) <= MAX_PROSE_COLUMNS or line.lstrip().startswith("|"):
            continue
        elif " " in line[:MAX_PROSE_COLUMNS].strip().lstrip("-*>0123456789. "):
            yield number, f"{len(line)} columns; prose has at most {MAX_PROSE_COLUMNS}"


def check_file(root: Path, name: str) -> Iterator[Problem]:
    path = root / name
    try:
        text = path.read_text()
    except UnicodeDecodeError:
        return  # a picture
    yield from check_lines(text, IN_ANY_FILE)
    if path.suffix in SOURCES:
        if not name.startswith(SPEAKS_CUDA):
            yield from check_lines(code_only(text), OUTSIDE_THE_DEVICE_LAYER)
        if name.startswith(LIBRARY):
            yield from check_lines(code_only(text), IN_THE_LIBRARY)
        if not name.startswith(KNOWS_THE_BUILD) and "// Build: " not in text:
            yield from check_lines(text, WHICH_BUILD)
        if name.startswith(KERNELS) and path.name != "bits.hpp":
            yield from check_lines(code_only(text), IN_KERNELS)
        yield from check_layers(name, text)
        if name.startswith(("cli/", "tools/")):
            yield from check_lines(text, IN_THE_PROGRAM)
    if path.suffix == ".md":
        yield from check_prose(text)
    if name.startswith("kernels/"):
        if RUNG.fullmatch(path.name) and not is_second_half(path):
            yield from check_rung(path, text)
        if path.name == f"{path.parent.name}.cu":
            yield from check_lines(code_only(text), IN_A_TABLE)
        if path.suffix in {".cuh", ".cu", ".hpp"}:
            yield from includes_reference(text)
            yield from check_private_kernels(code_only(text))


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
