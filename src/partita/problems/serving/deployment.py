"""A plan as what engines are started from."""

from __future__ import annotations

from partita.nouns.catalogue.engines import ENGINES
from partita.nouns.cluster import Cluster
from partita.nouns.deployment import DeployedUnits, Deployment, MachineCards, machine_cards
from partita.problems.serving.problem import ServingPlan, ServingProblem, ServingUnit, UnitGroup


def deployment(problem: ServingProblem, plan: ServingPlan, cluster: Cluster | None = None) -> Deployment:
    """What a plan deploys, on the machines of a cluster; without one, on those of the problem's pools."""
    return Deployment(
        name=problem.name,
        units=tuple(_units(problem.form(group.unit), group) for group in plan.units),
        machines=_machines(problem) if cluster is None else machine_cards(cluster),
        longest=max(prompt + output for prompt, output in problem.workload.lengths()),
    )


def _machines(problem: ServingProblem) -> tuple[MachineCards, ...]:
    return tuple(((pool.kind, count),) for pool in problem.pools for count in pool.machines)


def _units(form: ServingUnit, group: UnitGroup) -> DeployedUnits:
    layout, rules, formats = form.layout, form.rules, form.formats
    share = next((engine.memory_share for engine in ENGINES if engine.name == form.engine), None)
    return DeployedUnits(
        kind=form.kind,
        count=group.count,
        role=group.role,
        shares=group.shares or (),
        tensor=layout.tensor,
        pipeline=layout.pipeline,
        attention_data=layout.attention_data,
        expert=layout.expert,
        expert_tensor=layout.expert_tensor,
        apart=form.prices.attention_data == 1,
        requests=rules.requests,
        tokens=rules.tokens,
        block_tokens=rules.block_tokens,
        chunked=rules.chunked,
        mixed=rules.mixed,
        interval=group.interval,
        reserves=rules.reserve == "whole",
        memory_share=share,
        engine=form.engine,
        weights=None if formats is None else formats.weights,
        expert_weights=None if formats is None else formats.expert_weights,
        cache=None if formats is None else formats.cache,
    )
