"""An operation's page: formula, tensors, attributes, ladder, results, errors."""

import json
import textwrap
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import results_table

from book import program
from book.markdown import block, code, escaped, figure, table, toctree
from book.places import (
    Family,
    Operation,
    Rung,
    link,
    page_of_lesson,
    page_of_operation,
    page_of_rung,
)
from book.program import ROOT
from book.refusals import refusals

# ---- Results -------------------------------------------------------------------------------------


def results_of(operation: Operation, family: Family) -> list[Path]:
    files = ROOT.glob(f"results/*/{family['name']}/{operation['name']}.json")
    return sorted(files)


def shown_group(data: dict[str, Any]) -> dict[str, Any]:
    """Of what was measured the problem that most rungs ran right, and of those the largest."""

    def extent(group: dict[str, Any]) -> tuple[int, float]:
        return len(results_table.timed(group, "rung")), group["bytes"]

    return max(data["results"], key=extent)


def plots(operation: Operation, family: Family, kinds: Sequence[str]) -> str:
    """Of each device that measured the operation its ladder, its roofline if it has operations."""
    words = {
        "ladder": "every rung, the peers and the ceiling",
        "roofline": "rate over arithmetic intensity",
    }
    parts = []
    for path in results_of(operation, family):
        data = json.loads(path.read_text())
        group = shown_group(data)
        problem = group["problem"]
        for kind in kinds:
            if kind == "roofline" and group["flops"] == 0:
                continue
            caption = f"{problem} on one {data['device']['name']}: {words[kind]}."
            parts.append(figure(program.plot(kind, path, problem), caption))
    return "\n".join(parts)


def measured_section(operation: Operation, family: Family) -> str:
    parts = []
    for path in results_of(operation, family):
        data = json.loads(path.read_text())
        runs = ", ".join(f"{run['date'][:10]} ({run['revision']})" for run in data["runs"])
        rows = "\n".join([results_table.COLUMNS, *results_table.rows(data)])
        parts.append(f"{data['device']['name']}, {runs}:\n\n{rows}\n")
    if not parts:
        return (
            "## Measured\n\nNothing yet: no GPU has timed this operation. What the emulator counts "
            "is above.\n"
        )
    return (
        "## Measured\n\n"
        + plots(operation, family, ("ladder", "roofline"))
        + "\n"
        + "\n".join(parts)
    )


# ---- The page ------------------------------------------------------------------------------------


def parameters_table(operation: Operation) -> str:
    def what(p: dict[str, Any]) -> str:
        shape = f"; shape {code(p['shape'])}" if p["shape"] else ""
        return escaped(p["doc"]) + shape

    rows = [
        (code(p["name"]), p["role"] + (", optional" if p["optional"] else ""), what(p))
        for p in operation["parameters"]
    ]
    return table(("tensor", "role", "what it is"), rows)


def attributes_table(operation: Operation) -> str:
    def default(a: dict[str, Any]) -> str:
        return "required" if a["required"] else code(str(a["default"]))

    rows = [
        (
            code(a["name"]),
            ", ".join(map(code, a["choices"])) if a["choices"] else a["kind"],
            default(a),
            escaped(a["doc"]),
        )
        for a in operation["attributes"]
    ]
    return table(("attribute", "value", "default", "what it says"), rows)


def ladder_table(family: Family, rungs: Sequence[Rung], page: PurePosixPath, operation: str) -> str:
    """Rungs in teaching order, with what the emulator counts of each."""
    rows = []
    before = None
    for rung in rungs:
        counts = rung["profile"] or dict.fromkeys(("sectors_a_request", "ways"))
        name = link(code(rung["name"]), page_of_rung(family["name"], rung["name"]), page)
        sectors = f"{counts['sectors_a_request']:.1f}" if counts["sectors_a_request"] else ""
        ideal = f"{counts['ideal_sectors_a_request']:.1f}" if sectors else ""
        ways = f"{counts['ways']:.2f}" if counts["ways"] else ""
        from_ = rung["from"].split("/")[1] if rung["from"] else None
        elsewhere = f" (from {code(from_)})" if from_ and from_ != before else ""
        dtypes = " ".join(rung["operations"][operation])
        rows.append((name, escaped(rung["idea"]) + elsewhere, dtypes, sectors, ideal, ways))
        before = rung["name"]
    return table(("rung", "idea", "dtypes", "sectors", "ideal", "ways"), rows, right=(3, 4, 5))


def errors_section(operation: Operation) -> str:
    told = refusals(operation["name"])
    if not told:
        return ""
    rows = [(what, code(kind), escaped(" ".join(text.split()))) for what, kind, text in told]
    return "## Errors\n\nWhat Python raises where a call is none.\n\n" + table(
        ("a call with", "raises", "with the text"), rows
    )


def operation_page(family: Family, operation: Operation, rungs: Sequence[Rung]) -> str:
    page = page_of_operation(operation["name"])
    lesson = link(f"lesson of {family['name']}", page_of_lesson(family["name"]), page)
    rows = []
    rows.append(("dtypes", " ".join(map(code, operation["dtypes"]))))
    changed = [p["name"] for p in operation["parameters"] if p["role"] == "inout"]
    may = "an output may be an input" if operation["in_place"] else "no"
    rows.append(("in place", " ".join(map(code, changed)) or may))
    peers = [*operation["peers"], *(peer["name"] for peer in operation["python_peers"])]
    if peers:
        rows.append(("peers", ", ".join(peers)))
    if operation["source"]:
        rows.append(("source", escaped(operation["source"])))
    if operation["seeds"]:
        names = sorted({seed["name"] for seed in operation["seeds"]})
        rows.append(("seed names", ", ".join(map(code, names))))
    mine = [rung for rung in rungs if operation["name"] in rung["operations"]]
    pictured = {rung["profile"]["problem"].split(" ")[0] for rung in mine if rung["profile"]}
    parts = [
        f"# {operation['name']}\n",
        f"{escaped(operation['summary'][:1].upper() + operation['summary'][1:])}. From the "
        f"{lesson}.\n",
        block(operation["formula"], "text"),
        table(("", ""), rows),
        *(
            f"{what}:\n\n{block(textwrap.dedent(operation[key]).strip(), 'python')}"
            for what, key in (("In torch", "torch"), ("Its gradient", "gradient"))
            if operation[key]
        ),
        "## Tensors\n",
        parameters_table(operation),
    ]
    if operation["attributes"]:
        parts += ["## Attributes\n", attributes_table(operation)]
    parts += [
        "## Ladder\n",
        "Counted in the emulator, each rung on the first operation that it computes "
        f"({', '.join(sorted(pictured))}): sectors of 32 bytes a request takes, how many would "
        "do, and the ways of bank conflicts.\n",
        ladder_table(family, mine, page, operation["name"]),
        measured_section(operation, family),
        errors_section(operation),
    ]
    return "\n".join(parts)


def operations_page(families: Sequence[Family]) -> str:
    page = PurePosixPath("operations/index.md")
    parts = ["# Operations\n"]
    for family in families:
        lesson = link(family["name"], page_of_lesson(family["name"]), page)
        parts.append(f"## {family['name']}\n\n{escaped(family['summary'])}: {lesson}.\n")
        rows = [
            (
                link(code(o["name"]), page_of_operation(o["name"]), page),
                code(o["formula"]),
                " ".join(o["dtypes"]),
            )
            for o in family["operations"]
        ]
        parts.append(table(("operation", "formula", "dtypes"), rows))
    names = [o["name"] for family in families for o in family["operations"]]
    return "\n".join([*parts, toctree(names)])
