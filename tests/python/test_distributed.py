"""Attention over several ranks: processes of a gloo group on the emulator, of NCCL's on GPUs.

What they check of one another is in distributed_checks.py; here they are started, with a limit on
their time. And how the work is cut, which needs no processes.
"""

import itertools
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from warpsmith.distributed import benchmark
from warpsmith.distributed._layout import Mesh, join, schedule, split

CHECKS = Path(__file__).with_name("distributed_checks.py")
SECONDS = 600  # a time limit; two busy cores take some 60
GROUPS = (
    "2:parts,ring,windows,ulysses,usp,compiles,modes,refused,stopped,faults",
    "4:parts,ring,windows,ulysses,usp,modes,refused,again",
    "3:ring,stopped,death",
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


# ---- What it takes ------------------------------------------------------------------------------

SIZES = {
    "batch": 2, "tokens": 7, "heads": 4, "kv_heads": 2, "head_dim": 8, "window": -1, "turns": 3,
}  # fmt: skip


@pytest.fixture
def group_of_one() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("window", [-1, 0, 3, 6, 10])
def test_flops_are_those_of_the_pairs_that_are_seen(window: int, causal: bool) -> None:
    before = torch.arange(7)[:, None] - torch.arange(7)
    seen = (before <= window) | (window < 0)
    pairs = int((seen & (before >= 0) if causal else seen).sum())
    found = benchmark._flops({**SIZES, "window": window}, causal)
    assert found == 2 * 2 * 2 * 4 * 8 * pairs


def test_a_bench_compares_the_ways_that_ranks_and_heads_allow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def named(ranks: int, kv_heads: int) -> list[str]:
        return list(benchmark._contenders(ranks, kv_heads, {}))

    rings = ["ring, zigzag", "ring, plain"]
    assert named(2, 3) == rings
    assert named(2, 2) == [*rings, "ulysses"]
    assert named(4, 2) == [*rings, "ulysses 2 x ring 2"]
    assert named(6, 6) == [*rings, "ulysses", "ulysses 2 x ring 3", "ulysses 3 x ring 2"]
    for name in ("ring_attention", "ulysses_attention", "usp_attention"):
        call = lambda *of, name=name, **options: (name, of, options)  # noqa: E731
        monkeypatch.setattr(benchmark.distributed, name, call)
    calls = benchmark._contenders(4, 4, {"causal": True})
    assert [call("q", "k", "v") for call in calls.values()] == [
        ("ring_attention", ("q", "k", "v"), {"causal": True}),
        ("ring_attention", ("q", "k", "v"), {"causal": True, "order": "plain"}),
        ("ulysses_attention", ("q", "k", "v"), {"causal": True}),
        ("usp_attention", ("q", "k", "v"), {"causal": True, "ulysses_degree": 2}),
    ]


def test_a_bench_takes_turns_and_the_first_does_not_count(
    monkeypatch: pytest.MonkeyPatch, group_of_one: None
) -> None:
    turns: list[tuple[list[tuple[int, ...]], list[bool], bool]] = []

    def turn(call: Callable, tensors: Any, clock: Any, together: bool) -> tuple[float, float]:
        assert call(*tensors[:3]).shape == tensors[3].shape
        shapes = [tuple(x.shape) for x in tensors]
        turns.append((shapes, [x.requires_grad for x in tensors], together))
        return float(len(turns)), 100.0 * len(turns)

    monkeypatch.setattr(benchmark, "_turn", turn)
    result = benchmark.measure(SIZES, "f16", True, True, torch.device("cpu"))
    assert result["seconds"] == {  # of turns 2 to 4; 5 to 7 are the first of three contenders
        "one GPU": [3, 300],
        "ring, zigzag": [11, 1100],
        "ring, plain": [12, 1200],
        "ulysses": [13, 1300],
    }
    shapes = [(2, heads, 7, 8) for heads in (4, 2, 2, 4)]
    wanted = [True, True, True, False]
    assert turns == [(shapes, wanted, i >= 4) for i in range(4 + 4 * 3)]
    assert (result["ranks"], result["dtype"], result["causal"]) == (1, "f16", True)
    assert result["device"] == "CPU, emulator"
    assert result["forward_flops"] == benchmark._flops(SIZES, True)
    assert SIZES.items() <= result.items()
    result = benchmark.measure(SIZES, "f16", True, False, torch.device("cpu"))
    assert "one GPU" not in result["seconds"]


@pytest.mark.parametrize("together", [True, False])
def test_a_turn_is_a_forward_and_its_backward(
    together: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Any] = []
    monkeypatch.setattr(dist, "barrier", lambda: told.append("barrier"))

    class Clock(benchmark._Clock):
        def seconds(self, call: Callable[[], Any]) -> tuple[float, Any]:
            taken, result = super().seconds(call)
            assert 0 < taken < 60
            told.append(result)
            return float(len(told)), result

    tensors = benchmark._tensors(SIZES, 3, torch.float32, torch.device("cpu"))
    assert all(x.transpose(1, 2).is_contiguous() for x in tensors)
    q, k, v, dout = tensors
    call = lambda q, k, v: q * (k.sum() + v.sum())  # noqa: E731
    clock = Clock(torch.device("cpu"))
    forward, backward = benchmark._turn(call, tensors, clock, together)
    assert (forward, backward) == ((2, 4) if together else (1, 2))
    if together:
        assert told[::2] == ["barrier", "barrier"]
        del told[::2]
    torch.testing.assert_close(told[0], call(q, k, v))
    torch.testing.assert_close(told[1], torch.autograd.grad(call(q, k, v), (q, k, v), dout))


def test_a_table_has_rates_and_what_the_ideal_is_of_them() -> None:
    result = {
        **SIZES, "ranks": 4, "device": "GPU", "dtype": "bf16", "causal": True,
        "forward_flops": 8e12,
        "seconds": {"one GPU": [0.04, 0.1], "ring, plain": [0.0125, 0.05]},
    }  # fmt: skip
    assert benchmark.table(result).splitlines() == [
        "4 x GPU, bf16, batch 2, 7 tokens, heads 4 / 2 of 8, causal True, window -1",
        " " * 24 + "  forward ms  TFLOP/s a GPU  of ideal  backward ms  TFLOP/s a GPU  of ideal",
        "one GPU                       40.000          200.0    100.0%      100.000"
        "          200.0    100.0%",
        "ring, plain                   12.500          160.0     80.0%       50.000"
        "          100.0     50.0%",
    ]
    del result["seconds"]["one GPU"]
    assert benchmark.table(result).splitlines()[2:] == [
        "ring, plain                   12.500          160.0                 50.000"
        "          100.0          ",
    ]


def test_the_bench_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0", "RANK": "0", "WORLD_SIZE": "1"}
    for name, value in address.items():
        monkeypatch.setenv(name, value)
    sizes = {**SIZES, "turns": 1}
    options = [f"--{name.replace('_', '-')}={size}" for name, size in sizes.items()]
    options += ["--dtype=f32", "--device=cpu", "--full", "--no-whole"]
    file = tmp_path / "found.json"
    monkeypatch.setattr(sys, "argv", ["benchmark", *options, f"--json={file}"])
    assert benchmark.main() == 0
    assert not dist.is_initialized()
    found = json.loads(file.read_text())
    assert capsys.readouterr().out == benchmark.table(found) + "\n"
    assert (found["causal"], found["dtype"]) == (False, "f32")
    assert list(found["seconds"]) == ["ring, zigzag", "ring, plain", "ulysses"]
    assert all(0 < one < 60 for seconds in found["seconds"].values() for one in seconds)
    assert sizes.items() <= found.items()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_the_bench_program_without_a_gpu(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmark"])
    with pytest.raises(SystemExit):
        benchmark.main()
    assert "there is no GPU here" in capsys.readouterr().err
