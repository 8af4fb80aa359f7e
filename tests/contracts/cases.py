"""Which component is tested with which options on which problems: what it declares to support, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, islice
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from contracts.samples import Family, samples_of
from instances.strategies import examples
from partita.problems import kind_of, kinds
from partita.problems.kind import AnyKind
from partita.problems.settings import read_settings, settings_of
from toy.tasks import TASKS

__all__ = [
    "Case",
    "all_kinds",
    "at_most",
    "bound_cases",
    "checked",
    "equal",
    "families_of",
    "options_of",
    "over_examples",
    "pool",
    "solver_cases",
]

#: How many problems of a family are drawn for everybody, and how many where a component accepts too few of these.
POOLS = (60, 300)


def all_kinds() -> tuple[AnyKind, ...]:
    """The problems of the package, each part of one by itself, and the one of the tests."""
    return (*(part for kind in kinds() if kind.name != TASKS.name for part in kind.parts), TASKS)


def families_of(kind: AnyKind) -> tuple[Family, ...]:
    """Those of a problem's samples that are about this part of it."""
    return tuple(family for family in samples_of(kind.name).families if _part_of(kind, family.typical) is kind)


def _part_of(kind: AnyKind, problem: Any) -> AnyKind:
    """The part of a problem that a value belongs to; that of the tests is not registered."""
    return kind if kind is TASKS else kind_of(problem)


def options_of(kind: AnyKind, **common: Any) -> list[Any]:
    """The options of a search: as they are, and with every other choice."""
    found = [read_settings(kind.options, common, kind.name)]
    for name, entry in settings_of(kind.options).items():
        others = [choice for choice in entry.choices if choice != entry.default]
        found += [read_settings(kind.options, {name: choice, **common}, kind.name) for choice in others]
    return found


@dataclass(frozen=True)
class Case:
    """A component, options that it takes on (None for a bound, which has none), and where."""

    kind: AnyKind
    component: Any
    options: Any
    families: tuple[Family, ...]

    @property
    def id(self) -> str:
        """Of the test."""
        chosen = [] if self.options is None else [getattr(self.options, n) for n in settings_of(self.kind.options)]
        return "-".join(
            [
                self.kind.title.replace(" problems", "").replace(" ", "-"),
                self.component.name.replace(" ", "-"),
                *map(str, chosen),
            ]
        )

    @property
    def trusted(self) -> bool:
        """Whether a plan that fails is a defect."""
        return self.component not in self.kind.baselines

    @property
    def default(self) -> bool:
        """Whether it is what is used for these options if nothing is said."""
        problem = self.families[0].typical
        return self.trusted and self.kind.default_solver(problem, self.options) == self.component.name

    def accepts(self, problem: Any) -> bool:
        """Whether the component takes a problem on."""
        return _part_of(self.kind, problem) is self.kind and refusal(self.component, problem, self.options) is None

    def over(self, count: int, check: Callable[[Any], bool]) -> int:
        """Check some of the problems that it takes on, of any family, see ``over_examples``."""
        return over_examples(self.families, count, check, self.accepts)

    @property
    def large(self) -> tuple[Any, ...]:
        """Those that it takes on."""
        return tuple(problem for problem in samples_of(self.kind.name).large if self.accepts(problem))

    def warm(self) -> None:
        """Compile what has to be: that is no part of a time limit."""
        from partita.engines.search.monitor import Monitor

        for family in self.families:
            arguments = () if self.options is None else (self.options,)
            run = self.component.bound if self.options is None else self.component.solve
            run(family.typical, *arguments, Monitor(60.0, target=float("inf")))
            return


def refusal(component: Any, problem: Any, options: Any) -> str | None:
    """Why a component does not take a problem on: a sentence; None if it does."""
    before = msgspec.json.encode(problem)
    said = component.supports(problem) if options is None else component.supports(problem, options)
    assert msgspec.json.encode(problem) == before, "the problem was changed"
    assert said is None or (isinstance(said, str) and len(said.split()) >= 3)
    return None if said is None else str(said)


def _cases(kind: AnyKind, component: Any, wanted: list[Any]) -> Iterator[Case]:
    """One for each of the options that the component takes on."""
    for options in wanted:
        families = families_of(kind)
        fitting = tuple(family for family in families if refusal(component, family.typical, options) is None)
        if fitting:
            yield Case(kind, component, options, fitting)


def solver_cases() -> list[Case]:
    """Every solver and baseline of every problem, with all options that it takes on."""
    return [
        case
        for kind in all_kinds()
        for component in (*kind.solvers, *kind.baselines)
        for case in _cases(kind, component, options_of(kind))
    ]


def bound_cases() -> list[Case]:
    """Every bound of every problem."""
    return [case for kind in all_kinds() for bound in kind.bounds for case in _cases(kind, bound, [None])]


def over_examples(
    families: Sequence[Family], count: int, check: Callable[[Any], bool], accepts: Callable[[Any], bool] = bool
) -> int:
    """Check some problems that are accepted, of all families in turn; how many had something to check, as it says.

    Raises
    ------
    AssertionError
        If there were far fewer problems than asked for: that would be no test.
    """
    wanted, least = examples(count).max_examples, max(1, count // 2)
    found: list[Any] = []
    for drawn in POOLS:
        if len(found) < wanted:
            rows = zip(*(pool(family.problems, drawn) for family in families), strict=False)
            found = list(islice(filter(accepts, chain.from_iterable(rows)), wanted))
    assert len(found) >= least, f"there were {len(found)} problems, and {least} are the least for a test"
    return checked(found, check)


@cache
def pool(problems: st.SearchStrategy[Any], count: int) -> tuple[Any, ...]:
    """So many problems, drawn once for all who are asked about them."""
    found: list[Any] = []

    @examples(count)
    @given(problem=problems)
    def draw(problem: Any) -> None:
        found.append(problem)

    draw()
    return tuple(found)


def checked(problems: Sequence[Any], check: Callable[[Any], bool]) -> int:
    """Check problems; how many of them had something to check, as ``check`` says."""
    count = 0
    for problem in problems:
        try:
            count += check(problem)
        except BaseException as error:
            error.add_note(f"with {msgspec.json.encode(problem).decode()}")
            raise
    return count


def equal(left: float, right: float) -> bool:
    """Equal up to rounding; the values of drawn problems are far further apart, if they are not equal."""
    return abs(left - right) <= 1e-6 * max(1.0, abs(left), abs(right))


def at_most(left: float, right: float) -> bool:
    """At most, up to rounding."""
    return left <= right or equal(left, right)
