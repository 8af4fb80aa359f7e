from __future__ import annotations

from partita.problems.throughput.baselines.blocks import BlockLayout

#: Blocks that the embedding and the head count as: the defaults of torchtitan's
#: ``pipeline_parallel_first_stage_less_layers`` and ``pipeline_parallel_last_stage_less_layers``.
INPUT_WEIGHT = 1
OUTPUT_WEIGHT = 1


class TorchTitan(BlockLayout):
    """Embedding and head count as one layer each; what does not divide evenly goes to the first stages.

    Source: torchtitan, ``torchtitan/distributed/pipeline_parallel.py: generate_llm_fqn_per_model_part``, with one
    stage per device.
    """

    name = "torchtitan"
    summary = "torchtitan: even, embedding and head count as a layer each; ignores all costs"

    def refusal(self, blocks: int, devices: int) -> str | None:
        effective = blocks + INPUT_WEIGHT + OUTPUT_WEIGHT
        if devices > 1 and effective // devices < max(INPUT_WEIGHT, OUTPUT_WEIGHT):
            return f"torchtitan leaves no stage empty, and {blocks} layers are too few for {devices} devices"
        return None

    def counts(self, blocks: int, devices: int) -> list[int]:
        if devices == 1:
            return [blocks]
        each, extra = divmod(blocks + INPUT_WEIGHT + OUTPUT_WEIGHT, devices)
        counts = [each + (stage < extra) for stage in range(devices)]
        counts[0] -= INPUT_WEIGHT
        counts[-1] -= OUTPUT_WEIGHT
        return counts
