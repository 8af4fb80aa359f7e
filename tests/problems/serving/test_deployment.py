"""Plans of engines that serve, as what these are started from."""

from __future__ import annotations

import msgspec

from partita.nouns.cluster import Cluster
from partita.nouns.deployment import machine_cards
from partita.problems.serving.deployment import deployment
from partita.problems.serving.problem import DevicePool, ServingPlan, UnitFormats, UnitGroup
from partita.problems.serving.samples import LOOP, SPLIT


def test_a_plan_is_what_its_forms_and_groups_say() -> None:
    plan = ServingPlan(
        units=(UnitGroup(unit=0, count=2, role="prefill"), UnitGroup(unit=1, count=1, role="decode")),
    )
    found = deployment(SPLIT, plan)
    assert [(one.count, one.role, one.tensor, one.devices) for one in found.units] == [
        (2, "prefill", 1, 1),
        (1, "decode", 2, 2),
    ]
    assert {(one.requests, one.tokens, one.block_tokens, one.engine, one.weights) for one in found.units} == {
        (16, 256, 16, None, None)
    }
    assert (found.machines, found.longest, found.split) == (((("gpu", 4),),), 120, True)
    assert found.units[1].label == "tensor 2 on gpu"


def test_engine_and_formats_are_those_that_were_priced() -> None:
    form = msgspec.structs.replace(
        LOOP.units[0], engine="sglang", formats=UnitFormats(weights="fp8", expert_weights=None, cache="bf16")
    )
    found = deployment(LOOP.replace(units=(form,)), ServingPlan(units=(UnitGroup(unit=0),)))
    (one,) = found.units
    assert (one.engine, one.weights, one.of_experts, one.cache, one.memory_share) == (
        "sglang",
        "fp8",
        "fp8",
        "bf16",
        0.86,
    )


def test_machines_are_those_of_the_cluster() -> None:
    cluster = Cluster.from_spec("2x(1xL4+1xCPU)+1x(2xL4+1xT4)")
    plan = ServingPlan(units=(UnitGroup(unit=0),))
    assert deployment(LOOP, plan, cluster).machines == ((("L4", 1),), (("L4", 1),), (("L4", 2), ("T4", 1)))
    assert machine_cards(Cluster.from_spec("1xCPU")) == ((("CPU", 1),),)
    # Without a cluster, those of the problem's pools.
    pools = (DevicePool(kind="L4", machines=(2, 1)), DevicePool(kind="T4", machines=(4,)))
    mixed = LOOP.replace(
        units=(
            msgspec.structs.replace(LOOP.units[0], kind="L4"),
            msgspec.structs.replace(LOOP.units[1], kind="T4"),
        ),
        pools=pools,
    )
    assert deployment(mixed, plan).machines == ((("L4", 2),), (("L4", 1),), (("T4", 4),))
