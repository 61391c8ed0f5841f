"""The book's checks find what is wrong, and its pictures say what the device layer does.

Run by `make docs-check`, after the book is made: these want its packages and programs.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from book import check, program
from book.refusals import refusals
from book.rungs import copies_ahead
from playwright.sync_api import Browser, sync_playwright
from warpsmith import _figures
from warpsmith._catalogue import OPERATIONS

HEAD = '<!doctype html><html><head><meta charset="utf-8"><title>x</title></head><body><main>'


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = check.browser_path()
    assert path, "`tools/setup docs` installs Chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path)
        yield browser
        browser.close()


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ('<a href="gone.html">x</a>', "links to gone.html, which is no file"),
        ('<a href="#gone">x</a>', "links to #gone, which has no such place"),
        ('<script src="https://example.com/x.js"></script>', "the site is to be read with no"),
        ('<img src="gone.png">', "links to gone.png, which is no file"),
        ('<a href="/page.html">x</a>', "links to /page.html, which is no file"),
        ('<p id="here"></p><a href="page.html#here">x</a> <a href="https://example.com">y</a>', ""),
    ],
)
def test_dead_links_are_found(tmp_path: Path, body: str, wrong: str) -> None:
    (tmp_path / "page.html").write_text(HEAD + body)
    found = list(check.wrong_links(tmp_path))
    assert len(found) == bool(wrong), found
    assert wrong in "".join(found)


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ("<script>console.error('broken')</script>", "console: broken"),
        ("<script>undefinedFunction()</script>", "script error"),
        ('<p style="width: 900px">wide</p>', "wider than 400 pixels: p 'wide'"),
        ('<div style="overflow-x: auto"><p style="width: 900px">in it</p></div>', "wider than 400"),
        ('<div class="scroll" style="overflow-x: auto"><p style="width: 900px">x</p></div>', ""),
        ("<script>fetch('http://127.0.0.1:9/')</script>", "asks for http://127.0.0.1:9/"),
        ("<p>all well</p>", ""),
    ],
)
def test_what_a_reader_would_see_is_found(
    browser: Browser, tmp_path: Path, body: str, wrong: str
) -> None:
    (tmp_path / "page.html").write_text(HEAD + body)
    found = list(check.wrong_pages(browser, tmp_path))
    assert bool(found) == bool(wrong), found
    assert wrong in "".join(found)


def test_a_site_without_search_or_dark_mode_is_found(browser: Browser, tmp_path: Path) -> None:
    pages = ("index.html", "search.html", "operations/sum.html")
    (tmp_path / "operations").mkdir()
    for name in pages:
        (tmp_path / name).write_text(HEAD + "<style>body { background: #fff }</style>")
    missed = [m for m in check.wrong_search(browser, tmp_path, 500) if "search finds no " in m]
    assert len(missed) == len(check.SEARCHED)
    found = list(check.wrong_themes(browser, tmp_path))
    assert [("dark mode" in m, m.split(":")[0]) for m in found] == [
        (True, "index.html"),
        (True, "operations/sum.html"),
    ]


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ("<style>body { background: #fff }</style>", "dark mode has a ground"),
        ('<details><p style="width: 900px">wide</p></details>', "wider than 400 pixels: p 'wide'"),
        ("<script>console.error('broken')</script>", "console: broken"),
    ],
)
def test_what_is_wrong_in_a_report_is_found(
    browser: Browser, tmp_path: Path, body: str, wrong: str
) -> None:
    page = tmp_path / "report.html"
    page.write_text(HEAD + "<style>:root { color-scheme: light dark }</style>" + body)
    assert any(wrong in message for message in check.wrong_report(browser, page))


def test_a_report_reads_at_both_widths_in_both_schemes(browser: Browser) -> None:
    assert list(check.wrong_report(browser, check.make_report())) == []


def test_swizzles_spread_a_column_over_the_banks() -> None:
    passes = {name: _figures.column_passes(s) for name, s in program.models()["swizzles"].items()}
    assert passes.pop("plain rows of 128 bytes") == 8
    assert set(passes.values()) == {1}


@pytest.mark.parametrize("name", program.models()["fragments"])
def test_every_element_of_a_fragment_has_one_place(name: str) -> None:
    fragment = program.models()["fragments"][name]
    pairs = [
        pair
        for lanes, places in zip(fragment["lane"], fragment["place"], strict=True)
        for pair in zip(lanes, places, strict=True)
    ]
    assert len(set(pairs)) == len(pairs)
    lanes = {lane for lane, _ in pairs}
    assert lanes == set(range(128 if name.startswith("wgmma") else 32))
    assert _figures.fragment(fragment).count("<rect") > len(pairs)


def test_the_timeline_shows_what_the_trace_has() -> None:
    trace = program.trace("gemm/warp_specialized", ("--shape", "128x256x1024"))
    svg = _figures.timeline(trace)
    for words in ("warp 0", "waits for products", "copies in flight", "products in flight"):
        assert words in svg


@pytest.mark.parametrize(
    ("operation", "is_one"),
    [
        ("ld.global", False),
        ("cp.async", True),
        ("cp.async.bulk.shared.global", True),
        ("cp.async.bulk.tensor.shared.global.multicast", True),
        ("cp.async.bulk.tensor.global.shared", False),  # a store
    ],
)
def test_rungs_that_copy_asynchronously_have_a_timeline(operation: str, is_one: bool) -> None:
    assert copies_ahead({"profile": {"lines": [{"operation": operation}]}}) == is_one
    assert not copies_ahead({"profile": None})


def test_a_problem_that_a_rung_does_not_take_is_traced_on_its_own() -> None:
    trace = program.trace("gemm/wgmma_tf32", ("--shape", "128x256x1024"))
    assert trace["otherData"]["problem"].endswith("precision=tf32")


@pytest.mark.parametrize("name", OPERATIONS)
def test_wrong_calls_are_refused_with_reasons(name: str) -> None:
    told = refusals(name)
    assert not any("need out=" in text for _, _, text in told), told
    assert any(what.startswith("`rung=") and "nonsense" in text for what, _, text in told), told
