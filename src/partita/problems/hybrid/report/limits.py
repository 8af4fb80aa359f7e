"""Where the devices' time goes under a hybrid plan, and why one plan is slower than another."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

from partita.nouns.pipeline import Plan
from partita.problems.hybrid.evaluation import HybridEvaluation
from partita.problems.hybrid.problem import HybridProblem


@dataclass(frozen=True)
class DeviceTime:
    """Time of all devices together per sample: parts add up to devices times objective (of a step: its N-th part)."""

    #: Every layer at its fastest on the degree at which its group takes least device time: the same for all plans.
    compute: float
    recompute: float  #: What configurations chosen for their memory take beyond the fastest ones of their degree.
    #: What the fastest configurations take beyond ``compute``: traffic of groups that share layers out, and smaller
    #: operators.
    tensor: float
    #: Tensors between stages, and weights between replicas, where devices wait for them.
    transfer: float
    weight_sync: float
    links: float  #: Waiting for links between machines, where these are slower than every stage.
    imbalance: float  #: Waiting for the slowest stage.
    idle: float  #: Devices that no stage uses.
    #: Of a step: waiting while the pipeline fills and drains, and the optimizer's step.
    bubble: float = 0.0
    update: float = 0.0

    @property
    def total(self) -> float:
        """All of it."""
        return sum(self.parts().values())

    def parts(self) -> dict[str, float]:
        """By name."""
        return asdict(self)

    @property
    def binding(self) -> str:
        """What takes most beyond the layers' own work, if that is a tenth: memory, bandwidth, balance or devices."""
        kinds = {
            "memory": self.recompute,
            "bandwidth": self.tensor + self.transfer + self.weight_sync + self.links,
            "balance": self.imbalance + self.bubble,
            "devices": self.idle,
        }
        name, most = max(kinds.items(), key=lambda item: item[1])
        return name if most > _MUCH * self.total else "compute"


#: Less than this share of the device time does not bind.
_MUCH = 0.1
#: A plan that is better by this share without memory limits owes that to them.
_GAIN = 1e-3

#: What each part is called in a sentence.
_WORDS = {
    "recompute": "recomputation to fit into memory",
    "tensor": "tensor-parallel traffic and smaller operators",
    "transfer": "tensors between stages",
    "weight_sync": "synchronising weights",
    "links": "links between machines",
    "imbalance": "stages that wait for the slowest",
    "bubble": "filling and draining the pipeline",
    "update": "the optimizer",
    "idle": "devices without work",
}

#: Shares below this are not worth a word.
_SMALL = 0.005


def device_time(problem: HybridProblem, plan: Plan, evaluation: HybridEvaluation) -> DeviceTime:
    """Take a plan's device time apart."""
    first = plan.stages[0]
    there = problem.at(*first.shared) or problem
    slowest = evaluation.slowest
    spent = dict.fromkeys((field.name for field in fields(DeviceTime)), 0.0)
    spent |= {name: plan.device_count * time for name, time in evaluation.beyond.items()}
    spent["idle"] = (problem.all_devices - plan.device_count) * evaluation.per_microbatch
    least_of = {kind.device: kind.least_device_times() for kind in problem.kinds}
    for stage, worth in zip(plan.stages, evaluation.stages, strict=True):
        kind = problem.on(stage.kind)
        layers, least = {layer.id: layer for layer in there.on(stage.kind).layers}, least_of[kind.device]
        degree, used = stage.tensor_parallel, stage.device_count
        group = degree * stage.context_parallel
        for identity in stage.operators:
            row = layers[identity].configurations[degree]
            fastest = min(c.time for c in row)
            chosen = next(c.time for c in row if c.id == stage.configurations[identity])
            own = min(least[identity], group * fastest)
            spent["compute"] += own
            spent["tensor"] += group * fastest - own
            spent["recompute"] += group * (chosen - fastest)
        spent["transfer"] += used * worth.transfer
        spent["weight_sync"] += used * worth.weight_sync
        spent["imbalance"] += used * (slowest - worth.time_per_microbatch)
    return DeviceTime(**spent)


def _in_words(shares: Mapping[str, float], form: str, most: int | None = None) -> str:
    """The shares of time that are worth a word, the largest first; compute is not called anything."""
    found = sorted(((share, name) for name, share in shares.items() if share > _SMALL and name in _WORDS), reverse=True)
    return ", ".join(form.format(share, _WORDS[name]) for share, name in found[:most])


def explain_slower(slower: DeviceTime, faster: DeviceTime) -> str:
    """What the slower of two plans for one problem spends more on, in percent of the faster one's time."""
    if faster.total <= 0:
        return ""
    more = {name: (value - faster.parts()[name]) / faster.total for name, value in slower.parts().items()}
    return _in_words(more, "{1} {0:+.0%}", 2)


def binding(spent: DeviceTime, objective: float, without_memory: float | None) -> str:
    """What binds: memory, if the plan would be better without its limit; else what takes the time."""
    if without_memory is not None and without_memory < objective * (1 - _GAIN):
        return "memory"
    return spent.binding


def hybrid_sentences(
    problem: HybridProblem, plan: Plan, evaluation: HybridEvaluation, without_memory: float | None = None
) -> list[str]:
    """What limits a plan, in words; ``without_memory`` is the objective of one without memory limit, if computed."""
    spent = device_time(problem, plan, evaluation)
    total = spent.total
    if total <= 0:
        return []
    text = _in_words({name: value / total for name, value in spent.parts().items()}, "{:.1%} {}")
    sentences = [
        f"{spent.compute / total:.1%} of all device time is the layers' own work"
        + (f", {text}" if text else "")
        + f"; {binding(spent, evaluation.objective, without_memory)} binds"
    ]
    slowest = evaluation.slowest
    if evaluation.machine_groups and evaluation.objective > slowest:
        busy = max(
            range(len(evaluation.machine_groups)), key=lambda i: evaluation.machine_groups[i].time_per_microbatch
        )
        link = evaluation.machine_groups[busy]
        share = link.weight_sync / link.time_per_microbatch
        sentences.append(
            f"the links of the {link.machines} machines of group {busy} are the bottleneck: they are busy "
            f"{evaluation.objective / slowest - 1:.1%} longer than the slowest stage, {share:.0%} of it with weights"
        )
    if problem.memory_bytes:
        limits = [problem.on(stage.kind).memory_bytes or math.inf for stage in plan.stages]
        shares = (worth.memory_bytes / limit for worth, limit in zip(evaluation.stages, limits, strict=True))
        fullest, where = max((share, number) for number, share in enumerate(shares))
        sentence = f"the fullest memory is that of stage {where}: {fullest:.0%} of its limit"
        if without_memory is not None:
            gain = 1 - without_memory / evaluation.objective
            sentence += (
                f"; without memory limit the plan would be {gain:.1%} faster"
                if gain > _GAIN
                else "; a plan without memory limit would not be faster"
            )
        sentences.append(sentence)
    return sentences
