"""torch's own samples of every function whose name torch has: OpInfo, as torch tests itself.

A call gives what torch's gives, or is refused, and REFUSED says how often and why: a new refusal
fails here. A fake says shape, dtype, strides and refusal of the real call.
"""

import re
import sys
import types
import unittest
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
import torch
import warpsmith
from conftest import assert_close
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch.utils._pytree import tree_flatten, tree_map_only

# torch's samples stand beside helpers of its test cases, which want a package for one base class.
sys.modules.setdefault("expecttest", types.SimpleNamespace(TestCase=unittest.TestCase))
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402
from torch.testing._internal.opinfo.core import OpInfo, SampleInput  # noqa: E402

DTYPES = (torch.float32, torch.float16, torch.int64)
MOST_ELEMENTS = 1000
MOST_SAMPLES = 40

# Of each function, what part of a refusal's text says why, and how many samples are refused so.
WHOLE = r"(got|not) i64 \["
WIDE = r"(got|not) f64 \["
REFUSED: dict[str, dict[str, int]] = {
    "add": {WHOLE: 11},
    "mul": {WHOLE: 9},
    "relu": {WHOLE: 4},
    "sigmoid": {WHOLE: 3},
    "addmm": {WHOLE: 8},
    "baddbmm": {WHOLE: 8},
    "bmm": {WHOLE: 1},
    "dot": {WHOLE: 1},
    "matmul": {WHOLE: 12},
    "mm": {WHOLE: 3},
    "linear": {WHOLE: 20, "does not take tensors of": 15},
    "topk": {WHOLE: 14},
    "sort": {WHOLE: 40},
    "embedding": {"max_norm is None here": 6, "sparse is False here": 2},
    "embedding_bag": {"max_norm is None here": 18, "sparse is False here": 6},
    "index_add": {WHOLE: 9},
    "gather": {"'index' is u8": 6},
    "scatter_add": {WHOLE: 7},
    "softmax": {WIDE: 21},
    "log_softmax": {WIDE: 21},
    "any": {"dim names no dimension": 3},
    "all": {"dim names no dimension": 3},
    "vector_norm": {"; 1, 2 and inf are there": 52},
    "dropout": {"missing 1 required keyword-only argument: 'seed'": 38},
    "bincount": {"weights of float32 and 16 bits, not": 8},
    "batch_norm": {"batch_norm does not take tensors of": 4},
    "cross_entropy": {"classes, not probabilities": 20},
    "linear_cross_entropy": {
        "takes input": 56,
        "unexpected keyword argument 'options'": 160,
    },
    "interpolate": {"has the modes nearest, nearest-exact, bilinear, not": 176, "takes images": 60},
    "scaled_dot_product_attention": {"dropout_p is 0, not 0.5": 24},
}
# Counts of 16-bit numbers are those of the same numbers in f32: torch's own are of 16 bits.
WIDER = ("histc",)
# torch's sample has the weight first.
AS_SAMPLED = {
    "embedding": lambda weight, index, **options: warpsmith.embedding(index, weight, **options),
    "embedding_bag": lambda weight, index, **options: warpsmith.embedding_bag(
        index, weight, **options
    ),
}
# How large the result is depends on the data, which a fake has not.
DATA_DEPENDENT = ("bincount",)


def counterparts() -> dict[str, list[OpInfo]]:
    """torch's OpInfos by the name of our function."""
    found = defaultdict(list)
    for info in op_db:
        name = re.fullmatch(r"(?:nn\.functional\.|special\.|linalg\.)?(\w+)", info.name)
        if name and name[1] in warpsmith.__all__:
            found[name[1]].append(info)
    return found


COUNTERPARTS = counterparts()


def samples_of(info: OpInfo) -> Iterator[SampleInput]:
    for dtype in DTYPES:
        if not info.supports_dtype(dtype, "cpu"):
            continue
        torch.manual_seed(1)
        small = (
            sample
            for sample in info.sample_inputs("cpu", dtype, requires_grad=False)
            if all(x.numel() <= MOST_ELEMENTS for x in tensors_of(sample))
        )
        yield from islice(small, MOST_SAMPLES)


def tensors_of(tree: Any) -> list[torch.Tensor]:
    if isinstance(tree, SampleInput):
        tree = (tree.input, tree.args, tree.kwargs)
    return [leaf for leaf in tree_flatten(tree)[0] if isinstance(leaf, torch.Tensor)]


def outcome(function: Any, sample: SampleInput, change: Any) -> Any:
    """What a call gives, or how it refuses; of inputs that `change` makes of the sample's."""
    given = (sample.input, sample.args, sample.kwargs)
    input, args, kwargs = tree_map_only(torch.Tensor, change, given)
    try:
        return function(input, *args, **kwargs)
    except (ValueError, TypeError, NotImplementedError, DataDependentOutputException) as error:
        return error


def described(result: Any) -> Any:
    if isinstance(result, Exception):
        return type(result), str(result)
    return [(x.shape, x.dtype, x.stride()) for x in tensors_of(result)]


@pytest.mark.parametrize("name", COUNTERPARTS)
def test_samples(name: str) -> None:
    function = AS_SAMPLED.get(name, getattr(warpsmith, name))
    refused: Counter[str] = Counter()
    for info in COUNTERPARTS[name]:
        for sample in samples_of(info):
            ours = outcome(function, sample, torch.clone)
            with FakeTensorMode() as mode:
                fake = outcome(function, sample, mode.from_tensor)
            if name not in DATA_DEPENDENT or not isinstance(fake, DataDependentOutputException):
                assert described(fake) == described(ours), sample
            if isinstance(ours, Exception):
                reasons = REFUSED.get(name, {})
                why = next((r for r in reasons if re.search(r, str(ours))), str(ours))
                refused[why] += 1
                continue
            input = sample.input.float() if name in WIDER else sample.input
            theirs = tensors_of(info.op(input, *sample.args, **sample.kwargs))
            for got, want in zip(tensors_of(ours), theirs, strict=True):
                assert got.dtype == want.dtype, sample
                assert got.shape == want.shape, sample
                assert_close(got, want)
    assert dict(refused) == REFUSED.get(name, {})


def test_every_function_of_torch_s_name_has_samples() -> None:
    """But those that torch has no samples of."""
    spaces = (torch, torch.nn.functional, torch.special)
    shared = {name for name in warpsmith.__all__ if any(hasattr(s, name) for s in spaces)}
    assert shared - set(COUNTERPARTS) == {"grouped_mm", "scaled_mm", "spmm"}
