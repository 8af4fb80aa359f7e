"""Run the benchmarks: ``python -m benchmarks [NAME …]``.

Each is a script of its own that prints a table and writes CSV to ``results/``.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent


def main(names: list[str]) -> int:
    """Run the named benchmarks, or all of them; one that needs data says so and does not stop the others."""
    cases = {path.stem: path for path in sorted(FOLDER.glob("*.py")) if not path.stem.startswith("_")}
    unknown = [name for name in names if name not in cases]
    if unknown:
        print(f"there is no benchmark {unknown[0]!r}; known are {', '.join(cases)}", file=sys.stderr)
        return 2
    failed = []
    for name in names or cases:
        print(f"\n== {name}", flush=True)
        if subprocess.run([sys.executable, str(cases[name])], check=False).returncode != 0:
            failed.append(name)
    if failed:
        print(f"\nended with an error: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
