"""Which class of transformers a configuration is built as, and its model: with fused attention and what was open."""

from __future__ import annotations

import copy
import importlib
import inspect
import math
import pkgutil
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from partita.frontends.hf.configuration import fill, text_of
from partita.frontends.options import nearest, one_line, passed_over
from partita.frontends.values import tell
from partita.ground.errors import InputError, TraceError
from partita.inside.messages import missing_package
from partita.inside.torch_inside import FakeTensor, has_forward, undispatched
from partita.inside.transformers_inside import built, classes_of
from partita.nouns.catalogue.files import read_document

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
    package = missing_package(" ".join(str(error).split())) if isinstance(error, ImportError) else None
    if isinstance(error, ModuleNotFoundError) and error.name:
        package = package or error.name.partition(".")[0]
    if package:
        return f"it needs the package {package}, which is not installed"
    assert error is not None
    return f"{one_line(error)}; a configuration file (hf:config.json) or --set name=value gives what is missing"


def _run_as_methods(model: Any) -> tuple[str, ...]:
    """Give a model without a forward one that stands for it: a codec's encode, or a run of each part; returns notes."""
    from transformers import PreTrainedModel

    if has_forward(model):
        return ()
    title = type(model).__name__
    if hasattr(model, "encode"):
        model.forward = model.encode
        return (f"{title} has no forward of its own; this is its method encode.",)
    children = model.named_children()
    parts = {name: child for name, child in children if isinstance(child, PreTrainedModel) and has_forward(child)}
    if not parts:
        return ()
    model.forward = RunOfParts(parts)
    return (f"{title} has no forward of its own; this is one run of each of {', '.join(parts)}, on inputs of its own.",)


def _fill_tables(model: Any) -> None:
    """Let tables that a model fills when they are first asked for, entry by entry, be there before the trace."""
    for child in model.modules():
        for value in vars(child).values():
            own = vars(type(value)).items() if type(value).__module__ == type(child).__module__ else ()
            for name in [name for name, held in own if isinstance(held, cached_property)]:
                try:
                    getattr(value, name)
                except Exception as error:
                    # A model's own code; what fails here fails in the open where the model asks for it.
                    passed_over(f"{type(value).__name__}.{name}", error)


def _presume_durations(model: Any) -> tuple[str, ...]:
    """Let what predicts how long tokens of speech last, which decides on sizes, say the same for all; returns notes."""

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


# -- which class -------------------------------------------------------------------------------------------------------

TASKS: dict[str, str] = read_document(Path(__file__).with_name("tasks.toml"))
"""Task to transformers' class; a model's default is the first that it has."""

#: Endings of class names, the most telling first, for types that no task lists.
_ENDINGS = (
    "ForConditionalGeneration ForCausalLM ForPreTraining For[A-Z][A-Za-z0-9]* Model Backbone Transformer Encoder "
    "Decoder"
)


def model_classes(config: Any, task: str | None) -> Iterator[tuple[str, Any]]:
    """Tasks and classes of a configuration's model, the one to take first; the others are for when it cannot be built.

    Without a task they are those of ``TASKS`` that the type has, in that order. Parts of other models, such as their
    image towers, have none: they are the classes that their configuration belongs to. A task that is unknown, or that
    the type does not have, is an ``InputError``.
    """
    if task is not None and task not in TASKS:
        raise InputError(f"task {task!r} is not known{nearest(task, TASKS)}")
    heads_of = {name: classes_of(auto) for name, auto in TASKS.items()}
    listed = {name: cls for name, heads in heads_of.items() if (cls := _listed(config, heads)) is not None}
    if task is not None:
        if task not in listed:
            has = ", ".join(listed) or "none"
            raise InputError(f"model type {config.model_type!r} has no head for {task!r}; it has {has}")
        yield task, listed[task]
        return
    # A type may be listed with a class of one of its parts.
    own = {
        name: cls for name, cls in listed.items() if isinstance(config, getattr(cls, "config_class", None) or object)
    }
    found = [] if own else list(_unlisted(config))
    yield from own.items()
    for cls in found:
        yield "base", cls
    if not own and not found:
        if not listed:
            raise InputError(_no_class(config))
        yield from listed.items()


def _no_class(config: Any) -> str:
    """What is wrong with a type that is no model by itself, and which one has it as a part."""
    from transformers import PreTrainedConfig

    said = f"transformers has no model for configurations of type {config.model_type!r}"
    module = importlib.import_module(type(config).__module__)
    classes: list[Any] = [cls for cls in vars(module).values() if isinstance(cls, type)]
    owners = [
        owner.model_type
        for owner in classes
        if issubclass(owner, PreTrainedConfig) and owner.model_type
        for part in (owner.sub_configs or {}).values()
        if getattr(part, "config_class", part) is type(config)
    ]
    if owners:
        return f"{said}: they are a part of others; name hf:{owners[0]}, whose parts are in its graph"
    return said


def _listed(config: Any, heads: Any) -> Any:
    """The class that a table of transformers names, None if it has none; names without a class are left out."""
    if type(config) not in heads:
        return None
    try:
        found = heads[type(config)]
    except (ValueError, AttributeError, ImportError):
        return None
    if isinstance(found, (list, tuple)):
        wanted = getattr(config, "architectures", None) or ()
        return next((cls for cls in found if cls.__name__ in wanted), found[0])
    return found


def _unlisted(config: Any) -> Iterator[Any]:
    """Classes of a configuration that stand in the same folder, the most telling first; bare modules if no other."""
    from transformers import PreTrainedModel

    title = type(config).__name__.removesuffix("Config")

    def order(cls: Any) -> tuple[bool, bool, int]:
        ranks = [i for i, end in enumerate(_ENDINGS.split()) if re.search(f"{end}$", cls.__name__)]
        return not has_forward(cls), cls.__name__ != title, min(ranks, default=len(_ENDINGS))

    def takes(cls: Any) -> bool:
        # By what it says of itself or of its constructor.
        said = inspect.signature(cls).parameters.get("config")
        named = said is not None and type(config).__name__ in str(said.annotation)
        return named or getattr(cls, "config_class", None) is type(config)

    own = [cls for cls in _in_folder(config) if takes(cls) and not _PIECE.search(cls.__name__)]
    whole = [cls for cls in own if issubclass(cls, PreTrainedModel)]
    yield from sorted(whole or filter(has_forward, own), key=order)


def _in_folder(config: Any) -> Iterator[Any]:
    """Modules that the files beside a configuration's define, those of the file named like it first."""
    folder = importlib.import_module(type(config).__module__.rpartition(".")[0])
    names = [f"modeling_{folder.__name__.rpartition('.')[2]}"]
    files = sorted(found.name for found in pkgutil.iter_modules(folder.__path__))
    names += [name for name in files if name not in names and not name.startswith(_NO_MODELS)]
    for name in names:
        try:
            module = importlib.import_module(f"{folder.__name__}.{name}")
        except (ImportError, RuntimeError):
            continue
        for cls in vars(module).values():
            if isinstance(cls, type) and issubclass(cls, torch.nn.Module) and cls.__module__ == module.__name__:
                yield cls


#: Files beside a model's that define none: ``modular_`` ones are what the others are written from.
_NO_MODELS = ("configuration_", "convert_", "modular_", "tokenization_", "processing_", "image_", "video_", "feature_")
#: Modules that are no model by themselves.
_PIECE = re.compile(r"(Embeddings?|Embedder|Attention|MLP|Layer|Norm|Block|Head|Loss|Output)$|PreTrainedModel")
