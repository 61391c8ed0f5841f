"""Looks at the site in build/docs/html as a reader does, in headless Chromium.

Usage: PYTHONPATH=tools python -m book.check

No link within the site leads nowhere, nothing is loaded from elsewhere, no page writes an error to
the console or is wider than the window at 400 and at 1400 pixels, search finds what is there, and
dark mode is dark. A report of the emulator is looked at likewise. Pictures of some pages are left
in build/docs/screenshots.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Page,
    Request,
    sync_playwright,
)
from playwright.sync_api import Error as PlaywrightError

ROOT = Path(__file__).resolve().parents[2]
HTML = ROOT / "build" / "docs" / "html"
SCREENSHOTS = ROOT / "build" / "docs" / "screenshots"

WIDTHS = (400, 1400)
HEIGHT = 1000
SHARES = 8  # of the pages: each is looked at in a browser of its own
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
# Pages of each kind; the first of a kind stands for the others.
PICTURED = (
    "index.html",
    "pictures.html",
    "docs/reading.html",
    "docs/profile.html",
    "kernels/*/README.html",
    "kernels/*/rungs/*.html",
    "operations/*.html",
)
# What a reader may look for, and a page that must be among those found.
SEARCHED = {
    "softmax": "kernels/softmax/README.html",
    "layer_norm": "operations/layer_norm.html",  # an operation
    "warp_specialized": "kernels/gemm/rungs/warp_specialized.html",  # a rung
    "softmax_f32x4": "operations/softmax.html",  # a seed's name
    "perfetto": "docs/trace.html",  # a word of a guide
}
REPORTED = "elementwise"  # a family that the emulator is quick with
REPORT = ROOT / "build" / "docs" / "report.html"


# ---- Links ---------------------------------------------------------------------------------------


class Links(HTMLParser):
    """What a page links to, loads, and can be linked to."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if "id" in given:
            self.ids.add(given["id"])
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link" and "href" in given:
            self.loaded.append(given["href"])
        elif "src" in given:
            self.loaded.append(given["src"])


def is_elsewhere(url: str) -> bool:
    parts = urlsplit(url)
    return bool(parts.scheme or parts.netloc)


def wrong_links(folder: Path) -> Iterator[str]:
    """A message for each link that leads nowhere, and for what a page takes from elsewhere."""
    pages = {str(path): Links(path) for path in sorted(folder.rglob("*.html"))}
    is_file = cache(os.path.isfile)  # most pages link to most others
    for path, page in pages.items():
        name = os.path.relpath(path, folder)
        here = str(Path(path).parent)
        for url in page.loaded:
            if is_elsewhere(url) and not url.startswith("data:"):
                yield f"{name} loads {url}: the site is to be read with no network"
        for url in (*page.links, *page.loaded):
            if is_elsewhere(url):
                continue
            parts = urlsplit(url)
            target = os.path.normpath(Path(here, unquote(parts.path))) if parts.path else path
            if not is_file(target):
                yield f"{name} links to {url}, which is no file"
                continue
            page_there = pages.get(target)
            if parts.fragment and page_there and unquote(parts.fragment) not in page_there.ids:
                yield f"{name} links to {url}, which has no such place"


# ---- In the browser ------------------------------------------------------------------------------


WIDENS = """() => {
  const mayScroll =
    ".table-wrapper, .highlight, pre, .scroll, .scrolling, .sidebar-drawer, .toc-drawer";
  const isWide = (e) => e.scrollWidth > e.clientWidth + 1;
  const wide = [document.documentElement, ...document.querySelectorAll("main, main *")].find(
    (e) => isWide(e) && !e.closest(mayScroll) && !e.closest("svg") &&
      (e === document.documentElement || getComputedStyle(e).overflowX !== "visible"));
  if (!wide) return null;
  const edge = wide.getBoundingClientRect().left + wide.clientWidth;
  const cause = [...wide.querySelectorAll("*")].find(
    (e) => e.getBoundingClientRect().right > edge + 1 && !e.parentElement.closest(mayScroll));
  const name = (e) => e.tagName.toLowerCase() + " '" + e.textContent.trim().slice(0, 40) + "'";
  return name(cause || wide);
}"""


class Reader:
    """A page of a browser, and what it complained about since the last look."""

    def __init__(self, browser: Browser, scheme: str = "light") -> None:
        self.page: Page = browser.new_page(color_scheme=scheme)
        self.complaints: list[str] = []
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.complaints.append(f"script error: {error}"))
        self.page.on(
            "requestfailed", lambda request: self.complaints.append(f"could not load {request.url}")
        )
        self.page.on("request", self._request)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"console: {message.text}")

    def _request(self, request: Request) -> None:
        if not request.url.startswith(("file:", "data:", "blob:")):
            self.complaints.append(f"asks for {request.url}")

    def look(self, path: Path, width: int = WIDTHS[-1]) -> None:
        self.page.set_viewport_size({"width": width, "height": HEIGHT})
        self.page.goto(path.as_uri(), wait_until="load")

    def widens(self, width: int) -> str | None:
        """Which element makes the page, or the article in it, wider than the window, if one does.
        Tables, code and pictures scroll in themselves."""
        self.page.set_viewport_size({"width": width, "height": HEIGHT})
        return self.page.evaluate(WIDENS)


def wrong_pages(browser: Browser, folder: Path, share: int = 0, of: int = 1) -> Iterator[str]:
    """Of a share of the pages. Each begins at the width where the one before ended: to lay out a
    page is most of what looking at it takes."""
    reader = Reader(browser)
    widths = WIDTHS
    for path in sorted(folder.rglob("*.html"))[share::of]:
        name = path.relative_to(folder)
        reader.complaints.clear()
        widths = widths[::-1]
        reader.look(path, widths[0])
        for width in widths:
            wide = reader.widens(width)
            if wide:
                yield f"{name} is wider than {width} pixels: {wide}"
        for complaint in reader.complaints:
            yield f"{name}: {complaint}"


def wrong_search(browser: Browser, folder: Path, patience: float = 20_000) -> Iterator[str]:
    reader = Reader(browser)
    for words, page in SEARCHED.items():
        reader.complaints.clear()
        reader.page.goto((folder / "search.html").as_uri() + f"?q={words}")
        try:
            reader.page.wait_for_selector(
                f'#search-results li a[href*="{page}"]', state="attached", timeout=patience
            )
        except PlaywrightError as error:
            yield f"search finds no {page} for {words}: {str(error).splitlines()[0]}"
        yield from (f"search for {words}: {complaint}" for complaint in reader.complaints)


def brightness(page: Page) -> float:
    """Of the page's ground, 0 to 255."""
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    numbers = [float(part) for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    return sum(numbers) / 3


def pages_of_each_kind(folder: Path) -> Iterator[Path]:
    for pattern in PICTURED:
        yield from sorted(folder.glob(pattern))[:1]


SCHEMES = {"light": lambda bright: bright > 200, "dark": lambda bright: bright < 60}


def wrong_theme(reader: Reader, scheme: str, name: str) -> Iterator[str]:
    """Of the page that the reader looks at."""
    found = brightness(reader.page)
    if not SCHEMES[scheme](found):
        yield f"{name}: {scheme} mode has a ground of brightness {found:.0f} of 255"


def wrong_themes(browser: Browser, folder: Path) -> Iterator[str]:
    for scheme in SCHEMES:
        reader = Reader(browser, scheme)
        for path in pages_of_each_kind(folder):
            reader.look(path)
            yield from wrong_theme(reader, scheme, str(path.relative_to(folder)))
        reader.page.close()


def make_report() -> Path:
    """What `warpsmith report` writes with no GPU."""
    program = ROOT / "build" / "emulated" / "warpsmith"
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        (program, "report", REPORTED, "-o", REPORT), cwd=ROOT, check=True, capture_output=True
    )
    return REPORT


def wrong_report(browser: Browser, path: Path) -> Iterator[str]:
    """The same of one page for itself: widths, console, both schemes, with all that folds open."""
    for scheme in SCHEMES:
        reader = Reader(browser, scheme)
        reader.look(path)
        reader.page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        for width in WIDTHS:
            wide = reader.widens(width)
            if wide:
                yield f"{path.name} is wider than {width} pixels: {wide}"
        yield from wrong_theme(reader, scheme, path.name)
        yield from (f"{path.name}: {complaint}" for complaint in reader.complaints)
        reader.page.close()


def take_pictures(browser: Browser, folder: Path, report: Path) -> int:
    """Some pages at each width, light and dark, for people to look at."""
    shutil.rmtree(SCREENSHOTS, ignore_errors=True)
    SCREENSHOTS.mkdir(parents=True)
    pages = {
        "-".join(p.relative_to(folder).with_suffix("").parts): p for p in pages_of_each_kind(folder)
    }
    pages["report"] = report
    for scheme in SCHEMES:
        reader = Reader(browser, scheme)
        for name, path in pages.items():
            for width in WIDTHS:
                reader.look(path, width)
                reader.page.screenshot(path=SCREENSHOTS / f"{name}-{width}-{scheme}.png")
        reader.page.close()
    return len(pages) * len(SCHEMES) * len(WIDTHS)


def browser_path() -> str | None:
    named = os.environ.get("CHROMIUM")
    return named or next(filter(None, map(shutil.which, BROWSERS)), None)


@contextmanager
def a_browser() -> Iterator[Browser]:
    """Without a GPU's emulation, which draws what nobody looks at."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=browser_path(), args=["--disable-gpu", "--disable-software-rasterizer"]
        )
        yield browser
        browser.close()


def links() -> list[str]:
    return list(wrong_links(HTML))


def pages(share: int) -> list[str]:
    with a_browser() as browser:
        return list(wrong_pages(browser, HTML, share, SHARES))


def others() -> list[str]:
    """Search, themes and a report."""
    with a_browser() as browser:
        wrong = [*wrong_search(browser, HTML), *wrong_themes(browser, HTML)]
        report = make_report()
        wrong += wrong_report(browser, report)
        taken = take_pictures(browser, HTML, report)
    print(f"docs-check: {taken} pictures in {SCREENSHOTS.relative_to(ROOT)}")
    return wrong


def main() -> int:
    if not (HTML / "index.html").exists():
        print("docs-check: no site in build/docs/html: `make docs` makes it")
        return 1
    if browser_path() is None:
        print(f"docs-check: no {', '.join(BROWSERS)} on PATH; the variable CHROMIUM may name one")
        return 1
    looks: list[Callable[[], list[str]]] = [others, links]  # the longest first
    looks += [partial(pages, share) for share in range(SHARES)]
    with ProcessPoolExecutor() as pool:
        looked = [pool.submit(look) for look in looks]
        wrong = [message for look in looked for message in look.result()]
    for message in wrong:
        print(f"docs-check: {message}")
    count = len(list(HTML.rglob("*.html")))
    print(f"docs-check: {count} pages, {len(wrong)} wrong")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
