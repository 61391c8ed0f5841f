"""Makes the book's sources in build/docs/source, then with Sphinx the site in build/docs/html.

Usage: PYTHONPATH=tools:python python -m book.make
"""

import re
import shutil
import sys
from pathlib import Path, PurePosixPath
from typing import Any

from sphinx.cmd.build import build_main

from book import lessons, operations, pictures, places, program, reading, rungs
from book.markdown import DeadLinkError, code, for_site
from book.program import ROOT, say

OUT = ROOT / "build" / "docs"
SOURCE = OUT / "source"
HTML = OUT / "html"
FIRST = PurePosixPath("index.md")
NO_CHAPTER = {"build", "dist", "tests"}


class Book:
    """The pages by their paths from the root, as the repository has most of them."""

    def __init__(self) -> None:
        self.families = in_lesson_order(program.catalogue()["families"])
        self.told = program.told_rungs()
        self.timelines = rungs.timelines(self.told)
        self.markdown = [
            PurePosixPath(path.relative_to(ROOT).as_posix())
            for folder in sorted(ROOT.iterdir())
            if folder.is_dir() and folder.name not in NO_CHAPTER and folder.name[0] != "."
            for path in sorted(folder.rglob("*.md"))
        ]
        self.of_source = {}  # a rung's file, and its page
        for (family, name), rung in reversed(self.told.items()):
            for file in rungs.sources_of(rung):
                self.of_source[PurePosixPath(file)] = places.page_of_rung(family, name)
        self.copied: set[PurePosixPath] = set()
        self.listed: set[PurePosixPath] = set()  # folders with no page of their own

    def resolve(self, path: PurePosixPath, anchor: str) -> tuple[PurePosixPath, str] | None:
        """Where the site has what the repository has at a path."""
        if path == PurePosixPath("README.md"):
            return FIRST, anchor
        if path in self.markdown:
            return path, anchor
        if path in self.of_source:
            return self.of_source[path], ""
        if path.parts[0] == "results" and (ROOT / path).is_dir():
            return places.page_of_lesson(path.name), "measured"
        if path / "README.md" in self.markdown:
            return path / "README.md", anchor
        if (ROOT / path).is_dir():
            self.listed.add(path)
            return path / "index.md", ""
        if (ROOT / path).is_file():
            self.copied.add(path)
            return path, anchor
        return None

    def listing(self, folder: PurePosixPath) -> str:
        """The page of a folder to which something links: its files, to be had from the site."""
        names = sorted(path.name for path in (ROOT / folder).iterdir() if path.is_file())
        self.copied |= {folder / name for name in names}
        items = "\n".join(f"- [{code(name)}]({name})" for name in names)
        return f"---\norphan: true\n---\n\n# {folder}\n\n{items}\n"

    def text(self, source: PurePosixPath, page: PurePosixPath | None = None) -> str:
        return for_site((ROOT / source).read_text(), source, page or source, self.resolve)

    def contents(self) -> dict[PurePosixPath, str]:
        """Every page's text."""
        made = {path: self.text(path) for path in self.markdown}
        made[places.READING] += reading.by_topics(places.READING)
        for family in self.families:
            mine = [self.told[family["name"], rung["name"]] for rung in family["rungs"]]
            lesson = places.page_of_lesson(family["name"])
            made[lesson] = lessons.lesson_page(made[lesson], family, self.told, self.timelines)
            for rung in mine:
                page = places.page_of_rung(family["name"], rung["name"])
                drawn = self.timelines.get((family["name"], rung["name"]))
                made[page] = rungs.rung_page(family, rung, drawn)
            for operation in family["operations"]:
                page = places.page_of_operation(operation["name"])
                made[page] = operations.operation_page(family, operation, mine)
        made[PurePosixPath("operations/index.md")] = operations.operations_page(self.families)
        made[places.PICTURES] = pictures.pictures_page(self.families, self.told, self.timelines)
        guides = [path for path in self.markdown if path.parts[0] == "docs"]
        others: dict[str, list[PurePosixPath]] = {}  # what further folders have to read
        for path in self.markdown:
            if path.parts[0] not in ("docs", "kernels", "results"):
                others.setdefault(path.parts[0], []).append(path)
        for folder, some in others.items():
            readme = PurePosixPath(folder) / "README.md"
            if readme in some:
                some.remove(readme)
                made[readme] += lessons.contents(readme, some)
                others[folder] = [readme]
        text = self.text(PurePosixPath("README.md"), FIRST)
        made[FIRST] = lessons.first_page(text, self.families, guides, others)
        made |= {folder / "index.md": self.listing(folder) for folder in self.listed}
        return made


def in_lesson_order(families: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As the README tells the lessons; those that it does not name come after."""
    named = re.findall(r"kernels/(\w+)/README\.md", (ROOT / "README.md").read_text())
    order = {name: i for i, name in reversed(list(enumerate(named)))}
    return sorted(families, key=lambda family: order.get(family["name"], len(order)))


def write(book: Book) -> int:
    """Writes what differs, removes what is no page any more: Sphinx reads again what changed."""
    made = book.contents()
    wanted = set(made) | book.copied
    for path in SOURCE.rglob("*"):
        if path.is_file() and PurePosixPath(path.relative_to(SOURCE).as_posix()) not in wanted:
            path.unlink()
    for page, text in made.items():
        path = SOURCE / page
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
    for file in book.copied:
        path = SOURCE / file
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / file, path)
    return len(made)


def main() -> int:
    try:
        say("asking the program")
        count = write(Book())
    except (program.ProgramError, DeadLinkError) as error:
        say(str(error))
        return 1
    say(f"{count} pages")
    here = str(Path(__file__).parent)
    # Warnings are errors: a link that leads nowhere, a page that no other leads to.
    status = build_main(
        [
            "-W",
            "--keep-going",
            "-q",
            "-j",
            "auto",
            "-b",
            "html",
            "-c",
            here,
            "-D",
            f"release={program.catalogue()['version']}",
            "-d",
            str(OUT / "doctrees"),
            str(SOURCE),
            str(HTML),
        ]
    )
    if status == 0:
        say(f"{(HTML / 'index.html').relative_to(ROOT)}")
    return status


if __name__ == "__main__":
    sys.exit(main())
