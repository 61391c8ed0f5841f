#!/usr/bin/env python3
"""Keeps results/: a JSON file for each operation, and the tables made from them.

Usage:
    tools/results_table.py              write the tables into each family's README, and the index
    tools/results_table.py --check      fail where one of them is not what the JSON says
    tools/results_table.py --add FILE   file what `bench` wrote (several runs: several files); of an
                                        older run of a problem stays what has more rungs or peers

A file holds `runs` (revision, date, options) and `results`: one problem each, which says in which
run it was measured. A measurement is a line, with four significant digits.
"""

import argparse
import json
import math
import re
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results"

BEGIN, END = "<!-- results -->", "<!-- end of results -->"
MADE_BY = "<!-- Made by tools/results_table.py; write nothing between these marks. -->"

HEAD = """# Results

Figures that `warpsmith bench` wrote on the device that each folder names, a file for each
operation. The tables are in the lessons of the families; what was predicted and learnt is in their
journals, and for memory and hardware in general in [JOURNAL.md](JOURNAL.md).

How to read a table: for every problem, of the newest run that has it, the fastest rung, its median
time, its rate, its share of the ceiling (the faster of our copy kernel and `cudaMemcpyAsync` moving
the same bytes in the same run; for GEMM the data sheet's tensor rate), and how many times faster it
is than each peer in the same interleaved run. "cublasLt (3 of 8)" is a peer that has several ways
of computing a problem: all were timed before, and the third was the fastest and took part. "cudnn
(failed)" is a peer whose result was further from the reference than ours may be; a rung that failed
is in no table. "2.00 cub (of 94.5)" was measured in an older run, whose fastest rung took 94.5 us.
Every rung of every problem is in the JSON, with what was wrong of those that failed, and `warpsmith
compare` holds two files side by side. Rows of an operation's own list are measured again by their
text, or a part of it: `warpsmith bench gemm --problem "bf16 [4096, 4096] x"`; others by `--shape`.

A run is a burst, unless its row says "sustained" (`"mode"` in the JSON). In a burst each time is
that of one call, with the L2 flushed before it: the GPU copies or waits between calls, and its
clocks stay high. Sustained, contenders take turns at windows of a second of calls back to back,
each after a fifth of a second that is not counted, and a time is the median window's, a call:
power and clocks have settled. Nothing is flushed there; calls take sets of tensors in turns which
exceed the L2 at least four times (`rotated_bytes`; up to 256 sets: below 1 MB a call finds some of
its input in the L2), and a call that takes less time than its launch is timed by that.
"""

COLUMNS = """| problem | fastest rung | us | rate | of ceiling | of cudaMemcpy | x peer |
|---|---|---:|---:|---:|---:|---|"""

Group = dict[str, Any]


# ---- Files ---------------------------------------------------------------------------------------


def rounded(value: Any) -> Any:
    """Four significant digits of a measured number; whole numbers stay as they are."""
    if isinstance(value, float) and math.isfinite(value):
        short = value if value.is_integer() else float(f"{value:.4g}")
        return int(short) if short.is_integer() else short
    if isinstance(value, dict):
        return {key: rounded(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [rounded(entry) for entry in value]
    return value


def compact(data: dict[str, Any]) -> str:
    """A result file as text, with a line for each run and each measurement."""

    def line(value: Any) -> str:
        return json.dumps(rounded(value), separators=(",", ":"), ensure_ascii=False)

    head = [f" {line(key)}: {line(data[key])}," for key in data if key not in ("runs", "results")]
    runs = ",\n".join(f"  {line(run)}" for run in data["runs"])
    groups = []
    for group in data["results"]:
        measurements = ",\n".join(f"   {line(m)}" for m in group["measurements"])
        facts = {key: value for key, value in group.items() if key != "measurements"}
        groups.append(f'  {line(facts)[:-1]},"measurements":[\n{measurements}]}}')
    return "\n".join(
        ["{", *head, ' "runs": [', f"{runs}],", ' "results": [', ",\n".join(groups) + "]", "}\n"]
    )


def folder_of(device: str) -> str:
    """h200 of "NVIDIA H200", h100 of "NVIDIA H100 80GB HBM3"; else the last word."""
    model = re.search(r"\b[A-Z]+[0-9]+[A-Z]*\b", device)
    return (model.group() if model else device.split()[-1]).lower()


def add(paths: Sequence[Path]) -> None:
    """Files the results of `bench` by device, family and operation."""
    files: dict[Path, dict[str, Any]] = {}
    for path in paths:
        data = json.loads(path.read_text())
        folder = RESULTS / folder_of(data["device"]["name"])
        for group in data["results"]:
            target = folder / group["family"] / f"{group['operation']}.json"
            if target not in files:
                had = json.loads(target.read_text()) if target.exists() else {}
                files[target] = {"runs": [], "results": [], **had}
            filed = files[target]
            filed |= {key: data[key] for key in ("tool", "format", "device")}
            run = data["runs"][group["run"]]
            if run not in filed["runs"]:
                filed["runs"].append(run)
            put({**group, "run": filed["runs"].index(run)}, filed)
    for target, data in files.items():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(compact(with_runs_in_use(data)))
        print(f"wrote {target.relative_to(ROOT)}")


def put(group: Group, filed: dict[str, Any]) -> None:
    """Where its problem stands, the newest run first; instead of older ones that say no more."""

    def date(one: Group) -> str:
        return str(filed["runs"][one["run"]]["date"])

    def names(one: Group) -> set[str]:
        return {m["name"] for m in one["measurements"]}

    results = filed["results"]
    same = [one for one in results if label(one) == label(group)]
    at = results.index(same[0]) if same else len(results)
    kept = [one for one in same if date(one) > date(group) or not names(one) <= names(group)]
    here = sorted([group, *kept], key=date, reverse=True)
    after = [one for one in results[at:] if label(one) != label(group)]
    filed["results"] = [*results[:at], *here, *after]


def with_runs_in_use(data: dict[str, Any]) -> dict[str, Any]:
    """Without the runs whose last problem was replaced."""
    used = sorted({group["run"] for group in data["results"]})
    runs = [data["runs"][run] for run in used]
    results = [{**group, "run": used.index(group["run"])} for group in data["results"]]
    return {**data, "runs": runs, "results": results}


# ---- Tables --------------------------------------------------------------------------------------


def timed(group: Group, role: str) -> list[dict[str, Any]]:
    """What has a time, the fastest first; of rungs those alone whose result was right."""
    found = [
        m
        for m in group["measurements"]
        if m["role"] == role
        and m.get("runs", 0) > 0
        and (m["verdict"] == "passed" or role != "rung")
    ]
    return sorted(found, key=lambda m: m["median_us"])


def ratios(groups: Sequence[Group]) -> str:
    """To each peer, of the newest run that timed it; and of which time, if an older one."""
    found: dict[str, str] = {}
    for group in groups:
        best = timed(group, "rung")[0]
        for peer in timed(group, "peer"):
            ratio = f"{peer['median_us'] / best['median_us']:.2f} {peer['name']}"
            if group is not groups[0]:
                ratio += f" (of {microseconds(best['median_us'])})"
            if "variant" in peer:
                ratio += f" ({peer['variant']} of {peer['variants']})"
            if peer["verdict"] != "passed":
                ratio += " (failed)"
            found.setdefault(peer["name"], ratio)
    return ", ".join(found.values())


def told_run(newest_first: Sequence[Group]) -> Group:
    """The newest; or, if it timed slower rungs alone, the one with the fastest, where of each rung
    its newest time counts. Runs differ by 2 %."""
    newest: dict[str, tuple[float, Group]] = {}
    for group in newest_first:
        for m in timed(group, "rung"):
            newest.setdefault(m["name"], (m["median_us"], group))
    fastest, group = min(newest.values(), key=lambda one: one[0])
    here = timed(newest_first[0], "rung")[0]["median_us"]
    return newest_first[0] if here <= 1.02 * fastest else group


def label(group: Group) -> str:
    """The problem, and what was timed where that is no burst."""
    return group["problem"] + (", sustained" if group.get("mode") == "sustained" else "")


def microseconds(value: float) -> str:
    return f"{value:.0f}" if value >= 1000 else f"{value:.1f}"


def row(groups: Sequence[Group], changing: set[str]) -> str:
    """One problem, measured in one or several runs, of which the first one's times are told."""
    group = groups[0]
    best = timed(group, "rung")[0]
    rate = best["rate"]
    rate = f"{rate / 1e9:.0f} GB/s" if group["bound"] == "memory" else f"{rate / 1e12:.1f} TFLOP/s"
    memcpy = [m for m in timed(group, "copy") if m["name"] == "cudaMemcpyAsync"]
    of_memcpy = f"{100 * memcpy[0]['median_us'] / best['median_us']:.1f} %" if memcpy else ""
    rung = best["name"].split("/")[1]
    cells = [
        label(group) + (" (bytes at most)" if group.get("at_most") else ""),
        f"{rung} (not deterministic)" if rung in changing else rung,
        microseconds(best["median_us"]),
        rate,
        f"{100 * best['of_ceiling']:.1f} %",
        of_memcpy,
        ratios(groups),
    ]
    return "| " + " | ".join(cells) + " |"


def rows(data: dict[str, Any]) -> Iterator[str]:
    by_problem: dict[str, list[Group]] = {}
    changing = set()
    for group in data["results"]:
        if timed(group, "rung"):
            by_problem.setdefault(label(group), []).append(group)
        for m in group["measurements"]:
            if m.get("deterministic") is False:
                changing.add(m["name"].split("/")[1])
    for groups in by_problem.values():
        newest_first = sorted(groups, key=lambda g: data["runs"][g["run"]]["date"], reverse=True)
        told = told_run(newest_first)
        yield row([told, *(group for group in newest_first if group is not told)], changing)


def table(folder: Path) -> str:
    """All that one device measured of a family: results/h200/softmax."""
    files = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    runs = sorted({(run["date"][:10], run["revision"]) for data in files for run in data["runs"]})
    of_day: dict[str, list[str]] = {}
    for date, revision in runs:
        of_day.setdefault(date, []).append(revision)
    told = ", ".join(f"{date} ({', '.join(revisions)})" for date, revisions in of_day.items())
    first = textwrap.fill(f"{files[0]['device']['name']}, {told}:", 100)
    lines = [first, "", COLUMNS]
    return "\n".join([*lines, *(line for data in files for line in rows(data))])


def overhead(path: Path) -> str:
    data = json.loads(path.read_text())
    lines = [
        f"## Host time of a call: {path.relative_to(RESULTS).as_posix()}",
        "",
        f"An eager call from Python at {data['elements']} f32 elements; {data['device']}, torch "
        f"{data['torch']}.",
        "",
        "| call | warpsmith us | torch us | ratio |",
        "|---|---:|---:|---:|",
    ]
    for r in data["rows"]:
        numbers = f"{r['warpsmith_us']:.2f} | {r['torch_us']:.2f} | {r['ratio']:.2f}"
        lines.append(f"| {r['name']} | {numbers} |")
    return "\n".join(lines) + "\n"


def tokens(path: Path) -> str:
    data = json.loads(path.read_text())
    sizes = data["sizes"]
    lines = [
        f"## A model of transformers, patched: {path.relative_to(RESULTS).as_posix()}",
        "",
        textwrap.fill(
            f"{data['device']}, {data['date']} ({data['revision']}), torch {data['torch']}, "
            f"transformers {data['transformers']}, `python -m warpsmith.nn.benchmark`: a Llama of "
            f"{sizes['layers']} layers of {sizes['hidden']}, {data['dtype']}, {sizes['batch']} x "
            f"{sizes['tokens']} tokens, {'compiled' if data['compiled'] else 'eager'}.",
            100,
        ),
        "",
        "| tokens a second | before | after | ratio |",
        "|---|---:|---:|---:|",
    ]
    for r in data["rows"]:
        lines.append(f"| {r['name']} | {r['before']:.0f} | {r['after']:.0f} | {r['ratio']:.2f} |")
    return "\n".join(lines) + "\n"


def several_gpus(path: Path) -> str:
    data = json.loads(path.read_text())
    rows = data["seconds"]
    seen = "causal" if data["causal"] else "all keys seen"
    if data["window"] >= 0:
        seen += f", a window of {data['window']} keys before"
    lines = [
        f"## Attention over several GPUs: {path.relative_to(RESULTS).as_posix()}",
        "",
        textwrap.fill(
            f"{data['ranks']} x {data['device']}, {data['date']} ({data['revision']}), torch "
            f"{data['torch']}, `python -m warpsmith.distributed.benchmark`: {data['dtype']}, batch "
            f"{data['batch']}, {data['tokens']} tokens, {data['heads']} heads of queries and "
            f"{data['kv_heads']} of keys, of {data['head_dim']} columns, {seen}. The ideal is one "
            "GPU's time over the GPUs.",
            100,
        ),
        "",
        "| | forward ms | TFLOP/s a GPU | of ideal | backward ms | TFLOP/s a GPU | of ideal |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name, seconds in rows.items():
        gpus = 1 if name == "one GPU" else data["ranks"]
        cells = [name]
        for at, factor in enumerate((1, 2.5)):
            rate = data["forward_flops"] * factor / seconds[at] / gpus / 1e12
            ideal = rows["one GPU"][at] / gpus / seconds[at]
            cells += [f"{seconds[at] * 1e3:.1f}", f"{rate:.0f}", f"{100 * ideal:.1f} %"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def index() -> str:
    lines = [HEAD, "| family | tables | journal | JSON |", "|---|---|---|---|"]
    families = sorted({path.parent.name for path in RESULTS.glob("*/*/*.json")})
    for family in families:
        lesson = f"[lesson](../kernels/{family}/README.md#measured)"
        journal = ROOT / "kernels" / family / "JOURNAL.md"
        link = f"[journal](../kernels/{family}/JOURNAL.md)" if journal.exists() else ""
        folders = sorted({path.parent for path in RESULTS.glob(f"*/{family}/*.json")})
        files = ", ".join(
            f"[{folder.parent.name}/{family}]({folder.parent.name}/{family})" for folder in folders
        )
        lines.append(f"| {family} | {lesson} | {link} | {files} |")
    return "\n".join(lines) + "\n"


def with_tables(text: str, tables: str) -> str:
    """A README with its tables renewed, or appended where it has none yet."""
    block = f"{BEGIN}\n{MADE_BY}\n\n{tables}\n\n{END}"
    if BEGIN not in text:
        return f"{text.rstrip()}\n\n## Measured\n\n{block}\n"
    pattern = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    return pattern.sub(lambda _: block, text, count=1)


def pages() -> Iterator[tuple[Path, str]]:
    """Every file with tables in it, and what it should be."""
    parts = [index()]
    parts += [overhead(path) for path in sorted(RESULTS.glob("*/overhead.json"))]
    parts += [tokens(path) for path in sorted(RESULTS.glob("*/tokens_*.json"))]
    parts += [several_gpus(path) for path in sorted(RESULTS.glob("*/several_gpus_*.json"))]
    yield RESULTS / "README.md", "\n".join(parts)
    for family in sorted({path.parent.name for path in RESULTS.glob("*/*/*.json")}):
        lesson = ROOT / "kernels" / family / "README.md"
        tables = [table(folder) for folder in sorted(RESULTS.glob(f"*/{family}"))]
        yield lesson, with_tables(lesson.read_text(), "\n\n".join(tables))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing, fail where it differs")
    parser.add_argument("--add", nargs="+", type=Path, metavar="FILE", help="file bench's results")
    options = parser.parse_args()
    if options.add:
        add(options.add)
    stale = [path for path, text in pages() if path.read_text() != text]
    if options.check:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is not what the JSON says: run tools/results_table.py")
        return bool(stale)
    for path, text in pages():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
