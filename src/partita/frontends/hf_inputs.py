"""Example inputs of a transformers model, worked out from its signature and configuration."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

from partita.errors import InputError
from partita.frontends.options import Asked

_DEFAULT_LENGTH = 1024
_AUDIO_SAMPLES = 16000
_PER_TOKEN = frozenset({"causal-lm", "masked-lm", "token-classification", "image-text-to-text"})
_PER_SAMPLE = frozenset(
    {"sequence-classification", "image-classification", "audio-classification", "video-classification"}
)


def make_inputs(model: Any, config: Any, task: str, dtype: Any, asked: Asked) -> dict[str, Any]:
    """Keyword arguments of one microbatch, on the meta device.

    Text is ``sequence_length`` tokens (both sides of an encoder-decoder), images and audio have the size that the
    configuration names, else 224 × 224 pixels and one second. There is no padding, so no attention mask. In training
    the labels are given where the head takes plain ones; otherwise the trace makes up a loss.
    """
    import torch

    accepted = set(inspect.signature(model.forward).parameters)
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    length = _length(model, text, asked.sequence_length)
    batch_size, training = asked.samples, asked.training
    inputs: dict[str, Any] = {}

    def integers(*shape: int) -> Any:
        return torch.empty((batch_size, *shape), dtype=torch.long, device="meta")

    def numbers(*shape: int) -> Any:
        return torch.empty((batch_size, *shape), dtype=dtype, device="meta")

    main = getattr(model, "main_input_name", "input_ids")
    signal = _signal(main, config, task) if main in accepted else None
    if signal is not None:
        inputs[main] = numbers(*signal)
    if not inputs or (task in {"zero-shot-image-classification", "base"} and "input_ids" in accepted):
        inputs["input_ids"] = integers(length)
    if task == "zero-shot-image-classification" and "pixel_values" in accepted:
        inputs["pixel_values"] = numbers(*_image(config))
        if training and "return_loss" in accepted:
            inputs["return_loss"] = True
    if "bbox" in accepted and "input_ids" in inputs:
        inputs["bbox"] = integers(length, 4)
    labels = _labels(task, length, integers) if training and "labels" in accepted else None
    two_sided = getattr(config, "is_encoder_decoder", False) and "decoder_input_ids" in accepted
    if two_sided and labels is None:
        inputs["decoder_input_ids"] = integers(length)
    if labels is not None:
        inputs["labels"] = labels
        if two_sided and getattr(config, "decoder_start_token_id", None) is None:
            # The decoder's input is the labels shifted behind a start token, which default configurations leave open.
            config.decoder_start_token_id = 0
    if training and task == "question-answering" and "start_positions" in accepted:
        inputs["start_positions"] = integers()
        inputs["end_positions"] = integers()
    if "use_cache" in accepted:
        inputs["use_cache"] = False
    return inputs


def decoding_inputs(model: Any, config: Any, task: str, dtype: Any, asked: Asked) -> dict[str, Any]:
    """Keyword arguments of one step of decoding: a token of each sample, and the cache of those before."""
    from partita.frontends.hf_cache import resident_cache

    assert asked.decode is not None
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    accepted = inspect.signature(model.forward).parameters
    if getattr(config, "is_encoder_decoder", False) or "past_key_values" not in accepted:
        raise InputError(
            f"task {task!r} of model type {config.model_type!r} does not decode token by token; "
            "decoding is for decoders, such as causal-lm of gpt2 or llama"
        )
    # Whether the model has so many positions.
    _length(model, text, asked.decode + 1)
    inputs = make_inputs(model, config, task, dtype, dataclasses.replace(asked, sequence_length=1))
    return {**inputs, "past_key_values": resident_cache(model, inputs, asked.decode)}


def _labels(task: str, length: int, integers: Any) -> Any:
    if task in _PER_TOKEN or task in {"seq2seq-lm", "speech-seq2seq"}:
        return integers(length)
    return integers() if task in _PER_SAMPLE else None


def _length(model: Any, config: Any, wanted: int | None) -> int:
    import torch

    names = ("max_position_embeddings", "n_positions", "max_target_positions", "max_seq_len", "block_size")
    limits = [value for name in names if isinstance(value := getattr(config, name, None), int) and value > 0]
    if wanted is None:
        limit = min([_DEFAULT_LENGTH, *limits])
        # Some position tables hold a few more rows than the tokens they serve.
        return limit - limit % 64 if limit > 128 and limit % 8 else limit
    learned = any(
        isinstance(child, torch.nn.Embedding) and name.split(".")[-1] in _POSITIONS
        for name, child in model.named_modules()
    )
    if limits and learned and wanted > min(limits):
        raise InputError(
            f"sequence length {wanted} exceeds the {min(limits)} positions the model has; "
            "raise that field of its configuration or shorten the sequence"
        )
    return wanted


_POSITIONS = frozenset({"wpe", "position_embeddings", "embed_positions", "position_embedding"})


def _signal(name: str, config: Any, task: str) -> tuple[int, ...] | None:
    """The shape of one sample of an input that is no text."""
    if name == "input_features":
        frames = 2 * config.max_source_positions if hasattr(config, "max_source_positions") else 3000
        bins = _first(config, "num_mel_bins", "feature_size", "input_feat_per_channel", default=80)
        return (bins, frames) if config.model_type.startswith("whisper") else (frames, bins)
    if name == "input_values":
        spectrogram = hasattr(config, "max_length") and hasattr(config, "num_mel_bins")
        return (config.max_length, config.num_mel_bins) if spectrogram else (_AUDIO_SAMPLES,)
    if name == "pixel_values_videos":
        return _first(config, "frames_per_clip", "num_frames", default=16), *_image(config)
    if name == "pixel_values":
        frames = (_first(config, "num_frames", default=16),) if task == "video-classification" else ()
        return *frames, *_image(config)
    return None


def _image(config: Any) -> tuple[int, int, int]:
    vision = getattr(config, "vision_config", None) or config
    size = _first(vision, "image_size", "img_size", "input_size", default=224)
    height, width = size if isinstance(size, (list, tuple)) else (size, size)
    return _first(vision, "num_channels", "in_channels", "num_input_channels", default=3), height, width


def _first(config: Any, *names: str, default: Any) -> Any:
    for name in names:
        value = getattr(config, name, None)
        if value is not None:
            return value
    return default
