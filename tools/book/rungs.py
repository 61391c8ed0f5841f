"""A rung's page: its idea, what a warp asks for, what changed from the rung below, the source."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import PurePosixPath
from typing import Any

from warpsmith import _figures

from book import program, reading
from book.markdown import block, code, escaped, figure, table
from book.places import (
    Family,
    Rung,
    link,
    page_of_lesson,
    page_of_operation,
    page_of_rung,
)
from book.program import ROOT

# ---- What a warp asks for ------------------------------------------------------------------------


def place_text(line: dict[str, Any]) -> str:
    return f"{PurePosixPath(line['file']).name}:{line['line']}"


def source_line(line: dict[str, Any]) -> str:
    path = ROOT / line["file"]
    return path.read_text().splitlines()[line["line"] - 1].strip() if path.exists() else ""


def accesses(rung: Rung, most: int = 2) -> list[dict[str, Any]]:
    """The dearest lines whose lanes have addresses, at most so many of each memory; of those that
    ask alike the first, with all of them as `alike`."""
    kept: list[dict[str, Any]] = []
    for memory in ("global", "shared"):
        of_memory: list[dict[str, Any]] = []
        for line in rung["profile"]["lines"] if rung["profile"] else ():
            if line.get("access", {}).get("memory") != memory:
                continue
            same = [other for other in of_memory if other["access"] == line["access"]]
            if same:
                same[0]["alike"].append(line)
            else:
                of_memory.append({**line, "alike": [line]})
        kept += of_memory[:most]
    return kept


def access_figure(rung: Rung, line: dict[str, Any]) -> str:
    words = _figures.access_title(line["access"])
    places = ", ".join(f"{place_text(each)} {each['operation']}" for each in line["alike"])
    caption = f"{rung['rung']}, {places}: {words}."
    return figure(_figures.access(line["access"]), caption)


def what_a_warp_asks(rung: Rung) -> str:
    lines = accesses(rung)
    if not lines:
        return ""
    parts = [
        "## What a warp asks for\n",
        f"Of {code(rung['profile']['problem'])} in the emulator: the dearest request of each line. "
        "In global memory a row is a line of 128 bytes, grey is a sector that moves and blue what "
        "lanes ask for; in shared memory a column is a bank, orange where lanes that are served "
        "together ask it for several words.\n",
    ]
    for line in lines:
        lines_of_source = dict.fromkeys(map(source_line, line["alike"]))
        parts.append(block("\n".join(lines_of_source), "cuda"))
        parts.append(access_figure(rung, line))
    return "\n".join(parts)


# ---- Timelines -----------------------------------------------------------------------------------

# A problem on which a ring is seen to fill, where a family's own small one is over before: of the
# rungs that take it.
DEEP = {
    "gemm": ("--shape", "128x256x1024"),
    "linear": ("--shape", "128x1024x256"),
}
TIMELINE = "What is in flight"
TIMELINE_ANCHOR = "what-is-in-flight"

Timelines = dict[tuple[str, str], tuple[str, str]]  # by family and rung: the picture, its problem


def copies_ahead(rung: Rung) -> bool:
    """Whether it has copies to shared memory that it does not stand and wait for."""
    lines = rung["profile"]["lines"] if rung["profile"] else ()
    kinds = {line["operation"] for line in lines}
    return any(
        k == "cp.async" or (k.startswith("cp.async.bulk") and ".shared.global" in k) for k in kinds
    )


def timelines(told: dict[tuple[str, str], Rung]) -> Timelines:
    """Of each rung that copies asynchronously what a block waited for."""

    def draw(key: tuple[str, str]) -> tuple[str, str]:
        trace = program.trace(told[key]["rung"], DEEP.get(key[0], ()))
        return _figures.timeline(trace), trace["otherData"]["problem"]

    keys = [key for key, rung in told.items() if copies_ahead(rung)]
    with ThreadPoolExecutor() as pool:
        return dict(zip(keys, pool.map(draw, keys), strict=True))


def timeline_words(page: PurePosixPath) -> str:
    trace = link("the trace", PurePosixPath("docs/trace.md"), page)
    return (
        "One warp of each kind, some of the mbarriers with the numbers of their phases, and what "
        f"is in flight. The clock is the emulator's order of events, not time: see {trace}.\n"
    )


def timeline_figure(drawn: tuple[str, str], rung: str) -> str:
    svg, problem = drawn
    return figure(svg, f"{rung} on {problem}: the first block that copies.")


# ---- A rung --------------------------------------------------------------------------------------


def header_items(header: str) -> str:
    """Idea, From, Traffic, Limits: the comment at a rung's head, an item a word."""
    items = re.split(r"^(?=[A-Z]\w+(?: \w+)?: )", header, flags=re.MULTILINE)
    lines = []
    for item in filter(None, map(str.strip, items)):
        word, _, text = " ".join(item.split()).partition(": ")
        lines.append(f"- **{escaped(word)}**: {escaped(text)}" if text else escaped(word))
    return "\n".join(lines)


def rung_facts(rung: Rung, family: Family, page: PurePosixPath) -> str:
    rows = []
    if rung["from"]:
        name = rung["from"].split("/")[1]
        rows.append(("grew from", link(code(name), page_of_rung(family["name"], name), page)))
    grown = [r["name"] for r in family["rungs"] if r["from"] == rung["name"]]
    if grown:
        links = (link(code(n), page_of_rung(family["name"], n), page) for n in grown)
        rows.append(("leads to", ", ".join(links)))
    computes = (link(code(name), page_of_operation(name), page) for name in rung["operations"])
    rows.append(("computes", ", ".join(computes)))
    rows.append(("dtypes", " ".join(map(code, rung["dtypes"]))))
    rows.append(("needs at least", code(rung["arch"])))
    if rung["gpu_only"]:
        rows.append(("in the emulator", "no: the GPU alone has what it is built on"))
    if not rung["deterministic"]:
        rows.append(("deterministic", "no: sums in an order that changes from run to run"))
    if rung["seeds"]:
        rows.append(("also called", ", ".join(map(code, rung["seeds"]))))
    counts = rung["profile"]
    if counts and counts["requests"]:
        sectors = f"{counts['sectors_a_request']:.1f}"
        ideal = f"{counts['ideal_sectors_a_request']:.1f} would do"
        rows.append(("sectors a request", f"{sectors}, {ideal}: {code(counts['problem'])}"))
    if counts and counts["ways"]:
        rows.append(("ways of bank conflicts", f"{counts['ways']:.2f}"))
    return table(("", ""), rows)


def sources_of(rung: Rung) -> list[str]:
    """The file that tells the rung, and the unit of a heavy one."""
    second = PurePosixPath(rung["file"]).with_suffix(".cu")
    files = [rung["file"]]
    if str(second) != rung["file"] and (ROOT / second).exists():
        files.append(str(second))
    return files


def rung_page(family: Family, rung: Rung, drawn: tuple[str, str] | None) -> str:
    """`drawn`: the rung's timeline, if it has one."""
    page = page_of_rung(family["name"], rung["name"])
    lesson = link(f"lesson of {family['name']}", page_of_lesson(family["name"]), page)
    parts = [
        f"# {rung['name']}\n",
        f"*{escaped(rung['idea'])}*. A rung of {code(rung['rung'].split('/')[0])}, from the "
        f"{lesson}.\n",
        header_items(rung["header"]) + "\n",
        rung_facts(rung, family, page),
        what_a_warp_asks(rung),
    ]
    if drawn:
        parts += [f"## {TIMELINE}\n", timeline_words(page), timeline_figure(drawn, rung["rung"])]
    if rung["from"]:
        before = rung["from"].split("/")[1]
        parts.append(f"## What changed from {before}\n")
        if rung["diff"]:
            parts.append(block(rung["diff"], "diff"))
        else:
            parts.append("Nothing but a parameter: both are in one file.\n")
    parts.append("## Source\n")
    for name in sources_of(rung):
        parts.append(f"{code(name)}\n\n" + block((ROOT / name).read_text(), "cuda"))
    parts.append(reading.further(reading.of_rung(family["name"], rung["name"]), page))
    return "\n".join(parts)
