"""tools/lint_contracts.py must catch each rule's wrong file, and let the right one pass."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
from lint_contracts import lint

RIGHT_RUNG = (
    "// Idea: one thread a row.\n#pragma once\nstruct Naive {};\n"
    "inline constexpr Rung kNaive = rung_of<Naive, F>({});\n"
)


def write(root: Path, files: dict[str, str]) -> list[str]:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return lint(root, list(files))


def family(**changed: str) -> dict[str, str]:
    files = {"kernels/f/01_naive.cuh": RIGHT_RUNG, "kernels/f/f.cu": "rungs[] = {&kNaive};\n"}
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
        ("cli/a.cpp", "#ifdef WS_EMULATED\n#endif\n", 1),
        ("cli/a.cpp", 'app.add_option("FILE OPERATION", words, "text");\n', 1),
        ("harness/a.cpp", "\n#if !defined(WS_EMULATED)\n#endif\n", 2),
        ("include/warpsmith/ptx/a.hpp", '#include "warpsmith/tile/swizzle.hpp"\n', 1),
        ("kernels/f/rows.hpp", '#include "harness/verify.hpp"\n', 1),
        ("harness/a.cpp", '#include "emulator/emulator.hpp"\n', 1),
        ("docs/guide.md", "word " * 21 + "\n", 1),
        ("kernels/f/rows.hpp", "\nint i = std::countr_zero(ballot);\n", 2),
        (
            "kernels/f/rows.hpp",
            "struct F {\n private:\n  template <class T>\n  struct Of {\n"
            "    using Rows =\n        RowsKernel<T>;\n  };\n};\n",
            4,
        ),
        ("kernels/f/rows.hpp", "struct F {\n private:\n  using Rows = RowsKernel<float>;\n};\n", 3),
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
        ("include/warpsmith/a.hpp", "#ifdef WS_EMULATED\n#endif\n"),
        ("include/warpsmith/ptx/bits.hpp", "return std::countr_zero(word);\n"),
        ("kernels/f/rows.hpp", "#if WS_DEVICE_CODE\n#endif\n"),
        (
            "kernels/f/rows.hpp",
            "struct F {\n  using Rows = RowsKernel<float>;\n\n private:\n  static void run() {\n"
            "    using Columns = ColumnsKernel<float>;\n  }\n};\n",
        ),
        (
            "kernels/f/peers.cpp",
            "#if !defined(WS_EMULATED) && __has_include(<cudnn.h>)\n#endif\n",
        ),
        ("cli/a.cpp", "// Build: the one place.\n#ifdef WS_EMULATED\n#endif\n"),
        ("cli/a.cpp", 'app.add_option("--output,-o", file, "Where to write");\n'),
        ("docs/guide.md", "| " + "word | " * 21 + "\n```\n" + "word " * 21 + "\n```\n"),
        ("docs/guide.md", "- https://example.org/" + "x" * 100 + "\n"),
        ("tools/a.sh", "PATH=/usr/local/cuda/bin ../shared/work/x\n"),
    ],
)
def test_allowed(tmp_path, name, text):
    assert write(tmp_path, {name: text}) == []


def test_right_rung(tmp_path):
    assert write(tmp_path, family()) == []


HEAVY_RUNG = "// Idea: rows in registers.\n#pragma once\nstruct Heavy {};\n"
HEAVY_ROW = "extern const Rung kHeavy;\nconst Rung kHeavy = rung_of<Heavy, F>({});\n"


def test_a_rung_may_be_a_unit(tmp_path):
    files = {"02_heavy.cu": HEAVY_RUNG + HEAVY_ROW, "f.cu": "{&kNaive, &kHeavy}"}
    assert write(tmp_path, family(**files)) == []


def test_a_rung_may_have_its_row_in_a_unit(tmp_path):
    files = {
        "02_heavy.cuh": HEAVY_RUNG,
        "02_heavy.cu": "// The row of 02_heavy.cuh.\n" + HEAVY_ROW,
        "f.cu": "{&kNaive, &kHeavy}",
    }
    assert write(tmp_path, family(**files)) == []


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"01_naive.cuh": RIGHT_RUNG.removeprefix("// Idea:")}, "starts with a comment"),
        (
            {"01_naive.cuh": "// Idea: a\n" + "// b\n" * 10 + "Rung kNaive"},
            "a header comment of 11 lines",
        ),
        (
            {"01_naive.cuh": RIGHT_RUNG.replace("row.", "row. Traffic: a read.", 1)},
            "'Traffic:' begins a line",
        ),
        ({"01_naive.cuh": RIGHT_RUNG + "\n" * 147}, "a rung of 151 lines"),
        ({"f.cu": "{&kNaively}"}, "f.cu does not list kNaive"),
        ({"02_heavy.cuh": HEAVY_RUNG}, "ends with its row"),
        ({"02_heavy.cu": HEAVY_RUNG + HEAVY_ROW}, "f.cu does not list kHeavy"),
        ({"02_heavy.cu": "#pragma once\n" + HEAVY_ROW, "f.cu": "&kNaive, &kHeavy"}, "starts with"),
        ({"f.cu": "&kNaive;\n__device__ void f();\n"}, "family's table"),
        ({"rows.hpp": '#include "kernels/f/reference.cpp"\n'}, "nvcc reads no reference.cpp"),
    ],
)
def test_wrong_rung(tmp_path, changed, message):
    messages = write(tmp_path, family(**changed))
    assert len(messages) == 1
    assert message in messages[0]


def test_long_rung_that_says_why(tmp_path):
    long_rung = RIGHT_RUNG + "// Long: three roles side by side.\n" + "\n" * 200
    assert write(tmp_path, family(**{"01_naive.cuh": long_rung})) == []
