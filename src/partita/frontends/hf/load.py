"""Models of the transformers library, built from a configuration without weights or network, and traced."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from partita.errors import InputError, PartitaError, TraceError
from partita.frontends.hf.configuration import read_configuration
from partita.frontends.hf.heads import model_classes
from partita.frontends.hf.inputs import decoding_inputs, input_sets
from partita.frontends.hf.refit import refit
from partita.frontends.model import Model
from partita.frontends.options import Asked, one_line, parse_dtype
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
        config = read_configuration(name, asked.fields)
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

    with FakeTensorMode(allow_non_fake_inputs=True), Values():
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
