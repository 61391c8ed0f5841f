#!/usr/bin/env python3
"""Fails when a kernel keeps values in local memory (spills, indexed arrays) its row does not allow.

Usage: tools/check_spills.py PROGRAM FOLDER
  PROGRAM  the emulated build's warpsmith, which lists the rows and their `may_spill`
  FOLDER   the build cuda-check: libwarpsmith_core.a, and the cubins of kernels_ARCHITECTURE.dir
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LINE = re.compile(
    r"arch = (?P<arch>\w+)|"
    r"\s*Function (?P<name>.+):|"
    r"\s*REG:\d+ STACK:(?P<stack>\d+) .*LOCAL:(?P<local>\d+).*"
)


@dataclass(frozen=True)
class Kernel:
    name: str
    arch: str
    local_bytes: int  # of one thread


def parse(listing: str) -> Iterator[Kernel]:
    """The kernels in what `cuobjdump --dump-resource-usage` printed."""
    arch = name = ""
    for line in listing.splitlines():
        match = LINE.fullmatch(line)
        if not match:
            continue
        if match["arch"]:
            arch = match["arch"]
        elif match["name"]:
            name = match["name"]
        else:
            yield Kernel(name, arch, int(match["stack"]) + int(match["local"]))


def is_of(kernel: Kernel, rung: dict) -> bool:
    """Whether the kernel is the struct of the rung's name, or of the file that rows share."""
    file = Path(rung.get("file") or "").stem.lstrip("0123456789_")
    names = [name.split("_") for name in (rung["name"], file) if name]
    struct = "|".join("".join(map(str.capitalize, words)) for words in names)
    inside = r"(\w+::|\(anonymous namespace\)::)*"  # NN_name.cu may hide its kernels
    return bool(re.search(rf"\bws::{rung['family']}::{inside}({struct})(Kernel)?\b", kernel.name))


def is_a_vendors(kernel: Kernel) -> bool:
    """Whether it is a peer's."""
    return bool(re.match(r"(void )?(cub|thrust)::", kernel.name))


def spilling(kernels: list[Kernel], rungs: list[dict]) -> list[Kernel]:
    """The kernels with local memory that no row with `may_spill` claims."""
    allowed = [rung for rung in rungs if rung["may_spill"]]
    return [
        kernel
        for kernel in kernels
        if kernel.local_bytes
        and not is_a_vendors(kernel)
        and not any(is_of(kernel, rung) for rung in allowed)
    ]


def output_of(*command: str | Path, **options) -> str:
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **options)
    return done.stdout


def cuobjdump() -> Path:
    import nvidia  # the namespace package of all that NVIDIA publishes

    return next(path for root in nvidia.__path__ for path in Path(root).glob("cu*/bin/cuobjdump"))


def cubins(build: Path) -> list[tuple[str, Path]]:
    """Each that the build makes, and for which architecture; not what an older one left there."""
    known = set(re.findall(r"CMakeFiles/kernels_\S+\.cubin", (build / "build.ninja").read_text()))
    architecture = re.compile(r"CMakeFiles/kernels_(\w+)\.dir/")
    return [(architecture.match(name)[1], build / name) for name in sorted(known)]


def listings(build: Path) -> Iterator[str]:
    """What cuobjdump says of all that was compiled; of a cubin it does not say for what."""
    reader = cuobjdump()
    library = build / "libwarpsmith_core.a"
    if library.exists():
        yield output_of(reader, "--dump-resource-usage", library)
    known = cubins(build)
    made = [(architecture, cubin) for architecture, cubin in known if cubin.exists()]
    if len(made) < len(known):  # time was up
        print(f"spills: {len(known) - len(made)} of {len(known)} cubins are not there to look at")
    for architecture, cubin in made:
        yield f"arch = {architecture}\n"
        yield output_of(reader, "--dump-resource-usage", cubin)


def main(program: str, build: str) -> int:
    listing = "".join(listings(Path(build)))
    kernels = list(parse(output_of("c++filt", input=listing)))
    families = json.loads(output_of(program, "list", "--json"))["families"]
    rungs = [rung | {"family": family["name"]} for family in families for rung in family["rungs"]]
    wrong = spilling(kernels, rungs)
    for kernel in wrong:
        print(f"{kernel.arch}: {kernel.local_bytes} bytes of local memory: {kernel.name}")
    architectures = ", ".join(sorted({kernel.arch for kernel in kernels}))
    print(f"spills: {len(kernels)} kernels ({architectures}), {len(wrong)} must not have them")
    return bool(wrong) or not kernels


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
