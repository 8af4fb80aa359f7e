"""Options that several frontends read the same way."""

from __future__ import annotations

import ast
import json
import logging
import operator
import sysconfig
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from partita.ground.errors import InputError
from partita.ground.names import meant
from partita.nouns.graph import Source

_LOG = logging.getLogger("partita")

#: Number formats of weights by every name that they have.
FLOATS = {
    "float64": "float64",
    "float32": "float32",
    "fp32": "float32",
    "float16": "float16",
    "fp16": "float16",
    "half": "float16",
    "bfloat16": "bfloat16",
    "bf16": "bfloat16",
}


@dataclass(frozen=True)
class Adapters:
    """Low-rank adapters that a model is trained with: their rank, and the ends of the names of layers that have them.

    ``partita.frontends.adapters`` says what they are.
    """

    rank: int
    targets: tuple[str, ...] = ()  #: Every linear layer but the output head if empty.

    @classmethod
    def of(cls, rank: object, targets: Sequence[str], *, training: bool) -> Adapters | None:
        """What was asked for, None for nothing; what cannot be is an ``InputError``."""
        if rank is None:
            if targets:
                raise InputError(
                    "lora targets say which layers have adapters; give the rank of these, too, for example --lora 16"
                )
            return None
        if not isinstance(rank, int) or isinstance(rank, bool) or rank < 1:
            raise InputError(f"lora rank {rank!r} is out of range; give a whole number of at least 1, for example 16")
        if not training:
            raise InputError("lora trains adapters beside frozen weights; add --training, or leave --lora out")
        return cls(rank, tuple(targets))


@dataclass(frozen=True)
class Asked:
    """What a model is to be traced for, as :func:`partita.frontends.models.load_model` takes it."""

    batch_size: int | None
    sequence_length: int | None
    dtype: str | None
    fields: Mapping[str, str]
    task: str | None
    training: bool
    decode: int | None = None
    inputs: Mapping[str, Any] = field(default_factory=dict)
    adapters: Adapters | None = None  #: Trained alone, beside frozen weights.

    @property
    def samples(self) -> int:
        """Samples in a microbatch: one unless asked for more."""
        return 1 if self.batch_size is None else self.batch_size

    def source(self, spec: str) -> Source:
        """What makes the model of a spec again."""
        given = {name: getattr(self, name) for name in _RECORDED}
        if self.inputs:
            given["inputs"] = dict(self.inputs)
        if self.adapters is not None:
            given |= {"lora": self.adapters.rank, "lora_targets": list(self.adapters.targets)}
        return Source(model=spec, settings={**given, "set": dict(self.fields)}, training=self.training)


#: Buffers of a layer that hold the keys and values of earlier tokens while it decodes.
CACHED = ("cached_keys", "cached_values")

_RECORDED = ("batch_size", "sequence_length", "dtype", "task", "decode")


def asked_of(source: Source) -> Asked:
    """What a source was asked for; what is no setting is an ``InputError``."""
    settings = dict(source.settings)
    fields = settings.pop("set", {})
    inputs = settings.pop("inputs", {})
    lora, targets = settings.pop("lora", None), tuple(settings.pop("lora_targets", ()))
    unknown = sorted(set(settings) - set(_RECORDED))
    wrong = [*unknown, *(name for name, table in (("set", fields), ("inputs", inputs)) if not isinstance(table, dict))]
    if wrong:
        raise InputError(f"the source of model {source.model!r} has a setting {wrong[0]!r} that is unknown")
    given = {name: settings.get(name) for name in _RECORDED}
    fields = {name: str(value) for name, value in fields.items()}
    adapters = Adapters.of(lora, targets, training=source.training)
    return Asked(fields=fields, training=source.training, inputs=inputs, adapters=adapters, **given)


def parse_dtype(text: str) -> Any:
    """The torch dtype of a name such as ``bfloat16`` or ``fp16``; an unknown one is an ``InputError``."""
    import torch

    name = FLOATS.get(text.lower().removeprefix("torch."))
    if name is None:
        raise InputError(f"dtype {text!r} is not known; use one of {', '.join(sorted(FLOATS))}")
    return getattr(torch, name)


def parse_value(text: str) -> Any:
    """A value given on the command line: JSON if it is JSON, otherwise the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        lowered = text.lower()
        return {"true": True, "false": False, "none": None}.get(lowered, text)


def computed(node: ast.expr, look: Callable[[str], Any], inner: Callable[[ast.expr], Any] | None = None) -> Any:
    """What an expression of sizes comes to, names looked up and other parts by ``inner``; else a ``ValueError``."""
    each = inner or (lambda part: computed(part, look))
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        return _OPERATIONS[type(node.op)](each(node.left), each(node.right))
    if isinstance(node, ast.Name):
        return look(node.id)
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    raise ValueError("not a size")


_OPERATIONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
}


def one_line(error: BaseException) -> str:
    """An error's type and the beginning of its message."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def where(error: BaseException, path: Path | None = None) -> str:
    """`` (file.py, line 3)`` of the innermost line of a user's code that an error passed; empty if there is none.

    A user's code is what lies in the folder of ``path``, or outside installed packages if no path is given.
    """
    folder = None if path is None else path.resolve().parent
    foreign = [Path(__file__).resolve().parents[1], Path(sysconfig.get_paths()["stdlib"]).resolve()]
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = Path(frame.filename).resolve()
        installed = {"site-packages", "dist-packages"}.intersection(file.parts)
        own = not any(map(file.is_relative_to, foreign)) if folder is None else file.is_relative_to(folder)
        if own and not installed and Path(frame.filename).is_file():
            return f" ({Path(frame.filename).name}, line {frame.lineno})"
    return ""


def passed_over(what: str, error: BaseException) -> None:
    """Keep what code of others raised where its answer is only a help: in the log of "partita", at level debug."""
    _LOG.debug("%s: %s", what, one_line(error), exc_info=error)


def nearest(name: str, known: Iterable[str]) -> str:
    """``; did you mean 'a' or 'b'?`` for the closest known names, or what there is if none is close."""
    names = sorted(known)
    if close := meant(name, names):
        return f"; {close}"
    shown = ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
    return f"; there is {shown}"
