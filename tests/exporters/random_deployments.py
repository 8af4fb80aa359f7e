"""Random deployments: most of what engines serve, some that they do not."""

from __future__ import annotations

import random
from functools import cache

from partita.nouns.cluster import Cluster
from partita.nouns.deployment import DeployedUnits, Deployment, machine_cards

CLUSTERS = (
    *("8xH100-80GB", "4x(8xH100-80GB)", "2x(4xL4)", "8x(1xA100-80GB)", "2x(8xH200-141GB)"),
    *("1x(8xH100-80GB)+2x(8xL40S)", "1x(4xL4+4xT4)", "2x(2xA100-80GB+2xL4)", "4x(2xMI300X)"),
)
#: Formats of dense weights, of experts, of the cache; the first ones are what engines know.
FORMATS = (
    *(("bf16", None, "bf16"), ("fp16", None, "fp16"), ("fp8", None, "fp8"), ("fp8_block", None, "bf16")),
    *(("int8", None, "bf16"), ("int4", None, "fp8"), ("nvfp4", None, "nvfp4"), ("bf16", "mxfp4", "bf16")),
    *(("bf16", "int4", "bf16"), ("mxfp4", None, "bf16"), ("fp8", None, "mxfp4"), ("fp32", None, "int8")),
)


@cache
def cluster_of(text: str) -> Cluster:
    return Cluster.from_spec(text)


def random_deployment(seed: int) -> Deployment:
    """One to three groups on machines, mostly with room for them."""
    draw = random.Random(f"deployment {seed}")
    text = draw.choice(CLUSTERS)
    machines = machine_cards(cluster_of(text))
    left = {kind: sum(dict(cards).get(kind, 0) for cards in machines) for kind, _ in (c for m in machines for c in m)}
    roles = draw.choice((("both",), ("both",), ("both", "both"), ("prefill", "decode"), ("prefill", "decode", "both")))
    engine = draw.choice(("vllm", "vllm", "sglang", "sglang", "trtllm", None))
    numbers = draw.choice(FORMATS[: draw.choice((6, 8, len(FORMATS)))])
    rules = {"chunked": draw.random() < 0.9, "mixed": draw.random() < 0.85, "reserves": draw.random() < 0.1}
    units = []
    for role in roles:
        kind = draw.choice([kind for kind, count in left.items() if count] or list(left))
        tensor, pipeline = draw.choice((1, 1, 2, 2, 4, 8)), draw.choice((1, 1, 1, 1, 2, 4))
        data, mixture = draw.choice((1, 1, 1, 2, 4)), draw.random() < 0.5
        while tensor * pipeline * data > max(1, left[kind]):
            tensor, pipeline, data = max(1, tensor // 2), max(1, pipeline // 2), max(1, data // 2)
        stage = tensor * data
        expert = draw.choice((1, stage, stage, 2 if stage % 2 == 0 else 1)) if mixture else None
        size = tensor * pipeline * data
        count = max(1, draw.randint(1, max(1, left[kind] // size)) if draw.random() < 0.95 else left[kind] // size + 1)
        left[kind] = max(0, left[kind] - count * size)
        weights, experts, held = numbers
        apart = not mixture or data == 1
        spaced = role == "both" and engine == "vllm" and not apart and draw.random() < 0.5
        units.append(
            DeployedUnits(
                kind=kind,
                count=count,
                role=role,
                tensor=tensor,
                pipeline=pipeline,
                attention_data=data,
                expert=expert,
                expert_tensor=None if expert is None else stage // expert,
                apart=apart,
                interval=4 if spaced else 1,
                requests=draw.choice((16, 256, 256, 1024)),
                tokens=draw.choice((512, 2048, 8192, 8192)),
                block_tokens=draw.choice((1, 16, 32)),
                **rules,
                memory_share=draw.choice((0.9, 0.86, None)),
                engine=engine,
                weights=weights,
                expert_weights=experts if mixture else None,
                cache=held if draw.random() < 0.97 else "fp8",
            )
        )
    return Deployment(
        name=f"model {seed} on {text}", units=tuple(units), machines=machines, longest=draw.choice((600, 4500))
    )
