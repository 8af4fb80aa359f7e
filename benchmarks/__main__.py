"""Run the benchmarks: ``python -m benchmarks [NAME …]``.

Each is a script of its own that prints a table and writes CSV to ``results/``. To see its figures beside those of an
earlier revision: ``python -m benchmarks --before REVISION [NAME … [ARGUMENTS …]]``.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks import _before

FOLDER = Path(__file__).resolve().parent


def main(words: list[str]) -> int:
    """Run the named benchmarks, or all of them; one that needs data says so and does not stop the others."""
    if any(word.startswith("-") for word in words):
        return _before.main(FOLDER, words)
    cases = _before.cases(FOLDER)
    unknown = [name for name in words if name not in cases]
    if unknown:
        print(f"there is no benchmark {unknown[0]!r}; known are {', '.join(cases)}", file=sys.stderr)
        return 2
    failed = []
    for name in words or cases:
        print(f"\n== {name}", flush=True)
        if subprocess.run([sys.executable, str(cases[name])], check=False).returncode != 0:
            failed.append(name)
    if failed:
        print(f"\nended with an error: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
