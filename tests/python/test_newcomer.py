"""The newcomer's path of docs/learn.md, from the built program on; tools/newcomer.py walks all."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(
    not (ROOT / "build" / "emulated" / "warpsmith").exists(),
    reason="`make build/emulated` has not built the program",
)
def test_the_first_kernel_is_mended() -> None:
    walk = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "newcomer.py"), "--built"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert walk.returncode == 0, walk.stdout + walk.stderr
    assert "learn check: solved" in walk.stdout
