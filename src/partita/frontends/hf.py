"""Models of the transformers library, built from a configuration without weights or network."""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from partita.errors import InputError, PartitaError, TraceError
from partita.frontends.hf_heads import model_classes
from partita.frontends.hf_inputs import decoding_inputs, input_sets
from partita.frontends.hf_refit import refit
from partita.frontends.model import Model
from partita.frontends.options import Asked, nearest, one_line, parse_dtype, parse_value
from partita.graph import Graph

_EXPERTS_NOTE = (
    "Every token goes through its top experts: the experts of a layer are grouped products over all tokens, "
    "which read all the experts' weights and count each token's chosen experts only."
)


#: Tokens of a sample where the usual number of them does not run.
_SHORT = 128
#: How often inputs are made again because an operator takes another size.
_FITS = 4


def load_transformers(name: str, asked: Asked) -> Graph:
    """Trace a transformers model; in float32 where it does not run in its own format, and none was asked for."""
    try:
        model, graph = _first_traced(name, asked)
    except TraceError as error:
        if asked.dtype is not None or not any(hint in str(error) for hint in ("scalar type", "dtype")):
            raise
        model, graph = _first_traced(name, dataclasses.replace(asked, dtype="float32"))
        note = "The model does not run in its own number format; this is float32."
        graph = graph.replace(notes=(*graph.notes, note))
    if any("grouped_mm" in op.target for op in graph.operators):
        graph = graph.replace(notes=(*graph.notes, _EXPERTS_NOTE))
    return graph.replace(source=model.asked.source(f"hf:{name}"))


def build_transformers(name: str, asked: Asked, *, real: bool = False) -> Model:
    """A transformers model from its configuration: without weights, or initialised if ``real``; never its arguments.

    It is the first that can be traced. Attention runs as one fused call ("sdpa") unless the model caps its scores,
    which no fused call does. Key-value caches are off but for a step of decoding, which has a full one.
    """
    return _first_traced(name, asked, real)[0]


def _first_traced(name: str, asked: Asked, real: bool = False) -> tuple[Model, Graph]:
    """The first class of a configuration that can be built, on the fullest inputs that it runs on."""
    from transformers.utils import logging

    with ExitStack() as after:
        after.callback(logging.set_verbosity, logging.get_verbosity())
        logging.set_verbosity_error()
        config = _configuration(name, asked.fields)
        number_format = parse_dtype(asked.dtype) if asked.dtype is not None else _own_dtype(config)
        notes = _simplify(config, asked.training)
        title = Path(name).stem if name.endswith(".json") else name
        failure: PartitaError | None = None
        for task, cls in model_classes(config, asked.task):
            for place in (nullcontext,) if real else (_on_meta, _with_values):
                try:
                    module = _build(cls, config, number_format, title, place)
                except TraceError as error:
                    failure = failure or error
                    break
                try:
                    return _on_fullest(module, task, number_format, Model(title, module, (), {}, asked, notes=notes))
                except TraceError as error:
                    failure = error
                    if "depend on data" not in str(error):
                        raise
            else:
                break
        if failure is None:
            raise InputError(f"transformers has no model for configurations of type {config.model_type!r}")
        raise failure


def _on_fullest(module: Any, task: str, number_format: Any, model: Model) -> tuple[Model, Graph]:
    config, asked = module.config, model.asked
    if asked.decode is not None:
        model = dataclasses.replace(model, name=f"{model.name}, one token after {asked.decode}")
        sets = [decoding_inputs(module, config, task, number_format, asked)]
    else:
        sets = input_sets(module, config, task, number_format, asked)
        if asked.sequence_length is None:
            # Some positions are limited by what no configuration names.
            short = dataclasses.replace(asked, sequence_length=_SHORT)
            with suppress(InputError):
                sets += input_sets(module, config, task, number_format, short)[:1]
    failure: TraceError | None = None
    for kwargs in sets:
        fitted = dataclasses.replace(model, kwargs=kwargs)
        left_out = sorted(set(sets[0]) - set(kwargs))
        if left_out:
            note = f"Without {', '.join(left_out)}: what takes it is not in the plan ({failure})."
            fitted = dataclasses.replace(fitted, notes=(*fitted.notes, note))
        try:
            return _refitted(fitted)
        except TraceError as error:
            failure = failure or error
    assert failure is not None
    raise failure


def _refitted(model: Model) -> tuple[Model, Graph]:
    """The graph on given arguments, or on those of the sizes that the first operators say they take."""
    for _ in range(_FITS):
        try:
            return model, model.trace()
        except TraceError as error:
            changed = refit(model.kwargs, str(error))
            if changed is None:
                raise
            model = dataclasses.replace(model, kwargs=changed)
    return model, model.trace()


def _configuration(name: str, fields: Mapping[str, str]) -> Any:
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING, CONFIG_MAPPING_NAMES

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
    known = set(CONFIG_MAPPING_NAMES)
    if kind not in known:
        kind = next((k for k in (kind.replace("-", "_"), kind.replace("_", "-")) if k in known), kind)
    if kind not in known:
        raise InputError(f"transformers has no model type {kind!r}{nearest(kind, known)}")
    try:
        cls = CONFIG_MAPPING[kind]
        default = cls()
    except Exception as error:
        raise InputError(f"transformers cannot make a default configuration of {kind!r}: {one_line(error)}") from error
    for field, text in fields.items():
        _set(given, cls, default, kind, field, parse_value(text))
    try:
        return cls.from_dict(given)
    except Exception as error:
        raise InputError(f"the configuration of {name!r} is not valid: {one_line(error)}") from error


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
        # Some configurations pick the class of a part by its type.
        own_type = getattr(before, "model_type", "")
        kept = {"model_type": own_type} if own_type else {}
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


def _own_dtype(config: Any) -> Any:
    import torch

    own = getattr(config, "dtype", None)
    return own if isinstance(own, torch.dtype) and own.is_floating_point else torch.bfloat16


def _simplify(config: Any, training: bool) -> tuple[str, ...]:
    """Turn off key-value caches, and in training masking that picks positions by data; returns notes."""
    notes = []
    for part in (config, *(v for v in vars(config).values() if hasattr(v, "to_dict"))):
        if getattr(part, "use_cache", None):
            part.use_cache = False
        if training and getattr(part, "apply_spec_augment", None):
            part.apply_spec_augment = False
            notes.append("SpecAugment is off: which positions it masks depends on data.")
    return tuple(notes)


@contextmanager
def _on_meta() -> Iterator[None]:
    import torch

    with torch.device("meta"):
        yield


@contextmanager
def _with_values() -> Iterator[None]:
    """Slower, but keeps the content of small buffers, which some models read."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    from partita.frontends.values import Values

    with FakeTensorMode(allow_non_fake_inputs=True) as fake, Values(fake):
        yield


def _build(cls: Any, config: Any, dtype: Any, name: str, place: Any) -> Any:
    """A model without weights, with fused attention if it has that."""
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    attempts = [{"attn_implementation": "eager"}, {}]
    if not getattr(text, "attn_logit_softcapping", None):
        attempts.insert(0, {"attn_implementation": "sdpa"})
    failure: Exception | None = None
    for attention in attempts:
        own = copy.deepcopy(config)
        try:
            with place():
                if hasattr(cls, "_from_config"):
                    return cls._from_config(own, dtype=dtype, **attention)
                model = cls(own).to(dtype)
                model.config = own
                return model
        except Exception as error:
            failure = error
    assert failure is not None
    raise TraceError(f"cannot build the transformers model {name!r}: {one_line(failure)}") from failure
