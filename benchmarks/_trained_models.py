"""Language models as training runtimes run them: transformers' modules with the kernels of runtimes.

``trained`` builds one from a configuration; its output is the loss. Attention is one fused causal call, in windows
where
the model has them; routed rows go through grouped products, weighed beside the activation function and added up in one
kernel, as fused permutations do; scans of state-space models are one operator, with the states between chunks. Nothing
is computed: the graph is what counts.
"""

from __future__ import annotations

import json
from typing import Any

import torch
from torch import nn
from torch.nn import functional

#: Products that runtimes adapt by default: Megatron Bridge those of queries, keys and values, NeMo AutoModel all but
#: the
#: head.
ADAPTED = {"attention": ("q_proj", "k_proj", "v_proj"), "all": None}


class Adapted(nn.Module):
    """A product with a low-rank one beside it (Hu et al., "LoRA", 2021)."""

    def __init__(self, whole: nn.Linear, rank: int) -> None:
        super().__init__()
        self.whole = whole
        self.down = nn.Linear(whole.in_features, rank, bias=False)
        self.up = nn.Linear(rank, whole.out_features, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.whole(x) + self.up(self.down(x))
        return result


class Trained(nn.Module):
    """A language model whose output is the loss, taken of 16-bit logits in one kernel, which keeps nothing else."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        logits = self.model(input_ids=tokens).logits
        return functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), tokens.reshape(-1))


def _states(x: torch.Tensor, b: torch.Tensor, chunk: int) -> torch.Tensor:
    batch, tokens, heads, width = x.shape
    return x.new_empty((batch, tokens // chunk + 1, heads, width, b.shape[-1]), dtype=torch.float32)


def _scanned(
    x: torch.Tensor, dt: torch.Tensor, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, chunk: int
) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(x), _states(x, b, chunk)


def _scanned_back(
    gradient: torch.Tensor,
    x: torch.Tensor,
    dt: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    states: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    return (*(torch.empty_like(t) for t in (x, dt, a, b, c)), torch.empty_like(states))  # type: ignore[return-value]


_SCAN = torch.library.custom_op("mamba::chunk_scan", _scanned, mutates_args=())
_SCAN.register_fake(_scanned)
_BACK = torch.library.custom_op("mamba::chunk_scan_backward", _scanned_back, mutates_args=())
_BACK.register_fake(_scanned_back)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
    ctx.save_for_backward(*inputs[:-1], output[1])


def _pull(ctx: Any, gradient: torch.Tensor, _: torch.Tensor) -> tuple[Any, ...]:
    return (*_BACK(gradient, *ctx.saved_tensors)[:5], None)


_SCAN.register_autograd(_pull, setup_context=_keep)


def _scan(x: torch.Tensor, dt: Any, a: Any, b: Any, c: Any, chunk_size: int = 256, **_: Any) -> torch.Tensor:
    result: torch.Tensor = _SCAN(x, dt, a, b, c, chunk_size)[0]
    return result


def _attend(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: Any = None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Causal attention; of a window of w tokens as much work as blocks of 2·w, whose rows see w on average."""
    batch, _heads, tokens, _width = query.shape
    grouped = query.shape[1] > key.shape[1]
    if key.shape[2] > tokens:
        # Compressed tokens beside those of the window.
        one, _none = _attend(
            module, query, key[:, :, :tokens], value[:, :, :tokens], scaling=scaling, sliding_window=sliding_window
        )
        rest = functional.scaled_dot_product_attention(
            query, key[:, :, tokens:], value[:, :, tokens:], scale=scaling, enable_gqa=grouped
        )
        return one + rest.transpose(1, 2), None
    width = 2 * sliding_window if sliding_window else tokens
    if width >= tokens or tokens % width:
        found = functional.scaled_dot_product_attention(
            query, key, value, is_causal=tokens > 1, scale=scaling, enable_gqa=grouped
        )
        return found.transpose(1, 2).contiguous(), None

    def cut(tensor: torch.Tensor) -> torch.Tensor:
        heads, features = tensor.shape[1], tensor.shape[-1]
        blocks = tensor.reshape(batch, heads, tokens // width, width, features).transpose(1, 2)
        return blocks.reshape(-1, heads, width, features)

    found = functional.scaled_dot_product_attention(
        cut(query), cut(key), cut(value), is_causal=True, scale=scaling, enable_gqa=grouped
    )
    whole = found.reshape(batch, tokens // width, -1, width, found.shape[-1]).transpose(1, 2)
    return whole.reshape(batch, -1, tokens, found.shape[-1]).transpose(1, 2).contiguous(), None


def _experts(self: Any, hidden: torch.Tensor, index: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    from transformers.integrations.moe import _grouped_linear

    sorted_ids, order = torch.sort(index.reshape(-1))
    token = order // index.size(-1)
    counts = torch.histc(sorted_ids.float(), bins=self.num_experts, min=0, max=self.num_experts - 1)
    offsets = torch.cumsum(counts, dim=0, dtype=torch.int32)

    def product(rows: torch.Tensor, name: str) -> torch.Tensor:
        bias = getattr(self, f"{name}_bias")[sorted_ids] if self.has_bias else None
        found: torch.Tensor = _grouped_linear(
            rows, getattr(self, name), offsets, bias=bias, is_transposed=self.is_transposed
        )
        return found

    rows = product(hidden[token], "gate_up_proj" if self.has_gate else "up_proj")
    rows = self._apply_gate(rows) if self.has_gate else self.act_fn(rows)
    rows = rows * weights.reshape(-1)[order].to(hidden.dtype)[:, None]
    return torch.zeros_like(hidden).index_add(0, token, product(rows, "down_proj"))


def trained(
    config: str = "", adapters: str = "", rank: int = 16, batch_size: int = 1, sequence_length: int = 4096
) -> tuple[nn.Module, tuple[Any, ...]]:
    """The model of a configuration in JSON; with ``adapters`` (a key of ``ADAPTED``) these alone learn."""
    from transformers import AttentionInterface, AutoConfig, AutoModelForCausalLM
    from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS
    from transformers.models.nemotron_h import modeling_nemotron_h

    AttentionInterface.register("partita", _attend)
    ALL_EXPERTS_FUNCTIONS.register("partita", _experts)
    modeling_nemotron_h.mamba2_chunk_scan = _scan
    fields = json.loads(config) if isinstance(config, str) else dict(config)
    settings = AutoConfig.for_model(fields.pop("model_type"), **fields)
    settings.use_cache = False
    model = AutoModelForCausalLM.from_config(
        settings, attn_implementation="partita", experts_implementation="partita"
    ).to(torch.bfloat16)
    for name, parameter in model.named_parameters():
        if "indexer" in name:
            # What chooses keys has a loss of its own.
            parameter.requires_grad_(False)
    if adapters:
        model.requires_grad_(False)
        wanted = ADAPTED[adapters]
        for module in list(model.modules()):
            for name, child in list(module.named_children()):
                if isinstance(child, nn.Linear) and name != "lm_head" and (wanted is None or name in wanted):
                    setattr(module, name, Adapted(child, rank).to(torch.bfloat16))
    return Trained(model), (torch.zeros(batch_size, sequence_length, dtype=torch.int64),)
