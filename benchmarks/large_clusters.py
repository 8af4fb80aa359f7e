"""Plans and placements of training on thousands to a hundred thousand devices: time and memory of the whole.

    python -m benchmarks large_clusters
    python benchmarks/large_clusters.py [--rows dense-131072,experts-131072]

Every row is a process of its own, which traces the model (or reads what was kept of an earlier trace), prices it for
several sizes of microbatches, plans the step with proof, and places the plan. *CPU* is what it computed, with all
threads; wall time is longer where other programs keep the machine busy. Steps in seconds: of the plan, placed, and
placed in the order of its ranks; gaps are those of the plan and of the mapping problem. Written to
``results/large_clusters.csv``; the end is an error if a row takes more than 2 minutes of CPU or 4 GB, or a placement is
worse than the order of the ranks.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from _common import add_out, write
from _large import MOST_BYTES, MOST_S, ROWS, measured

#: How figures are printed; they are written as they are.
FORMATS = {"step": ".4g", "gap": ".2%", "placed": ".4g", "in order": ".4g", "busiest": ".4g", "gap there": ".2%"}
FORMATS |= {"CPU s": ".0f", "s": ".0f", "MB": ".0f"}


def _shown(column: str, value: Any) -> str:
    return "" if value is None else f"{value:{FORMATS.get(column, '')}}"


def main() -> int:
    """Measure the rows; 1 if one is too slow, too large, or worse than the order of the ranks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default=",".join(ROWS), help="which of them, separated by commas")
    add_out(parser)
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    wrong = []
    for name in arguments.rows.split(","):
        found = measured(name)
        late = found["cpu"] > MOST_S or found["peak"] > MOST_BYTES
        worse = found.get("placed") is not None and found["placed"] > (found["in order"] or float("inf"))
        if late or worse or "placed" not in found:
            wrong.append(f"{name}: {found['why not'] or ('worse than in order' if worse else 'too slow or too large')}")
        row = {
            "row": name,
            "cluster": ROWS[name][2],
            "plan": found["plan"],
            "step": found["step"],
            "gap": found["gap"],
            "placed": found.get("placed"),
            "in order": found.get("in order"),
            "busiest": found.get("busiest"),
            "gap there": found.get("busiest gap"),
            "CPU s": found["cpu"],
            "s": found["wall"],
            "MB": found["peak"] / 1e6,
        }
        if not rows:
            print(" | ".join(row))
        print(" | ".join(_shown(*cell) for cell in row.items()), flush=True)
        rows.append(row)
    write(arguments.out / "large_clusters.csv", rows)
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
