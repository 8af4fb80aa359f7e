"""torchtitan's configuration, as ``torchtitan/config/job_config.py`` documents its sections."""

from __future__ import annotations

import tomllib

from exporters.readers.megatron import by_rank
from exporters.readers.plan import ReadPlan, visible_cards

SCHEDULES = {
    "GPipe": "gpipe", "1F1B": "1f1b", "Interleaved1F1B": "interleaved", "LoopedBFS": "looped-bfs",
    "InterleavedZeroBubble": "interleaved-zero-bubble", "ZBVZeroBubble": "zero-bubble-v", "DualPipeV": "dualpipe-v",
}  # fmt: skip


def read(text: str) -> ReadPlan:
    """The plan; degrees multiply to the number of devices."""
    table = tomllib.loads(text)
    assert set(table) == {"parallelism", "activation_checkpoint", "training", "optimizer"}
    mesh, training, again = table["parallelism"], table["training"], table["activation_checkpoint"]
    ranks, tensor, context = (
        mesh["pipeline_parallel_degree"],
        mesh["tensor_parallel_degree"],
        mesh["context_parallel_degree"],
    )
    copies, shards = mesh["data_parallel_replicate_degree"], mesh["data_parallel_shard_degree"]
    expert = mesh["expert_parallel_degree"]
    if expert > 1:
        # What ParallelDims asserts where experts are not split themselves.
        assert tensor == 1
        assert expert % context == 0
        assert shards * context % expert == 0
    fully = shards > 1 or context > 1
    assert copies == 1 or fully
    if context > 1:
        assert mesh["context_parallel_rotate_method"] == "alltoall"
    zero = 0
    if fully:
        kept = {"never": True, "always": False}[mesh["fsdp_reshard_after_forward"]]
        # Stages of pipelines keep weights and gradients whole until the last microbatch.
        zero = 1 if ranks > 1 else 2 if kept else 3
        assert kept or ranks == 1
    samples = mesh["pipeline_parallel_microbatch_size"]
    data = copies * shards
    total, left = divmod(training["global_batch_size"], samples * data)
    assert left == 0
    # A pipeline cuts the local batch; without one gradients are added up over several.
    assert training["local_batch_size"] == samples * (total if ranks > 1 else 1)
    mode = again["mode"]
    if mode == "selective":
        assert again["selective_ac_option"] == "op"
    stages = mesh["module_fqns_per_model_part"]
    assert len(stages) % ranks == 0
    schedule = SCHEDULES[mesh["pipeline_parallel_schedule"]]
    if schedule == "1f1b":
        assert total >= len(stages) or ranks == 1
    weights = training["mixed_precision_param"]
    assert training["dtype"] == "float32"
    # Without shares nothing is cast.
    assert fully or weights == "float32"
    devices = ranks * tensor * context * data
    return ReadPlan(
        blocks=[sum(".".join(name.split(".")[:-1]).endswith("layers") for name in names) for names in stages],
        modules={name: stage for stage, names in enumerate(stages) for name in names},
        cards=by_rank(visible_cards(text), devices, ranks, len(stages)),
        rest={
            "ranks": ranks,
            "data": data,
            "tensor": tensor,
            "context": context,
            "expert": expert,
            "shards": shards * context,
            "zero": zero,
            "schedule": schedule,
            "microbatches": total,
            "samples": samples,
            "sequence": training.get("seq_len", 0),
            # Its models share out tokens wherever they split features.
            "sequence_parallel": tensor > 1,
            "recompute": {"none": "none", "full": "full", "selective": "operators"}[mode],
            "weights": weights,
            "gradients": training["mixed_precision_reduce"],
            "master": weights != "float32",
            "optimizer": table["optimizer"]["name"].lower(),
        },
    )
