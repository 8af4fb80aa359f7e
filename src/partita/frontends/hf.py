"""Models of the transformers library, built from a configuration without weights or network."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from partita.errors import InputError, TraceError
from partita.frontends.hf_inputs import decoding_inputs, make_inputs
from partita.frontends.model import Model
from partita.frontends.options import Asked, nearest, one_line, parse_dtype, parse_value
from partita.graph import Graph

_EXPERTS_NOTE = (
    "Every token goes through its top experts: the experts of a layer are grouped products over all tokens, "
    "which read all the experts' weights and count each token's chosen experts only."
)

TASKS: dict[str, str] = {
    "seq2seq-lm": "AutoModelForSeq2SeqLM",
    "speech-seq2seq": "AutoModelForSpeechSeq2Seq",
    "zero-shot-image-classification": "AutoModelForZeroShotImageClassification",
    "image-text-to-text": "AutoModelForImageTextToText",
    "masked-lm": "AutoModelForMaskedLM",
    "causal-lm": "AutoModelForCausalLM",
    "object-detection": "AutoModelForObjectDetection",
    "image-classification": "AutoModelForImageClassification",
    "semantic-segmentation": "AutoModelForSemanticSegmentation",
    "depth-estimation": "AutoModelForDepthEstimation",
    "video-classification": "AutoModelForVideoClassification",
    "ctc": "AutoModelForCTC",
    "audio-classification": "AutoModelForAudioClassification",
    "sequence-classification": "AutoModelForSequenceClassification",
    "token-classification": "AutoModelForTokenClassification",
    "question-answering": "AutoModelForQuestionAnswering",
    "base": "AutoModel",
}
"""Task to transformers' class, the most telling first: a model's default is the first that it has."""


def load_transformers(name: str, asked: Asked) -> Graph:
    """Trace a transformers model; in float32 where it does not run in its own format, and none was asked for."""
    model = build_transformers(name, asked)
    try:
        graph = model.trace()
    except TraceError as error:
        if asked.dtype is not None or not any(hint in str(error) for hint in ("scalar type", "dtype")):
            raise
        own = next(model.module.parameters()).dtype
        model = build_transformers(name, dataclasses.replace(asked, dtype="float32"))
        note = f"The model does not run in {str(own).removeprefix('torch.')}; this is float32."
        model = dataclasses.replace(model, notes=(*model.notes, note))
        graph = model.trace()
    if any("grouped_mm" in op.target for op in graph.operators):
        graph = graph.replace(notes=(*graph.notes, _EXPERTS_NOTE))
    return graph.replace(source=model.asked.source(f"hf:{name}"))


def build_transformers(name: str, asked: Asked, *, real: bool = False) -> Model:
    """A transformers model from its configuration: without weights, or initialised if ``real``; never its arguments.

    Attention runs as one fused call ("sdpa") unless the model caps its scores, which no fused call does. Key-value
    caches are off but for a step of decoding, which has a full one.
    """
    from transformers.utils import logging

    with ExitStack() as after:
        after.callback(logging.set_verbosity, logging.get_verbosity())
        logging.set_verbosity_error()
        config = _configuration(name, asked.fields)
        number_format = parse_dtype(asked.dtype) if asked.dtype is not None else _own_dtype(config)
        task, cls = model_class(config, asked.task)
        notes = _simplify(config, asked.training)
        module = _build(cls, config, number_format, name, real)
        title = Path(name).stem if name.endswith(".json") else name
        if asked.decode is None:
            kwargs = make_inputs(module, config, task, number_format, asked)
        else:
            kwargs = decoding_inputs(module, config, task, number_format, asked)
            title += f", one token after {asked.decode}"
    return Model(title, module, (), kwargs, asked, notes=tuple(notes))


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
        nested = given.setdefault(head, {})
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


def model_class(config: Any, task: str | None) -> tuple[str, Any]:
    """The task and the transformers class of a configuration's head; one that it does not have is an ``InputError``."""
    import transformers

    def has(name: str) -> bool:
        return type(config) in getattr(transformers, TASKS[name])._model_mapping

    if task is not None and task not in TASKS:
        raise InputError(f"task {task!r} is not known{nearest(task, TASKS)}")
    available = [name for name in TASKS if has(name)]
    if task is None:
        # An encoder-decoder may also be listed as a plain language model; that is only half of it.
        if not available:
            raise InputError(f"transformers has no model for configurations of type {config.model_type!r}")
        task = available[0]
    elif task not in available:
        raise InputError(
            f"model type {config.model_type!r} has no head for {task!r}; it has {', '.join(available) or 'none'}"
        )
    return task, getattr(transformers, TASKS[task])


def _own_dtype(config: Any) -> Any:
    import torch

    own = getattr(config, "dtype", None)
    return own if isinstance(own, torch.dtype) and own.is_floating_point else torch.bfloat16


def _simplify(config: Any, training: bool) -> list[str]:
    """Turn off key-value caches, and in training masking that picks positions by data; returns notes."""
    notes = []
    for part in (config, *(v for v in vars(config).values() if hasattr(v, "to_dict"))):
        if getattr(part, "use_cache", None):
            part.use_cache = False
        if training and getattr(part, "apply_spec_augment", None):
            part.apply_spec_augment = False
            notes.append("SpecAugment is off: which positions it masks depends on data.")
    return notes


def _build(cls: Any, config: Any, dtype: Any, name: str, real: bool = False) -> Any:
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    classes = cls._model_mapping[type(config)]
    if isinstance(classes, (list, tuple)) and config.architectures is None:
        config.architectures = [classes[0].__name__]
    attempts = ["eager"] if getattr(text, "attn_logit_softcapping", None) else ["sdpa", "eager"]
    failure: Exception | None = None
    without = (torch.device("meta"), FakeTensorMode(allow_non_fake_inputs=True))
    for attention in attempts:
        for place in (torch.device("cpu"),) if real else without:
            try:
                with place:
                    return cls.from_config(config, dtype=dtype, attn_implementation=attention)
            except Exception as error:
                failure = failure or error
    assert failure is not None
    raise TraceError(f"cannot build the transformers model {name!r}: {one_line(failure)}") from failure
