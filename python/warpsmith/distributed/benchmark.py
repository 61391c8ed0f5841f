"""What attention over several GPUs takes, beside what one GPU takes for all of it.

`torchrun --nproc-per-node 4 -m warpsmith.distributed.benchmark [--json FILE] [--heads 16] ...`:
one GPU attends to the whole sequence, forward and backward, and the ideal is that time over the
ranks. Then all ranks do: by a ring in zigzag and plain, by Ulysses, and by both together. They take
turns, of each rank's medians the largest counts. With --no-whole the ideal is not measured: of a
sequence that one GPU has no memory for.
"""

import argparse
import datetime
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import warpsmith
from warpsmith import distributed

_DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
_SIZES = {
    "batch": (1, "sequences"),
    "tokens": (131072, "tokens of a sequence, on all ranks together"),
    "heads": (16, "heads of queries"),
    "kv_heads": (16, "heads of keys and values"),
    "head_dim": (128, "columns of a head"),
    "window": (-1, "tokens before itself that one sees; -1: all"),
    "turns": (7, "of which the median counts"),
}


def _flops(sizes: dict[str, int], causal: bool) -> float:
    """Of a forward; a backward has 2.5 times as many."""
    tokens = sizes["tokens"]
    seen = tokens if sizes["window"] < 0 else min(sizes["window"] + 1, tokens)
    # Of a token; the first `seen` tokens see fewer.
    pairs = tokens * seen - seen * (seen - 1) / 2
    if not causal:
        pairs = tokens * tokens if sizes["window"] < 0 else pairs + (tokens - 1) * tokens / 2
    return 4.0 * sizes["batch"] * sizes["heads"] * sizes["head_dim"] * pairs


def _tensors(sizes: dict[str, int], tokens: int, dtype: torch.dtype, device: torch.device) -> Any:
    """q, k, v and the gradient of out; rows before heads in memory, as linear layers leave them."""
    heads = (sizes["heads"], sizes["kv_heads"], sizes["kv_heads"], sizes["heads"])
    made = [
        torch.randn(sizes["batch"], tokens, n, sizes["head_dim"], dtype=dtype, device=device)
        for n in heads
    ]
    return [x.transpose(1, 2).requires_grad_(i < 3) for i, x in enumerate(made)]


class _Clock:
    """Seconds of the current stream, or of the CPU."""

    def __init__(self, device: torch.device) -> None:
        self._on_gpu = device.type == "cuda"

    def seconds(self, call: Callable[[], Any]) -> tuple[float, Any]:
        if not self._on_gpu:
            start = time.perf_counter()
            result = call()
            return time.perf_counter() - start, result
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        result = call()
        last.record()
        last.synchronize()
        return first.elapsed_time(last) / 1000, result


def _turn(
    call: Callable[..., torch.Tensor], tensors: Any, clock: _Clock, together: bool
) -> tuple[float, float]:
    """Seconds of a forward and of its backward."""
    q, k, v, dout = tensors
    if together:
        dist.barrier()
    forward, out = clock.seconds(lambda: call(q, k, v))
    if together:
        dist.barrier()
    backward, _ = clock.seconds(lambda: torch.autograd.grad(out, (q, k, v), dout))
    return forward, backward


def _medians(turns: list[tuple[float, float]], device: torch.device, together: bool) -> list[float]:
    found = torch.tensor(
        [statistics.median(column) for column in zip(*turns, strict=True)],
        dtype=torch.float64,
        device=device,
    )
    if together:
        dist.all_reduce(found, dist.ReduceOp.MAX)
    return found.tolist()


def _contenders(ranks: int, kv_heads: int, options: dict[str, Any]) -> dict[str, Any]:
    """By row of the table: a call of q, k and v."""

    def of(function: Callable[..., Any], **more: Any) -> Callable[..., torch.Tensor]:
        return lambda *tensors: function(*tensors, **options, **more)

    found = {
        "ring, zigzag": of(distributed.ring_attention),
        "ring, plain": of(distributed.ring_attention, order="plain"),
    }
    if kv_heads % ranks == 0:
        found["ulysses"] = of(distributed.ulysses_attention)
    for degree in range(2, ranks):
        if ranks % degree == 0 and kv_heads % degree == 0:
            found[f"ulysses {degree} x ring {ranks // degree}"] = of(
                distributed.usp_attention, ulysses_degree=degree
            )
    return found


def measure(
    sizes: dict[str, int], dtype: str, causal: bool, whole: bool, device: torch.device
) -> dict[str, Any]:
    ranks = dist.get_world_size()
    clock = _Clock(device)
    options = {"causal": causal, "window_left": sizes["window"]}
    rows: dict[str, list[float]] = {}
    if whole:
        tensors = _tensors(sizes, sizes["tokens"], _DTYPES[dtype], device)
        alone = lambda q, k, v: warpsmith.attention(q, k, v, **options)[0]  # noqa: E731
        turns = [_turn(alone, tensors, clock, False) for _ in range(sizes["turns"] + 1)][1:]
        # Of each rank's own GPU: the slowest is what an even share would wait for.
        rows["one GPU"] = _medians(turns, device, True)
        del tensors
    contenders = _contenders(ranks, sizes["kv_heads"], options)
    tensors = _tensors(sizes, sizes["tokens"] // ranks, _DTYPES[dtype], device)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in contenders}
    for turn in range(sizes["turns"] + 1):
        for name, call in contenders.items():
            seconds = _turn(call, tensors, clock, True)
            if turn > 0:
                found[name].append(seconds)
    rows |= {name: _medians(turns, device, True) for name, turns in found.items()}
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU, emulator"
    variants = warpsmith.build_info()["variants"]
    return {
        "device": name,
        "ranks": ranks,
        "date": datetime.date.today().isoformat(),
        "revision": variants["cuda" if device.type == "cuda" else "emulated"]["revision"],
        "torch": torch.__version__,
        "dtype": dtype,
        "causal": causal,
        **sizes,
        "forward_flops": _flops(sizes, causal),
        "seconds": rows,
    }


def table(result: dict[str, Any]) -> str:
    rows = result["seconds"]
    whole = rows.get("one GPU")
    lines = [
        f"{result['ranks']} x {result['device']}, {result['dtype']}, batch {result['batch']}, "
        f"{result['tokens']} tokens, heads {result['heads']} / {result['kv_heads']} of "
        f"{result['head_dim']}, causal {result['causal']}, window {result['window']}",
        f"{'':24}  forward ms  TFLOP/s a GPU  of ideal  backward ms  TFLOP/s a GPU  of ideal",
    ]
    for name, seconds in rows.items():
        gpus = 1 if name == "one GPU" else result["ranks"]
        text = f"{name:24}"
        for at, (one, factor) in enumerate(zip(seconds, (1, 2.5), strict=True)):
            rate = result["forward_flops"] * factor / one / gpus / 1e12
            ideal = "" if whole is None else f"{whole[at] / gpus / one:.1%}"
            text += f"  {one * 1000:{10 + at}.3f}  {rate:13.1f}  {ideal:>8}"
        lines.append(text)
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="warpsmith.distributed.benchmark", description=__doc__)
    for name, (standard, text) in _SIZES.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=standard, help=text)
    parser.add_argument("--dtype", choices=_DTYPES, default="bf16")
    parser.add_argument("--full", action="store_true", help="attention that is not causal")
    parser.add_argument("--no-whole", action="store_true", help="without one GPU alone")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write what was measured")
    given = parser.parse_args()
    if given.device == "cuda" and not torch.cuda.is_available():
        parser.error("there is no GPU here; --device cpu runs the emulator")
    sizes = {name: getattr(given, name) for name in _SIZES}
    device = torch.device(given.device)
    if given.device == "cuda":
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if given.device == "cuda" else "gloo")
    try:
        result = measure(sizes, given.dtype, not given.full, not given.no_whole, device)
    finally:
        dist.destroy_process_group()
    if int(os.environ.get("RANK", "0")) == 0:
        print(table(result))
        if given.json is not None:
            given.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
