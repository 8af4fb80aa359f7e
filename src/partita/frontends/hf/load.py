"""Models of the transformers library, built from a configuration without weights or network, and traced."""

from __future__ import annotations

import dataclasses
from contextlib import ExitStack, nullcontext, suppress
from pathlib import Path
from typing import Any

import torch

from partita.frontends.adapters import attach
from partita.frontends.building import on_meta, with_values
from partita.frontends.hf.build import RunOfParts, build, model_classes
from partita.frontends.hf.configuration import configurations, settled_configuration
from partita.frontends.hf.inputs import check_length, completed, decoding_inputs, input_sets
from partita.frontends.hf.refit import refit
from partita.frontends.hf.rules import Example
from partita.frontends.options import Asked, one_line, parse_dtype
from partita.frontends.torch import BuiltModel
from partita.ground.errors import InputError, PartitaError, TraceError
from partita.inside.messages import is_of_formats
from partita.inside.replacing import alone
from partita.inside.torchvision_inside import declare_where_missing
from partita.inside.transformers_inside import load_models

#: Tokens of a sample where the usual number of them does not run.
_SHORT = 128
#: How often inputs are made again because an operator takes another size.
_FITS = 4


def build_transformers(name: str, asked: Asked, *, real: bool = False) -> BuiltModel:
    """A transformers model from its configuration: without weights, or initialised if ``real``; never its arguments.

    It is the first that can be traced, and keeps its graph; in float32 where it does not run in its own format, and
    none was asked for. Attention runs as one fused call ("sdpa") unless the model caps its scores, which no fused call
    does. Key-value caches are off but for a step of decoding, which has a full one.
    """
    try:
        return _first_traced(name, asked, real)
    except PartitaError as error:
        hinted = isinstance(error, TraceError) and is_of_formats(str(error))
        if asked.dtype is not None or not hinted:
            raise
        found = _first_traced(name, dataclasses.replace(asked, dtype="float32"), real)
        return found.noted("The model does not run in its own number format; this is float32.")
    except Exception as error:  # other libraries may be damaged, or not go together
        raise TraceError(f"cannot load hf:{name}: {_broken(error)}") from error


def _broken(error: BaseException) -> str:
    """What is wrong with the libraries themselves: the first cause, and what to do about it."""
    while (earlier := error.__cause__ or error.__context__) is not None:
        error = earlier
    said = one_line(error)
    for package in ("torchvision", "torchaudio", "timm", "accelerate", "torchao"):
        if package in said:
            return (
                f"{said}; the {package} beside transformers does not fit this torch: install the one that does, "
                "or uninstall it"
            )
    if isinstance(error, ImportError):
        return f"{said}; transformers or a package that it uses cannot be imported or is damaged"
    return f"{said}; --debug shows where"


def _first_traced(name: str, asked: Asked, real: bool = False) -> BuiltModel:
    """The first class of a configuration that can be built, on the fullest inputs that it runs on, and its graph."""
    declare_where_missing()
    from transformers.utils import logging

    with alone, ExitStack() as after:
        after.callback(logging.set_verbosity, logging.get_verbosity())
        logging.set_verbosity_error()
        config, settled = settled_configuration(name, asked.fields)
        own = getattr(config, "dtype", None)
        own = own if isinstance(own, torch.dtype) and own.is_floating_point else torch.bfloat16
        number_format = own if asked.dtype is None else parse_dtype(asked.dtype)
        notes = (*settled, *_simplify(config, asked.training))
        title = Path(name).stem if name.endswith(".json") else name
        failure: PartitaError | None = None
        load_models()
        for task, cls in model_classes(config, asked.task):
            for place in (on_meta, with_values):
                try:
                    module, filled = build(cls, config, number_format, title, place)
                except TraceError as error:
                    failure = failure or error
                    break
                said = (*notes, *filled, *attach(module, asked.adapters))
                if failure is not None:
                    said = (*said, f"This is {cls.__name__}: {failure}.")
                try:
                    found = _on_fullest(
                        module, task, number_format, BuiltModel(title, module, (), {}, asked, notes=said)
                    )
                except TraceError as error:
                    failure = error
                    if "depend on data" not in str(error):
                        raise
                    continue
                return _with_weights(found, cls, config, task, number_format) if real else found
            else:
                break
        assert failure is not None
        raise failure


def _with_weights(model: BuiltModel, cls: Any, config: Any, task: str, number_format: Any) -> BuiltModel:
    """The chosen model again, initialised."""
    module, _ = build(cls, config, number_format, model.name, nullcontext)
    attach(module, model.asked.adapters)
    for name, value in vars(model.module.config).items():
        # What the inputs of the trace needed of its configuration, which is a copy, those of the run need, too.
        if value is not None and getattr(module.config, name, None) is None:
            setattr(module.config, name, value)
    kwargs = model.kwargs
    if model.asked.decode is not None:
        # Its cache is in buffers of the module.
        kwargs = decoding_inputs(module, task, number_format, model.asked)
    return dataclasses.replace(model, module=module, kwargs=kwargs)


def _on_fullest(module: Any, task: str, number_format: Any, model: BuiltModel) -> BuiltModel:
    asked = model.asked
    if asked.decode is not None:
        model = dataclasses.replace(model, name=f"{model.name}, one token after {asked.decode}")
        sets = [decoding_inputs(module, task, number_format, asked)]
    else:
        sets = _sets(module, task, number_format, asked)
        check_length(sets[0], lambda other: _sets(module, task, number_format, other)[0], module.config, asked)
        if asked.sequence_length is None:
            # Some positions are limited by what no configuration names.
            short = dataclasses.replace(asked, sequence_length=_SHORT)
            with suppress(InputError):
                shorter = _sets(module, task, number_format, short)
                sets += [shorter[0], shorter[-1]]
    failure: TraceError | None = None
    for kwargs in sets:
        fitted = dataclasses.replace(model, kwargs=kwargs)
        left_out = sorted(set(sets[0]) - set(kwargs))
        if left_out:
            fitted = fitted.noted(f"Without {', '.join(left_out)}: what takes it is not in the plan ({failure}).")
        try:
            return _refitted(fitted, task, number_format)
        except TraceError as error:
            failure = failure or error
    assert failure is not None
    raise failure


def _sets(module: Any, task: str, number_format: Any, asked: Asked) -> list[dict[str, Any]]:
    """Sets of arguments of a model, the fullest first; of one that is a run of its parts, those of all of them."""
    if not isinstance(module.forward, RunOfParts):
        return input_sets(Example(module, task, number_format, asked))
    parts = module.forward.parts
    strangers = [name for name in asked.inputs if name.partition(".")[0] not in parts]
    if strangers:
        raise InputError(
            f"{type(module).__name__} is planned as a run of each of its parts {', '.join(parts)}; say which takes "
            f"input {strangers[0]!r}, for example {next(iter(parts))}.{strangers[0]}"
        )
    of_part = {}
    for name, part in parts.items():
        given = {key.partition(".")[2]: value for key, value in asked.inputs.items() if key.startswith(f"{name}.")}
        own = dataclasses.replace(asked, inputs=given)
        of_part[name] = input_sets(Example(part, task, number_format, own))
    return [
        {f"{name}.{key}": value for name, sets in of_part.items() for key, value in sets[min(i, len(sets) - 1)].items()}
        for i in range(max(map(len, of_part.values())))
    ]


def _refitted(model: BuiltModel, task: str, number_format: Any) -> BuiltModel:
    """A model with its graph, on its arguments as far as they fit: of other sizes or with more as errors ask for."""
    for _ in range(_FITS):
        try:
            return model.traced()
        except TraceError as error:
            # What the user gave is not made to fit.
            changed = refit(
                {name: value for name, value in model.kwargs.items() if name not in model.asked.inputs}, str(error)
            )
            if changed is None and model.asked.decode is None:
                changed = completed(Example(model.module, task, number_format, model.asked), model.kwargs, error)
            if changed is None:
                raise
            model = dataclasses.replace(model, kwargs={**model.kwargs, **changed})
    return model.traced()


def _simplify(config: Any, training: bool) -> tuple[str, ...]:
    """Turn off key-value caches, and in training masking that picks positions by data; returns notes."""
    notes = []
    for _, part in configurations(config):
        if getattr(part, "use_cache", None):
            part.use_cache = False
        if training and getattr(part, "apply_spec_augment", None):
            part.apply_spec_augment = False
            notes.append("SpecAugment is off: which positions it masks depends on data.")
    return tuple(notes)
