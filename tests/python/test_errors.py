"""Bad input is a ValueError or TypeError whose text has the values."""

import numpy as np
import pytest
import torch
import warpsmith

X = torch.ones(3, 5)
S = torch.ones(4, 4)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: warpsmith.relu(X.double()), "f64"),
        (lambda: warpsmith.relu(X.numpy().astype(np.float64)), "f64"),
        (lambda: warpsmith.relu(X.numpy().astype(np.complex64)), "complex64"),
        (lambda: warpsmith.relu(X > 0), "bool"),
        (lambda: warpsmith.relu(X.numpy().astype(">f4")), "f4"),
        (lambda: warpsmith.add(X, X.double()), "got f64"),
        (lambda: warpsmith.add(X.int(), X.int()), "got i32"),
        (lambda: warpsmith.add(X.half(), torch.tensor(1j)), "complex64"),
        (lambda: warpsmith.softmax(X, 2), "dim is 2, of a tensor of 2 dimensions"),
        (lambda: warpsmith.softmax(X, "rows"), "dim is 'rows'"),
        (lambda: warpsmith.layer_norm(X, (3,)), r"last extents of \[3, 5\], not \(3,\)"),
        (lambda: warpsmith.layer_norm(X, torch.ones(5)), r"of \[3, 5\], not a Tensor"),
        (lambda: warpsmith.relu(X, "scalar"), "inplace is True or False, not 'scalar'"),
        (lambda: warpsmith.relu(X, inplace=True, out=X), "no place for out"),
        (lambda: warpsmith.add(X, torch.ones(4)), r"f32 \[3, 5\] and f32 \[4\]"),
        (lambda: warpsmith.gemm(X, X), "K = 5 .* K = 3"),
        (lambda: warpsmith.gemm(X, torch.ones(5)), r"f32 \[5\]"),
        (lambda: warpsmith.gemm(X, X, layout="nx"), "'nn', 'nt', 'tn', 'tt', not 'nx'"),
        (lambda: warpsmith.elu(X, alpha="much"), "alpha is a number, not 'much'"),
        (lambda: warpsmith.relu(X, out=torch.empty(2)), r"f32 \[2\].*f32 \[3, 5\]"),
        (lambda: warpsmith.relu(torch.empty(0, 3), out=torch.empty(3, 0)), "but the result is"),
        (lambda: warpsmith.relu(torch.empty(0, 3), out=torch.empty(0)), "but the result is"),
        (lambda: warpsmith.gemm(S, S, out=S), "shares memory with 'a'"),
        (lambda: warpsmith.relu(S.t(), out=S), "shares memory with 'x'"),
        (lambda: warpsmith.add(torch.empty(0, 1), torch.empty(3, 10)), r"\[0, 1\].*\[3, 10\]"),
        (lambda: warpsmith.relu(X, out=torch.empty(3, 5).half()), "f16"),
        (lambda: warpsmith.layer_norm(X, stats=True, out=(X, X)), "3 outputs here, out is of 2"),
        (lambda: warpsmith.relu(X, out=torch.empty(3, 1).expand(3, 5)), "share one address"),
        (lambda: warpsmith.relu(X.to("meta")), "meta"),
        (lambda: warpsmith.relu(X.to_sparse()), "sparse"),
        (lambda: warpsmith.relu(X, rung="no_such_rung"), "no_such_rung"),
        (lambda: warpsmith.relu(X, rung="scalr"), "did you mean 'relu/scalar'"),
        (lambda: warpsmith.relu(X, rung="gelu/scalar"), "rung of gelu, not of relu"),
        (lambda: warpsmith.relu(X, rung="relu"), "is no rung"),
        (lambda: warpsmith.relu(X, rung=3), "not 3"),
        (lambda: warpsmith.scale_mask_softmax(X, X), "'mask' is f32 .*, not bool"),
        (lambda: warpsmith.scale_mask_softmax(X, X[:, :4] > 0), r"bool \[3, 4\].* broadcasts"),
        (lambda: warpsmith.scale_mask_softmax(X, X[None] > 0), r"bool \[1, 3, 5\]"),
        (lambda: warpsmith.softmax(X, rung="softmax_f16_not_there"), "softmax_f16_not_there"),
        (lambda: warpsmith.relu(torch.ones(1, 1, 1, 1, 1, 1, 2)), "7 dimensions"),
        (lambda: warpsmith.relu(np.ones(3, np.float32), out=np.ones(4, np.float32)), r"\[4\]"),
        (lambda: warpsmith.verify("ad"), "did you mean 'add'"),
        (lambda: warpsmith.verify("add", dtypes=["f31"]), "f31"),
        (lambda: warpsmith.verify("add", cases="all"), "all"),
        (lambda: warpsmith.verify("add", problems=["[7,,"]), "no problem is called"),
        (lambda: warpsmith.verify("add", shapes=[[1]]), "1 extent"),
        (lambda: warpsmith.verify("elu", attributes={"beta": 1}), "beta"),
        (lambda: warpsmith.verify("add", device="tpu"), "tpu"),
        (lambda: warpsmith.bench("add", peers=["tensorflow"]), "tensorflow"),
    ],
)
def test_value_errors(call, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        call()


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: warpsmith.relu([1.0, 2.0]), "builtins.list"),
        (lambda: warpsmith.softmax([1.0, 2.0], 0), "builtins.list"),
        (lambda: warpsmith.add(X, 1j), "builtins.complex"),
        (lambda: warpsmith.add(X, X.numpy()), "numpy.ndarray"),
        (lambda: warpsmith.add(X.numpy(), X), "numpy.ndarray, torch.Tensor"),
        (lambda: warpsmith.relu(X, out=X.numpy()), "numpy.ndarray"),
        (lambda: warpsmith.relu(), "missing 1 required positional argument"),
        (lambda: warpsmith.relu(X, False, "scalar"), "positional argument"),
        (lambda: warpsmith.softmax(X, 1, None, True), "from 1 to 3 positional arguments but 4"),
        (lambda: warpsmith.gelu(X, "tanh"), "takes 1 positional argument but 2"),
    ],
)
def test_type_errors(call, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        call()


def test_a_seed_name_fixes_the_dtype() -> None:
    seeds = [row for row in warpsmith.list() if row["seeds"]]
    assert seeds
    operation = warpsmith.OPERATIONS["relu"]
    seed = next(s for s in operation.seeds if s["dtypes"] == ["f16"])
    with pytest.raises(ValueError, match="another dtype than f32"):
        warpsmith.relu(X, rung=seed["name"])
    assert torch.equal(warpsmith.relu(X.half(), rung=seed["name"]), X.half())


def test_read_only_out() -> None:
    x = np.ones(4, np.float32)
    out = np.empty(4, np.float32)
    out.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        warpsmith.relu(x, out=out)


def test_out_of_a_gradient() -> None:
    x = X.clone().requires_grad_()
    with pytest.raises(ValueError, match="requires one"):
        warpsmith.relu(x, out=torch.empty(3, 5))
    with torch.no_grad():
        assert torch.equal(warpsmith.relu(x, out=torch.empty(3, 5)), X)


@pytest.mark.cuda
def test_devices_must_agree() -> None:
    x = X.cuda()
    with pytest.raises(ValueError, match=r"CUDA device 0, but 'b' is on the CPU"):
        warpsmith.add(x, X)
    # The emulated library names both; where only the CUDA one is built, that is what is wrong.
    with pytest.raises(ValueError, match=r"the CPU, but 'b' is on CUDA device 0|is on the CPU"):
        warpsmith.add(X, x)
    with pytest.raises(ValueError, match="on the CPU"):
        warpsmith.relu(x, out=torch.empty(3, 5))


def test_bench_needs_a_gpu() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is one")
    with pytest.raises((ValueError, RuntimeError), match=r"emulator|no GPU"):
        warpsmith.bench("relu", peers=[])


def test_empty_arrays_broadcast() -> None:
    """As torch does: (0, 1) and (0, 10) give (0, 10)."""
    for a, b in (((0, 1), (0, 10)), ((1, 10), (0, 1)), ((0,), (1,))):
        x, y = torch.empty(a), torch.empty(b)
        expected = torch.add(x, y).shape
        assert warpsmith.add(x, y).shape == expected
        assert torch.ops.warpsmith.add(x, y).shape == expected
        assert warpsmith.add(x.numpy(), y.numpy()).shape == tuple(expected)
        assert torch.add(x.to("meta"), y.to("meta")).shape == expected


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 5)])
def test_numpy_arrays_without_elements(shape: tuple[int, ...]) -> None:
    for x in (np.empty(shape, np.float32), np.empty((*shape, 2), np.float32)[..., 1]):
        assert warpsmith.relu(x).shape == shape
        out = np.empty(shape, np.float32)
        assert warpsmith.relu(x, out=out) is out


def test_operators_take_attributes_by_keyword() -> None:
    with pytest.raises(RuntimeError, match="takes 1 positional argument"):
        torch.ops.warpsmith.softmax(X, 1)


def test_shapes_that_no_memory_holds() -> None:
    for shape in ((2**31, 2**31), (2**60,)):
        x = torch.zeros(1).expand(shape)
        with pytest.raises((ValueError, RuntimeError), match=r"memory|overflow|allocate|too big"):
            warpsmith.relu(x)
        with pytest.raises((ValueError, RuntimeError), match=r"memory|overflow|allocate|too big"):
            warpsmith.relu(x.numpy())
