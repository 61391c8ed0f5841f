"""What is asked of a device, not of an operation."""

import sys
import warnings
from pathlib import Path

import tvm_ffi

from warpsmith._libraries import MODULES, has_gpu


@tvm_ffi.register_error
class EmulatorWarning(UserWarning):
    """A call on large CPU arrays, which run in the emulator: right, and slow. Told once."""


@tvm_ffi.register_global_func("warpsmith.many_elements", override=True)
def _many_elements(operation: str, elements: int, most: int) -> None:
    warnings.warn(
        f"{operation}: a CPU array of {elements} elements runs in the emulator, which finds errors "
        "and is slow: on a GPU it would run there. Told once, of more than "
        f"{most} elements; warnings.simplefilter('ignore', warpsmith.EmulatorWarning) silences it",
        EmulatorWarning,
        stacklevel=_depth_of_caller(),
    )


def _depth_of_caller() -> int:
    """Which frame above the caller is the first that is neither this package's nor torch's."""
    ours = (str(Path(__file__).parent), "<warpsmith ")
    torch = sys.modules.get("torch")
    inside = ours if torch is None else (*ours, str(Path(torch.__file__).parent))
    frame = sys._getframe(1)
    depth = 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(inside):
        frame = frame.f_back
        depth += 1
    return depth


def check(device: str | int | None = None) -> None:
    """Waits for what is enqueued, and raises what a kernel has found wrong since the last check.

    A kernel that meets an index out of range writes nothing for it, notes the first such index, and
    goes on: the next call on the device raises it, or this.

    Args:
        device: "cpu", "cuda", "cuda:1" or a GPU's number; None stands for the CPU and the GPU that
            is current, or "cuda" for that GPU alone.

    Raises:
        ValueError: a kernel was given a bad value; the text has rung, array, position and limit.
        RuntimeError: the device failed.
    """
    if device is None:
        for variant in MODULES:
            if variant == "emulated" or has_gpu():
                check("cpu" if variant == "emulated" else "cuda")
        return
    name, number = ("cuda", device) if isinstance(device, int) else _parse(device)
    variant = {"cpu": "emulated", "cuda": "cuda"}[name]
    if variant not in MODULES:
        raise ValueError(f"the {variant} library is not built, so nothing runs on {device!r}")
    MODULES[variant].check(number)


def _parse(device: str) -> tuple[str, int]:
    name, _, number = str(device).partition(":")
    if name not in ("cpu", "cuda") or not (number == "" or number.isdecimal()):
        raise ValueError(f"device is 'cpu', 'cuda', 'cuda:1' or a number, not {device!r}")
    if name == "cuda" and number == "":
        import torch

        return name, torch.cuda.current_device()
    return name, int(number or 0)
