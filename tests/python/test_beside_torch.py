"""tools/beside_torch.py compares what it asks of both packages."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
import beside_torch


@pytest.mark.parametrize("name", ["bmm", "topk", "embedding", "group_norm", "cross_entropy"])
def test_calls_are_as_torchs(name, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["beside_torch.py", name])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert beside_torch.main() == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.endswith("calls, 0 slower, 0 wrong")
    assert not last.startswith("0 calls")


def test_another_result_is_told(monkeypatch, capsys):
    wrong = beside_torch.case("half", lambda x: x, lambda x: x / 2, (3, 4))
    monkeypatch.setattr(beside_torch, "rows", lambda: [wrong])
    monkeypatch.setattr(sys, "argv", ["beside_torch.py", "half"])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert beside_torch.main() == 1
    assert "half float32: another result" in capsys.readouterr().out
