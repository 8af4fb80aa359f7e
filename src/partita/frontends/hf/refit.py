"""Inputs of the sizes that a model takes: as the first operator that reads them says, and as many places in the text
as the features of images and sounds have.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import torch

from partita.frontends.hf.configuration import text_of
from partita.frontends.hf.rules import Example, first
from partita.frontends.run import run_module
from partita.ground.errors import TraceError
from partita.inside.messages import (
    CHANNELS,
    CODES,
    FLAT_IMAGES,
    GROUPS,
    MEAN_OF_INTEGERS,
    NORM,
    PRODUCT,
    ROW,
    SEVERAL_IMAGES,
)
from partita.inside.torch_inside import tree_leaves

_FEATURES = ((PRODUCT, -1), (CHANNELS, 1), (NORM, -1))
#: A call that reads more or fewer sides than an input has.
_READS = re.compile(r"not enough values to unpack \(expected (?P<takes>[45]), got (?P<got>\d)\)")
#: A call that reads fewer sides than a mask has.
_MASKS = re.compile(r"too many values to unpack \(expected (?P<takes>[23])")
#: Images of a video where the configuration does not say how many.
_FRAMES = 8


def refit(inputs: Mapping[str, Any], message: str) -> dict[str, Any] | None:
    """Inputs changed so that what a message complains of holds; None if it is not about the size of one of them."""
    for pattern, side in _FEATURES:
        if found := pattern.search(message):
            return _resize(inputs, _sides(found["got"]), int(found["takes"]), side)
    if found := ROW.search(message):
        sides, features = _sides(found["got"]), int(found["takes"])
        return _change(inputs, lambda shape: list(shape) == sides, lambda shape: (*shape[:-1], features))
    if found := CODES.search(message):
        return _add_codes(inputs, _sides(found["form"]), int(found["size"]))
    if found := GROUPS.search(message):
        groups, rest = divmod(math.prod(_sides(found["group"])), int(found["size"]))
        if not rest:
            return _change(inputs, lambda shape: len(shape) > 2, lambda shape: (shape[0] * groups, *shape[1:]))
    if found := SEVERAL_IMAGES.search(message):
        several = int(found["several"])
        return _change(inputs, lambda shape: len(shape) == 4, lambda shape: (shape[0], several, *shape[1:]))
    if found := _MASKS.search(message):
        most = int(found["takes"])
        masks = {k: v for k, v in inputs.items() if "mask" in k and getattr(v, "ndim", 0) > most}
        return {**inputs, **{k: v[(..., *[0] * (v.ndim - most))] for k, v in masks.items()}} if masks else None
    if MEAN_OF_INTEGERS in message and "bbox" in inputs:
        # Boxes in shares of the page.
        boxes = inputs["bbox"]
        return None if boxes.is_floating_point() else {**inputs, "bbox": boxes.float()}
    if "to unpack (expected 4, got 2)" in message:
        # Images that a mask picks, which is one of images and not of their pixels.
        masks = {k: v[..., 0, 0] for k, v in inputs.items() if "mask" in k and getattr(v, "ndim", 0) == 4}
        return {**inputs, **masks} if masks else None
    rows = [value for value in inputs.values() if len(getattr(value, "shape", ())) == 2 and value.is_floating_point()]
    packed = any(_side(value.shape[1]) > 1 for value in rows)
    if FLAT_IMAGES in message and packed:
        return _change(inputs, lambda shape: len(shape) == 2, lambda shape: _apart(shape, False))
    found = _READS.search(message)
    if found is None or int(found["takes"]) != 5:
        return None
    if packed:
        alone = int(found["got"]) == 2
        return _change(inputs, lambda shape: len(shape) == 2, lambda shape: _apart(shape, alone))
    return _change(inputs, lambda shape: len(shape) == 4, lambda shape: (shape[0], _FRAMES, *shape[1:]))


def _sides(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


def _side(features: int) -> int:
    """The side of a square patch of three colours that has so many features, 1 if there is none."""
    side = math.isqrt(features // 3)
    return side if 3 * side * side == features else 1


def _apart(shape: tuple[int, ...], sample: bool) -> tuple[int, ...]:
    """Rows of patches as small images, of one ``sample`` where the call does not add that side itself."""
    side = _side(shape[1])
    return (*([1] if sample else []), shape[0], 3, side, side)


def _add_codes(inputs: Mapping[str, Any], sides: list[int], size: int) -> dict[str, Any] | None:
    for name, value in inputs.items():
        tokens = isinstance(value, torch.Tensor) and not value.is_floating_point() and value.dim() == 2
        if tokens and value.numel() == size:
            if sides[0] == -1:
                return {**inputs, name: value.repeat(sides[1], 1)}
            return {**inputs, name: value.unsqueeze(-1).repeat(1, 1, sides[1])}
    return None


def _resize(inputs: Mapping[str, Any], got: list[int], takes: int, side: int) -> dict[str, Any] | None:
    """The one input that has the side that is complained of, turned round or with another size of that side."""

    def same(shape: tuple[int, ...]) -> bool:
        # Products see the rows of all samples as one side.
        return list(shape) == got or (side == -1 and [math.prod(shape[:-1]), *shape[-1:]] == got)

    def alike(shape: tuple[int, ...]) -> bool:
        return len(shape) > 1 and shape[side] == got[side]

    def resized(shape: tuple[int, ...]) -> tuple[int, ...]:
        if len(shape) == 3 and takes in shape[1:]:
            return (shape[0], shape[2], shape[1])
        sides = list(shape)
        sides[side] = takes
        return tuple(sides)

    return _change(inputs, same, resized) or _change(inputs, alike, resized)


def _change(
    inputs: Mapping[str, Any],
    chosen: Callable[[tuple[int, ...]], bool],
    changed: Callable[[tuple[int, ...]], tuple[int, ...]],
) -> dict[str, Any] | None:
    for name, value in inputs.items():
        if isinstance(value, torch.Tensor) and value.is_floating_point() and chosen(tuple(value.shape)):
            return {**inputs, name: torch.empty(changed(tuple(value.shape)), dtype=value.dtype, device="meta")}
    return None


# -- places in the text ------------------------------------------------------------------------------------------------

#: Tokens of text beside those of images and sounds where the sequence would be all of these.
_BESIDE = 16
#: How often arguments of a tower are made again because it takes another size.
_FITS = 4
#: What towers read: names of arguments, and the kind of token that stands for a feature.
_TOWERS = {
    "image": (("pixel_values", "image_pixel_values"), 1),
    "video": (("pixel_values_videos",), 2),
    "audio": (("input_features", "input_values", "audio_input_features"), 3),
}
#: Fields that say how many features an image has, where its tower does not run by itself.
_COUNTS = "image_seq_length mm_tokens_per_image num_image_tokens image_token_len image_seq_len"


def place_features(example: Example, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments whose tokens stand for what the towers make, and say so where the model takes kinds of tokens.

    Towers run by themselves, so as to count their features; arguments of a size that a tower refuses are made again.
    """
    inputs = dict(inputs)
    tokens = inputs.get("input_ids")
    if not isinstance(tokens, torch.Tensor) or tokens.device.type == "meta" or tokens.dim() != 2:
        return inputs
    wanted: list[tuple[int, int, int]] = []
    for name, (sources, kind) in _TOWERS.items():
        mark = _mark(example.config, name)
        if mark is not None and any(source in inputs for source in sources):
            inputs, count = _features(example, inputs, name)
            if count:
                wanted.append((mark, count, kind))
    if not wanted:
        return inputs
    length = max(tokens.shape[1], sum(count for _, count, _ in wanted) + _BESIDE)
    tokens = example.tokens(length)
    if tokens.device.type == "meta":
        return inputs
    kinds = torch.zeros_like(tokens)
    place = 1
    for mark, count, kind in wanted:
        tokens[:, place : place + count] = mark
        kinds[:, place : place + count] = kind
        # A token of text between two images, or between an image and a sound.
        place += count + 1
    named = ("mm_token_type_ids", "token_type_ids", "moe_mm_token_type_ids")
    return {**inputs, **{name: kinds for name in named if name in example.accepted}, "input_ids": tokens}


def _mark(config: Any, name: str) -> int | None:
    """The token that stands for a feature; one that a default configuration leaves open is the vocabulary's last."""
    fields = f"{name}_token_id {name}_token_index {name}_pad_token_id"
    mark = first(fields, config)
    left_open = next((field for field in fields.split() if hasattr(config, field)), None)
    if mark is None and left_open is not None:
        mark = first("vocab_size", text_of(config), default=1) - 1
        setattr(config, left_open, mark)
    return mark if isinstance(mark, int) and mark >= 0 else None


def _features(example: Example, inputs: dict[str, Any], name: str) -> tuple[dict[str, Any], int]:
    """Arguments as the tower takes them, and how many features it makes of a sample."""
    call = f"get_{name}_features"
    owner = next((part for part in (getattr(example.model, "model", None), example.model) if hasattr(part, call)), None)
    read = () if owner is None else inspect.signature(getattr(owner, call)).parameters
    given = {key: inputs[key] for key in read if key in inputs}
    tower = _Tower(owner, call)
    for _ in range(_FITS if owner is not None else 0):
        try:
            run_module(tower, (), given, training=False)
        except TraceError as error:
            changed = refit(given, str(error))
            if changed is None:
                break
            given = changed
        else:
            return {**inputs, **given}, -(-tower.count // example.samples)
    if name != "image":
        return inputs, 0
    rows, columns, _, merge = example.grid
    count = first(_COUNTS, example.config, example.vision)
    return inputs, count if isinstance(count, int) else rows * columns // merge**2


class _Tower(torch.nn.Module):  # type: ignore[misc]
    """A call for features, as a module."""

    def __init__(self, owner: Any, call: str) -> None:
        super().__init__()
        self.owner, self.call, self.count = owner, call, 0

    def forward(self, **given: Any) -> Any:
        """Call, and count the features."""
        out = getattr(self.owner, self.call)(**given)
        features = getattr(out, "pooler_output", out)
        leaves = [leaf for leaf in tree_leaves(features) if isinstance(leaf, torch.Tensor)]
        self.count = sum(leaf.numel() // max(1, leaf.shape[-1]) for leaf in leaves)
        return leaves
