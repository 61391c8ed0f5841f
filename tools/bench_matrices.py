#!/usr/bin/env python3
"""Times spmv on matrices that scipy and networkx make, beside torch's product (cuSPARSE).

Usage: tools/bench_matrices.py [NAME...] [--rung RUNG] [--dtype f32] [--rows N] [--json]

`warpsmith bench spmv_csr` times patterns of its own; here are those that people have: meshes,
bands, graphs. The contenders take turns, a call between two events each, the L2 filled with
something else before; a time is the median. Products are compared with scipy's in double precision;
exits 1 where one is wrong. Without a GPU the emulator multiplies, and nothing is timed.
"""

import argparse
import json
import statistics
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import scipy.sparse as sp
import torch

try:
    import warpsmith
except ModuleNotFoundError:  # from a checkout: build/cuda and build/emulated
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))
    import warpsmith
from warpsmith._libraries import has_gpu

FLUSH_BYTES = 512 << 20  # several times the L2; read in the time that the host takes for a call
LEAST_ROWS = 32  # a block of blocks_32, and the band of band_27
DTYPES = {"f32": (torch.float32, 1e-5), "f64": (torch.float64, 1e-13)}  # and allowed relative error


def mesh(dimensions: int, points: int) -> sp.csr_array:
    """The Laplacian of a grid of about so many points: each minus its neighbours."""
    side = round(points ** (1 / dimensions))
    line = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(side, side))
    matrix = line
    for _ in range(dimensions - 1):
        matrix = sp.kron(matrix, sp.eye_array(side)) + sp.kron(sp.eye_array(matrix.shape[0]), line)
    return sp.csr_array(matrix)


def band(rows: int) -> sp.csr_array:
    reach = range(-13, 14)
    return sp.csr_array(
        sp.diags_array([1.0 + abs(k) for k in reach], offsets=list(reach), shape=(rows, rows))
    )


def random(lengths: np.ndarray) -> sp.csr_array:
    """Rows so long, entries anywhere."""
    generator = np.random.default_rng(1)
    starts = np.concatenate(([0], np.cumsum(lengths)))
    columns = generator.integers(len(lengths), size=starts[-1])
    values = generator.standard_normal(starts[-1])
    return sp.csr_array((values, columns, starts), shape=(len(lengths), len(lengths)))


def power_law(rows: int) -> sp.csr_array:
    """Row lengths fall with their rank to the power 0.8; 16 is the mean."""
    shares = np.arange(1, rows + 1) ** -0.8
    lengths = np.minimum(np.rint(16 * rows * shares / shares.sum()), rows).astype(np.int64)
    return random(np.random.default_rng(2).permutation(lengths))


def graph(made: networkx.Graph) -> sp.csr_array:
    return sp.csr_array(networkx.to_scipy_sparse_array(made, dtype=np.float64, format="csr"))


MATRICES: dict[str, Callable[[int], sp.csr_array]] = {
    "mesh_2d": lambda rows: mesh(2, rows),
    "mesh_3d": lambda rows: mesh(3, rows),
    "band_27": band,
    "random_16": lambda rows: random(np.full(rows, 16)),
    "power_law": power_law,
    # Half of the rows: networkx takes a minute and some gigabytes for more.
    "barabasi_albert": lambda rows: graph(networkx.barabasi_albert_graph(rows // 2, 8, seed=1)),
    "star": lambda rows: graph(networkx.star_graph(rows - 1)),
    "blocks_32": lambda rows: sp.csr_array(sp.kron(sp.eye_array(rows // 32), np.ones((32, 32)))),
}


def median_times(calls: Sequence[Callable[[], Any]], runs: int) -> list[float]:
    """Of each call, in us, in turns on the GPU, the L2 flushed before each."""
    flush = torch.zeros(FLUSH_BYTES // 4, device="cuda")
    times: list[list[float]] = [[] for _ in calls]
    for run in range(-3, runs):  # three that are not counted
        for call, mine in zip(calls, times, strict=True):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            flush.sum()
            begin.record()
            call()
            end.record()
            end.synchronize()
            if run >= 0:
                mine.append(1e3 * begin.elapsed_time(end))
    return [statistics.median(mine) for mine in times]


def measure(
    name: str, a: sp.csr_array, dtype: str, rungs: Sequence[str | None], runs: int, device: str
) -> dict[str, Any]:
    """A matrix' entry in the JSON; a contender's `median_us` is None without a GPU."""
    of_torch, allowed = DTYPES[dtype]
    host = np.random.default_rng(3).standard_normal(a.shape[1])
    crow, col = (torch.from_numpy(part).to(device, torch.int32) for part in (a.indptr, a.indices))
    values, x = (torch.from_numpy(part).to(device, of_torch) for part in (a.data, host))
    with warnings.catch_warnings():  # torch's: that sparse tensors are in beta
        warnings.simplefilter("ignore", UserWarning)
        theirs = torch.sparse_csr_tensor(crow, col, values, a.shape)

    def ours(rung: str | None) -> Callable[[], torch.Tensor]:
        return lambda: warpsmith.spmv_csr(values, crow, col, x, rung=rung)

    contenders = {rung or "best": ours(rung) for rung in rungs} | {"torch": lambda: theirs @ x}
    want = a.astype(np.float64) @ x.double().cpu().numpy()
    scale = np.linalg.norm(want) or 1.0
    errors = [
        float(np.linalg.norm(call().double().cpu().numpy() - want) / scale)
        for call in contenders.values()
    ]
    times: list[float | None] = [None] * len(contenders)
    if device == "cuda":
        times = list(median_times(list(contenders.values()), runs))
    lengths = np.diff(a.indptr)
    size, index = values.element_size(), crow.element_size()
    return {
        "matrix": name,
        "shape": list(a.shape),
        "entries": int(a.nnz),
        "longest_row": int(lengths.max(initial=0)),
        "dtype": dtype,
        "bytes": a.nnz * (size + index) + len(crow) * index + sum(a.shape) * size,
        "measurements": [
            {
                "name": contender,
                "median_us": time,
                "over_torch": times[-1] / time if time and times[-1] else None,
                "relative_error": error,
                "verdict": "passed" if error <= allowed else "failed",
            }
            for contender, time, error in zip(contenders, times, errors, strict=True)
        ],
    }


def print_table(result: dict[str, Any]) -> None:
    rows, columns = result["shape"]
    print(
        f"{result['matrix']}: {result['dtype']}, {rows} x {columns}, {result['entries']} entries, "
        f"the longest row has {result['longest_row']}"
    )
    for m in result["measurements"]:
        time = m["median_us"]
        told = "    not timed"
        if time is not None:
            rate = result["bytes"] / time / 1e3
            told = f"{time:10.2f} us {rate:8.1f} GB/s {m['over_torch']:6.2f}x torch"
        wrong = f"  failed: error {m['relative_error']:.1e}" if m["verdict"] == "failed" else ""
        print(f"  {m['name']:<16} {told}{wrong}", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(MATRICES))
    parser.add_argument("--rung", action="append", default=[], help="beside the best; repeatable")
    parser.add_argument("--dtype", choices=DTYPES, default="f32")
    parser.add_argument("--rows", type=int, default=1 << 20, help="about so many")
    parser.add_argument("--runs", type=int, default=51)
    parser.add_argument("--json", action="store_true", help="instead of tables")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in MATRICES]
    if unknown:
        parser.error(f"matrices are {', '.join(MATRICES)}, not {', '.join(unknown)}")
    if options.rows < LEAST_ROWS:
        parser.error(f"a matrix has {LEAST_ROWS} rows or more, not {options.rows}")
    device = "cuda" if has_gpu() else "cpu"
    results = []
    for name in options.names or MATRICES:
        matrix = MATRICES[name](options.rows)
        try:
            result = measure(
                name, matrix, options.dtype, [None, *options.rung], options.runs, device
            )
        except ValueError as error:  # a rung that is none, or takes no such matrix
            parser.error(str(error))
        results.append(result)
        if not options.json:
            print_table(result)
    if options.json:
        told = {
            "device": torch.cuda.get_device_name() if device == "cuda" else "emulator",
            "flush": f"reads {FLUSH_BYTES >> 20} MB before each run",
            "packages": {p: version(p) for p in ("torch", "scipy", "networkx")},
            "results": results,
        }
        print(json.dumps(told, indent=1))
    failed = any(m["verdict"] == "failed" for r in results for m in r["measurements"])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
