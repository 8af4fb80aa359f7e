"""What ZeRO's stage says, shared out among some of the groups of the same weights while others hold the same."""

from __future__ import annotations

import msgspec
import pytest

import partita as pt
from partita.ground.errors import InputError
from partita.nouns.pipeline import Plan, Stage
from partita.problems.hybrid.layer import Configuration, ContextExpertLayers, Layer
from partita.problems.hybrid.problem import Hierarchy, HybridProblem
from partita.problems.hybrid.step.evaluate import evaluate
from partita.problems.hybrid.step.layout import MeshLayout, parse_layout
from partita.problems.hybrid.training import LayerState, Training
from problems.hybrid.step_strategies import sharded_step
from problems.hybrid.test_step import EVERY, check


def small(zero: int, shards: tuple[int, ...], **further: object) -> HybridProblem:
    """One layer on four machines of two devices: 8 replicas, no latencies, nothing behind work."""
    state = LayerState(parameter_bytes=16.0, gradient_bytes=32.0, optimizer_bytes=64.0, update_time=8.0)
    layer = Layer(id=0, configurations={1: (Configuration(id="none", time=3.0, forward_time=1.0),)}, states={1: state})
    training = Training(zero=(0, zero), zero_shards=shards, overlap=False)
    return HybridProblem(
        name="small",
        devices=8,
        memory_bytes=1000.0,
        bandwidth_bytes_per_unit=8.0,
        microbatches=8,
        layers=(layer,),
        edges=(),
        hierarchy=Hierarchy(devices_per_machine=2, machine_bandwidth_bytes_per_unit=4.0),
        training=msgspec.structs.replace(training, **further),
    )


def plan(zero: int, shards: int) -> Plan:
    stage = Stage(operators=(0,), data_parallel=8, configurations={0: "none"})
    return Plan(stages=(stage,), zero=zero, zero_shards=shards)


def test_neighbours_share_out_what_others_hold_too() -> None:
    """By hand: 2 neighbours scatter 32 bytes over 8 a unit, 4 machines sum halves up over 2, halves are gathered."""
    found = evaluate(small(1, (2,)), plan(1, 2))
    assert found.feasible, found.violations
    scatter, total, gather = 32 / 2 / 8, 2 * 3 / 4 * 16 / 2, 16 / 2 / 8
    assert found.step.weight_sync == pytest.approx(scatter + total + gather)
    assert found.step.update == pytest.approx(8.0 / 2)
    assert found.stages[0].memory_bytes == pytest.approx(16 + 32 + 64 / 2)


def test_weights_and_gradients_that_neighbours_share_out() -> None:
    """Both are exchanged for every microbatch inside machines; sums of shares between machines once."""
    found = evaluate(small(3, (2,)), plan(3, 2))
    assert found.step.weight_sync == pytest.approx(2 * 3 / 4 * 16 / 2 + 32 / 2 / 8)
    # The forward part waits for the first weights; its gradients are the rest of the step.
    assert found.step.pipeline == pytest.approx(3.0 + 16 / 2 / 8)
    # What is shared out, and while the layer runs whole weights and gradients.
    assert found.stages[0].memory_bytes == pytest.approx((16 + 32 + 64) / 2 + 16 + 32)


@pytest.mark.parametrize("zero", [1, 2, 3])
def test_all_groups_are_what_none_named_stands_for(zero: int) -> None:
    one, other = (evaluate(small(zero, (0, 8)), plan(zero, shards)) for shards in (0, 8))
    assert one == other


@pytest.mark.parametrize(
    ("problem", "asked", "said"),
    [
        (small(1, (0,)), plan(1, 2), "ZeRO shares out among 2 groups, not one of 0"),
        (small(1, (2,)), plan(1, 0), "among all groups, which is not allowed"),
        (small(1, (2,)), plan(0, 2), "ZeRO stage 0 shares out nothing"),
        (small(1, (3,)), plan(1, 3), "among 3 groups, which do not divide the 8 of a stage"),
    ],
)
def test_what_cannot_be_shared_out_is_said(problem: HybridProblem, asked: Plan, said: str) -> None:
    assert any(said in violation for violation in evaluate(problem, asked).violations)


def test_experts_share_out_as_often() -> None:
    """Of 8 replicas 4 hold an expert; two copies of all else leave two devices to share out each of them."""
    state = LayerState(experts=LayerState(optimizer_bytes=64.0))
    whole = small(1, (0, 2, 4))
    layers = (msgspec.structs.replace(whole.layers[0], states={1: state}),)
    spread = ContextExpertLayers(context=1, expert=2, layers=layers)
    training = msgspec.structs.replace(whole.training, expert=(1, 2))
    problem = whole.replace(training=training, spreads=(spread,))
    stage = Stage(operators=(0,), data_parallel=8, expert_parallel=2, configurations={0: "none"})
    found = evaluate(problem, Plan(stages=(stage,), zero=1, zero_shards=4))
    assert found.feasible, found.violations
    assert found.stages[0].memory_bytes == pytest.approx(64 / 2)
    # Eight groups that share out experts leave one replica of each.
    wide = problem.replace(
        training=msgspec.structs.replace(training, expert=(1, 8)),
        spreads=(msgspec.structs.replace(spread, expert=8),),
    )
    alone = msgspec.structs.replace(stage, expert_parallel=8)
    told = evaluate(wide, Plan(stages=(alone,), zero=1, zero_shards=4)).violations
    assert any("held 2 times, which does not divide the 1 replicas of each expert" in one for one in told)


def searched(seeds: range) -> tuple[int, int]:
    """Problems with a plan, and those whose best plan shares out among some."""
    found = [
        check(sharded_step(seed, names, spread=bool(number % 2)))
        for number, names in enumerate(EVERY)
        for seed in seeds
    ]
    plans = [one for one in found if one is not None]
    return len(plans), sum(one.zero_shards > 0 for one in plans)


def test_no_plan_that_shares_out_among_some_is_shorter() -> None:
    seen, some = searched(range(25))
    assert seen >= 60
    assert some >= 10


@pytest.mark.slow
def test_no_plan_of_many_that_shares_out_among_some_is_shorter() -> None:
    seen, some = searched(range(1000, 1100))
    assert seen >= 300
    assert some >= 50


def test_layouts_say_it() -> None:
    layout = parse_layout("data=8,tensor=2,zero=3,zero_shards=4")
    assert (layout.zero, layout.zero_shards) == (3, 4)
    with pytest.raises(InputError, match="zero_shards is 3; it must divide data · context, 8"):
        MeshLayout(data=8, zero=1, zero_shards=3)
    with pytest.raises(InputError, match="zero 0 shares out nothing"):
        MeshLayout(data=8, zero_shards=4)


def test_stages_of_unlike_degrees_share_out_among_all() -> None:
    problem = small(1, (0, 2))
    with pytest.raises(InputError, match="degrees of their own, ZeRO shares out among all replicas"):
        problem.replace(training=msgspec.structs.replace(problem.step, mesh="free"))
    other = problem.replace(device="b")
    with pytest.raises(InputError, match="of several kinds of devices all replicas share out"):
        problem.replace(device="a", others=(other,))


def test_a_model_is_planned_where_some_share_out() -> None:
    """All zero stages share out among two of the four replicas, and what stages of unlike degrees do is not said."""
    pytest.importorskip("transformers")
    asked: dict[str, object] = {
        "set": {"n_layer": 2, "n_embd": 64, "n_head": 2}, "sequence_length": 16, "training": True, "microbatches": 8,
        "objective": "hybrid", "zero": (1, 2, 3), "time_limit_s": 10, "baselines": False,
    }  # fmt: skip
    answer = pt.plan("hf:gpt2", "2x(2xL4)", zero_shards=(2,), **asked)
    assert str(answer.status) == "optimal"
    plan = answer.plan
    groups = plan.stages[0].data_parallel * plan.stages[0].context_parallel
    assert plan.zero_shards == (2 if groups > 1 else 0)
    for more in ({"mesh": "free"}, {"minimise": "steady", "zero": ()}):
        with pytest.raises(InputError, match="zero-shards is for"):
            pt.plan("hf:gpt2", "2x(2xL4)", zero_shards=(2,), **(asked | more))
    with pytest.raises(InputError, match="zero-shards is for devices of one kind"):
        pt.plan("hf:gpt2", "2xL4+2xT4", zero_shards=(2,), **asked)
