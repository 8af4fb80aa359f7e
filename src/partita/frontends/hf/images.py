"""Example images and videos: how they are cut follows from the arguments beside them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from partita.frontends.hf.rules import FEW, Example, Rule, first

#: Patches of an image that comes as rows of patches of any number.
_MOST_PATCHES = 2048


def pixels(example: Example) -> Any:
    """Images, or videos for models that take nothing else."""
    if example.task == "video-classification" or "video" in type(example.config).__name__.lower():
        return videos(example)
    config = example.vision
    if hasattr(config, "num_patches") and hasattr(config, "patch_size") and not hasattr(config, "image_size"):
        return example.numbers(config.num_patches, example.image[0] * example.patch**2)
    return example.numbers(*example.image)


def videos(example: Example) -> Any:
    """Videos, a row a sample."""
    frames = first("frames_per_clip num_frames", example.vision) or first("num_frames", example.config, default=16)
    return example.numbers(frames, *example.image)


def _packed(example: Example) -> dict[str, Any]:
    """The patches of all images one below the other, and how many rows and columns each has."""
    rows, columns, features, merge = example.grid
    sides, merges = example.each(1, rows, columns), example.each(merge)[:, 0]
    return {
        "pixel_values": example.free(example.samples * rows * columns, features),
        "hidden_states": example.free(example.samples * rows * columns, features),
        **dict.fromkeys(("image_grid_thw", "grid_thw"), sides),
        "image_grid_hw": sides[:, 1:],
        **dict.fromkeys(("merge_sizes", "image_merge_sizes"), merges),
        "images_per_sample": example.integers(),
    }


def _rows_of_patches(example: Example) -> dict[str, Any]:
    """A row of patches a sample, and how many rows and columns they were."""
    rows, columns, _, _ = example.grid
    return {
        "pixel_values": example.numbers(rows * columns, example.image[0] * example.patch**2),
        "pixel_attention_mask": example.integers(rows * columns),
        "spatial_shapes": example.each(rows, columns),
    }


def _placed_patches(example: Example) -> dict[str, Any]:
    """A row of patches a sample, and the place of each in the image; as many as pool into whole cells."""
    pool = first("pooling_kernel_size", example.vision, default=1)
    cells = first("default_output_length num_soft_tokens", example.vision)
    cells = cells or first("vision_soft_tokens_per_image image_seq_length", example.config, default=256)
    side = max(1, int(cells**0.5)) * pool
    width = first("model_patch_size", example.vision, default=example.patch)
    places = torch.stack(torch.meshgrid(torch.arange(side), torch.arange(side), indexing="xy"), -1).reshape(-1, 2)
    places = places.expand(example.samples, -1, -1).contiguous()
    patches = example.numbers(side * side, example.image[0] * width**2)
    return {"pixel_values": patches, **dict.fromkeys(("image_position_ids", "pixel_position_ids"), places)}


def _strips(example: Example) -> dict[str, Any]:
    """All patches of all images side by side in one strip, and how many rows and columns each had."""
    # Cells of patches are merged twice.
    rows, columns = (max(4, side // 4 * 4) for side in example.grid[:2])
    strip = example.free(1, example.image[0], example.patch, example.samples * rows * columns * example.patch)
    return {"pixel_values": strip, "target_sizes": example.each(rows, columns).int()}


def _flattened(example: Example) -> dict[str, Any]:
    """Patches that begin with their row and column."""
    features = first("patch_embed_hidden_size", example.vision, default=example.image[0] * example.patch**2) + 2
    most = first("seq_len max_num_patches max_patches", example.vision, default=_MOST_PATCHES)
    side = example.each(int(most**0.5))[:, 0]
    return {"flattened_patches": example.numbers(min(most, _MOST_PATCHES), features), "height": side, "width": side}


def _tiles(example: Example) -> dict[str, Any]:
    """One image a sample, of all the tiles that it may have."""
    tiles = first("max_num_tiles", example.vision, default=FEW)
    ratios = first("supported_aspect_ratios", example.vision, default=[[1, 1]])
    return {
        "pixel_values": example.numbers(1, tiles, *example.image),
        "aspect_ratio_ids": example.each(next((i for i, (a, b) in enumerate(ratios, 1) if a * b == tiles), 1)),
        "aspect_ratio_mask": example.integers(1, tiles),
    }


def _crops(example: Example) -> dict[str, Any]:
    """Crops as rows of patches, and which patches each token pools."""
    channels, *sides = example.image
    rows, columns = (side // example.patch for side in sides)
    pool = first("image_pooling_h pooling_size", example.config, default=2)
    places = torch.arange(example.samples * rows * columns).reshape(-1, rows, columns)
    cells = places[:, : rows // pool * pool, : columns // pool * pool].unfold(1, pool, pool).unfold(2, pool, pool)
    return {
        "pixel_values": example.numbers(rows * columns, channels * example.patch**2),
        "image_token_pooling": cells.reshape(-1, pool * pool),
        "image_grids": example.each(rows // pool, columns // pool, 0, 0),
        "image_num_crops": example.integers(),
    }


def _locals(example: Example) -> dict[str, Any]:
    """A view of the whole image and closer ones of its parts."""
    return {
        "pixel_values": example.numbers(*example.image),
        "pixel_values_local": example.free(example.samples * 2, *example.image),
        "num_local_patches": [2] * example.samples,
        "patches_grid": [[2, 1]] * example.samples,
    }


def _several(example: Example) -> dict[str, Any]:
    """One image of several that a sample may have; not zero, which would mark one that is not there."""
    channels, *sides = example.whole_image
    images = torch.ones((example.samples, 1, channels, *sides), dtype=example.dtype)
    return {"pixel_values": images, "pixel_attention_mask": example.integers(1, *sides).bool()}


def _sized(example: Example) -> dict[str, Any]:
    """Images and their sizes; those of models that cut them into tiles by their sizes are two tiles wide."""
    channels, height, width = example.whole_image
    points = first("image_grid_pinpoints", example.config)
    if not points:
        return {"pixel_values": example.numbers(*example.whole_image), "image_sizes": example.each(height, width)}
    tall, wide = min(points, key=lambda point: (point[0] * point[1], point))
    tiles = -(-tall // height) * -(-wide // width) + 1
    return {
        "pixel_values": example.numbers(tiles, channels, height, width),
        "image_sizes": example.each(tall, wide),
        "batch_num_images": example.integers(),
    }


def _prompted(example: Example) -> dict[str, Any]:
    """An image below an example of what is to be found: each is half of what the model sees."""
    channels, height, width = example.image
    names = ("pixel_values", "prompt_pixel_values", "prompt_masks")
    return {name: example.numbers(channels, height // 2, width) for name in names}


#: How images come, by an argument that goes with it; the first that a model has.
_FORMS: tuple[tuple[str, Callable[[Example], dict[str, Any]]], ...] = (
    ("image_grid_thw", _packed),
    ("grid_thw", _packed),
    ("image_grid_hw", _packed),
    ("spatial_shapes", _rows_of_patches),
    ("image_position_ids", _placed_patches),
    ("pixel_position_ids", _placed_patches),
    ("target_sizes", _strips),
    ("flattened_patches", _flattened),
    ("aspect_ratio_ids", _tiles),
    ("image_token_pooling", _crops),
    ("num_local_patches", _locals),
    ("prompt_pixel_values", _prompted),
    ("image_sizes", _sized),
    ("pixel_attention_mask", _several),
)


def image_arguments(example: Example) -> dict[str, Any]:
    """The arguments of an image a sample, among those that a model takes; none if it takes no images."""
    for name, form in _FORMS:
        if name in example.accepted:
            return {key: value for key, value in form(example).items() if key in example.accepted}
    if "pixel_values" in example.accepted:
        alone = "pixel_values_videos" not in example.accepted
        return {"pixel_values": pixels(example) if alone else example.numbers(*example.image)}
    return {}


IMAGES: dict[str, Rule] = {
    "pixel_values": pixels,
    "pixel_values_videos": videos,
    **dict.fromkeys(("grid_thw", "image_grid_thw"), lambda e: e.each(1, *e.grid[:2])),
    "pixel_mask": lambda e: e.integers(*e.image[1:]),
}
"""Argument to the rule that makes it."""
