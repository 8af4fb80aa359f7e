"""No public value floods a console or a notebook, however large the model is."""

from __future__ import annotations

import dataclasses
import functools
import random
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

import partita as pt
from api.answers import row
from instances.profiles import make_profile
from partita.api.answer import AnyAnswer
from partita.conductor.training_run import RunShape, run_over
from partita.nouns.topology.read import topology
from partita.problems.layer_placement.generators import random_layer_placement

#: Bytes of a repr, lines of a text, and bytes of what a notebook shows.
REPR, LINES, HTML = 5_000, 25, 200_000


@functools.cache
def in_stages() -> AnyAnswer:
    """Forty-eight layers of twenty operators on twelve devices."""
    return pt.plan(row(960, layers=48, name="deep"), "8xA100-40GB+4xT4", time_limit_s=2)


@functools.cache
def one_sample() -> AnyAnswer:
    return pt.plan(row(960, layers=48, name="deep"), "12xA100-40GB", objective="latency", time_limit_s=2)


@functools.cache
def on_a_topology() -> AnyAnswer:
    return pt.map_stages(in_stages(), "8xA100-40GB+4xT4", time_limit_s=1.5)


@functools.cache
def in_pieces() -> AnyAnswer:
    operators = tuple(
        pt.LatencyOperator(
            id=v, name=f"op {v}", cpu_time=4.0, accelerator_time=1.0, transfer_time=0.5, memory_bytes=1.0
        )
        for v in range(400)
    )
    edges = tuple((v, v + 1) for v in range(399))
    problem = pt.LatencyProblem(
        name="host", accelerators=12, memory_bytes=40.0, pieces=2, operators=operators, edges=edges
    )
    return pt.solve(problem, time_limit_s=1)


@functools.cache
def trained() -> AnyAnswer:
    """Many layers, with degrees of every stage."""
    pytest.importorskip("transformers")
    small: dict[str, object] = {"n_layer": 24, "n_embd": 64, "n_head": 2, "vocab_size": 512}
    return pt.plan(
        "hf:gpt2",
        "12xA100-40GB",
        training=True,
        set=small,
        sequence_length=32,
        microbatches=24,
        memory="64MB",
        time_limit_s=2,
    )


@functools.cache
def without_a_plan() -> AnyAnswer:
    return pt.solve(in_stages().problem, memory=1.0, time_limit_s=1.5)


ANSWERS = {each.__name__: each for each in (in_stages, one_sample, on_a_topology, in_pieces, trained, without_a_plan)}


def shown(value: Any, name: str) -> None:
    """Refuse what is too large to be shown."""
    assert len(repr(value).encode()) <= REPR, name
    assert len(str(value).splitlines()) <= LINES, name
    found = value._repr_html_() if hasattr(value, "_repr_html_") else ""
    assert len(found.encode()) <= HTML, name


def parts(answer: AnyAnswer) -> Iterator[tuple[str, Any]]:
    """An answer with all that can be had from it."""
    yield "answer", answer
    for name in dir(type(answer)):
        kind = getattr(type(answer), name)
        if not name.startswith("_") and (isinstance(kind, property) or hasattr(kind, "attrname")):
            if answer.model_plan is None and name in (
                "priced",
                "free",
                "tried",
                "other",
                "without_limit",
                "wider_bound",
            ):
                continue
            yield name, getattr(answer, name)
    for field in dataclasses.fields(answer):
        if field.name not in ("saved", "rows"):
            yield field.name, getattr(answer, field.name)


@pytest.mark.parametrize("name", ANSWERS)
def test_answers_and_what_they_hold(name: str) -> None:
    answer = ANSWERS[name]()
    for part, value in parts(answer):
        if isinstance(value, tuple | list):
            for one in value:
                shown(one, f"{name}.{part}[]")
        elif not isinstance(value, dict):
            shown(value, f"{name}.{part}")
    shown(answer.check(), f"{name}.check()")
    if answer.plan is not None:
        found = answer.simulate()
        for value in (found, found.simulated, found.simulation, found.timeline, found.simulation.program):
            shown(value, f"{name}.simulate()")


@functools.cache
def others() -> tuple[Any, ...]:
    """What does not hang on an answer."""
    return tuple(_others())


def _others() -> Iterator[Any]:
    problem = pt.regal_problem(0, nodes=400, devices=12)
    yield problem
    yield pt.plain_problem(problem)
    yield pt.solve(problem, time_limit_s=1)
    yield pt.compare(in_stages().problem, time_limit_s=1)
    yield pt.sweep(row(120), "A100-40GB", devices=list(range(1, 31)), time_limit_s=0.02)
    yield pt.bound(in_pieces().problem, time_limit_s=1)
    yield pt.read_cluster("256x(8xA100-80GB)")
    yield topology("dgx1:16")
    yield pt.ProfileAnswer(make_profile(row(960), [0.001] * 960), row(960))
    yield make_profile(row(960), [0.001] * 960)
    placed = pt.solve(random_layer_placement(1, machines=42, kinds=4, regions=2), time_limit_s=2)
    yield from (placed, placed.problem, placed.plan)
    yield pt.Event(0.0, 1.0, 1.0, "")
    yield run_over(RunShape(step_s=10.0, tokens=1 << 22, devices=1 << 17, replicas=256), 1e13, device_failure_hours=5e4)
    yield pt.place(in_stages().problem, in_stages().plan, "8xA100-40GB+4xT4", time_limit_s=1)


def test_everything_else() -> None:
    for value in others():
        shown(value, type(value).__name__)


def test_no_public_class_was_forgotten() -> None:
    """Of every one there is a value above, or it is small whatever it holds."""
    seen = {type(value).__mro__ for answer in ANSWERS.values() for _, value in parts(answer())}
    seen |= {type(value).__mro__ for value in others()}
    answer = in_stages()
    seen |= {type(value).__mro__ for value in (answer.simulate(), *answer.plan.stages, *in_pieces().problem.operators)}
    known = {kind for order in seen for kind in order}
    public = {value for name in pt.__all__ if isinstance(value := getattr(pt, name), type)}
    small = {pt.Exported, pt.MeasuredRun, pt.Status, pt.StopReason, pt.Monitor, pt.Runtime, pt.Limits, pt.Action}
    small |= {pt.DeviceSpec, pt.LinkSpec, pt.Option, pt.SearchOptions, pt.TopologyGenerator, pt.TopologyImporter}
    # What components derive from.
    small |= {pt.Exporter, pt.FileExporter, pt.FolderExporter, pt.ForeignFormat, pt.Kind, pt.Solver, pt.BoundMethod}
    small |= {pt.Schedule, pt.Outcome, pt.PlanEvaluation, pt.LayerBaseline, pt.setting}
    assert {kind for kind in public if not issubclass(kind, Exception)} - known - small == set()


def test_the_largest_stage_of_all() -> None:
    """One that holds ten thousand operators on a thousand devices."""
    draw = random.Random(1)
    stage = pt.Stage(
        operators=tuple(draw.sample(range(100_000), 10_000)),
        kind="A100",
        devices=tuple(f"A100:{n}" for n in range(1024)),
        data_parallel=1024,
    )
    shown(stage, "stage")
    shown(pt.Plan(stages=(stage,) * 64), "plan")
    assert msgspec.json.decode(msgspec.json.encode(stage), type=pt.Stage) == stage
