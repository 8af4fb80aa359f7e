"""A model named on the command line, as a graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from partita.checks import check_at_least
from partita.errors import InputError, require
from partita.frontends.options import Asked
from partita.graph import Graph


def load_model(
    spec: str,
    *,
    batch_size: int | None = None,
    sequence_length: int | None = None,
    dtype: str | None = None,
    set_fields: Mapping[str, str] | None = None,
    task: str | None = None,
    training: bool = False,
    decode: int | None = None,
) -> Graph:
    """Trace the model that ``spec`` names.

    Parameters
    ----------
    spec
        ``hf:TYPE`` (a transformers model type with its default configuration, for example ``hf:llama``), ``hf:FILE`` (a
        configuration in JSON), or ``path/to/file.py:callable`` where the callable returns ``(module, args)`` or
        ``(module, args, kwargs)``. A callable that has parameters named ``batch_size``, ``sequence_length`` or
        ``training`` is given them.
    batch_size
        Samples in one microbatch; 1, or what the callable does by itself, unless stated.
    sequence_length
        Tokens per sample; by default 1024, or the model's maximum if that is less.
    dtype
        Number format of weights and floating inputs, for example ``float16``. By default what a configuration file
        says, otherwise ``bfloat16`` for ``hf:`` models, and what the callable built for files.
    set_fields
        Configuration fields to change (for ``hf:``; ``text_config.hidden_size`` reaches a nested one) or further
        keyword arguments of the callable; values are JSON or else text.
    task
        The head of an ``hf:`` model, for example ``causal-lm``; by default one that suits the type.
    training
        Whether to trace forward and backward.
    decode
        For an ``hf:`` decoder: one step that makes one token after so many, whose keys and values are in a cache. The
        cache is buffers of the attention modules, written in place; None for a run over ``sequence_length`` tokens.

    Returns
    -------
    Graph

    Raises
    ------
    MissingExtraError
        If torch, or for ``hf:`` transformers, is not installed.
    InputError
        If the spec, a field, the task or another option is wrong.
    TraceError
        If the model cannot be built or traced.
    """
    check_at_least("batch size", 1 if batch_size is None else batch_size)
    check_at_least("sequence length", 1 if sequence_length is None else sequence_length)
    forms = "'hf:TYPE_OR_FILE' or 'path/to/file.py:callable'"
    if not spec.startswith("hf:") and ".py:" not in spec and not spec.endswith(".py"):
        raise InputError(f"model {spec!r} is not of a form that can be traced; write {forms}")
    require("torch", "torch")
    asked = Asked(batch_size, sequence_length, dtype, dict(set_fields or {}), task, training, decode)
    if decode is not None:
        _check_decode(spec, asked)
    if spec.startswith("hf:"):
        require("transformers", "torch")
        from partita.frontends.hf import load_transformers

        return load_transformers(spec[3:], asked)
    if task is not None:
        raise InputError("a task picks the head of an hf: model; a Python file builds its own")
    from partita.frontends.userfile import load_file

    return load_file(spec, asked)


def build_model(spec: str, asked: Asked) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Module, arguments and keyword arguments of the model that ``spec`` names, with real weights and inputs.

    A Python file's callable says what they hold; ``hf:`` models get random ones. Errors are those of ``load_model``.
    """
    require("torch", "torch")
    if spec.startswith("hf:"):
        require("transformers", "torch")
        from partita.frontends.hf import build_transformers

        return build_transformers(spec[3:], asked)
    if ".py:" not in spec:
        raise InputError(f"model {spec!r} cannot be run; give 'hf:TYPE_OR_FILE' or 'path/to/file.py:callable'")
    from partita.frontends.userfile import build_file

    return build_file(spec, asked, real=True)


def _check_decode(spec: str, asked: Asked) -> None:
    """Refuse what a step of decoding does not go with."""
    check_at_least("tokens before a step of decoding", asked.decode or 0)
    if not spec.startswith("hf:"):
        raise InputError(f"decoding one token is for hf: models; let the callable of {spec} build that step")
    if asked.training:
        raise InputError("a model is trained on whole sequences, not on steps of decoding; leave one of both out")
    if asked.sequence_length is not None:
        raise InputError(
            f"a step of decoding makes one token, here after {asked.decode}; leave the sequence length out"
        )
