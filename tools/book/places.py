"""Where pages are, and links between them; the names of what the catalogue tells."""

from pathlib import PurePosixPath
from typing import Any

from book.markdown import relative

Family = dict[str, Any]
Operation = dict[str, Any]
Rung = dict[str, Any]


def page_of_lesson(family: str) -> PurePosixPath:
    return PurePosixPath(f"kernels/{family}/README.md")


def page_of_rung(family: str, rung: str) -> PurePosixPath:
    return PurePosixPath(f"kernels/{family}/rungs/{rung}.md")


def page_of_operation(operation: str) -> PurePosixPath:
    return PurePosixPath(f"operations/{operation}.md")


PICTURES = PurePosixPath("pictures.md")
READING = PurePosixPath("docs/reading.md")


def link(text: str, target: PurePosixPath, page: PurePosixPath, anchor: str = "") -> str:
    return f"[{text}]({relative(target, page)}{'#' + anchor if anchor else ''})"
