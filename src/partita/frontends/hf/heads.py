"""Which class of transformers a configuration is built as."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from typing import Any

import torch

from partita.frontends.options import nearest
from partita.ground.errors import InputError
from partita.inside.torch_inside import has_forward
from partita.inside.transformers_inside import classes_of

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
    """Classes of a configuration that stand in the same folder, the most telling first.

    Models come before bare modules: those are the pieces that models are put together from, and serve only where a
    configuration has no model. Of these the one comes first that is called as the configuration is.
    """
    from transformers import PreTrainedModel

    title = type(config).__name__.removesuffix("Config")

    def order(cls: Any) -> tuple[bool, bool, int]:
        ranks = [i for i, end in enumerate(_ENDINGS.split()) if re.search(f"{end}$", cls.__name__)]
        return not has_forward(cls), cls.__name__ != title, min(ranks, default=len(_ENDINGS))

    own = [cls for cls in _in_folder(config) if _takes(cls, type(config)) and not _PIECE.search(cls.__name__)]
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


def _takes(cls: Any, config: Any) -> bool:
    """Whether a class is built from such a configuration, by what it says of itself or of its constructor."""
    said = inspect.signature(cls).parameters.get("config")
    named = said is not None and config.__name__ in str(said.annotation)
    return named or getattr(cls, "config_class", None) is config
