"""tools/lint_contracts.py must catch each rule's wrong file, and let the right one pass."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
from lint_contracts import lint

RIGHT_RUNG = "// Idea: one thread a row.\n#pragma once\nstruct Naive {};\n"


def write(root: Path, files: dict[str, str]) -> list[str]:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return lint(root, list(files))


def family(**changed: str) -> dict[str, str]:
    files = {"kernels/f/01_naive.cuh": RIGHT_RUNG, "kernels/f/f.cu": 'Row rows[] = {{"naive"}};\n'}
    return files | {"kernels/f/" + name: text for name, text in changed.items()}


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("kernels/f/f.cu", '\nasm volatile("nop;");\n', 2),
        ("tests/block/a_test.cpp", "kernel<<<1, 32>>>(x);\n", 1),
        ("harness/bench.cpp", "#ifdef __CUDA_ARCH__\n#endif\n", 1),
        ("kernels/f/f.cu", "\n\nextern  __shared__ char buffer[];\n", 3),
        ("include/warpsmith/a.hpp", 'void f() { printf("x"); }\n', 1),
        ("catalogue/a.cpp", 'fprintf(stderr, "x");\n', 1),
        ("harness/a.cpp", "std::exit(1);\n", 1),
        ("docs/guide.md", "Go to " + "/home" + "/someone/warpsmith\n", 1),
        ("README.md", "two\nSee https://py" + "pi.org/project/x\n", 2),
        ("requirements/a.txt", "--extra-index" + "-url https://example.org\n", 1),
    ],
)
def test_forbidden(tmp_path, name, text, line):
    messages = write(tmp_path, {name: text})
    assert len(messages) == 1
    assert messages[0].startswith(f"{name}:{line}: ")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("include/warpsmith/ptx/a.hpp", 'asm volatile("nop;");\n#ifdef __CUDA_ARCH__\n#endif\n'),
        ("kernels/f/f.cu", '// no asm here\n/* kernel<<<1, 1>>> \n asm */ auto s = "printf(";\n'),
        ("cli/main.cpp", 'int main() { std::printf("x"); exit(1); }\n'),
        ("harness/a.cpp", "int n = snprintf(buffer, 8, text); exit_code(n);\n"),
        ("tools/a.sh", "PATH=/usr/local/cuda/bin ../shared/work/x\n"),
    ],
)
def test_allowed(tmp_path, name, text):
    assert write(tmp_path, {name: text}) == []


def test_right_rung(tmp_path):
    assert write(tmp_path, family()) == []


def test_variants_are_rows_of_one_file(tmp_path):
    assert write(tmp_path, family(**{"f.cu": '{"naive_x4"}'})) == []


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"01_naive.cuh": "#pragma once\n"}, "starts with a comment"),
        ({"01_naive.cuh": "// Idea: a\n" + "// b\n" * 10}, "a header comment of 11 lines"),
        ({"01_naive.cuh": RIGHT_RUNG + "\n" * 148}, "a rung of 151 lines"),
        ({"f.cu": '{"naively"}'}, 'no row "naive"'),
    ],
)
def test_wrong_rung(tmp_path, changed, message):
    messages = write(tmp_path, family(**changed))
    assert len(messages) == 1
    assert message in messages[0]


def test_long_rung_that_says_why(tmp_path):
    long_rung = RIGHT_RUNG + "// Long: three roles side by side.\n" + "\n" * 200
    assert write(tmp_path, family(**{"01_naive.cuh": long_rung})) == []
