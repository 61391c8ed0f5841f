"""The tests that name no operation, on a catalogue that they have never seen: tests/trial.

It has all that a family may have, in a library of its own, so that it runs in another process.
WARPSMITH_TRIAL names its folder where it is not in the checkout's build/.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WALKING = ["tests/python/test_operations.py", "tests/python/test_torch.py"]
OWN = "tests/python/trial_contracts.py"


@pytest.mark.parametrize("variant", ["emulated", pytest.param("cuda", marks=pytest.mark.cuda)])
@pytest.mark.parametrize("tests", [*WALKING, OWN])
def test_trial(tests: str, variant: str) -> None:
    if "WARPSMITH_LIBRARY" in os.environ:
        pytest.skip("another library is under test")
    folder = Path(os.environ.get("WARPSMITH_TRIAL", ROOT / "build" / variant))
    library = folder / "libwarpsmith_trial.so"
    if not library.is_file():
        pytest.skip(f"{library} is not built")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", tests],
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"WARPSMITH_LIBRARY": str(library)},
    )
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-2000:]
