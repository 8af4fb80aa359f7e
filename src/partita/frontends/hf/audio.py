"""Example arguments of speech, sound and music: waves, spectrograms, their lengths and codes.

Shapes are those that the type's own feature extractor makes of some sound, where the library names one that runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import torch

from partita.frontends.hf.configuration import configurations
from partita.frontends.hf.rules import RULES, Example, Rule, first
from partita.frontends.options import passed_over
from partita.inside.transformers_inside import extractor_names

#: Samples of a wave: one second of what most models take.
_SAMPLES = 16000
#: Frames of a spectrogram: 30 seconds at 10 ms.
_FRAMES = 3000
_SECONDS = 30
_BINS = "num_mel_bins n_mel_bins feature_size input_feat_per_channel input_feat_size n_mels"


@lru_cache(maxsize=8)
def _extracted(kind: str) -> tuple[int, dict[str, Any]]:
    """What the feature extractor of a type makes of some sound, and how many bins its spectrograms have."""
    import transformers

    named = extractor_names()
    fitting = [key for key in named if f"{kind}_".replace("-", "_").startswith(f"{key}_".replace("-", "_"))]
    if not fitting:
        return 0, {}
    try:
        extractor = getattr(transformers, named[max(fitting, key=len)])()
        rate = int(getattr(extractor, "sampling_rate", _SAMPLES))
        # Spectrograms are of 30 seconds, as many extractors pad them to; waves are one second.
        seconds = _SECONDS if any("features" in name for name in extractor.model_input_names) else 1
        sound = torch.full((rate * seconds,), 0.01).numpy()
        try:
            made = extractor(sound, sampling_rate=rate, return_tensors="pt")
        except ValueError:
            # Some take lists of sounds alone.
            made = extractor([sound], sampling_rate=rate, return_tensors="pt")
    except Exception as error:
        # An extractor's own code: some need packages that are not there, and the rules below have to do.
        passed_over(f"the feature extractor of {kind!r}", error)
        return 0, {}
    size = int(getattr(extractor, "feature_size", 0))
    return size, {name: value for name, value in made.items() if isinstance(value, torch.Tensor)}


def _made(example: Example, name: str) -> Any:
    """An argument as the extractor makes it, for as many samples; None if it makes none."""
    value = _extracted(example.config.model_type)[1].get(name)
    if value is None or value.dim() == 0 or value.shape[0] != 1:
        return None
    shape = (example.samples, *value.shape[1:])
    if value.is_floating_point():
        return example.free(*shape)
    return value.expand(shape).clone()


def _bins(example: Example) -> int:
    """Frequencies of a spectrogram, as the configuration says; 0 if it does not."""
    parts = (example.audio, *(part for _, part in configurations(example.config)))
    return next((said for part in parts if isinstance(said := first(_BINS, part), int)), 0)


def _features(example: Example) -> Any:
    """Spectrograms: frames × bins, or bins × frames for encoders that begin with a convolution over time."""
    audio = example.audio
    made, bins = _made(example, "input_features"), _bins(example)
    beside = getattr(example.config, "audio_length_per_tok", None)
    if isinstance(beside, int):
        # Sound that runs beside the words, so many frames for each.
        return _turned(example, example.length * beside, bins or 80)
    if made is None:
        most = first("max_position_embeddings", audio, default=_FRAMES)
        bins = first("input_size feature_projection_input_dim input_dim", audio, default=bins or 80)
        if hasattr(audio, "spec_size"):
            return example.numbers(1, 1001, bins)
        if hasattr(audio, "max_source_positions"):
            return _turned(example, 2 * audio.max_source_positions, bins)
        return _turned(example, min(_FRAMES, most - 1) if example.config is audio else _FRAMES, bins)
    sides = list(made.shape[1:])
    size = _extracted(example.config.model_type)[0]
    if bins and size in sides:
        sides[len(sides) - 1 - sides[::-1].index(size)] = bins
    factor = getattr(example.config, "subsampling_factor", None)
    if isinstance(factor, int) and sides[0] not in (bins, size):
        sides[0] -= sides[0] % factor
    if len(sides) == 2 and sides[0] in (bins, size) and hasattr(audio, "max_source_positions"):
        sides[1] = 2 * audio.max_source_positions
    return example.numbers(*sides)


def _turned(example: Example, frames: int, bins: int) -> Any:
    kinds = f"{example.config.model_type} {getattr(example.audio, 'model_type', '')}"
    bins_first = any(mark in kinds for mark in _BINS_FIRST.split())
    return example.numbers(bins, frames) if bins_first else example.numbers(frames, bins)


#: Encoders in the manner of Whisper.
_BINS_FIRST = "whisper qwen2_audio audioflamingo voxtral glmasr musicflamingo vibevoice moss"


def _values(example: Example) -> Any:
    """Waves: samples, or channels × samples for codecs; spectrograms where patches are cut of them."""
    config = example.config
    if hasattr(config, "max_length") and hasattr(config, "num_mel_bins") and hasattr(config, "patch_size"):
        return example.numbers(config.max_length, config.num_mel_bins)
    made = _made(example, "input_values")
    if made is not None and made.dim() == 3:
        return example.numbers(first("audio_channels", example.audio, default=made.shape[1]), made.shape[2])
    if made is not None:
        return made
    codec = any(hasattr(config, name) for name in ("codebook_size", "upsampling_ratios", "downsampling_ratios"))
    channels = first("audio_channels channels", config, default=1)
    return example.numbers(channels, _SAMPLES) if codec else example.numbers(_SAMPLES)


def _frames(example: Example) -> int:
    """Frames of the spectrograms."""
    features = _features(example)
    return int(features.shape[-1] if features.shape[-2] == _bins(example) else features.shape[-2])


def _mask(example: Example) -> Any:
    """Which frames are sound: all."""
    return example.integers(_frames(example))


def _codes(example: Example) -> Any:
    """Words of a decoder, or codes of sound: of each codebook in a row of its own, or side by side."""
    config = first("decoder decoder_config", example.config, default=example.config)
    books = getattr(config, "num_codebooks", None)
    if books and config is not example.config:
        return example.tokens(example.length).repeat_interleave(books, 0)
    return _side_by_side(example, config)


def _side_by_side(example: Example, config: Any) -> Any:
    tokens = example.tokens(example.words)
    channels = first("n_codes_total num_channels", config)
    # No image has so many channels: they are codebooks.
    sound = isinstance(channels, int) and channels > 4 and hasattr(example.text, "vocab_size")
    return tokens.unsqueeze(-1).repeat(1, 1, channels) if sound else tokens


def _sound_words(example: Example) -> Any:
    """Codes of sound: a number of each frequency, or of each codebook, in a frame."""
    wide = first("n_mel_bins", example.audio) or first("num_codebooks", example.config)
    return example.integers(_FRAMES // 10, wide) if wide else example.tokens(example.length)


def _from_extractor(name: str, otherwise: Rule) -> Rule:
    def rule(example: Example) -> Any:
        made = _made(example, name)
        return otherwise(example) if made is None else made

    return rule


SOUND: dict[str, Rule] = {
    "input_ids": lambda e: _side_by_side(e, e.config),
    "decoder_input_ids": _codes,
    # Of text, or of sound where the configuration has no words.
    "attention_mask": lambda e: e.integers(e.length) if hasattr(e.text, "vocab_size") or not _bins(e) else _mask(e),
    "audio_input_ids": _sound_words,
    "audio_mel": _features,
    "audio_mel_mask": lambda e: _mask(e) < 0,
    "mask": _mask,
    "codebook_idx": lambda e: int(first("n_codes_given", e.config, default=1)),
    "input_features_mask": _mask,
    "feature_lens": lambda e: e.integers() * _frames(e),
    "feature_attention_mask": _mask,
    "audio_attention_mask": _mask,
    "chunk_sample_lengths": _from_extractor("chunk_sample_lengths", lambda e: e.integers() * _SAMPLES * _SECONDS),
    "noise_sequence": _from_extractor(
        "noise_sequence", lambda e: e.numbers(_FRAMES // 10, first("model_in_channels", e.config, default=64))
    ),
    "is_longer": lambda e: e.integers(1) > 0,
    "audio_input_features": _from_extractor("audio_input_features", lambda e: e.numbers(_FRAMES, _bins(e) or 80)),
    "audio_embed_sizes": _from_extractor("audio_embed_sizes", lambda e: e.integers() * (_FRAMES // 8)),
    "input_features": _features,
    "input_values": _values,
}
"""Argument to the rule that makes it."""

#: Masks and lengths of sound, which go with it where a model takes them.
_LENGTHS = ("input_features_mask", "feature_attention_mask", "chunk_sample_lengths")


def sound_arguments(example: Example) -> dict[str, Any]:
    """Sound as a model takes it: a spectrogram with what its length says, but a wave where convolutions read it."""
    names = ["input_features", "input_values"]
    if hasattr(example.audio, "conv_stride"):
        names.reverse()
    name = next((name for name in names if name in example.accepted), None)
    beside = [each for each in _LENGTHS if each in example.accepted and name == "input_features"]
    return {} if name is None else {each: SOUND[each](example) for each in (name, *beside)}


def settle_sound(inputs: Mapping[str, Any], example: Example) -> dict[str, Any]:
    """Inputs of sound whose sizes follow from each other, or from what else a model takes."""
    found, config = dict(inputs), example.config
    if "input_features" in inputs and "feature_lens" in example.accepted and "input_ids" not in example.accepted:
        # Sounds without a side for samples, and their lengths.
        lengths = example.integers() * _frames(example)
        found |= {"input_features": example.free(_bins(example), int(lengths.sum())), "feature_lens": lengths}
        if "aftercnn_lens" in example.accepted:
            found["aftercnn_lens"] = (lengths - 1) // 2 + 1
    ratios = getattr(config, "downsampling_ratios", None)
    if "input_features" in inputs and "input_values" in inputs and ratios:
        # The same sound twice: a frame for each code.
        frames = inputs["input_values"].shape[-1] // math.prod(ratios)
        found["input_features"] = example.numbers(frames, inputs["input_features"].shape[-1])
    if "last_hidden_state" in example.accepted and "input_ids" in inputs:
        found["last_hidden_state"] = RULES["last_hidden_state"](example)
    if "hidden_states" in inputs and "quantized_code" in inputs:
        found["hidden_states"] = inputs["condition_vector"].clone()
    elif "hidden_states" in inputs and "mask" in inputs and isinstance(getattr(config, "input_size", None), int):
        found["hidden_states"] = example.numbers(inputs["mask"].shape[-1], config.input_size)
    return found
