"""Finds and loads libwarpsmith.so: the emulated build for CPU arrays, the CUDA build for the GPU's.

Both may be loaded: their symbols are hidden and tvm-ffi loads them locally. They are looked for

1. in the folder that the environment variable WARPSMITH_BUILD names, as `emulated/` and `cuda/`;
2. in the installed package, as `_emulated/` and `_cuda/`;
3. in the source checkout that this file lies in, as `build/emulated/` and `build/cuda/`.

WARPSMITH_LIBRARY names one library file that is loaded instead of all these: a catalogue of other
families behind the same package, as tests/trial is.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tvm_ffi

from warpsmith._log import LOG

VARIANTS = ("emulated", "cuda")
DEVICE_CPU = 1  # DLPack's numbers
DEVICE_CUDA = 2


def _places(variant: str) -> Iterator[Path]:
    build = os.environ.get("WARPSMITH_BUILD")
    if build:
        yield Path(build) / variant
        return
    import warpsmith

    # In an editable install the package has two places: the sources', and that of what was built.
    for place in warpsmith.__path__:
        yield Path(place) / f"_{variant}"
    yield Path(__file__).resolve().parents[2] / "build" / variant


def find(variant: str) -> Path | None:
    """The library of a variant, "emulated" or "cuda"; None where it was not built."""
    for place in _places(variant):
        path = place / "libwarpsmith.so"
        if path.is_file():
            return path
    return None


def _variant_of(module: Any) -> str:
    return "cuda" if json.loads(module.catalogue())["device"] == "cuda" else "emulated"


def _load(path: Path) -> Any:
    module = tvm_ffi.load_module(path)
    variant = _variant_of(module)
    PATHS[variant] = path
    LOG.info("loaded the %s library %s", variant, path)
    return module


def load() -> dict[str, Any]:
    """The tvm-ffi modules that exist, by variant; ImportError where there is none."""
    alone = os.environ.get("WARPSMITH_LIBRARY")
    if alone:
        if not Path(alone).is_file():
            raise ImportError(f"WARPSMITH_LIBRARY names {alone}, which is no file")
        module = _load(Path(alone))
        return {_variant_of(module): module}
    modules = {}
    for variant in VARIANTS:
        path = find(variant)
        if path is not None:
            modules[variant] = _load(path)
    if not modules:
        searched = ", ".join(str(place) for variant in VARIANTS for place in _places(variant))
        raise ImportError(
            f"libwarpsmith.so is in none of {searched}: "
            "`pip install .` or `make build/emulated` builds it"
        )
    return modules


PATHS: dict[str, Path] = {}  # of the libraries, by variant
MODULES = load()
CATALOGUE = json.loads(next(iter(MODULES.values())).catalogue())
for _module in MODULES.values():
    if json.loads(_module.catalogue())["version"] != CATALOGUE["version"]:
        raise ImportError("the emulated and the CUDA library are of different versions")


def module_for(device_type: int) -> Any:
    """The module that takes arrays of a DLPack device type, else any: it says what is wrong."""
    preferred = "cuda" if device_type in (DEVICE_CUDA, 13) else "emulated"
    return MODULES.get(preferred) or next(iter(MODULES.values()))


def has_gpu() -> bool:
    """Whether there is a GPU, and the library for it."""
    if "cuda" not in MODULES:
        return False
    try:
        MODULES["cuda"].require_device()
    except ValueError as error:
        LOG.info("no GPU: %s", error)
        return False
    return True


def program() -> Path | None:
    """The program `warpsmith` that was built beside a library: that of the GPU where there is one.

    None where there is none.
    """
    order = ("cuda", "emulated") if has_gpu() else ("emulated", "cuda")
    return next(filter(None, (_program_of(variant) for variant in order if variant in PATHS)), None)


def _program_of(variant: str) -> Path | None:
    path = PATHS[variant].with_name("warpsmith")
    return path if path.is_file() else None


def build_info() -> dict[str, Any]:
    """What this package was built from and with, and where it lies: for a report of a bug.

    Returns:
        "version", "package" (its folder) and "variants": of "emulated" and "cuda", those that there
        are, "library", "program" (None where it is not installed), "revision" (git's), "compiler",
        and of the latter "nvcc", "cuda" (the version of CUDA) and "architectures".
    """
    variants = {}
    for variant, module in MODULES.items():
        known = json.loads(module.build_info())
        if "architectures" in known:
            known["architectures"] = known["architectures"].split(",")
        there = _program_of(variant)
        paths = {
            "library": str(PATHS[variant]),
            "program": None if there is None else str(there),
        }
        variants[variant] = paths | known
    return {
        "version": CATALOGUE["version"],
        "package": str(Path(__file__).parent),
        "variants": variants,
    }
