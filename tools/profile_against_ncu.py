"""What the emulator's profile counts beside what ncu counts on a GPU.

    profile_against_ncu.py collect LIST FOLDER      FOLDER/1.csv ... of ncu, for the lines of LIST,
                                                    as JSON: results/h200/profile.json
    profile_against_ncu.py table [profile.json]     the table of docs/profile.md, in Markdown

A line of LIST is LAUNCHES RUNG DTYPE SHAPE [--set NAME=VALUE ...]; its CSV came from

    ncu --clock-control none --csv --print-units base --metrics ... -c LAUNCHES \\
        build/cuda/warpsmith verify RUNG --dtype DTYPE --shape SHAPE ...

`table` runs `build/emulated/warpsmith profile` on the same problems.
"""

import csv
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results" / "h200" / "profile.json"
NEAR = 0.02

REQUESTS = "l1tex__t_requests_pipe_lsu_mem_global_op_"
SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_"
WAVEFRONTS = "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_"
CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_"
# Ours: ncu's, summed. Its global loads count cp.async too, its shared loads and stores matrices.
METRICS = {
    "requests": [REQUESTS + op for op in ("ld", "st", "red", "atom")],
    "sectors": [SECTORS + op for op in ("ld", "st", "red", "atom")],
    "tma_sectors": [
        "l1tex__m_xbar2l1tex_read_sectors_mem_global_op_tma_ld",
        "l1tex__m_l1tex2xbar_write_sectors_mem_global_op_tma_st",
    ],
    "wavefronts": [WAVEFRONTS + op for op in ("ld", "st", "ldgsts", "ldsm", "stsm")],
    "conflicts": [CONFLICTS + op for op in ("ld", "st", "ldgsts")],
    "dram_read": ["dram__sectors_read"],
}
KEPT = [name for names in METRICS.values() for name in names]
SHOWN = {
    "requests": "requests",
    "sectors": "sectors",
    "tma_sectors": "TMA sectors",
    "wavefronts": "wavefronts",
    "conflicts": "conflicts",
}


def collect(list_file: Path, folder: Path) -> dict:
    runs = []
    for number, line in enumerate(list_file.read_text().split("\n"), 1):
        if not line.strip():
            continue
        launches, rung, dtype, shape, *more = line.split()
        rows = [row for row in (folder / f"{number}.csv").open() if row.startswith('"')]
        sums: Counter[str] = Counter()
        kernels = {}
        for row in csv.DictReader(rows):
            sums[row["Metric Name"].removesuffix(".sum")] += int(
                float(row["Metric Value"].replace(",", ""))
            )
            blocks = row["Grid Size"].strip("()").split(",")[0]
            kernels[row["ID"]] = int(blocks)
        runs.append(
            {
                "rung": rung,
                "dtype": dtype,
                "shape": shape,
                "more": more,
                "blocks": list(kernels.values()),
                "ncu": {name: sums[name] for name in KEPT if sums[name]},
            }
        )
        assert len(kernels) == int(launches), (rung, kernels)
    return {"device": "NVIDIA H200", "ncu": "2025.3.1", "runs": runs}


def profile_of(run: dict) -> dict:
    program = ROOT / "build" / "emulated" / "warpsmith"
    command = [program, "profile", run["rung"], "--dtype", run["dtype"], "--shape", run["shape"]]
    environment = dict(os.environ, WARPSMITH_MULTIPROCESSORS="132")
    text = subprocess.run(
        [*command, *run["more"], "--json"], check=True, capture_output=True, env=environment
    ).stdout
    return json.loads(text)


def ours(profile: dict) -> Counter[str]:
    sums: Counter[str] = Counter()
    for line in profile["lines"]:
        copies = "cp.async.bulk" in line["operation"]
        if copies:
            sums["tma_sectors"] += line.get("sectors", 0)
        else:
            sums["requests"] += line.get("requests", 0)
            sums["sectors"] += line.get("sectors", 0)
        # wgmma's and the other blocks' memory are not the load and store unit's.
        if line["operation"] != "wgmma" and "cluster" not in line["operation"]:
            sums["wavefronts"] += line.get("wavefronts", 0)
            sums["conflicts"] += line.get("wavefronts", 0) - line.get("ideal_wavefronts", 0)
    return sums


def table(results: dict) -> str:
    rows = ["| rung | problem | " + " | ".join(SHOWN.values()) + " |"]
    rows.append("|---|---|" + "--:|" * len(SHOWN))
    good = 0
    for run in results["runs"]:
        profile = profile_of(run)
        mine = ours(profile)
        cells = []
        near = True
        for what in SHOWN:
            count = sum(run["ncu"].get(name, 0) for name in METRICS[what])
            if count == 0 and mine[what] == 0:
                cells.append("")
                continue
            off = (mine[what] - count) / max(count, 1)
            near = near and abs(off) <= NEAR
            text = f"{mine[what]}" if mine[what] == count else f"{mine[what]} / {count}"
            cells.append(text if abs(off) <= NEAR else f"**{text}**")
        good += near
        problem = " ".join([run["dtype"], run["shape"], *run["more"][1:]])
        rows.append(f"| {run['rung']} | {problem} | " + " | ".join(cells) + " |")
    print(f"{good} of {len(results['runs'])} within {NEAR:.0%}", file=sys.stderr)
    return "\n".join(rows)


def main() -> None:
    match sys.argv[1:]:
        case ["collect", list_file, folder]:
            results = collect(Path(list_file), Path(folder))
            runs = ",\n".join(json.dumps(run) for run in results.pop("runs"))
            print(json.dumps(results)[:-1] + ', "runs": [\n' + runs + "\n]}")
        case ["table", *files]:
            path = Path(files[0]) if files else RESULTS
            print(table(json.loads(path.read_text())))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
