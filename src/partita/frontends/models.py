"""A model named on the command line: as a graph, or as the module itself."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from partita.frontends.given import given_sizes, read_inputs
from partita.frontends.kept.graphs import kept
from partita.frontends.options import Adapters, Asked, asked_of
from partita.frontends.torch import BuiltModel
from partita.frontends.userfile import build_file
from partita.ground.checks import check_at_least
from partita.ground.collecting import collecting_rarely
from partita.ground.errors import InputError, TraceError, require
from partita.nouns.graph import Graph, Source

#: Samples of a microbatch and tokens of a sample that are taken for a slip of the keyboard beyond: sizes of parts of
#: the inputs, such as those of images, are values and take memory.
MOST_SAMPLES, MOST_TOKENS = 2**20, 2**24


@collecting_rarely()
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
    inputs: Mapping[str, object] | None = None,
    lora: int | None = None,
    lora_targets: Sequence[str] = (),
    cache: bool = True,
) -> Graph:
    """Trace the model that ``spec`` names, or take its graph of an earlier trace.

    Parameters
    ----------
    spec
        ``hf:TYPE`` (a transformers model type with its default configuration, for example ``hf:llama``), ``hf:FILE`` (a
        configuration in JSON), ``path/to/model.onnx``, or ``path/to/file.py:callable`` where the callable returns
        ``(module, args)`` or ``(module, args, kwargs)``. A callable that has parameters named ``batch_size``,
        ``sequence_length`` or ``training`` is given them.
    batch_size
        Samples in one microbatch; 1, or what the callable does by itself, unless stated.
    sequence_length
        Tokens per sample; by default 1024, or the model's maximum if that is less.
    dtype
        Number format of weights and floating inputs, for example ``float16``. By default what a configuration file
        says, otherwise ``bfloat16`` for ``hf:`` models, and what the callable built for files.
    set_fields
        Configuration fields to change (for ``hf:``; ``text_config.hidden_size`` reaches a nested one) or further
        keyword arguments of the callable; values are JSON or else text. For ONNX files, sizes of open dimensions.
    task
        The head of an ``hf:`` model, for example ``causal-lm``; by default one that suits the type.
    training
        Whether to trace forward and backward.
    decode
        For an ``hf:`` decoder: one step that makes one token after so many, whose keys and values are in a cache. The
        cache is buffers of the attention modules, written in place; None for a run over ``sequence_length`` tokens.
    inputs
        Arguments of the model that are given rather than made, by name: arrays as ``1x3x224x224:float32``,
        ``1x64:int64:0..99`` (values drawn between these), ``[3, 5]:int64``, or as a table of ``shape``, ``dtype``,
        ``low``, ``high`` or ``values``; or plain values. None leaves an argument out. For ONNX files, of its inputs.
    lora
        Training of low-rank adapters of this rank, with all other weights frozen (``partita.frontends.adapters``).
    lora_targets
        Ends of the names of the linear layers that have adapters, such as ``q_proj``; all but the output head unless
        stated.

    Returns
    -------
    Graph

    Raises
    ------
    MissingExtraError
        If torch, for ``hf:`` transformers, or for ONNX files onnx, is not installed.
    InputError
        If the spec, a field, the task or another option is wrong.
    TraceError
        If the model cannot be built or traced.
    """
    given = read_inputs(inputs or {})
    adapters = Adapters.of(lora, lora_targets, training=training)
    fields = dict(set_fields or {})
    asked = Asked(batch_size, sequence_length, dtype, fields, task, training, decode, given, adapters)
    of_hub = _checked(spec, asked)
    return kept(spec, asked, lambda: _traced(spec, asked, of_hub)) if cache else _traced(spec, asked, of_hub)[0]


def _traced(spec: str, asked: Asked, of_hub: bool) -> tuple[Graph, frozenset[str]]:
    """The graph of a model that is traced now, and the Python modules that its classes are of."""
    if not of_hub and spec.endswith(".onnx"):
        from partita.frontends.onnx.load import load_onnx

        return load_onnx(spec, asked), frozenset()
    with _saying_inputs():
        model = _built(spec, asked, of_hub, real=False)
        classes = frozenset(type(module).__module__ for module in model.module.modules())
        return model.trace().replace(source=model.asked.source(spec)), classes


def load_module(source: Source, *, seed: int | None = None) -> BuiltModel:
    """The module of a source again, with example arguments; ``trace`` of it gives the graph again.

    Without a ``seed`` it is as it was traced: no weights are allocated where that is possible. With one it is on the
    CPU with weights that follow from the seed; arguments of ``hf:`` models have no data all the same. Errors are those
    of ``load_model``; an ONNX file, which holds no module, is an ``InputError``.
    """
    asked = asked_of(source)
    if source.model.endswith(".onnx"):
        raise InputError(f"{source.model} is an ONNX file; it cannot be made a PyTorch module again")
    of_hub = _checked(source.model, asked)
    with ExitStack() as after:
        if seed is not None:
            import torch

            after.callback(random.setstate, random.getstate())
            after.enter_context(torch.random.fork_rng(devices=[]))
            random.seed(seed)
            torch.manual_seed(seed)
        after.enter_context(_saying_inputs())
        return _built(source.model, asked, of_hub, real=seed is not None)


def _built(spec: str, asked: Asked, of_hub: bool, *, real: bool) -> BuiltModel:
    if not of_hub:
        return build_file(spec, asked, real=real)
    from partita.frontends.hf.inputs import sized
    from partita.frontends.hf.load import build_transformers

    return build_transformers(spec[3:], sized(asked), real=real)


@contextmanager
def _saying_inputs() -> Iterator[None]:
    """Add to the message of a failed trace what the model was run on, and how to give it something else."""
    try:
        yield
    except TraceError as error:
        if not error.inputs:
            raise
        raise TraceError(f"{error}; {error.inputs}") from error


def _checked(spec: str, asked: Asked) -> bool:
    """Whether a spec is of transformers; what is not right about it or what is asked for is an error."""
    for what, count, most in (
        ("batch size", asked.batch_size, MOST_SAMPLES),
        ("sequence length", asked.sequence_length, MOST_TOKENS),
    ):
        check_at_least(what, 1 if count is None else count)
        if count is not None and count > most:
            raise InputError(f"{what} {count:,} is out of range; models are traced with at most {most:,}")
    forms = "'hf:TYPE_OR_FILE', 'path/to/file.py:callable' or 'path/to/model.onnx'"
    of_hub = spec.startswith("hf:")
    of_onnx = spec.endswith(".onnx") and not of_hub
    if not of_hub and not of_onnx and ".py:" not in spec and not spec.endswith(".py"):
        raise InputError(f"model {spec!r} is not of a form that can be traced; write {forms}")
    if not of_onnx:
        require("torch", "torch")
    if asked.decode is not None:
        _check_decode(spec, asked)
    if of_hub:
        require("transformers", "torch")
    elif asked.task is not None:
        raise InputError("a task picks the head of an hf: model; a file has its own")
    if of_onnx:
        _check_onnx(spec, asked)
        require("onnx", "onnx")
    return of_hub


def _check_onnx(path: str, asked: Asked) -> None:
    """Refuse what an ONNX file has settled."""
    if asked.training:
        raise InputError(
            f"{path} is an ONNX file, which holds no backward pass and does not say what is trained; plan its "
            "training from the PyTorch model (path/to/file.py:callable), or leave --training out"
        )
    if asked.dtype is not None:
        raise InputError(f"{path} states its own number formats; leave --dtype out, or convert the file")
    if asked.sequence_length is not None:
        raise InputError(
            f"{path} names its dimensions itself; give the length of a sequence as --set NAME=VALUE, and leave "
            "--sequence-length out"
        )


def _check_decode(spec: str, asked: Asked) -> None:
    """Refuse what a step of decoding does not go with."""
    check_at_least("tokens before a step of decoding", asked.decode or 0)
    if not spec.startswith("hf:"):
        remedy = "export that step" if spec.endswith(".onnx") else f"let the callable of {spec} build that step"
        raise InputError(f"decoding one token is for hf: models; {remedy}")
    shape = given_sizes(asked.inputs, "input_ids", "inputs_embeds")
    if shape is not None and shape[1:2] != (1,):
        raise InputError(
            f"a step of decoding makes one token, and the given text is of the shape {list(shape)}; leave it out, or "
            "give one token of each sample"
        )
    if asked.training:
        raise InputError("a model is trained on whole sequences, not on steps of decoding; leave one of both out")
    if asked.sequence_length is not None:
        raise InputError(
            f"a step of decoding makes one token, here after {asked.decode}; leave the sequence length out"
        )
