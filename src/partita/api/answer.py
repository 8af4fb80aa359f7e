"""What planning and solving answer: one class for all problems."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, Unpack

from partita.api.arguments import Devices
from partita.api.exporting import Exported, export_plan
from partita.api.facts import AnswerFacts, Beside, parts_of
from partita.api.running import MeasuredRun
from partita.api.short import best_baseline, short_repr, shortened_line, stage_lines
from partita.api.simulation import SimulationAnswer
from partita.checker.certificate import as_in_file
from partita.checker.document import Verdict
from partita.conductor.check import check_result
from partita.conductor.place import PLACE_S, PlacedPlan, place
from partita.conductor.simulate import simulate_plan
from partita.documents.document import write_json
from partita.documents.made import made
from partita.engines.search.result import EvaluationT, PlanEvaluation, PlanT, ProblemT, Result
from partita.execution.run import run_split
from partita.ground.errors import InputError, require
from partita.nouns.split import Split
from partita.problems import kind_of
from partita.problems.kind import Stated
from partita.problems.planned import Planned
from partita.report.pages import cell, write_page
from partita.simulator.program import Contention


@dataclass(frozen=True, repr=False)
class Answer(AnswerFacts[ProblemT, PlanT, EvaluationT]):
    """A plan with what is proven about it, whatever the problem: what ``plan``, ``solve`` and ``load`` return.

    ``print`` shows the verdict with the stages, a notebook a picture; ``summary`` has the tables of the command line.

    Attributes
    ----------
    problem, plan, evaluation, bound, status, stop_reason, solver, seed, runtime_s, reason, argument, statistics
        As of a ``Result``; ``objective`` and ``gap`` follow from them.
    model_plan
        What is known beside it of a model's plan; None of a stated problem, and of an answer from a file.
    choice
        Why a model was planned as this problem.
    placed
        Where the stages run, where that matters; ``not_placed`` says why it is not known.
    searched
        The search for numbers of stages and replicas, where that was asked for.
    rows
        What was compared with a stated problem's plan; None where nothing was.
    saved
        The result document that it was read from; None for a new answer.
    """

    @classmethod
    def of(
        cls, result: Result[ProblemT, PlanT, EvaluationT], **beside: Unpack[Beside[ProblemT]]
    ) -> Answer[ProblemT, PlanT, EvaluationT]:
        """The answer of a run, with what is known beside it."""
        return cls(**parts_of(result), **beside)

    # What can be done with it.

    def simulate(
        self,
        *,
        schedule: str | None = None,
        chunks: int | None = None,
        microbatches: int | None = None,
        contention: Contention = "dedicated",
        weight_sync: Literal["after", "behind"] = "after",
        interval: float = 0.0,
    ) -> SimulationAnswer:
        """Run the plan through the simulator.

        Parameters
        ----------
        schedule
            Name of a schedule, or path of a CSV file that holds one; None for what suits the plan.
        chunks
            Stages that every rank's stage is cut into.
        microbatches
            Of the batch, over all replicas.
        contention
            Of transfers: none (``dedicated``), fair shares (``shared``), or one at a time (``serial``).
        weight_sync
            Whether weights are synchronised ``after`` the batch or ``behind`` its last backward part.
        interval
            Time between the arrivals of two microbatches, in the problem's unit.

        Raises
        ------
        InputError
            If there is no plan, or it cannot run as asked.
        """
        asked = {
            "schedule": schedule,
            "chunks": chunks,
            "microbatches": microbatches,
            "contention": contention,
            "weight_sync": weight_sync,
            "interval": interval,
        }
        return SimulationAnswer(simulate_plan(self.problem, self._planned("simulated"), self.evaluation, **asked))

    def _planned(self, done: str) -> PlanT:
        """The plan; an answer without one cannot be ``done`` so."""
        if self.plan is None:
            raise InputError(f"there is no plan to be {done}: {self.reason or self.status}")
        return self.plan

    def _parts(self, done: str) -> Split:
        self._planned(done)
        if self.split is None:
            raise InputError(
                "the answer does not say what of a model each stage has; only plans of models in stages do: plan the "
                "model with partita.plan"
            )
        return self.split

    def export(self, runtime: str, path: str | Path, *, model: str | None = None) -> Exported:
        """Write the plan for a runtime that people use; ``partita exporters`` lists them.

        Parameters
        ----------
        runtime
            Its name.
        path
            A file, or for runtimes that take several a folder that does not exist or is empty.
        model
            The model, for runtimes that get it with the plan, if it is not what was planned; of engines that serve the
            name that they load.

        Raises
        ------
        InputError
            If there is no such runtime or plan, the model cannot be built, or the path not be written.
        UnsupportedError
            If the runtime cannot run the plan; nothing is written.
        """
        deployment = kind_of(self.problem).deployment
        if deployment is None:
            return export_plan(self._parts("exported"), runtime, path, model)
        found = deployment(self.problem, self._planned("exported"), self.cluster)
        return export_plan(found, runtime, path, model)

    def run(
        self,
        *,
        model: str | None = None,
        settings: Mapping[str, object] | None = None,
        processes: int | None = None,
        microbatches: int | None = None,
        schedule: str | None = None,
        steps: int = 1,
        optimizer: Literal["sgd", "adam"] = "sgd",
        learning_rate: float = 1e-3,
        repeats: int = 3,
        seed: int = 0,
        threads: int = 1,
        tolerance: float = 1e-4,
        timeout_s: float = 20.0,
        port: int | None = None,
    ) -> MeasuredRun:
        """Run the plan on processes of this machine, and compare it with the model that is not split.

        Parameters
        ----------
        model, settings
            How the model is made, if the answer does not say or says something else: its name, and by name
            ``batch_size``, ``sequence_length``, ``dtype``, ``task``, ``set`` and ``inputs``.
        processes
            A multiple of the plan's: so many copies of it; None for one.
        microbatches, schedule
            Of the batch, over all replicas, and how they run; None for the plan's.
        steps, optimizer, learning_rate
            Of training that is compared.
        repeats
            Batches that are timed.
        seed, threads, tolerance
            Of weights and inputs; of each process; the largest relative error.
        timeout_s, port
            Seconds without progress after which a process counts as hanging; where processes meet, a file unless given.

        Raises
        ------
        InputError
            If the plan, the model and what is asked for do not fit together.
        RankError
            If a process failed, was killed or hung.
        MissingExtraError
            If torch is not installed.
        """
        require("torch", "torch")
        found = run_split(
            self._parts("run"),
            "the answer",
            operators=(self._document.get("model") or {}).get("operators"),
            planned=lambda: Planned(self.problem, self.plan, self.split),
            model=model,
            settings=settings,
            processes=processes,
            microbatches=microbatches,
            schedule=schedule,
            steps=steps,
            optimizer=optimizer,
            learning_rate=learning_rate,
            repeats=repeats,
            seed=seed,
            threads=threads,
            tolerance=tolerance,
            timeout_s=timeout_s,
            port=port,
        )
        return MeasuredRun(found)

    def place(
        self, topology: Devices, *, time_limit_s: float | None = PLACE_S, seed: int = 0, threads: int = 2
    ) -> PlacedPlan:
        """Give every replica of every stage its devices on a topology; errors as those of ``partita.place``."""
        plan = self._planned("placed")
        return place(
            self._stated,
            plan,
            topology,
            evaluation=self.evaluation,
            time_limit_s=time_limit_s,
            seed=seed,
            threads=threads,
        )

    def check(self) -> Verdict:
        """Whether plan and proof hold out, by a checker that trusts no solver."""
        return check_result(self.result, as_in_file(self.document()))

    def save(self, path: str | Path) -> None:
        """Write the result file, atomically: what ``partita plan --output`` writes, and ``load`` reads."""
        write_json(path, self._with_making())

    def report(self, path: str | Path) -> None:
        """Write one page that opens offline, atomically."""
        write_page(path, self._with_making())

    def _with_making(self) -> dict[str, object]:
        """The result document, with how it was made: from a file as that says, else by this program."""
        document = self.document()
        return document if "made" in document else document | {"made": made()}

    # How it is shown.

    def __str__(self) -> str:
        limits = [shortened_line(f"limit: {self.limits[0]}")] if self.limits else []
        baseline = best_baseline(self.records("baselines"), self.unit)
        return "\n".join([*self.verdict(), *stage_lines(self.stages, self.unit), *limits, *baseline])

    def __repr__(self) -> str:
        return short_repr(self)

    def _repr_html_(self) -> str:
        return cell(self.document())


#: An answer about any problem.
AnyAnswer: TypeAlias = Answer[Stated, object, PlanEvaluation]
