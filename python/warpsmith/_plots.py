"""Pictures of results as SVG text, drawn by the library: those of `warpsmith plot` and `report`.

Results are what `bench` wrote on a GPU or `ladder --json` in the emulator: the path of a file,
several paths, or what is in one. Of several problems the arguments choose: `names` (families,
operations, rungs), `dtype`, and `problem`, a part of its text such as "[16384, 4096]".
"""

import json
import os
from collections.abc import Iterable
from typing import Any

from warpsmith._libraries import MODULES

Results = str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | dict[str, Any]


def _module() -> Any:
    return next(iter(MODULES.values()))  # drawing is the host's, in every build


def given(results: Results) -> Any:
    """Results as the library takes them: a list of paths, or the JSON itself."""
    if isinstance(results, dict):
        return results
    if isinstance(results, (str, os.PathLike)):
        return [os.fspath(results)]
    return [os.fspath(path) for path in results]


def style() -> str:
    """The CSS of pictures that are not `standalone`: colors are variables, light and dark."""
    return str(_module().plot_style())


def plot(
    kind: str,
    results: Results,
    *names: str,
    dtype: str | None = None,
    problem: str = "",
    against: Results | None = None,
    standalone: bool = True,
) -> str:
    """One picture.

    Args:
        kind: "ladder" (a bar a rung), "roofline", "changes" (needs `against`) or "lines" (of a
            rung whose lines the emulator has counted).
        results: See above.
        names: Families, operations or rungs; all if none. A roofline has all problems that are
            chosen, the others are of the first.
        dtype: Only this one.
        problem: A part of its text.
        against: Other results of the same problem.
        standalone: Whether the picture brings its style, a background and its title, as a file or
            an <img> wants it, or is for a page that has `style()`.

    Raises:
        ValueError: results that are none, or have nothing of what is asked for.
    """
    options: dict[str, Any] = {"results": given(results), "names": names, "problem": problem}
    if dtype is not None:
        options["dtypes"] = [dtype]
    if against is not None:
        options["against"] = given(against)
    return str(_module().plot(kind, json.dumps(options | {"standalone": standalone})))


def ladder(results: Results, *names: str, **choice: Any) -> str:
    """The bars of a problem's rungs, with peers and the ceiling: see plot()."""
    return plot("ladder", results, *names, **choice)


def roofline(results: Results, *names: str, **choice: Any) -> str:
    """Every rung of every problem that is chosen, below the roofs of the GPU: see plot()."""
    return plot("roofline", results, *names, **choice)
