"""What only a GPU shows: devices, streams, graphs, other array libraries, timing.

`python -m pytest tests/python -m cuda` runs these and the CUDA halves of the other files. From a
build tree, with nothing installed but torch and apache-tvm-ffi:
`PYTHONPATH=python python -m pytest tests/python -m cuda` finds build/cuda and build/emulated.
"""

import pytest
import torch
import warpsmith
from conftest import OPERATION_CASES, assert_close, call_with, calls_with, results_of
from warpsmith._catalogue import Operation

pytestmark = pytest.mark.cuda


def cycles(seconds: float = 0.05) -> int:
    """GPU cycles that last about so long."""
    return int(seconds * 1.7e9)


@pytest.mark.parametrize("operation", OPERATION_CASES)
def test_uses_the_current_stream(operation: Operation) -> None:
    call = call_with(operation, "cuda")
    inputs = call.fresh()
    late = [None if x is None else torch.zeros_like(x) for x in inputs]
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(cycles())
        for target, x in zip(late, inputs, strict=True):
            if x is not None:
                target.copy_(x)
        results = call.ours(*late)  # right only where it waits for the copies
    stream.synchronize()
    call.check(results)


@pytest.mark.parametrize("operation", OPERATION_CASES)
def test_does_not_wait(operation: Operation) -> None:
    call = call_with(operation, "cuda")
    call.ours()
    inputs = call.fresh()
    torch.cuda.synchronize()
    torch.cuda._sleep(cycles(0.2))
    done = torch.cuda.Event()
    for _ in range(3):
        call.ours(*inputs)
    done.record()
    assert not done.query()
    torch.cuda.synchronize()


@pytest.mark.parametrize("operation", OPERATION_CASES)
def test_every_rung_in_a_graph(operation: Operation) -> None:
    for call in calls_with(operation, "cuda"):
        for rung in operation.rungs:
            inputs = call.fresh()
            try:
                call.ours(rung=rung["name"])
            except ValueError:
                continue
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                results = call.ours(*inputs, rung=rung["name"])
            if operation.outputs and not operation.in_out:
                for result in results_of(results):
                    result.fill_(77)
            graph.replay()
            torch.cuda.synchronize()
            call.check(results, accumulate=rung["accumulate"])


def test_large_and_odd() -> None:
    for shape in ((1000, 4099), (3, 262144), (70001,)):
        x = torch.randn(shape, device="cuda")
        assert_close(warpsmith.softmax(x), torch.softmax(x.double(), -1).cpu())
        assert_close(warpsmith.gelu(x), torch.nn.functional.gelu(x.double()).cpu())
    a = torch.randn(513, 771, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(771, 259, device="cuda", dtype=torch.bfloat16)
    expected = (a.double() @ b.double()).cpu()
    result = warpsmith.gemm(a, b).cpu().double()
    assert (result - expected).norm() / expected.norm() < 4e-3


def test_compile_with_cuda_graphs() -> None:
    x = torch.randn(64, 512, device="cuda")
    compiled = torch.compile(
        lambda x: warpsmith.softmax(warpsmith.gelu(x)) * 2, fullgraph=True, mode="reduce-overhead"
    )
    expected = torch.softmax(torch.nn.functional.gelu(x), -1) * 2
    for _ in range(4):
        torch.testing.assert_close(compiled(x), expected)


def test_training_step() -> None:
    x = torch.randn(32, 64, device="cuda")
    weight = torch.randn(16, 64, device="cuda", requires_grad=True)
    ours = warpsmith.log_softmax(warpsmith.gelu(warpsmith.gemm(x, weight, layout="nt"))).sum()
    (got,) = torch.autograd.grad(ours, weight)
    theirs = torch.log_softmax(torch.nn.functional.gelu(x @ weight.t()), -1).sum()
    (wanted,) = torch.autograd.grad(theirs, weight)
    torch.testing.assert_close(got, wanted, rtol=1e-2, atol=1e-2)


def test_another_device_than_the_current() -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU")
    x = torch.randn(8, 64, device="cuda:1")
    assert torch.cuda.current_device() == 0
    assert_close(warpsmith.softmax(x), torch.softmax(x.double(), -1).cpu())
    assert torch.cuda.current_device() == 0
    with pytest.raises(ValueError, match="CUDA device 1, but 'b' is on CUDA device 0"):
        warpsmith.add(x, x.to("cuda:0"))


def test_jax_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax = pytest.importorskip("jax")
    if jax.default_backend() == "cpu":
        pytest.skip("JAX sees no GPU")
    numpy = jax.numpy
    x = jax.random.normal(jax.random.key(0), (64, 1000))
    for _ in range(20):  # results that JAX still computes when they are handed over
        y = x @ numpy.ones((1000, 1000)) * 1e-3
        result = warpsmith.softmax(y)
        assert isinstance(result, jax.Array)
        assert result.devices() == x.devices()
        assert numpy.allclose(result, jax.nn.softmax(y, -1), rtol=1e-4, atol=1e-6)
    half = x.astype(numpy.bfloat16)
    assert warpsmith.gelu(half).dtype == numpy.bfloat16
    product = warpsmith.gemm(half, half, layout="nt")
    assert product.shape == (64, 64)
    for rung in warpsmith.OPERATIONS["softmax"].rungs:  # some ask for workspace
        try:
            result = warpsmith.softmax(x[0], rung=rung["name"])
        except ValueError:
            continue
        assert numpy.allclose(result, jax.nn.softmax(x[0], -1), rtol=1e-4, atol=1e-6)


def test_cupy_arrays() -> None:
    cupy = pytest.importorskip("cupy")
    x = cupy.random.standard_normal((64, 1000), dtype=cupy.float32)
    shifted = cupy.exp(x - x.max(-1, keepdims=True))
    expected = shifted / shifted.sum(-1, keepdims=True)
    result = warpsmith.softmax(x)
    assert isinstance(result, cupy.ndarray)
    cupy.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-6)
    out = cupy.empty_like(x)
    assert warpsmith.softmax(x, out=out) is out
    cupy.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-6)
    assert warpsmith.relu(x[:, ::3]).shape == (64, 334)

    stream = cupy.cuda.Stream(non_blocking=True)
    late = cupy.zeros_like(x)
    cupy.cuda.Device().synchronize()
    with stream:
        for _ in range(200):
            late[...] = 0
        late[...] = x
        result = warpsmith.softmax(late)
    stream.synchronize()
    cupy.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-6)
    for rung in warpsmith.OPERATIONS["softmax"].rungs:  # some ask for workspace
        try:
            result = warpsmith.softmax(x[0], rung=rung["name"])
        except ValueError:
            continue
        cupy.testing.assert_allclose(result, expected[0], rtol=1e-4, atol=1e-6)


def test_workspace_comes_from_torch() -> None:
    x = torch.randn(1 << 16, device="cuda")
    expected = torch.softmax(x.double(), -1).cpu()
    for rung in warpsmith.OPERATIONS["softmax"].rungs:
        try:
            result = warpsmith.softmax(x, rung=rung["name"])
        except ValueError:
            continue
        assert_close(result, expected)


def test_bench_with_torch() -> None:
    report = warpsmith.bench(
        "softmax/warp_per_row",
        peers=["torch", "compile"],
        dtypes=["f32"],
        shapes=[[4096, 1024, 0, 0]],
        min_runs=10,
    )
    (group,) = report["results"]
    measurements = {m["name"]: m for m in group["measurements"]}
    assert {"softmax/warp_per_row", "torch", "compile", "copy"} <= set(measurements)
    for name in ("softmax/warp_per_row", "torch", "compile"):
        assert measurements[name]["verdict"] == "passed", measurements[name]
        assert measurements[name]["median_us"] > 0


def test_verify_on_the_gpu() -> None:
    report = warpsmith.verify("relu", "softmax", "gemm", cases="smoke", device="cuda")
    assert report["device"] == "cuda"
    assert report["failed"] == 0, [r for r in report["results"] if r["verdict"] == "failed"]


def test_call_overhead_is_torchs_at_most() -> None:
    from warpsmith import overhead

    rows = {row["name"]: row for row in overhead.measure(turns=11)["rows"]}
    for name in ("add", "add out=", "softmax", "softmax out="):
        # The table in results/ is measured on a quiet host; this one may be noisy.
        assert rows[name]["ratio"] < 1.3, rows[name]
