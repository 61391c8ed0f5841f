#!/usr/bin/env python3
"""Makes the source distribution and wheels in dist/, and tries the one for CPUs as its user would.

Usage: tools/wheels.py build [cpu] [cuda]     cuda: needs nvcc; both libraries, for every GPU target
       tools/wheels.py check                  installs dist's wheel for CPUs and tries it

The wheels are built from the source distribution, and are for manylinux_2_28 whichever glibc is
here: cmake/manylinux/ has how, and a wheel that asks for a newer one is refused. Two wheels of one
version differ in their build tag: pip takes the higher, the one with CUDA, where it has both.
"""

import argparse
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
# Inside the checkout, so that git tells the sources their revision.
UNPACKED = ROOT / "build" / "sdist"
BUILD_TAGS = {"cpu": "1cpu", "cuda": "2cuda"}
OLDEST_GLIBC = (2, 28)
PLATFORM = "manylinux_2_28_x86_64"
CALLED = """
import importlib.util, numpy, warpsmith
assert importlib.util.find_spec("torch") is None, "this was to be a machine without torch"
x = numpy.linspace(-3, 3, 4096, dtype=numpy.float32).reshape(4, 1024)
exponentials = numpy.exp(x.astype(numpy.float64))
expected = exponentials / exponentials.sum(axis=1, keepdims=True)
assert numpy.allclose(warpsmith.softmax(x), expected, rtol=1e-5, atol=0)
try:
    warpsmith.softmax(x, rung="none")
except ValueError as error:  # thrown by the library, which has a C++ library of its own
    assert "none" in str(error)
else:
    raise AssertionError("there is no such rung")
print(f"warpsmith {warpsmith.__version__} of {warpsmith.__file__}: softmax is right")
"""


def run(*command: object, folder: Path = ROOT) -> str:
    """What the command prints; ends the program with all of it where the command fails."""
    words = [str(word) for word in command]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    # Of ours none may lead to another library.
    others = {name: x for name, x in os.environ.items() if not name.startswith("WARPSMITH_")}
    result = subprocess.run(
        words,
        cwd=folder,
        env={"CXX": "c++", **others, "PATH": path},  # as `make` names it: ccache has its objects
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if result.returncode != 0:
        sys.exit(f"{result.stdout}\nwheels: {' '.join(words)}: exit status {result.returncode}")
    return result.stdout


def uv_build(kind: str, source: Path, out: Path, **settings: str) -> Path:
    """The one file that building `source` puts into `out`."""
    options = [f"--config-setting={name}={value}" for name, value in settings.items()]
    shutil.rmtree(out, ignore_errors=True)
    run(
        *("uv", "build", f"--{kind}", "--no-build-isolation", "--no-create-gitignore"),
        *("--python", sys.executable, "--out-dir", out, *options, source),
    )
    (made,) = out.iterdir()
    return made


def source_distribution() -> Path:
    """Makes it in dist/; the folder that it was unpacked to, without what an older one had."""
    shutil.rmtree(UNPACKED, ignore_errors=True)
    made = uv_build("sdist", ROOT, UNPACKED / "made")
    shutil.unpack_archive(made, UNPACKED)
    shutil.move(made, DIST / made.name)
    say(DIST / made.name)
    return UNPACKED / made.name.removesuffix(".tar.gz")


def cuda_targets() -> str:
    """Those of the preset `release`."""
    presets = json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"]
    release = next(preset for preset in presets if preset["name"] == "release")
    return release["cacheVariables"]["CMAKE_CUDA_ARCHITECTURES"]


def find_cutlass() -> None:
    """Rungs in CuTe's words want its headers, which lie beside the checkout's sources only."""
    package = importlib.util.find_spec("cutlass_library")
    if package is None or package.origin is None:
        sys.exit("wheels: nvidia-cutlass is not installed: tools/setup cuda")
    include = Path(package.origin).parent / "source" / "include"
    os.environ.setdefault("CUTLASS_INCLUDE", str(include))


def compiled_as_here() -> dict[str, str]:
    """How `make` has compiled all of it here, so that ccache has the objects; else sooner done, and
    what another compiler than CI's warns of is no error."""
    settings = {"CMAKE_COMPILE_WARNING_AS_ERROR": "OFF", "WS_UNITED": "ON"}
    here = ROOT / "build" / "emulated"
    if (here / "libwarpsmith.so").exists():
        cache = (here / "CMakeCache.txt").read_text()
        for name in settings:
            if found := re.search(rf"^{name}:\w+=(\w+)$", cache, re.MULTILINE):
                settings[name] = found[1]
    return settings


def newer_symbols(library: Path) -> list[str]:
    """What it asks for of a glibc that is newer than the oldest, as NAME@GLIBC_VERSION."""
    table = run("objdump", "-T", library)
    asked = re.findall(r"\(?GLIBC_([\d.]+)\)?\s+(\S+)$", table, re.MULTILINE)
    return sorted(
        f"{name}@GLIBC_{version}"
        for version, name in asked
        if tuple(int(part) for part in version.split(".")) > OLDEST_GLIBC
    )


def refuse_newer_glibc(made: Path) -> None:
    """Ends the program, with their names, where a wheel's files ask for such."""
    unpacked = UNPACKED / "unpacked"
    shutil.rmtree(unpacked, ignore_errors=True)
    shutil.unpack_archive(made, unpacked, "zip")
    for file in sorted(unpacked.rglob("*")):
        if not file.is_file() or not file.read_bytes().startswith(b"\x7fELF"):
            continue
        if symbols := newer_symbols(file):
            sys.exit(
                f"wheels: {made.name} would not be for {PLATFORM}:"
                f" {file.relative_to(unpacked)} asks for {', '.join(symbols)};"
                " cmake/manylinux/ has what to do about it"
            )


def wheel(variant: str, source: Path) -> Path:
    """Makes a wheel in dist/, audited and tagged."""
    defines = {
        "WS_MANYLINUX": "ON",
        "WS_WHEEL_CUDA": "ON" if variant == "cuda" else "OFF",
        "CMAKE_CUDA_ARCHITECTURES": cuda_targets(),
        **compiled_as_here(),
    }
    made = uv_build(
        "wheel",
        source,
        UNPACKED / "wheel",
        **{f"cmake.define.{name}": value for name, value in defines.items()},
        **{"wheel.build-tag": BUILD_TAGS[variant], "build-dir": f"build/wheel-{variant}"},
    )
    refuse_newer_glibc(made)
    repaired = UNPACKED / "repaired"
    shutil.rmtree(repaired, ignore_errors=True)
    run(
        *("auditwheel", "repair", "--plat", PLATFORM, "--only-plat"),
        *("--exclude", "libtvm_ffi.so"),  # another wheel's, which the metadata ask for
        *("--wheel-dir", repaired, made),
    )
    (found,) = repaired.iterdir()
    for old in DIST.glob(f"*-{BUILD_TAGS[variant]}-*.whl"):
        old.unlink()
    shutil.move(found, DIST / found.name)
    say(DIST / found.name)
    return DIST / found.name


def say(file: Path) -> None:
    print(f"wheels: {file.relative_to(ROOT)}, {file.stat().st_size / 1e6:.1f} MB", flush=True)


def check() -> None:
    """Installs dist's wheel for CPUs, and what it needs; calls softmax and runs a CUDA file."""
    (made,) = DIST.glob(f"*-{BUILD_TAGS['cpu']}-*.whl")
    fresh = ROOT / "build" / "wheel-check"
    run("uv", "venv", "--clear", "--python", sys.executable, fresh)
    run("uv", "pip", "install", "--python", fresh / "bin" / "python", made)
    # -I: neither this checkout nor the environment says where the package is.
    print(run(fresh / "bin" / "python", "-I", "-c", CALLED, folder=fresh), end="")
    file = ROOT / "tests" / "cuda_file" / "programs" / "own_headers.cu"
    print(run(fresh / "bin" / "warpsmith", "run", file, folder=fresh), end="")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build")
    build.add_argument("variants", nargs="*", choices=BUILD_TAGS, default=["cpu"])
    commands.add_parser("check")
    arguments = parser.parse_args()
    if arguments.command == "check":
        return check()
    DIST.mkdir(exist_ok=True)
    if "cuda" in arguments.variants:
        find_cutlass()
    source = source_distribution()
    for variant in arguments.variants:
        wheel(variant, source)


if __name__ == "__main__":
    main()
