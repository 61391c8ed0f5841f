"""What the Python tests share: devices, dtypes, tolerances, torch's answer in double precision."""

import pytest
import torch
from warpsmith._catalogue import OPERATIONS, Operation
from warpsmith._measure import torch_expression

TORCH_DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
# Relative to an element, and absolute: what one rounding and f32 arithmetic before it may cost.
TOLERANCES = {
    torch.float32: {"rtol": 2e-5, "atol": 2e-6},
    torch.float16: {"rtol": 2e-3, "atol": 1e-4},
    torch.bfloat16: {"rtol": 1.6e-2, "atol": 1e-3},
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips tests marked `cuda` where there is no GPU, or no CUDA build."""
    from warpsmith._libraries import MODULES

    if not torch.cuda.is_available():
        reason = "no GPU here"
    elif "cuda" not in MODULES:
        reason = "the CUDA library is not built"
    else:
        return
    for item in items:
        if item.get_closest_marker("cuda"):
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def device(request: pytest.FixtureRequest) -> str:
    return request.param


def defaults_of(operation: Operation) -> list[object]:
    return [a.default for a in operation.attributes]


def shapes_of(operation: Operation, rows: int = 5, columns: int = 33) -> list[tuple[int, int]]:
    """Shapes of inputs that fit together."""
    if operation.name == "gemm":
        return [(rows, columns), (columns, rows + 2)]
    return [(rows, columns)] * len(operation.inputs)


def inputs_of(
    operation: Operation, dtype: torch.dtype, device: str, seed: int = 0, **extents: int
) -> list[torch.Tensor]:
    """Random inputs that fit together, the same on every device."""
    generator = torch.Generator().manual_seed(seed)
    inputs = []
    for name, shape in zip(operation.inputs, shapes_of(operation, **extents), strict=True):
        x = torch.randn(shape, generator=generator, dtype=torch.float64)
        if name == "mask":
            inputs.append((x < 0.7).to(device))
            continue
        if name == "output":  # of the forward
            logarithm = operation.name.startswith("log_")
            x = torch.log_softmax(x, -1) if logarithm else torch.softmax(x, -1)
        inputs.append(x.to(dtype).to(device))
    return inputs


def doubles_of(inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """The inputs on the CPU, floats in double precision."""
    return [x.double().cpu() if x.is_floating_point() else x.cpu() for x in inputs]


def floats_of(inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """Those of the inputs that can have a gradient."""
    return [x for x in inputs if x.is_floating_point()]


def requiring_gradients(inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    return [x.requires_grad_() if x.is_floating_point() else x for x in inputs]


def expected_of(operation: Operation, inputs: list[torch.Tensor], values: list[object]):
    """torch's answer from the same inputs, computed in double precision."""
    return torch_expression(operation, values)(*doubles_of(inputs))


def assert_close(actual: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(
        actual.cpu().double(),
        expected.to(actual.dtype).double(),
        equal_nan=True,
        **TOLERANCES[actual.dtype],
    )


FLOAT_CASES = [
    pytest.param(operation, TORCH_DTYPES[dtype], id=f"{operation.name}-{dtype}")
    for operation in OPERATIONS.values()
    for dtype in operation.dtypes
    if dtype in TORCH_DTYPES
]
OPERATION_CASES = [pytest.param(op, id=op.name) for op in OPERATIONS.values()]
