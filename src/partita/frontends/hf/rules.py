"""Example arguments of transformers models by their name: shapes from the configuration, values where code reads them.

A rule makes one argument; the library uses the same names for the same things in all its models. Whole numbers have
real values, on the CPU, as long as they are few: sizes of images, token types and the like decide what runs.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from partita.frontends.hf.configuration import text_of
from partita.frontends.options import Asked
from partita.ground.errors import InputError
from partita.nouns.catalogue.files import read_document

#: Elements up to which whole numbers have values.
_VALUED = 2**18
_PIXELS = 224
#: Tokens of a sample unless asked for others.
_LENGTH = 1024
#: Points, boxes, prompts or labels of a sample where a model takes several.
FEW = 4


@dataclass
class Example:
    """What the arguments of one microbatch of a model are made for.

    A sequence that is longer than the model can take is an ``InputError``.
    """

    model: Any
    task: str
    dtype: Any
    asked: Asked

    def __post_init__(self) -> None:
        self.config = self.model.config
        self.accepted = frozenset(inspect.signature(self.model.forward).parameters)
        self.samples = self.asked.samples
        self.length = _length(self.model, self.asked.sequence_length)

    @property
    def text(self) -> Any:
        """The configuration of the language model."""
        return text_of(self.config)

    @property
    def vision(self) -> Any:
        """The configuration of the image tower."""
        named = first("vision_config vit_config image_config backbone_config encoder", self.config)
        if hasattr(named, "to_dict"):
            return next((part for part in (named, *nested(named)) if _of_images(part)), named)
        return next((part for part in (self.config, *nested(self.config)) if _of_images(part)), self.config)

    @property
    def audio(self) -> Any:
        """The configuration of the audio tower."""
        names = "audio_config encoder_config audio_encoder_config speech_config encoder"
        return first(names, self.config, default=self.config)

    def numbers(self, *shape: int) -> Any:
        """Floating numbers, a row a sample."""
        return self.free(self.samples, *shape)

    def free(self, *shape: int) -> Any:
        """Floating numbers of any shape."""
        return torch.empty(shape, dtype=self.dtype, device="meta")

    def integers(self, *shape: int) -> Any:
        """Whole numbers, all of them 1, a row a sample."""
        return ones((self.samples, *shape), torch.long)

    def each(self, *row: Any) -> Any:
        """Whole numbers, the same row for every sample."""
        return torch.tensor([row] * self.samples)

    def tokens(self, length: int) -> Any:
        """Token numbers without a special one but the end."""
        config = self.text
        end = first("eos_token_id", config)
        vocabulary = first("vocab_size", config, default=32)
        special = {
            number
            for part in (config, self.config)
            for name in dir(part)
            if name.endswith(("_token_id", "_token_index")) and isinstance(number := getattr(part, name, None), int)
        }
        usual = next((i for i in range(5, int(vocabulary)) if i not in special), 1) if vocabulary > 6 else 1
        tokens = self.integers(length)
        if tokens.device.type == "meta":
            return tokens
        tokens.fill_(usual)
        if isinstance(end, int) and 0 <= end < vocabulary:
            tokens[:, -1] = end
        return tokens

    def zeros(self, *shape: int) -> Any:
        """Zeros as whole numbers, a row a sample."""
        return self.integers(*shape) - 1

    @property
    def words(self) -> int:
        """Tokens of a sample; a decoder of the codes of one moment has a place for each codebook."""
        books, places = (getattr(self.config, name, None) for name in ("num_codebooks", "max_position_embeddings"))
        if isinstance(books, int) and isinstance(places, int) and places <= books + 1:
            return min(self.length, books)
        return self.length

    @property
    def context(self) -> int:
        """Steps of a series that are known."""
        lags = first("lags_sequence", self.config, default=[0])
        return int(first("context_length seq_length", self.config, default=32)) + max(lags, default=0)

    @property
    def future(self) -> int:
        """Steps of a series that are asked for."""
        return int(first("prediction_length", self.config, default=24) or 24)

    def side(self, text: str) -> tuple[int, ...]:
        """What a side of an argument stands for in the table of arguments: several for what has several."""
        for path in text.split("|"):
            value: Any = int(path) if path.isdigit() else self
            for name in () if path.isdigit() else path.split("."):
                value = getattr(value, name, None)
            if value is not None:
                return value if isinstance(value, tuple) else (value,)
        raise AttributeError(f"there is no {text} of {type(self.config).__name__}")

    @property
    def dense(self) -> tuple[int, int, int]:
        """Features, rows and columns of an encoded image, as decoders of masks take it."""
        rows = first("image_embedding_size", self.config, default=64)
        rows = rows if isinstance(rows, int) else rows[0]
        return first("hidden_size", self.config, default=256), rows, rows

    @property
    def positions(self) -> Any:
        """Places of the tokens."""
        return (ones((self.samples, self.length), torch.long).cumsum(1) - 1).contiguous()

    @property
    def image(self) -> tuple[int, int, int]:
        """Channels, height and width of an image."""
        vision = self.vision
        size = first(_IMAGE_SIZES, vision) or first(_IMAGE_SIZES, self.config)
        if not size:
            # A table of positions has a row for each patch of a square image.
            cells = first("num_patches num_position_embeddings num_positions", vision, default=0)
            side = int(cells**0.5) if isinstance(cells, int) else 0
            size = side * self.patch if side and side * side == cells else _PIXELS
        ratios = getattr(self.config, "scaled_images_ratios", None)
        if ratios:
            # Patches are cut from the image at several scales, the smallest of which is one patch.
            size = round(first("patch_size", self.config, default=_PIXELS) / min(ratios))
        if isinstance(size, dict):
            size = size.get("height", _PIXELS), size.get("width", _PIXELS)
        height, width = size if isinstance(size, (list, tuple)) and len(size) == 2 else (size, size)
        if isinstance(height, (list, tuple)):
            height, width = height[0], width[0]
        return first(_CHANNELS, vision, self.config, default=3), height, width

    @property
    def whole_image(self) -> tuple[int, int, int]:
        """The same, of sides that are cut into whole cells of patches where cells are merged."""
        channels, *sides = self.image
        factor = first("scale_factor pixel_shuffle_factor", self.config, default=1)
        cell = self.patch * factor if isinstance(factor, int) else self.patch
        height, width = (max(cell, side // cell * cell) for side in sides)
        return channels, height, width

    @property
    def patch(self) -> int:
        """The side of a patch."""
        patch = first("patch_size", self.vision, self.config, default=14)
        return int(patch if isinstance(patch, int) else patch[-1])

    @property
    def grid(self) -> tuple[int, int, int, int]:
        """Rows and columns of patches of one image, the features of a patch, and how many are merged along a side."""
        vision, patch = self.vision, self.patch
        channels, height, width = self.image
        merge = first("spatial_merge_size merge_size merge_kernel_size", vision, self.config, default=2)
        merge = merge if isinstance(merge, int) else merge[0]
        frames = first("temporal_patch_size", vision, default=1)
        rows, columns = (max(merge, side // patch // merge * merge) for side in (height, width))
        return rows, columns, channels * frames * patch * patch, merge


#: Names of fields, the usual ones first.
_IMAGE_SIZES = "image_size img_size input_size max_img_size"
_CHANNELS = "num_channels in_channels num_input_channels in_chans image_channels"
_LIMITS = "max_position_embeddings n_positions max_target_positions max_seq_len block_size"


def ones(shape: Sequence[int], dtype: Any) -> Any:
    """Ones, without data where there are many."""
    return torch.ones(shape, dtype=dtype, device="meta" if math.prod(shape) > _VALUED else "cpu")


def _length(model: Any, wanted: int | None) -> int:
    values = (getattr(text_of(model.config), name, None) for name in _LIMITS.split())
    limits = [value for value in values if isinstance(value, int) and value > 0]
    if wanted is None:
        limit = min([_LENGTH, *limits])
        # Some position tables hold a few more rows than the tokens they serve.
        return limit - limit % 64 if limit > 128 and limit % 8 else limit
    if (
        limits
        and wanted > min(limits)
        and any(
            isinstance(child, torch.nn.Embedding) and name.split(".")[-1] in _POSITIONS
            for name, child in model.named_modules()
        )
    ):
        raise InputError(
            f"sequence length {wanted} exceeds the {min(limits)} positions the model has; "
            "raise that field of its configuration or shorten the sequence"
        )
    return wanted


_POSITIONS = frozenset({"wpe", "position_embeddings", "embed_positions", "position_embedding"})


def nested(config: Any) -> Iterator[Any]:
    """The configurations inside one, outer ones first."""
    parts = [value for value in vars(config).values() if hasattr(value, "to_dict")]
    yield from parts
    for part in parts:
        yield from nested(part)


def _of_images(config: Any) -> bool:
    sizes = (getattr(config, name, None) for name in _IMAGE_SIZES.split())
    sized = any(isinstance(size, (int, list, tuple, dict)) for size in sizes)
    return sized or (hasattr(config, "patch_size") and hasattr(config, "num_channels"))


def first(names: str, *owners: Any, default: Any = None) -> Any:
    """The first of several fields that the first of some configurations has that has any."""
    values = (getattr(owner, name, None) for owner in owners for name in names.split())
    return next((value for value in values if value is not None), default)


def _series(example: Example, length: int) -> Any:
    size = first("input_size num_input_channels", example.config, default=1)
    wide = size > 1 or hasattr(example.config, "num_input_channels")
    return example.numbers(length, size) if wide else example.numbers(length)


def _documents(example: Example, tokens: Any) -> Any:
    """Of every document that is looked up for a sample."""
    return tokens.repeat_interleave(int(first("n_docs", example.config, default=FEW)), 0)


Rule = Callable[[Example], Any]


def _as_listed(kind: str, text: str) -> Rule:
    return lambda example: getattr(example, kind)(*(n for side in text.split() for n in example.side(side)))


TABLE = read_document(Path(__file__).with_name("arguments.toml"))

RULES: dict[str, Rule] = {
    **{
        name: _as_listed(kind, text)
        for kind, group in TABLE.items()
        if isinstance(group, dict)
        for names, text in group.items()
        for name in names.split()
    },
    "context_input_ids": lambda e: _documents(e, e.tokens(e.length)),
    "context_attention_mask": lambda e: _documents(e, e.integers(e.length)),
    "masks": lambda e: e.numbers(1, 4 * e.dense[1], 4 * e.dense[2]),
    "actions": lambda e: e.numbers(e.length, e.config.act_dim) if hasattr(e.config, "act_dim") else RULES["noise"](e),
    "sparse_prompt_embeddings": lambda e: e.numbers(1, 2, e.dense[0]),
    "multimask_output": lambda e: True,
    "high_resolution_features": lambda e: [
        e.numbers(e.dense[0] // 8 * 2**i, e.dense[1] * 4 // 2**i, e.dense[2] * 4 // 2**i) for i in range(2)
    ],
    "input_masks": lambda e: None,
    "position_ids": lambda e: e.positions,
    "past_values": lambda e: _series(e, e.context),
    "past_observed_mask": lambda e: _series(e, e.context),
    "future_values": lambda e: _series(e, e.future),
}
"""Argument to the rule that makes it, beside those of images and sounds that no table can say."""
