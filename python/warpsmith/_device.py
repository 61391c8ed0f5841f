"""What is asked of a device, not of an operation."""

from warpsmith._libraries import MODULES


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
            if variant == "emulated" or _count() > 0:
                check("cpu" if variant == "emulated" else "cuda")
        return
    name, number = ("cuda", device) if isinstance(device, int) else _parse(device)
    variant = {"cpu": "emulated", "cuda": "cuda"}[name]
    if variant not in MODULES:
        raise ValueError(f"the {variant} library is not built, so nothing runs on {device!r}")
    MODULES[variant].check(number)


def _count() -> int:
    try:
        import torch
    except ImportError:
        return 1  # the C++ side says what it finds
    return torch.cuda.device_count()


def _parse(device: str) -> tuple[str, int]:
    name, _, number = str(device).partition(":")
    if name not in ("cpu", "cuda") or not (number == "" or number.isdecimal()):
        raise ValueError(f"device is 'cpu', 'cuda', 'cuda:1' or a number, not {device!r}")
    if name == "cuda" and number == "":
        import torch

        return name, torch.cuda.current_device()
    return name, int(number or 0)
