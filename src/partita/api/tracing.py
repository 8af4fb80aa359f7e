"""The model of an argument: text, a file, a graph or a module, traced as was asked.

Options that do not fit what it is raise ``InputError``.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeAlias

import msgspec

from partita.api.arguments import Inputs, Model, TorchModule
from partita.documents.document import document_keys, read_bytes
from partita.documents.stated import GRAPH_FORMAT, read_graph
from partita.frontends.given import together
from partita.frontends.models import load_model
from partita.frontends.torch import trace
from partita.ground.errors import InputError, NoBatchSizeError, TraceError
from partita.nouns.graph import Graph

#: What traces a model that is named: ``load_model``, or it with something around.
Load: TypeAlias = Callable[..., Graph]

#: By what is asked for, the flag of the command line, whose messages these are.
_FLAGS = {
    "batch_size": "--batch-size",
    "sequence_length": "--sequence-length",
    "dtype": "--dtype",
    "set": "--set",
    "task": "--task",
    "decode": "--decode",
    "lora": "--lora",
    "lora_targets": "--lora-targets",
}

#: Those that a module which is there already knows.
_OF_MODULES = ("--input", "--dtype", "--lora", "--lora-targets")


@dataclass(frozen=True, kw_only=True)
class Tracing:
    """What a model is traced for, as ``load_model`` takes it; ``set`` has fields of its configuration."""

    training: bool = False
    batch_size: int | None = None
    sequence_length: int | None = None
    dtype: str | None = None
    set: Mapping[str, object] | None = None
    task: str | None = None
    decode: int | None = None
    lora: int | None = None  #: Rank of adapters that are trained alone; None where all weights are trained.
    lora_targets: Sequence[str] = ()  #: Which layers have them; all linear ones but the head if empty.
    inputs: Inputs | None = None
    inputs_file: str | Path | None = None  #: A JSON or TOML file of further ones, by name.
    cache: bool = True  #: Whether the graph of an earlier trace may be taken, and this one be kept.
    load: Load = load_model

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> Self:
        """What of a public function's parameters, by name, says what a model is traced for."""
        names = {field.name for field in dataclasses.fields(cls)}
        return cls(**{name: value for name, value in parameters.items() if name in names})

    def given(self) -> Iterator[str]:
        """What was asked for beside training, as flags."""
        for name, flag in _FLAGS.items():
            value = getattr(self, name)
            if value is not None and not (name in ("set", "lora_targets") and not value):
                yield flag
        if self.inputs is not None:
            yield "--input"
        if self.inputs_file is not None:
            yield "--inputs"

    def named_inputs(self, model: str) -> Mapping[str, Any]:
        """Arguments that are given to a model that is named; only a module gets them by place."""
        if self.inputs is not None and not isinstance(self.inputs, Mapping):
            raise InputError(
                f"inputs of {model} are given by name, for example inputs={{'input_ids': '1x128:int64:0..99'}}; "
                "a tuple of arguments goes with a module"
            )
        return together(self.inputs or {}, self.inputs_file)

    @property
    def fields(self) -> dict[str, str]:
        """Fields of the configuration, as text: a value that is none is written in JSON."""
        found = {} if self.set is None else dict(self.set)
        return {name: value if isinstance(value, str) else json.dumps(value) for name, value in found.items()}


def model_name(model: Model) -> str:
    """What an argument is called in messages."""
    if isinstance(model, Graph):
        return model.name
    return str(model) if isinstance(model, str | Path) else type(model).__name__


def is_graph_file(text: str) -> bool:
    """Whether a text, which is a model, names a traced graph."""
    return not text.startswith("hf:") and text.endswith(".json")


def is_model(what: object) -> bool:
    """Whether an argument is a model rather than a problem or its file."""
    if not isinstance(what, str | Path):
        return isinstance(what, Graph) or is_module(what)
    text = str(what)
    if text.startswith("hf:") or ".py:" in text or text.endswith((".py", ".onnx")):
        return True
    path = Path(text)
    return path.suffix == ".json" and path.is_file() and format_of(path) == GRAPH_FORMAT


def is_module(what: object) -> bool:
    """Whether a value is a module of torch, which is loaded then."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(what, torch.nn.Module)


def format_of(path: str | Path) -> Any:
    """The ``format`` that a JSON file states; None for none."""
    return msgspec.json.decode(document_keys(read_bytes(path), path).get("format", b"null"))


def traced(model: Model, asked: Tracing) -> Graph:
    """The graph of a model.

    Raises
    ------
    InputError
        If it is no model, or something is asked of it that it does not know.
    TraceError
        If it cannot be built or traced.
    """
    if isinstance(model, Graph) or (isinstance(model, str | Path) and is_graph_file(str(model))):
        name = model_name(model)
        if (given := next(asked.given(), None)) is not None:
            raise InputError(
                f"{name} is a traced graph, which {given} cannot change; leave it out, or trace the model again"
            )
        graph = model if isinstance(model, Graph) else read_graph(model)
        if asked.training and not graph.training:
            raise InputError(f"{name} was traced without its backward part; trace it again with training")
        return graph
    if not isinstance(model, str | Path):
        return _traced_module(model, asked)
    named = {name: value for name, value in vars(asked).items() if name not in ("set", "inputs", "inputs_file", "load")}
    return asked.load(str(model), set_fields=asked.fields, inputs=asked.named_inputs(str(model)), **named)


def _traced_module(module: TorchModule, asked: Tracing) -> Graph:
    if not is_module(module):
        raise InputError(
            f"{module!r:.60} is no model; give 'hf:TYPE_OR_FILE', 'path/to/file.py:callable', the path of an ONNX or "
            "graph file, a Graph, or a torch.nn.Module with inputs=(…)"
        )
    name = type(module).__name__
    if asked.inputs is None:
        raise InputError(f"{name} is a module; give example arguments of one microbatch as inputs=(…)")
    wrong = next((flag for flag in asked.given() if flag not in _OF_MODULES), None)
    if wrong is not None:
        raise InputError(f"{name} is a module, which {wrong} cannot change; leave it out")
    by_name = isinstance(asked.inputs, Mapping)
    args: Sequence[Any] = () if by_name else asked.inputs  # type: ignore[assignment]
    kwargs: Mapping[str, Any] = asked.inputs if by_name else {}  # type: ignore[assignment]
    settings: dict[str, Any] = {"training": asked.training, "dtype": asked.dtype}
    return trace(module, args, kwargs, lora=asked.lora, lora_targets=asked.lora_targets, **settings)


def first_graph(model: Model, asked: Tracing, *, sized: bool) -> tuple[Graph, bool]:
    """The graph of a model, and whether the size of its microbatch is free: not given, and the model takes any.

    Where the size matters (``sized``) and is free, the first graph has one sample.
    """
    named = isinstance(model, str | Path) and not is_graph_file(str(model))
    # Arrays that are given have the size that they have.
    free = asked.batch_size is None and asked.inputs is None and asked.inputs_file is None
    if not (sized and named and free):
        return traced(model, asked), False
    try:
        return traced(model, with_samples(asked, 1)), True
    except NoBatchSizeError:
        # A callable without that parameter has one size.
        return traced(model, asked), False


def decoding_graph(model: Model, asked: Tracing, steps: Sequence[int]) -> Graph:
    """The graph of a step of decoding, after the first so many tokens that the model has positions for."""
    failure: InputError | None = None
    for tokens in steps:
        try:
            return traced(model, dataclasses.replace(asked, decode=tokens))
        except TraceError:
            raise
        except InputError as error:
            failure = failure or error
    assert failure is not None
    raise failure


def with_samples(asked: Tracing, size: int) -> Tracing:
    """The same with microbatches of another size."""
    return dataclasses.replace(asked, batch_size=size)
