"""The report and its pictures: whole, with nothing from elsewhere, and the numbers of the JSON."""

import copy
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import html5lib
import pytest
import warpsmith
from warpsmith import _plots
from warpsmith._catalogue import OPERATIONS

ROOT = Path(__file__).resolve().parents[2]
SOFTMAX = ROOT / "results" / "h200" / "softmax" / "softmax.json"
RELU = ROOT / "results" / "h200" / "elementwise" / "relu.json"
SVG = "{http://www.w3.org/2000/svg}"


def measured(problem: str) -> dict[str, Any]:
    """One problem of what an H200 measured, as a result file."""
    data = json.loads(SOFTMAX.read_text())
    groups = [group for group in data["results"] if problem in group["problem"]]
    return {**data, "results": groups[:1]}


ROWS = "bf16 [16384, 4096]"
ONE = measured(ROWS)
MEASURED = ONE["results"][0]["measurements"]


def slow(measurement: dict[str, Any], factor: float) -> None:
    """Its time `factor` times as long."""
    measurement["median_us"] *= factor
    measurement["rate"] /= factor
    measurement["of_ceiling"] /= factor


def slower(data: dict[str, Any], factor: float) -> dict[str, Any]:
    """The same, every time `factor` times as long."""
    changed = copy.deepcopy(data)
    for group in changed["results"]:
        for m in group["measurements"]:
            if "median_us" in m:
                slow(m, factor)
    return changed


@pytest.fixture(scope="module")
def counted() -> warpsmith._explore.Ladder:
    return warpsmith.ladder("softmax", device="cpu")


def marks(svg: str, tag: str = "g") -> dict[str, ET.Element]:
    """What of a picture stands for something, by name."""
    found = ET.fromstring(svg).iter(f"{SVG}{tag}")
    return {e.get("data-name", ""): e for e in found if e.get("data-name")}


def bars(row: ET.Element) -> list[float]:
    """Lengths of a row's bars, as shares."""
    rects = [r for r in row.iter(f"{SVG}rect") if r.get("class") != "track"]
    return [float(r.get("width", "").rstrip("%")) / 100 for r in rects]


# ---- Pictures ------------------------------------------------------------------------------------


def test_bars_are_the_measurements() -> None:
    one = copy.deepcopy(ONE)
    measurements = one["results"][0]["measurements"]
    peer = next(m for m in measurements if m["role"] == "peer")
    slow(peer, peer["of_ceiling"] / 1.25)
    most = max(m.get("of_ceiling", 0) for m in measurements)
    assert most > 1  # a peer beats the copy here: then it, not the ceiling, is a full bar
    rows = marks(_plots.ladder(one))
    assert list(rows) == [m["name"] for m in measurements]
    for m in measurements:
        row = rows[m["name"]]
        if "median_us" not in m:
            assert row.get("data-verdict") == "skipped"
            assert row.findtext(f"{SVG}title") == m["reason"]
            continue
        assert float(row.get("data-us", "")) == m["median_us"]
        assert float(row.get("data-rate", "")) == m["rate"]
        assert bars(row) == [pytest.approx(m["of_ceiling"] / most, rel=1e-3)]


def test_the_other_result_is_marked_where_it_was() -> None:
    rows = marks(_plots.ladder(ONE, against=slower(ONE, 2)))
    most = max(m.get("of_ceiling", 0) for m in MEASURED)
    for m in MEASURED:
        if "median_us" not in m:
            continue
        row = rows[m["name"]]
        assert float(row.get("data-other-us", "")) == pytest.approx(2 * m["median_us"])
        mark = next(s for s in row.iter(f"{SVG}svg"))
        ceiling = ONE["results"][0]["ceiling"]
        share = m["rate"] / 2 / ceiling / most
        assert float(mark.get("x", "").rstrip("%")) == pytest.approx(100 * share, rel=1e-3)


def test_counted_bars_are_the_counts(counted: warpsmith._explore.Ladder) -> None:
    rows = marks(counted.plot().svg)
    assert len(rows) == len(counted.rungs)
    ran = [entry for entry in counted.rungs if "profile" in entry]
    least = min(entry["profile"]["cost"] for entry in ran)
    for entry in ran:
        moved = 32 * entry["profile"]["sectors"]
        row = rows[entry["rung"]]
        assert float(row.get("data-moved", "")) == moved
        shares = [min(1, entry["bytes"] / moved), least / entry["profile"]["cost"]]
        assert bars(row) == pytest.approx(shares, rel=1e-3)


def test_a_roofline_has_every_rung_at_its_rate() -> None:
    group = ONE["results"][0]
    points = marks(_plots.roofline(ONE), "circle")
    timed = {m["name"]: m for m in MEASURED if "median_us" in m and m["role"] != "copy"}
    assert points.keys() == timed.keys()
    for name, m in timed.items():
        rate = group["flops"] / (m["median_us"] * 1e-6)
        assert float(points[name].get("data-flops", "")) == pytest.approx(rate, rel=1e-4)
        intensity = group["flops"] / group["bytes"]
        assert float(points[name].get("data-intensity", "")) == pytest.approx(intensity, rel=1e-4)
    by_height = sorted(timed, key=lambda name: float(points[name].get("cy", "")))
    by_time = sorted(timed, key=lambda name: timed[name]["median_us"])
    assert [timed[n]["median_us"] for n in by_height] == [timed[n]["median_us"] for n in by_time]


def test_a_roofline_leaves_out_what_has_no_place_on_it() -> None:
    """Times that make rates of infinity, or none; and rates that are far apart."""
    strange = copy.deepcopy(ONE)
    timed = [m for m in strange["results"][0]["measurements"] if "median_us" in m]
    timed[0]["median_us"] = 1e-310
    timed[1]["median_us"] = 1e300
    points = marks(_plots.roofline(strange), "circle")
    assert timed[0]["name"] not in points
    assert timed[1]["name"] in points
    assert len(points) == sum(m["role"] != "copy" for m in timed) - 1


def test_a_roofline_of_many_problems_has_the_roofs_of_the_device() -> None:
    gemm = ROOT / "results" / "h200" / "gemm" / "gemm.json"
    svg = _plots.roofline([SOFTMAX, RELU, gemm])
    roofs = {float(e.get("data-roof", 0)) for e in ET.fromstring(svg).iter() if e.get("data-roof")}
    copies = [
        group["ceiling"]
        for path in (SOFTMAX, RELU, gemm)
        for group in json.loads(path.read_text())["results"]
        if group["bound"] == "memory"
    ]
    assert roofs == {max(copies), 989e12, 67e12}
    points = ET.fromstring(svg).iter(f"{SVG}circle")
    assert {"relu", "softmax", "gemm"} == {
        e.get("data-problem", "").partition(" ")[0] for e in points
    }


def test_changes_are_ratios() -> None:
    svg = _plots.plot("changes", ONE, against=slower(ONE, 1.25))
    ratios = {name: float(row.get("data-ratio", "")) for name, row in marks(svg).items()}
    assert ratios.keys() == {m["name"] for m in MEASURED if "median_us" in m}
    assert all(ratio == pytest.approx(1.25) for ratio in ratios.values())


def test_lines_are_those_of_the_profile(counted: warpsmith._explore.Ladder) -> None:
    profile = counted.profile("online")
    rows = [e for e in ET.fromstring(profile.plot().svg).iter(f"{SVG}g") if e.get("data-line")]
    assert [int(e.get("data-line", "")) for e in rows] == [line["line"] for line in profile.lines]
    for row, line in zip(rows, profile.lines, strict=True):
        share = line["cost"] / profile.totals["cost"]
        within = line["ideal_cost"] / profile.totals["cost"]
        assert bars(row) == pytest.approx([share, within], rel=1e-3)


# ---- The page ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("report") / "report.html"
    warpsmith.report(path, results=[SOFTMAX, RELU], against=slower(ONE, 1.25))
    return path.read_text()


def test_a_page_is_html(page: str) -> None:
    html5lib.HTMLParser(strict=True).parse(page)


def test_a_page_needs_nothing_from_elsewhere(page: str) -> None:
    for word in ("<script", "<link", "<img", "<iframe", "src=", "url(", "@import", "://"):
        assert word not in page, word
    targets = set(re.findall(r'href="([^"]*)"', page))
    names = set(re.findall(r'id="([^"]*)"', page))
    assert targets
    assert targets <= {f"#{name}" for name in names}
    assert "prefers-color-scheme: dark" in page


def test_a_page_has_every_rung_of_every_problem_and_its_source(page: str) -> None:
    groups = [g for p in (SOFTMAX, RELU) for g in json.loads(p.read_text())["results"]]
    names = set(re.findall(r'data-name="([^"]*)"', page))
    rungs = {m["name"] for g in groups for m in g["measurements"] if m["role"] == "rung"}
    assert rungs <= names
    for group in groups:
        assert group["problem"] in page
    for rung in rungs:
        operation, _, name = rung.partition("/")
        assert f'id="rung-{OPERATIONS[operation].family}-{name}"' in page
    assert "lanes are 1024 bytes apart" in page or "lanes are 2048 bytes apart" in page
    assert 'data-ratio="1.25"' in page


def test_what_a_file_says_is_text_and_no_markup(tmp_path: Path) -> None:
    data = copy.deepcopy(ONE)
    data["device"]["name"] = "<script>alert(1)</script>"
    data["results"][0]["problem"] = 'x" onload="alert(2)" <b>'
    data["results"][0]["measurements"][0]["name"] = "softmax/<i>naive"
    path = tmp_path / "report.html"
    warpsmith.report(path, results=data, with_counts=False)
    page = path.read_text()
    html5lib.HTMLParser(strict=True).parse(page)
    assert "<script" not in page
    assert 'onload="' not in page
    assert "<i>naive" not in page


def test_a_page_of_what_has_no_roofline(tmp_path: Path) -> None:
    """Nothing ran right, or no time can be drawn: the rest is still there."""
    path = tmp_path / "report.html"
    failed, instant = copy.deepcopy(ONE), copy.deepcopy(ONE)
    for m in failed["results"][0]["measurements"]:
        m["verdict"] = "failed"
    for m in instant["results"][0]["measurements"]:
        if "median_us" in m:
            m["median_us"] = 1e-310
    for results in (failed, instant):
        warpsmith.report(path, results=results)
        assert "softmax/online" in path.read_text()
        assert "data-intensity" not in path.read_text()


def test_a_page_of_the_emulator(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    warpsmith.report(path, "relu", against=warpsmith.ladder("relu", device="cpu").data)
    page = path.read_text()
    html5lib.HTMLParser(strict=True).parse(page)
    for rung in OPERATIONS["relu"].rungs:
        assert f'data-name="relu/{rung["name"]}"' in page
    assert page.count('data-ratio="1"') >= len(re.findall(r'data-cost="[1-9]', page))


# ---- What is no result ---------------------------------------------------------------------------

WRONG = {
    "cannot read nothing.json": "nothing.json",
    "is no JSON": ROOT / "pyproject.toml",
    "is no result file of `bench`": ROOT / "results" / "h200" / "profile.json",
    "has no results": {**ONE, "results": []},
    "role 'judge'": {
        **ONE,
        "results": [{**ONE["results"][0], "measurements": [{**MEASURED[0], "role": "judge"}]}],
    },
    "is called 'softmaks'": {
        "device": "emulator",
        "results": [{"rung": "softmaks/naive", "problem": "softmaks"}],
    },
}


@pytest.mark.parametrize("message", WRONG)
def test_what_is_no_result_is_told(message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        _plots.ladder(WRONG[message])
    path = tmp_path / "report.html"
    with pytest.raises(ValueError, match=re.escape(message)):
        warpsmith.report(path, results=WRONG[message])
    assert not path.exists()


def test_what_results_do_not_have_is_told() -> None:
    with pytest.raises(ValueError, match="has nothing of gemm; it has softmax"):
        _plots.ladder(SOFTMAX, "gemm")
    with pytest.raises(ValueError, match="did you mean"):
        _plots.ladder(SOFTMAX, "softmaxx")
    with pytest.raises(ValueError, match=r"no problem with '\[7, 7\]'; its first is softmax f32"):
        _plots.ladder(SOFTMAX, problem="[7, 7]")
    with pytest.raises(ValueError, match="no plot 'pie': 'ladder', 'roofline'"):
        _plots.plot("pie", SOFTMAX)
    with pytest.raises(ValueError, match="changes are between two results"):
        _plots.plot("changes", SOFTMAX)
    with pytest.raises(ValueError, match=r"no lines of softmax/naive: the emulator counts them"):
        _plots.plot("lines", SOFTMAX, "softmax/naive")
    with pytest.raises(ValueError, match="lines are a rung's"):
        _plots.plot("lines", SOFTMAX, "softmax")


def test_times_and_counts_are_not_compared(counted: warpsmith._explore.Ladder) -> None:
    with pytest.raises(ValueError, match="times and counts have nothing to compare"):
        _plots.plot("changes", ONE, against=counted.data)


# ---- In a notebook -------------------------------------------------------------------------------


def test_a_ladder_is_a_table_and_pictures(counted: warpsmith._explore.Ladder) -> None:
    text = repr(counted)
    assert max(map(len, text.splitlines())) <= 100
    table = counted._repr_html_()
    html5lib.HTMLParser(strict=True).parseFragment(table)
    for rung in OPERATIONS["softmax"].rungs:
        assert f"\n{rung['name']} " in text
        assert f">{rung['name']}</td>" in table
    assert counted.plot()._repr_svg_() == counted.plot().svg
    assert "softmax f16" in repr(counted.roofline())
    assert set(re.findall(r'data-ratio="([^"]*)"', counted.changes(counted).svg)) == {"1"}
    assert counted["online"]["rung"] == "softmax/online"
    with pytest.raises(KeyError, match="no 'onlin' in softmax f16"):
        counted["onlin"]


def test_a_profile_shows_the_source(counted: warpsmith._explore.Ladder, tmp_path: Path) -> None:
    profile = counted.profile("online")
    shown = profile._repr_html_()
    html5lib.HTMLParser(strict=True).parseFragment(shown)
    path = ROOT / "kernels" / "softmax" / "03_online.cuh"
    assert "struct OnlineKernel {" in path.read_text()
    assert "struct OnlineKernel {" in shown
    for line in profile.lines:
        assert f"\n{100 * line['cost'] / profile.totals['cost']:2.0f} %" in repr(profile)
        assert line["remarks"][0] in shown
    assert max(map(len, repr(profile).splitlines())) <= 100
    profile.plot().save(tmp_path / "lines.svg")
    ET.parse(tmp_path / "lines.svg")
    alone = warpsmith.profile("softmax/online", dtype="f32", shape=[64, 256])
    assert alone.totals["sectors_a_request"] == 32
    with pytest.raises(ValueError, match=r"softmax/warp_registers: skipped: .* not 4096"):
        warpsmith.profile("softmax/warp_registers", shape=[4, 4096])
    with pytest.raises(ValueError, match="profile wants a rung"):
        warpsmith.profile("softmax")


def test_results_are_read(counted: warpsmith._explore.Ladder, tmp_path: Path) -> None:
    results = warpsmith.results(SOFTMAX, RELU)
    assert {p.partition(" ")[0] for p in results.problems} == {"softmax", "relu"}
    assert "softmax bf16 [16384, 4096]" in repr(results)
    ladder = results.ladder(ROWS)
    assert ladder["online"]["median_us"] == next(
        m["median_us"] for m in MEASURED if m["name"] == "softmax/online"
    )
    assert "warp_registers" in repr(ladder)
    assert marks(ladder.plot().svg).keys() == {m["name"] for m in MEASURED}
    assert ladder.profile("online").rung == "softmax/online"
    assert results.roofline("relu", dtype="f32").svg.count("data-problem=") > 0
    runs = {group["run"] for group in results.data["results"]}
    assert runs == set(range(len(results.data["runs"])))
    with pytest.raises(KeyError, match="no problem with"):
        results.ladder("[7, 7]")

    path = tmp_path / "counts.json"
    path.write_text(json.dumps(counted.data))
    with pytest.raises(ValueError, match="was counted in the emulator"):
        warpsmith.results(path)
    other = {**ONE, "device": {**ONE["device"], "name": "NVIDIA A100"}}
    path.write_text(json.dumps(other))
    with pytest.raises(ValueError, match="results of two devices"):
        warpsmith.results(SOFTMAX, path)
    with pytest.raises(ValueError, match=r"of NVIDIA A100, .* of NVIDIA H200"):
        _plots.ladder([SOFTMAX, path])
    for wrong in (ROOT / "pyproject.toml", tmp_path / "nothing.json"):
        with pytest.raises(ValueError, match="cannot read"):
            warpsmith.results(wrong)
    with pytest.raises(ValueError, match="no result file is named"):
        warpsmith.results()
