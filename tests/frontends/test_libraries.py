"""Models of torchvision, timm and diffusers, as their libraries build them."""

# ruff: noqa: E402 -- the imports follow the check that the libraries are there
from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the PyTorch frontend needs torch")
for library in ("torchvision", "timm", "diffusers"):
    pytest.importorskip(library, reason="the extra vision brings torchvision, timm and diffusers")

from torch.utils._pytree import tree_map_only
from torch.utils.flop_counter import FlopCounterMode

from frontends.helpers import check_training
from partita.frontends.building import build_without_weights
from partita.frontends.surroundings import plain_conversions
from partita.frontends.torch import trace

zeros = torch.zeros


def image(size: int, channels: int = 3) -> Any:
    return zeros(1, channels, size, size)


def torchvision_model(name: str, *args: Any, **options: Any) -> Callable[[], Any]:
    def build() -> Any:
        from torchvision.models import get_model

        return get_model(name, weights=None, **options), args, {}

    return build


def timm_model(name: str, size: int = 224) -> Callable[[], Any]:
    def build() -> Any:
        from timm import create_model

        return create_model(name, pretrained=False), (image(size),), {}

    return build


def diffusers_model(name: str, config: dict[str, Any], **inputs: Any) -> Callable[[], Any]:
    def build() -> Any:
        import diffusers

        return getattr(diffusers, name)(**config), (), inputs

    return build


def whole(*shape: int) -> Any:
    return zeros(*shape, dtype=torch.long)


SDXL = {
    "sample_size": 128,
    "block_out_channels": (320, 640, 1280),
    "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
    "up_block_types": ("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
    "transformer_layers_per_block": (1, 2, 10),
    "attention_head_dim": (5, 10, 20),
    "cross_attention_dim": 2048,
    "addition_embed_type": "text_time",
    "addition_time_embed_dim": 256,
    "projection_class_embeddings_input_dim": 2816,
    "use_linear_projection": True,
}
UNET = {**SDXL, "block_out_channels": (32, 64), "attention_head_dim": (2, 4), "transformer_layers_per_block": (1, 2)}
UNET["layers_per_block"] = 1
UNET |= {key: SDXL[key][:2] for key in ("down_block_types", "up_block_types")}
ADDED = {"text_embeds": zeros(1, 1280), "time_ids": zeros(1, 6)}
TEXT = zeros(1, 77, 2048)
SEGMENTATION = {"weights_backbone": None}
VAE = {
    "block_out_channels": (64, 128),
    "down_block_types": ("DownEncoderBlock2D",) * 2,
    "up_block_types": ("UpDecoderBlock2D",) * 2,
}
FLUX = {
    "hidden_states": zeros(1, 256, 64),
    "encoder_hidden_states": zeros(1, 32, 4096),
    "pooled_projections": zeros(1, 768),
    "timestep": zeros(1),
    "guidance": zeros(1),
    "img_ids": zeros(256, 3),
    "txt_ids": zeros(32, 3),
}
CONDITION = {"resolution": zeros(1, 2), "aspect_ratio": zeros(1, 1)}

#: Models whose FLOPs torch can count.
MODELS: dict[str, Callable[[], Any]] = {
    **{
        name: torchvision_model(name, image(96))
        for name in (
            "resnet18",
            "regnet_y_400mf",
            "convnext_tiny",
            "shufflenet_v2_x1_0",
        )
    },
    "efficientnet_b0": torchvision_model("efficientnet_b0", image(96)),
    "vit_b_16": torchvision_model("vit_b_16", image(224)),
    "googlenet": torchvision_model("googlenet", image(96), init_weights=False),
    "deeplabv3_resnet50": torchvision_model("deeplabv3_resnet50", image(96), **SEGMENTATION),
    "lraspp_mobilenet_v3_large": torchvision_model("lraspp_mobilenet_v3_large", image(96), **SEGMENTATION),
    "r3d_18": torchvision_model("r3d_18", zeros(1, 3, 8, 56, 56)),
    "swin3d_t": torchvision_model("swin3d_t", zeros(1, 3, 8, 64, 64)),
    "raft_small": torchvision_model("raft_small", image(128), image(128)),
    "timm convnextv2_atto": timm_model("convnextv2_atto", 96),
    "timm eva02": timm_model("eva02_tiny_patch14_224"),
    "timm beit": timm_model("beit_base_patch16_224"),
    "timm xcit": timm_model("xcit_nano_12_p8_224"),
    "timm levit": timm_model("levit_128s"),
    "timm mixer": timm_model("mixer_s16_224"),
    "timm resnest": timm_model("resnest14d", 96),
    "timm hiera": timm_model("hiera_tiny_224"),
    "UNet2DConditionModel": diffusers_model(
        "UNet2DConditionModel",
        UNET,
        sample=image(32, 4),
        timestep=whole(1),
        encoder_hidden_states=TEXT,
        added_cond_kwargs=ADDED,
    ),
    "DiT": diffusers_model(
        "DiTTransformer2DModel",
        {"num_layers": 2},
        hidden_states=image(32, 4),
        timestep=whole(1),
        class_labels=whole(1),
    ),
    "AutoencoderKL": diffusers_model("AutoencoderKL", VAE, sample=image(64)),
    "Flux": diffusers_model(
        "FluxTransformer2DModel", {"num_layers": 1, "num_single_layers": 2, "guidance_embeds": True}, **FLUX
    ),
    "SD3": diffusers_model(
        "SD3Transformer2DModel",
        {"num_layers": 2},
        hidden_states=image(32, 16),
        encoder_hidden_states=zeros(1, 77, 4096),
        pooled_projections=zeros(1, 2048),
        timestep=whole(1),
    ),
    "ControlNet": diffusers_model(
        "ControlNetModel",
        {"block_out_channels": (32, 64), "down_block_types": UNET["down_block_types"], "cross_attention_dim": 64},
        sample=image(32, 4),
        timestep=whole(1),
        encoder_hidden_states=zeros(1, 77, 64),
        controlnet_cond=image(256),
    ),
    "PixArt": diffusers_model(
        "PixArtTransformer2DModel",
        {"num_layers": 2, "sample_size": 64, "caption_channels": 4096, "cross_attention_dim": 1152},
        hidden_states=image(64, 4),
        encoder_hidden_states=zeros(1, 120, 4096),
        timestep=whole(1),
        added_cond_kwargs=CONDITION,
    ),
    "Wan": diffusers_model(
        "WanTransformer3DModel",
        {"num_layers": 1},
        hidden_states=zeros(1, 16, 5, 32, 32),
        timestep=whole(1),
        encoder_hidden_states=zeros(1, 128, 4096),
    ),
}
#: Models that are large, or made of what one above is made of.
MORE: dict[str, Callable[[], Any]] = {
    "mobilenet_v3_large": torchvision_model("mobilenet_v3_large", image(96)),
    "mnasnet1_0": torchvision_model("mnasnet1_0", image(96)),
    "fcn_resnet50": torchvision_model("fcn_resnet50", image(96), **SEGMENTATION),
    "timm efficientnet_b0": timm_model("efficientnet_b0", 96),
    "timm swin_tiny": timm_model("swin_tiny_patch4_window7_224"),
    "timm vit": timm_model("vit_tiny_patch16_224"),
    "timm mobilenetv4": timm_model("mobilenetv4_conv_small", 96),
    "timm regnety": timm_model("regnety_002", 96),
    "timm coatnet": timm_model("coatnet_nano_rw_224"),
    "timm fastvit": timm_model("fastvit_t8", 128),
    "densenet121": torchvision_model("densenet121", image(96)),
    "swin_v2_t": torchvision_model("swin_v2_t", image(64)),
    "maxvit_t": torchvision_model("maxvit_t", image(224)),
    "mvit_v2_s": torchvision_model("mvit_v2_s", zeros(1, 3, 16, 224, 224)),
    "timm maxvit": timm_model("maxvit_pico_rw_256", 256),
    "SDXL's U-Net": diffusers_model(
        "UNet2DConditionModel",
        SDXL,
        sample=image(128, 4),
        timestep=whole(1),
        encoder_hidden_states=TEXT,
        added_cond_kwargs=ADDED,
    ),
    "video U-Net": diffusers_model(
        "UNetSpatioTemporalConditionModel",
        {},
        sample=zeros(1, 4, 8, 32, 32),
        timestep=zeros(1),
        encoder_hidden_states=zeros(1, 1, 1024),
        added_time_ids=zeros(1, 3),
    ),
    "raft_large": torchvision_model("raft_large", image(128), image(128)),
    "inception_v3": torchvision_model("inception_v3", image(299), init_weights=False),
    "efficientnet_v2_s": torchvision_model("efficientnet_v2_s", image(224)),
    "timm dinov2": timm_model("vit_base_patch14_dinov2", 518),
    "timm davit": timm_model("davit_tiny"),
    "timm hrnet": timm_model("hrnet_w18_small"),
    "timm volo": timm_model("volo_d1_224"),
    "timm nfnet": timm_model("nfnet_f0", 192),
}
#: Models that pick rows by data, with how many pixels an image has a side and what is presumed.
DETECTION = {
    "fasterrcnn_mobilenet_v3_large_320_fpn": 160,
    "maskrcnn_resnet50_fpn": 160,
    "retinanet_resnet50_fpn": 160,
    "fcos_resnet50_fpn": 160,
    "ssdlite320_mobilenet_v3_large": 320,
    "ssd300_vgg16": 300,
}
SMALLER = {"min_size": 160, "max_size": 160, "num_classes": 5}
FEW = {"box_detections_per_img": 5}


def counted(module: Any, args: Any, kwargs: Any) -> int:
    """FLOPs that torch counts of one run on the meta device."""
    with plain_conversions(False):
        module = module.to("meta").eval()
    args, kwargs = tree_map_only(torch.Tensor, lambda tensor: tensor.to("meta"), (args, kwargs))
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        module(*args, **kwargs)
    return int(counter.get_total_flops())


def check(build: Callable[[], Any]) -> None:
    module, args, kwargs = build_without_weights(build)
    graph = trace(module, args, kwargs)
    assert len(graph.operators) > 10
    assert not graph.notes or "presumes" not in " ".join(graph.notes)
    assert graph.flops == pytest.approx(counted(module, args, kwargs), rel=0.01)
    assert graph.parameter_count == sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize("name", MODELS)
def test_models(name: str) -> None:
    check(MODELS[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", MORE)
def test_more_models(name: str) -> None:
    check(MORE[name])


def detector(name: str, training: bool) -> Any:
    size = DETECTION.get(name, 160)
    options = {"num_classes": 5} if name.startswith("ssd") else {**SMALLER, **(FEW if "rcnn" in name else {})}

    def build() -> Any:
        from torchvision.models import get_model

        module = get_model(name, weights=None, weights_backbone=None, **options)
        target = {"boxes": torch.tensor([[10.0, 20.0, 100.0, 150.0], [30.0, 30.0, 90.0, 90.0]])}
        target["labels"] = torch.ones(2, dtype=torch.long)
        if "mask" in name:
            target["masks"] = torch.zeros(2, size, size, dtype=torch.uint8)
        if name.startswith("keypoint"):
            options["num_classes"] = 2
            target["keypoints"] = torch.ones(2, 17, 3)
        images = [torch.zeros(3, size, size)]
        return module, (images, [target]) if training else (images,), {}

    module, args, kwargs = build_without_weights(build)
    return trace(module, args, kwargs, training=training)


@pytest.mark.parametrize("name", DETECTION)
def test_detection(name: str) -> None:
    graph = detector(name, False)
    assert {"nms"} <= {op.target.split(".")[1] for op in graph.operators}
    assert any("presumes that all of the" in note and "nms" in note for note in graph.notes)
    if "mask" in name:
        assert any("corners of boxes" in note for note in graph.notes)


@pytest.mark.slow
def test_key_points() -> None:
    graph = detector("keypointrcnn_resnet50_fpn", False)
    assert sum("corners of boxes" in note for note in graph.notes) == 1
    check_training(detector("keypointrcnn_resnet50_fpn", True))


@pytest.mark.parametrize("name", ["maskrcnn_resnet50_fpn", "retinanet_resnet50_fpn", "ssd300_vgg16"])
def test_detection_is_trained(name: str) -> None:
    graph = detector(name, True)
    check_training(graph)
    if name.startswith("mask"):
        pooled = [op for op in graph.operators if op.target.startswith("torchvision.")]
        assert {"roi_align", "_roi_align_backward", "nms"} == {op.target.split(".")[1] for op in pooled}
        # Of some two thousand proposals, 512 are drawn for the heads, 128 that hit and 384 that do not; the pyramid
        # has four levels, any of which may have all of them.
        made = {t.shape for t in graph.tensors if t.producer is not None and len(t.shape) == 4}
        heads = {shape[0] for shape in made if shape[1:] in ((256, 7, 7), (256, 14, 14))}
        assert 384 < max(heads) <= 512


@pytest.mark.parametrize("name", ["UNet2DConditionModel", "DiT", "AutoencoderKL"])
def test_diffusion_is_trained(name: str) -> None:
    module, args, kwargs = build_without_weights(MODELS[name])
    graph = trace(module, args, kwargs, training=True)
    check_training(graph)
    assert graph.flops > 2.5 * trace(module, args, kwargs).flops


def test_deformable_convolutions_are_convolutions() -> None:
    from torchvision.ops import DeformConv2d

    class Deformed(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.offset, self.inner = torch.nn.Conv2d(4, 18, 3, padding=1), DeformConv2d(4, 8, 3, padding=1)

        def forward(self, x: Any) -> Any:
            return self.inner(x, self.offset(x))

    places = 2 * 10 * 10
    forward = 2 * places * 9 * 4 * 18 + 2 * places * 9 * 4 * 8
    args = (zeros(2, 4, 10, 10),)
    assert trace(Deformed(), args).flops == forward
    graph = trace(Deformed(), args, training=True)
    check_training(graph)
    assert graph.flops == forward + 2 * places * 9 * 4 * 18 + 2 * 2 * places * 9 * 4 * 8


def test_torchvision_is_there_for_models_of_transformers() -> None:
    from transformers import DetrForObjectDetection, LlavaForConditionalGeneration

    assert "torchvision" in sys.modules
    assert DetrForObjectDetection
    assert LlavaForConditionalGeneration
