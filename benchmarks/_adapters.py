"""Llama with the loss of torchtune's recipes, for published figures of adapters: logits of an eighth of the tokens.

torchtune's losses work on eight pieces of the output one after the other, compiled: what autograd keeps of them are the
logits in the model's own format (``CEWithChunkedOutputLoss``, ``LinearCrossEntropyLoss``). Here each piece is a product
with the head and a cross-entropy in that format.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional
from transformers import LlamaConfig, LlamaModel

#: Pieces of the output.
PIECES = 8


class PiecewiseLlama(nn.Module):
    """Llama of the transformers library, whose loss works on pieces of the output."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.model = LlamaModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def get_output_embeddings(self) -> nn.Module:
        """The head, which has no adapter."""
        return self.lm_head

    def forward(self, tokens: Any, labels: Any) -> Any:
        """The loss."""
        hidden = self.model(input_ids=tokens).last_hidden_state
        pieces = zip(hidden.chunk(PIECES, dim=1), labels.chunk(PIECES, dim=1), strict=True)
        losses = [functional.cross_entropy(self.lm_head(h).flatten(0, 1), y.reshape(-1)) for h, y in pieces]
        return torch.stack(losses).mean()


def llama(
    layers: int = 32,
    hidden: int = 4096,
    heads: int = 32,
    kv_heads: int = 8,
    intermediate: int = 14336,
    vocabulary: int = 128256,
    batch_size: int = 2,
    sequence_length: int = 2048,
) -> tuple[nn.Module, tuple[Any, ...]]:
    """A Llama, in bfloat16."""
    config = LlamaConfig(
        num_hidden_layers=layers,
        hidden_size=hidden,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        intermediate_size=intermediate,
        vocab_size=vocabulary,
        max_position_embeddings=131072,
        use_cache=False,
        attn_implementation="sdpa",
    )
    tokens = torch.zeros(batch_size, sequence_length, dtype=torch.int64)
    return PiecewiseLlama(config).to(torch.bfloat16), (tokens, tokens)
