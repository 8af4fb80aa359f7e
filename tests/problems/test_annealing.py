"""When the rounds of an annealing end, how they grow, and that they go on where they ended."""

from __future__ import annotations

from collections.abc import Iterator

from partita.engines.kernels.annealing import Cooling
from partita.engines.search.incumbent import Incumbent
from partita.problems.annealing import AnnealingSearch, Length

#: Moves of all rounds.
TEN = Length(10.0)


class Search(AnnealingSearch):
    """Rounds of three steps; some find something better."""

    def __init__(self, *better: int, length: Length = TEN, abreast: int = 1) -> None:
        super().__init__(Incumbent[int](), 0, length, abreast=abreast)
        self.better, self.steps, self.lengths = better, list[Cooling](), list[float]()

    def round(self, number: int) -> Iterator[None]:
        self.lengths.append(self.length)
        if number in self.better:
            self.best.offer(100.0 - number, number)
        return self.cool(Cooling(4.0, 1.0, 6), 2, self.steps.append)


def test_so_many_rounds_more() -> None:
    search = Search(1)
    assert search.run(rounds=2)
    assert (search.number, search.trials, len(search.steps)) == (2, 12, 6)
    assert not search.run(rounds=1)
    assert search.number == 3
    assert [step.start for step in search.steps[:3]] == [4.0, 4.0 * 0.25 ** (1 / 3), 4.0 * 0.25 ** (2 / 3)]


def test_so_many_in_vain() -> None:
    """Those made at once count, too."""
    search = Search(0, 3)
    search.run(patience=2)
    assert search.number == 3
    search.run(patience=2)
    assert search.number == 6
    many = Search(2, abreast=2)
    many.run(patience=3)
    assert many.number == 8


def test_a_round_goes_on_where_it_ended() -> None:
    whole, parts = Search(), Search()
    whole.run(rounds=3)
    for _ in range(20):
        looks = iter((False, True))
        parts.run(lambda looks=looks: next(looks), rounds=3 - parts.number)
    assert (parts.number, parts.steps) == (whole.number, whole.steps)


def test_no_time_and_no_work() -> None:
    search = Search()
    search.run(seconds=1e-9)
    search.best.end()
    search.run(rounds=5)
    assert search.steps == []


def test_rounds_grow() -> None:
    always, vain = Search(1, length=Length(10.0, 2.0, 50.0)), Search(1, length=Length(10.0, 2.0, 50.0, in_vain=True))
    always.run(rounds=5)
    vain.run(rounds=5)
    assert always.lengths == [10.0, 20.0, 40.0, 50.0, 50.0]
    assert vain.lengths == [10.0, 20.0, 20.0, 40.0, 50.0]
