"""Configurations of the transformers library: a type's default or a JSON file, with fields that were set.

What default configurations leave open is taken as usual, by ``usual.toml``; a note says what.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from partita.frontends.options import nearest, one_line, parse_value, passed_over
from partita.ground.errors import InputError
from partita.inside.torchvision_inside import declare_where_missing
from partita.inside.transformers_inside import configuration_class, model_types
from partita.nouns.catalogue.files import read_document


def read_configuration(name: str, fields: Mapping[str, str]) -> Any:
    """The configuration that a type or a file names, with fields changed; what is wrong is an ``InputError``."""
    return settled_configuration(name, fields)[0]


def settled_configuration(name: str, fields: Mapping[str, str]) -> tuple[Any, tuple[str, ...]]:
    """:func:`read_configuration`'s, and notes on what was taken where neither it nor its default says anything."""
    declare_where_missing()
    given: dict[str, Any] = {}
    kind = name
    path = Path(name)
    if path.is_file():
        given, kind = _read(path)
    elif name.endswith(".json") or "/" in name:
        raise InputError(
            f"there is no configuration file {name!r}; hf: takes a model type, or a local JSON file such as the "
            "config.json of a model hub (download it first: nothing is fetched here)"
        )
    known = model_types()
    if kind not in known:
        kind = next((k for k in (kind.replace("-", "_"), kind.replace("_", "-")) if k in known), kind)
    if kind not in known:
        raise InputError(f"transformers has no model type {kind!r}{nearest(kind, known)}")
    standing = _TABLE["stand_ins"].get(kind, {"type": kind, "fields": {}})
    stand_in, parts = standing["type"], standing["fields"]
    try:
        cls = configuration_class(stand_in)
        taken = {**parts, **usual_fields(cls, {**parts, **given})}
        default = _made(cls, taken)
    except Exception as error:  # a configuration's own code
        raise InputError(
            f"transformers cannot make a default configuration of {kind!r}: {one_line(error)}; "
            "name a configuration file (hf:config.json) that has what is missing"
        ) from error
    for field, text in fields.items():
        _set(given, cls, default, kind, field, parse_value(text))
    notes = usual_note(kind, taken, given)
    if isinstance(stored := given.get("quantization_config"), Mapping):
        method = stored.get("quant_method", "an unnamed method")
        loaded = next((n for n in (4, 8) if stored.get(f"load_in_{n}bit")), None)
        bits = stored.get("bits") or stored.get("w_bit") or loaded
        notes = (
            *notes,
            f"The configuration's quantization_config ({method}{f', {bits} bits' if bits else ''}) is not applied: "
            "weights are stored and multiplied in the number format of the plan (--dtype), so memory and times are "
            "those of the model that is not quantised.",
        )
    if stand_in != kind:
        notes = (*notes, f"transformers builds {kind!r} as {stand_in!r}.")
        given.pop("model_type", None)
    if not given:
        return default, notes
    try:
        return _made(cls, merged(taken, given)), notes
    except Exception as error:  # a configuration's own code
        raise InputError(f"the configuration of {name!r} is not valid: {one_line(error)}") from error


def _made(cls: Any, fields: Mapping[str, Any]) -> Any:
    return cls.from_dict(copy.deepcopy(dict(fields))) if fields else cls()


def text_of(config: Any) -> Any:
    """The part of a configuration that reads text, or all of it; where text is read and written, what reads it."""
    if not hasattr(config, "get_text_config"):
        return config
    try:
        return config.get_text_config()
    except ValueError:
        return config.get_text_config(encoder=True)


def _read(path: Path) -> tuple[dict[str, Any], str]:
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{str(path)!r} is not a JSON file: {one_line(error)}") from error
    if not isinstance(given, dict) or not isinstance(given.get("model_type"), str):
        raise InputError(f"{str(path)!r} has no model_type; add the transformers model type it configures")
    kind: str = given["model_type"]
    return given, kind


def _set(given: dict[str, Any], cls: Any, default: Any, kind: str, field: str, value: Any) -> None:
    """Put one field into the arguments of a configuration, so that fields derived from it follow."""
    head, _, rest = field.partition(".")
    head = getattr(cls, "attribute_map", {}).get(head, head)
    known = {*default.to_dict(), *getattr(cls, "attribute_map", {}), "num_labels"}
    if head not in known:
        raise InputError(f"the configuration of {kind!r} has no field {field!r}{nearest(head, known)}")
    before = getattr(default, head, None)
    if rest:
        # What the whole sets in its parts stays, and so does a part's type.
        own: dict[str, Any] = getattr(before, "to_diff_dict", dict)()
        sides = {name: value if isinstance(value, (list, tuple)) else [value] for name, value in own.items()}
        kept = {
            name: own[name]
            for name, row in sides.items()
            # Numbers, or the sides of something: longer lists follow from how many layers there are.
            if name == "model_type" or (len(row) <= 3 and all(isinstance(side, (int, float)) for side in row))
        }
        nested = given.setdefault(head, kept)
        if not hasattr(before, "to_dict") or not isinstance(nested, dict):
            raise InputError(f"field {head!r} of the configuration of {kind!r} has no fields of its own")
        _set(nested, type(before), before, f"{kind}.{head}", rest, value)
        return
    _check_type(kind, field, before, value)
    given[head] = value


#: What a field may become, by what it is: sizes are often either one number or one per layer or side.
_ACCEPTED: dict[type, tuple[type, ...]] = {
    bool: (bool,),
    int: (int, list),
    float: (int, float),
    list: (list, int),
    tuple: (list, int),
    str: (str,),
    dict: (dict,),
}


def _check_type(kind: str, field: str, before: Any, value: Any) -> None:
    expected = next((types for kind, types in _ACCEPTED.items() if isinstance(before, kind)), None)
    if value is None or expected is None:
        return
    if not isinstance(value, expected) or (isinstance(value, bool) and bool not in expected):
        raise InputError(
            f"field {field!r} of the configuration of {kind!r} is {before!r} by default; "
            f"{value!r} is not of its type {type(before).__name__}"
        )
    counts = type(before) is int and before > 0 and not field.endswith(("_id", "_index"))
    if counts and isinstance(value, int) and value < 0:
        raise InputError(f"field {field!r} of the configuration of {kind!r} is {value}; it cannot be negative")


# -- what is left open -------------------------------------------------------------------------------------------------


def _chameleon_words() -> dict[str, int]:
    """Codes of images among the words, spelt in letters for digits."""
    letters = str.maketrans("0123456789", "ABCDEFGHIJ")
    return {"<image>": 8711, **{f"IMGIMG{str(i).translate(letters)}Z": 4 + i for i in range(8192)}}


def _emu_words() -> dict[str, int]:
    codes = {f"<|visual token {i:06d}|>": 151854 + i for i in range(32768)}
    return {"<image>": 151851, "<|extra_200|>": 151846, **codes}


_TABLE = read_document(Path(__file__).with_name("usual.toml"))
_UNUSABLE = {(kind, field) for kinds, own in _TABLE["unusable"].items() for kind in kinds.split() for field in own}
#: Type to fields that its default leaves open, or whose default does not run; a function for what is large.
USUAL: dict[str, dict[str, Any]] = {
    "chameleon": {"vocabulary_map": _chameleon_words},
    "emu3": {"vocabulary_map": _emu_words},
}
for _kinds, _fields in (*_TABLE["open"].items(), *_TABLE["unusable"].items()):
    for _kind in _kinds.split():
        USUAL.setdefault(_kind, {}).update(_fields)


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


def _head_size(config: Any) -> Any:
    size, heads = getattr(config, "hidden_size", None), getattr(config, "num_attention_heads", None)
    return size // heads if isinstance(size, int) and isinstance(heads, int) else None


def _layers(config: Any) -> list[str]:
    """Kinds of mixers by layer; those with short convolutions attend in every fourth one."""
    mixed = hasattr(config, "conv_L_cache")
    return ["conv" if mixed and i % 4 != 2 else "full_attention" for i in range(config.num_hidden_layers)]


#: Fields that a class may need whatever its type, by what else the configuration says.
_OPEN: dict[str, Callable[[Any], Any]] = {
    "head_dim": _head_size,
    "num_key_value_heads": lambda config: getattr(config, "num_attention_heads", None),
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
            filled.append(f"{path or 'all '}sizes as lists")
    return filled


def _own_resnet(config: Any) -> bool:
    """Whether a residual network of another package was replaced by the same one of transformers."""
    from transformers import ResNetConfig

    backbone: Any = getattr(config, "backbone_config", None)
    if getattr(backbone, "model_type", "") != "timm_backbone":
        return False
    found = _TABLE["resnets"].get(str(backbone.backbone).removeprefix("resnet"))
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
