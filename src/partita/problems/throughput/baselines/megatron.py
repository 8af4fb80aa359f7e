from __future__ import annotations

from partita.problems.throughput.baselines.blocks import BlockLayout


class Megatron(BlockLayout):
    """Every stage holds layers ÷ stages blocks; the embedding is on the first stage, the head on the last.

    Source: Megatron-LM, ``megatron/core/transformer/transformer_block.py: get_num_layers_to_build``, without
    interleaving and with the defaults for embedding and loss (neither counts as a layer). It asserts divisibility.
    """

    name = "megatron"
    summary = "Megatron-LM: layers / devices each, embedding first, head last; ignores all costs"

    def refusal(self, blocks: int, devices: int) -> str | None:
        if blocks % devices:
            return f"Megatron-LM needs a multiple of the {devices} devices, and there are {blocks} layers"
        return None

    def counts(self, blocks: int, devices: int) -> list[int]:
        return [blocks // devices] * devices
