"""Result files keep what was measured, and tables stand between their marks."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(name="tool")
def load_tool() -> ModuleType:
    path = ROOT / "tools" / "results_table.py"
    spec = importlib.util.spec_from_file_location("results_table", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def report() -> dict:
    rung = {"name": "add/a", "role": "rung", "verdict": "passed", "runs": 50, "median_us": 2.5}
    rung |= {"rate": 123456789.25, "of_ceiling": 0.98765}
    peer = {"name": "cub", "role": "peer", "verdict": "passed", "runs": 50, "median_us": 5.0}
    group = {"run": 0, "family": "elementwise", "operation": "add", "problem": "add f32 [4, 4]"}
    group |= {"bytes": 1234567.0, "bound": "memory", "measurements": [rung, peer]}
    run = {"revision": "abc", "date": "2026-11-21T00:00:00Z", "options": {"min_runs": 50}}
    device = {"name": "NVIDIA H200"}
    results = [group]
    return {"tool": "warpsmith", "format": 2, "device": device, "runs": [run], "results": results}


def test_a_measurement_is_a_line_with_four_digits(tool: ModuleType) -> None:
    text = tool.compact(report())
    assert json.loads(text)["results"][0]["measurements"][0]["rate"] == 123500000
    assert json.loads(text)["results"][0]["bytes"] == 1234567
    lines = [line for line in text.splitlines() if '"name":"add/a"' in line]
    assert len(lines) == 1
    assert '"of_ceiling":0.9877' in lines[0]
    assert tool.compact(json.loads(text)) == text


def test_results_are_filed_by_family_and_operation(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    monkeypatch.setattr(tool, "RESULTS", tmp_path / "results")
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    first.write_text(json.dumps(report()))
    other = report()
    other["runs"][0]["date"] = "2026-11-22T00:00:00Z"
    other["results"][0]["measurements"][0]["median_us"] = 2.0  # of a newer run
    other["results"][0]["measurements"][1]["name"] = "torch"
    second.write_text(json.dumps(other))
    tool.add([first, second])
    filed = json.loads((tmp_path / "results/h200/elementwise/add.json").read_text())
    assert [group["run"] for group in filed["results"]] == [1, 0], "the newest first"
    (row,) = tool.rows(filed)
    assert row.startswith("| add f32 [4, 4] | a | 2.0 |")
    assert row.endswith("| 2.50 torch, 2.00 cub (of 2.5) |")


def test_a_newer_run_replaces_what_says_no_more(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    monkeypatch.setattr(tool, "RESULTS", tmp_path / "results")
    target = tmp_path / "results/h200/elementwise/add.json"

    def add(day: int, problem: str, *names: str) -> list[tuple[str, str]]:
        data = report()
        data["runs"][0]["date"] = f"2026-11-{day}T00:00:00Z"
        (group,) = data["results"]
        group["problem"] = problem
        group["measurements"] = [{**group["measurements"][0], "name": name} for name in names]
        written = tmp_path / "written.json"
        written.write_text(json.dumps(data))
        tool.add([written])
        filed = json.loads(target.read_text())
        assert sorted({group["run"] for group in filed["results"]}) == [*range(len(filed["runs"]))]
        date = [run["date"][8:10] for run in filed["runs"]]
        return [(group["problem"], date[group["run"]]) for group in filed["results"]]

    assert add(20, "one", "add/a", "cub") == [("one", "20")]
    assert add(20, "two", "add/a") == [("one", "20"), ("two", "20")]
    assert add(22, "one", "add/a") == [("one", "22"), ("one", "20"), ("two", "20")]
    assert add(23, "one", "add/a", "cub", "torch") == [("one", "23"), ("two", "20")]
    assert add(21, "two", "add/a", "torch") == [("one", "23"), ("two", "21")]
    assert add(19, "two", "add/a") == [("one", "23"), ("two", "21"), ("two", "19")]


@pytest.mark.parametrize(
    ("device", "folder"),
    [
        ("NVIDIA H200", "h200"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA A100-SXM4-40GB", "a100"),
        ("NVIDIA GeForce RTX 4090", "4090"),
    ],
)
def test_a_device_has_a_folder(tool: ModuleType, device: str, folder: str) -> None:
    assert tool.folder_of(device) == folder


def test_what_failed_is_no_fastest_rung(tool: ModuleType) -> None:
    data = report()
    measurements = data["results"][0]["measurements"]
    wrong = {**measurements[0], "name": "add/quick", "verdict": "failed", "median_us": 1.0}
    measurements.append(wrong)
    measurements[1]["verdict"] = "failed"
    (row,) = tool.rows(data)
    assert row.startswith("| add f32 [4, 4] | a | 2.5 |")
    assert row.endswith("| 2.00 cub (failed) |")
    measurements.remove(measurements[0])
    assert not list(tool.rows(data))


def test_a_sustained_run_is_a_row_of_its_own(tool: ModuleType) -> None:
    data = report()
    sustained = json.loads(json.dumps(data["results"][0])) | {"mode": "sustained"}
    sustained["measurements"][1] |= {"variant": 3, "variants": 8}
    data["results"].append(sustained)
    burst, other = tool.rows(data)
    assert burst.startswith("| add f32 [4, 4] | a |")
    assert other.startswith("| add f32 [4, 4], sustained | a |")
    assert other.endswith("| 2.00 cub (3 of 8) |")


def test_tables_stand_between_their_marks(tool: ModuleType) -> None:
    page = tool.with_tables("# Lesson\n\nText.\n", "| a |")
    assert "## Measured" in page
    again = tool.with_tables(page + "\nAfter.\n", "| b |")
    assert "| a |" not in again
    assert "| b |" in again
    assert again.endswith("After.\n")
