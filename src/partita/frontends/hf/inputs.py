"""Example inputs of a transformers model, worked out from its signature and configuration."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

from partita.errors import InputError
from partita.frontends.given import FORM
from partita.frontends.hf.given import given_sets
from partita.frontends.hf.rules import RULES, Example, patches, placed
from partita.frontends.options import Asked

_DEFAULT_LENGTH = 1024
_PER_TOKEN = frozenset({"causal-lm", "masked-lm", "token-classification", "image-text-to-text"})
_PER_SAMPLE = frozenset(
    {"sequence-classification", "image-classification", "audio-classification", "video-classification"}
)


def make_inputs(model: Any, config: Any, task: str, dtype: Any, asked: Asked) -> dict[str, Any]:
    """Keyword arguments of one microbatch, with everything that the model takes: :func:`input_sets`'s first."""
    return input_sets(model, config, task, dtype, asked)[0]


def input_sets(model: Any, config: Any, task: str, dtype: Any, asked: Asked) -> list[dict[str, Any]]:
    """Keyword arguments of one microbatch, the fullest first; the later ones leave out what not every call needs.

    Text is ``sequence_length`` tokens (both sides of an encoder-decoder), images and audio have the size that the
    configuration names, else 224 × 224 pixels and one second. There is no padding, so no attention mask. In training
    the labels are given where the head takes plain ones; otherwise the trace makes up a loss. Numbers are on the meta
    device; whole numbers that are few have values.

    Raises
    ------
    InputError
        If the sequence is longer than the model can take, or an argument is needed that no rule makes.
    """
    parameters = inspect.signature(model.forward).parameters
    accepted = set(parameters)
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    example = Example(config, task, dtype, asked.samples, _length(model, text, asked.sequence_length))
    inputs: dict[str, Any] = {}
    needed = [
        name
        for name, parameter in parameters.items()
        if parameter.default is inspect.Parameter.empty and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ]
    main = getattr(model, "main_input_name", "input_ids")
    if main in RULES and main in accepted:
        needed.append(main)
    for name in dict.fromkeys(needed):
        if name in asked.inputs:
            # Put in its place at the end.
            inputs[name] = None
            continue
        if name not in RULES:
            raise InputError(
                f"model type {config.model_type!r} needs an argument {name!r}, which is not made by itself; "
                f"give it with --input {name}={FORM}"
            )
        inputs[name] = RULES[name](example)
    if "hidden_states" in inputs and "grid_thw" in inputs:
        inputs["hidden_states"] = patches(example)
    if "pixel_values" in inputs and "spatial_shapes" in needed:
        rows, columns, features, _ = example.grid
        inputs["pixel_values"] = example.numbers(rows * columns, features)
    if not inputs or (task in {"zero-shot-image-classification", "base"} and "input_ids" in accepted):
        inputs.setdefault("input_ids", RULES["input_ids"](example))
    if task == "zero-shot-image-classification" and asked.training and "return_loss" in accepted:
        inputs["return_loss"] = True
    if "bbox" in accepted and "input_ids" in inputs:
        inputs["bbox"] = RULES["bbox"](example)
    labels = _labels(example) if asked.training and "labels" in accepted else None
    two_sided = getattr(config, "is_encoder_decoder", False) and "decoder_input_ids" in accepted
    if two_sided and labels is None:
        inputs["decoder_input_ids"] = RULES["decoder_input_ids"](example)
    if labels is not None:
        inputs["labels"] = labels
        if two_sided and getattr(config, "decoder_start_token_id", None) is None:
            # The decoder's input is the labels shifted behind a start token, which default configurations leave open.
            config.decoder_start_token_id = 0
    if asked.training and task == "question-answering" and "start_positions" in accepted:
        inputs["start_positions"] = example.integers()
        inputs["end_positions"] = example.integers()
    if "use_cache" in accepted:
        inputs["use_cache"] = False
    sets = [inputs]
    for others in _towers(example, accepted - set(inputs)):
        sets.insert(0, {**inputs, **others})
    # Some code does not say what it cannot do without.
    everything = {name: rule for name, rule in RULES.items() if name in accepted and name not in sets[0]}
    if everything:
        sets.append({**sets[0], **{name: rule(example) for name, rule in everything.items()}})
    return given_sets(sets, model, config, dtype, asked)


def _towers(example: Example, accepted: set[str]) -> list[dict[str, Any]]:
    """Arguments of the towers beside the main one, the usual ones last."""
    config, found = example.config, list[dict[str, Any]]()
    audio = [name for name in ("input_features", "input_values") if name in accepted]
    if audio and example.audio is not config:
        found.append({audio[0]: RULES[audio[0]](example)})
    if "pixel_values" in accepted and (example.vision is not config or hasattr(config, "image_size")):
        images = {"pixel_values": RULES["pixel_values"](example)}
        if "image_grid_thw" in accepted:
            images = {"pixel_values": patches(example), "image_grid_thw": RULES["image_grid_thw"](example)}
            images |= placed(example, "mm_token_type_ids" in accepted)
        elif "image_sizes" in accepted:
            images["image_sizes"] = RULES["image_sizes"](example)
        found.append(images)
        if len(found) == 2:
            found.append({**found[0], **found[1]})
    return found


def decoding_inputs(model: Any, config: Any, task: str, dtype: Any, asked: Asked) -> dict[str, Any]:
    """Keyword arguments of one step of decoding: a token of each sample, and the cache of those before."""
    from partita.frontends.hf.cache import resident_cache

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


def _labels(example: Example) -> Any:
    if example.task in _PER_TOKEN or example.task in {"seq2seq-lm", "speech-seq2seq"}:
        return example.tokens(example.length)
    return example.integers() if example.task in _PER_SAMPLE else None


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
