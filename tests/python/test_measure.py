"""Peers from Python's packages, as the bench loop calls them; no GPU is needed for that."""

import importlib
import json
from pathlib import Path

import pytest
import torch
import tvm_ffi
import warpsmith
from warpsmith import _measure
from warpsmith._catalogue import OPERATIONS

SOFTMAX = OPERATIONS["softmax"]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package of which `inner.calls` tells what was called."""
    folder = tmp_path / "a_peer_of_tests"
    folder.mkdir()
    # Its function shadows its module, as some packages' do.
    (folder / "__init__.py").write_text("from a_peer_of_tests.inner import run as inner\n")
    (folder / "inner.py").write_text("calls = []\ndef run(x, scale):\n    calls.append((x, scale))")
    monkeypatch.syspath_prepend(tmp_path)
    return folder.name


def arguments() -> tuple[str, list[object]]:
    """Attributes and tensors of a call of softmax, as the C++ loop hands them over."""
    values = json.dumps([attribute.default for attribute in SOFTMAX.attributes])
    x = torch.arange(6.0).reshape(2, 3)
    return values, [tvm_ffi.from_dlpack(t) for t in (x, torch.empty_like(x))]


def test_a_peer_is_an_expression_on_the_loops_tensors(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SOFTMAX.python_peers, "tests", f"{package}.inner.run(x.t(), scale=2)")
    assert "tests" in _measure.peer_names()
    peer = _measure._Peer("tests")
    assert peer.packages == {package}
    values, tensors = arguments()
    for _ in range(2):
        peer(SOFTMAX.id, values, tensors, 0)
    calls = importlib.import_module(f"{package}.inner").calls
    assert [(tuple(x.shape), scale) for x, scale in calls] == [((3, 2), 2)] * 2
    assert calls[0][0].data_ptr() == tensors[0].data_ptr()
    with pytest.raises(ValueError, match="relu has no peer 'tests'"):  # to the loop a skip
        peer(OPERATIONS["relu"].id, "[]", tensors, 0)


def test_torch_is_a_peer_of_every_operation() -> None:
    peer = _measure._Peer("torch")
    values, tensors = arguments()
    peer(SOFTMAX.id, values, tensors, 0)
    assert "torch" in _measure._versions([peer])


def test_a_package_that_is_not_there_is_told_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(SOFTMAX.python_peers, "far", "a_package_of_nobody.softmax(x)")
    with pytest.raises(ValueError, match=r"'far' needs a_package_of_nobody, which is not inst"):
        warpsmith.bench("softmax", peers=["far"])
    with pytest.raises(ValueError, match=r"peers are 'torch', 'compile'.*, not 'nothing'"):
        warpsmith.bench("softmax", peers=["nothing"])
