"""What a hybrid plan is worth: the time per sample of its slowest stage (Piper, NeurIPS 2021, §3.4).

Not covered, and left to the package's own evaluator: steps of training, and machines of several devices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from partita.checker.certificate import Problem, placed
from partita.checker.numbers import FailedCheckError, at_most, exact, total


def not_covered(problem: Problem, plan: Mapping[str, Any]) -> str | None:
    """What of a problem this file knows nothing of; None if it knows all."""
    if problem.get("training") is not None:
        return "steps of training"
    return None if problem.get("hierarchy") is None else "machines of several devices"


def covers(scope: str, plan: Mapping[str, Any]) -> bool:
    """Stages are always in a row."""
    return scope in ("", "acyclic")


def worth(problem: Problem, plan: Mapping[str, Any]) -> Fraction:
    """The largest time per sample.

    Raises
    ------
    FailedCheckError
        If a limit is broken, or it is not a plan of the problem.
    """
    stages = plan["stages"]
    layers = {layer["id"]: layer for layer in problem["layers"]}
    home = placed(_places(stages), layers, "layer")
    replicas = [stage["data_parallel"] for stage in stages]
    devices = sum(stage["data_parallel"] * stage["tensor_parallel"] for stage in stages)
    if devices > problem["devices"] or plan.get("devices", devices) != devices:
        raise FailedCheckError(f"the stages use {devices} devices")
    if sum(replicas) > problem["microbatches"] or plan.get("microbatches", sum(replicas)) != sum(replicas):
        raise FailedCheckError(f"the data-parallel degrees add up to {sum(replicas)}")
    chosen = {v: _choice(layers[v], stages[number]) for v, number in home.items()}
    moved = [Fraction(0)] * len(stages)
    for edge in problem.get("edges", ()):
        a, b = home[edge["source"]], home[edge["target"]]
        if a > b:
            raise FailedCheckError(f"layer {edge['source']} hands something back to an earlier stage")
        if a < b:
            out = chosen[edge["source"]].get("sync_out_bytes", {}).get(str(edge["target"]), 0.0)
            into = chosen[edge["target"]].get("sync_in_bytes", {}).get(str(edge["source"]), 0.0)
            moved[a] += 2 * (exact(edge["bytes"]) + exact(out))
            moved[b] += 2 * (exact(edge["bytes"]) + exact(into))
    return max(
        _time(problem, number, stage, [chosen[v] for v in stage["operators"]], moved[number], sum(replicas[number:]))
        for number, stage in enumerate(stages)
    )


def _places(stages: list[Mapping[str, Any]]) -> Iterator[tuple[int, int]]:
    for number, stage in enumerate(stages):
        yield from ((v, number) for v in stage["operators"])
        if stage["data_parallel"] < 1 or stage["tensor_parallel"] < 1 or not stage["operators"]:
            raise FailedCheckError(f"stage {number} has no layers, or a degree below 1")


def _choice(layer: Mapping[str, Any], stage: Mapping[str, Any]) -> Mapping[str, Any]:
    wanted = stage["configurations"][str(layer["id"])]
    for choice in layer["configurations"].get(str(stage["tensor_parallel"]), ()):
        if choice["id"] == wanted:
            found: Mapping[str, Any] = choice
            return found
    raise FailedCheckError(f"layer {layer['id']} has no configuration {wanted!r} of that degree")


def _time(
    problem: Problem,
    number: int,
    stage: Mapping[str, Any],
    chosen: list[Mapping[str, Any]],
    moved: Fraction,
    from_here: int,
) -> Fraction:
    """Time per sample of a stage, which must fit into the memory of its devices."""
    d, batch = int(stage["data_parallel"]), int(problem["microbatches"])
    per_batch = problem.get("weight_sync_per_batch", False)
    if per_batch and batch % d:
        raise FailedCheckError(f"{d} replicas of stage {number} do not divide {batch} microbatches")
    flying = -(-from_here // d)
    held = sum(
        (
            exact(choice.get("memory_per_microbatch_bytes", 0.0)) * flying
            + exact(choice.get("memory_bytes", 0.0))
            + exact(choice.get("sharded_bytes", 0.0)) / d
            for choice in chosen
        ),
        Fraction(0),
    )
    limit = problem.get("memory_bytes")
    if limit is not None and not at_most(held, exact(limit)):
        raise FailedCheckError(f"stage {number} holds {float(held)!r} bytes, its devices {limit!r}")
    weights = total(choice.get("weight_bytes", 0.0) for choice in chosen)
    bandwidth = exact(problem["bandwidth_bytes_per_unit"])
    synchronised = Fraction(4 * (d - 1), d * batch if per_batch else d) * weights
    work = total(choice["time"] for choice in chosen)
    if per_batch:
        return work / d + (moved / d + synchronised) / bandwidth
    return (work + (moved + synchronised) / bandwidth) / d
