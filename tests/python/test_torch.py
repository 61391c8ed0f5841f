"""torch.ops.warpsmith: autograd, torch.compile, modes; the quick path keeps out of them."""

import pytest
import torch
import warpsmith
from conftest import (
    OPERATION_CASES,
    assert_close,
    defaults_of,
    doubles_of,
    floats_of,
    inputs_of,
    requiring_gradients,
)
from torch.fx.experimental.proxy_tensor import make_fx
from warpsmith._catalogue import Operation
from warpsmith._measure import torch_expression

BACKEND = "aot_eager"  # traces, differentiates and functionalises, and needs no compiler


@pytest.fixture(autouse=True)
def _fresh_compiler() -> None:
    torch._dynamo.reset()


def operator(operation: Operation):
    return getattr(torch.ops.warpsmith, operation.name).default


def function(operation: Operation):
    return getattr(warpsmith, operation.name)


@pytest.mark.parametrize("operation", OPERATION_CASES)
def test_opcheck(operation: Operation, device: str) -> None:
    inputs = inputs_of(operation, torch.float32, device)
    torch.library.opcheck(operator(operation), tuple(inputs))
    torch.library.opcheck(operator(operation), tuple(requiring_gradients(inputs)))


@pytest.mark.parametrize("operation", OPERATION_CASES)
def test_opcheck_of_out(operation: Operation, device: str) -> None:
    inputs = inputs_of(operation, torch.float32, device)
    out = torch.empty_like(function(operation)(*inputs))
    torch.library.opcheck(
        getattr(torch.ops.warpsmith, f"{operation.name}_out").default,
        tuple(inputs),
        {operation.outputs[0]: out},
    )


@pytest.mark.parametrize("operation", OPERATION_CASES)
def test_gradient(operation: Operation, device: str) -> None:
    inputs = inputs_of(operation, torch.float32, device)
    ours = requiring_gradients([x.clone() for x in inputs])
    theirs = requiring_gradients(doubles_of(inputs))
    result = function(operation)(*ours)
    reference = torch_expression(operation, defaults_of(operation))(*theirs)
    weights = torch.randn(reference.shape, generator=torch.Generator().manual_seed(1))
    gradients = torch.autograd.grad((result * weights.to(device)).sum(), floats_of(ours))
    expected = torch.autograd.grad((reference * weights).sum(), floats_of(theirs))
    for got, wanted in zip(gradients, expected, strict=True):
        assert_close(got, wanted)


@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
def test_gemm_gradient(layout: str) -> None:
    a = torch.randn((3, 4) if layout[0] == "n" else (4, 3), requires_grad=True)
    b = torch.randn((4, 5) if layout[1] == "n" else (5, 4), requires_grad=True)
    g = torch.randn(3, 5)
    ours = torch.autograd.grad(warpsmith.gemm(a, b, layout), (a, b), g)
    product = (a if layout[0] == "n" else a.t()) @ (b if layout[1] == "n" else b.t())
    for got, wanted in zip(ours, torch.autograd.grad(product, (a, b), g), strict=True):
        torch.testing.assert_close(got, wanted)


def test_broadcast_gradient() -> None:
    a = torch.randn(4, 3, requires_grad=True)
    b = torch.randn(3, requires_grad=True)
    ga, gb = torch.autograd.grad(warpsmith.mul(a, b).sum(), (a, b))
    torch.testing.assert_close(ga, b.detach().expand(4, 3))
    torch.testing.assert_close(gb, a.detach().sum(0))


@pytest.mark.parametrize(
    "name",
    ["softmax", "log_softmax", "scale_mask_softmax", "gelu", "sigmoid", "swish", "mul"],
)
def test_second_gradient(name: str) -> None:
    operation = warpsmith.OPERATIONS[name]
    inputs = inputs_of(operation, torch.float32, "cpu", rows=3, columns=7)
    reference = torch_expression(operation, defaults_of(operation))

    def second(compute, tensors):
        (first,) = torch.autograd.grad(
            (compute(*tensors) ** 2).sum(), tensors[:1], create_graph=True
        )
        return torch.autograd.grad((first**2).sum(), tensors[0])[0]

    got = second(function(operation), requiring_gradients([x.clone() for x in inputs]))
    wanted = second(reference, requiring_gradients(doubles_of(inputs)))
    torch.testing.assert_close(got.double(), wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("operation", OPERATION_CASES)
def test_compiles_without_graph_breaks(operation: Operation, device: str) -> None:
    inputs = requiring_gradients(inputs_of(operation, torch.float32, device))
    ours = function(operation)
    compiled = torch.compile(lambda *xs: ours(*xs) * 2, fullgraph=True, backend=BACKEND)
    result = compiled(*inputs)
    expected = function(operation)(*inputs) * 2
    torch.testing.assert_close(result, expected)
    floats = floats_of(inputs)
    gradients = torch.autograd.grad(result.sum(), floats)
    for got, wanted in zip(gradients, torch.autograd.grad(expected.sum(), floats), strict=True):
        torch.testing.assert_close(got, wanted)


def test_compiles_rungs_attributes_and_out() -> None:
    def compute(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        warpsmith.add(x, y, out=out)
        z = warpsmith.gelu(out, approximate="tanh", rung="vector_x4")
        return warpsmith.gemm(z, y, layout="nt") + warpsmith.elu(x, 0.5).sum()

    x, y = torch.randn(4, 8), torch.randn(4, 8)
    compiled = torch.compile(compute, fullgraph=True, backend=BACKEND)
    torch.testing.assert_close(compiled(x, y), compute(x, y))


def test_compiles_with_inductor(device: str) -> None:
    x = torch.randn(4, 16, device=device)
    compiled = torch.compile(lambda x: warpsmith.softmax(x * 2) + 1, fullgraph=True)
    torch.testing.assert_close(compiled(x), torch.softmax(x * 2, -1) + 1)


def test_compiles_once_for_all_shapes() -> None:
    compiles = 0

    def counting(graph: torch.fx.GraphModule, _: object):
        nonlocal compiles
        compiles += 1
        return graph.forward

    compiled = torch.compile(
        lambda a, b: warpsmith.gemm(warpsmith.relu(a), b), backend=counting, dynamic=True
    )
    for m, n, k in ((4, 5, 6), (7, 8, 9), (10, 11, 12)):
        a, b = torch.randn(m, k), torch.randn(k, n)
        torch.testing.assert_close(compiled(a, b), torch.relu(a) @ b)
    assert compiles == 1


def test_export() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return warpsmith.softmax(warpsmith.relu(x))

    x = torch.randn(3, 9)
    program = torch.export.export(Model(), (x,))
    targets = {str(node.target) for node in program.graph.nodes if node.op == "call_function"}
    assert {"warpsmith.softmax.default", "warpsmith.relu.default"} <= targets
    torch.testing.assert_close(program.module()(x), torch.softmax(torch.relu(x), -1))


def test_modes_see_the_operator() -> None:
    x = torch.randn(3, 4)
    graph = make_fx(lambda x: warpsmith.relu(x))(x)
    assert "torch.ops.warpsmith.relu" in graph.code
    with torch._subclasses.fake_tensor.FakeTensorMode():
        fake = warpsmith.relu(torch.empty(3, 4))
    assert isinstance(fake, torch._subclasses.fake_tensor.FakeTensor)


def test_vmap() -> None:
    x = torch.randn(3, 4)
    torch.testing.assert_close(torch.vmap(warpsmith.relu)(x), torch.relu(x))


def test_parameters_and_subclasses() -> None:
    weight = torch.nn.Parameter(torch.randn(4, 4))
    result = warpsmith.relu(weight)
    assert result.requires_grad
    with torch.no_grad():
        assert not warpsmith.relu(weight).requires_grad
    with torch.inference_mode():
        x = torch.randn(4)
        assert torch.equal(warpsmith.relu(x), torch.relu(x))
        out = torch.empty(4)
        assert torch.equal(warpsmith.relu(x, out=out), torch.relu(x))


def test_out_is_seen_by_autograd() -> None:
    x = torch.ones(3, requires_grad=True)
    out = torch.ones(3)
    y = x * out  # saves `out`
    warpsmith.relu(torch.ones(3), out=out)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_strides_are_kept() -> None:
    x = torch.randn(4, 6).t()
    assert warpsmith.relu(x).stride() == torch.ops.warpsmith.relu(x).stride() == x.stride()
