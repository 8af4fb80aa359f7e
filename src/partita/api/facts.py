"""What an answer knows: the plan with its stages, what it was made from, and what is said of it."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypedDict

import msgspec

from partita.api.frames import Frame, frame
from partita.api.pictures import draw_stages
from partita.api.saved import saved_rows, saved_tables
from partita.conductor.documents import answer_document, result_document, runtime_sentences
from partita.conductor.place import PlacedPlan, placement_document
from partita.conductor.search import Searched
from partita.conductor.split import split_of
from partita.documents.result_file import decode_split, proof_document, with_problem
from partita.documents.tables.text import as_text, paragraphs
from partita.engines.search.result import EvaluationT, PlanEvaluation, PlanT, ProblemT, Result, Rival
from partita.ground.errors import InputError
from partita.nouns.cluster import Cluster
from partita.nouns.graph import Graph
from partita.nouns.split import Split
from partita.problems import kind_of
from partita.problems.facets.model import ModelPlan, Priced
from partita.problems.facets.records import MemoryUse, OperatorPlace, StageSummary
from partita.report.placement import placement_sentences, placement_tables, search_document, search_tables
from partita.report.results import comparison_table, summary_lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.console import RenderableType

#: What can be had as a frame.
What: TypeAlias = Literal["stages", "memory", "baselines", "operators"]


class Beside(TypedDict, Generic[ProblemT], total=False):
    """What may be known beside a run; see ``Answer``."""

    model_plan: ModelPlan[ProblemT] | None
    choice: tuple[str, ...]
    placed: PlacedPlan | None
    not_placed: str
    searched: Searched | None
    rows: tuple[Rival, ...] | None
    saved: Mapping[str, object] | None


@dataclass(frozen=True, repr=False)
class AnswerFacts(Result[ProblemT, PlanT, EvaluationT]):
    """What an ``Answer`` knows, which has the fields described."""

    model_plan: ModelPlan[ProblemT] | None = None
    choice: tuple[str, ...] = ()
    placed: PlacedPlan | None = None
    not_placed: str = ""
    searched: Searched | None = None
    rows: tuple[Rival, ...] | None = None
    saved: Mapping[str, object] | None = None

    @functools.cached_property
    def result(self) -> Result[ProblemT, PlanT, EvaluationT]:
        """The run alone."""
        return Result(**parts_of(self))

    @property
    def unit(self) -> str:
        """Time unit of objective and bound."""
        return str(self._stated.unit)

    @property
    def _stated(self) -> Any:
        """The problem, as what all problems are."""
        return self.problem

    @functools.cached_property
    def baselines(self) -> Sequence[Rival]:
        """What people do by hand, judged by the same evaluator; empty where nothing was compared.

        Of an answer from a file they have no plans, and of what each is worth only the objective.
        """
        if self.model_plan is not None:
            return self.model_plan.baselines
        return saved_rows(self.saved) if self.saved is not None else self.rows or ()

    @functools.cached_property
    def stages(self) -> Sequence[StageSummary]:
        """What runs where, in the order of the plan; empty without a plan."""
        if self.plan is None or self.evaluation is None:
            return ()
        return kind_of(self.problem).report.stages(self.problem, self.plan, self.evaluation)

    @functools.cached_property
    def memory(self) -> Sequence[MemoryUse]:
        """What each device of every stage holds, against its limit; empty where nothing is known of memory."""
        if self.plan is None or self.evaluation is None:
            return ()
        return kind_of(self.problem).report.memory(self.problem, self.plan, self.evaluation)

    @property
    def notes(self) -> Sequence[str]:
        """What a reader should know about model, cluster and pricing."""
        return tuple(self._document["notes"])

    @property
    def limits(self) -> Sequence[str]:
        """What limits the plan, in sentences, the most important first."""
        found = self._document.get("limits")
        return () if found is None else tuple(found["sentences"])

    @property
    def placement(self) -> Mapping[str, object] | None:
        """Where every replica of every stage runs, as plain values; None where that does not matter or is not known."""
        found: Mapping[str, Any] | None = self._document.get("placement")
        return found

    # What it was made from.

    @property
    def graph(self) -> Graph | None:
        """The model; None of a stated problem, and of an answer from a file."""
        return None if self.model_plan is None else self.model_plan.graph

    @functools.cached_property
    def cluster(self) -> Cluster | None:
        """The devices; None of a stated problem."""
        if self.model_plan is not None:
            return self.model_plan.cluster
        found = None if self.saved is None else self.saved.get("cluster")
        return None if found is None else msgspec.convert(found, Cluster)

    @property
    def priced(self) -> Priced[ProblemT]:
        """The problem with the model, the cluster and the settings that it was made from.

        Raises ``InputError`` of a stated problem, and of an answer from a file.
        """
        return self._made.priced

    @property
    def free(self) -> Result[ProblemT, object, PlanEvaluation] | None:
        """What was found without the limits of a runtime; None where nothing was looked for. Errors as ``priced``."""
        return self._made.free

    @property
    def tried(self) -> Sequence[tuple[Priced[ProblemT], Result[ProblemT, object, PlanEvaluation]]]:
        """Every candidate problem with its result, where there were several. Errors as ``priced``."""
        return self._made.tried

    @property
    def other(self) -> Rival | None:
        """A plan that a reader should know of, such as one with a shorter step. Errors as ``priced``."""
        return self._made.other

    @property
    def without_limit(self) -> float | None:
        """Objective without the limit that is nearly reached; None where none is. Errors as ``priced``."""
        return self._made.without_limit

    @property
    def wider_bound(self) -> float | None:
        """What no plan of a wider kind beats; None where that is not known. Errors as ``priced``."""
        return self._made.wider_bound

    @property
    def _made(self) -> ModelPlan[ProblemT]:
        if self.model_plan is None:
            why = "was read from a file" if self.saved is not None else "is of a stated problem"
            raise InputError(f"the answer {why}, without its traced model; plan the model for this")
        return dataclasses.replace(self.model_plan, result=self.result)

    @functools.cached_property
    def split(self) -> Split | None:
        """Which part of the model each stage has; None for stated problems and plans without stages."""
        if self.model_plan is not None:
            return split_of(self._made)
        found = None if self.saved is None else self.saved.get("split")
        return None if found is None else decode_split(msgspec.json.encode(found), "the answer")

    # What it says.

    @functools.cached_property
    def _document(self) -> Mapping[str, Any]:
        """All but a certificate, which is made for documents that leave the process."""
        if self.saved is not None:
            return self.saved
        result, bound = self.result, self.result.bound
        if bound is not None:
            result = dataclasses.replace(result, bound=bound.changed(certificate=None))
        if self.model_plan is None:
            return result_document(result, self.rows)
        document = answer_document(dataclasses.replace(self._made, result=result), self.choice)
        document["placement"] = None
        if self.placed is not None:
            document["placement"] = placement_document(self.placed) | {"sentences": placement_sentences(self.placed)}
        if self.searched is not None:
            document["search"] = search_document(self.searched)
        return document

    def document(self, *, stated: bool = True) -> dict[str, object]:
        """The result document that ``save`` writes; without the stated problem what ``--json`` prints."""
        document = dict(self._document)
        if self.saved is None:
            document["proof"] = proof_document(self.result)
            return with_problem(document, self.problem) if stated else document
        if not stated:
            document["problem"] = {name: value for name, value in document["problem"].items() if name != "stated"}
        return document

    def tables(self) -> list[RenderableType]:
        """Tables and paragraphs of the command line, without the lines of the verdict."""
        report = kind_of(self.problem).report
        if self.saved is not None:
            return saved_tables(self.result, self.saved)
        if self.model_plan is None:
            shown: list[RenderableType] = []
            if self.plan is not None and self.evaluation is not None:
                shown += report.tables(self.problem, self.plan, self.evaluation)
            return shown if self.rows is None else [*shown, comparison_table(report, self.result, self.rows)]
        shown = list(report.answer_tables(self._made))
        if self.searched is not None:
            shown += search_tables(self.searched)
        if self.placed is not None:
            shown += placement_tables(self.placed)
        shown.append(paragraphs("Runtime", runtime_sentences(self._made)))
        shown.append(comparison_table(report, self.result, self.baselines))
        return [*shown, paragraphs("Notes", self.notes)]

    def verdict(self) -> list[str]:
        """Objective, bound, gap and status in a few lines."""
        return summary_lines(kind_of(self.problem).report, self.result)

    def summary(self) -> str:
        """Everything that the command line prints, as text."""
        return as_text([*self.tables(), *self.verdict()])

    def to_frame(self, what: What = "stages") -> Frame:
        """A row for each stage, device's memory, baseline or operator.

        Returns a ``pandas.DataFrame``, or a list of dictionaries where pandas is not installed.
        """
        return frame(self.records(what))

    def records(self, what: What = "stages") -> list[dict[str, object]]:
        """The rows of ``to_frame`` as plain values."""
        if what == "baselines":
            rows: list[dict[str, Any]] = self._document.get("baselines") or []
            return [dict(row) for row in rows]
        found: Sequence[msgspec.Struct]
        if what == "stages":
            found = self.stages
        elif what == "memory":
            found = self.memory
        elif what == "operators":
            found = self._operators()
        else:
            raise InputError(f"there is no frame of {what!r}; known are stages, memory, baselines, operators")
        return [msgspec.structs.asdict(one) for one in found]

    def _operators(self) -> Sequence[OperatorPlace]:
        if self.plan is None or self.evaluation is None:
            return ()
        return kind_of(self.problem).report.operators(self.problem, self.plan, self.evaluation)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw how long each stage is busy, and with what, beside objective and bound.

        Parameters
        ----------
        ax
            Where to draw; None for a figure of its own, ``ax.figure`` of what comes back.

        Raises
        ------
        InputError
            If there is no plan.
        MissingExtraError
            If matplotlib is not installed.
        """
        if self.plan is None:
            raise InputError(f"there is no plan to be drawn: {self.reason or self.status}")
        return draw_stages(self.stages, self.unit, ax)


def parts_of(result: Result[ProblemT, PlanT, EvaluationT]) -> dict[str, Any]:
    """The fields of a result, whatever it is beyond that."""
    return {part.name: getattr(result, part.name) for part in dataclasses.fields(Result)}
