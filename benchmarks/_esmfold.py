"""The folding trunk of ESMFold, AlphaFold2's Evoformer in short, from its configuration: a model for ``partita plan``.

partita plan benchmarks/_esmfold.py:trunk --objective latency --cluster "(1xA100-40GB+1xL4)"
"""

from __future__ import annotations

from typing import Any


def trunk(batch_size: int = 1, sequence_length: int = 128, blocks: int = 48) -> tuple[Any, tuple[Any, ...]]:
    """The blocks that pass a sequence and its pairs on, and inputs; without the structure module, without weights."""
    import torch
    from transformers.models.esm.configuration_esm import TrunkConfig
    from transformers.models.esm.modeling_esmfold import EsmFoldingTrunk

    class Trunk(torch.nn.Module):
        def __init__(self, config: TrunkConfig) -> None:
            super().__init__()
            whole = EsmFoldingTrunk(config)
            self.positions, self.blocks = whole.pairwise_positional_embedding, whole.blocks

        def forward(self, sequence: Any, pairs: Any, index: Any, mask: Any) -> tuple[Any, Any]:
            pairs = pairs + self.positions(index, mask=mask)
            for block in self.blocks:
                sequence, pairs = block(sequence, pairs, mask=mask, residue_index=index)
            return sequence, pairs

    config = TrunkConfig(num_blocks=blocks)
    shape = (batch_size, sequence_length)
    places, mask = (torch.empty(shape, dtype=torch.int64) for _ in range(2))
    sequence = torch.empty(*shape, config.sequence_state_dim)
    pairs = torch.empty(*shape, sequence_length, config.pairwise_state_dim)
    return Trunk(config).eval(), (sequence, pairs, places, mask)
