"""Which head a transformers model gets."""

from __future__ import annotations

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


def model_class(config: Any, task: str | None) -> tuple[str, Any]:
    """The task and the transformers class for a configuration.

    Raises
    ------
    InputError
        If the task is unknown or the model type has no such head.
    """
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
