"""Which training runtimes execute a plan of a step, by schedule and what replicas share out.

Sources: DeepSpeed refuses ZeRO's stages 2 and 3 beside pipelines (``deepspeed/runtime/pipe/engine.py``) and has 1F1B
alone; Megatron-LM has 1F1B and its interleaved form, and a distributed optimizer (ZeRO-1); nanotron 1F1B, all forward
parts first, and ZeRO-1; torchtitan the schedules of ``torch.distributed.pipelining`` over FSDP2. Zero bubble (H1) is in
the Megatron-LM of Qi et al. (ICLR 2024).
"""

from __future__ import annotations

from partita.problems.hybrid.plan import HybridPlan
from partita.problems.hybrid.step.rows import is_uniform

#: By schedule, the runtimes that have it beside replicas that share out optimizer states at the most.
_PIPELINES = {
    "1f1b": ("Megatron-LM", "torchtitan", "DeepSpeed", "nanotron"),
    "interleaved": ("Megatron-LM", "torchtitan"),
    "gpipe": ("torchtitan", "nanotron"),
    "zero-bubble": ("Megatron-LM with zero-bubble schedules",),
}

#: Likewise where they share out gradients, too.
_SHARDED_PIPELINES = {"1f1b": ("torchtitan",), "interleaved": ("torchtitan",), "gpipe": ("torchtitan",)}


def runtimes_of(plan: HybridPlan) -> tuple[str, ...]:
    """Runtimes that execute a plan of a step; none if none is known."""
    if not is_uniform(plan):
        return ()
    tensor = plan.stages[0].tensor_parallel
    if len(plan.stages) > 1:
        return (_PIPELINES if plan.zero < 2 else _SHARDED_PIPELINES).get(plan.schedule, ())
    if plan.zero < 2:
        return _PIPELINES["1f1b"]
    return ("torchtitan", "Megatron-LM with FSDP") if tensor > 1 else ("PyTorch FSDP", "torchtitan", "DeepSpeed")
