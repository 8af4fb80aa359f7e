"""Example inputs of a transformers model, worked out from its signature and configuration."""

from __future__ import annotations

import dataclasses
import inspect
import linecache
import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from partita.frontends.fill import fill_module
from partita.frontends.given import FORM, given_sizes
from partita.frontends.hf import rules
from partita.frontends.hf.audio import SOUND, settle_sound, sound_arguments
from partita.frontends.hf.described import describe, make_described
from partita.frontends.hf.images import IMAGES, image_arguments
from partita.frontends.hf.refit import place_features
from partita.frontends.hf.rules import Example
from partita.frontends.options import Asked
from partita.ground.errors import InputError, TraceError
from partita.inside.messages import GREY_IMAGES

RULES = {**rules.RULES, **IMAGES, **SOUND}
"""Argument to the rule that makes it."""

#: Tasks whose labels are a number for each token, or for each sample.
_PER_TOKEN = ["causal-lm", "masked-lm", "token-classification", "image-text-to-text", "seq2seq-lm", "speech-seq2seq"]
_PER_SAMPLE = ["sequence-classification", "image-classification", "audio-classification", "video-classification"]


def input_sets(example: Example) -> list[dict[str, Any]]:
    """Keyword arguments of one microbatch, the fullest first; the later ones leave out what not every call needs.

    Text is ``sequence_length`` tokens (both sides of an encoder-decoder), and more where the features of images and
    sounds, which have places in the text, take more. Images have the size that the configuration names, else 224 × 224
    pixels. There is no padding, so no attention mask. In training the labels are given where the head takes plain ones;
    otherwise the trace makes up a loss. Numbers are on the meta device; whole numbers that are few have values. An
    argument that is needed and that no rule makes is an ``InputError``.
    """
    plain = _plain(example)
    sets = [plain]
    for others in _towers(example):
        full = place_features(example, {**plain, **others})
        labels, tokens = full.get("labels"), full.get("input_ids")
        if labels is not None and tokens is not None and "decoder_input_ids" not in full:
            # As long as the tokens, where these have grown.
            full["labels"] = labels if labels.dim() != 2 or labels.shape == tokens.shape else tokens.clone()
        sets.insert(0, full)
    # Some code does not say what it cannot do without.
    left = [name for name in sorted(example.accepted) if name not in sets[0] and name not in _NEVER]
    everything = {name: value for name in left if (value := _make(example, name)) is not None}
    if everything:
        sets.append({**sets[0], **everything})
    return _given_sets(sets, example)


def completed(example: Example, inputs: Mapping[str, Any], error: TraceError) -> dict[str, Any] | None:
    """Arguments with those that an error asks for; None if it names none that is not given and can be made.

    Either its message names them, or the line of the model's call that failed reads them.
    """
    message, asked = str(error), example.asked
    if "to unpack (expected 4, got 3)" in message or GREY_IMAGES in message:
        # Features by name, but an image.
        own = {name: value for name, value in inputs.items() if name not in asked.inputs}
        wrong = [name for name in ("hidden_states", "x", "features") if name in own]
        if wrong:
            return {**inputs, wrong[0]: example.numbers(*example.image)}
        pixels = own.get("pixel_values")
        # One image of several that a sample may have.
        return None if pixels is None or pixels.dim() != 4 else {**inputs, "pixel_values": pixels.unsqueeze(1)}
    left = [
        name for name in inspect.signature(example.model.forward).parameters if name not in {*inputs, *asked.inputs}
    ]
    missing = []
    if _ASKS.search(message):
        missing = [name for name in left if name not in _NEVER and re.search(rf"\b{re.escape(name)}\b", message)]
    if not missing and "NoneType" in message:
        unset = unset_arguments(error, example.model)
        missing = [name for name in unset if name in left and (name == "inputs_embeds" or name not in _NEVER)]
    made = {name: value for name in missing if (value := _make(example, name)) is not None}
    return {**inputs, **made} if made else None


def unset_arguments(error: BaseException, model: Any) -> list[str]:
    """Names of arguments of a model's ``forward`` that are None, in the line of it that failed; empty if none is."""
    code = getattr(inspect.unwrap(type(model).forward), "__code__", None)
    cause = error.__cause__
    frames = [] if cause is None else list(traceback.walk_tb(cause.__traceback__))
    own = [(frame, line) for frame, line in frames if frame.f_code is code]
    if not own:
        return []
    frame, number = own[-1]
    words = re.findall(r"\w+", linecache.getline(frame.f_code.co_filename, number))
    names = frame.f_code.co_varnames[: frame.f_code.co_argcount + frame.f_code.co_kwonlyargcount]
    return [name for name in dict.fromkeys(words) if name in names and frame.f_locals.get(name, model) is None]


#: Words of a message that asks for an argument.
_ASKS = re.compile(r"must|need|specify|provide|given|missing|require|None")
#: Arguments that are not made unless they are asked for, and those whose documentation says more than their name.
_NEVER, _VAGUE = (frozenset(rules.TABLE[key].split()) for key in ("never", "vague"))


def decoding_inputs(model: Any, task: str, dtype: Any, asked: Asked) -> dict[str, Any]:
    """Keyword arguments of one step of decoding: a token of each sample, and the cache of those before."""
    from partita.frontends.hf.cache import resident_cache

    assert asked.decode is not None
    config = model.config
    # Images and sounds were read with the tokens before.
    example = Example(model, task, dtype, dataclasses.replace(asked, sequence_length=1))
    if getattr(config, "is_encoder_decoder", False) or "past_key_values" not in example.accepted:
        raise InputError(
            f"task {task!r} of model type {config.model_type!r} does not decode token by token; "
            "decoding is for decoders, such as causal-lm of gpt2 or llama"
        )
    # Whether the model has so many positions.
    Example(model, task, dtype, dataclasses.replace(asked, sequence_length=asked.decode + 1))
    (inputs,) = _given_sets([_plain(example)], example)
    return {**inputs, "past_key_values": resident_cache(model, inputs, asked.decode)}


def _plain(example: Example) -> dict[str, Any]:
    """What every call needs, and labels in training."""
    config, task, training, accepted = example.config, example.task, example.asked.training, example.accepted
    inputs = _needed(example)
    if not inputs or ("input_ids" in accepted and "inputs_embeds" not in inputs):
        inputs.setdefault("input_ids", RULES["input_ids"](example))
    if task == "zero-shot-image-classification" and training and "return_loss" in accepted:
        inputs["return_loss"] = True
    if "bbox" in accepted and "input_ids" in inputs:
        inputs["bbox"] = RULES["bbox"](example)
    labels = None
    if training and "labels" in accepted and (task in _PER_TOKEN or task in _PER_SAMPLE):
        labels = example.tokens(example.length) if task in _PER_TOKEN else example.integers()
    two_sided = getattr(config, "is_encoder_decoder", False) and "decoder_input_ids" in accepted
    if two_sided and labels is None:
        inputs["decoder_input_ids"] = RULES["decoder_input_ids"](example)
    if labels is not None:
        inputs["labels"] = labels
        if two_sided and getattr(config, "decoder_start_token_id", None) is None:
            # The decoder's input is the labels shifted behind a start token, which default configurations leave open.
            config.decoder_start_token_id = 0
    if training and task == "question-answering" and "start_positions" in accepted:
        inputs["start_positions"] = example.integers()
        inputs["end_positions"] = example.integers()
    if "use_cache" in accepted:
        inputs["use_cache"] = False
    return inputs


def _needed(example: Example) -> dict[str, Any]:
    """Arguments that have no default, and the one that the model calls its main one; None for what is given."""
    model, accepted = example.model, example.accepted
    parameters = inspect.signature(model.forward).parameters
    needed = [
        name
        for name, parameter in parameters.items()
        if parameter.default is inspect.Parameter.empty and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ]
    main = getattr(model, "main_input_name", "input_ids")
    needed += [name for name in ([main] if isinstance(main, str) else main) if name in RULES and name in accepted]
    inputs: dict[str, Any] = {}
    cut = image_arguments(example) if _IMAGE_NAMES & set(needed) else {}
    for name in dict.fromkeys(needed):
        if name in inputs:
            continue
        if name in example.asked.inputs:
            inputs[name] = None
            continue
        if name in cut:
            inputs |= cut
            continue
        value = _make(example, name)
        if value is None and name not in RULES:
            said = describe(model, name)
            what = f" ({said.replace('`', '')})" if said else ""
            raise InputError(
                f"model type {example.config.model_type!r} needs an argument {name!r}{what}, which is not made by "
                f"itself; give it with --input {name}={FORM}"
            )
        inputs[name] = value
    return settle_sound(inputs, example)


_IMAGE_NAMES = frozenset({"pixel_values", "hidden_states", "flattened_patches"})


def _make(example: Example, name: str) -> Any:
    """An argument by the rule for its name, else as it is documented."""
    if name in RULES and name not in _VAGUE:
        return RULES[name](example)
    made = make_described(example, name)
    return RULES[name](example) if made is None and name in RULES else made


def _towers(example: Example) -> list[dict[str, Any]]:
    """Arguments of the towers beside the main one, the usual ones last."""
    config, found = example.config, list[dict[str, Any]]()
    if example.audio is not config and (sound := sound_arguments(example)):
        found.append(sound)
    images = image_arguments(example)
    if images:
        found.append(images)
        if len(found) == 2:
            found.append({**found[0], **found[1]})
        if "image_sizes" in images and "pixel_values" in images and images["pixel_values"].dim() == 4:
            # Not every tower that a model may have takes sizes.
            found.append({name: value for name, value in found[-1].items() if name != "image_sizes"})
    return found


# -- inputs that a user gives ------------------------------------------------------------------------------------------


def sized(asked: Asked) -> Asked:
    """What is asked for, with the samples and the length of a text that is given: what is made goes with it."""
    shape = given_sizes(asked.inputs, "input_ids", "decoder_input_ids")
    if shape is None or len(shape) != 2 or asked.decode is not None:
        return asked
    return dataclasses.replace(
        asked,
        batch_size=shape[0] if asked.batch_size is None else asked.batch_size,
        sequence_length=shape[1] if asked.sequence_length is None else asked.sequence_length,
    )


def _given_sets(sets: Sequence[dict[str, Any]], example: Example) -> list[dict[str, Any]]:
    """Sets of keyword arguments with the given ones in each; those that are the same then are left out."""
    model, inputs = example.model, example.asked.inputs
    if not inputs:
        return list(sets)
    what = f"{type(model).__name__} of model type {model.config.model_type!r}"
    found: list[dict[str, Any]] = []
    for made in sets:
        _, kwargs = fill_module(inputs, model, (), made, what, example.dtype, RULES)
        if not any(set(kwargs) == set(before) for before in found):
            found.append(kwargs)
    return found


def check_length(
    made: Mapping[str, Any], make: Callable[[Asked], Mapping[str, Any]], config: Any, asked: Asked
) -> None:
    """Refuse a length of sequences that nothing of what is made for a model follows."""
    if asked.sequence_length is None or asked.inputs or "input_ids" in made:
        # Text may be longer than was asked for, where the features of images have places in it.
        return
    other = make(dataclasses.replace(asked, sequence_length=asked.sequence_length // 2 or 2))
    first, second = ({name: getattr(value, "shape", None) for name, value in sizes.items()} for sizes in (made, other))
    if first == second:
        raise InputError(
            f"model type {config.model_type!r} takes no sequence whose length could be set; leave the sequence length "
            "out"
        )
