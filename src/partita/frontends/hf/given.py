"""Inputs that a user gives beside, or instead of, those that are made for a transformers model."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from partita.frontends.fill import fill_module
from partita.frontends.given import given_sizes
from partita.frontends.hf.rules import Example
from partita.frontends.options import Asked
from partita.ground.errors import InputError


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


def given_sets(sets: Sequence[dict[str, Any]], example: Example, known: Collection[str]) -> list[dict[str, Any]]:
    """Sets of keyword arguments with the given ones in each; those that are the same then are left out.

    ``known`` are names of arguments that models may take beside those of their signature.
    """
    model, inputs = example.model, example.asked.inputs
    if not inputs:
        return list(sets)
    what = f"{type(model).__name__} of model type {model.config.model_type!r}"
    found: list[dict[str, Any]] = []
    for made in sets:
        _, kwargs = fill_module(inputs, model, (), made, what, example.dtype, known)
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
    if _shapes(made) == _shapes(other):
        raise InputError(
            f"model type {config.model_type!r} takes no sequence whose length could be set; leave the sequence length "
            "out"
        )


def _shapes(made: Mapping[str, Any]) -> dict[str, tuple[int, ...] | None]:
    return {name: getattr(value, "shape", None) for name, value in made.items()}
