"""Example images and videos: how they are cut follows from the arguments beside them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from partita.frontends.hf.rules import FEW, Example, Rule, first

#: Images of a video where the configuration does not say how many.
_FRAMES = 8
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
    frames = first(
        example.vision, "frames_per_clip", "num_frames", default=first(example.config, "num_frames", default=16)
    )
    return example.numbers(frames, *example.image)


def _packed(example: Example) -> dict[str, Any]:
    """The patches of all images one below the other, and how many rows and columns each has."""
    rows, columns, features, merge = example.grid
    sides = torch.tensor([[1, rows, columns]] * example.samples)
    merges = torch.tensor([merge] * example.samples)
    return {
        "pixel_values": torch.empty((example.samples * rows * columns, features), dtype=example.dtype, device="meta"),
        "hidden_states": torch.empty((example.samples * rows * columns, features), dtype=example.dtype, device="meta"),
        "image_grid_thw": sides,
        "grid_thw": sides,
        "image_grid_hw": sides[:, 1:],
        "merge_sizes": merges,
        "image_merge_sizes": merges,
        "images_per_sample": torch.ones(example.samples, dtype=torch.long),
    }


def _rows_of_patches(example: Example) -> dict[str, Any]:
    """A row of patches a sample, and how many rows and columns they were."""
    rows, columns, _, _ = example.grid
    return {
        "pixel_values": example.numbers(rows * columns, example.image[0] * example.patch**2),
        "pixel_attention_mask": example.integers(rows * columns),
        "spatial_shapes": torch.tensor([[rows, columns]] * example.samples),
    }


def _placed_patches(example: Example) -> dict[str, Any]:
    """A row of patches a sample, and the place of each in the image; as many as pool into whole cells."""
    pool = first(example.vision, "pooling_kernel_size", default=1)
    cells = first(example.vision, "default_output_length", "num_soft_tokens", default=None)
    cells = cells or first(example.config, "vision_soft_tokens_per_image", "image_seq_length", default=256)
    rows = columns = max(1, int(cells**0.5)) * pool
    width = first(example.vision, "model_patch_size", default=example.patch)
    places = torch.stack(torch.meshgrid(torch.arange(columns), torch.arange(rows), indexing="xy"), -1).reshape(-1, 2)
    places = places.expand(example.samples, -1, -1).contiguous()
    return {
        "pixel_values": example.numbers(rows * columns, example.image[0] * width**2),
        "image_position_ids": places,
        "pixel_position_ids": places,
    }


def _strips(example: Example) -> dict[str, Any]:
    """All patches of all images side by side in one strip, and how many rows and columns each had."""
    # Cells of patches are merged twice.
    rows, columns = (max(4, side // 4 * 4) for side in example.grid[:2])
    strip = (1, example.image[0], example.patch, example.samples * rows * columns * example.patch)
    return {
        "pixel_values": torch.empty(strip, dtype=example.dtype, device="meta"),
        "target_sizes": torch.tensor([[rows, columns]] * example.samples, dtype=torch.int32),
    }


def _flattened(example: Example) -> dict[str, Any]:
    """Patches that begin with their row and column."""
    features = first(example.vision, "patch_embed_hidden_size", default=example.image[0] * example.patch**2) + 2
    most = first(example.vision, "seq_len", "max_num_patches", "max_patches", default=_MOST_PATCHES)
    side = torch.full((example.samples,), int(most**0.5))
    return {"flattened_patches": example.numbers(min(most, _MOST_PATCHES), features), "height": side, "width": side}


def _tiles(example: Example) -> dict[str, Any]:
    """One image a sample, of all the tiles that it may have."""
    tiles = first(example.vision, "max_num_tiles", default=FEW)
    ratios = first(example.vision, "supported_aspect_ratios", default=[[1, 1]])
    whole = next((i for i, (a, b) in enumerate(ratios, 1) if a * b == tiles), 1)
    return {
        "pixel_values": example.numbers(1, tiles, *example.image),
        "aspect_ratio_ids": torch.full((example.samples, 1), whole),
        "aspect_ratio_mask": torch.ones((example.samples, 1, tiles), dtype=torch.long),
    }


def _crops(example: Example) -> dict[str, Any]:
    """Crops as rows of patches, and which patches each token pools."""
    channels, *sides = example.image
    rows, columns = (side // example.patch for side in sides)
    pool = first(example.config, "image_pooling_h", "pooling_size", default=2)
    crops = example.samples
    places = torch.arange(crops * rows * columns).reshape(crops, rows, columns)
    cells = places[:, : rows // pool * pool, : columns // pool * pool].unfold(1, pool, pool).unfold(2, pool, pool)
    grid = [rows // pool, columns // pool, 0, 0]
    return {
        "pixel_values": example.numbers(rows * columns, channels * example.patch**2),
        "image_token_pooling": cells.reshape(-1, pool * pool),
        "image_grids": torch.tensor([grid] * crops),
        "image_num_crops": torch.ones(crops, dtype=torch.long),
    }


def _locals(example: Example) -> dict[str, Any]:
    """A view of the whole image and closer ones of its parts."""
    local = (example.samples * 2, *example.image)
    return {
        "pixel_values": example.numbers(*example.image),
        "pixel_values_local": torch.empty(local, dtype=example.dtype, device="meta"),
        "num_local_patches": [2] * example.samples,
        "patches_grid": [[2, 1]] * example.samples,
    }


def _several(example: Example) -> dict[str, Any]:
    """One image of several that a sample may have; not zero, which would mark one that is not there."""
    channels, height, width = example.whole_image
    return {
        "pixel_values": torch.ones((example.samples, 1, channels, height, width), dtype=example.dtype),
        "pixel_attention_mask": example.integers(1, height, width).bool(),
    }


def _sized(example: Example) -> dict[str, Any]:
    """Images and their sizes; those of models that cut them into tiles by their sizes are two tiles wide."""
    channels, height, width = example.whole_image
    points = first(example.config, "image_grid_pinpoints", default=None)
    if not points:
        sizes = torch.tensor([[height, width]] * example.samples)
        return {"pixel_values": example.numbers(channels, height, width), "image_sizes": sizes}
    tall, wide = min(points, key=lambda point: (point[0] * point[1], point))
    tiles = -(-tall // height) * -(-wide // width) + 1
    return {
        "pixel_values": example.numbers(tiles, channels, height, width),
        "image_sizes": torch.tensor([[tall, wide]] * example.samples),
        "batch_num_images": torch.ones(example.samples, dtype=torch.long),
    }


def _prompted(example: Example) -> dict[str, Any]:
    """An image below an example of what is to be found: each is half of what the model sees."""
    channels, height, width = example.image
    half = example.numbers(channels, height // 2, width)
    return {"pixel_values": half, "prompt_pixel_values": half.clone(), "prompt_masks": half.clone()}


Form = Callable[[Example], dict[str, Any]]
#: How images come, by an argument that goes with it; the first that a model has.
_FORMS: tuple[tuple[str, Form], ...] = (
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


def _grid(example: Example) -> Any:
    rows, columns, _, _ = example.grid
    return torch.tensor([[1, rows, columns]] * example.samples)


IMAGES: dict[str, Rule] = {
    "pixel_values": pixels,
    "pixel_values_videos": videos,
    "grid_thw": _grid,
    "image_grid_thw": _grid,
    "pixel_mask": lambda e: e.integers(*e.image[1:]),
}
"""Argument to the rule that makes it."""
