"""What is compiled ahead is shared out so that processes do not wait for each other's kernels."""

from __future__ import annotations

from partita.cli.warm_up import _units
from partita.problems import kinds


def test_every_group_of_samples_is_run_once() -> None:
    units = _units()
    assert sorted(units) == sorted((kind.name, number) for kind in kinds() for number in range(len(kind.samples)))


def test_processes_begin_with_different_problems() -> None:
    first = _units()[: len(kinds())]
    assert len({name for name, _ in first}) == len(kinds())
