"""A plan that ran through the simulator: its figures, pictures and files."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from partita.api.frames import Frame, frame
from partita.api.pictures import save_timeline
from partita.conductor.simulate import Simulated, sensitivities
from partita.documents.tables.text import as_text
from partita.engines.kernels.arrays import Floats
from partita.report.pages import cell, write_page
from partita.simulator.document import simulation_document
from partita.simulator.gantt_plot import draw_gantt
from partita.simulator.gantt_text import gantt_lines
from partita.simulator.program import Program
from partita.simulator.sensitivity import Change
from partita.simulator.simulate import DeviceUse, Simulation
from partita.simulator.tables import simulation_tables, step_sentences
from partita.simulator.timeline import Timeline

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.console import RenderableType

#: Lines of a short text, and devices of those.
_ROWS = 12


class SimulationAnswer:
    """What happens when a plan runs: ``plot`` and ``save`` show it, ``summary`` says it.

    Attributes
    ----------
    simulated
        The run as it was asked for, with problem, plan and evaluation.
    """

    def __init__(self, simulated: Simulated) -> None:
        self.simulated = simulated

    @property
    def simulation(self) -> Simulation:
        """The simulator's own value, with all that can be read off it."""
        return self.simulated.simulation

    @property
    def program(self) -> Program:
        """What ran: places, steps, and the order of each place."""
        return self.simulation.program

    @property
    def timeline(self) -> Timeline:
        """Everything that ran, with starts and ends."""
        return self.simulation.timeline

    @property
    def unit(self) -> str:
        """Of all times."""
        return self.simulation.program.unit

    @property
    def schedule(self) -> str:
        """Name of the schedule."""
        return self.simulation.program.schedule

    @property
    def microbatches(self) -> int:
        """Of the batch."""
        return self.simulation.program.microbatches

    @property
    def step_time(self) -> float:
        """Time of the batch, in ``unit``."""
        return self.simulation.step_time

    @property
    def finish(self) -> float:
        """When the last thing ends, in ``unit``."""
        return self.simulation.finish

    @property
    def period(self) -> float | None:
        """Time per microbatch where the run is steady; None if it does not settle within the batch."""
        return self.simulation.period

    @property
    def bubble_fraction(self) -> float:
        """Share of the step that devices wait."""
        return self.simulation.bubble_fraction

    @property
    def latencies(self) -> Floats:
        """Of every microbatch the time from its arrival to its end, in ``unit``."""
        return self.simulation.latencies

    @property
    def throughput(self) -> float:
        """Microbatches per unit of time."""
        return self.simulation.throughput

    @property
    def uses(self) -> Sequence[DeviceUse]:
        """How the devices of every replica spend the step."""
        return self.simulation.uses

    @functools.cached_property
    def changes(self) -> Sequence[Change]:
        """What would change the step: faster devices, wider links, more microbatches."""
        return tuple(sensitivities(self.simulated))

    def critical(self) -> list[int]:
        """The slices of the time line that the step's length is made of, first first."""
        return self.simulation.critical()

    @functools.cached_property
    def steady_period(self) -> float | None:
        """Time per microbatch in an endless run, in ``unit``; None if that cannot be seen."""
        return self.simulated.steady_period

    def document(self) -> dict[str, object]:
        """Plain values: what ``partita simulate --json`` prints."""
        return dict(self._document)

    @property
    def _document(self) -> dict[str, Any]:
        found = self.simulated
        document = simulation_document(found.simulation, list(self.changes), found.holdings)
        worth = {"objective": found.evaluation.objective, "objective_unit": found.problem.unit}
        document |= {"steady_period": self.steady_period, **worth}
        return {**document, "formulas": dict(found.expected)}

    def tables(self) -> Sequence[RenderableType]:
        """The time line in characters, and what the step is made of."""
        found = self.simulated
        lines = ["\n".join(gantt_lines(found.simulation.timeline)), ""]
        return [*lines, *simulation_tables(found.simulation, list(self.changes), found.expected)]

    def summary(self) -> str:
        """The tables of the command line."""
        return as_text(self.tables())

    def to_frame(self) -> Frame:
        """A row for the devices of every replica: how they spend the step, in ``unit``."""
        devices: list[dict[str, object]] = self._document["devices"]
        return frame(devices)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the time line, a row for each lane.

        Raises ``MissingExtraError`` without matplotlib.
        """
        return draw_gantt(self.timeline, ax)

    def save(self, path: str | Path) -> None:
        """Write it: ``.json`` is a trace for Perfetto, ``.png``, ``.svg`` and ``.html`` are pictures.

        Raises
        ------
        InputError
            If the ending is another one, or the file cannot be written.
        MissingExtraError
            For pictures without matplotlib.
        """
        save_timeline(path, self.timeline)

    def report(self, path: str | Path) -> None:
        """Write one page that opens offline."""
        write_page(path, self.document())

    def __str__(self) -> str:
        found = self.simulated
        lines = gantt_lines(self.timeline, rows=_ROWS)
        return "\n".join([*lines, *step_sentences(found.simulation, {})][:24])

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} of {self.simulated.problem.name!r:.200}: "
            f"step_time {self.step_time:.6g} {self.unit}, "
            f"{self.microbatches} {self.simulated.simulation.program.pieces[1]}, schedule {self.schedule!r:.80}>"
        )

    def _repr_html_(self) -> str:
        return cell(self.document())
