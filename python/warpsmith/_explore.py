"""Ladders, profiles and results as objects: tables and pictures in a notebook, text in a terminal.

All of them hold a result file's JSON, and let the library draw it.
"""

import html
import json
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from warpsmith import _plots
from warpsmith._catalogue import list_rungs
from warpsmith._libraries import MODULES
from warpsmith._measure import _module, _options

Json = dict[str, Any]


class Figure:
    """A picture: shows itself in a notebook."""

    def __init__(self, svg: str) -> None:
        self.svg = svg

    def save(self, path: str | Path) -> None:
        """Writes it to an SVG file."""
        Path(path).write_text(self.svg + "\n")

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        title = html.unescape(self.svg.partition('aria-label="')[2].partition('"')[0])
        return f"<figure: {title}; .save('x.svg') keeps it>"


class _Table:
    """What has rows: text in a terminal, a table in a notebook."""

    @property
    def title(self) -> str:
        raise NotImplementedError

    @property
    def rows(self) -> list[dict[str, str]]:
        """What the table shows: texts by column."""
        raise NotImplementedError

    def __repr__(self) -> str:
        rows = self.rows
        columns = list(rows[0]) if rows else []
        widths = [max(len(c), *(len(row[c]) for row in rows)) for c in columns]
        # Texts to the left, figures to the right; the last column goes on in the next line.
        before = sum(width + 2 for width in widths[:-1])
        room = max(_COLUMNS - before, 20)
        lines = [self.title]
        for row in [dict(zip(columns, columns, strict=True)), *rows]:
            cells = [
                row[c].ljust(w) if c in _TEXTS else row[c].rjust(w)
                for c, w in zip(columns[:-1], widths, strict=False)
            ]
            last = row[columns[-1]]
            ends = textwrap.wrap(last, room) if columns[-1] in _TEXTS else [last.rjust(widths[-1])]
            for number, end in enumerate(ends or [""]):
                start = "".join(f"{cell}  " for cell in cells) if number == 0 else " " * before
                lines.append(f"{start}{end}".rstrip())
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = self.rows

        def cell(kind: str, column: str, text: str) -> str:
            side = "left" if column in _TEXTS else "right"
            return f'<{kind} style="text-align: {side}">{html.escape(text)}</{kind}>'

        head = "".join(cell("th", c, c) for c in (rows[0] if rows else []))
        body = "".join(
            f"<tr>{''.join(cell('td', c, text) for c, text in row.items())}</tr>" for row in rows
        )
        caption = f"<p><strong>{html.escape(self.title)}</strong></p>"
        return f"{caption}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


_COLUMNS = 100  # of a terminal
_TEXTS = {
    "rung",
    "verdict",
    "idea",
    "problem",
    "fastest rung",
    "line",
    "instruction",
    "source",
    "remarks",
    "takes",
    "why",
}
_IDEAS = {row["name"]: row["idea"] for row in list_rungs()}


def _bytes(entry: Json) -> float:
    counts = entry["counts"]
    return sum(counts[k] for k in ("global_load_bytes", "global_store_bytes", "async_bytes"))


def _counted_row(entry: Json) -> dict[str, str]:
    name = entry["rung"]
    row = {"rung": name.partition("/")[2], "verdict": entry["verdict"]}
    profile = entry.get("profile")
    if profile is None:
        blank = dict.fromkeys(("traffic", "sectors", "ideal", "ways", "barriers"), "")
        return row | blank | {"idea": entry.get("reason", "")}
    return row | {
        "traffic": f"{_bytes(entry) / max(entry['bytes'], 1):.2f}",
        "sectors": f"{profile['sectors_a_request']:.1f}",
        "ideal": f"{profile['ideal_sectors_a_request']:.1f}",
        "ways": f"{profile['ways']:.2f}" if profile["wavefronts"] else "",
        "barriers": str(entry["counts"]["barriers"]),
        "idea": _IDEAS.get(name, ""),
    }


def _measured_row(group: Json, entry: Json) -> dict[str, str]:
    name = entry["name"]
    row = {"rung": name.partition("/")[2] or name, "verdict": entry["verdict"]}
    if "median_us" not in entry:
        blank = dict.fromkeys(("us", "rate", "of ceiling", "x from", "x peer"), "")
        return row | blank | {"idea": entry.get("reason", "")}

    def ratio(key: str) -> str:
        return f"{entry[key]:.2f}" if key in entry else ""

    share = entry["of_ceiling"]
    return row | {
        "us": f"{entry['median_us']:.1f}",
        "rate": _rate(group, entry["rate"]),
        "of ceiling": "" if share is None else f"{100 * share:.1f} %",
        "x from": ratio("over_from"),
        "x peer": ratio("over_peer"),
        "idea": _IDEAS.get(name, ""),
    }


def _rate(group: Json, rate: float) -> str:
    memory = group["bound"] == "memory"
    return f"{rate * 1e-9:.0f} GB/s" if memory else f"{rate * 1e-12:.1f} TFLOP/s"


class Ladder(_Table):
    """All rungs of an operation on one problem: measured on a GPU, or counted in the emulator."""

    def __init__(self, data: Json) -> None:
        self.data = data  # a result file with one problem in it
        first = data["results"][0]
        self.counted = data["device"] == "emulator"
        self.problem: str = first["problem"]
        self.operation: str = first["rung" if self.counted else "operation"].partition("/")[0]

    @property
    def title(self) -> str:
        device = "in the emulator" if self.counted else f"on {self.data['device']['name']}"
        return f"{self.problem} {device}"

    @property
    def rungs(self) -> list[Json]:
        """Of each rung, peer and copy what was counted or measured, as the result file has it."""
        results = self.data["results"]
        return results if self.counted else results[0]["measurements"]

    @property
    def rows(self) -> list[dict[str, str]]:
        if self.counted:
            return [_counted_row(entry) for entry in self.rungs]
        return [_measured_row(self.data["results"][0], entry) for entry in self.rungs]

    def __getitem__(self, rung: str) -> Json:
        """Of one rung, such as "online", or of a peer."""
        key = "rung" if self.counted else "name"
        for entry in self.rungs:
            if entry[key] in (rung, f"{self.operation}/{rung}"):
                return entry
        names = ", ".join(entry[key].rpartition("/")[2] for entry in self.rungs)
        raise KeyError(f"no {rung!r} in {self.problem}; there are {names}")

    def plot(self, against: "Ladder | None" = None) -> Figure:
        """A bar for each rung; `against` marks another result of the problem on them."""
        other = None if against is None else against.data
        return Figure(_plots.ladder(self.data, against=other))

    def roofline(self) -> Figure:
        """The rungs below the roofs of the GPU; of counts, what they allow at most on an H200."""
        return Figure(_plots.roofline(self.data))

    def changes(self, since: "Ladder") -> Figure:
        """How many times faster each rung is than in an earlier ladder."""
        return Figure(_plots.plot("changes", self.data, against=since.data))

    def profile(self, rung: str) -> "Profile":
        """A rung line by line: of this ladder's counts, or on a small problem in the emulator."""
        entry = self[rung]
        if not self.counted:
            return profile(f"{self.operation}/{rung}")
        if "profile" not in entry:
            raise ValueError(f"{entry['rung']}: {entry['verdict']}: {entry.get('reason', '')}")
        return Profile({"device": "emulator", "results": [entry]})


class Profile(_Table):
    """What each line of a rung's source costs, as the emulator counts it."""

    def __init__(self, data: Json) -> None:
        self.data = data  # a result file with one rung in it
        entry = data["results"][0]
        self.rung: str = entry["rung"]
        self.problem: str = entry["problem"]
        if "profile" not in entry:
            raise ValueError(f"{self.rung}: {entry['verdict']}: {entry.get('reason', '')}")
        self.totals: Json = {k: v for k, v in entry["profile"].items() if k != "lines"}
        self.lines: list[Json] = entry["profile"]["lines"]  # the dearest first

    @property
    def title(self) -> str:
        return f"{self.rung}: {self.problem} in the emulator"

    @property
    def rows(self) -> list[dict[str, str]]:
        def ratio(line: Json, a: str, b: str) -> str:
            return f"{line[a] / line[b]:.1f}" if line.get(b) else ""

        return [
            {
                "cost": f"{100 * line['cost'] / max(self.totals['cost'], 1):.0f} %",
                "line": f"{Path(line['file']).name}:{line['line']}",
                "instruction": line["operation"],
                "sectors": ratio(line, "sectors", "requests"),
                "ideal": ratio(line, "ideal_sectors", "requests"),
                "ways": ratio(line, "wavefronts", "ideal_wavefronts"),
                "source": line.get("source", ""),
            }
            for line in self.lines
        ]

    def _repr_html_(self) -> str:
        options = {"results": self.data, "names": [self.rung]}
        source = _plots._module().source(json.dumps(options))
        return f"<p><strong>{html.escape(self.title)}</strong></p>{source}"

    def plot(self) -> Figure:
        """The dearest lines: their share of the cost, and what would do of it."""
        return Figure(_plots.plot("lines", self.data, self.rung))


class Results(_Table):
    """What result files of `bench` have: problems, and a ladder for each."""

    def __init__(self, data: Json) -> None:
        self.data = data

    @property
    def title(self) -> str:
        return f"{len(self.problems)} problems on {self.data['device']['name']}"

    @property
    def problems(self) -> list[str]:
        return list(dict.fromkeys(group["problem"] for group in self.data["results"]))

    @property
    def rows(self) -> list[dict[str, str]]:
        rows = []
        for problem in self.problems:
            group = self._group(problem)
            timed = [m for m in group["measurements"] if m["verdict"] == "passed" and "rate" in m]
            rungs = [m for m in timed if m["role"] == "rung"]
            if not rungs:
                continue
            best = _measured_row(group, min(rungs, key=lambda m: m["median_us"]))
            keys = ("us", "rate", "of ceiling", "x peer")
            told = {"problem": problem, "fastest rung": best["rung"]}
            rows.append(told | {key: best[key] for key in keys})
        return rows

    def _group(self, problem: str) -> Json:
        """The first whose text has `problem` in it."""
        for group in self.data["results"]:
            if problem in group["problem"]:
                return group
        raise KeyError(f"no problem with {problem!r}; the first is {self.problems[0]}")

    def ladder(self, problem: str = "") -> Ladder:
        """Of the first problem whose text has this in it, such as "bf16 [16384, 4096]"."""
        return Ladder({**self.data, "results": [self._group(problem)]})

    def roofline(self, *names: str, dtype: str | None = None, problem: str = "") -> Figure:
        """Every rung of the problems that are chosen, below the roofs of the GPU."""
        return Figure(_plots.roofline(self.data, *names, dtype=dtype, problem=problem))


def ladder(
    name: str,
    *,
    dtype: str | None = None,
    shape: Sequence[int] | None = None,
    attributes: dict[str, Any] | None = None,
    seed: int = 1,
    device: str | None = None,
) -> Ladder:
    """All rungs of an operation on one problem.

    Args:
        name: A family or an operation, such as "softmax".
        dtype: f16 where the operation takes it and nothing is said.
        shape: Extents, in the order of the operation's extent names; one that fits if None.
        attributes: Values of attributes.
        seed: Of the inputs.
        device: "cuda" measures, "cpu" counts in the emulator; None takes the GPU where there is
            one.

    Raises:
        ValueError: an unknown name, dtype, shape or attribute.
        RuntimeError: the GPU failed.
    """
    options = _run_options(name, dtype, shape, attributes, seed)
    return Ladder(json.loads(_module(device).ladder(options)))


def profile(
    rung: str,
    *,
    dtype: str | None = None,
    shape: Sequence[int] | None = None,
    attributes: dict[str, Any] | None = None,
    seed: int = 1,
) -> Profile:
    """A rung line by line, in the emulator: sectors, bank conflicts, what each line costs.

    Args:
        rung: Such as "softmax/online".
        dtype: See ladder(), as for the others.
        shape: See there.
        attributes: See there.
        seed: See there.

    Raises:
        ValueError: an unknown name, dtype, shape or attribute; a rung that is wrong.
    """
    options = _run_options(rung, dtype, shape, attributes, seed)
    return Profile(json.loads(_module("cpu").profile(options)))


def _run_options(
    name: str,
    dtype: str | None,
    shape: Sequence[int] | None,
    attributes: dict[str, Any] | None,
    seed: int,
) -> str:
    return _options(
        [name],
        dtypes=None if dtype is None else [dtype],
        shapes=None if shape is None else [shape],
        attributes=attributes,
        seed=seed,
        lines=True,
    )


def results(*paths: str | Path) -> Results:
    """What `warpsmith bench -o` wrote, of one device; several files as one.

    Raises:
        ValueError: a file that is none, or files of several devices.
    """
    if not paths:
        raise ValueError("no result file is named")
    files = []
    for path in paths:
        try:
            data = json.loads(Path(path).read_text())
        except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
            raise ValueError(f"cannot read {path}: {error}") from error
        _plots.ladder(data if isinstance(data, dict) else {})  # says what is wrong with it
        if data["device"] == "emulator":
            raise ValueError(f"{path} was counted in the emulator; results() are of `bench`")
        if files and data["device"]["name"] != files[0]["device"]["name"]:
            names = f"{files[0]['device']['name']} and {data['device']['name']}"
            raise ValueError(f"results of two devices, {names}: read them one by one")
        files.append(data)
    runs = [run for data in files for run in data["runs"]]
    groups = []
    first = 0
    for data in files:
        groups += [group | {"run": group["run"] + first} for group in data["results"]]
        first += len(data["runs"])
    return Results({**files[0], "runs": runs, "results": groups})


def report(
    path: str | Path,
    *names: str,
    results: _plots.Results | None = None,
    against: _plots.Results | None = None,
    with_counts: bool = True,
) -> None:
    """Writes an HTML file, as `warpsmith report` does.

    Args:
        path: The file.
        names: Families or operations; all of the results, or each family's first operation.
        results: Files of `bench`, or what is in one; None measures or counts now.
        against: Other results to compare with.
        with_counts: Whether sources have what the emulator counts of their lines.

    Raises:
        ValueError: an unknown name, or results that are none.
    """
    options: dict[str, Any] = {"names": names, "with_counts": with_counts}
    if results is not None:
        options["results"] = _plots.given(results)
    if against is not None:
        options["against"] = _plots.given(against)
    module = MODULES.get("emulated") if results is not None else _module(None)
    page = (module or _module(None)).page(json.dumps(options))
    Path(path).write_text(str(page))
