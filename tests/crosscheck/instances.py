"""Instances by number: the same seed, problem and number give the same instance."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from contracts.samples import samples_of
from crosscheck.parts import Part, drawn_parts
from partita.problems import find_kind, kind_of
from partita.problems.importers import read_problem

__all__ = ["Instance", "families_of"]


def families_of(name: str) -> dict[str, Callable[[random.Random], Any]]:
    """The families of a problem: those of its module beside this one, otherwise the samples of its contract tests."""
    module = f"crosscheck.{name}_problems"
    if importlib.util.find_spec(module) is not None:
        home = importlib.import_module(module)
        # A family is a function, or what the module's own function of that name draws from.
        return {
            family: draw if callable(draw) else functools.partial(home.family, family)
            for family, draw in home.FAMILIES.items()
        }
    samples = samples_of(name)
    stated = (*(family.typical for family in samples.families), *samples.infeasible, *samples.large)
    return {"samples": lambda rng: rng.choice(stated)}


@dataclass(frozen=True)
class Instance:
    """One instance of a run of the cross-check: drawn by its number, or read from a file.

    Components get ``longer`` times the usual time. ``whole``: only where everything can be tried.
    """

    kind: str
    seed: int
    number: int
    path: str = ""
    longer: float = 1.0
    whole: bool = False

    @classmethod
    def read(cls, path: str, seed: int, number: int, longer: float = 1.0) -> Instance:
        """The instance of a file; the number says which components are asked with which seeds."""
        return cls(kind_of(read_problem(path)).name, seed, number, path, longer)

    def _rng(self, what: str) -> random.Random:
        return random.Random(f"{what} {self.kind} {self.seed} {self.number}")

    @property
    def family(self) -> str:
        """The name of its family."""
        if self.path:
            return "from a file"
        return self._rng("family").choice(sorted(families_of(self.kind)))

    def problem(self) -> Any:
        """The instance itself."""
        if self.path:
            return read_problem(self.path)
        return families_of(self.kind)[self.family](self._rng("instance"))

    def parts(self) -> list[Part]:
        """Who is asked about it."""
        return drawn_parts(find_kind(self.kind), self._rng("parts"), self.longer)

    def __str__(self) -> str:
        """As the command line finds it again."""
        if self.path:
            return f"{self.kind} --file {self.path} --seed {self.seed} --first {self.number}"
        return f"{self.kind} --seed {self.seed} --first {self.number} ({self.family})"
