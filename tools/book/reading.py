"""docs/reading.tsv: what others wrote, by topic, and which lessons and rungs it informs."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import PurePosixPath

from book.markdown import code, escaped
from book.places import READING, link, page_of_lesson, page_of_rung
from book.program import ROOT, catalogue

TABLE = ROOT / "docs" / "reading.tsv"


@dataclass(frozen=True)
class Entry:
    topic: str
    title: str
    gloss: str  # the title in English, or what kind of thing it is
    link: str
    purpose: str  # what it is for, in a line of our own
    ties: tuple[str, ...]  # families, rungs ("softmax/online") and guides ("docs/profile.md")
    origin: str  # the collection that lists it


@cache
def entries() -> tuple[Entry, ...]:
    with TABLE.open(newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return tuple(Entry(*row[:5], tuple(row[5].split(", ")), row[6]) for row in rows[1:])


def of_family(family: str) -> list[Entry]:
    """Those tied to a family or one of its rungs."""
    return [e for e in entries() if any(tie.split("/")[0] == family for tie in e.ties)]


def of_rung(family: str, rung: str) -> list[Entry]:
    return [e for e in entries() if f"{family}/{rung}" in e.ties]


def by_topic(some: Sequence[Entry]) -> dict[str, list[Entry]]:
    topics: dict[str, list[Entry]] = {}
    for entry in some:
        topics.setdefault(entry.topic, []).append(entry)
    return topics


# ---- On pages ------------------------------------------------------------------------------------


def tie_links(entry: Entry, page: PurePosixPath) -> str:
    """Where an entry belongs; a family that the catalogue has not yet is marked."""
    families = {f["name"] for f in catalogue()["families"]}
    links = []
    for tie in entry.ties:
        if tie.startswith("docs/"):
            links.append(link(PurePosixPath(tie).stem, PurePosixPath(tie), page))
        elif tie.split("/")[0] not in families:
            links.append(f"{tie} (to come)")
        elif "/" in tie:
            links.append(link(code(tie), page_of_rung(*tie.split("/")), page))
        else:
            links.append(link(tie, page_of_lesson(tie), page))
    return ", ".join(links)


def entry_item(entry: Entry, page: PurePosixPath, with_ties: bool) -> str:
    """An entry in a list; of a title that is not in English the gloss comes first."""
    ties = f" *For* {tie_links(entry, page)}." if with_ties else ""
    first, second = entry.title, entry.gloss
    if not entry.title.isascii():
        first, second = second, first
    return (
        f"- [{escaped(first)}]({entry.link}). *{escaped(second)}.* {escaped(entry.purpose)}.{ties}"
    )


def by_topics(page: PurePosixPath) -> str:
    """The whole list, by topic: what the site's page of reading goes on with."""
    parts = []
    for topic, some in by_topic(entries()).items():
        parts.append(f"\n## {topic}\n")
        parts += [entry_item(entry, page, with_ties=True) for entry in some]
    return "\n".join(parts) + "\n"


def further(some: Sequence[Entry], page: PurePosixPath) -> str:
    if not some:
        return ""
    items = "\n".join(entry_item(entry, page, with_ties=False) for entry in some)
    whole = link("all of it, by topic", READING, page)
    return f"## Further reading\n\nWhat others wrote; {whole}.\n\n{items}\n"
