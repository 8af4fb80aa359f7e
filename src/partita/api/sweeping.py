"""Sweep: the same problem at every point of a grid."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from partita.api.arguments import Devices, Inputs, Model
from partita.api.frames import Frame, frame
from partita.api.given import Keywords
from partita.api.search import Search
from partita.api.source import ModelSource, Reading, StatedSource, read_either
from partita.api.tracing import Tracing
from partita.conductor.sweep import Swept, SweptPoint, grid
from partita.conductor.sweep import sweep as run_sweep
from partita.documents.document import write_atomic, write_json
from partita.documents.tables.text import as_text
from partita.engines.processes.pool import Backend, Pool
from partita.engines.search.result import Progress
from partita.ground.collecting import collecting_rarely
from partita.ground.errors import InputError
from partita.nouns.catalogue.files import converted
from partita.problems import kinds
from partita.problems.facets.sweep import Sweep
from partita.problems.kind import AnyKind, Stated
from partita.report.pages import cell, write_page
from partita.report.sweep import draw_pareto, draw_sweep, sweep_csv, sweep_document, sweep_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.console import RenderableType


class SweepAnswer:
    """A row for every point of a grid; ``points`` has their whole results.

    Attributes
    ----------
    swept
        The solved points; on Ctrl-C those so far.
    """

    def __init__(self, name: str, unit: str, facet: Sweep[Any, Any], swept: Swept) -> None:
        self.name, self.unit, self.facet, self.swept = name, unit, facet, swept
        self._document = sweep_document(name, unit, swept.rows(), interrupted=swept.interrupted)

    @property
    def points(self) -> Sequence[SweptPoint]:
        """Every point with its result."""
        return self.swept.points

    @property
    def interrupted(self) -> bool:
        """Whether points are missing because of Ctrl-C."""
        return self.swept.interrupted

    @property
    def rows(self) -> Sequence[Mapping[str, object]]:
        """One for each point, as plain values; the objective of a point without a plan is None."""
        rows: Sequence[Mapping[str, Any]] = self._document["rows"]
        return rows

    def document(self) -> dict[str, object]:
        """What ``partita sweep --json`` prints."""
        return dict(self._document)

    def to_frame(self) -> Frame:
        """A row for each point."""
        return frame([dict(row) for row in self.rows])

    def tables(self) -> Sequence[RenderableType]:
        """The table of the command line; none without rows."""
        return [sweep_table(self.facet, self._document)] if self.points else []

    def summary(self) -> str:
        """The same as text."""
        return as_text(self.tables())

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw plan, bound and best baseline along the axis with several values.

        Raises ``MissingExtraError`` without matplotlib, ``InputError`` without rows.
        """
        return draw_sweep(self.facet.axes, self._shown(), ax)

    def plot_pareto(self, ax: Axes | None = None) -> Axes:
        """Draw objective over devices, or over the outermost other axis, and the points that no other one dominates.

        Errors as of ``plot``.
        """
        return draw_pareto(self.facet.axes, self._shown(), ax)

    def _shown(self) -> dict[str, Any]:
        if not self.points:
            raise InputError("there are no points to draw")
        return self._document

    def save(self, path: str | Path) -> None:
        """Write the rows: ``.csv`` as a table, ``.json`` as a document.

        Raises ``InputError`` if the ending is another one, or the file cannot be written.
        """
        ending = Path(path).suffix.lower()
        if ending == ".csv":
            self.save_csv(path)
        elif ending == ".json":
            write_json(path, self._document)
        else:
            raise InputError(f"{path}: a sweep is written as .csv or .json, not as {ending or 'nothing'}")

    def save_csv(self, path: str | Path) -> None:
        """Write the rows as a table, whatever the ending, atomically."""
        write_atomic(path, sweep_csv(self._document).encode())

    def report(self, path: str | Path) -> None:
        """Write one page that opens offline, atomically."""
        write_page(path, self._document)

    def __len__(self) -> int:
        return len(self.points)

    def __str__(self) -> str:
        lines = as_text(self.tables(), 110).splitlines()
        return "\n".join(lines if len(lines) <= 24 else [*lines[:20], f"… {len(lines) - 20} more lines"])

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.name!r:.200}: {len(self.points)} points>"

    def _repr_html_(self) -> str:
        return cell(self._document)


@collecting_rarely()
def sweep(
    what: Model | Stated,
    cluster: Devices | None = None,
    *,
    objective: str | None = None,
    time_limit_s: float | None = 60.0,
    seed: int = 0,
    solver: str | None = None,
    threads: int = 2,
    progress: Progress | None = None,
    training: bool = False,
    batch_size: int | None = None,
    sequence_length: int | None = None,
    dtype: str | None = None,
    set: Mapping[str, object] | None = None,
    task: str | None = None,
    decode: int | None = None,
    lora: int | None = None,
    lora_targets: Sequence[str] = (),
    inputs: Inputs | None = None,
    jobs: int = 1,
    backend: Backend = "processes",
    address: str | None = None,
    format: str | None = None,
    kind: str | None = None,
    scale_communication: float = 1.0,
    **settings: Any,
) -> SweepAnswer:
    """Plan a model, or solve a problem, at every combination of the values given.

    Parameters
    ----------
    what
        A model, as for ``plan``, or a problem or its file, as for ``solve``.
    cluster
        Of a model: its devices. ``devices=[2, 4, 8]`` replaces their count.
    time_limit_s
        Wall time of each point.
    jobs, backend, address
        Workers that solve points side by side that do not bound each other.
    settings
        Axes as lists of values (``devices``, ``memory``, ``bandwidth`` and others of the problem); an axis that is not
        given stays as it is. The rest is as for ``plan`` or ``solve``.

    Returns
    -------
    SweepAnswer
        Points that have no plan are rows, too.

    Raises
    ------
    InputError
        As ``plan`` and ``solve`` do, and if the problem cannot be swept along an axis.
    """
    names = axis_names()
    along = {name: value for name, value in settings.items() if name in names}
    given = Keywords({name: value for name, value in settings.items() if name not in names})
    tracing = Tracing.of(locals())
    reading = Reading(file_format=format, problem=kind, scale_communication=scale_communication)
    source = read_either(what, cluster, given, tracing, reading, objective=objective, solver=solver)
    how = Search(time_limit_s=time_limit_s, seed=seed, solver=solver, threads=threads, progress=progress)
    return sweep_source(source, axes_of(source.kind, along), how, Pool(jobs, backend, address))


def axis_names() -> frozenset[str]:
    """Everything along which some problem can be swept."""
    return frozenset(axis.name for kind in kinds() for axis in kind.sweep.axes)


def axes_of(kind: AnyKind, given: Mapping[str, Any]) -> dict[str, Sequence[Any]]:
    """Values by axis of a problem, checked; one value stands for itself alone."""
    axes = {axis.name: axis.setting for axis in kind.sweep.axes}
    for name in given:
        if name not in axes:
            raise InputError(f"{kind.name} problems cannot be swept along {name}, but along {', '.join(axes)}")
    found: dict[str, Sequence[Any]] = {}
    for name, entry in axes.items():
        if name not in given:
            continue
        values = given[name]
        if isinstance(values, str):
            found[name] = entry.parse(values)
            continue
        each = tuple(values) if isinstance(values, Iterable) else (values,)
        if not each:
            raise InputError(f"{name} has no values; give one or more")
        parsed = [entry.parse(v)[0] if isinstance(v, str) else v for v in each]
        found[name] = entry.check(converted(name, parsed, entry.type))
        if len({*found[name]}) < len(found[name]):
            raise InputError(f"{name} {list(found[name])} has a value twice")
    return found


def sweep_source(
    source: ModelSource | StatedSource, axes: Mapping[str, Sequence[Any]], search: Search, workers: Pool
) -> SweepAnswer:
    """``sweep`` for what is read, along axes of the problem."""
    with workers as pool:
        swept = run_sweep(
            grid(axes),
            source.at,
            time_limit_s=search.time_limit_s,
            seed=search.seed,
            solver=search.solver,
            threads=search.threads,
            pool=pool,
            progress=search.progress,
            **source.options,
        )
    # What a model's plans are worth may follow from the axes: a rate of requests asks for the fewest devices.
    unit = swept.points[0].result.problem.unit if swept.points else "s"
    return SweepAnswer(source.name, unit, source.kind.sweep, swept)
