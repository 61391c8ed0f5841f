"""What the site adds to the repository's lessons, and the first page, which is the README."""

import html
import re
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

import results_table

from book import reading
from book.markdown import code, folded, relative, toctree
from book.operations import plots, results_of
from book.pictures import dearest, worst_and_best
from book.places import (
    PICTURES,
    READING,
    Family,
    Rung,
    link,
    page_of_lesson,
    page_of_operation,
    page_of_rung,
)
from book.program import ROOT
from book.rungs import TIMELINE_ANCHOR, Timelines, access_figure

# ---- A lesson ------------------------------------------------------------------------------------


def lesson_opening(
    family: Family,
    told: dict[tuple[str, str], Rung],
    timelines: Timelines,
    page: PurePosixPath,
) -> str:
    """Below a lesson's first paragraph: the ladder as a picture, and where else to look."""
    measured = [o for o in family["operations"] if results_of(o, family)]
    links = (
        link(code(o["name"]), page_of_operation(o["name"]), page) for o in family["operations"]
    )
    parts = [f"Operations: {', '.join(links)}.\n"]
    if measured:
        parts.append(plots(measured[0], family, ("ladder", "roofline")))
    else:
        parts.append("Nothing of it was measured on a GPU yet: there is no ladder of rates.\n")
    pair = worst_and_best([told[family["name"], r["name"]] for r in family["rungs"]])
    parts += [access_figure(rung, dearest(rung)) for rung in pair]
    drawn = [name for of, name in timelines if of == family["name"]]
    if drawn:
        rungs = (
            link(code(name), page_of_rung(family["name"], name), page, TIMELINE_ANCHOR)
            for name in drawn
        )
        parts.append(f"What is in flight, as timelines: {', '.join(rungs)}.\n")
    return "\n".join(parts)


def lesson_page(
    text: str, family: Family, told: dict[tuple[str, str], Rung], timelines: Timelines
) -> str:
    """A lesson with links to the rungs that it names in tables, pictures, reading and tables that
    open when asked for. `text` is the site's Markdown of the lesson."""
    page = page_of_lesson(family["name"])
    for rung in family["rungs"]:
        name = rung["name"]
        target = relative(page_of_rung(family["name"], name), page)
        text = text.replace(f"\n| `{name}`", f"\n| [`{name}`]({target})")
    opening = lesson_opening(family, told, timelines, page)
    before, heading, after = text.partition("\n## ")
    text = f"{before}\n\n{opening}{heading}{after}"
    begin, end = results_table.BEGIN, results_table.END
    if begin in text:
        before, _, rest = text.partition(begin)
        measured, _, after = rest.partition(end)
        text = before + folded("All problems that were measured", measured) + after
    some = reading.further(reading.of_family(family["name"]), page)
    children = [f"rungs/{rung['name']}" for rung in family["rungs"]]
    if (ROOT / page.parent / "JOURNAL.md").exists():
        children.insert(0, "JOURNAL")
    return "\n".join([text, some, toctree(children)])


# ---- The first page ------------------------------------------------------------------------------


def cards(some: Iterable[tuple[str, PurePosixPath, str]]) -> str:
    items = "".join(
        f'<a href="{page.with_suffix(".html")}"><strong>{html.escape(title)}</strong>'
        f"<span>{html.escape(words)}</span></a>"
        for title, page, words in some
    )
    return f'```{{raw}} html\n<nav class="cards" aria-label="Chapters">{items}</nav>\n```\n'


def lesson_title(family: str) -> tuple[str, str]:
    """The first words of a lesson's heading, and the rest."""
    heading = (ROOT / page_of_lesson(family)).read_text().splitlines()[0].removeprefix("# ")
    short, _, rest = heading.partition(": ")
    return short, rest


def first_ladder(families: Sequence[Family]) -> Family:
    """The family whose ladder the README shows first."""
    name = re.search(r"warpsmith ladder (\w+)", (ROOT / "README.md").read_text())[1]
    return next(f for f in families if name in {o["name"] for o in f["operations"]})


def contents(parent: PurePosixPath, children: Sequence[PurePosixPath]) -> str:
    """What is below a page, for the site's list of chapters."""
    if not children:
        return ""
    return "\n" + toctree([relative(child.with_suffix(""), parent) for child in children])


def first_page(
    text: str,
    families: Sequence[Family],
    guides: Sequence[PurePosixPath],
    others: dict[str, list[PurePosixPath]],
) -> str:
    """The README with the first ladder and the chapters before its second part."""
    lessons = [(*lesson_title(f["name"]), f["name"]) for f in families]
    chapters = [(short, page_of_lesson(name), rest) for short, rest, name in lessons]
    chapters += [
        ("Pictures", PICTURES, "accesses of a warp, bank maps, fragments, timelines"),
        ("Operations", PurePosixPath("operations/index.md"), "formula, shapes, errors, results"),
        ("Reading", READING, "what others wrote, by topic, tied to the rungs"),
    ]
    shown = first_ladder(families)
    opening = plots(shown["operations"][0], shown, ("ladder",)) + "\n" + cards(chapters)
    before, heading, after = text.partition("\n## ")
    trees = [
        toctree([f"{short} <kernels/{name}/README>" for short, _, name in lessons], "Lessons"),
        toctree(
            [
                "operations/index",
                "Pictures <pictures>",
                "Results <results/README>",
                "Journal of memory and hardware <results/JOURNAL>",
            ],
            "Look up",
        ),
        toctree([str(guide.with_suffix("")) for guide in guides], "Guides"),
    ]
    trees += [
        toctree([str(page.with_suffix("")) for page in some], folder.capitalize())
        for folder, some in others.items()
    ]
    return "\n".join(
        ["---\nhide-toc: true\n---\n", f"{before}\n\n{opening}{heading}{after}", *trees]
    )
