"""Example arguments of transformers models by their name: shapes from the configuration, values where code reads them.

A rule makes one argument; the library uses the same names for the same things in all its models. Whole numbers have
real values, on the CPU, as long as they are few: sizes of images, token types and the like decide what runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from partita.frontends.hf.configuration import text_of

#: Elements up to which whole numbers have values.
_VALUED = 2**18
_PIXELS = 224
#: Points, boxes, prompts or labels of a sample where a model takes several.
_FEW = 4
#: Tokens of text beside an image's where the sequence would be all image.
_PER_IMAGE = 16


@dataclass
class Example:
    """What the arguments of one microbatch are made for."""

    config: Any
    task: str
    dtype: Any
    samples: int
    length: int

    def part(self, *names: str) -> Any:
        """The first of the nested configurations that there is, else the configuration itself."""
        return first(self.config, *names, default=self.config)

    @property
    def text(self) -> Any:
        """The configuration of the language model."""
        return text_of(self.config)

    @property
    def vision(self) -> Any:
        """The configuration of the image tower."""
        return self.part("vision_config", "vit_config", "image_config", "backbone_config", "encoder")

    @property
    def audio(self) -> Any:
        """The configuration of the audio tower."""
        return self.part("audio_config", "encoder_config", "audio_encoder_config", "speech_config", "encoder")

    def numbers(self, *shape: int) -> Any:
        """Floating numbers, a row a sample."""
        import torch

        return torch.empty((self.samples, *shape), dtype=self.dtype, device="meta")

    def integers(self, *shape: int, below: int = 2) -> Any:
        """Whole numbers from 1 to ``below`` − 1, a row a sample."""
        import torch

        size = (self.samples, *shape)
        count = 1
        for side in size:
            count *= side
        if count > _VALUED:
            return torch.empty(size, dtype=torch.long, device="meta")
        return (torch.arange(count) % max(1, below - 1) + 1).reshape(size)

    def tokens(self, length: int) -> Any:
        """Token numbers without a special one but the end."""
        config = self.text
        end = first(config, "eos_token_id", default=None)
        vocabulary = first(config, "vocab_size", default=32)
        special = {
            v for name in dir(config) if name.endswith("_token_id") and isinstance(v := getattr(config, name), int)
        }
        special |= {
            v
            for name in dir(self.config)
            if name.endswith(("_token_id", "_token_index")) and isinstance(v := getattr(self.config, name, None), int)
        }
        usual = next((i for i in range(5, int(vocabulary)) if i not in special), 1) if vocabulary > 6 else 1
        tokens = self.integers(length)
        if tokens.device.type == "meta":
            return tokens
        tokens.fill_(usual)
        if isinstance(end, int) and 0 <= end < vocabulary:
            tokens[:, -1] = end
        return tokens

    @property
    def dense(self) -> tuple[int, int, int]:
        """Features, rows and columns of an encoded image, as decoders of masks take it."""
        rows = first(self.config, "image_embedding_size", default=64)
        rows = rows if isinstance(rows, int) else rows[0]
        return first(self.config, "hidden_size", default=256), rows, rows

    @property
    def positions(self) -> Any:
        """Places of the tokens."""
        import torch

        return torch.arange(self.length).expand(self.samples, -1).contiguous()

    @property
    def image(self) -> tuple[int, int, int]:
        """Channels, height and width of an image."""
        vision = self.vision
        inner = next((v for v in vars(vision).values() if hasattr(v, "to_dict") and hasattr(v, "image_size")), vision)
        names = ("image_size", "img_size", "input_size", "max_img_size")
        size = first(vision, *names, default=first(inner, *names, default=_PIXELS))
        if isinstance(size, dict):
            size = size.get("height", _PIXELS), size.get("width", _PIXELS)
        height, width = size if isinstance(size, (list, tuple)) else (size, size)
        return first(vision, "num_channels", "in_channels", "num_input_channels", "in_chans", default=3), height, width

    @property
    def grid(self) -> tuple[int, int, int, int]:
        """Rows and columns of patches of one image, the features of a patch, and how many are merged along a side."""
        vision = self.vision
        channels, height, width = self.image
        patch = first(vision, "patch_size", default=14)
        patch = patch if isinstance(patch, int) else patch[0]
        merge = first(vision, "spatial_merge_size", "merge_size", "merge_kernel_size", default=2)
        merge = merge if isinstance(merge, int) else merge[0]
        frames = first(vision, "temporal_patch_size", default=1)
        rows, columns = (max(merge, side // patch // merge * merge) for side in (height, width))
        return rows, columns, channels * frames * patch * patch, merge


def first(config: Any, *names: str, default: Any) -> Any:
    """The first of several fields that a configuration has."""
    for name in names:
        value = getattr(config, name, None)
        if value is not None:
            return value
    return default


def _pixels(example: Example) -> Any:
    if example.task == "video-classification" or "video" in type(example.config).__name__.lower():
        frames = first(example.vision, "num_frames", "frames_per_clip", default=16)
        return example.numbers(frames, *example.image)
    if (
        hasattr(example.vision, "num_patches")
        and hasattr(example.vision, "patch_size")
        and not hasattr(example.vision, "image_size")
    ):
        patch = example.vision.patch_size
        return example.numbers(example.vision.num_patches, example.image[0] * patch * patch)
    return example.numbers(*example.image)


def patches(example: Example) -> Any:
    import torch

    rows, columns, features, _ = example.grid
    return torch.empty((example.samples * rows * columns, features), dtype=example.dtype, device="meta")


def placed(example: Example, typed: bool) -> dict[str, Any]:
    """Tokens that begin with an image's places, as code that numbers positions counts them; and the types of them."""
    rows, columns, _, merge = example.grid
    places = rows * columns // merge**2
    tokens = example.tokens(max(example.length, places + _PER_IMAGE))
    image = first(example.config, "image_token_id", "image_token_index", default=None)
    if tokens.device.type == "meta" or image is None:
        return {}
    tokens[:, 1 : 1 + places] = image
    found = {"input_ids": tokens}
    if typed:
        found["mm_token_type_ids"] = (tokens == image).long()
    return found


def _grid(example: Example) -> Any:
    import torch

    rows, columns, _, _ = example.grid
    return torch.tensor([[1, rows, columns]] * example.samples)


def _image_sizes(example: Example) -> Any:
    import torch

    return torch.tensor([list(example.image[1:])] * example.samples)


def _hidden(example: Example) -> Any:
    return example.numbers(
        example.length, first(example.config, "hidden_size", "d_model", "encoder_hidden_size", default=768)
    )


def _context(example: Example) -> int:
    config = example.config
    lags = first(config, "lags_sequence", default=[0])
    return int(first(config, "context_length", "seq_length", default=32)) + max(lags, default=0)


def _series(example: Example, *, length: int) -> Any:
    size = first(example.config, "input_size", "num_input_channels", default=1)
    wide = size > 1 or hasattr(example.config, "num_input_channels")
    return example.numbers(length, size) if wide else example.numbers(length)


def _future(example: Example) -> int:
    return int(first(example.config, "prediction_length", default=24) or 24)


def _ones(*names: int) -> Callable[[Example], Any]:
    return lambda example: example.integers(*names)


def _documents(example: Example) -> int:
    """Documents that are looked up for a sample."""
    return int(first(example.config, "n_docs", default=_FEW))


Rule = Callable[[Example], Any]

RULES: dict[str, Rule] = {
    "input_ids": lambda e: e.tokens(e.length),
    "context_input_ids": lambda e: e.tokens(e.length).repeat_interleave(_documents(e), 0),
    "context_attention_mask": lambda e: e.integers(e.length).repeat_interleave(_documents(e), 0),
    "doc_scores": lambda e: e.numbers(_documents(e)),
    "qformer_input_ids": lambda e: e.tokens(32),
    "token_type_ids": lambda e: e.integers(e.length, below=2) - 1,
    "inputs_embeds": lambda e: e.numbers(e.length, first(e.text, "hidden_size", "d_model", default=768)),
    "query_embeds": lambda e: e.numbers(32, first(e.config, "hidden_size", default=768)),
    "hidden_states": _hidden,
    "masks": lambda e: None,
    "pixel_attention_mask": lambda e: e.integers(e.grid[0] * e.grid[1]),
    "spatial_shapes": lambda e: _grid(e)[:, 1:],
    "vision_features": _hidden,
    "text_features": _hidden,
    "image_embeddings": lambda e: e.numbers(*e.dense),
    "image_positional_embeddings": lambda e: e.numbers(*e.dense),
    "dense_prompt_embeddings": lambda e: e.numbers(*e.dense),
    "sparse_prompt_embeddings": lambda e: e.numbers(1, 2, e.dense[0]),
    "multimask_output": lambda e: True,
    "high_resolution_features": lambda e: [
        e.numbers(e.dense[0] // 8 * 2**i, e.dense[1] * 4 // 2**i, e.dense[2] * 4 // 2**i) for i in range(2)
    ],
    "input_points": lambda e: e.numbers(1, _FEW, 2),
    "input_labels": lambda e: e.integers(1, _FEW),
    "input_boxes": lambda e: e.numbers(1, 4),
    "input_masks": lambda e: None,
    "latents": _hidden,
    "context": _hidden,
    "encoder_hidden_states": _hidden,
    "x": _hidden,
    "features": _hidden,
    "patch_embeds": _hidden,
    "noise_embeds": _hidden,
    "t_cond": lambda e: e.numbers(first(e.config, "hidden_size", default=768)),
    "position_ids": lambda e: e.positions,
    "bbox": lambda e: e.integers(e.length, 4),
    "pixel_values": _pixels,
    "pixel_values_videos": lambda e: e.numbers(first(e.config, "frames_per_clip", "num_frames", default=16), *e.image),
    "image_sizes": _image_sizes,
    "grid_thw": _grid,
    "image_grid_thw": _grid,
    "pixel_mask": lambda e: e.integers(*e.image[1:]),
    "past_values": lambda e: _series(e, length=_context(e)),
    "past_time_features": lambda e: e.numbers(_context(e), first(e.config, "num_time_features", default=1)),
    "past_observed_mask": lambda e: _series(e, length=_context(e)),
    "future_values": lambda e: _series(e, length=_future(e)),
    "future_time_features": lambda e: e.numbers(_future(e), first(e.config, "num_time_features", default=1)),
    "states": lambda e: e.numbers(e.length, e.config.state_dim),
    "actions": lambda e: e.numbers(e.length, e.config.act_dim),
    "rewards": lambda e: e.numbers(e.length, 1),
    "returns_to_go": lambda e: e.numbers(e.length, 1),
    "timesteps": lambda e: e.integers(e.length),
}
"""Argument to the rule that makes it."""
