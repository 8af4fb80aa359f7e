"""A plan on processes of this machine, compared with the model that is not split."""

from __future__ import annotations

import functools
import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from partita.api.frames import Frame, frame
from partita.api.pictures import save_timeline
from partita.documents.tables.text import as_text
from partita.execution.report import measured_timeline, run_document, run_tables, verified
from partita.execution.run import Ran
from partita.ground.units import format_time
from partita.simulator.gantt_plot import draw_gantt
from partita.simulator.timeline import Timeline

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.console import RenderableType


class MeasuredRun:
    """A plan that ran: what was compared, and how long its processes took.

    Attributes
    ----------
    ran
        What was asked for and what was found.
    """

    def __init__(self, ran: Ran) -> None:
        self.ran = ran

    @property
    def verified(self) -> bool:
        """Whether outputs, loss and gradients agree with those of the model that is not split."""
        return verified(self.ran)

    @functools.cached_property
    def _document(self) -> Mapping[str, Any]:
        return run_document(self.ran)

    @property
    def step_time_s(self) -> Mapping[str, float | None]:
        """Seconds of a batch: ``measured``, ``predicted`` by the simulator (None if it cannot), and ``unsplit``."""
        found: Mapping[str, float | None] = self._document["step_time_s"]
        return found

    @property
    def worst_output_error(self) -> float | None:
        """The largest relative error of an output; None if there is none to compare."""
        found: float | None = self._document["worst_output_error"]
        return found

    @property
    def worst_gradient_error(self) -> float | None:
        """The largest relative error of a gradient; None without training."""
        found: float | None = self._document["worst_gradient_error"]
        return found

    @property
    def timeline(self) -> Timeline:
        """The last timed batch, like that of a simulation."""
        return measured_timeline(self.ran)

    def document(self) -> dict[str, object]:
        """Plain values: what ``partita run --json`` prints."""
        return dict(self._document)

    def tables(self) -> Sequence[RenderableType]:
        """The tables of the command line."""
        return run_tables(self.ran)

    def summary(self) -> str:
        """The same as text."""
        return as_text(self.tables())

    def to_frame(self) -> Frame:
        """A row for each process."""
        return frame(self._document["devices"])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the time line that was measured; ``MissingExtraError`` without matplotlib."""
        return draw_gantt(self.timeline, ax)

    def save(self, path: str | Path) -> None:
        """Write the time line: ``.json`` is a trace for Perfetto, other endings are pictures; errors as those."""
        save_timeline(path, self.timeline)

    def __str__(self) -> str:
        times = {name: "unknown" if value is None else format_time(value) for name, value in self.step_time_s.items()}
        return (
            f"{'verified' if self.verified else 'NOT verified'}: {len(self.ran.answer.workers)} processes, schedule "
            f"{self.ran.answer.schedule}, a batch of {self.ran.answer.microbatches} microbatches takes "
            f"{times['measured']} (in one process {times['unsplit']}, simulated {times['predicted']})"
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self!s:.1000}>"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"
