"""Places in the text that the features of images and sounds take, as many as their towers make."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch

from partita.frontends.hf.configuration import text_of
from partita.frontends.hf.refit import refit
from partita.frontends.hf.rules import Example, first
from partita.frontends.run import run_module
from partita.ground.errors import TraceError
from partita.inside.torch_inside import tree_leaves

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
_COUNTS = ("image_seq_length", "mm_tokens_per_image", "num_image_tokens", "image_token_len", "image_seq_len")


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
    for name in ("mm_token_type_ids", "token_type_ids"):
        if name in example.accepted:
            inputs[name] = kinds
    if "moe_mm_token_type_ids" in example.accepted:
        inputs["moe_mm_token_type_ids"] = kinds
    return {**inputs, "input_ids": tokens}


def _mark(config: Any, name: str) -> int | None:
    """The token that stands for a feature; one that a default configuration leaves open is the vocabulary's last."""
    fields = [f"{name}_token_id", f"{name}_token_index", f"{name}_pad_token_id"]
    mark = first(config, *fields, default=None)
    left_open = next((field for field in fields if hasattr(config, field)), None)
    if mark is None and left_open is not None:
        mark = first(text_of(config), "vocab_size", default=1) - 1
        setattr(config, left_open, mark)
    return mark if isinstance(mark, int) and mark >= 0 else None


def _features(example: Example, inputs: dict[str, Any], name: str) -> tuple[dict[str, Any], int]:
    """Arguments as the tower takes them, and how many features it makes of a sample."""
    call = f"get_{name}_features"
    owner = next((part for part in (getattr(example.model, "model", None), example.model) if hasattr(part, call)), None)
    if owner is None:
        return inputs, _guess(example, name)
    read = inspect.signature(getattr(owner, call)).parameters
    given = {key: inputs[key] for key in read if key in inputs}
    tower = _Tower(owner, call)
    for _ in range(_FITS):
        try:
            run_module(tower, (), given, training=False)
        except TraceError as error:
            changed = refit(given, str(error))
            if changed is None:
                break
            given = changed
        else:
            return {**inputs, **given}, -(-tower.count // example.samples)
    return inputs, _guess(example, name)


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


def _guess(example: Example, name: str) -> int:
    if name != "image":
        return 0
    rows, columns, _, merge = example.grid
    count = first(example.config, *_COUNTS, default=first(example.vision, *_COUNTS, default=None))
    return count if isinstance(count, int) else rows * columns // merge**2
