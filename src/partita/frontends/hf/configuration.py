"""Configurations of the transformers library: a type's default or a JSON file, with fields that were set."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from partita.frontends.hf.parts import STAND_INS, merged, usual_fields, usual_note
from partita.frontends.options import nearest, one_line, parse_value
from partita.ground.errors import InputError
from partita.inside.torchvision_inside import declare_where_missing
from partita.inside.transformers_inside import configuration_class, model_types


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
    standing = STAND_INS.get(kind, {"type": kind, "fields": {}})
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
        notes = (*notes, _quantised_note(stored))
    if stand_in != kind:
        notes = (*notes, f"transformers builds {kind!r} as {stand_in!r}.")
        given.pop("model_type", None)
    if not given:
        return default, notes
    try:
        return _made(cls, merged(taken, given)), notes
    except Exception as error:  # a configuration's own code
        raise InputError(f"the configuration of {name!r} is not valid: {one_line(error)}") from error


def _quantised_note(stored: Mapping[str, Any]) -> str:
    """What a plan presumes where a configuration says in which format its weights are stored."""
    method = stored.get("quant_method", "an unnamed method")
    bits = stored.get("bits") or stored.get("w_bit") or next((n for n in (4, 8) if stored.get(f"load_in_{n}bit")), None)
    shown = f"{method}, {bits} bits" if bits else str(method)
    return (
        f"The configuration's quantization_config ({shown}) is not applied: weights are stored and multiplied in the "
        "number format of the plan (--dtype), so memory and times are those of the model that is not quantised."
    )


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
        kept = {name: value for name, value in own.items() if name == "model_type" or _is_size(value)}
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


def _is_size(value: Any) -> bool:
    """Whether a field is a number or the sides of something: longer lists follow from how many layers there are."""
    sides = value if isinstance(value, (list, tuple)) else [value]
    return len(sides) <= 3 and all(isinstance(side, (int, float)) for side in sides)


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
