"""The list of chapters beside every page: the theme's own markup, made from the titles at once.

Left to them, Sphinx copies the nodes of the whole list for each page, and the theme parses its HTML
once more: most of what the site took.
"""

import html
from typing import Any

from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

Chapters = list[tuple[str, str]]  # name and title of each page, as HTML
Lists = list[tuple[str, Chapters]]  # with their captions

ARROW = '<span class="icon"><svg><use href="#svg-arrow-right"></use></svg></span>'


class Sidebar:
    """Of one page."""

    def __init__(self, app: Sphinx, page: str) -> None:
        self.uri = app.builder.get_relative_uri
        self.root = app.config.root_doc
        self.lists: dict[str, Lists] = app.env.book_lists
        self.page = page
        self.trail = trail(app.env, page)  # what is open
        self.boxes = 0

    def html(self) -> str:
        return "".join(
            f'<p class="caption" role="heading"><span class="caption-text">{caption}</span></p>\n'
            f"{self.chapters(chapters, 1)}\n"
            for caption, chapters in self.lists[self.root]
        )

    def chapters(self, chapters: Chapters, level: int) -> str:
        is_open = any(name in self.trail for name, _ in chapters)
        items = "\n".join(self.chapter(name, title, level) for name, title in chapters)
        classes = ' class="current"' * is_open
        return f"<ul{classes}>\n{items}\n</ul>"

    def chapter(self, name: str, title: str, level: int) -> str:
        is_open = name in self.trail
        is_this = name == self.page
        uri = "#" if is_this else self.uri(self.page, name)
        link = f'<a class="{"current " * is_this}reference internal" href="{uri}">{title}</a>'
        number = self.boxes + 1
        below = [chapter for _, some in self.lists[name] for chapter in some]
        classes = f"toctree-l{level}" + " current" * is_open
        if below:
            self.boxes = number
            box = f"toctree-checkbox-{number}"
            link += (
                f'<input aria-label="Toggle navigation of {title}"{" checked" * is_open} '
                f'class="toctree-checkbox" id="{box}" name="{box}" role="switch" type="checkbox"/>'
                f'<label for="{box}">{ARROW}</label>{self.chapters(below, level + 1)}\n'
            )
            classes += " has-children"
        return f'<li class="{classes}{" current-page" * is_this}">{link}</li>'


def lists_of(env: BuildEnvironment, page: str) -> Lists:
    """A page's lists of chapters."""
    return [
        (
            html.escape(tree.get("caption") or ""),
            [
                (name, html.escape(title or env.titles[name].astext()))
                for title, name in tree["entries"]
            ],
        )
        for tree in env.tocs[page].findall(addnodes.toctree)
    ]


def trail(env: BuildEnvironment, page: str) -> set[str]:
    """The page and what it is below."""
    parents = {below: name for name, some in env.toctree_includes.items() for below in some}
    found = {page}
    while page in parents and parents[page] not in found:
        page = parents[page]
        found.add(page)
    return found


def _collect(app: Sphinx, env: BuildEnvironment) -> None:
    env.book_lists = {page: lists_of(env, page) for page in env.found_docs}


def _leave_out(app: Sphinx, page: str, template: str, context: dict[str, Any], tree: Any) -> None:
    context.pop("toctree", None)  # the theme would ask for it


def _put_in(app: Sphinx, page: str, template: str, context: dict[str, Any], tree: Any) -> None:
    context["furo_navigation_tree"] = Sidebar(app, page).html()


def setup(app: Sphinx) -> dict[str, bool]:
    theme = 500  # when the theme comes
    app.connect("env-updated", _collect)
    app.connect("html-page-context", _leave_out, priority=theme - 1)
    app.connect("html-page-context", _put_in, priority=theme + 1)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
