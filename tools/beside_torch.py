#!/usr/bin/env python3
"""Calls of all kinds, of shapes that are in no list, beside torch's: which are slower, or wrong.

Usage: tools/beside_torch.py [NAME ...] [--seconds 200] [--below 0.97]

NAME: only calls that have this text in their line, such as bmm. On a GPU each is timed in turns
with torch's, with L2 read over before; what is printed is torch's time over ours, and at the end
those below 0.97. Times are of the GPU alone, by events: a first look at where to look, not
figures for a table, which are `bench`'s. Without a GPU shapes are small, in the emulator, and only
results are compared, with those of torch in f32. Exit code 1: one is another, or a call is refused.

Needs torch, and what `python -m warpsmith.bench` needs.
"""

import argparse
import functools
import itertools
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import warpsmith
from torch.nn import functional

SMALL = 24  # an extent's most in the emulator


@dataclass
class Case:
    name: str
    ours: Callable[..., Any]
    torchs: Callable[..., Any]
    shapes: list[tuple[int, ...]]  # of tensors of random numbers
    indices: list[tuple[int, tuple[int, ...]]]  # below how many, and of which shape; behind them
    change: Callable[..., Any] = lambda *tensors: tensors


def case(name, ours, torchs, *shapes, indices=(), change=lambda *tensors: tensors) -> Case:
    return Case(name, ours, torchs, list(shapes), list(indices), change)


def same(name: str, *shapes, indices=(), change=lambda *t: t, torchs=torch, **keywords) -> Case:
    """A function that both packages have, with the same arguments behind its tensors."""
    ours, theirs = (
        functools.partial(getattr(package, name), **keywords) for package in (warpsmith, torchs)
    )
    text = " ".join(f"{key}={value}" for key, value in keywords.items())
    sizes = " x ".join("x".join(map(str, shape)) for shape in shapes)
    line = " ".join(filter(None, (name, sizes, text)))
    return case(line, ours, theirs, *shapes, indices=indices, change=change)


def rows() -> Iterator[Case]:
    shapes = ((7, 1000003), (131072, 17), (513, 3001), (100000, 80), (64, 128256), (3000, 6145))
    for name, shape in itertools.product(("softmax", "log_softmax"), shapes):
        yield same(name, shape, dim=-1)
    for shape, dim in (((5000, 300), 0), ((32, 100, 77, 77), 1), ((4, 21, 512, 512), 1)):
        yield same("softmax", shape, dim=dim)
    for shape in ((3, 5000), (100000, 80), (4096, 5120), (333, 12288), (50000, 768), (8192, 33)):
        for name, vectors in (("layer_norm", 2), ("rms_norm", 1)):
            yield case(
                f"{name} {shape}",
                lambda x, *w, name=name: getattr(warpsmith, name)(x, x.shape[-1:], *w),
                lambda x, *w, name=name: getattr(functional, name)(x, x.shape[-1:], *w),
                shape,
                *[shape[-1:]] * vectors,
            )
    for shape in ((1000, 1000), (10, 1000000), (65536, 64), (3, 50257), (4096, 4096)):
        yield same("sort", shape, dim=-1)
        for k in (1, 7, 50):
            yield case(
                f"topk {shape} {k}",
                lambda x, k=k: warpsmith.topk(x, min(k, x.shape[-1])),
                lambda x, k=k: torch.topk(x, min(k, x.shape[-1])),
                shape,
            )
    for shape in ((8192, 32000), (1000, 1000), (33, 151936), (100000, 10)):
        yield same("cross_entropy", shape, indices=[(shape[1], shape[:1])], torchs=functional)


def sums() -> Iterator[Case]:
    shapes = (
        ((10000019,), None),
        ((100000, 64), 0),
        ((333, 77777), 1),
        ((64, 128, 1000), (0, 2)),
        ((64, 1000, 128), 1),
        ((8192, 8192), 0),
        ((1000000, 5), 1),
    )
    for (shape, dim), name in itertools.product(shapes, ("sum", "mean", "amax")):
        yield same(name, shape, **({} if dim is None else {"dim": dim}))
    for shape, dim in (((333, 77777), 1), ((100000, 64), 0), ((10000019,), 0)):
        for name in ("argmax", "cumsum", "logcumsumexp"):
            yield same(name, shape, dim=dim)


def elements() -> Iterator[Case]:
    for shape in ((1000,), (1 << 20,), (33333333,)):
        for name in ("gelu", "silu", "relu", "elu", "hardswish"):
            yield same(name, shape, torchs=functional)
        for name in ("add", "mul"):
            yield same(name, shape, shape)
    for other in ((4096,), (4096, 1)):
        yield same("add", (4096, 4096), other)
    yield same("gelu", (4096, 4000), change=lambda x: (x.t(),), torchs=functional)


def movement() -> Iterator[Case]:
    for shape, order in (
        ((33, 1000, 77), (2, 0, 1)),
        ((8, 2048, 16, 128), (0, 2, 1, 3)),
        ((64, 3, 224, 224), (0, 2, 3, 1)),
        ((5000, 7001), (1, 0)),
        ((100, 100, 100, 10), (3, 1, 0, 2)),
    ):
        yield case(
            f"permute {shape} {order}",
            lambda x, order=order: warpsmith.permute(x, order),
            lambda x, order=order: x.permute(order).contiguous(),
            shape,
        )
    for table, count in (((50257, 768), 16384), ((1000, 16), 1000003)):
        yield same(
            "embedding",
            table,
            indices=[(table[0], (count,))],
            change=lambda table, index: (index, table),
            torchs=functional,
        )
    for shape, dim, count in (((100000, 129), 0, 50000), ((1000, 10000), 1, 5000)):
        yield case(
            f"index_select {shape} {dim}",
            lambda x, i, dim=dim: warpsmith.index_select(x, dim, i),
            lambda x, i, dim=dim: torch.index_select(x, dim, i),
            shape,
            indices=[(shape[dim], (count,))],
        )
    yield case(
        "gather (1000, 10000) 1",
        lambda x, i: warpsmith.gather(x, 1, i),
        lambda x, i: torch.gather(x, 1, i),
        (1000, 10000),
        indices=[(10000, (1000, 5000))],
    )


def images() -> Iterator[Case]:
    for shape in ((8, 3, 224, 224), (4, 256, 64, 64), (1, 3, 1080, 1920)):
        for mode, factor in itertools.product(("nearest", "bilinear"), (2, 0.5, 1.7)):
            yield same("interpolate", shape, scale_factor=factor, mode=mode, torchs=functional)
    for shape in ((16, 64, 112, 112), (2, 2048, 7, 7), (256, 256, 14, 14), (1, 32, 300, 301)):
        for last in (False, True):
            yield case(
                f"batch_norm {shape} {'NHWC' if last else 'NCHW'}",
                lambda x: warpsmith.batch_norm(x, None, None, training=True),
                lambda x: functional.batch_norm(x, None, None, training=True),
                shape,
                change=lambda x, last=last: (
                    x.contiguous(memory_format=torch.channels_last) if last else x,
                ),
            )
        yield same("group_norm", shape, num_groups=8, torchs=functional)
        yield same("instance_norm", shape, torchs=functional)


def products() -> Iterator[Case]:
    for m, k, n in (
        (1000, 1000, 1000),
        (77, 768, 3072),
        (5, 4096, 4096),
        (3136, 64, 256),
        (50, 50, 50),
        (1536, 1536, 1536),
        (8192, 64, 8192),
        (300, 20000, 300),
        (10000, 10, 10000),
        (513, 513, 513),
        (1, 4096, 11008),
    ):
        yield same("matmul", (m, k), (k, n))
        yield same("linear", (m, k), (n, k), (n,), torchs=functional)
    for b, m, k, n in (
        (192, 197, 64, 197),
        (192, 197, 197, 64),
        (12, 1024, 64, 1024),
        (1000, 30, 30, 30),
        (16, 512, 512, 512),
        (100, 77, 80, 77),
        (256, 9, 64, 3136),
    ):
        yield same("bmm", (b, m, k), (b, k, n))
    for b, h, q, kv, d, causal in (
        (2, 16, 1000, 1000, 64, True),
        (8, 12, 197, 197, 64, False),
        (1, 8, 17, 17, 128, True),
        (1, 24, 4429, 4429, 128, False),
        (2, 8, 4096, 77, 40, False),
        (16, 12, 512, 512, 64, False),
        (1, 16, 2048, 2048, 256, True),
        (64, 8, 64, 64, 32, False),
    ):
        keys = (b, h, kv, d)
        sdpa = "scaled_dot_product_attention"
        yield same(sdpa, (b, h, q, d), keys, keys, is_causal=causal, torchs=functional)


def tensors_of(one: Case, dtype: torch.dtype, device: str) -> tuple[torch.Tensor, ...]:
    def shape_of(shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape if device == "cuda" else tuple(min(extent, SMALL) for extent in shape)

    made = [torch.randn(shape_of(shape), device=device).to(dtype) for shape in one.shapes]
    for most, shape in one.indices:
        below = most if device == "cuda" else min(most, SMALL)
        made.append(torch.randint(0, below, shape_of(shape), device=device))
    return one.change(*made)


def first_of(result: Any) -> torch.Tensor:
    return result if isinstance(result, torch.Tensor) else result[0]


def is_same(ours: Any, torchs: Any) -> bool:
    a, b = first_of(ours).double(), first_of(torchs).double()
    return a.shape == b.shape and bool((a - b).norm() <= 2e-2 * b.norm() + 1e-6)


def timed(calls: list[Callable[[], Any]], flush: torch.Tensor, rounds: int = 7) -> list[float]:
    """Medians in us, in turns; the first two rounds do not count."""
    times: list[list[float]] = [[] for _ in calls]
    for number, (which, call) in itertools.product(range(rounds), enumerate(calls)):
        flush.sum()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(250000)  # so that the launches are all there
        begin.record()
        call()
        end.record()
        torch.cuda.synchronize()
        if number >= 2:
            times[which].append(begin.elapsed_time(end) * 1e3)
    return [sorted(of)[len(of) // 2] for of in times]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--seconds", type=float, default=200)
    parser.add_argument("--below", type=float, default=0.97)
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(1)
    flush = torch.empty(40 << 20, dtype=torch.int32, device=device) if device == "cuda" else None
    end = time.monotonic() + options.seconds
    count = 0
    slower: list[str] = []
    wrong: list[str] = []
    families = (rows, sums, elements, movement, images, products)
    for one, dtype in itertools.product(
        itertools.chain.from_iterable(family() for family in families),
        (torch.float32, torch.bfloat16),
    ):
        line = f"{one.name} {str(dtype).removeprefix('torch.')}"
        if options.names and not any(name in line for name in options.names):
            continue
        if time.monotonic() > end:
            print(f"{options.seconds:.0f} s are over, before {line}")
            break
        count += 1
        tensors = tensors_of(one, dtype, device)
        calls = [functools.partial(function, *tensors) for function in (one.ours, one.torchs)]
        wide = [x.float() if x.is_floating_point() else x for x in tensors]
        try:
            if not is_same(calls[0](), one.torchs(*wide)):
                wrong.append(f"{line}: another result")
        except (RuntimeError, TypeError, ValueError) as error:
            wrong.append(f"{line}: {error}")
            continue
        if flush is not None:
            us, torchs = timed(calls, flush)
            text = f"{torchs / us:7.2f} {line:60} {us:9.1f} us, torch {torchs:9.1f}"
            print(text, flush=True)
            if torchs / us < options.below:
                slower.append(text)
    if slower:
        print(f"below {options.below}:", *sorted(slower), sep="\n")
    print(f"{count} calls, {len(slower)} slower, {len(wrong)} wrong")
    if wrong:
        print("wrong:", *wrong, sep="\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
