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
    many = f"up to {words} words of one bank at once" if words > 1 else "no bank is asked for two"
    assert _figures.access_title(access).startswith(f"32 lanes, 4 bytes each: {many}")


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


def drawn(svg: str) -> list[str]:
    """A picture's extents, and a line for each of its shapes: where it is, how, and its text."""
    keys = {
        "rect": ("x", "y", "width", "height", "fill", "fill-opacity", "stroke-opacity"),
        "text": ("x", "y", "font-size", "text-anchor"),
        "line": ("x1", "y1", "x2", "y2"),
    }
    root = ET.fromstring(svg)
    assert root.get("viewBox") == f"0 0 {root.get('width')} {root.get('height')}"
    found = [f"{root.get('width')} x {root.get('height')}"]
    for shape in root:
        kind = shape.tag.rpartition("}")[2]
        if kind != "title":
            places = [shape.get(key, "-") for key in keys[kind]]
            found.append(" ".join([kind, *places, *shape.itertext()]))
    return found


def lines_of(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines()]


def test_where_the_shapes_of_global_memory_are() -> None:
    access = {"memory": "global", "bytes": 4, "offsets": [0, 4, 4, 300] + [None] * 28}
    assert drawn(_figures.access(access)) == lines_of("""
        627.2 x 44
        text 62 10 10 start sector 0
        text 202.8 10 10 start sector 1
        text 343.6 10 10 start sector 2
        text 484.4 10 10 start sector 3
        text 56 24 9 end +0
        rect 62 16 138.8 9 #7f7f7f 0.25 0.35
        rect 202.8 16 138.8 9 none 0.25 0.35
        rect 343.6 16 138.8 9 none 0.25 0.35
        rect 484.4 16 138.8 9 none 0.25 0.35
        rect 62 16 16.8 9 #0072b2 0.55 - lane 0: 4 bytes
        text 70.4 23.6 8 middle 0
        rect 79.6 16 16.8 9 #0072b2 0.55 - lanes 1 to 2: 4 bytes
        text 88 23.6 8 middle 1-2
        text 56 37 9 end +256
        rect 62 29 138.8 9 none 0.25 0.35
        rect 202.8 29 138.8 9 #7f7f7f 0.25 0.35
        rect 343.6 29 138.8 9 none 0.25 0.35
        rect 484.4 29 138.8 9 none 0.25 0.35
        rect 255.6 29 16.8 9 #0072b2 0.55 - lane 3: 4 bytes
        text 264 36.6 8 middle 3
    """)
    # Where a lane's bytes are narrow, the pointer alone tells the lane; so do names too long.
    narrow = {"memory": "global", "bytes": 2, "offsets": [2] + [None] * 31}
    assert drawn(_figures.access(narrow))[-1] == "rect 70.8 16 8 9 #0072b2 0.55 - lane 0: 2 bytes"
    many = {"memory": "global", "bytes": 4, "offsets": [0] * 32}
    assert drawn(_figures.access(many))[-1].endswith("lanes 0 to 31: 4 bytes")
    # A lane's one byte is of its sector alone, as of its bank.
    one = {"memory": "global", "bytes": 1, "offsets": [32, 128] + [None] * 30}
    assert "2 bytes asked for: 2 sectors of 32, 64 bytes move" in _figures.access_title(one)
    assert [x for x, *_ in boxes(_figures.access(one), fill=_figures.MOVED)] == [202.8, 62]
    assert _figures.crowds(one) == {8: {8}, 0: {32}}
    # Bytes of a lane on both sides of a boundary are of both its sectors, and lines.
    across = {"memory": "global", "bytes": 8, "offsets": [124] + [None] * 31}
    assert "2 sectors of 32, 64 bytes move" in _figures.access_title(across)
    found = texts(_figures.access(across))
    assert [text for text in found if text.startswith("+")] == ["+0", "+128"]


def test_where_the_shapes_of_shared_memory_are() -> None:
    access = {"memory": "shared", "bytes": 8, "offsets": [0, 384] + [None] * 30}
    found = drawn(_figures.access(access))
    assert found[:3] == ["684 x 55", "text 68 11 10 end bank", "text 83.5 11 9 middle 0"]
    assert found[33] == "text 672.5 11 9 middle 31"
    assert [shape for shape in found[34:] if " none " not in shape] == lines_of("""
        text 68 28 10 end byte 0
        rect 74 17 17 13 #d55e00 0.55 0.25 bank 0: lanes 0
        text 82.5 27 9 middle 0
        rect 93 17 17 13 #d55e00 0.55 0.25 bank 1: lanes 0
        text 101.5 27 9 middle 0
        text 68 47 10 end byte 384
        rect 74 36 17 13 #d55e00 0.55 0.25 bank 0: lanes 1
        text 82.5 46 9 middle 1
        rect 93 36 17 13 #d55e00 0.55 0.25 bank 1: lanes 1
        text 101.5 46 9 middle 1
    """)
    assert found[-1] == "rect 663 36 17 13 none 0.55 0.25"


def test_where_the_shapes_of_a_map_of_banks_are() -> None:
    swizzle = {"line": [[0, 0], [1, 1]], "place": [[0, 1], [1, 0]]}
    found = drawn(_figures.swizzle_map("a few", swizzle))
    assert found[:3] == ["538 x 61", "text 68 11 10 end banks", "text 103 11 10 middle 0 to 3"]
    assert found[9:] == lines_of("""
        text 509 11 10 middle 28 to 31
        rect 74 17 55 17 #0072b2 0.6 0.9
        text 101.5 29 10 middle row 0, 0
        rect 132 17 55 17 #e69f00 0.22 0.15
        text 159.5 29 10 middle row 0, 1
        rect 132 37 55 17 #0072b2 0.6 0.9
        text 159.5 49 10 middle row 1, 0
        rect 74 37 55 17 #e69f00 0.22 0.15
        text 101.5 49 10 middle row 1, 1
        text 68 29 10 end byte 0
        text 68 49 10 end byte 128
    """)


def test_where_the_shapes_of_a_fragment_are() -> None:
    lanes, places = [[0, 1, 2, 3, 4], [4, 5, 6, 7, 8]], [[0, 1, 2, 3, 4], [2, 1, 0, 5, 4]]
    fragment = {"name": "f", "to_a_register": 2, "lane": lanes, "place": places}
    found = drawn(_figures.fragment(fragment))
    assert found[:2] == ["181 x 96", "text 48.5 12 9 middle 0"]
    assert [shape for shape in found if shape.startswith("rect 63 ")] == lines_of("""
        rect 63 18 27 15 #0072b2 0.4 0.15 (0, 1): thread 1, register 0, high half
        rect 63 35 27 15 #0072b2 0.4 0.15 (1, 1): thread 5, register 0, high half
    """)
    assert "rect 150 18 27 15 #009e73 0.4 0.15 (0, 4): thread 4, register 2, low half" in found
    assert [shape for shape in found if " end " in shape] == [
        "text 28 30 9 end 0",
        "text 28 47 9 end 1",
    ]
    assert found[-7:] == lines_of("""
        text 163.5 46 10 middle 8
        rect 34 58 12 12 #0072b2 0.6 -
        text 50 68 10 start reg 0
        rect 98 58 12 12 #e69f00 0.6 -
        text 114 68 10 start reg 1
        rect 34 76 12 12 #009e73 0.6 -
        text 50 86 10 start reg 2
    """)


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
    assert drawn(svg) == lines_of("""
        736 x 93
        text 168 15 10 end warp 0
        line 176 19 732 19
        rect 176 4 111.2 13 #009e73 0.85 - runs
        rect 287.2 4 444.8 13 #0072b2 0.55 - wgmma, k.cuh:7
        text 168 38 10 end 3: full
        line 176 42 732 42
        rect 176 27 277 13 #0072b2 0.4 - phase 0
        text 179 37 9 start 0
        rect 454 27 277 13 #e69f00 0.4 - phase 1
        text 457 37 9 start 1
        text 168 61 10 end copies in flight (at most 2)
        line 176 65 732 65
        rect 176 56.5 55.6 6.5 #56b4e9 0.7 -
        rect 231.6 50 222.4 13 #56b4e9 0.7 -
        rect 454 56.5 278 6.5 #56b4e9 0.7 -
        rect 176 75 12 12 #009e73 0.7 -
        text 192 85 10 start runs
        rect 228.4 75 12 12 #0072b2 0.7 -
        text 244.4 85 10 start waits for products
    """)


def test_a_timeline_of_narrow_phases_many_barriers_products_and_all_spans() -> None:
    def event(phase: str, tid: int, name: str, ts: int, **more: object) -> dict[str, object]:
        found = {"pid": 1, "ph": phase, "tid": tid, "name": name, "ts": ts, "cat": "wait"}
        return found | {"args": {}} | more

    names = {
        1: "warp 0",
        **{9 + i: f"mbarrier {i}: full" for i in range(3)},
        12: "mbarrier 3: empty",
    }
    waits = [prefix or "named" for prefix, _, _ in _figures.SPANS]
    events = [
        *(event("M", tid, "thread_name", 0, args={"name": name}) for tid, name in names.items()),
        *(event("X", 1, name, 100 * i, dur=100) for i, name in enumerate(waits)),
        event("X", 9, "phase 0", 0, dur=10, cat="phase"),
        event("X", 9, "phase 1", 100, dur=1, cat="phase"),
        event("b", 0, "products", 0, cat="products"),
        event("e", 0, "products", 350, cat="products"),
        event("b", 0, "products", 350, cat="products"),
        event("e", 0, "products", 700, cat="products"),
    ]
    about = {"rung": "gemm/tile", "problem": "f16 [8]"}
    found = drawn(_figures.timeline({"traceEvents": events, "otherData": about}))
    assert found == lines_of("""
        736 x 145
        text 168 15 10 end warp 0
        line 176 19 732 19
        rect 176 4 79.4286 13 #009e73 0.85 - runs
        rect 255.429 4 79.4286 13 #7f7f7f 0.55 - passes
        rect 334.857 4 79.4286 13 #e69f00 0.55 - mbarrier
        rect 414.286 4 79.4286 13 #0072b2 0.55 - wgmma
        rect 493.714 4 79.4286 13 #56b4e9 0.55 - cp.async
        rect 573.143 4 79.4286 13 #d55e00 0.55 - barrier
        rect 652.571 4 79.4286 13 #cc79a7 0.55 - named
        text 168 38 10 end 0: full
        line 176 42 732 42
        rect 176 27 6.94286 13 #0072b2 0.4 - phase 0
        rect 255.429 27 1 13 #e69f00 0.4 - phase 1
        text 168 55 10 end 1: full
        line 176 59 732 59
        text 168 72 10 end 3: empty
        line 176 76 732 76
        text 168 95 10 end products in flight (at most 1)
        line 176 99 732 99
        rect 176 84 278 13 #0072b2 0.7 -
        rect 454 84 278 13 #0072b2 0.7 -
        rect 176 109 12 12 #009e73 0.7 -
        text 192 119 10 start runs
        rect 228.4 109 12 12 #7f7f7f 0.7 -
        text 244.4 119 10 start passes without waiting
        rect 381.6 109 12 12 #e69f00 0.7 -
        text 397.6 119 10 start waits for an mbarrier
        rect 529.2 109 12 12 #0072b2 0.7 -
        text 545.2 119 10 start waits for products
        rect 176 127 12 12 #56b4e9 0.7 -
        text 192 137 10 start waits for copies
        rect 295.6 127 12 12 #d55e00 0.7 -
        text 311.6 137 10 start waits at a barrier
        rect 426.4 127 12 12 #cc79a7 0.7 -
        text 442.4 137 10 start other waits
    """)


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
