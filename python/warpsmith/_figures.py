"""Pictures of what the emulator counts and of what the device layer models, as SVG text.

Each function takes data as a program printed it (`warpsmith profile --json`, a file of `warpsmith
trace`, `book_models`) and returns one `<svg>`. Nothing is placed by hand: what a picture shows is
what the data says. Lines and letters have the colour of the text around them, and fills are
translucent, so that a picture reads on light and on dark pages alike.
"""

import html
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

SECTOR = 32  # bytes
LINE = 128  # bytes of four sectors, and of the 32 banks once
BANKS = 32
BANK = 4  # bytes

# Okabe and Ito's colours, which colour-blind readers tell apart.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a800", "#7f7f7f")
MOVED, ASKED, TWICE = "#7f7f7f", "#0072b2", "#d55e00"


class Drawing:
    """An SVG that grows by shapes; its size is given at the end."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._shapes: list[str] = []

    def box(
        self,
        at: tuple[float, float],
        size: tuple[float, float],
        fill: str = "none",
        *,
        opacity: float = 0.4,
        outline: float = 0.0,
        tip: str = "",
    ) -> None:
        """A rectangle; `outline` is the strength of its edge, `tip` what a pointer reads."""
        (x, y), (width, height) = at, size
        edge = f' stroke="currentColor" stroke-opacity="{outline:g}"' if outline else ""
        inside = f"<title>{html.escape(tip)}</title>" if tip else ""
        self._shapes.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" fill="{fill}" '
            f'fill-opacity="{opacity:g}"{edge}>{inside}</rect>'
        )

    def text(
        self, at: tuple[float, float], text: str, *, size: float = 11, anchor: str = "start"
    ) -> None:
        self._shapes.append(
            f'<text x="{at[0]:g}" y="{at[1]:g}" font-size="{size:g}" text-anchor="{anchor}" '
            f'fill="currentColor">{html.escape(text)}</text>'
        )

    def line(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        self._shapes.append(
            f'<line x1="{start[0]:g}" y1="{start[1]:g}" x2="{end[0]:g}" y2="{end[1]:g}" '
            'stroke="currentColor" stroke-opacity="0.4"/>'
        )

    def svg(self, width: float, height: float) -> str:
        title = html.escape(self._title)
        return (
            f'<svg class="warpsmith-figure" xmlns="http://www.w3.org/2000/svg" role="img" '
            f'aria-label="{title}" width="{width:g}" height="{height:g}" '
            f'viewBox="0 0 {width:g} {height:g}" font-family="ui-sans-serif, system-ui, '
            f'sans-serif"><title>{title}</title>{"".join(self._shapes)}</svg>'
        )


# ---- A warp's access -----------------------------------------------------------------------------


def _lanes(access: dict[str, Any]) -> list[tuple[int, int]]:
    """(lane, offset) of the lanes that take part."""
    return [(lane, at) for lane, at in enumerate(access["offsets"]) if at is not None]


def _rows(lines: Sequence[int]) -> Iterator[tuple[int, bool]]:
    """The lines touched, in order, and whether others lie between one and the one before."""
    for before, line in zip([None, *lines], lines, strict=False):
        yield line, before is not None and line != before + 1


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" + ("" if number == 1 else "s")


def access_title(access: dict[str, Any]) -> str:
    """What a warp's access comes to, in words."""
    lanes = _lanes(access)
    width = access["bytes"]
    if access["memory"] == "shared":
        most = max(map(len, crowds(access).values()), default=0)
        each = f"{_count(len(lanes), 'lane')}, {_count(width, 'byte')} each: "
        many = f"up to {most} words of one bank at once"
        return each + (many if most > 1 else "no bank is asked for two words at once")
    asked = len({at for _, at in lanes}) * width
    sectors = len({byte // SECTOR for _, at in lanes for byte in (at, at + width - 1)})
    return (
        f"{_count(len(lanes), 'lane')}, {_count(asked, 'byte')} asked for: "
        f"{_count(sectors, 'sector')} of {SECTOR}, {SECTOR * sectors} bytes move"
    )


def global_access(access: dict[str, Any]) -> str:
    """The lines of 128 bytes that a warp's request touches: a sector that moves is grey, the bytes
    that lanes ask for are blue."""
    lanes, width = _lanes(access), access["bytes"]
    left, byte_width, height = 62, 4.4, 11
    drawing = Drawing(access_title(access))
    lines = sorted({byte // LINE for _, at in lanes for byte in (at, at + width - 1)})
    sectors = {byte // SECTOR for _, at in lanes for byte in (at, at + width - 1)}
    y = 16.0
    for i in range(LINE // SECTOR):
        drawing.text((left + i * SECTOR * byte_width, 10), f"sector {i}", size=10)
    for line, gap in _rows(lines):
        y += 2 if gap else 0
        drawing.text((left - 6, y + 8), f"+{line * LINE}", size=9, anchor="end")
        for i in range(LINE // SECTOR):
            sector = line * (LINE // SECTOR) + i
            at = (left + i * SECTOR * byte_width, y)
            drawing.box(
                at,
                (SECTOR * byte_width - 2, height - 2),
                MOVED if sector in sectors else "none",
                opacity=0.25,
                outline=0.35,
            )
        by_place: dict[int, list[int]] = {}
        for lane, offset in lanes:
            if offset // LINE == line:
                by_place.setdefault(offset % LINE, []).append(lane)
        for place, those in sorted(by_place.items()):
            who = f"lane {those[0]}" if len(those) == 1 else f"lanes {those[0]} to {those[-1]}"
            at = (left + place * byte_width, y)
            size = (width * byte_width - 0.8, height - 2)
            drawing.box(at, size, ASKED, opacity=0.55, tip=f"{who}: {width} bytes")
            if width >= 4:
                name = f"{those[0]}" if len(those) == 1 else f"{those[0]}-{those[-1]}"
                middle = (at[0] + size[0] / 2, y + 7.6)
                if len(name) * 6 <= size[0] + 2:
                    drawing.text(middle, name, size=8, anchor="middle")
        y += height
    return drawing.svg(left + LINE * byte_width + 2, y + 4)


def crowds(access: dict[str, Any]) -> dict[int, set[int]]:
    """Of each bank the words of four bytes that lanes ask it for at once, where they ask most.

    Lanes of 8 bytes are served by half warps, of 16 by quarters."""
    width = access["bytes"]
    together = BANKS * BANK // max(width, BANK)  # lanes
    most: dict[int, set[int]] = {}
    by_part: dict[tuple[int, int], set[int]] = {}
    for lane, at in _lanes(access):
        for word in _words(at, width):
            by_part.setdefault((lane // together, word % BANKS), set()).add(word)
    for (_, bank), words in by_part.items():
        if len(words) > len(most.get(bank, ())):
            most[bank] = words
    return most


def _words(at: int, width: int) -> range:
    return range(at // BANK, (at + width - 1) // BANK + 1)


def shared_access(access: dict[str, Any]) -> str:
    """The words of shared memory that a warp asks for, by bank.

    Where lanes that are served together ask a bank for several words, which takes as many passes,
    its column is orange."""
    left, cell, height = 74, 19, 15
    drawing = Drawing(access_title(access))
    width = access["bytes"]
    holder: dict[int, list[int]] = {}
    for lane, at in _lanes(access):
        for word in _words(at, width):
            holder.setdefault(word, []).append(lane)
    drawing.text((left - 6, 11), "bank", size=10, anchor="end")
    for bank in range(BANKS):
        drawing.text((left + (bank + 0.5) * cell, 11), str(bank), size=9, anchor="middle")
    crowded = {bank for bank, words in crowds(access).items() if len(words) > 1}
    y = 17.0
    for row, gap in _rows(sorted({word // BANKS for word in holder})):
        y += 4 if gap else 0
        drawing.text((left - 6, y + 11), f"byte {row * LINE}", size=10, anchor="end")
        for bank in range(BANKS):
            those = holder.get(row * BANKS + bank, [])
            at = (left + bank * cell, y)
            fill = TWICE if bank in crowded else ASKED
            tip = f"bank {bank}: lanes {', '.join(map(str, those))}" if those else ""
            size = (cell - 2, height - 2)
            drawing.box(at, size, fill if those else "none", outline=0.25, opacity=0.55, tip=tip)
            if those:
                middle = (at[0] + size[0] / 2, y + 10)
                drawing.text(middle, str(those[0]), size=9, anchor="middle")
        y += height
    return drawing.svg(left + BANKS * cell + 2, y + 4)


def access(of: dict[str, Any]) -> str:
    """A line's `access` of `profile --json`, in the memory that it goes to."""
    return shared_access(of) if of["memory"] == "shared" else global_access(of)


# ---- Bank maps of the swizzles -------------------------------------------------------------------


def column_passes(swizzle: dict[str, Any]) -> int:
    """Passes over the banks to read one chunk of each of the eight rows, at the worst chunk."""
    columns = zip(*swizzle["place"], strict=True)
    return max(max(Counter(column).values()) for column in columns)


def swizzle_map(name: str, swizzle: dict[str, Any]) -> str:
    """Which chunk of which row of a tile lies in which banks. The first chunk of each row, which
    ldmatrix reads together, has an edge."""
    left, cell_width, cell_height = 74, 58, 20
    passes = column_passes(swizzle)
    times = "one pass" if passes == 1 else f"{passes} passes"
    drawing = Drawing(f"{name}: a column of chunks takes {times}")
    drawing.text((left - 6, 11), "banks", size=10, anchor="end")
    chunks = LINE // 16
    for place in range(chunks):
        middle = left + (place + 0.5) * cell_width
        drawing.text((middle, 11), f"{4 * place} to {4 * place + 3}", size=10, anchor="middle")
    last = 0
    for row, (lines, places) in enumerate(zip(swizzle["line"], swizzle["place"], strict=True)):
        for chunk, (line, place) in enumerate(zip(lines, places, strict=True)):
            at = (left + place * cell_width, 17 + line * cell_height)
            size = (cell_width - 3, cell_height - 3)
            first = chunk == 0
            colour = COLOURS[chunk % len(COLOURS)]
            strength = 0.9 if first else 0.15
            drawing.box(at, size, colour, opacity=0.6 if first else 0.22, outline=strength)
            text = f"row {row}, {chunk}"
            drawing.text((at[0] + size[0] / 2, at[1] + 12), text, size=10, anchor="middle")
            last = max(last, line)
    for line in range(last + 1):
        y = 17 + line * cell_height + 12
        drawing.text((left - 6, y), f"byte {line * LINE}", size=10, anchor="end")
    return drawing.svg(left + chunks * cell_width, 17 + (last + 1) * cell_height + 4)


# ---- Fragments of tensor cores -------------------------------------------------------------------


# What of a register an element is, by how many are in one.
PARTS = {1: ("",), 2: (", low half", ", high half"), 4: tuple(f", byte {i}" for i in range(4))}


def fragment(of: dict[str, Any]) -> str:
    """Who holds each element: the number is the lane's (of a warpgroup the thread's), the colour
    tells the register."""
    each = of["to_a_register"]
    left, top, cell_width, cell_height = 34, 18, 29, 17
    drawing = Drawing(of["name"])
    rows, columns = len(of["lane"]), len(of["lane"][0])
    for column in range(columns):
        middle = left + (column + 0.5) * cell_width
        drawing.text((middle, 12), str(column), size=9, anchor="middle")
    for row in range(rows):
        y = top + row * cell_height
        drawing.text((left - 6, y + 12), str(row), size=9, anchor="end")
        for column in range(columns):
            lane, place = of["lane"][row][column], of["place"][row][column]
            register, part = place // each, PARTS[each][place % each]
            at = (left + column * cell_width, y)
            size = (cell_width - 2, cell_height - 2)
            tip = f"({row}, {column}): thread {lane}, register {register}{part}"
            colour = COLOURS[register % len(COLOURS)]
            drawing.box(at, size, colour, opacity=0.4, outline=0.15, tip=tip)
            drawing.text((at[0] + size[0] / 2, y + 11), str(lane), size=10, anchor="middle")
    places = {place for row in of["place"] for place in row}
    registers = sorted({place // each for place in places})
    y = top + rows * cell_height + 6
    room = 64
    across = max(1, columns * cell_width // room)
    for i, register in enumerate(registers):
        at = (left + i % across * room, y + i // across * 18)
        drawing.box(at, (12, 12), COLOURS[register % len(COLOURS)], opacity=0.6)
        drawing.text((at[0] + 16, at[1] + 10), f"reg {register}", size=10)
    y += (len(registers) + across - 1) // across * 18
    return drawing.svg(left + columns * cell_width + 2, y + 2)


# ---- Timelines -----------------------------------------------------------------------------------

Event = dict[str, Any]

# What a span of a warp is, and its colour; the first that its name begins with.
SPANS = (
    ("runs", "runs", COLOURS[2]),
    ("passes", "passes without waiting", COLOURS[7]),
    ("mbarrier", "waits for an mbarrier", COLOURS[1]),
    ("wgmma", "waits for products", COLOURS[0]),
    ("cp.async", "waits for copies", COLOURS[4]),
    ("barrier", "waits at a barrier", COLOURS[5]),
    ("", "other waits", COLOURS[3]),
)


def _span_kind(name: str) -> tuple[str, str]:
    return next((text, colour) for prefix, text, colour in SPANS if name.startswith(prefix))


def _shown_block(events: Sequence[Event]) -> int:
    """The first that has copies in flight, where one has: a launch before may have none."""
    copying = (e["pid"] for e in events if e.get("cat") == "copy")
    return min(copying, default=min(e["pid"] for e in events))


def _track_names(events: Sequence[Event], block: int) -> dict[int, str]:
    return {
        e["tid"]: e["args"]["name"]
        for e in events
        if e["name"] == "thread_name" and e["pid"] == block
    }


def _of_one_kind(names: dict[int, str], events: Sequence[Event]) -> list[int]:
    """One warp of those that wait for the same things: what the others do looks alike."""
    seen: dict[frozenset[str], int] = {}
    for tid, name in sorted(names.items()):
        if name.startswith("warp "):
            waits = {e["name"] for e in events if e["tid"] == tid and e["ph"] == "X"}
            kinds = frozenset(w for w in waits if not w.startswith(("runs", "passes")))
            seen.setdefault(kinds, tid)
    return sorted(seen.values())


def timeline(trace: dict[str, Any], barriers: int = 4) -> str:
    """A trace's first block that copies: one warp of each kind, the first mbarriers with their
    phases, and the copies and products in flight. The clock is the emulator's order, not time."""
    block = _shown_block(trace["traceEvents"])
    events = [e for e in trace["traceEvents"] if e["pid"] == block and e["ph"] != "M"]
    names = _track_names(trace["traceEvents"], block)
    begin = min(e["ts"] for e in events)
    end = max(e["ts"] + e.get("dur", 0) for e in events)
    left, wide, height = 176, 556, 17
    about = trace["otherData"]
    drawing = Drawing(f"{about['rung']}, {about['problem']}: a block's order of events")

    def place(ts: float) -> float:
        return left + (ts - begin) * wide / max(end - begin, 1)

    y = 4.0

    def label(text: str) -> None:
        drawing.text((left - 8, y + 11), text, size=10, anchor="end")
        drawing.line((left, y + height - 2), (left + wide, y + height - 2))

    shown: set[str] = set()
    for tid in _of_one_kind(names, events):
        label(names[tid])
        for e in events:
            if e["tid"] != tid or e["ph"] != "X":
                continue
            text, colour = _span_kind(e["name"])
            shown.add(text)
            x = place(e["ts"])
            size = (max(place(e["ts"] + e["dur"]) - x, 0.6), height - 4)
            strength = 0.85 if text == "runs" else 0.55
            at_line = f", {e['args']['place']}" if "place" in e["args"] else ""
            drawing.box((x, y), size, colour, opacity=strength, tip=f"{e['name']}{at_line}")
        y += height
    y += 6
    # Of each kind of mbarrier, told by what completes its phases, the first few.
    kinds: Counter[str] = Counter()
    for tid, name in sorted(names.items()):
        if not name.startswith("mbarrier "):
            continue
        kind = name.partition(": ")[2]
        kinds[kind] += 1
        if kinds[kind] > barriers // 2:
            continue
        label(re.sub(r"mbarrier (\d+): ", r"\1: ", name))
        for e in events:
            if e["tid"] == tid and e["cat"] == "phase":
                x = place(e["ts"])
                width = max(place(e["ts"] + e["dur"]) - x - 1, 1)
                phase = e["name"].removeprefix("phase ")
                colour = COLOURS[int(phase) % 2]
                drawing.box((x, y), (width, height - 4), colour, tip=e["name"])
                if width > 8:
                    drawing.text((x + 3, y + 10), phase, size=9)
        y += height
    y += 6
    for category, text in (("copy", "copies in flight"), ("products", "products in flight")):
        changes = sorted(
            (e["ts"], 1 if e["ph"] == "b" else -1)
            for e in events
            if e["cat"] == category and e["ph"] in "be"
        )
        if not changes:
            continue
        count, most, since = 0, 0, begin
        steps: list[tuple[float, float, int]] = []
        for ts, change in changes:
            if count and ts > since:
                steps.append((since, ts, count))
            since, count = ts, count + change
            most = max(most, count)
        label(f"{text} (at most {most})")
        for start, stop, many in steps:
            tall = (height - 4) * many / most
            size = (place(stop) - place(start), tall)
            colour = COLOURS[4 if category == "copy" else 0]
            drawing.box((place(start), y + height - 4 - tall), size, colour, opacity=0.7)
        y += height
    y += 8
    x = float(left)
    for _, text, colour in SPANS:
        if text not in shown:
            continue
        room = 30 + 5.6 * len(text)
        if x + room > left + wide:
            x, y = float(left), y + 18
        drawing.box((x, y), (12, 12), colour, opacity=0.7)
        drawing.text((x + 16, y + 10), text, size=10)
        x += room
    return drawing.svg(left + wide + 4, y + 18)
