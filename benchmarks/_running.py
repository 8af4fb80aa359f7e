"""Profile a model here, plan it from what was measured, and run plans: what the benchmarks of the runner share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from partita.conductor.plan import price_all
from partita.conductor.simulate import simulate_plan
from partita.conductor.split import make_split
from partita.costs.profile import Measured, Profile
from partita.execution.job import RunAnswer, RunJob
from partita.execution.run import Host
from partita.frontends.options import Asked
from partita.nouns.cluster import Cluster
from partita.nouns.graph import Graph, Source
from partita.nouns.pipeline import Plan
from partita.problems.facets.model import Priced
from partita.problems.throughput.baselines.layers import find_layers, plan_from_labels
from partita.problems.throughput.descriptor import THROUGHPUT
from partita.profiler.profile import profile_model

MODELS = Path(__file__).with_name("_models.py")


@dataclass(frozen=True)
class Subject:
    """A model with its profile."""

    name: str
    source: Source
    graph: Graph
    profile: Profile

    def priced(self, microbatches: int, schedule: str) -> Priced[Any]:
        """The throughput problem with measured costs on the machine that they were measured on."""
        cluster = Cluster.from_document(self.profile.cluster, where="the profile's cluster")
        pricing = {"costs": Measured(self.profile), "microbatches": microbatches, "schedule": schedule}
        return price_all(THROUGHPUT, self.graph, cluster, pricing, {})[0]

    def cut(self, priced: Priced[Any], layer: int) -> Plan:
        """Two stages: the layers before this one, and the others."""
        layers = find_layers(priced.problem)
        return plan_from_labels(priced.problem, layers.instance, np.asarray(layers.layer_of >= layer, dtype=np.int64))

    def layers(self, priced: Priced[Any]) -> int:
        """How many layers there are to cut between."""
        return find_layers(priced.problem).count


def profiled(name: str, processes: int = 2, repeats: int = 8) -> Subject:
    """A model of ``_models.py``, traced and measured for training, with one thread for each process."""
    source = Asked(None, None, None, {}, None, True).source(f"{MODELS}:{name}")
    graph, profile = profile_model(source, processes=processes, threads=1, repeats=repeats)
    return Subject(name, source, graph.replace(source=source), profile)


@dataclass(frozen=True)
class Outcome:
    """A plan that ran.

    Attributes
    ----------
    simulated_s, measured_s, best_s
        Seconds of a batch: simulated, and the median and the least of those that ran.
    unsplit_s
        The median without a split.
    worst_error
        Largest relative difference of a result or gradient from those without a split.
    simulated_busy_s, processor_s
        How long the busiest process works in a batch, and the median of its processor time, which other programs on the
        machine do not lengthen.
    """

    simulated_s: float
    measured_s: float
    best_s: float
    unsplit_s: float
    worst_error: float
    simulated_busy_s: float
    processor_s: float


def predicted(
    subject: Subject, priced: Priced[Any], plan: Plan, microbatches: int, schedule: str
) -> tuple[float, float]:
    """The simulated batch with the update of the largest stage behind it, and how long the busiest process works."""
    found = simulate_plan(priced.problem, plan, schedule=schedule, microbatches=microbatches)
    split = make_split(subject.graph, THROUGHPUT.model.parts(priced, plan))
    sizes = [0.0] * len(split.stages)
    by_name = {p.name: p for p in subject.graph.parameters}
    for weight in split.weights:
        for stage in weight.stages:
            sizes[stage] += by_name[weight.name].bytes if by_name[weight.name].trainable else 0
    update = max(sizes) * (subject.profile.update_s_per_byte or 0.0)
    busy = max(use.busy + use.communication_exposed for use in found.simulation.uses)
    return found.simulation.step_time + update, busy + update


def run(
    host: Host, subject: Subject, priced: Priced[Any], plan: Plan, microbatches: int, schedule: str, repeats: int = 5
) -> Outcome:
    """Run a plan, with the model that is not split beside it."""
    job = RunJob(
        split=make_split(subject.graph, THROUGHPUT.model.parts(priced, plan)),
        source=subject.source,
        operators=len(subject.graph.operators),
        microbatches=microbatches,
        schedule=schedule,
        repeats=repeats,
    )
    answer: RunAnswer = host.run(job)
    batches = [max(times) for times in zip(*(worker.step_s for worker in answer.workers), strict=True)]
    simulated, busy = predicted(subject, priced, plan, microbatches, schedule)
    return Outcome(
        simulated,
        median(batches),
        min(batches),
        median(answer.unsplit_s),
        max([*answer.outputs.values(), *answer.gradients.values(), 0.0]),
        busy,
        max(median(worker.processor_s) for worker in answer.workers),
    )
