"""Every code block of README.md, docs/*.md and the lessons is compiled, run, or says why not.

What a block is stands behind its language, where readers do not see it:

    ```sh run                       each command ends with 0; ` # ...` is a remark
    ```sh norun="needs a GPU"       with the reason
    ```python run sub="a=b,c=d"     run with every a replaced by b: a GPU by the CPU, large by small
    ```c compile=tests/docs/x.c     put into x.c in place of its line BLOCK, and compiled
    ```cpp of=PATH                  lines of a file that a test builds
    ```cpp file=PATH                a file, and
    ```cpp insert=PATH after=TEXT   lines behind the first line with TEXT, both in a copy of the
                                    sources: then the page's `sh run` blocks run with a program that
                                    is built from these
    ```text output="COMMAND"        what the command prints; `...` stands for lines left out
    ```text norun="measured"

`python tests/docs/test_docs.py --update` writes the outputs anew.
"""

import json
import multiprocessing
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
import pytest
import tidy

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "emulated"
LESSONS = ROOT / "kernels" / "lessons" / "README.md"  # whose figures readers reproduce
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), LESSONS]
FENCE = re.compile(r"^```(\w*)[ ]*(.*?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MARKS = {"run", "norun", "sub", "compile", "of", "file", "insert", "after", "output"}


@dataclass
class Block:
    page: Path
    line: int
    language: str
    text: str
    marks: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks_of(page: Path) -> Iterator[Block]:
    text = page.read_text()
    for match in FENCE.finditer(text):
        words = shlex.split(match[2])
        marks = dict(word.partition("=")[::2] for word in words)
        yield Block(page, text.count("\n", 0, match.start()) + 1, match[1], match[3], marks)


BLOCKS = [block for page in PAGES for block in blocks_of(page)]
SOURCE_PAGES = {b.page for b in BLOCKS if "file" in b.marks or "insert" in b.marks}


def run(
    command: list[str], folder: Path, path: Path, timeout: int = 300
) -> subprocess.CompletedProcess[str]:
    """Runs a command with `path` first where programs are looked for."""
    environment = {**os.environ, "PATH": f"{path}:{os.environ['PATH']}"}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=timeout
    )


def commands_of(block: Block) -> list[str]:
    lines = [line.partition(" #")[0].strip() for line in block.text.splitlines()]
    return [line for line in lines if line]


def run_commands(block: Block, folder: Path, path: Path) -> None:
    for command in commands_of(block):
        result = run(["bash", "-c", command], folder, path)
        assert result.returncode == 0, f"{block}: {command}\n{result.stdout}\n{result.stderr}"


def of(*marks: str, pages: set[Path] | None = None) -> list[Block]:
    return [b for b in BLOCKS if marks[0] in b.marks and (pages is None or b.page in pages)]


needs_program = pytest.mark.skipif(
    not (BUILD / "warpsmith").exists(), reason="`make build/emulated` has not built the program"
)


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_every_block_says_what_it_is(block: Block) -> None:
    kinds = block.marks.keys() & {"run", "norun", "compile", "of", "file", "insert", "output"}
    assert len(kinds) == 1, f"{block}: {kinds or 'no mark'}; see the top of tests/docs/test_docs.py"
    assert block.marks.keys() <= MARKS, block
    if "norun" in block.marks:
        assert block.marks["norun"], f"{block} does not say why"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_prose_has_100_columns(page: Path) -> None:
    prose = FENCE.sub("", page.read_text())
    long = [line for line in prose.splitlines() if len(line) > 100 and not line.startswith("|")]
    assert not long, f"{page.name}: {long[0]}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    prose = FENCE.sub("", page.read_text())
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", prose):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


@needs_program
@pytest.mark.parametrize(
    "block", [b for b in of("run") if b.language == "sh" and b.page not in SOURCE_PAGES], ids=str
)
def test_commands(block: Block) -> None:
    run_commands(block, ROOT, BUILD)


@needs_program
def test_every_probe_is_told() -> None:
    listed = run(["warpsmith", "microbench", "--list"], ROOT, BUILD).stdout.splitlines()[1:]
    names = {line.split()[0] for line in listed}
    page = (ROOT / "docs" / "microbench.md").read_text()
    assert names and not [name for name in names if f"`{name}`" not in page]


# Each block is a process, as for readers, but one of a server that has imported torch already.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["torch", "warpsmith"])


def execute(text: str, folder: Path, printed: Path) -> None:
    with printed.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.chdir(folder)
    os.environ["PATH"] = f"{BUILD}:{os.environ['PATH']}"
    exec(compile(text, "<block>", "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize("block", [b for b in of("run") if b.language == "python"], ids=str)
def test_python(block: Block, tmp_path: Path) -> None:
    text = block.text
    for pair in filter(None, block.marks.get("sub", "").split(",")):
        old, _, new = pair.partition("=")
        assert old in text, f"{block} has no {old}"
        text = text.replace(old, new)
    (tmp_path / "results").symlink_to(ROOT / "results")  # what examples read
    printed = tmp_path / "printed"
    process = PROCESSES.Process(target=execute, args=(text, tmp_path, printed))
    process.start()
    process.join(300)
    process.kill()
    assert process.exitcode == 0, f"{block}\n{text}\n{printed.read_text()}"


@pytest.mark.skipif(
    not (BUILD / "include" / "warpsmith" / "operations.hpp").exists(),
    reason="the library is not built: make build/emulated",
)
@pytest.mark.parametrize("block", of("compile"), ids=str)
def test_compiles(block: Block, tmp_path: Path) -> None:
    around = ROOT / block.marks["compile"]
    source = tmp_path / around.name
    source.write_text(around.read_text().replace("BLOCK\n", block.text, 1))
    compiler = ["cc", "-std=c11"] if source.suffix == ".c" else ["c++", "-std=c++20"]
    folders = [ROOT, ROOT / "include", BUILD / "include", dlpack_folder()]
    include = [f"-I{folder}" for folder in folders]
    result = run([*compiler, "-fsyntax-only", "-Wall", *include, str(source)], tmp_path, BUILD)
    assert result.returncode == 0, f"{block}\n{result.stderr}"


@pytest.mark.parametrize("block", of("of"), ids=str)
def test_shows_what_is_there(block: Block) -> None:
    assert block.text in (ROOT / block.marks["of"]).read_text(), block


def dlpack_folder() -> str:
    """Where tvm-ffi has dlpack/dlpack.h."""
    import tvm_ffi.libinfo

    return str(tvm_ffi.libinfo.find_dlpack_include_path())


# ---- Outputs -------------------------------------------------------------------------------------


def output_of(block: Block) -> str:
    """What the command prints now, of it the lines that the block shows: by their first words."""
    result = run(["bash", "-c", block.marks["output"]], ROOT, BUILD)
    assert result.returncode == 0, f"{block}: {result.stdout}\n{result.stderr}"
    printed = result.stdout.rstrip().splitlines()
    shown = block.text.splitlines()
    if "..." not in shown:
        return "\n".join(printed) + "\n"
    kept: list[str] = []
    at = 0
    for line in shown:
        if line == "...":
            kept.append(line)
        if line == "..." or line.startswith(" "):  # what a table's last column goes on with
            continue
        first = line[:16].split("  ")[0]
        while at < len(printed) and not printed[at].startswith(first):
            at += 1
        assert at < len(printed), f"{block}: the output has no line that begins with {first!r}"
        kept.append(printed[at])
        at += 1
        while at < len(printed) and printed[at].startswith(" "):
            kept.append(printed[at])
            at += 1
    return "\n".join(kept) + "\n"


@needs_program
@pytest.mark.parametrize("block", of("output"), ids=str)
def test_outputs(block: Block) -> None:
    assert block.text == output_of(block), "python tests/docs/test_docs.py --update writes it anew"


def update() -> None:
    for block in of("output"):
        text = block.page.read_text()
        block.page.write_text(text.replace(f"\n{block.text}```", f"\n{output_of(block)}```", 1))


# ---- Pages that change the sources ---------------------------------------------------------------


def changed_sources(page: Path, folder: Path) -> list[Path]:
    """A copy of the sources that the page changes; the others are links. Returns what it wrote."""
    changed = [
        ROOT / (b.marks.get("file") or b.marks["insert"])
        for b in BLOCKS
        if b.page == page and b.marks.keys() & {"file", "insert"}
    ]
    families = {path.parent for path in changed}
    for entry in ROOT.iterdir():
        if entry.name not in {"build", "kernels", ".git"}:
            (folder / entry.name).symlink_to(entry)
    for family in (ROOT / "kernels").iterdir():
        (folder / "kernels").mkdir(exist_ok=True)
        target = folder / "kernels" / family.name
        if family in families:
            shutil.copytree(family, target)
        else:
            target.symlink_to(family)
    for block in (b for b in BLOCKS if b.page == page):
        if "file" in block.marks:
            path = folder / block.marks["file"]
            assert not path.exists(), f"{block}: {path.name} is there already"
            path.write_text(block.text)
        elif "insert" in block.marks:
            path = folder / block.marks["insert"]
            lines = path.read_text().splitlines(keepends=True)
            places = [i for i, line in enumerate(lines) if block.marks["after"] in line]
            assert places, f"{block}: {path.name} has no line with {block.marks['after']}"
            lines.insert(places[0] + 1, block.text)
            path.write_text("".join(lines))
    return [folder / path.relative_to(ROOT) for path in changed]


def program_of(folder: Path, changed: list[Path]) -> None:
    """Builds folder/build/emulated/warpsmith: what changed compiled anew, the rest of the build.

    An object that comes before the library is taken instead of the library's of the same symbols;
    one that was compiled with others there brings them along, and has its own twice.
    """
    target = folder / "build" / "emulated"
    target.mkdir(parents=True)
    commands = json.loads((BUILD / "compile_commands.json").read_text())
    by_file = {ROOT / name: entry for name, entry in tidy.compilations(commands).items()}
    embedded = target / "embedded.cpp"
    cmake = Path(sys.executable).parent / "cmake"
    script = ROOT / "cmake" / "embed.cmake"
    made = run(
        [str(cmake), f"-DROOT={folder}", f"-DOUT={embedded}", "-P", str(script)], folder, BUILD
    )
    assert made.returncode == 0, made.stderr
    units = {
        folder / f.relative_to(folder): ROOT / f.relative_to(folder)
        for f in changed
        if f.suffix in {".cu", ".cpp"}
    }
    units[embedded] = BUILD / "embedded.cpp"
    by_file[units[embedded]] = next(c for c in commands if c["file"] == str(units[embedded]))
    objects = []
    for unit, original in units.items():
        words = shlex.split(tidy.command_of(by_file[original], unit))
        objects.append(target / f"{unit.name}.o")
        # The copy's headers before the build's.
        compiler = [w.replace(str(ROOT), str(folder)) if w.startswith("-I") else w for w in words]
        result = run([*compiler, "-o", str(objects[-1])], BUILD, BUILD)
        assert result.returncode == 0, result.stderr
    link = run(["ninja", "-t", "commands", "warpsmith"], BUILD, cmake.parent)
    assert link.returncode == 0, link.stderr
    command = link.stdout.rstrip().splitlines()[-1]
    command = command.replace(" -o warpsmith ", f" -o {target / 'warpsmith'} ")
    before = " ".join(["-Wl,-z,muldefs", *map(str, objects)])
    command = command.replace(" libwarpsmith_core.a", f" {before} libwarpsmith_core.a", 1)
    linked = run(["bash", "-c", command], BUILD, BUILD)
    assert linked.returncode == 0, linked.stderr


@needs_program
@pytest.mark.parametrize("page", sorted(SOURCE_PAGES), ids=lambda page: page.name)
def test_pages_that_change_the_sources(page: Path, tmp_path: Path) -> None:
    program_of(tmp_path, changed_sources(page, tmp_path))
    for block in of("run", pages={page}):
        run_commands(block, tmp_path, tmp_path / "build" / "emulated")


if __name__ == "__main__" and "--update" in sys.argv[1:]:
    update()
