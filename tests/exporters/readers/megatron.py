"""Megatron-LM's arguments: those of ``pretrain_gpt.py``, as ``megatron/training/arguments.py`` documents them."""

from __future__ import annotations

import re

from exporters.readers.plan import ReadPlan, visible_cards

#: Arguments that are known here; another one is a mistake.
KNOWN = {
    "--num-layers", "--tensor-model-parallel-size", "--pipeline-model-parallel-size", "--context-parallel-size",
    "--expert-model-parallel-size", "--expert-tensor-parallel-size", "--pipeline-model-parallel-layout",
    "--sequence-parallel", "--micro-batch-size", "--global-batch-size", "--seq-length",
    "--untie-embeddings-and-output-weights", "--use-distributed-optimizer", "--overlap-grad-reduce",
    "--overlap-param-gather", "--num-distributed-optimizer-instances",
    "--recompute-granularity", "--recompute-method", "--recompute-num-layers",
    "--recompute-modules", "--bf16", "--fp16", "--accumulate-allreduce-grads-in-fp32", "--grad-reduce-in-bf16",
    "--optimizer", "--sgd-momentum", "--use-precision-aware-optimizer", "--optimizer-cpu-offload",
    "--optimizer-offload-fraction", "--overlap-cpu-optimizer-d2h-h2d",
}  # fmt: skip


def read_layout(text: str) -> list[str]:
    """Layers of every stage: products are written out, inner parentheses first, commas mean nothing."""
    text = text.replace(",", "")
    while match := re.search(r"\(([^()]*)\)\*(\d+)", text):
        text = text[: match.start()] + match[1] * int(match[2]) + text[match.end() :]
    while match := re.search(r"([A-Za-z|])\*(\d+)", text):
        text = text[: match.start()] + match[1] * int(match[2]) + text[match.end() :]
    assert re.fullmatch(r"[EtmL|]*", text), text
    return text.split("|")


def arguments(text: str) -> dict[str, str]:
    """Arguments of a command line, by name."""
    words = text.split()
    starts = [place for place, word in enumerate(words) if word.startswith("--")]
    return {words[a]: " ".join(words[a + 1 : b]) for a, b in zip(starts, [*starts[1:], len(words)], strict=True)}


def read(text: str, devices: int) -> ReadPlan:
    """The plan on so many devices: Megatron divides these by the other degrees for its data-parallel one."""
    given = arguments("\n".join(line for line in text.splitlines() if not line.startswith("#")))
    assert set(given) <= KNOWN, set(given) - KNOWN
    tensor, ranks = int(given["--tensor-model-parallel-size"]), int(given["--pipeline-model-parallel-size"])
    context = int(given.get("--context-parallel-size", "1"))
    data, left = divmod(devices, tensor * ranks * context)
    assert left == 0
    expert = int(given.get("--expert-model-parallel-size", "1"))
    wide = int(given.get("--expert-tensor-parallel-size", tensor))
    if expert > 1:
        # A mixture of experts beside tensor parallelism asks for it.
        assert tensor == 1 or "--sequence-parallel" in given
    assert devices // ranks % (expert * wide) == 0
    copies = int(given.get("--num-distributed-optimizer-instances", "1"))
    # Instances are equal parts of the groups of the same weights, and of those that hold the same experts.
    assert data * context % copies == 0
    assert devices // ranks // (expert * wide) % copies == 0 or (expert == 1 and wide == tensor)
    assert copies == 1 or "--use-distributed-optimizer" in given
    host = "--optimizer-cpu-offload" in given
    if host:
        # Its code is that of the precision-aware optimizer, which shares out states and is Adam.
        assert {"--use-precision-aware-optimizer", "--use-distributed-optimizer"} <= set(given)
        assert (given["--optimizer"], given["--optimizer-offload-fraction"]) == ("adam", "1.0")
    layers = int(given["--num-layers"])
    stages = ["E" + "t" * layers + "L"]
    if "--pipeline-model-parallel-layout" in given:
        stages = read_layout(given["--pipeline-model-parallel-layout"])
        assert "".join(stages) == "E" + "t" * layers + "L"
    assert len(stages) % ranks == 0
    samples = int(given["--micro-batch-size"])
    microbatches, left = divmod(int(given["--global-batch-size"]), samples * data)
    assert left == 0
    again = "none"
    if given.get("--recompute-granularity") == "full":
        assert (given["--recompute-method"], given["--recompute-num-layers"]) == ("uniform", "1")
        again = "full"
    elif given.get("--recompute-granularity") == "selective":
        assert given["--recompute-modules"] == "core_attn"
        again = "attention"
    narrow = {"--bf16": "bfloat16", "--fp16": "float16"}
    weights = next((name for flag, name in narrow.items() if flag in given), "float32")
    gradients = weights
    if "--accumulate-allreduce-grads-in-fp32" in given:
        gradients = "float32"
    if weights == "bfloat16":
        assert ("--grad-reduce-in-bf16" in given) == (gradients == "bfloat16")
    chunks = len(stages) // ranks
    return ReadPlan(
        blocks=[stage.count("t") for stage in stages],
        cards=by_rank(visible_cards(text), devices, ranks, len(stages)),
        rest={
            "ranks": ranks,
            "data": data,
            "tensor": tensor,
            "context": context,
            "expert": expert,
            "expert_tensor": wide,
            "shards": data * context // copies,
            "zero": int("--use-distributed-optimizer" in given),
            "schedule": "interleaved" if chunks > 1 else "1f1b",
            "microbatches": microbatches,
            "samples": samples,
            "sequence": int(given.get("--seq-length", "0")),
            "sequence_parallel": "--sequence-parallel" in given,
            "overlap": "--overlap-grad-reduce" in given,
            "recompute": again,
            "weights": weights,
            "gradients": gradients,
            "master": weights != "float32",
            "optimizer": given["--optimizer"],
            "optimizer_on_host": host,
            "untied": "--untie-embeddings-and-output-weights" in given,
        },
    )


def by_rank(cards: list[int] | None, devices: int, ranks: int, stages: int) -> list[list[int]] | None:
    """Cards of every stage where ranks of a stage follow each other, and stages go round the ranks."""
    if cards is None:
        cards = list(range(devices))
    assert len(cards) == devices
    share = devices // ranks
    return [cards[stage % ranks * share : (stage % ranks + 1) * share] for stage in range(stages)]
