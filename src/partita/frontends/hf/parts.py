"""What default configurations of transformers leave open is taken as usual, by ``usual.toml``; a note says what."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from partita.frontends.options import passed_over
from partita.nouns.catalogue.files import read_document


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


def _read() -> tuple[dict[str, dict[str, Any]], set[tuple[str, str]], dict[str, Any], dict[str, Any]]:
    said = read_document(Path(__file__).with_name("usual.toml"))
    usual: dict[str, dict[str, Any]] = {
        "chameleon": {"vocabulary_map": _chameleon_words},
        "emu3": {"vocabulary_map": _emu_words},
        "pp_ocrv5_server_det": {"intraclass_block_config": _strips},
        "pp_ocrv6_medium_det": {"intraclass_block_config": _strips},
    }
    unusable: set[tuple[str, str]] = set()
    for group in ("open", "unusable"):
        for kinds, fields in said[group].items():
            for kind in kinds.split():
                usual.setdefault(kind, {}).update(fields)
                unusable.update((kind, field) for field in fields if group == "unusable")
    return usual, unusable, said["stand_ins"], said["resnets"]


#: Type to fields that its default leaves open, a function for what is large; types and fields whose default does not
#: run; types without a class of their own; and residual networks.
USUAL, _UNUSABLE, STAND_INS, _RESNETS = _read()


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
        said = getattr(default, field, None)
        # A default may name a part that is not settled further.
        settled = said is not None and not hasattr(said, "to_dict") and (cls.model_type, field) not in _UNUSABLE
        if given.get(field) is None and not settled:
            taken[field] = value() if callable(value) else value
    for name, part in vars(default).items() if default is not None else ():
        if getattr(part, "model_type", None) in USUAL and hasattr(part, "to_dict") and name not in taken:
            said = given.get(name)
            inner = usual_fields(type(part), said if isinstance(said, Mapping) else {}, part)
            if inner:
                taken[name] = {"model_type": part.model_type, **inner}
    return taken


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
            deep = isinstance(getattr(part, "num_hidden_layers", None), int)
            with_value = rule(part) if deep or field not in ("layer_types", "mlp_layer_types") else None
            if with_value is not None:
                setattr(part, field, with_value)
                filled.append(f"{path}{field} = {with_value if not isinstance(with_value, list) else 'usual'}")
        if isinstance(error, KeyError) and error.args and error.args[0] in (getattr(part, "layer_types", None) or ()):
            # One set of rotary positions is given for all.
            common = part.rope_parameters or {"rope_type": "default", "rope_theta": 10000.0}
            part.rope_parameters = {kind: dict(common) for kind in sorted(set(part.layer_types))}
            filled.append(f"{path}rope_parameters = the same for every kind of layer")
        if isinstance(error, ImportError) and "timm" in str(error) and _own_resnet(part):
            filled.append(f"{path}backbone_config = the library's own ResNet, as timm is not installed")
        if isinstance(error, TypeError) and "tuple" in str(error):
            # Files have lists alone, and some code takes nothing else.
            tuples = {n: v for n, v in vars(part).items() if isinstance(v, tuple) and not n.startswith("_")}
            for name, value in tuples.items():
                setattr(part, name, list(value))
            filled.append(f"{path or 'all '}sizes as lists" if not path else f"{path}sizes as lists")
    return filled


def _own_resnet(config: Any) -> bool:
    """Whether a residual network of another package was replaced by the same one of transformers."""
    from transformers import ResNetConfig

    backbone: Any = getattr(config, "backbone_config", None)
    if getattr(backbone, "model_type", "") != "timm_backbone":
        return False
    found = _RESNETS.get(str(backbone.backbone).removeprefix("resnet"))
    if found is None:
        return False
    stages = [f"stage{index}" for index in backbone.out_indices if index > 0]
    config.backbone_config = ResNetConfig(**found, num_channels=backbone.num_channels, out_features=stages)
    return True


def _is_none(config: Any, field: str) -> bool:
    """Whether a configuration has a field without a value."""
    try:
        return getattr(config, field, 0) is None
    except Exception as error:
        # A configuration's own code: some fields differ by layer, and cannot be read for all.
        passed_over(f"{type(config).__name__}.{field}", error)
        return False


def configurations(config: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """A configuration and its parts, with their paths."""
    yield path, config
    for name, part in list(vars(config).items()):
        if hasattr(part, "to_dict") and hasattr(part, "model_type"):
            yield from configurations(part, f"{path}{name}.")
