from __future__ import annotations

from partita.problems.throughput.baselines.blocks import BlockLayout
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.protocol import Options


class Vllm(BlockLayout):
    """⌊layers ÷ devices⌋ each; the remainder one by one from the last device but one backwards.

    The last device is spared because it has the final norm and the head, the first one as long as possible because it
    has the embedding. Source: vLLM, ``vllm/distributed/utils.py: get_pp_indices``, without
    ``VLLM_PP_LAYER_PARTITION``.
    """

    name = "vllm"
    summary = "vLLM: even, the remainder from the last device but one backwards; ignores all costs"

    def supports(self, problem: ThroughputProblem, options: Options) -> str | None:
        if problem.training:
            return "vLLM serves models and trains none; megatron and torchtitan are the layouts for training"
        return super().supports(problem, options)

    def refusal(self, blocks: int, devices: int) -> str | None:
        if blocks < devices:
            return f"vLLM has at least a layer per device, and there are {blocks} layers for {devices} devices"
        return None

    def counts(self, blocks: int, devices: int) -> list[int]:
        each, rest = divmod(blocks, devices)
        counts = [each] * devices
        for back in range(2, rest + 2):
            counts[-back] += 1
        return counts
