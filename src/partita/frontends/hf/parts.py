"""What default configurations of transformers leave open: usual sizes and parts, taken where nobody says otherwise.

Some defaults are no whole model: a part is missing, or a size without which no class can be built. What is taken
instead is what the library's documentation or the type's first published model has, and a note says what it was.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from partita.frontends.options import passed_over


def _chameleon_words() -> dict[str, int]:
    """Codes of images among the words, spelt in letters for digits."""
    letters = str.maketrans("0123456789", "ABCDEFGHIJ")
    return {"<image>": 8711, **{f"IMGIMG{str(i).translate(letters)}Z": 4 + i for i in range(8192)}}


def _emu_words() -> dict[str, int]:
    codes = {f"<|visual token {i:06d}|>": 151854 + i for i in range(32768)}
    return {"<image>": 151851, "<|extra_200|>": 151846, **codes}


def _strips() -> dict[str, list[Any]]:
    """Kernels, strides and paddings of a block of convolutions over strips of 7, 5 and 3."""
    found: dict[str, list[Any]] = {"reduce_channel": [1, 1, 0], "return_channel": [1, 1, 0]}
    for name, side in (("long", 7), ("mid", 5), ("short", 3)):
        pad = side // 2
        found[f"vertical_long_to_small_conv_{name}ratio"] = [[side, 1], [1, 1], [pad, 0]]
        found[f"horizontal_small_to_long_conv_{name}ratio"] = [[1, side], [1, 1], [0, pad]]
        found[f"symmetric_conv_long_{name}ratio"] = [[side, side], [1, 1], [pad, pad]]
    return found


_INDEXER = {
    "indexer_n_heads": 16,
    "indexer_kv_heads": 1,
    "indexer_head_dim": 256,
    "indexer_budget": 2048,
    "indexer_compress_ratio": 16,
}
_EXPERTS = {"num_experts": 128, "top_k_experts": 8, "moe_intermediate_size": 704}
_DETECTOR = {"intraclass_block_config": _strips, "scale_factor_list": [1, 2, 4, 8], "kernel_list": [3, 2, 2]}

#: A tower with as many patches as its features are pooled from.
_SIGLIP_896 = {"model_type": "siglip_vision_model", "image_size": 896, "patch_size": 14}
#: A tower of 27 layers of 1152 features; its default has 14 heads, which do not divide them.
_SIGLIP_364 = {
    "model_type": "siglip_vision_model",
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "num_hidden_layers": 27,
    "num_attention_heads": 16,
    "image_size": 364,
    "patch_size": 14,
}
_TURNED = {"rope_type": "default", "rope_theta": 10000.0}
#: Half of each head is turned by position, in three axes.
_HALF_TURNED = {**_TURNED, "partial_rotary_factor": 0.5, "mrope_section": [8, 12, 12]}

#: Type to fields that its default leaves open. A function makes what is large.
USUAL: dict[str, dict[str, Any]] = {
    "autoformer": {"prediction_length": 24},
    "informer": {"prediction_length": 24},
    "time_series_transformer": {"prediction_length": 24},
    "dbrx": {"attn_config": {"clip_qkv": 8}},
    "deepseek_v2": {"num_experts_per_tok": 6, "moe_intermediate_size": 1408},
    "deepseek_ocr2_text": {"num_experts_per_tok": 6, "moe_intermediate_size": 1408},
    "chameleon": {"vocabulary_map": _chameleon_words},
    "emu3": {"vocabulary_map": _emu_words},
    "diffusion_gemma_text": _EXPERTS,
    "dots1": {"n_routed_experts": 128, "n_shared_experts": 2, "num_experts_per_tok": 6},
    "esm": {"vocab_size": 33, "pad_token_id": 1, "mask_token_id": 32},
    "gemma4_assistant": {
        "text_config": {
            "model_type": "gemma4_text",
            "hidden_size_per_layer_input": 0,
            "vocab_size_per_layer_input": 0,
        }
    },
    "granite4_vision": {"deepstack_layer_map": [[-19, 9], [-13, 6], [-7, 3], [-1, 0]], "downsample_rate": "4/8"},
    "perception_lm": {
        "vision_config": {
            "model_type": "timm_wrapper",
            "architecture": "vit_pe_core_large_patch14_336",
            "model_args": {"embed_dim": 1024, "img_size": [448, 448], "global_pool": ""},
        }
    },
    "pp_ocrv5_server_det": _DETECTOR,
    "pp_ocrv6_medium_det": _DETECTOR,
    "qwen4_exp_text": _INDEXER,
    "timm_backbone": {"backbone": "resnet50"},
    "edgetam_vision_model": {
        "backbone_config": {
            "model_type": "timm_wrapper",
            "architecture": "repvit_m1",
            "num_classes": 1000,
            "model_args": {"in_chans": 3, "features_only": True, "out_indices": [0, 1, 2, 3]},
        }
    },
    "vitmatte": {
        "backbone_config": {
            "model_type": "vitdet",
            "hidden_size": 384,
            "num_attention_heads": 6,
            "out_features": ["stage4"],
        }
    },
    "aya_vision": {"vision_config": _SIGLIP_364},
    "gemma3": {"vision_config": _SIGLIP_896},
    "shieldgemma2": {"vision_config": _SIGLIP_896},
    "t5gemma2_encoder": {"vision_config": _SIGLIP_896},
    "glm4v_text": {"rope_parameters": _HALF_TURNED},
    "glm4v_moe_text": {"head_dim": 128, "rope_parameters": _HALF_TURNED},
    "glm_image_text": {"rope_parameters": _HALF_TURNED},
    "hunyuan_vl_text": {"rope_parameters": {**_TURNED, "mrope_section": [16, 16, 16, 16]}},
    "llama4_vision_model": {"hidden_size": 1408, "vision_output_dim": 4096},
    "blip-2": {"qformer_config": {"model_type": "blip_2_qformer", "use_qformer_text_input": True}},
    "qwen3_vl": {"vision_config": {"model_type": "qwen3_vl_vision", "out_hidden_size": 4096}},
    "modernvbert": {"vision_config": {"model_type": "siglip_vision_model", "image_size": 512}},
    "ultravbert": {"vision_config": {"model_type": "siglip_vision_model", "image_size": 512}},
    "sapiens2": {"head_config": {"upsample_out_channels": [512, 256, 128, 64], "conv_out_channels": [64, 64]}},
}

#: Types and fields whose default does not run: grouped products need rows of a multiple of 16 bytes, the axes of
#: positions share what is turned of a head, and merged patches are as wide as the layer that reads them.
_UNUSABLE = {
    ("deepseek_v2", "moe_intermediate_size"),
    ("deepseek_ocr2_text", "moe_intermediate_size"),
    ("glm4v_text", "rope_parameters"),
    ("glm4v_moe_text", "rope_parameters"),
    ("glm_image_text", "rope_parameters"),
    ("hunyuan_vl_text", "rope_parameters"),
    ("llama4_vision_model", "hidden_size"),
    ("llama4_vision_model", "vision_output_dim"),
}

#: Types without a class of their own to the type that stands for them, and its fields.
STAND_INS: dict[str, tuple[str, dict[str, Any]]] = {
    "layoutxlm": ("layoutlmv2", {}),
    "nougat": (
        "vision-encoder-decoder",
        {
            "encoder": {"model_type": "donut-swin"},
            "decoder": {"model_type": "mbart", "is_decoder": True, "add_cross_attention": True},
        },
    ),
}


def usual_fields(cls: Any, given: Mapping[str, Any], default: Any = None) -> dict[str, Any]:
    """What is taken for fields that neither the default nor ``given`` settles; those of parts as mappings.

    The ``default`` of a part is what its owner sets, else it is that of the class.
    """
    taken: dict[str, Any] = {}
    usual = USUAL.get(cls.model_type, {})
    if default is None:
        try:
            default = cls()
        except Exception as error:
            # A configuration's own code: some have no default.
            passed_over(f"the default of {cls.__name__}", error)
    for field, value in usual.items():
        settled = default is not None and not _is_open(default, field) and (cls.model_type, field) not in _UNUSABLE
        if given.get(field) is None and not settled:
            taken[field] = value() if callable(value) else value
    for name, part in vars(default).items() if default is not None else ():
        if getattr(part, "model_type", None) in USUAL and hasattr(part, "to_dict") and name not in taken:
            said = given.get(name)
            inner = usual_fields(type(part), said if isinstance(said, Mapping) else {}, part)
            if inner:
                taken[name] = {"model_type": part.model_type, **inner}
    return taken


def _is_open(config: Any, field: str) -> bool:
    """Whether a default says nothing of a field, or names a part that is not settled further."""
    value = getattr(config, field, None)
    return value is None or hasattr(value, "to_dict")


def merged(taken: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Fields given over those taken, part by part; a part of another type is wholly the given one."""
    found = dict(taken)
    for name, value in given.items():
        usual = taken.get(name)
        if isinstance(value, Mapping) and isinstance(usual, Mapping):
            kind = usual.get("model_type")
            value = merged(usual, value) if value.get("model_type", kind) == kind else value
        found[name] = value
    return found


def usual_note(kind: str, taken: Mapping[str, Any], given: Mapping[str, Any]) -> tuple[str, ...]:
    """What a reader should know of what was taken."""
    said = {name for name, _ in _flat(given)}
    left = [(name, value) for name, value in _flat(taken) if name not in said]
    if not left:
        return ()
    shown = ", ".join(f"{name} = {value}" if len(str(value)) < 20 else name for name, value in left)
    return (
        f"The default configuration of {kind!r} does not settle what is taken as usual: {shown}; --set changes it.",
    )


def _flat(fields: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in fields.items():
        if isinstance(value, Mapping) and set(value) == {"model_type"}:
            yield prefix + name, value["model_type"]
        elif isinstance(value, Mapping) and len(value) < _FEW and name != "model_type":
            yield from _flat(
                {field: inner for field, inner in value.items() if field != "model_type"}, f"{prefix}{name}."
            )
        else:
            yield prefix + name, value


#: Fields up to which a mapping is told field by field.
_FEW = 8


def _heads(config: Any) -> Any:
    return getattr(config, "num_attention_heads", None)


def _head_size(config: Any) -> Any:
    size, heads = getattr(config, "hidden_size", None), _heads(config)
    return size // heads if isinstance(size, int) and isinstance(heads, int) else None


def _layers(config: Any) -> list[str]:
    """Kinds of mixers by layer; those with short convolutions attend in every fourth one."""
    mixed = hasattr(config, "conv_L_cache")
    return ["conv" if mixed and i % 4 != 2 else "full_attention" for i in range(config.num_hidden_layers)]


#: Fields that a class may need whatever its type, by what else the configuration says.
_OPEN: dict[str, Callable[[Any], Any]] = {
    "head_dim": _head_size,
    "num_key_value_heads": _heads,
    "shared_expert_intermediate_size": lambda config: getattr(config, "moe_intermediate_size", None),
    "layer_types": _layers,
    "mlp_layer_types": lambda config: ["dense", *["sparse"] * (config.num_hidden_layers - 1)],
    "rope_theta": lambda config: 10000.0,
    "dropout_rate": lambda config: 0.0,
    "vocab_size": lambda config: 32,
    "spatial_merge_size": lambda config: 2,
}
_MISSING = re.compile(r"'(?P<owner>\w+)' object has no attribute '(?P<field>\w+)'")


def fill(config: Any, error: BaseException) -> list[str]:
    """Settle what a class could not be built without, in place; says which fields became what."""
    filled: list[str] = []
    for path, part in configurations(config):
        for field, rule in _OPEN.items():
            missing = _MISSING.search(str(error))
            wanted = missing is not None and (type(part).__name__, field) == (missing["owner"], missing["field"])
            if not wanted and not _is_none(part, field):
                continue
            with_value = rule(part) if field not in ("layer_types", "mlp_layer_types") or _deep(part) else None
            if with_value is not None:
                setattr(part, field, with_value)
                filled.append(f"{path}{field} = {with_value if not isinstance(with_value, list) else 'usual'}")
        if isinstance(error, KeyError) and error.args and error.args[0] in (getattr(part, "layer_types", None) or ()):
            _turn_by_layer(part)
            filled.append(f"{path}rope_parameters = the same for every kind of layer")
        if isinstance(error, ImportError) and "timm" in str(error) and _own_resnet(part):
            filled.append(f"{path}backbone_config = the library's own ResNet, as timm is not installed")
        if isinstance(error, TypeError) and "tuple" in str(error):
            _as_from_file(part)
            filled.append(f"{path or 'all '}sizes as lists" if not path else f"{path}sizes as lists")
    return filled


#: Residual networks by their number of layers: kind of layer, layers and features of each stage.
_RESNETS = {
    "18": ("basic", [2, 2, 2, 2], [64, 128, 256, 512]),
    "34": ("basic", [3, 4, 6, 3], [64, 128, 256, 512]),
    "50": ("bottleneck", [3, 4, 6, 3], [256, 512, 1024, 2048]),
    "101": ("bottleneck", [3, 4, 23, 3], [256, 512, 1024, 2048]),
    "152": ("bottleneck", [3, 8, 36, 3], [256, 512, 1024, 2048]),
}


def _own_resnet(config: Any) -> bool:
    """Whether a residual network of another package was replaced by the same one of transformers."""
    from transformers import ResNetConfig

    backbone: Any = getattr(config, "backbone_config", None)
    if getattr(backbone, "model_type", "") != "timm_backbone":
        return False
    found = _RESNETS.get(str(backbone.backbone).removeprefix("resnet"))
    if found is None:
        return False
    layer, depths, sizes = found
    stages = [f"stage{index}" for index in backbone.out_indices if index > 0]
    config.backbone_config = ResNetConfig(
        layer_type=layer, depths=depths, hidden_sizes=sizes, num_channels=backbone.num_channels, out_features=stages
    )
    return True


def _is_none(config: Any, field: str) -> bool:
    """Whether a configuration has a field without a value."""
    try:
        return getattr(config, field, 0) is None
    except Exception as error:
        # A configuration's own code: some fields differ by layer, and cannot be read for all.
        passed_over(f"{type(config).__name__}.{field}", error)
        return False


def _deep(config: Any) -> bool:
    return isinstance(getattr(config, "num_hidden_layers", None), int)


def _turn_by_layer(config: Any) -> None:
    """Rotary positions of each kind of layer, where one set is given for all."""
    common = config.rope_parameters or {"rope_type": "default", "rope_theta": 10000.0}
    config.rope_parameters = {kind: dict(common) for kind in sorted(set(config.layer_types))}


def _as_from_file(config: Any) -> None:
    """Lists for tuples: files have lists alone, and some code takes nothing else."""
    for name, value in vars(config).items():
        if isinstance(value, tuple) and not name.startswith("_"):
            setattr(config, name, list(value))


def configurations(config: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """A configuration and its parts, with their paths."""
    yield path, config
    for name, part in list(vars(config).items()):
        if hasattr(part, "to_dict") and hasattr(part, "model_type"):
            yield from configurations(part, f"{path}{name}.")
