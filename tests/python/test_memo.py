"""A call that differs from the last one of its operation is checked, and its rung chosen, anew."""

import threading
from typing import Any

import pytest
import torch
import warpsmith
from conftest import assert_close
from warpsmith._catalogue import OPERATIONS
from warpsmith._libraries import MODULES

Pair = tuple[torch.Tensor, torch.Tensor]


def pair(device: str, *shape: int, dtype: torch.dtype = torch.float32) -> Pair:
    x, y = torch.randn(2, *shape).to(device, dtype)
    return x.clone(), y.clone()


@pytest.fixture(params=["run", "run_fresh", "run_given"])
def run(request: pytest.FixtureRequest) -> Any:
    """mul as the binding has it: the package's function would try another way where one fails."""
    operation = OPERATIONS["mul"]
    function = getattr(operation, request.param)
    if request.param == "run":
        return function

    def quick(*arguments: Any) -> None:
        if not function(*arguments):  # the general way says why
            operation.run(*arguments)
            pytest.fail("what the quick way did not take, the general one did")

    return quick


def check_mul(run: Any, x: torch.Tensor, y: torch.Tensor, *rung: int) -> None:
    out = torch.full_like(x, float("nan"))
    run(x, y, out, *rung)
    assert_close(out, torch.mul(x, y).cpu())


def variants(device: str) -> dict[str, Pair]:
    """Calls that each differ in one thing from the first."""
    x, y = pair(device, 8, 64)
    far, _ = pair(device, 8 * 64 + 1)
    return {
        "first": (x, y),
        "other addresses": pair(device, 8, 64),
        "an address 4 bytes on": (x, far[1:].view(8, 64)),
        "other strides": (x, pair(device, 64, 8)[0].t()),
        "a broadcast": (x, y[:1]),
        "another shape": pair(device, 16, 32),
        "another rank": pair(device, 512),
        "another dtype": pair(device, 8, 64, dtype=torch.float16),
        "no elements": pair(device, 0, 64),
    }


def test_what_differs_is_chosen_anew(run: Any, device: str) -> None:
    calls = variants(device)
    for x, y in list(calls.values()) * 2:
        check_mul(run, *calls["first"])
        check_mul(run, x, y)
        check_mul(run, x, y)


def layouts(device: str) -> dict[str, torch.Tensor]:
    x = torch.randn(4, 6, 8, 10, device=device)
    return {
        "dense": x,
        "channels last": x.to(memory_format=torch.channels_last),
        "a transpose": x.transpose(1, 3),
        "with gaps": x[:, :, ::2, :7],
        "one extent of 1": x[:, :1],
        "expanded": x[:1].expand(4, 6, 8, 10),
        "no elements": x[:, :0],
        "half": x.half(),
    }


@pytest.mark.parametrize("name", layouts("cpu"))
def test_outputs_that_the_binding_makes_are_torch_s(name: str, device: str) -> None:
    x = layouts(device)[name]
    warpsmith.relu(x)
    made = OPERATIONS["relu"].run_made(x)
    want = torch.empty_like(x)
    assert (made.dtype, made.device, made.shape) == (want.dtype, want.device, want.shape)
    assert made.stride() == want.stride() and made.untyped_storage().resizable()
    assert made._base is None and made._version == 0 and not made.requires_grad
    assert_close(made, torch.relu(x).cpu())
    with torch.inference_mode():
        assert OPERATIONS["relu"].run_made(x).is_inference()


def test_outputs_are_made_of_what_is_read(device: str) -> None:
    """None where they might be others than the last call's."""
    x, _ = pair(device, 8, 64)
    made = OPERATIONS["relu"].run_made
    warpsmith.relu(x)
    assert made(x) is not None
    others = (x[:4], x.half(), x.t(), x.view(-1), x.to("meta"), x.to_sparse(), None, 1.0)
    assert [made(other) for other in others] == [None] * len(others)
    assert made() is None
    assert made(x) is not None
    torch.use_deterministic_algorithms(True)  # sets what it allocates
    try:
        assert made(x) is None
        torch.testing.assert_close(warpsmith.relu(x), torch.relu(x))
    finally:
        torch.use_deterministic_algorithms(False)

    x = torch.randn(4, 32, device=device)
    for k, dim in ((3, -1), (5, -1), (3, 0), (3, 0)):
        for _ in range(2):
            got, want = warpsmith.topk(x, k, dim), torch.topk(x, k, dim)
            assert torch.equal(got.values, want.values) and got.indices.dtype == torch.int64


@pytest.mark.parametrize("name", ["an address 4 bytes on", "other strides"])
def test_a_rung_that_does_not_take_the_next_call(name: str, run: Any, device: str) -> None:
    calls = variants(device)
    rung = OPERATIONS["mul"].codes["vector_x4"]
    check_mul(run, *calls["first"], rung)
    for _ in range(2):
        with pytest.raises(ValueError, match="does not take"):
            check_mul(run, *calls[name], rung)
        check_mul(run, *calls[name])


def test_an_output_that_does_not_fit_the_next_call(run: Any, device: str) -> None:
    x, y = pair(device, 8, 64)
    out = torch.empty_like(x)
    run(x, y, out)
    for wrong in (out[:4], out.half(), out[:1].expand(8, 64)):
        with pytest.raises(ValueError):
            run(x, y, wrong)
    check_mul(run, x, torch.randn_like(x))


def test_other_attributes(device: str) -> None:
    x, _ = pair(device, 8, 64)
    for approximate in ("none", "tanh", "none"):
        result = warpsmith.gelu(x, approximate=approximate)
        assert torch.equal(result, warpsmith.gelu(x.clone(), approximate=approximate))
        assert_close(result, torch.nn.functional.gelu(x.cpu(), approximate=approximate))


def test_an_output_that_becomes_an_input(run: Any, device: str) -> None:
    """Other addresses of the same layouts, but now the output is where an input is."""
    x, y = pair(device, 8, 64)
    a, b = x[:, :32], x[:, 32:]
    memory = torch.randn(3, 8, 64, device=device)
    for _ in range(2):
        check_mul(run, x, y)
        run(x, y, x)  # mul may be computed in place
        check_mul(run, a, b)
        with pytest.raises(ValueError, match="shares memory"):
            run(memory[0], memory[1], memory.view(-1)[256 : 256 + 512].view(8, 64))


def test_each_thread_has_its_own() -> None:
    failures: list[BaseException] = []

    def work(rows: int) -> None:
        try:
            for _ in range(5):
                check_mul(OPERATIONS["mul"].run_fresh, *pair("cpu", rows, 64))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(rows,)) for rows in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.cuda
def test_other_devices(run: Any) -> None:
    devices = [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    devices += ["cpu"] if "emulated" in MODULES else []  # its library may not be built here
    x, y = pair("cpu", 8, 64)
    for device in devices * 2:
        check_mul(run, x.to(device), y.to(device))
    with pytest.raises(ValueError):
        check_mul(run, x.to("cuda:0"), y)
