"""Example arguments of speech, sound and music: waves, spectrograms and their lengths."""

from __future__ import annotations

from typing import Any

from partita.frontends.hf.rules import Example, Rule, first

#: Samples of a wave: one second of what most models take.
_SAMPLES = 16000
#: Frames of a spectrogram: 30 seconds at 10 ms.
_FRAMES = 3000


def _features(example: Example) -> Any:
    """Spectrograms: frames × bins, or bins × frames for encoders that begin with a convolution over time."""
    config, audio = example.config, example.audio
    bins = first(audio, "num_mel_bins", "feature_size", "input_feat_per_channel", "input_dim", "n_mels", default=80)
    if hasattr(audio, "max_source_positions"):
        frames = 2 * audio.max_source_positions
    else:
        frames = first(audio, "max_length", default=_FRAMES) if hasattr(audio, "spec_size") else _FRAMES
    if hasattr(audio, "spec_size"):
        return example.numbers(1, 1001, bins)
    turned = any(mark in f"{config.model_type} {getattr(audio, 'model_type', '')}" for mark in _BINS_FIRST)
    return example.numbers(bins, frames) if turned else example.numbers(frames, bins)


#: Encoders in the manner of Whisper.
_BINS_FIRST = ("whisper", "qwen2_audio", "audioflamingo", "voxtral", "glmasr", "musicflamingo", "vibevoice", "moss")


def _values(example: Example) -> Any:
    config = example.config
    if hasattr(config, "max_length") and hasattr(config, "num_mel_bins") and hasattr(config, "patch_size"):
        return example.numbers(config.max_length, config.num_mel_bins)
    codec = hasattr(config, "codebook_size") or hasattr(config, "upsampling_ratios")
    return example.numbers(first(config, "audio_channels", default=1), _SAMPLES) if codec else example.numbers(_SAMPLES)


SOUND: dict[str, Rule] = {
    "mel_spectrogram": lambda e: e.numbers(first(e.config, "mel_dim", default=80), _FRAMES // 10),
    "input_features_mask": lambda e: e.integers(_FRAMES),
    "feature_lens": lambda e: e.integers() * _FRAMES,
    "feature_attention_mask": lambda e: e.integers(_FRAMES),
    "spectrogram": lambda e: e.numbers(_FRAMES // 10, first(e.config, "model_in_dim", "num_mel_bins", default=80)),
    "input_features": _features,
    "input_values": _values,
}
"""Argument to the rule that makes it."""
