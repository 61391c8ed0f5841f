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


@pytest.mark.parametrize("family", RUNGS)
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


def test_a_cell_of_several_lines_is_refused() -> None:
    with pytest.raises(ValueError, match="several lines: `a\nb`"):
        table(("a",), [("`a\nb`",)])


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


def boxes(svg: str, **attributes: str) -> list[tuple[float, ...]]:
    """x, y, width and height of a picture's boxes that have these attributes."""
    return [
        tuple(float(box.get(name, "")) for name in ("x", "y", "width", "height"))
        for box in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}rect")
        if all(box.get(name.replace("_", "-")) == value for name, value in attributes.items())
    ]


def texts(svg: str) -> list[str]:
    return [text.text or "" for text in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_rows_of_banks_with_others_between_stand_apart() -> None:
    access = {"memory": "shared", "bytes": 4, "offsets": [0, 128, 512] + [None] * 29}
    svg = _figures.access(access)
    assert sorted({y for _, y, _, _ in boxes(svg)}) == [17, 32, 51]
    assert [text for text in texts(svg) if text.startswith("byte")] == [
        "byte 0",
        "byte 128",
        "byte 512",
    ]
    assert shapes(svg) == ["bank 0: lanes 0", "bank 0: lanes 1", "bank 0: lanes 2"]
    assert len(boxes(svg, fill=_figures.TWICE)) == 3
    assert not boxes(svg, fill=_figures.ASKED)


def test_a_map_of_banks_marks_the_first_chunk_of_each_row() -> None:
    swizzle = {"line": [[0, 0], [0, 0], [1, 1]], "place": [[0, 1], [3, 2], [0, 1]]}
    svg = _figures.swizzle_map("a few", swizzle)
    assert 'aria-label="a few: a column of chunks takes 2 passes"' in svg
    assert boxes(svg, stroke_opacity="0.9") == [
        (74, 17, 55, 17),
        (74 + 3 * 58, 17, 55, 17),
        (74, 37, 55, 17),
    ]
    assert len(boxes(svg)) == 6
    found = texts(svg)
    assert found[:3] == ["banks", "0 to 3", "4 to 7"]
    assert found[8:10] == ["28 to 31", "row 0, 0"]
    assert found[-2:] == ["byte 0", "byte 128"]
    of_one = {"line": [[0], [0]], "place": [[0], [1]]}
    assert "takes one pass" in _figures.swizzle_map("one", of_one)


@pytest.mark.parametrize(
    ("each", "registers", "rows_of_legend"),
    [
        (1, ("0", "1", "2", "3"), 4),
        (2, ("0, low half", "0, high half", "1, low half", "1, high half"), 2),
        (4, tuple(f"0, byte {i}" for i in range(4)), 1),
    ],
)
def test_a_fragment_tells_registers_and_their_parts(
    each: int, registers: tuple[str, ...], rows_of_legend: int
) -> None:
    fragment = {"name": "f", "to_a_register": each, "lane": [[0, 4]] * 2, "place": [[0, 1], [2, 3]]}
    svg = _figures.fragment(fragment)
    there = [(row, column) for row in range(2) for column in range(2)]
    assert shapes(svg) == [
        f"({row}, {column}): thread {4 * column}, register {register}"
        for (row, column), register in zip(there, registers, strict=True)
    ]
    legend = [f"reg {i}" for i in range(rows_of_legend)]
    assert texts(svg)[-rows_of_legend:] == legend
    # The legend goes on in the next line where a fragment is narrow.
    assert len({y for _, y, width, _ in boxes(svg) if width == 12}) == rows_of_legend


def test_a_timeline_has_a_row_for_what_waits_and_what_is_in_flight() -> None:
    def named(pid: int, tid: int, name: str) -> dict[str, object]:
        return {"ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": {"name": name}}

    def event(phase: str, tid: int, name: str, ts: int, **more: object) -> dict[str, object]:
        found = {"pid": 1, "ph": phase, "tid": tid, "name": name, "ts": ts, "cat": "wait"}
        return found | {"args": {}} | more

    events = [
        named(1, 1, "warp 0"),
        named(1, 2, "warp 1"),  # waits for what the one before waits for: not shown
        named(1, 9, "mbarrier 3: full"),
        named(2, 1, "warp of another block"),
        *(event("X", tid, "runs", 10, dur=20) for tid in (1, 2)),
        *(event("X", tid, "wgmma", 30, dur=80, args={"place": "k.cuh:7"}) for tid in (1, 2)),
        event("X", 9, "phase 0", 10, dur=50, cat="phase"),
        event("X", 9, "phase 1", 60, dur=50, cat="phase"),
        *(event("b", 0, "copy", ts, cat="copy") for ts in (10, 20)),
        *(event("e", 0, "copy", ts, cat="copy") for ts in (60, 110)),
    ]
    about = {"rung": "gemm/tile", "problem": "f16 [8]"}
    svg = _figures.timeline({"traceEvents": events, "otherData": about})
    assert texts(svg) == [
        "warp 0", "3: full", "0", "1", "copies in flight (at most 2)", "runs", "waits for products",
    ]  # fmt: skip
    assert shapes(svg) == ["runs", "wgmma, k.cuh:7", "phase 0", "phase 1"]
    wide = 556
    runs, waits, *phases = boxes(svg)[:4]
    assert runs == (176, 4, pytest.approx(wide / 5, abs=0.1), 13)
    assert waits[0] == pytest.approx(176 + wide / 5, abs=0.1)
    assert [round(width) for _, _, width, _ in phases] == [wide // 2 - 1] * 2
    copies = boxes(svg, fill=_figures.COLOURS[4], fill_opacity="0.7")
    assert [tall for _, _, _, tall in copies] == [6.5, 13, 6.5]
    assert [round(x) for x, _, _, _ in copies] == [176, 176 + 56, 176 + wide // 2]


def test_a_timeline_is_of_the_first_block_that_copies() -> None:
    def runs(pid: int, name: str) -> list[dict[str, object]]:
        named = {"ph": "M", "pid": pid, "tid": 1, "name": "thread_name", "args": {"name": name}}
        event = {"ph": "X", "pid": pid, "tid": 1, "name": "runs", "ts": 0, "dur": 9, "cat": "wait"}
        return [named, {**event, "args": {}}]

    copy = {"pid": 2, "tid": 0, "name": "copy", "cat": "copy"}
    events = [
        *runs(1, "warp 7"),
        *runs(2, "warp 8"),
        {**copy, "ph": "b", "ts": 1},
        {**copy, "ph": "e", "ts": 5},
    ]
    about = {"rung": "gemm/tile", "problem": "f16 [8]"}
    svg = _figures.timeline({"traceEvents": events, "otherData": about})
    assert texts(svg) == ["warp 8", "copies in flight (at most 1)", "runs"]


def test_pictures_are_the_same_every_time() -> None:
    assert _figures.access(lanes_at(1024)) == _figures.access(lanes_at(1024))


def test_pictures_are_not_part_of_the_packages_face() -> None:
    assert "figures" not in dir(warpsmith)
