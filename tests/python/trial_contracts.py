"""What only the trial family has; tests/python/test_trial.py runs this with its library."""

import numpy as np
import pytest
import torch
import warpsmith
from warpsmith._catalogue import OPERATIONS


def test_one_output_is_a_tensor_several_are_a_tuple() -> None:
    x = torch.randn(3, 4)
    y = warpsmith.weigh(x)
    assert torch.equal(y, x)
    y, total = warpsmith.weigh(x, with_total=True)
    assert total.dtype == torch.float32
    torch.testing.assert_close(total, x.sum(-1))
    value, place = warpsmith.row_max(x.half())
    assert (value.dtype, place.dtype) == (torch.float16, torch.int64)


def test_operators_return_all_outputs() -> None:
    y, total = torch.ops.warpsmith.weigh(torch.randn(3, 4))
    assert y.shape == (3, 4)
    assert total.shape == (0,)


def test_schemas() -> None:
    def schema(name: str) -> str:
        return str(getattr(torch.ops.warpsmith, name).default._schema)

    assert schema("weigh") == (
        "warpsmith::weigh(Tensor x, Tensor? weight=None, *, bool with_total=False, str? rung=None)"
        " -> (Tensor, Tensor)"
    )
    assert schema("weigh_out") == (
        "warpsmith::weigh_out(Tensor x, Tensor? weight=None, *, bool with_total=False,"
        " str? rung=None, Tensor(a!) y, Tensor(b!)? total) -> ()"
    )
    assert schema("scale_in_place").endswith(
        "(Tensor(a!) x, *, float factor=2., str? rung=None) -> ()"
    )
    assert "int[1]? dim=None" in schema("total")
    assert "*, int by," in schema("shift")
    assert "float? low=None" in schema("clip")


def test_integers_are_exact() -> None:
    x = torch.tensor([2**62, -(2**53) - 1])
    assert warpsmith.shift(x, by=2**53 + 1).tolist() == [2**62 + 2**53 + 1, 0]
    assert torch.ops.warpsmith.shift(x, by=-(2**62) + 1)[0] == 1


def test_required_attributes() -> None:
    with pytest.raises(TypeError, match="'by'"):
        warpsmith.shift(torch.arange(3))
    with pytest.raises(ValueError, match="by is an integer, not None"):
        warpsmith.shift(torch.arange(3), by=None)


def test_in_out() -> None:
    x = torch.ones(4)
    assert warpsmith.scale_in_place(x, factor=3) is x
    assert x.tolist() == [3, 3, 3, 3]
    array = np.ones(4, np.float32)
    assert warpsmith.scale_in_place(array) is array
    assert array.tolist() == [2, 2, 2, 2]
    array.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        warpsmith.scale_in_place(array)
    with pytest.raises(ValueError, match="share one address"):
        warpsmith.scale_in_place(torch.ones(1).expand(4))
    with pytest.raises(TypeError, match="out"):
        warpsmith.scale_in_place(x, out=x)
    y = x.clone().requires_grad_() * 1
    with pytest.raises(ValueError, match="no gradient"):
        warpsmith.scale_in_place(y)


def test_autograd_sees_what_is_written_in_place() -> None:
    x = torch.ones(3, requires_grad=True)
    scaled = torch.ones(3)
    y = x * scaled  # saves `scaled`
    warpsmith.scale_in_place(scaled)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_optional_tensors() -> None:
    x = torch.randn(3, 4)
    weight = torch.randn(4)
    torch.testing.assert_close(warpsmith.weigh(x, weight), x * weight)
    torch.testing.assert_close(warpsmith.weigh(x, None), x)
    np.testing.assert_allclose(warpsmith.weigh(x.numpy(), None), x.numpy())
    with pytest.raises(TypeError, match="'x' is None"):
        warpsmith.weigh(None, weight)
    with pytest.raises(ValueError, match=r"weight is f32 .3., x is f32 .3, 4."):
        warpsmith.weigh(x, weight[:3])
    with pytest.raises(ValueError, match="has 1 outputs here, out is of 3"):
        warpsmith.weigh(x, out=(x, x, x))
    with pytest.raises(ValueError, match="no such output"):
        warpsmith.weigh(x, out=(torch.empty(3, 4), torch.empty(3)))


def test_dimensions() -> None:
    x = torch.randn(2, 3, 4)
    for dim in (None, 1, -1, (0, 2), [1], (), (0, 1, 2)):
        dims = dim if dim is not None and dim != () else (0, 1, 2)
        for keepdim in (False, True):
            result = warpsmith.total(x, dim=dim, keepdim=keepdim)
            torch.testing.assert_close(result, x.sum(dims, keepdim))
    with pytest.raises(ValueError, match="dimension 3"):
        warpsmith.total(x, dim=3)
    with pytest.raises(ValueError, match="dim is a dimension or several, not 'all'"):
        warpsmith.total(x, dim="all")


def test_an_index_that_is_wrong() -> None:
    x = torch.arange(4.0)
    bad = torch.tensor([1, 7, 2])
    out = torch.full((3,), -1.0)
    for arrays in ((x, bad, out), (x.numpy(), bad.numpy(), out.numpy())):
        with pytest.raises(ValueError, match=r"take/plain.* 7 .*position 1.*'index'.*\[0, 4\)"):
            warpsmith.take(*arrays[:2], out=arrays[2])
        assert out.tolist() == [1, -1, 2]  # nothing is written for it
    warpsmith.take(x, bad.clamp(max=3))  # reported once
    warpsmith.check()
    warpsmith.check("cpu")


def test_check_names_devices() -> None:
    with pytest.raises(ValueError, match="tpu"):
        warpsmith.check("tpu")
    with pytest.raises(ValueError, match="device 9"):
        warpsmith.check("cpu:9")


def test_a_failing_kernel_runs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def general(*_: object) -> None:
        pytest.fail("tried again")

    monkeypatch.setitem(warpsmith.take.__globals__, "general", general)
    with pytest.raises(ValueError, match="outside"):
        warpsmith.take(torch.arange(4.0), torch.tensor([9, 0]))


def test_zeroed_workspace_is_kept() -> None:
    """Its kernel draws tickets from a counter that has to be zero at the start of each call."""
    for rows in (3, 200, 5, 1, 0, 64):
        x = torch.randn(rows, 7)
        for inputs in (x, x.numpy()):
            result = warpsmith.total(inputs, dim=1, rung="tickets")
            np.testing.assert_allclose(np.asarray(result), x.sum(1).numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.cuda
def test_zeroed_workspace_in_a_graph() -> None:
    x = torch.randn(64, 7, device="cuda")
    warpsmith.total(x, dim=1, rung="tickets")
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = warpsmith.total(x, dim=1, rung="tickets")
        again = warpsmith.total(x, dim=1, rung="tickets")
    for _ in range(3):
        x.normal_()
        eager = warpsmith.total(x, dim=1, rung="tickets")
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(captured, eager)
        assert torch.equal(again, eager)
    streams = [torch.cuda.Stream() for _ in range(4)]
    for stream in streams:
        with torch.cuda.stream(stream):
            for _ in range(10):
                result = warpsmith.total(x, dim=1, rung="tickets")
            stream.synchronize()
            assert torch.equal(result, eager)


@pytest.mark.cuda
def test_an_index_that_is_wrong_on_the_gpu() -> None:
    x = torch.arange(4.0, device="cuda")
    bad = torch.tensor([1, 7, 2], device="cuda")
    warpsmith.take(x, bad)
    with pytest.raises(ValueError, match="outside"):
        warpsmith.check("cuda")
    warpsmith.take(x, bad)
    torch.cuda.synchronize()
    with pytest.raises(ValueError, match="outside"):
        warpsmith.take(x, bad.clamp(max=3))
    warpsmith.check()


def test_the_catalogue_of_the_library() -> None:
    assert set(OPERATIONS) == {
        "row_max",
        "weigh",
        "scale_in_place",
        "total",
        "shift",
        "clip",
        "take",
    }
