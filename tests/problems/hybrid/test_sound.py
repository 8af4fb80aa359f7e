"""What is claimed of a plan or a bound, on numbers that are hard to add up: zeros, ties, and ratios up to 10¹²."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from partita.conductor.judge import evaluate
from partita.engines.search.monitor import Monitor
from partita.ground.rounding import leq
from partita.problems import kind_of
from partita.problems.hybrid.layer import Configuration, ContextExpertLayers, Edge, Layer
from partita.problems.hybrid.problem import Hierarchy, HybridProblem
from partita.problems.hybrid.protocol import HybridOptions
from partita.problems.hybrid.room import most_room
from partita.problems.hybrid.steady.certificate import refutation
from partita.problems.hybrid.training import LayerState, Training
from problems.hybrid.check_certificate import check
from problems.hybrid.check_claims import EXACT, check_claims
from problems.hybrid.samples import optimum

#: Instances that were wrong once; they lie beside the project and are not part of it.
FILES = Path("../shared/data/defects")
NAMES = (
    "certificate",
    "free_bound",
    "memory_ratio_1e+09",
    "memory_ratio_1e+12",
    "spread_keyerror",
    "uniform_bound",
    "zero_division",
    "zero_order",
)


def read(path: Path) -> HybridProblem:
    if not path.exists():
        pytest.skip(f"{path} is not there: instances that were wrong lie beside the project")
    fields = json.loads(path.read_text())
    del fields["format"], fields["version"]
    return msgspec.convert(fields, HybridProblem, strict=False)


def one_layer(*choices: Configuration, state: LayerState | None = None) -> tuple[Layer, ...]:
    return (Layer(id=0, configurations={1: choices}, states={} if state is None else {1: state}),)


def plain(time: float, **fields: Any) -> Configuration:
    return Configuration(id="none", time=time, **fields)


def problem_of(layers: tuple[Layer, ...], **fields: Any) -> HybridProblem:
    return HybridProblem(
        **{
            "name": "sound",
            "unit": "s",
            "devices": 1,
            "bandwidth_bytes_per_unit": 1.0,
            "microbatches": 1,
            "layers": layers,
            **fields,
        }
    )


def explained(problem: HybridProblem) -> str:
    """Why it has no plan."""
    kind = kind_of(problem)
    return kind.explain_infeasible(problem, kind.solvers[0], HybridOptions())


@pytest.mark.parametrize("name", NAMES)
def test_instances_that_were_wrong(name: str) -> None:
    problem = read(FILES / f"hybrid_{name}.json")
    assert check_claims(problem) == 1
    if optimum(problem, HybridOptions()) is None:
        assert explained(problem)


def test_a_fast_choice_that_no_memory_holds_does_not_hide_what_others_need() -> None:
    """Of two small choices for each of three layers memory has room for one slow and two faster ones."""
    for huge in (1e9, 1e12):
        layers = tuple(
            Layer(
                id=v,
                configurations={
                    1: (
                        plain(1.0, memory_bytes=huge + v),
                        Configuration(id="selective", time=1.5, memory_bytes=1.4),
                        Configuration(id="full", time=2.3 + v / 100, memory_bytes=0.7),
                    )
                },
            )
            for v in range(3)
        )
        assert check_claims(problem_of(layers, memory_bytes=0.7 + 0.7 + 0.7 + 0.7), 2.3 + 2.31 + 1.5) == 1


def test_choices_that_gain_equally_much() -> None:
    """0.1 + 0.2 is a little more than 0.3, and 10 less either is the same."""
    layers = one_layer(
        plain(1.0, memory_bytes=10.0),
        Configuration(id="selective", time=2.0, memory_per_microbatch_bytes=0.1, memory_bytes=0.2),
        Configuration(id="full", time=3.0, memory_bytes=0.3),
    )
    assert check_claims(problem_of(layers, memory_bytes=0.5, microbatches=4), 2.0) == 1


@pytest.mark.parametrize("huge", [1e12, 1e15, 1e15 / 3])
def test_times_of_a_heavy_layer_do_not_swallow_those_of_light_ones(huge: float) -> None:
    """At a degree that no plan takes the last layer is so slow that nothing of the others is left in sums with it."""
    light = tuple(Layer(id=v, configurations={1: (plain(0.7 + 0.1 * v),)}) for v in range(3))
    heavy = Layer(id=9, configurations={1: (plain(huge),), 2: (plain(0.1),)})
    edges = (*(Edge(source=v, target=v + 1, bytes=0.0) for v in range(2)), Edge(source=2, target=9, bytes=0.0))
    assert check_claims(problem_of((*light, heavy), devices=4, microbatches=2, edges=edges), 2.4) == 1


def test_the_empty_set_needs_nothing() -> None:
    """On machines that are too few for a target, the proof is what the layers outside the empty set need."""
    layers = one_layer(plain(4.0))
    machines = Hierarchy(devices_per_machine=1, machine_bandwidth_bytes_per_unit=1.0)
    problem = problem_of(layers, devices=2, microbatches=2, hierarchy=machines)
    assert optimum(problem, HybridOptions()) == 2.0
    for target in (0.5, 1.5, 1.999999):
        proof = refutation(problem, target)
        assert proof is not None
        assert proof.fewest[0] == ((0, 0),)
        assert check(problem, proof) is None


def test_a_bound_on_meshes_is_one_on_those_that_were_looked_at_too() -> None:
    """The better stage of ZeRO comes second, and the next mesh has a bound far above both."""
    state = LayerState(parameter_bytes=0.01)
    training = Training(schedules=("zero-bubble",), zero=(2, 3), mesh="free", overlap=False)
    problem = problem_of(one_layer(plain(3.0), state=state), devices=2, microbatches=8, training=training)
    assert check_claims(problem, 12.005) == 1


def test_a_mesh_that_is_hardly_better_is_below_the_bound() -> None:
    """Two stages update a little less each, and take a little longer to hand over than that."""
    layers = tuple(
        Layer(id=v, configurations={1: (plain(1.0),)}, states={1: LayerState(update_time=2e-7)}) for v in range(4)
    )
    edges = tuple(Edge(source=v, target=v + 1, bytes=3e-7) for v in range(3))
    for schedules in (("1f1b",), ("1f1b", "interleaved", "gpipe", "zero-bubble")):
        problem = problem_of(layers, devices=4, edges=edges, training=Training(schedules=schedules))
        assert check_claims(problem) == 1


@pytest.mark.parametrize("zero", [(2, 0), (3, 1, 2), (0, 2)])
def test_the_order_of_zero_stages_decides_nothing(zero: tuple[int, ...]) -> None:
    """One replica shares out nothing under any of them, and zero-bubble schedules go with some."""
    state = LayerState(parameter_bytes=1.0, gradient_bytes=1.0)
    layers = tuple(Layer(id=v, configurations={1: (plain(3.0, forward_time=1.0),)}, states={1: state}) for v in (0, 1))
    problem = problem_of(
        layers,
        devices=2,
        microbatches=7,
        edges=(Edge(source=0, target=1, bytes=1.0),),
        bandwidth_bytes_per_unit=1000.0,
        training=Training(schedules=("zero-bubble",), zero=zero),
    )
    assert check_claims(problem, 22.008) == 1


def test_layers_may_lack_a_degree_where_devices_share_out_the_sequence() -> None:
    spread = ContextExpertLayers(context=2, expert=1, layers=(Layer(id=0, configurations={3: (plain(1.0),)}),))
    layers = (Layer(id=0, configurations={1: (plain(2.0),), 3: (plain(1.0),)}),)
    for context, expected in (((2,), None), ((1, 2), 2.0)):
        training = Training(context=context)
        assert check_claims(problem_of(layers, spreads=(spread,), training=training), expected) == 1
    training = Training(context=(2,))
    assert "devices" in explained(problem_of(layers, spreads=(spread,), training=training))


@pytest.mark.parametrize("mesh", ["uniform", "free"])
def test_a_step_does_not_read_what_replicas_share_out_of_an_endless_row(mesh: str) -> None:
    layers = tuple(Layer(id=v, configurations={1: (plain(1.0, sharded_bytes=3.0, weight_bytes=2.0),)}) for v in (0, 1))
    training = Training(mesh=mesh)
    assert check_claims(problem_of(layers, devices=2, microbatches=2, memory_bytes=1.0, training=training), 2.0) == 1


def test_a_proof_counts_machines_as_closely_as_the_decision() -> None:
    """What lies outside a set needs hardly more than two machines of three: the decision does not go on from there."""
    layers = (
        Layer(id=0, configurations={3: (plain(1.7),)}),
        Layer(id=1, configurations={1: (plain(2.4),)}),
    )
    problem = problem_of(
        layers,
        devices=9,
        microbatches=12,
        edges=(Edge(source=0, target=1, bytes=0.0),),
        hierarchy=Hierarchy(devices_per_machine=3, machine_bandwidth_bytes_per_unit=1.0),
    )
    best = optimum(problem, HybridOptions())
    assert best is not None
    for share in (1e-6, 2.5e-7, 1e-7, 1e-8, 1e-9):
        proof = refutation(problem, best * (1 - share))
        assert proof is not None
        assert check(problem, proof) is None, share


def _fast_or_small(need: float, training: Training | None = None) -> HybridProblem:
    """Four layers on two devices, of which two on each fit into a memory of 2, the fast ones if that is accepted."""
    choices = plain(1.0, memory_bytes=need), Configuration(id="full", time=2.0, memory_bytes=0.5)
    layers = tuple(Layer(id=v, configurations={1: choices}) for v in range(4))
    edges = tuple(Edge(source=v, target=v + 1, bytes=0.0) for v in range(3))
    return problem_of(layers, devices=2, memory_bytes=2.0, microbatches=2, edges=edges, training=training)


@pytest.mark.parametrize(
    "training",
    [None, Training(), Training(schedules=("interleaved",)), Training(mesh="free"), Training(schedules=("gpipe",))],
    ids=["steady", "1f1b", "interleaved", "free", "gpipe"],
)
def test_memory_at_the_very_limit(training: Training | None) -> None:
    """All that the evaluator accepts counts in a bound, and nothing else is a plan."""
    (solver,) = (
        one
        for one in kind_of(_fast_or_small(1.0, training)).solvers
        if one.supports(_fast_or_small(1.0, training), HybridOptions()) is None
    )

    def solved(need: float) -> tuple[float, float]:
        problem = _fast_or_small(need, training)
        outcome = solver.solve(problem, HybridOptions(), Monitor(600.0))
        assert outcome.plan is not None
        assert outcome.bound is not None
        value = evaluate(problem, outcome.plan)
        assert value.feasible
        return value.objective, outcome.bound

    fast, slow = solved(1.0)[0], solved(1.1)[0]
    assert fast < slow
    # The evaluator accepts 2·(1 + 10⁻⁹); half of that is what searches filled once.
    for need in (1 + 4e-10, 1 + 8e-10, 1 + 9.999e-10):
        assert solved(need)[0] == pytest.approx(fast, rel=1e-6)
    assert solved(1 + 1.001e-9)[0] == pytest.approx(slow, rel=1e-6)
    # Not accepted, but by rounding alone: a plan is found, and nothing is claimed that another sum would deny.
    need = most_room(2.0, 4) / 2 * (1 - 1e-15)
    assert not leq(2 * need, 2.0)
    value, bound = solved(need)
    assert value == pytest.approx(slow, rel=1e-6)
    assert bound <= fast * (1 + EXACT)


def test_degrees_that_only_shared_out_layers_have_count_in_the_bound_of_all_rows() -> None:
    spread = ContextExpertLayers(context=1, expert=2, layers=(Layer(id=0, configurations={1: (plain(1.0),)}),))
    layers = (Layer(id=0, configurations={3: (plain(0.0),)}),)
    training = Training(mesh="free", expert=(2,))
    problem = problem_of(layers, devices=2, microbatches=2, spreads=(spread,), training=training)
    assert check_claims(problem, 1.0) == 1


def test_rows_lack_a_layer_that_only_has_degrees_where_devices_share_out_the_sequence() -> None:
    """Another layer has a degree that fits, so there are rows to be looked at, and none for this layer."""
    layers = (
        Layer(id=0, configurations={1: (plain(1.0),)}),
        Layer(id=1, configurations={2: (plain(1.0),)}),
    )
    shared = tuple(Layer(id=number, configurations={1: (plain(1.0),)}) for number in (0, 1))
    spread = ContextExpertLayers(context=2, expert=1, layers=shared)
    training = Training(mesh="free", context=(2, 1))
    problem = problem_of(layers, microbatches=2, spreads=(spread,), training=training)
    assert optimum(problem, HybridOptions()) is None
    assert check_claims(problem) == 1


def test_the_order_of_equally_fast_configurations_says_nothing() -> None:
    """Their forward parts differ, and with them the gradients of weights that a zero-bubble schedule moves."""
    ways = tuple(
        Configuration(id=name, time=1.0, forward_time=share) for name, share in (("none", 0.25), ("full", 0.75))
    )
    found = set()
    for row in (ways, ways[::-1]):
        state = LayerState(gradient_bytes=1e9, weight_gradient_time=1.0)
        layers = tuple(Layer(id=v, configurations={1: row}, states={1: state}) for v in range(2))
        problem = problem_of(
            layers,
            devices=2,
            microbatches=4,
            edges=(Edge(source=0, target=1, bytes=0.0),),
            training=Training(schedules=("zero-bubble",)),
        )
        found.add(optimum(problem, HybridOptions()))
        assert check_claims(problem) >= 1
    assert len(found) == 1
