"""What the book is made of: the reading list, the repository's Markdown as the site's, pictures."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path, PurePosixPath

import pytest
import warpsmith
from book import reading
from book.markdown import DeadLinkError, escaped, for_site, table
from warpsmith import _figures
from warpsmith._libraries import CATALOGUE

ROOT = Path(__file__).resolve().parents[2]

RUNGS = {f["name"]: {r["name"] for r in f["rungs"]} for f in CATALOGUE["families"]}


def families_of_seeds() -> set[str]:
    """Families of the public collections' kernels: there, or to come."""
    lines = (ROOT / "catalogue" / "seed-kernels.tsv").read_text().splitlines()[1:]
    return {line.split("\t")[0].split("/")[0] for line in lines}


# ---- Reading -------------------------------------------------------------------------------------


def test_the_reading_list_is_whole() -> None:
    entries = reading.entries()
    assert len(entries) == 304, "the collections list so many links"
    links = [entry.link for entry in entries]
    assert len(set(links)) == len(links)
    assert all(re.match(r"https?://\S+$", link) for link in links)


def test_entries_have_all_fields() -> None:
    for entry in reading.entries():
        for name in ("topic", "title", "gloss", "link", "purpose", "origin"):
            text = getattr(entry, name)
            assert text and text == text.strip(), f"{entry.link}: {name}"
        assert entry.gloss.isascii(), f"{entry.link}: the gloss is in English"
        assert entry.purpose.isascii() and len(entry.purpose) <= 120, f"{entry.link}: a line"
        assert entry.title not in ("link", "paper", "docs", "code"), f"{entry.link}: no title"


def test_entries_are_tied_to_what_there_is_or_will_be() -> None:
    for entry in reading.entries():
        assert entry.ties and len(set(entry.ties)) == len(entry.ties), entry.link
        for tie in entry.ties:
            if tie.startswith("docs/"):
                assert (ROOT / tie).is_file(), f"{entry.link}: {tie}"
                continue
            family, _, rung = tie.partition("/")
            assert family in RUNGS or family in families_of_seeds(), f"{entry.link}: {tie}"
            assert not rung or rung in RUNGS[family], f"{entry.link}: {tie}"


def test_entries_of_a_topic_stand_together() -> None:
    topics = [entry.topic for entry in reading.entries()]
    changes = [t for before, t in zip([None, *topics], topics, strict=False) if t != before]
    assert len(changes) == len(set(changes))


@pytest.mark.parametrize("family", [f for f in RUNGS if reading.of_family(f)])
def test_lessons_link_back(family: str) -> None:
    lesson = (ROOT / "kernels" / family / "README.md").read_text()
    assert "(../../docs/reading.md)" in lesson, "the lesson links to the reading list"


# ---- Markdown ------------------------------------------------------------------------------------

HERE = PurePosixPath("kernels/softmax/README.md")


def site_text(text: str, page: PurePosixPath = HERE) -> str:
    known = {
        PurePosixPath("kernels/softmax/03_online.cuh"): "kernels/softmax/rungs/online.md",
        PurePosixPath("README.md"): "index.md",
        PurePosixPath("docs/profile.md"): "docs/profile.md",
    }

    def resolve(path: PurePosixPath, anchor: str) -> tuple[PurePosixPath, str] | None:
        return (PurePosixPath(known[path]), anchor) if path in known else None

    return for_site(text, HERE, page, resolve)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[a](03_online.cuh)", "[a](rungs/online.md)"),
        ("[a](../../README.md#two-commands)", "[a](../../index.md#two-commands)"),
        ("[a](https://example.com/x.md), [b](#here)", None),
        ("`[a](nowhere.md)`", None),
        ("```\n[a](nowhere.md)\n% kept\n```", None),
        ("share\n% of copy", "share\n\\% of copy"),
        ('```sh run sub="a=b"\nls\n```', "```sh\nls\n```"),
        ('```text output="warpsmith list"\nx\n```\nand [a](03_online.cuh)',
         "```text\nx\n```\nand [a](rungs/online.md)"),
    ],
)  # fmt: skip
def test_markdown_becomes_the_sites(text: str, expected: str | None) -> None:
    assert site_text(text) == (text if expected is None else expected)


def test_links_follow_a_page_that_moves() -> None:
    moved = site_text("[a](../../docs/profile.md)", PurePosixPath("index.md"))
    assert moved == "[a](docs/profile.md)"


def test_a_link_to_nothing_is_an_error() -> None:
    with pytest.raises(DeadLinkError, match=r"README\.md links to gone\.md, which is nothing"):
        site_text("[a](gone.md)")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a_b [c]", r"a\_b \[c\]"),
        ("as `a_b` says", "as `a_b` says"),
        ("one ` alone", r"one \` alone"),
    ],
)  # fmt: skip
def test_texts_stay_themselves_in_markdown(text: str, expected: str) -> None:
    assert escaped(text) == expected


def test_tables_keep_bars_inside_cells() -> None:
    assert table(("a",), [("|x|",)]).splitlines()[-1] == r"| \|x\| |"
    assert table(("a",), [(escaped("|x|"),)]).splitlines()[-1] == r"| \|x\| |"


# ---- Pictures ------------------------------------------------------------------------------------


def shapes(svg: str) -> list[str]:
    """The tips of a picture's shapes, where they have some; it is well-formed XML."""
    namespace = "{http://www.w3.org/2000/svg}"
    root = ET.fromstring(svg)
    assert root.get("role") == "img" and root.get("aria-label")
    return [
        t.text or "" for r in root.iter(f"{namespace}rect") for t in r.iter(f"{namespace}title")
    ]


def lanes_at(stride: int, width: int = 4, memory: str = "global") -> dict[str, object]:
    return {"memory": memory, "bytes": width, "offsets": [stride * lane for lane in range(32)]}


@pytest.mark.parametrize(("stride", "sectors"), [(4, 4), (8, 8), (1024, 32), (0, 1)])
def test_a_warps_access_in_global_memory(stride: int, sectors: int) -> None:
    title = _figures.access_title(lanes_at(stride))
    assert f" {sectors} sector{'s' * (sectors > 1)} of 32, {32 * sectors} bytes move" in title
    tips = shapes(_figures.access(lanes_at(stride)))
    assert len(tips) == (32 if stride else 1), "a shape for each place that lanes ask for"


@pytest.mark.parametrize(("stride", "words"), [(4, 1), (8, 2), (128, 32), (132, 1), (0, 1)])
def test_a_warps_access_in_shared_memory(stride: int, words: int) -> None:
    access = lanes_at(stride, memory="shared")
    assert max(map(len, _figures.crowds(access).values())) == words
    assert len(shapes(_figures.access(access))) == (32 if stride else 1)


@pytest.mark.parametrize(("stride", "width", "words"), [(8, 8, 1), (16, 16, 1), (128, 16, 8)])
def test_wide_accesses_of_shared_memory_are_served_in_parts(
    stride: int, width: int, words: int
) -> None:
    access = lanes_at(stride, width, "shared")
    assert max(map(len, _figures.crowds(access).values())) == words
    assert (f"up to {words} words" in _figures.access_title(access)) == (words > 1)


def test_lanes_that_take_no_part_are_not_drawn() -> None:
    access = {"memory": "global", "bytes": 4, "offsets": [0, None, 8] + [None] * 29}
    assert _figures.access_title(access).startswith("2 lanes, 8 bytes asked for: 1 sector of")
    assert shapes(_figures.access(access)) == ["lane 0: 4 bytes", "lane 2: 4 bytes"]


def test_pictures_are_the_same_every_time() -> None:
    assert _figures.access(lanes_at(1024)) == _figures.access(lanes_at(1024))


def test_pictures_are_not_part_of_the_packages_face() -> None:
    assert "figures" not in dir(warpsmith)
