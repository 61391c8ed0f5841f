"""Attention over several ranks: processes of a gloo group on the emulator, of NCCL's on GPUs.

What they check of one another is in distributed_checks.py; here they are started, with a limit on
their time. And how the work is cut, which needs no processes.
"""

import itertools
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from warpsmith.distributed._layout import Mesh, join, schedule, split

CHECKS = Path(__file__).with_name("distributed_checks.py")
SECONDS = 240  # a time limit; two busy cores take some 40
GROUPS = (
    "2:parts,ring,windows,ulysses,usp,modes,refused,faults",
    "4:parts,ring,windows,ulysses,usp,modes,refused",
    "3:ring,death",
)


def check(device: str, folder: Path, groups: list[str]) -> None:
    """Starts the groups, one after the other, and waits for all their ranks."""
    run = subprocess.run(
        [sys.executable, str(CHECKS), device, str(folder), *groups],
        check=False,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-2000:]
    assert run.stdout.count(": 0\n") == sum(int(group[0]) for group in groups)


def test_parts_are_attention_over_the_whole(tmp_path: Path) -> None:
    check("cpu", tmp_path, list(GROUPS))


@pytest.mark.cuda
def test_parts_on_gpus_are_attention_over_the_whole(tmp_path: Path) -> None:
    gpus = torch.cuda.device_count()
    groups = [group for group in GROUPS if int(group[0]) <= gpus]
    if not groups:
        pytest.skip("one GPU is no group")
    check("cuda", tmp_path, groups)


# ---- How the work is cut ------------------------------------------------------------------------


def seen_by(parts: tuple, rows: int) -> torch.Tensor:
    """Which of the visitor's keys each query sees; no pair twice."""
    seen = torch.zeros(rows, rows, dtype=torch.int64)
    for part in parts:
        queries = part.queries.stop - part.queries.start
        keys = part.keys.stop - part.keys.start
        distance = torch.arange(keys) - (torch.arange(queries)[:, None] + keys - queries)
        is_seen = torch.ones(queries, keys, dtype=torch.bool)
        if part.left >= 0:
            is_seen &= distance >= -part.left
        if part.right >= 0:
            is_seen &= distance <= part.right
        assert is_seen.any(1).all(), part  # who sees nothing is left out, and what nobody sees
        assert is_seen.any(0).all(), part
        seen[part.queries, part.keys] += is_seen
    assert seen.max() <= 1
    return seen == 1


@pytest.mark.parametrize("order", ["zigzag", "plain"])
@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_steps_are_what_a_window_shows(order: str, ranks: int) -> None:
    rows = 6
    mesh = Mesh(ranks, 1)
    tokens = split(torch.arange(ranks * rows), 0, mesh, order)
    assert torch.equal(join(tokens, 0, mesh, order), torch.arange(ranks * rows))
    ends = [-1, 0, 1, 5, 6, 7, 13, 100]
    for left, right in itertools.product(ends, ends):
        counts = set()
        for rank in range(ranks):
            steps = schedule(order, ranks, rank, rows, left, right)
            counts.add(len(steps))
            for step in range(ranks):
                visitor = tokens[(rank - step) % ranks]
                distance = visitor - tokens[rank][:, None]
                wanted = torch.ones(rows, rows, dtype=torch.bool)
                if left >= 0:
                    wanted &= distance >= -left
                if right >= 0:
                    wanted &= distance <= right
                parts = steps[step] if step < len(steps) else ()
                assert torch.equal(seen_by(parts, rows), wanted), (left, right, rank, step)
        assert len(counts) == 1  # all stop together


def test_zigzag_has_equally_much_to_do_and_one_call_a_step() -> None:
    ranks, rows = 4, 8
    for rank in range(ranks):
        steps = schedule("zigzag", ranks, rank, rows, -1, 0)
        assert [len(parts) for parts in steps] == [1] * ranks
        pairs = [int(seen_by(parts, rows).sum()) for parts in steps]
        assert pairs == [rows * (rows + 1) // 2] + [rows * rows // 2] * (ranks - 1)


def test_a_window_of_few_parts_takes_few_steps() -> None:
    assert len(schedule("plain", 8, 3, 16, 16, 0)) == 2
    assert len(schedule("plain", 8, 3, 16, 17, 0)) == 3
    assert len(schedule("plain", 8, 3, 16, -1, 0)) == 8
