"""What no step of a shape goes below, before it is split.

With S stages, R replicas, m microbatches for each of these, W the work of a microbatch, P the bytes of all parameters
and ρ the least seconds in which R replicas exchange a byte (``partita.simulator.fastest``), all stages together
exchange for ρ·P at least. Of that each hides what the work of its last microbatch takes at most, so some stage needs

    max(m·W, (m − 1)·W + ρ·P) / S.

Of a chain of operators that hand tensors on forward and back, C its work in a microbatch, a stage begins after the
forward parts of the stages before it and ends before their backward parts: with c_s its part of the chain, a step takes
Σ_{i<s} c_i + m·c_s for every s, and at least C / (1 − (1 − 1/m)^S), when all these are equal. Where gradients of
weights are made later, a stage waits for the forward parts alone, a share φ of c_i or more: φ·C / (1 − (1 − φ/m)^S).

The work of an operator is the least over the kinds of devices of its forward and backward part *together*: a replica
does both on one device, and microbatch k is that of replica k mod R in every stage, so c_i is of one device, too.
"""

from __future__ import annotations

from typing import Any

from partita.problems.facets.replicas import Shape
from partita.simulator.fastest import MARGIN, FastLinks, least_collective_s, least_ring_s


def shape_bound(shape: Shape[Any], links: FastLinks) -> float:
    """Seconds that no step of a shape goes below, on devices with these links; see the top of the module."""
    count, microbatches = shape.replicas, shape.microbatches
    rate = least_collective_s("all-reduce", count, links) if shape.levels_at_once else least_ring_s(count, links)
    exchanged = rate * shape.parameter_bytes
    busy = max(microbatches * shape.work_s, (microbatches - 1) * shape.work_s + exchanged) / shape.stages
    share = shape.forward_share
    chain = shape.chain_s
    if share > 0:
        chain *= share / (1.0 - (1.0 - share / microbatches) ** shape.stages)
    return max(busy, chain) * (1 - MARGIN)


def shape_guess(shape: Shape[Any], bound: float) -> float:
    """Seconds that a step may take, to begin with what is good: equal stages that fill and drain."""
    return max(bound, (shape.microbatches + shape.stages - 1) * shape.work_s / shape.stages)
