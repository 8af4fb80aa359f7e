"""Inputs of another size, when the first operator that reads them says which it takes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import torch

from partita.inside.messages import (
    CHANNELS,
    CODES,
    GROUPS,
    NORM,
    PRODUCT,
    ROW,
    SEVERAL_IMAGES,
    is_of_flat_images,
    is_of_mean_of_integers,
)

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
    if is_of_mean_of_integers(message) and "bbox" in inputs:
        # Boxes in shares of the page.
        boxes = inputs["bbox"]
        return None if boxes.is_floating_point() else {**inputs, "bbox": boxes.float()}
    if "to unpack (expected 4, got 2)" in message:
        # Images that a mask picks, which is one of images and not of their pixels.
        masks = {k: v[..., 0, 0] for k, v in inputs.items() if "mask" in k and getattr(v, "ndim", 0) == 4}
        return {**inputs, **masks} if masks else None
    packed = any(map(_is_packed, inputs.values()))
    if is_of_flat_images(message) and packed:
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


def _is_packed(value: Any) -> bool:
    shape = tuple(getattr(value, "shape", ()))
    return len(shape) == 2 and value.is_floating_point() and _side(shape[1]) > 1


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
