"""The cross-check at the length that every run of the tests has: a minute, shared out among the problems."""

from __future__ import annotations

from pathlib import Path

import pytest

from crosscheck.__main__ import Run
from partita.problems import kinds

#: Wall time of all problems together, with one process, but for what is loaded first and ends last.
WHOLE_S = 49.0

#: Times of components: one instance on which all of them use their time takes a dozen seconds otherwise.
LONGER = 0.5

#: Fewer would be no test.
LEAST = 5


@pytest.mark.parametrize("name", [kind.name for kind in kinds()])
def test_nothing_contradicts_anything(name: str, tmp_path: Path) -> None:
    lines: list[str] = []
    run = Run(
        (name,),
        seconds=WHOLE_S / len(kinds()),
        jobs=1,
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
    assert instances >= LEAST, text
    assert runs > instances
    assert compared > instances, text
