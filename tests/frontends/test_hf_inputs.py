"""Inputs of transformers models beyond text: images in all their forms, features' places in the text, prompts."""

# ruff: noqa: E402 -- the imports follow the check that torch is there
from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the PyTorch frontend needs torch")
pytest.importorskip("transformers", reason="hf: models need transformers")

from frontends.helpers import targets
from partita.frontends.hf.described import describe, make_described
from partita.frontends.hf.inputs import unset_arguments
from partita.frontends.hf.load import build_transformers
from partita.frontends.hf.refit import refit
from partita.frontends.hf.rules import Example
from partita.frontends.models import load_model
from partita.frontends.options import Asked
from partita.ground.errors import TraceError

TEXT = {
    "num_hidden_layers": 1,
    "hidden_size": 32,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 48,
    "vocab_size": 99,
}
TOWER = {"num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 48}


def fields_of(parts: dict) -> dict[str, str]:
    return {
        (f"{part}.{name}" if part else name): json.dumps(value)
        for part, fields in parts.items()
        for name, value in fields.items()
    }


CLIP = {**TOWER, "image_size": 28, "patch_size": 14}
#: Type to its fields, the module of its tower, and how many tokens stand for an image.
TOWERS = {
    "llava": (
        {"text_config": TEXT, "vision_config": {**CLIP, "num_hidden_layers": 2}, "": {"image_token_id": 98}},
        "model.vision_tower",
        4,
    ),
    "gemma3": (
        {
            "text_config": {**TEXT, "head_dim": 8},
            "vision_config": {**CLIP, "image_size": 56},
            "": {"mm_tokens_per_image": 4, "image_token_id": 98},
        },
        "model.vision_tower",
        4,
    ),
    "qwen2_vl": (
        {
            "text_config": {
                **TEXT,
                "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 1, 2]},
            },
            "vision_config": {"depth": 1, "embed_dim": 32, "hidden_size": 32, "num_heads": 4},
            "": {"image_token_id": 98},
        },
        "model.visual",
        64,
    ),
    "idefics3": (
        {
            "text_config": TEXT,
            "vision_config": {**TOWER, "image_size": 32, "patch_size": 8},
            "": {"image_token_id": 98, "scale_factor": 2},
        },
        "model.vision_model",
        4,
    ),
    "paddleocr_vl": (
        {
            "text_config": {
                **TEXT,
                "head_dim": 8,
                "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 1, 2]},
            },
            "vision_config": {**TOWER, "image_size": 56, "patch_size": 14},
            "": {"image_token_id": 98},
        },
        "model.visual",
        4,
    ),
}


@pytest.mark.parametrize("name", TOWERS)
def test_images_go_through_their_tower_into_the_text(name: str) -> None:
    parts, tower, places = TOWERS[name]
    fields = fields_of(parts)
    graph = load_model(f"hf:{name}", sequence_length=8, set_fields=fields)
    assert any(op.module.startswith(tower) and op.flops for op in graph.operators)
    assert not any(note.startswith("Without") for note in graph.notes)
    model = build_transformers(name, Asked(None, 8, None, fields, None, False))
    tokens = model.kwargs["input_ids"]
    assert (tokens == 98).sum() == places
    assert tokens.shape == (1, max(8, places + 16))
    if name == "llava":
        # Four patches and a class of 32 features; of two layers the first is read.
        layer = 2 * 5 * (4 * 32 * 32 + 2 * 32 * 48) + 2 * 2 * 5 * 5 * 32
        flops = sum(op.flops for op in graph.operators if op.module.startswith(tower))
        assert flops == 2 * 4 * 3 * 14 * 14 * 32 + layer


def test_an_image_that_is_cut_into_tiles() -> None:
    fields = fields_of(
        {
            "text_config": TEXT,
            "vision_config": {**CLIP, "num_hidden_layers": 2},
            "": {"image_token_id": 98, "image_grid_pinpoints": [[28, 56], [56, 28]]},
        }
    )
    model = build_transformers("llava_next", Asked(None, 8, None, fields, None, False))
    # Two tiles and the whole, small.
    assert model.kwargs["pixel_values"].shape == (1, 3, 3, 28, 28)
    # The rows of both tiles end with a token of their own.
    assert (model.kwargs["input_ids"] == 98).sum() == 4 + 8 + 2


def test_several_images_a_batch() -> None:
    parts, tower, _ = TOWERS["qwen2_vl"]
    graphs = [load_model("hf:qwen2_vl", batch_size=n, sequence_length=8, set_fields=fields_of(parts)) for n in (1, 2)]
    linear = [
        sum(op.flops for op in graph.operators if op.module.startswith(tower) and "mm" in op.target) for graph in graphs
    ]
    assert linear[1] == 2 * linear[0] > 0


def test_training_takes_labels_as_long_as_the_text_with_its_image() -> None:
    parts, tower, _ = TOWERS["gemma3"]
    graph = load_model("hf:gemma3", sequence_length=8, set_fields=fields_of(parts), training=True)
    assert not any("stands in for" in note for note in graph.notes)
    assert any(op.module.startswith(tower) and op.phase == "backward" for op in graph.operators)


def test_prompts_and_images_of_their_own_sizes() -> None:
    small = {"num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 4, "mlp_dim": 48}
    small |= {"image_size": [32, 16], "patch_size": 8, "pretrain_image_size": 16}
    small |= {"intermediate_hidden_state_indices": [0], "merge_index": 0, "decoder_hidden_size": 8}
    graph = load_model("hf:seggpt", set_fields=fields_of({"": small}))
    shapes = {t.name: t.shape for t in graph.tensors if t.name.endswith(("pixel_values", "masks"))}
    assert set(shapes.values()) == {(1, 3, 16, 16)}
    assert len(shapes) == 3


def test_arguments_as_documented() -> None:
    class Model:
        def forward(self, boxes, box_mask: torch.Tensor, labels, count: int, odd) -> None:  # type: ignore
            """Run.

            Args:
                boxes (`torch.Tensor` of shape `(batch_size, num_boxes, 2 * patch_size**2)`):
                    Boxes.
                box_mask: Attention mask for boxes [batch_size, height*width]
                labels (`torch.LongTensor` of shape `(batch_size, sequence_length + 1)`, *optional*):
                    Labels.
                odd (`~models.Cache`):
                    No tensor.
            """

    config = SimpleNamespace(image_size=32, patch_size=8, num_channels=3, num_boxes=5, count=7)
    model = Model()
    model.config = config  # type: ignore
    example = Example(model, "base", torch.bfloat16, Asked(2, 10, None, {}, None, False))
    assert describe(model, "box_mask").startswith("Attention mask")
    boxes = make_described(example, "boxes")
    assert (boxes.shape, boxes.dtype) == ((2, 5, 128), torch.bfloat16)
    mask = make_described(example, "box_mask")
    assert (mask.shape, mask.dtype, mask.min()) == ((2, 16), torch.long, 1)
    assert make_described(example, "labels").shape == (2, 11)
    assert make_described(example, "count") == 7
    assert make_described(example, "odd") is None


@pytest.mark.parametrize(
    ("shape", "message", "wanted"),
    [
        (
            (1, 3, 8, 8),
            "Input must be a 5D tensor of shape (batch_size, 2, num_channels, height, width)",
            (1, 2, 3, 8, 8),
        ),
        ((1, 3, 8, 8), "RuntimeError: shape '[0, 8, 4]' is invalid for input of size 4", (8, 3, 8, 8)),
        ((6, 588), "ValueError: not enough values to unpack (expected 5, got 2)", (1, 6, 3, 14, 14)),
        ((6, 588), "ValueError: not enough values to unpack (expected 5, got 3)", (6, 3, 14, 14)),
        ((1, 3, 8, 8), "ValueError: not enough values to unpack (expected 5, got 4)", (1, 8, 3, 8, 8)),
    ],
)
def test_images_of_another_form(shape: tuple[int, ...], message: str, wanted: tuple[int, ...]) -> None:
    changed = refit({"pixel_values": torch.empty(shape, device="meta")}, message)
    assert changed is not None
    assert changed["pixel_values"].shape == wanted


def test_a_mask_of_images_and_not_of_pixels() -> None:
    inputs = {"pixel_attention_mask": torch.ones(1, 2, 8, 8, dtype=torch.bool)}
    for message in ("too many values to unpack (expected 2)", "not enough values to unpack (expected 4, got 2)"):
        changed = refit(inputs, message)
        assert changed is not None
        assert changed["pixel_attention_mask"].shape == (1, 2)


def test_lists_of_known_numbers_are_known() -> None:
    class Counts(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)

        def forward(self, x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
            last = torch.tensor([row.max() + 1 for row in places])
            return self.linear(x[:, : last[0]])

    from partita.frontends.torch import trace

    graph = trace(Counts(), (torch.zeros(2, 9, 4), torch.arange(10).reshape(2, 5)))
    assert graph.flops == 2 * 2 * 5 * 4 * 4
    assert targets(graph)


def test_arguments_that_code_reads_without_having_them_are_made() -> None:
    class Net(torch.nn.Module):
        def forward(self, input_ids: Any = None, inputs_embeds: Any = None, other: Any = None) -> Any:
            return inputs_embeds.shape[0] + len(input_ids)

    try:
        Net()(input_ids=torch.zeros(2))
    except AttributeError as cause:
        error = TraceError("cannot trace the root module (Net)")
        error.__cause__ = cause
    assert unset_arguments(error, Net()) == ["inputs_embeds"]
    assert unset_arguments(TraceError("no cause"), Net()) == []
    sizes = {"num_hidden_layers": 1, "hidden_size": 64, "num_attention_heads": 2, "num_key_value_heads": 2}
    graph = load_model("hf:blt_local_decoder", set_fields={k: str(v) for k, v in sizes.items()}, sequence_length=16)
    assert {"inputs_embeds", "patch_embeds"} <= {tensor.name for tensor in graph.tensors if tensor.producer is None}


def test_features_that_a_row_of_weights_does_not_go_with_get_its_size() -> None:
    said = (
        "cannot trace module 'norm' (Norm): RuntimeError: Attempting to broadcast a dimension of length 4 at -1! "
        "Mismatching argument at index 1 had torch.Size([1, 16, 4]); but expected shape should be broadcastable to "
        "[1, 1, 64]"
    )
    given = {"ids": torch.zeros(1, 16, 4, dtype=torch.long), "context": torch.zeros(1, 16, 4)}
    changed = refit(given, said)
    assert changed is not None
    assert (changed["context"].shape, changed["ids"].shape) == ((1, 16, 64), (1, 16, 4))
    assert refit({"context": torch.zeros(1, 8, 4)}, said) is None


def test_the_input_whose_rows_an_operator_complains_of_is_resized() -> None:
    given = {"queries": torch.zeros(1, 32, 768), "states": torch.zeros(2, 256, 768)}
    changed = refit(given, "a and b must have same reduction dim, but got [512, 768] X [1408, 768]")
    assert changed is not None
    assert (changed["queries"].shape, changed["states"].shape) == ((1, 32, 768), (2, 256, 1408))
