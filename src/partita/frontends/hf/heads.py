"""Which class of transformers a configuration is built as."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from typing import Any

from partita.errors import InputError
from partita.frontends.options import nearest

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
_ENDINGS = ("ForConditionalGeneration", "ForCausalLM", "ForPreTraining", "Model", "Encoder", "Decoder", "")


def model_classes(config: Any, task: str | None) -> Iterator[tuple[str, Any]]:
    """Tasks and classes of a configuration's model, the one to take first; the others are for when it cannot be built.

    Without a task they are those of ``TASKS`` that the type has, in that order. Parts of other models, such as their
    image towers, have none: they are the classes that their configuration belongs to.

    Raises
    ------
    InputError
        If the task is unknown, or one that the type does not have.
    """
    import transformers

    if task is not None and task not in TASKS:
        raise InputError(f"task {task!r} is not known{nearest(task, TASKS)}")
    heads_of = {name: getattr(transformers, auto)._model_mapping for name, auto in TASKS.items()}
    listed = {name: cls for name, heads in heads_of.items() if (cls := _listed(config, heads)) is not None}
    if task is not None:
        if task not in listed:
            has = ", ".join(listed) or "none"
            raise InputError(f"model type {config.model_type!r} has no head for {task!r}; it has {has}")
        yield task, listed[task]
        return
    # An encoder-decoder may also be listed as a plain language model; that is only half of it.
    yield from listed.items()
    if not listed:
        for cls in _unlisted(config):
            yield "base", cls


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
    """Classes of a configuration that stand in the same folder, the most telling first."""
    import torch

    folder = type(config).__module__.rpartition(".")[0]
    name = folder.rpartition(".")[2]
    try:
        module = importlib.import_module(f"{folder}.modeling_{name}")
    except ImportError:
        return
    own = [
        cls
        for cls in vars(module).values()
        if isinstance(cls, type)
        and issubclass(cls, torch.nn.Module)
        and cls.__module__ == module.__name__
        and _takes(cls, type(config))
        and not cls.__name__.endswith("PreTrainedModel")
        and _runs(cls)
    ]
    yield from sorted(own, key=lambda cls: (not hasattr(cls, "config_class"), _rank(cls)))


def _runs(cls: Any) -> bool:
    return bool(cls.forward.__name__ != "_forward_unimplemented")


def _rank(cls: Any) -> int:
    return next(i for i, end in enumerate(_ENDINGS) if cls.__name__.endswith(end))


def _takes(cls: Any, config: Any) -> bool:
    """Whether a class is built from such a configuration, by what it says of itself or of its constructor."""
    said = inspect.signature(cls).parameters.get("config")
    named = said is not None and config.__name__ in str(said.annotation)
    return named or getattr(cls, "config_class", None) is config
