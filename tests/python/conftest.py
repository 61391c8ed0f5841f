"""What the Python tests share: devices, each operation's own cases, torch's answer to them.

Nothing here, and nothing in the tests that walk CASES, names an operation: a new family needs no
edit. What is peculiar to a family is tested in a file of its own.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pytest
import torch
import warpsmith
from warpsmith._cases import Case, cases_of
from warpsmith._catalogue import DTYPES, OPERATIONS, Operation
from warpsmith._expressions import torch_function
from warpsmith._signatures import tensor_names

SMALL = 5000  # elements of a case that tests in the emulator take
_MOST = 5  # cases of an operation


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
    from warpsmith._libraries import MODULES

    if request.param == "cpu" and "emulated" not in MODULES:
        pytest.skip("the emulated library is not built")
    return request.param


def torch_dtype(name: str) -> torch.dtype:
    return getattr(torch, DTYPES[name].torch)


@dataclass
class Call:
    """A case with its inputs: what a test calls."""

    case: Case
    dtype: str
    inputs: list[torch.Tensor | None]

    @property
    def operation(self) -> Operation:
        return self.case.operation

    @property
    def attributes(self) -> dict[str, Any]:
        return self.case.attributes

    def ours(self, *inputs: Any, **keywords: Any) -> Any:
        """The package's function, on the call's inputs unless others are given."""
        function = getattr(warpsmith, self.operation.name)
        tensors = zip(tensor_names(self.operation), inputs or self.fresh(), strict=True)
        return function(**dict(tensors), **self.attributes, **keywords)

    def operator(self, *inputs: Any, **keywords: Any) -> Any:
        """The operator of torch.ops."""
        function = getattr(torch.ops.warpsmith, self.operation.name)
        return function(*(inputs or self.fresh()), **self.attributes, **keywords)

    def fresh(self) -> list[torch.Tensor | None]:
        """The inputs, in-out tensors copied: calls change those."""
        return [
            x.clone() if x is not None and p.is_written else x
            for x, p in zip(self.inputs, self.operation.parameters, strict=False)
        ]

    def theirs(self, *inputs: torch.Tensor | None) -> tuple[Any, ...]:
        """torch's values of in-out tensors and outputs, in double precision, on the CPU."""
        with torch.no_grad() if not inputs else torch.enable_grad():
            doubles = inputs or doubles_of(self.inputs)
            found = torch_function(self.operation.name)(*doubles, **self.attributes)
        written = [p for p in self.operation.parameters if p.is_written]
        return found if len(written) > 1 else (found,)

    @cached_property
    def written(self) -> list[tuple[str, Any]]:
        """Name and layout (None where the call has it not) of what is written."""
        pairs = zip(self.operation.parameters, self.case.layouts(self.dtype), strict=True)
        return [(p.name, layout) for p, layout in pairs if p.is_written]

    def check(self, results: Any, accumulate: str = "f32") -> None:
        """That the results of `ours` are torch's, within the operation's own tolerance."""
        found = results_of(results)
        expected = self.theirs()
        there = [
            (at, name, layout, want)
            for at, ((name, layout), want) in enumerate(zip(self.written, expected, strict=True))
            if layout is not None and (name in self.operation.outputs or not self.operation.outputs)
        ]
        assert len(found) == len(there)
        for result, (at, name, layout, want) in zip(found, there, strict=True):
            assert result.dtype == torch_dtype(layout.dtype), name
            assert tuple(result.shape) == layout.shape == tuple(want.shape), name
            try:
                tolerance = layout.tolerance_in.get(accumulate, layout.tolerance)
                assert_within(result, want, tolerance, f"{self.operation.name}: {name}")
            except AssertionError:
                # As near as torch itself will do, where rounding before the end loses digits.
                if not result.is_floating_point() or DTYPES[self.dtype].bits < 16:
                    raise
                error = (result.cpu().double() - want).norm()
                near = self.theirs(*self.inputs)[at]
                if not error <= 2 * (near.detach().cpu().double() - want).norm():
                    raise


def results_of(results: Any) -> tuple[torch.Tensor, ...]:
    return results if isinstance(results, tuple) else (results,)


def doubles_of(inputs: list[torch.Tensor | None]) -> list[torch.Tensor | None]:
    """The inputs on the CPU, floats in double precision."""
    return [
        x if x is None else (x.cpu().double() if x.is_floating_point() else x.cpu().clone())
        for x in inputs
    ]


def floats_of(inputs: list[torch.Tensor | None]) -> list[torch.Tensor]:
    """Those of the inputs that can have a gradient."""
    return [x for x in inputs if x is not None and x.is_floating_point()]


def requiring_gradients(inputs: list[torch.Tensor | None]) -> list[torch.Tensor | None]:
    """Copies, the floats of which require a gradient."""
    return [
        x.detach().clone().requires_grad_() if x is not None and x.is_floating_point() else x
        for x in inputs
    ]


def assert_within(
    actual: torch.Tensor,
    expected: torch.Tensor,
    tolerance: tuple[float, float, float],
    what: str = "",
) -> None:
    """As the harness judges: relative to the norm, and for the worst element; zeros: equality."""
    relative, worst, floor = tolerance
    got = actual.detach().cpu().double()
    want = expected.detach().cpu().double()
    if relative == worst == 0:
        want = expected.detach().cpu().to(actual.dtype).double()
    same = (got == want) | (got.isnan() & want.isnan())
    got, want = torch.where(same, 0, got), torch.where(same, 0, want)
    error = (got - want).abs()
    if relative == worst == 0:
        assert same.all(), f"{what}: differs by up to {error.max()}"
        return
    size = torch.where(same, expected.detach().cpu().double().nan_to_num(0, 0, 0), want).norm()
    if relative > 0:
        assert error.norm() <= relative * size + 1e-30, f"{what}: {error.norm()} of {size}"
    if worst > 0 and error.numel() > 0:
        assert (error <= worst * (want.abs() + floor)).all(), f"{what}: {error.max()}"


def assert_close(actual: torch.Tensor, expected: torch.Tensor) -> None:
    """For values that are sums of several results: looser than one operation."""
    tolerances = {torch.float16: (1e-2, 1e-3), torch.bfloat16: (4e-2, 4e-3)}
    rtol, atol = tolerances.get(actual.dtype, (1e-4, 1e-5))
    torch.testing.assert_close(
        actual.detach().cpu().double(),
        expected.detach().cpu().double(),
        rtol=rtol,
        atol=atol
        * max(1.0, float(expected.detach().double().abs().max()) if expected.numel() else 1.0),
        equal_nan=True,
    )


def _elements(case: Case, dtype: str) -> int:
    product = 0
    for layout in case.layouts(dtype):
        if layout is not None:
            product += torch.Size(layout.shape).numel()
    return product


def cases_for(operation: Operation) -> list[Case]:
    """Smoke cases, then small ones that straddle boundaries."""
    dtype = operation.dtypes[0]
    small = [c for c in cases_of(operation, "smoke") if _elements(c, dtype) <= SMALL]
    more = [c for c in cases_of(operation, "verify") if _elements(c, dtype) <= SMALL]
    return small[:_MOST] + [c for c in more if c not in small][:2]


def call_of(case: Case, dtype: str, device: str = "cpu", seed: int = 1) -> Call:
    return Call(case, dtype, case.inputs(dtype, device, seed))


def call_with(operation: Operation, device: str = "cpu", seed: int = 1) -> Call:
    """The operation's first small case that has elements, in its first dtype of torch's."""
    return calls_with(operation, device, seed)[0]


def calls_with(operation: Operation, device: str = "cpu", seed: int = 1) -> list[Call]:
    """One call for each set of attributes and of optional tensors among the small cases."""
    dtype = "f32" if "f32" in operation.dtypes else operation.dtypes[0]
    found: dict[Any, Case] = {}
    for case in cases_for(operation):
        layouts = case.layouts(dtype)
        if any(layout is not None and 0 in layout.shape for layout in layouts):
            continue
        key = (*case.attributes.values(), *(layout is None for layout in layouts))
        found.setdefault(key, case)
    return [call_of(case, dtype, device, seed) for case in list(found.values())[:4]]


# f64 inputs have their own reference; 8-bit floats are tested where torch can compute with them.
DTYPE_CASES = [
    pytest.param(operation, dtype, id=f"{operation.name}-{dtype}")
    for operation in OPERATIONS.values()
    for dtype in operation.dtypes
]
OPERATION_CASES = [pytest.param(op, id=op.name) for op in OPERATIONS.values()]
MAKING = [pytest.param(op, id=op.name) for op in OPERATIONS.values() if op.outputs]
DIFFERENTIABLE = [pytest.param(op, id=op.name) for op in OPERATIONS.values() if op.gradient]
