"""How users of training runtimes set up a step by hand: layouts, of which the first that fits or the best is taken.

What blocks recompute is chosen as users do, for all blocks alike: of what fits, the fastest.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec

from partita.engines.search.monitor import Monitor
from partita.ground.errors import InputError
from partita.problems.hybrid.blocks import divisors, find_blocks
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.protocol import Baseline, HybridOptions, Outcome
from partita.problems.hybrid.step.evaluate import evaluate
from partita.problems.hybrid.step.layout import WAYS, MeshLayout, layout_plan

#: Tensor parallelism is not usual beyond this many devices.
_MOST_TENSOR = 8


@dataclass(frozen=True)
class Recipe(Baseline):
    """Layouts in the order in which they are tried."""

    layouts: Callable[[HybridProblem], Iterator[MeshLayout]]  #: The layouts for a problem about a step.
    ways: Sequence[str] = WAYS  #: What blocks may recompute.
    first: bool = True  #: Whether the first layout that fits is taken, not the best of all.

    def solve(self, problem: HybridProblem, options: HybridOptions, monitor: Monitor) -> Outcome:
        best, value, reason = None, float("inf"), ""
        # Nobody leaves devices idle where another layout that fits uses them all.
        for layout in sorted(self.layouts(problem), key=lambda layout: layout.devices != problem.devices):
            if monitor.stopping:
                break
            for way in self.ways:
                try:
                    plan = layout_plan(problem, msgspec.structs.replace(layout, recompute=way))
                except InputError as error:
                    reason = reason or str(error)
                    continue
                found = evaluate(problem, plan)
                if found.feasible and found.objective < value:
                    best, value = plan, found.objective
                elif not found.feasible:
                    reason = found.violations[0]
            if best is not None and self.first:
                break
        return Outcome(best, reason="" if best is not None else reason or "no setting of it uses these devices")


def _degrees(problem: HybridProblem) -> list[int]:
    """Tensor-parallel degrees that all layers have, inside a machine."""
    return [t for t in problem.shared_degrees() if t <= _MOST_TENSOR]


def _zero(problem: HybridProblem, wanted: int) -> int:
    """A stage of ZeRO, or the next lower one that plans may have; the wanted one where there is none."""
    allowed = problem.step.zero
    return max((zero for zero in allowed if zero <= wanted), default=wanted)


def _shards(problem: HybridProblem, zero: int, groups: int) -> int:
    """Among how many of so many groups ZeRO shares out: all, or as many as plans may have."""
    allowed = problem.step.zero_shards
    if zero == 0 or groups == 1 or 0 in allowed:
        return 0
    return max((shards for shards in allowed if groups % shards == 0), default=0)


def _contexts(problem: HybridProblem) -> list[int]:
    """Context-parallel degrees beyond 1, ascending."""
    return sorted(degree for degree in problem.step.context if degree > 1)


def _filled(
    problem: HybridProblem, tensor: int, pipeline: int, zero: int, *, context: int = 1, experts: bool = False
) -> Iterator[MeshLayout]:
    """The rest data parallel: as many replicas as divide the microbatches, under each schedule that plans may have.

    With ``experts`` as many devices of a machine share out experts as can, as Megatron Core's guide to mixtures of
    experts advises: rather these than tensor groups, of whole experts where plans may have them, and all over fast
    links.
    """
    most = problem.room(tensor) // (tensor * pipeline * context)
    data = max((d for d in divisors(problem.microbatches) if d <= most), default=0)
    if data == 0:
        return
    training = problem.step
    whole = experts and 1 in training.expert_tensor
    width, groups = (1, data * context * tensor) if whole else (tensor, data * context)
    near = [e for e in training.expert if groups % e == 0 and width * e <= problem.devices_per_machine]
    base = MeshLayout(
        tensor=tensor,
        pipeline=pipeline,
        data=data,
        zero=_zero(problem, zero),
        zero_shards=_shards(problem, _zero(problem, zero), data * context),
        context=context,
        expert=max(near, default=1) if experts else 1,
        expert_tensor=1 if whole else 0,
    )
    simple = [name for name in training.schedules if name != "interleaved"]
    for schedule in simple[:1]:
        yield msgspec.structs.replace(base, schedule=schedule)
    blocks = _blocks(problem)
    if "interleaved" in training.schedules and pipeline > 1 and blocks % pipeline == 0:
        for chunks in divisors(blocks // pipeline)[1:]:
            yield msgspec.structs.replace(base, chunks=chunks)


def _blocks(problem: HybridProblem) -> int:
    return len(find_blocks([problem.layers[place] for place in problem.order()]).starts)


def _depths(problem: HybridProblem) -> list[int]:
    """Numbers of stages that share the blocks evenly, from two on, and powers of two.

    Megatron Core lets the first and the last stage have other numbers of layers, which is how 126 blocks are put on 16
    stages ("The Llama 3 Herd of Models", 2024, section 3.3.2).
    """
    blocks = _blocks(problem)
    powers = [1 << k for k in range(1, min(blocks, problem.devices).bit_length())]
    return sorted({*divisors(blocks)[1:], *powers})


def _megatron(problem: HybridProblem) -> Iterator[MeshLayout]:
    """The smallest t that fits, then the smallest c, then the smallest p, the rest data parallel."""
    degrees, contexts = _degrees(problem), _contexts(problem)
    last = degrees[-1:]
    tried = [(t, 1, 1) for t in degrees] + [(t, c, 1) for t in last for c in contexts]
    if max(problem.step.expert) > 1:
        # Rather stages than wider tensor groups, which would leave experts no room in a machine.
        tried = [(t, 1, p) for t in degrees for p in (1, *_depths(problem))] + tried
    tried += [(t, c, p) for t in last for p in _depths(problem) for c in (1, *contexts)]
    for tensor, context, pipeline in tried:
        yield from _filled(problem, tensor, pipeline, 1, context=context, experts=True)


def _torchtitan(problem: HybridProblem) -> Iterator[MeshLayout]:
    """FSDP alone, then over tensor-parallel groups of a whole machine, then sharing out sequences, and a pipeline."""
    last, contexts = _degrees(problem)[-1:], _contexts(problem)
    tried = [(1, 1, 1), *((t, c, 1) for t in last for c in (1, *contexts))]
    tried += [(t, c, p) for t in last for p in _depths(problem) for c in (1, *contexts)]
    for tensor, context, pipeline in tried:
        yield from itertools.islice(_filled(problem, tensor, pipeline, 3, context=context, experts=True), 1)


def _nanotron(problem: HybridProblem) -> Iterator[MeshLayout]:
    """Tensor parallelism inside machines, the smallest p that fits, ZeRO-1."""
    for tensor, pipeline in itertools.product(_degrees(problem)[-1:], (1, *_depths(problem))):
        yield from itertools.islice(_filled(problem, tensor, pipeline, 1), 1)


def _group(problem: HybridProblem) -> Iterator[MeshLayout]:
    for tensor in _degrees(problem)[:0:-1]:
        yield MeshLayout(tensor=tensor, zero=_zero(problem, 0))


def _pipeline(problem: HybridProblem) -> Iterator[MeshLayout]:
    schedules = [name for name in problem.step.schedules if name != "interleaved"]
    for pipeline, schedule in itertools.product(divisors(_blocks(problem))[::-1], schedules):
        if pipeline <= problem.devices:
            yield MeshLayout(pipeline=pipeline, zero=_zero(problem, 0), schedule=schedule)


MEGATRON = Recipe(
    "Megatron's recipe",
    "the smallest tensor degree that fits, then context degree, then the fewest stages, the rest data parallel",
    _megatron,
)
FSDP = Recipe(
    "FSDP only",
    "all devices share out weights, gradients and states (ZeRO-3)",
    partial(_filled, tensor=1, pipeline=1, zero=3),
)
DEEPSPEED = Recipe("DeepSpeed ZeRO-3", "ZeRO-3 on all devices, every block recomputed", FSDP.layouts, ways=("full",))
TORCHTITAN = Recipe(
    "torchtitan's defaults",
    "FSDP and selective recomputation; tensor groups of a machine, then a pipeline, where that does not fit",
    _torchtitan,
    ways=("selective", "full"),
)
NANOTRON = Recipe(
    "nanotron's defaults",
    "tensor groups of a machine, the fewest stages that fit, ZeRO-1, all recomputed where needed",
    _nanotron,
    ways=("none", "full"),
)
REPLICAS = Recipe(
    "pure data parallel", "the whole model on every device", partial(_filled, tensor=1, pipeline=1, zero=0)
)
GROUP = Recipe("pure tensor parallel", "every layer split over one group of devices", _group)
PIPELINE = Recipe("pure pipeline", "stages of one device each", _pipeline, first=False)
