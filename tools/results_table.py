#!/usr/bin/env python3
"""Makes results/README.md from the JSON files of `bench` under results/.

Usage: tools/results_table.py [--check]; --check fails where the file is not what the JSON says.
"""

import json
import sys
from pathlib import Path

RESULTS = Path(__file__).resolve().parent.parent / "results"

HEAD = """# Results

Made by `tools/results_table.py` from the JSON files here, which `warpsmith bench` wrote on the
device that each names. For every problem: the fastest rung, its median time, its rate, its share of
the ceiling (the faster of our copy kernel and `cudaMemcpyAsync` moving the same bytes in the same
run; for GEMM the data sheet's tensor rate), and how many times faster it is than each peer in the
same interleaved run. Every rung of every problem is in the JSON.
"""


def timed(group: dict, role: str) -> list[dict]:
    found = [m for m in group["measurements"] if m["role"] == role and m.get("runs", 0) > 0]
    return sorted(found, key=lambda m: m["median_us"])


def row(group: dict) -> str:
    best = timed(group, "rung")[0]
    memory = group["bound"] == "memory"
    rate = f"{best['rate'] / 1e9:.0f} GB/s" if memory else f"{best['rate'] / 1e12:.1f} TFLOP/s"
    memcpy = [m for m in timed(group, "copy") if m["name"] == "cudaMemcpyAsync"]
    of_memcpy = f"{100 * memcpy[0]['median_us'] / best['median_us']:.1f} %" if memcpy else ""
    peers = ", ".join(
        f"{m['median_us'] / best['median_us']:.2f} {m['name']}" for m in timed(group, "peer")
    )
    cells = [
        group["problem"].replace(" bounded=true", ""),
        best["name"].split("/")[1],
        f"{best['median_us']:.1f}",
        rate,
        f"{100 * best['of_ceiling']:.1f} %",
        of_memcpy,
        peers,
    ]
    return "| " + " | ".join(cells) + " |"


def section(path: Path) -> str:
    data = json.loads(path.read_text())
    groups = [g for g in data["results"] if timed(g, "rung")]
    device = data["device"]["name"]
    lines = [
        f"## {path.relative_to(RESULTS).as_posix()}",
        "",
        f"{device}, {data['date'][:10]}, revision {data['revision']}.",
        "",
        "| problem | fastest rung | us | rate | of ceiling | of cudaMemcpy | x peer |",
        "|---|---|---:|---:|---:|---:|---|",
    ]
    return "\n".join([*lines, *map(row, groups)]) + "\n"


def overhead(path: Path) -> str:
    data = json.loads(path.read_text())
    lines = [
        f"## {path.relative_to(RESULTS).as_posix()}",
        "",
        f"Host time of an eager call from Python at {data['elements']} f32 elements; "
        f"{data['device']}, torch {data['torch']}.",
        "",
        "| call | warpsmith us | torch us | ratio |",
        "|---|---:|---:|---:|",
    ]
    for r in data["rows"]:
        numbers = f"{r['warpsmith_us']:.2f} | {r['torch_us']:.2f} | {r['ratio']:.2f}"
        lines.append(f"| {r['name']} | {numbers} |")
    return "\n".join(lines) + "\n"


def page() -> str:
    parts = [HEAD]
    for path in sorted(RESULTS.glob("*/*.json")):
        is_bench = "results" in json.loads(path.read_text())
        parts.append(section(path) if is_bench else overhead(path))
    return "\n".join(parts)


def main() -> int:
    target = RESULTS / "README.md"
    if "--check" in sys.argv[1:]:
        if target.read_text() != page():
            print(f"{target} is not what the JSON says: run tools/results_table.py")
            return 1
        return 0
    target.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
