"""The repository's Markdown as the site's: links, fences, and what MyST reads otherwise."""

import html
import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path, PurePosixPath

FENCE = re.compile(r"^( *)(`{3,}|~{3,})[^\n]*\n.*?^\1\2[ ]*$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)
LINK = re.compile(r"(?<=\]\()([^)\s]+)(?=\))")
MARKS = re.compile(r"^( *`{3,}\w*)[^\n`]*$", re.MULTILINE)  # what tests read behind a language

# (path from the root, anchor) to the same of the site, or None: it has none of it.
Resolve = Callable[[PurePosixPath, str], tuple[PurePosixPath, str] | None]


class DeadLinkError(Exception):
    """A file of the repository links to nothing; the text says which and where."""


def outside_of(pattern: re.Pattern[str], text: str, change: Callable[[str], str]) -> str:
    """The text with what lies between matches changed."""
    parts, at = [], 0
    for match in pattern.finditer(text):
        parts += [change(text[at : match.start()]), match[0]]
        at = match.end()
    return "".join([*parts, change(text[at:])])


def relative(target: PurePosixPath, page: PurePosixPath) -> str:
    return Path(os.path.relpath(target, page.parent)).as_posix()


def for_site(text: str, source: PurePosixPath, page: PurePosixPath, resolve: Resolve) -> str:
    """The text of the repository's file `source` as that of the site's page `page`."""

    def link(match: re.Match[str]) -> str:
        target, _, anchor = match[0].partition("#")
        if not target or re.match(r"\w+:", match[0]):
            return match[0]
        path = PurePosixPath(os.path.normpath(source.parent / target))
        found = resolve(path, anchor)
        if found is None:
            raise DeadLinkError(f"{source} links to {target}, which is nothing in the repository")
        there, anchor = found
        return relative(there, page) + (f"#{anchor}" if anchor else "")

    def prose(part: str) -> str:
        part = re.sub(r"^%", r"\\%", part, flags=re.MULTILINE)  # else a comment to MyST
        return outside_of(SPAN, part, lambda words: LINK.sub(link, words))

    return MARKS.sub(r"\1", outside_of(FENCE, text, prose))


# ---- Pieces of pages -----------------------------------------------------------------------------


def escaped(text: str) -> str:
    """A text that stays itself in a paragraph, but for its code spans."""
    return outside_of(SPAN, text, lambda part: re.sub(r"([\\`*_\[\]<>|$#])", r"\\\1", part))


def code(text: str) -> str:
    """An inline code span, also of text with backticks."""
    ticks = "`" * (1 + max(map(len, re.findall(r"`+", text)), default=0))
    return f"{ticks}{text}{ticks}"


def block(text: str, language: str) -> str:
    ticks = "`" * max(3, 1 + max(map(len, re.findall(r"`+", text)), default=0))
    return f"{ticks}{language}\n{text.rstrip()}\n{ticks}\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[int] = ()) -> str:
    """A table; `right`: the columns of numbers. A cell is a line: more would end the table."""

    def line(cells: Sequence[str]) -> str:
        if several := [cell for cell in cells if "\n" in cell]:
            raise ValueError(f"a cell of a table has several lines: {several[0]}")
        return "| " + " | ".join(re.sub(r"(?<!\\)\|", r"\\|", cell) for cell in cells) + " |"

    rule = ["--:" if i in right else "---" for i in range(len(head))]
    return "\n".join([line(head), "|" + "|".join(rule) + "|", *map(line, rows)]) + "\n"


def raw(markup: str) -> str:
    return f"```{{raw}} html\n{markup}\n```\n"


def figure(svg: str, caption: str) -> str:
    """A picture that scrolls in itself where a page is narrow."""
    words = html.escape(caption)
    return raw(
        f'<figure class="picture"><div class="scroll" tabindex="0">{svg}</div>'
        f"<figcaption>{words}</figcaption></figure>"
    )


def toctree(entries: Iterable[str], caption: str = "", depth: int = 1, hidden: bool = True) -> str:
    options = [f":caption: {caption}"] if caption else []
    options += [":hidden:"] if hidden else []
    options.append(f":maxdepth: {depth}")
    return "\n".join(["```{toctree}", *options, "", *entries, "```", ""])


def folded(summary: str, markdown: str) -> str:
    """A part that opens when asked for."""
    opening = f'<details class="folded"><summary>{html.escape(summary)}</summary>'
    return f"{raw(opening)}\n{markdown}\n{raw('</details>')}"
