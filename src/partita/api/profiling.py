"""Profile: the operators of a model, timed on this machine."""

from __future__ import annotations

import functools
import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from partita.api.arguments import Inputs
from partita.api.frames import Frame, frame
from partita.api.tracing import Tracing
from partita.costs.calibration import Calibration, calibrate
from partita.costs.profile import Measured, Profile, read_profile
from partita.documents.document import write_json
from partita.documents.tables.profile import block_table, calibration_table, operator_table, profile_lines
from partita.documents.tables.text import as_text
from partita.frontends.given import read_inputs
from partita.frontends.options import Adapters, Asked
from partita.ground.errors import InputError, require
from partita.ground.units import format_time
from partita.nouns.cluster import Cluster
from partita.nouns.graph import Graph

if TYPE_CHECKING:
    from rich.console import RenderableType

#: What rows of its table are.
By: TypeAlias = Literal["operator", "block"]


class ProfileAnswer:
    """A model's measured operators; ``plan(…, costs=profile)`` plans with them, for the machine they are of.

    Attributes
    ----------
    profile
        What was measured.
    graph
        The model as it ran; None of a profile from a file.
    """

    def __init__(self, profile: Profile, graph: Graph | None = None, source: str = "a profile") -> None:
        self.profile, self.graph, self.source = profile, graph, source

    @property
    def costs(self) -> Measured:
        """The profile as a source of operator times."""
        return Measured(self.profile, source=self.source)

    @property
    def cluster(self) -> Cluster:
        """The machine it was measured on."""
        return Cluster.from_document(self.profile.cluster, where=self.source)

    @functools.cached_property
    def calibration(self) -> Calibration:
        """What was measured beside what the roofline says of the same device."""
        return calibrate(self.profile, self.profile.spec)

    @property
    def missing(self) -> int:
        """Operators that did not run as they were traced; plans take the roofline for them. 0 without a graph."""
        if self.graph is None:
            return 0
        pairs = zip(self.graph.operators, self.profile.operators, strict=True)
        return sum(place is None and not op.free for op, place in pairs)

    def document(self) -> dict[str, object]:
        """The ``partita.profile`` document."""
        return self.profile.to_dict()

    def tables(self, by: By = "operator") -> list[RenderableType]:
        """The tables of the command line; rows are distinct operators, or the model's repeated blocks."""
        if by == "block" and self.graph is None:
            raise InputError("a profile from a file does not hold its model, whose blocks are asked for")
        shown: list[RenderableType] = []
        shown.append(operator_table(self.profile) if by == "operator" or self.graph is None else self._blocks())
        shown.append(calibration_table(self.calibration))
        return shown if self.graph is None else [*shown, profile_lines(self.graph, self.profile)]

    def _blocks(self) -> RenderableType:
        assert self.graph is not None
        table: RenderableType = block_table(self.graph, self.profile)
        return table

    def summary(self, by: By = "operator") -> str:
        """The same as text."""
        return as_text(self.tables(by))

    def to_frame(self) -> Frame:
        """A row for each distinct operator."""
        return frame([msgspec.to_builtins(one) for one in self.profile.measurements])

    def save(self, path: str | Path) -> None:
        """Write the profile, atomically; ``costs`` of ``plan`` reads it."""
        write_json(path, self.document())

    def __str__(self) -> str:
        found = self.profile
        backward = "" if found.backward is None else f", backward {format_time(found.backward.time_s)}"
        return (
            f"{found.model} on {found.device}: {len(found.measurements)} distinct operators of {len(found.operators)}, "
            f"forward {format_time(found.forward.time_s)}{backward}"
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self!s:.1000}>"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def profile(
    model: str | Path,
    *,
    training: bool = False,
    batch_size: int | None = None,
    sequence_length: int | None = None,
    dtype: str | None = None,
    set: Mapping[str, object] | None = None,
    task: str | None = None,
    inputs: Inputs | None = None,
    lora: int | None = None,
    lora_targets: Sequence[str] = (),
    processes: int = 1,
    threads: int | None = None,
    device: Literal["cpu", "cuda"] | None = None,
    device_name: str | None = None,
    warm_up: int = 2,
    repeats: int = 10,
) -> ProfileAnswer:
    """Time a model's operators on this machine, and messages between processes.

    Parameters
    ----------
    model
        ``hf:TYPE_OR_FILE`` or ``path/to/file.py:callable``, run with random weights by other processes.
    training, batch_size, sequence_length, dtype, set, task, inputs, lora, lora_targets
        What it is built for, as for ``plan``.
    processes, threads
        Copies at work at the same time, and threads of each; an equal share of the cores unless stated.
    device, device_name
        Where: cuda where there is one, unless stated; and what it is called in clusters, after the processor unless
        stated.
    warm_up, repeats
        Runs before, and runs that count.

    Raises
    ------
    InputError
        If a number is out of range, there is no such device, or the model cannot be run.
    MissingExtraError
        If torch is not installed.
    ProfileError
        If a process fails.
    """
    if not isinstance(model, str | Path):
        raise InputError(
            f"{type(model).__name__} is no text; other processes build the model again, so name it as "
            "'hf:TYPE_OR_FILE' or 'path/to/file.py:callable'"
        )
    tracing = Tracing.of(locals())
    return profile_named(
        str(model),
        tracing,
        processes=processes,
        threads=threads,
        device=device,
        device_name=device_name,
        warm_up=warm_up,
        repeats=repeats,
    )


def profile_named(model: str, asked: Tracing, *, device: str | None, **measuring: Any) -> ProfileAnswer:
    """``profile`` for a model with what it is traced for as one value."""
    require("torch", "torch")
    from partita.profiler.profile import profile_model

    if asked.decode is not None:
        raise InputError("a step of decoding is planned only, not run; leave --decode out")
    built = Asked(
        *(asked.batch_size, asked.sequence_length, asked.dtype, asked.fields, asked.task, asked.training),
        inputs=read_inputs(asked.named_inputs(model)),
        adapters=Adapters.of(asked.lora, asked.lora_targets, training=asked.training),
    )
    graph, found = profile_model(built.source(model), device=device or _best_device(), **measuring)
    return ProfileAnswer(found, graph)


def load_profile(path: str | Path) -> ProfileAnswer:
    """Read a profile that ``ProfileAnswer.save`` or ``partita profile --output`` wrote.

    Raises ``FormatError`` if it is malformed, ``InputError`` if it cannot be read.
    """
    return ProfileAnswer(read_profile(path), source=str(path))


def _best_device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"
