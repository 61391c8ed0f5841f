"""The page of pictures: accesses of warps, bank maps, fragments, timelines."""

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import PurePosixPath
from typing import Any

from warpsmith import _figures

from book import program
from book.markdown import code, escaped, figure
from book.places import PICTURES, Family, Rung, link, page_of_rung
from book.rungs import (
    TIMELINE_ANCHOR,
    Timelines,
    access_figure,
    accesses,
    timeline_figure,
    timeline_words,
)


def swizzles_section() -> str:
    parts = [
        "## Bank maps of the swizzles\n",
        "A tile's rows are written a chunk of 16 bytes after the other. Eight rows at the same "
        "chunk are read at once by `ldmatrix` and `wgmma`: dark, for the first chunk. Where they "
        "lie in the same banks they are read one after the other; a swizzle lets chunks of "
        "different rows trade places.\n",
    ]
    for name, swizzle in program.models()["swizzles"].items():
        passes = _figures.column_passes(swizzle)
        words = "one pass" if passes == 1 else f"{passes} passes"
        caption = f"{name[0].upper()}{name[1:]}: a column of chunks takes {words}."
        parts.append(figure(_figures.swizzle_map(name, swizzle), caption))
    return "\n".join(parts)


def fragments_section() -> str:
    parts = [
        "## Fragments of tensor cores\n",
        "Which thread holds which element of a tile: what a kernel must know that touches the "
        "registers itself. Two elements of 16 bits share a register, or four of 8 bits. Operands "
        "of tf32 are not here: `wgmma` takes them from shared memory, and `wmma` keeps to itself "
        "what its fragments hold.\n",
    ]
    for key, fragment in program.models()["fragments"].items():
        parts.append(f"### {escaped(fragment['name'])}\n")
        holder = "thread of the warpgroup" if key.startswith("wgmma") else "lane"
        caption = f"Number: the {holder} that holds the element; colour: in which register."
        parts.append(figure(_figures.fragment(fragment), caption))
    return "\n".join(parts)


# Of the timelines that stand on rungs' pages those that stand here too.
TIMELINES = (("gemm", "warp_specialized"), ("gemm", "mma_pipeline"))


def timelines_section(timelines: Timelines, page: PurePosixPath) -> str:
    parts = ["## Timelines of pipelines\n", timeline_words(page)]
    parts += [
        timeline_figure(timelines[key], "/".join(key)) for key in TIMELINES if key in timelines
    ]
    parts.append("Every rung that copies asynchronously has one on its page:\n")
    for family, some in groupby(timelines, key=itemgetter(0)):
        links = (link(code(n), page_of_rung(family, n), page, TIMELINE_ANCHOR) for _, n in some)
        parts.append(f"- {family}: {', '.join(links)}")
    parts.append("")
    return "\n".join(parts)


def dearest(rung: Rung) -> dict[str, Any] | None:
    lines = [line for line in accesses(rung) if line["access"]["memory"] == "global"]
    return lines[0] if lines else None


def worst_and_best(rungs: Sequence[Rung]) -> list[Rung]:
    """Of a family's rungs the one that moves most in vain, and the first on the path from it that
    moves no more than it must."""
    seen = [rung for rung in rungs if dearest(rung)]

    def waste(rung: Rung) -> float:
        line = dearest(rung)
        return line["sectors"] / max(line["ideal_sectors"], 1)

    if not seen:
        return []
    worst = max(seen, key=waste)
    later = seen[seen.index(worst) + 1 :]
    better = [rung for rung in later if waste(rung) < 1.5]
    return [worst, better[0]] if better and waste(worst) > 2 else []


def accesses_section(families: Sequence[Family], told: dict[tuple[str, str], Rung]) -> str:
    parts = [
        "## What a warp asks for\n",
        "The 32 lanes of a warp execute a load together, and memory answers in sectors of 32 "
        "bytes. Where lanes ask for neighbours, few sectors hold all; where each walks a row of "
        "its own, each needs its own sector, and most of what moves is thrown away. The pages of "
        "the rungs have such pictures of their dearest lines.\n",
    ]
    for family in families:
        pair = worst_and_best([told[family["name"], r["name"]] for r in family["rungs"]])
        if pair:
            parts.append(f"### {family['name']}\n")
            parts += [access_figure(rung, dearest(rung)) for rung in pair]
    return "\n".join(parts)


def pictures_page(
    families: Sequence[Family], told: dict[tuple[str, str], Rung], timelines: Timelines
) -> str:
    return "\n".join(
        [
            "# Pictures\n",
            "Drawn by the program from what it models and counts, none by hand.\n",
            accesses_section(families, told),
            swizzles_section(),
            fragments_section(),
            timelines_section(timelines, PICTURES),
        ]
    )
