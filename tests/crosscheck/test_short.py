"""The cross-check at the length that every run of the tests has: some instances of every problem."""

from __future__ import annotations

from pathlib import Path

import pytest

from crosscheck.__main__ import Run
from partita.problems import kinds

#: Instances of each problem.
COUNT = 12

#: Times of components: one instance on which all of them use their time takes a dozen seconds otherwise.
LONGER = 0.35


@pytest.mark.parametrize("name", [kind.name for kind in kinds()])
def test_nothing_contradicts_anything(name: str, tmp_path: Path) -> None:
    lines: list[str] = []
    # Kernels are loaded as they are asked for: all of them would take longer than the instances.
    run = Run(
        (name,),
        count=COUNT,
        jobs=1,
        warm=False,
        longer=LONGER,
        minimise_s=20.0,
        output=tmp_path / "found",
        say=lines.append,
    )
    right = run.run()
    text = "\n".join(lines)
    ((_, instances, _, runs, compared, _, contradictions),) = run.tally.rows()
    assert contradictions == 0, text
    assert right
    assert instances == COUNT, text
    assert runs > instances
    assert compared > instances, text
