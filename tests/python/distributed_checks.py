"""What processes of a group do together; tests/python/test_distributed.py starts them.

`python distributed_checks.py cpu|cuda FOLDER RANKS:CHECK,CHECK ...`: each rank of a group makes the
same calls, and compares its part with attention over the whole sequence in double precision. On
"cuda" each has a GPU of its own, and the group is NCCL's, else gloo's.
"""

import datetime
import itertools
import math
import multiprocessing
import os
import signal
import sys
import time
import traceback
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NoReturn
from unittest import mock

import torch
import torch.distributed as dist
import warpsmith
from warpsmith import distributed
from warpsmith._expressions import torch_function
from warpsmith.distributed._ranks import Ranks

_TIMEOUT = 60.0
_SHORT = 4.0
_ALARM = 150
_device = torch.device("cpu")  # of this rank: run_rank


def formula(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **options: Any) -> Any:
    """out and lse in double precision."""
    doubles = [x.double() for x in (q, k, v)]
    return torch_function("attention")(*doubles, None, None, None, **options)


def whole_of(
    heads: tuple[int, int], tokens: int, dim: int, value_dim: int, dtype: torch.dtype
) -> list[torch.Tensor]:
    """q, k, v and the gradient of out, the same on all ranks; rows before heads in memory."""
    generator = torch.Generator().manual_seed(tokens + dim)
    shapes = [
        (2, tokens, heads[0], dim),
        (2, tokens, heads[1], dim),
        (2, tokens, heads[1], value_dim),
        (2, tokens, heads[0], value_dim),
    ]
    made = [torch.randn(s, generator=generator) for s in shapes]
    return [x.to(_device, dtype).transpose(1, 2) for x in made]


def noise(*shape: int) -> torch.Tensor:
    return torch.randn(shape, device=_device)


def compare(
    function: Any,
    heads: tuple[int, int] = (4, 4),
    tokens: int = 48,
    dim: int = 16,
    value_dim: int | None = None,
    dtype: torch.dtype = torch.float32,
    layout: dict[str, Any] | None = None,
    with_lse: bool = False,
    **options: Any,
) -> None:
    """That parts of out and of the gradients are those of the whole, in double precision."""
    whole = whole_of(heads, tokens, dim, value_dim or dim, dtype)
    layout = layout or {}
    doubles = [x.double().requires_grad_(i < 3) for i, x in enumerate(whole)]
    of_attention = {k: v for k, v in options.items() if k not in ("order", "ulysses_degree")}
    out, lse = formula(*doubles[:3], **of_attention)
    loss = (out * doubles[3]).sum() + (lse.sum() if with_lse else 0)
    wanted = [out, *torch.autograd.grad(loss, doubles[:3])]

    mine = [distributed.shard(x, **layout) for x in whole]
    for x in mine[:3]:
        x.requires_grad_()
    found = function(*mine[:3], **options, return_lse=with_lse)
    if with_lse:
        found, of_mine = found
        near(of_mine, distributed.shard(lse, **layout), torch.float32)
        torch.autograd.backward([found, of_mine], [mine[3], torch.ones_like(of_mine)])
    else:
        found.backward(mine[3])
    for got, want in zip([found, *(x.grad for x in mine[:3])], wanted, strict=True):
        assert got.dtype == dtype
        near(got, distributed.shard(want, **layout), dtype)


def near(got: torch.Tensor, want: torch.Tensor, dtype: torch.dtype) -> None:
    assert got.shape == want.shape
    off = {torch.float32: 5e-6, torch.float16: 2e-3, torch.bfloat16: 1.2e-2}[dtype]
    # Where each query sees one key its gradient is 0: what two sums of products differ by, 7e-6 in
    # all by multiply-adds of f32, 1e-5 by tensor cores.
    error = (got.double() - want).norm() / want.norm().clamp_min(2.0)
    assert error < off, f"{error:.1e} is more than {off:.0e}"


# ---- That it is attention -----------------------------------------------------------------------

ring, ulysses, usp = (
    distributed.ring_attention,
    distributed.ulysses_attention,
    distributed.usp_attention,
)
PLAIN = {"layout": {"order": "plain"}, "order": "plain"}


def check_ring(ranks: int) -> None:
    compare(ring)
    compare(ring, causal=True)
    compare(ring, causal=True, heads=(4, 2), value_dim=24, scale=0.3, with_lse=True)
    compare(ring, **PLAIN)
    compare(ring, **PLAIN, causal=True)
    compare(ring, dtype=torch.bfloat16, causal=True, heads=(4, 1), dim=64, tokens=16 * ranks)
    compare(ring, dtype=torch.float16, **PLAIN, dim=32)


def check_windows(ranks: int) -> None:
    tokens = 16 * ranks
    for left, right in ((5, 0), (9, 3), (0, -1), (-1, 4), (0, 0), (tokens, tokens), (3 * ranks, 0)):
        compare(ring, tokens=tokens, window_left=left, window_right=right)
        compare(ring, **PLAIN, tokens=tokens, window_left=left, window_right=right)
    compare(ring, **PLAIN, tokens=tokens, window_left=7, causal=True, with_lse=True)


def check_ulysses(ranks: int) -> None:
    layout = {"order": "plain"}
    compare(ulysses, layout=layout)
    compare(ulysses, layout=layout, causal=True, heads=(8, 4), value_dim=24, with_lse=True)
    compare(ulysses, layout=layout, causal=True, window_left=6, dtype=torch.bfloat16)
    # A loss that has lse on one rank: the others exchange as much.
    q, k, v = (noise(1, ranks, 8, 16).requires_grad_() for _ in range(3))
    out, lse = ulysses(q, k, v, return_lse=True)
    loss = out.sum() + (lse.sum() if dist.get_rank() == 0 else 0)
    assert all(torch.isfinite(x).all() for x in torch.autograd.grad(loss, (q, k, v)))


def check_usp(ranks: int) -> None:
    """Of four ranks two by two; of two a ring or a group alone."""
    degree = math.gcd(ranks, 2)
    layout = {"ulysses_degree": degree}
    compare(usp, layout=layout, causal=True, heads=(4, 2), tokens=64)
    compare(usp, layout=layout, ulysses_degree=degree, heads=(6, 2), window_left=7, with_lse=True)
    compare(usp, layout={"ulysses_degree": 1}, ulysses_degree=1, heads=(4, 1), causal=True)
    layout = {"ulysses_degree": ranks, "order": "plain"}
    compare(usp, layout=layout, ulysses_degree=ranks, order="plain", causal=True)


def check_compiles(ranks: int) -> None:
    """The rest of a function is compiled; what ranks exchange is not."""
    for function in (ring, ulysses):
        compiled = torch.compile(lambda *x, f=function, **o: f(*x, **o), backend="aot_eager")
        compare(compiled, layout={"order": "zigzag" if function is ring else "plain"}, causal=True)


def check_parts(ranks: int) -> None:
    x = torch.arange(24 * ranks, device=_device).reshape(3, 8 * ranks)
    for order in ("zigzag", "plain"):
        for degree in {1, ranks}:
            layout = {"order": order, "ulysses_degree": degree}
            part = distributed.shard(x, 1, **layout)
            assert part.shape == (3, 8)
            assert torch.equal(distributed.unshard(part, 1, **layout), x)
    first, last = distributed.shard(x[0], 0).chunk(2)
    assert first[0] == dist.get_rank() * 4
    assert last[-1] == (2 * ranks - dist.get_rank()) * 4 - 1


def check_modes(ranks: int) -> None:
    """No gradient, autocast, a group of some ranks, nothing at all."""
    q, k, v, _ = whole_of((4, 4), 48, 16, 16, torch.float32)
    parts = [distributed.shard(x) for x in (q, k, v)]
    with torch.no_grad():
        out = ring(*parts, causal=True)
        near(distributed.unshard(out), formula(q, k, v, causal=True)[0], torch.float32)
        with torch.autocast(_device.type, torch.bfloat16):
            assert ring(*parts).dtype == torch.bfloat16
    empty = [x[:0] for x in parts]
    assert ring(*empty).shape == empty[0].shape
    alone = [dist.new_group([rank]) for rank in range(ranks)][dist.get_rank()]
    want = warpsmith.attention(*parts, causal=True)[0]
    for function in (ring, ulysses, usp):
        assert torch.equal(function(*parts, group=alone, causal=True), want)


# ---- What goes wrong ----------------------------------------------------------------------------


def raises(kind: type[BaseException], words: str, *arguments: Any, **keywords: Any) -> None:
    function = keywords.pop("function", ring)
    try:
        function(*arguments, **keywords)
    except kind as error:
        assert words in str(error), f"{words!r} is not in: {error}"
    else:
        raise AssertionError(f"nothing was raised that says {words!r}")


def check_refused(ranks: int) -> None:
    """Wrong calls are told to all, whether all make them or one."""
    rank = dist.get_rank()
    q, k, v = (noise(1, 4, 8, 16) for _ in range(3))
    odd = q[:, :, : 8 if rank > 0 else 6]
    raises(
        ValueError, "ranks make different calls: rank 0: ring_attention([1, 4, 6, 16]", odd, k, v
    )
    mixed = [x.to(torch.float16 if rank == 0 else torch.float32) for x in (q, k, v)]
    raises(ValueError, "different calls", *mixed)
    raises(ValueError, "different calls", q, k, v, causal=rank == 0)
    raises(ValueError, "different calls", q.requires_grad_(rank == 0), k, v)
    raises(ValueError, "different calls", q, k.requires_grad_(rank > 0), v, function=ulysses)
    raises(ValueError, "different calls", q, k, v, return_lse=rank > 0, function=ulysses)
    raises(ValueError, "different calls", q, k, v, ulysses_degree=[1, "1"][rank > 0], function=usp)
    q, k = q.detach(), k.detach()
    raises(ValueError, "of 4 dimensions", q[0], k[0], v[0])
    raises(ValueError, "one dtype of f32, f16 and bf16", q.half(), k, v)
    raises(ValueError, "Hk divides H", q, k[:, :3], v[:, :3])
    raises(ValueError, "k [B, Hk, S, D]", q, k[:, :, :4], v[:, :, :4])
    raises(ValueError, "order is one of zigzag, plain, not 'round'", q, k, v, order="round")
    raises(ValueError, "two equal pieces, not of 7", *(x[:, :, :7] for x in (q, k, v)))
    raises(TypeError, "must be Tensor, not list", [1], k, v)
    few = [q, k[:, :1], v[:, :1]]
    raises(
        ValueError,
        f"{ranks} ranks do not divide 1 heads of keys; usp_attention(ulysses_degree=1)"
        f" has a ring of {ranks}",
        *few,
        function=ulysses,
    )
    raises(
        ValueError, f"divides {ranks} ranks, 3 does not", q, k, v, function=usp, ulysses_degree=3
    )
    raises(ValueError, "divides", q, k, v, function=usp, ulysses_degree=0)
    for degree in (1.0, "1"):
        words = f"ulysses_degree is an integer, not {degree!r}"
        raises(ValueError, words, q, k, v, function=usp, ulysses_degree=degree)
        raises(ValueError, words, q, function=distributed.shard, ulysses_degree=degree)
    raises(ValueError, "tokens are not", q[:, :, :1], function=distributed.shard)
    compare(ring, causal=True)  # all is well again
    # What each step would refuse; and after each of them all is well.
    wide = noise(1, 4, 8, 2048)
    for words, tensors, options in (
        ("attention takes a finite scale, not nan", (q, k, v), {"scale": math.nan}),
        ("attention takes a finite scale, not inf", (q, k, v), {"scale": 1e39}),
        ("scale is a number, not 'a'", (q, k, v), {"scale": "a"}),
        ("attention takes window_left from -1 on, not -2", (q, k, v), {"window_left": -2}),
        ("window_left is an integer, not 2.5", (q, k, v), {"window_left": 2.5}),
        ("window_right is an integer, not 'a'", (q, k, v), {"window_right": "a"}),
        ("causal is True or False, not 2", (q, k, v), {"causal": 2}),
        ("attention takes D and Dv from 1 to 1024", (wide, wide, v), {}),
        ("attention takes D and Dv from 1 to 1024", (q, k, wide), {}),
    ):
        for function in (ring, ulysses, usp):
            said = f"{function.__name__}: {words}"
            raises(ValueError, said, *tensors, function=function, **options)
        compare(ring, **PLAIN, tokens=4 * ranks)


def stopped(owner: Any, name: str, call: int) -> Any:
    """In it a function is interrupted at the end of that call of it."""
    function, calls = getattr(owner, name), itertools.count()

    def until_then(*arguments: Any, **keywords: Any) -> Any:
        result = function(*arguments, **keywords)
        if next(calls) == call:
            raise KeyboardInterrupt("stopped")
        return result

    return mock.patch.object(owner, name, until_then)


def check_stopped(ranks: int) -> None:
    """What is raised in a step, on all ranks, leaves a group that the next call can use."""
    q, k, v = (noise(1, 2, 4, 16).requires_grad_() for _ in range(3))
    for step in range(ranks):
        with stopped(warpsmith, "ring_attention_step", step):
            raises(KeyboardInterrupt, "stopped", q, k, v, order="plain")
        compare(ring, **PLAIN, tokens=4 * ranks)
        out = ring(q, k, v, order="plain")
        with stopped(warpsmith, "attention_backward", step):
            raises(KeyboardInterrupt, "stopped", noise(*out.shape), function=out.backward)
        compare(ring, **PLAIN, tokens=4 * ranks)
    with stopped(Ranks, "_guarded", 1):  # the first of several waits
        raises(KeyboardInterrupt, "stopped", q, k, v, order="plain")
    compare(ring, **PLAIN, tokens=4 * ranks)


def check_again(ranks: int) -> None:
    """What a group that was destroyed agreed on lies in the store: nobody takes it for new."""
    group = dist.new_group()
    store = dist.distributed_c10d._get_process_group_store(group)
    if dist.get_rank() == 0:
        store.add("warpsmith/ranks", ranks)
        for rank in range(1, ranks):
            store.set(f"warpsmith/0/1/{rank}", "another call")
    dist.barrier()
    time.sleep(0.2 * dist.get_rank())
    ring(*(noise(1, 2, 4, 16) for _ in range(3)), group=group)


def check_faults(ranks: int) -> None:
    """One makes another call than the others, which they cannot know; then it dies."""
    rank = dist.get_rank()
    groups = [dist.new_group(timeout=datetime.timedelta(seconds=_SHORT)) for _ in range(2)]
    q, k, v = (noise(1, 2, 8, 16) for _ in range(3))
    for group in groups:
        ring(q, k, v, group=group)
    start = time.monotonic()
    if rank == ranks - 1:
        for group in groups:
            raises(
                RuntimeError,
                "did not come to agree on it in time",
                q[:, :, :4],
                k[:, :, :4],
                v[:, :, :4],
                group=group,
            )
        leave(0)
    group, other = groups
    raises(RuntimeError, f"ring_attention: rank {rank} of {ranks} lost rank", q, k, v, group=group)
    with stopped(warpsmith, "ring_attention_step", 0):  # that is told, and not who was lost since
        raises(KeyboardInterrupt, "stopped", q, k, v, group=other)
    assert time.monotonic() - start < 3 * _SHORT


def check_death(ranks: int) -> None:
    """A rank dies between two calls; in the one of them keys go round, in the other all to all."""
    rank = dist.get_rank()
    group = dist.new_group(timeout=datetime.timedelta(seconds=_SHORT))
    parts = [noise(1, 2 * ranks, 8, 16) for _ in range(3)]
    ring(*parts, group=group)
    ulysses(*parts, group=group)
    if rank == ranks - 1:
        leave(0)
    start = time.monotonic()
    raises(RuntimeError, f"rank {rank} of {ranks} lost rank", *parts, group=group)
    raises(
        RuntimeError,
        f"ulysses_attention: rank {rank} of {ranks} lost rank",
        *parts,
        group=group,
        function=ulysses,
    )
    raises(
        RuntimeError,
        f"rank {rank} of {ranks} makes a new call",
        *(x[:, :, :4] for x in parts),
        group=group,
    )
    assert time.monotonic() - start < 4 * _SHORT


def run_rank(device: str, checks: list[str], rank: int, ranks: int, file: Path) -> None:
    """In a process of its own: the checks of one rank, told in a file beside that of the group."""
    global _device
    signal.alarm(_ALARM)  # whatever happens, nobody stays
    with (
        Path(f"{file}.{rank}").open("w", 1) as told,
        redirect_stdout(told),
        redirect_stderr(told),
    ):
        try:
            torch.set_num_threads(1)
            if device == "cuda":
                _device = torch.device(device, rank)
                torch.cuda.set_device(_device)
                # Who waits for a rank in vain is told, as docs/python.md says.
                os.environ["TORCH_NCCL_BLOCKING_WAIT"] = "1"
            dist.init_process_group(
                "nccl" if device == "cuda" else "gloo",
                init_method=f"file://{file}",
                rank=rank,
                world_size=ranks,
                timeout=datetime.timedelta(seconds=_TIMEOUT),
            )
            for name in checks:
                print(f"rank {rank} of {ranks}: {name}")
                globals()[f"check_{name}"](ranks)
        except BaseException:
            traceback.print_exc()
            leave(1)
    leave(0)


def leave(code: int) -> NoReturn:
    """Without waiting for anybody: others may have died."""
    sys.stdout.flush()
    os._exit(code)


def main() -> None:
    """On the CPU forks, so that all ranks of all groups import torch once; CUDA forbids that."""
    failed = False
    device, folder, *groups = sys.argv[1:]
    processes = multiprocessing.get_context("fork" if device == "cpu" else "spawn")
    for number, group in enumerate(groups):
        count, _, checks = group.partition(":")
        file = Path(folder) / f"group{number}"
        children = [
            processes.Process(
                target=run_rank, args=(device, checks.split(","), rank, int(count), file)
            )
            for rank in range(int(count))
        ]
        for child in children:
            child.start()
        for rank, child in enumerate(children):
            child.join()
            print(f"group {group}, rank {rank}: {child.exitcode}", flush=True)
            if child.exitcode != 0:
                failed = True
                print(Path(f"{file}.{rank}").read_text(), flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
