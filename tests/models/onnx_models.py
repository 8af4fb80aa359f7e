"""Small models of many kinds that are exported to ONNX: each a builder of a module and its arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Built = tuple[nn.Module, tuple[Any, ...], dict[str, Any]]


class Residual(nn.Module):
    """A block of a ResNet with a projected shortcut."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(16, 32, 3, stride=2, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(32)
        self.second = nn.Conv2d(32, 32, 3, padding=1, groups=4)
        self.short = nn.Conv2d(16, 32, 1, stride=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.second(torch.relu(self.norm(self.first(x)))) + self.short(x))


class Attention(nn.Module):
    """Multi-head attention whose queries, keys and values are parts of one product."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(64)
        self.inner = nn.Linear(64, 192)
        self.outer = nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.inner(self.norm(x)).view(*x.shape[:2], 3, 4, 16).permute(2, 0, 3, 1, 4).unbind(0)
        mixed = torch.softmax(q @ k.transpose(-1, -2) / 4, -1) @ v
        return x + self.outer(mixed.transpose(1, 2).reshape(x.shape))


class Recurrent(nn.Module):
    """An LSTM in both directions, or a GRU, and a head."""

    def __init__(self, of: type[nn.RNNBase], **options: Any) -> None:
        super().__init__()
        self.cell = of(24, 32, batch_first=True, **options)
        self.head = nn.Linear(64 if options.get("bidirectional") else 32, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.cell(x)[0])


class UNet(nn.Module):
    """Down, up by a transposed convolution, and a skip connection."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(3, 16, 3, padding=1)
        self.low = nn.Conv2d(16, 32, 3, stride=2, padding=1)
        self.up = nn.ConvTranspose2d(32, 16, 2, stride=2)
        self.out = nn.Conv2d(32, 4, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        high = torch.relu(self.down(x))
        return self.out(torch.cat([high, self.up(torch.relu(self.low(high)))], 1))


class Tied(nn.Module):
    """Words in and out share one table; positions are made in the model."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(300, 32)
        self.places = nn.Embedding(16, 32)
        self.inner = nn.Linear(32, 32)
        self.head = nn.Linear(32, 300, bias=False)
        self.head.weight = self.words.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        return self.head(torch.tanh(self.inner(x)))


class Experts(nn.Module):
    """Every token goes through the two experts that a router picks, whose weights are gathered."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(32, 4)
        self.up = nn.Parameter(torch.randn(4, 32, 64))
        self.down = nn.Parameter(torch.randn(4, 64, 32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shares, places = torch.topk(torch.softmax(self.router(x), -1), 2)
        wide = torch.relu(torch.einsum("td,tkdf->tkf", x, self.up[places]))
        return (torch.einsum("tkf,tkfd->tkd", wide, self.down[places]) * shares[..., None]).sum(1)


class Audio(nn.Module):
    """Strided convolutions of one dimension, in groups and transposed, and a norm of groups."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(1, 16, 10, 5, padding=2)
        self.second = nn.Conv1d(16, 32, 8, 4, groups=2)
        self.back = nn.ConvTranspose1d(32, 8, 4, 2, output_padding=1)
        self.norm = nn.GroupNorm(2, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.back(torch.relu(self.second(torch.relu(self.first(x))))))


def _mlp() -> Built:
    return nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 10)), (torch.zeros(8, 32),), {}


def _convolutions() -> Built:
    layers = (nn.Conv2d(3, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, dilation=2), nn.AdaptiveAvgPool2d(1))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(16, 10)), (torch.zeros(2, 3, 32, 32),), {}


def _hub(kind: str, of: str | None = None, **fields: Any) -> Callable[[], Built]:
    """A transformers model of a configuration, with attention in its parts."""

    def build() -> Built:
        import transformers

        configuration = transformers.AutoConfig.for_model(kind, attn_implementation="eager", **fields)
        configuration.use_cache = False
        made = transformers.AutoModel if of is None else getattr(transformers, of)
        module = made.from_config(configuration) if of is None else made(configuration)
        module = module.encoder if kind == "whisper" else module
        ids = torch.ones(2, 16, dtype=torch.long)
        pixels = torch.zeros(2, 3, 32, 32)
        given = {"vit": pixels, "swin": pixels, "resnet": pixels, "whisper": torch.zeros(2, 16, 64)}
        return module, (given.get(kind, ids),), {}

    return build


def _encoder_decoder() -> Built:
    """T5, both sides."""
    import transformers

    configuration = transformers.T5Config(
        d_model=64, d_ff=128, num_layers=2, num_heads=4, d_kv=16, vocab_size=999, use_cache=False,
        decoder_start_token_id=0, attn_implementation="eager",
    )  # fmt: skip
    ids = torch.ones(2, 16, dtype=torch.long)
    given = {"input_ids": ids, "decoder_input_ids": ids[:, :8]}
    return transformers.T5ForConditionalGeneration(configuration), (), given


_SMALL = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}

#: Models of this file.
PLAIN: dict[str, Callable[[], Built]] = {
    "mlp": _mlp,
    "convolutions": _convolutions,
    "residual": lambda: (Residual(), (torch.zeros(2, 16, 16, 16),), {}),
    "attention": lambda: (Attention(), (torch.zeros(2, 10, 64),), {}),
    "lstm": lambda: (Recurrent(nn.LSTM, bidirectional=True), (torch.zeros(2, 12, 24),), {}),
    "gru": lambda: (Recurrent(nn.GRU, num_layers=2), (torch.zeros(2, 12, 24),), {}),
    "u-net": lambda: (UNet(), (torch.zeros(1, 3, 16, 16),), {}),
    "tied": lambda: (Tied(), (torch.ones(2, 16, dtype=torch.long),), {}),
    "experts": lambda: (Experts(), (torch.zeros(6, 32),), {}),
    "audio": lambda: (Audio(), (torch.zeros(2, 1, 400),), {}),
}

#: Models of transformers.
HUB: dict[str, Callable[[], Built]] = {
    "gpt2": _hub("gpt2", n_embd=64, n_layer=2, n_head=4, vocab_size=300, n_positions=16),
    "bert": _hub("bert", vocab_size=300, **_SMALL),
    "llama": _hub("llama", vocab_size=300, num_key_value_heads=2, **_SMALL),
    "t5-encoder": _hub("t5", "T5EncoderModel", d_model=64, d_ff=128, num_layers=2, num_heads=4, d_kv=16, vocab_size=99),
    "t5": _encoder_decoder,
    "vit": _hub("vit", image_size=32, patch_size=8, **_SMALL),
    "swin": _hub("swin", image_size=32, patch_size=4, embed_dim=64, depths=[2, 2], num_heads=[2, 4], window_size=4),
    "resnet": _hub("resnet", embedding_size=16, hidden_sizes=[64, 128], depths=[2, 2]),
    "whisper-encoder": _hub(
        "whisper", "WhisperModel", d_model=64, encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=128,
        num_mel_bins=16, max_source_positions=32, decoder_layers=1, decoder_attention_heads=4, vocab_size=300,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
    ),
}  # fmt: skip
