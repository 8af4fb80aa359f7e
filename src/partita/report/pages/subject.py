"""What a document is about: what it says, and of a result the problem, the plan and how it runs, made again from it."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from partita.conductor.simulate import Simulated, sensitivities, simulate_plan
from partita.documents.result_file import RESULT_FORMAT
from partita.ground.errors import InputError, UnsupportedError
from partita.nouns.cluster import Cluster
from partita.problems import kind_of
from partita.problems.facets.records import OperatorPlace
from partita.problems.facets.report import Reporting
from partita.problems.planned import Planned, planned_in
from partita.simulator.sensitivity import Change

#: Format of the documents of sweeps.
SWEEP_FORMAT = "partita.sweep"

#: By what a document is shown as, the keys by which it is recognised where it has no format.
_KEYS = {"simulation": {"step_time", "critical_path", "devices"}}


def form_of(document: Mapping[str, Any], name: str = "the document") -> str:
    """What a document is shown as: ``result``, ``sweep`` or ``simulation``; ``InputError`` for anything else."""
    known = {RESULT_FORMAT: "result", SWEEP_FORMAT: "sweep"}
    tag = document.get("format")
    found = known.get(tag) if isinstance(tag, str) else None
    if tag is None:
        found = next((name for name, keys in _KEYS.items() if keys <= document.keys()), None)
    if found is None:
        what = f"format is {tag!r}" if tag is not None else f"its keys are {', '.join(sorted(document)[:6]) or 'none'}"
        raise InputError(
            f"{name} cannot be reported: {what}; give what --output of plan, solve, map, compare or sweep "
            "writes, or what simulate --json prints"
        )
    return found


def plain(document: Mapping[str, Any]) -> dict[str, Any]:
    """A document as plain values, as its file would have it."""
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(document))
    return found


@dataclass(frozen=True)
class Subject:
    """A result document and what it is about.

    ``document`` is plain values; ``planned`` is None where it does not hold its problem or a plan, and ``settings`` are
    those of a simulation.
    """

    document: Mapping[str, Any]
    planned: Planned | None
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def unit(self) -> str:
        """Of objective and bound, and of the problem's times."""
        return str(self.document.get("unit", "s"))

    @property
    def name(self) -> str:
        """Of the problem."""
        return str((self.document.get("problem") or {}).get("name") or "plan")

    @property
    def problem(self) -> Any:
        """The problem; None where the document does not hold it."""
        return None if self.planned is None else self.planned.problem

    @functools.cached_property
    def evaluation(self) -> Any:
        """What the plan is worth; None without a plan."""
        if self.planned is None:
            return None
        return kind_of(self.planned.problem).evaluate(self.planned.problem, self.planned.plan)

    @property
    def report(self) -> Reporting[Any, Any, Any] | None:
        """What the problem says of its plans."""
        return None if self.planned is None else kind_of(self.planned.problem).report

    @functools.cached_property
    def operators(self) -> Sequence[OperatorPlace]:
        """Everything that the plan places."""
        if self.planned is None or self.report is None:
            return ()
        return self.report.operators(self.planned.problem, self.planned.plan, self.evaluation)

    @functools.cached_property
    def _run(self) -> tuple[Simulated | None, str]:
        if self.planned is None:
            return None, "the document does not hold its problem (a file that --output writes does)"
        try:
            problem, plan = self.planned.problem, self.planned.plan
            return simulate_plan(problem, plan, self.evaluation, **self.settings), ""
        except UnsupportedError as error:
            return None, str(error)
        except InputError as error:
            if self.settings:
                raise
            return None, str(error)

    @property
    def simulated(self) -> Simulated | None:
        """The plan as it runs; None where that cannot be known."""
        return self._run[0]

    @property
    def no_run(self) -> str:
        """Why there is no time line; empty where there is one."""
        return self._run[1]

    @property
    def run_unit(self) -> str:
        """Of the times of the run, which are seconds even where a plan is worth devices."""
        return self.unit if self.simulated is None else self.simulated.simulation.program.unit

    @functools.cached_property
    def changes(self) -> list[Change]:
        """What would change the step."""
        return [] if self.simulated is None else sensitivities(self.simulated)

    @functools.cached_property
    def cluster(self) -> Cluster | None:
        """The machines that a model was planned for."""
        found = self.document.get("cluster")
        return None if found is None else msgspec.convert(found, Cluster)


def subject_of(
    document: Mapping[str, Any], name: str = "the document", settings: Mapping[str, Any] | None = None
) -> Subject:
    """The subject of a result document of plain values; a plan that contradicts the document raises ``InputError``."""
    entry = document.get("problem") or {}
    there = document.get("plan") is not None and "stated" in entry
    return Subject(document, planned_in(document, name) if there else None, settings or {})
