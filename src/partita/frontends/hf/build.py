"""A class of transformers built from a configuration: without weights, with fused attention, and with what was open."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any

import torch

from partita.frontends.contents import tell
from partita.frontends.hf.configuration import text_of
from partita.frontends.hf.parts import fill
from partita.frontends.options import one_line, passed_over
from partita.ground.errors import TraceError
from partita.inside.messages import missing_package
from partita.inside.torch_inside import FakeTensor, has_forward, undispatched
from partita.inside.transformers_inside import built

Place = Callable[[], AbstractContextManager[Any]]

#: Frames of a spectrogram that a token of text or a phoneme lasts.
_FRAMES_A_TOKEN = 5
#: How often what is missing is filled in: each time the next thing shows.
_ROUNDS = 3


def build(cls: Any, config: Any, dtype: Any, name: str, place: Place) -> tuple[Any, tuple[str, ...]]:
    """A model, its weights made in ``place``, and notes; what cannot be built is a ``TraceError``.

    Attention is one fused call where the class has that and the scores are not capped, else the class's own.
    """
    own, filled = copy.deepcopy(config), list[str]()
    for _ in range(_ROUNDS):
        model, failure = _attempts(cls, own, dtype, place)
        if failure is None:
            _fill_tables(model)
            taken = f"The configuration leaves open what {cls.__name__} needs; taken here: {', '.join(filled)}."
            return model, ((taken,) if filled else ()) + _run_as_methods(model) + _presume_durations(model)
        more = fill(own, failure)
        if not more:
            break
        filled += more
    raise TraceError(f"cannot build the transformers model {name!r}: {_cause(failure)}") from failure


def _attempts(cls: Any, config: Any, dtype: Any, place: Place) -> tuple[Any, Exception | None]:
    attempts = [{"attn_implementation": "eager"}, {}]
    if not getattr(text_of(config), "attn_logit_softcapping", None):
        attempts.insert(0, {"attn_implementation": "sdpa"})
    failure: Exception | None = None
    for attention in attempts:
        own = copy.deepcopy(config)
        try:
            with place():
                return built(cls, own, dtype, **attention), None
        except Exception as error:  # a model's own code; told if nothing else works
            failure = error
    return None, failure


def _cause(error: BaseException | None) -> str:
    """What is wrong in one line; of a missing package, its name and how to get it."""
    text = " ".join(str(error).split())
    if isinstance(error, ImportError) and (package := missing_package(text)):
        return f"it needs the package {package}, which is not installed"
    if isinstance(error, ModuleNotFoundError) and error.name:
        package = error.name.partition(".")[0]
        return f"it needs the package {package}, which is not installed"
    assert error is not None
    return f"{one_line(error)}; a configuration file (hf:config.json) or --set name=value gives what is missing"


def _run_as_methods(model: Any) -> tuple[str, ...]:
    """Give a model that has no forward of its own the one that stands for it; returns notes.

    Codecs are called by their methods: it is ``encode`` then. Models of several parts that only generate text or
    sound with them are one run of each part.
    """
    from transformers import PreTrainedModel

    if has_forward(model):
        return ()
    title = type(model).__name__
    if hasattr(model, "encode"):
        model.forward = model.encode
        return (f"{title} has no forward of its own; this is its method encode.",)
    parts = {
        name: child
        for name, child in model.named_children()
        if isinstance(child, PreTrainedModel) and has_forward(child)
    }
    if not parts:
        return ()
    model.forward = RunOfParts(parts)
    return (f"{title} has no forward of its own; this is one run of each of {', '.join(parts)}, on inputs of its own.",)


def _fill_tables(model: Any) -> None:
    """Let tables that a model fills when they are first asked for, entry by entry, be there before the trace."""
    for child in model.modules():
        for value in vars(child).values():
            cls = type(value)
            if cls.__module__ != type(child).__module__:
                continue
            for name, held in vars(cls).items():
                if isinstance(held, cached_property):
                    try:
                        getattr(value, name)
                    except Exception as error:
                        # A model's own code; what fails here fails in the open where the model asks for it.
                        passed_over(f"{cls.__name__}.{name}", error)


def _presume_durations(model: Any) -> tuple[str, ...]:
    """Let modules that predict how long each token of speech lasts say the same for all; returns notes.

    How much is computed behind them depends on it, and no weights are there to tell.
    """

    def settle(module: Any, _: Any, out: Any) -> None:
        if isinstance(out, FakeTensor):
            # Whole numbers are frames, others their logarithms.
            value = math.log(_FRAMES_A_TOKEN) if out.is_floating_point() else _FRAMES_A_TOKEN
            with undispatched():
                tell(out, torch.full(tuple(out.shape), value, dtype=out.dtype, device="cpu"))

    predictors = [child for name, child in model.named_modules() if name.endswith("duration_predictor")]
    for predictor in predictors:
        predictor.register_forward_hook(settle)
    if not predictors:
        return ()
    return (f"How long tokens last is predicted: the plan presumes {_FRAMES_A_TOKEN} frames a token.",)


class RunOfParts:
    """A call of each part of a model, whose arguments carry the part's name in front."""

    __name__ = "forward"

    def __init__(self, parts: Mapping[str, Any]) -> None:
        self.parts = parts

    def __call__(self, **arguments: Any) -> dict[str, Any]:
        """Outputs by part."""
        return {
            name: part(
                **{key.partition(".")[2]: value for key, value in arguments.items() if key.startswith(f"{name}.")}
            )
            for name, part in self.parts.items()
        }
