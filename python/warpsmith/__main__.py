"""`python -m warpsmith`, and `warpsmith` where the package is installed: the C++ program."""

import os
import sys

from warpsmith import _libraries


def main() -> int:
    """Becomes the program that lies beside the library; 2 where there is none."""
    program = _libraries.program()
    if program is None:
        folders = ", ".join(str(path.parent) for path in _libraries.PATHS.values())
        print(
            f"warpsmith: the program is not in {folders}: it is built with the libraries where "
            "CLI11 (libcli11-dev) is installed",
            file=sys.stderr,
        )
        return 2
    os.execv(program, ["warpsmith", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
