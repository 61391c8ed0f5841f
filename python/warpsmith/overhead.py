"""What a call from Python costs on the host, beside torch's own operation.

`python -m warpsmith.overhead [--json] [--elements 1000]`: microseconds of host time per eager call,
with and without out=, and with its gradient, on the GPU where there is one. Contenders take turns
(A B A B), the median of the turns is shown; the device is waited for between turns, never inside
one.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

import warpsmith


def _contenders(elements: int, device: str) -> dict[str, dict[str, Callable[[], Any]]]:
    """By row of the table: our call and torch's."""
    x = torch.randn(elements, device=device)
    y = torch.randn(elements, device=device)
    out = torch.empty_like(x)
    row = x.view(1, -1)
    row_out = torch.empty_like(row)
    square = torch.randn(32, 32, device=device)
    square_out = torch.empty_like(square)
    wanting = x.detach().clone().requires_grad_()
    left, right = (square.clone().requires_grad_() for _ in range(2))

    def gradient(function: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> Callable[[], Any]:
        """A call and its gradient."""
        return lambda: torch.autograd.grad(function(*inputs), inputs, inputs[0])

    return {
        "add": {
            "warpsmith": lambda: warpsmith.add(x, y),
            "torch": lambda: torch.add(x, y),
        },
        "add out=": {
            "warpsmith": lambda: warpsmith.add(x, y, out=out),
            "torch": lambda: torch.add(x, y, out=out),
        },
        "relu": {
            "warpsmith": lambda: warpsmith.relu(x),
            "torch": lambda: torch.relu(x),
        },
        "gelu": {
            "warpsmith": lambda: warpsmith.gelu(x, approximate="tanh"),
            "torch": lambda: torch.nn.functional.gelu(x, approximate="tanh"),
        },
        "softmax": {
            "warpsmith": lambda: warpsmith.softmax(row),
            "torch": lambda: torch.softmax(row, -1),
        },
        "softmax out=": {
            "warpsmith": lambda: warpsmith.softmax(row, out=row_out),
            "torch": lambda: torch.softmax(row, -1, out=row_out),
        },
        "gemm 32x32": {
            "warpsmith": lambda: warpsmith.gemm(square, square),
            "torch": lambda: torch.matmul(square, square),
        },
        "gemm 32x32 out=": {
            "warpsmith": lambda: warpsmith.gemm(square, square, out=square_out),
            "torch": lambda: torch.matmul(square, square, out=square_out),
        },
        "relu, gradient": {
            "warpsmith": gradient(warpsmith.relu, wanting),
            "torch": gradient(torch.relu, wanting),
        },
        "gemm 32x32, gradient": {
            "warpsmith": gradient(warpsmith.gemm, left, right),
            "torch": gradient(torch.matmul, left, right),
        },
    }


def _seconds(call: Callable[[], Any], calls: int, wait: Callable[[], None]) -> float:
    """Host seconds of a call, over so many in a row."""
    wait()
    start = time.perf_counter()
    for _ in range(calls):
        call()
    seconds = time.perf_counter() - start
    wait()
    return seconds / calls


def measure(
    elements: int = 1000, device: str | None = None, calls: int = 500, turns: int = 31
) -> dict[str, Any]:
    """Host time per call of our functions and torch's.

    Args:
        elements: f32 elements of each array.
        device: "cuda" or "cpu"; None takes the GPU where there is one.
        calls: Calls in a turn: fewer than the launches that a GPU queues, or they would wait.
        turns: Of each contender.

    Returns:
        "device", "elements" and "rows": name, "warpsmith_us", "torch_us" and "ratio" of each.
    """
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    wait = torch.cuda.synchronize if device == "cuda" else (lambda: None)
    rows = []
    for name, calls_of in _contenders(elements, device).items():
        times: dict[str, list[float]] = {who: [] for who in calls_of}
        for call in calls_of.values():
            _seconds(call, min(calls, 50), wait)  # warm-up: lazy loading, caches
        for _ in range(turns):
            for who, call in calls_of.items():
                times[who].append(_seconds(call, calls, wait))
        microseconds = {who: 1e6 * statistics.median(values) for who, values in times.items()}
        rows.append(
            {
                "name": name,
                "warpsmith_us": microseconds["warpsmith"],
                "torch_us": microseconds["torch"],
                "ratio": microseconds["warpsmith"] / microseconds["torch"],
            }
        )
    name = torch.cuda.get_device_name() if device == "cuda" else "CPU, emulated kernels"
    return {
        "device": name,
        "elements": elements,
        "torch": torch.__version__,
        "python": sys.version.split()[0],
        "rows": rows,
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m warpsmith.overhead", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    parser.add_argument("--elements", type=int, default=1000, help="f32 elements of each array")
    parser.add_argument("--device", choices=["cuda", "cpu"], help="default: the GPU, if any")
    parser.add_argument("--calls", type=int, default=500, help="calls in a turn")
    options = parser.parse_args()
    result = measure(options.elements, options.device, options.calls)
    if options.json:
        print(json.dumps(result, indent=2))
        return
    print(f"host time per call, {result['elements']} f32 elements, {result['device']}")
    print(f"{'call':<22}{'warpsmith us':>14}{'torch us':>12}{'ratio':>8}")
    for row in result["rows"]:
        print(
            f"{row['name']:<22}{row['warpsmith_us']:>14.2f}{row['torch_us']:>12.2f}"
            f"{row['ratio']:>8.2f}"
        )


if __name__ == "__main__":
    main()
