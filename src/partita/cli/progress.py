"""The live line on a terminal: what a run has found, and how far compiling is while it has to wait for that."""

from __future__ import annotations

from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from partita.engines.search import compiling


class LiveLine:
    """Shown again and again; ``update`` changes the text."""

    def __init__(self, text: str) -> None:
        self._spinner = Spinner("dots", text)

    def update(self, text: str) -> None:
        """Show this from now on."""
        self._spinner.update(text=text)

    def __rich__(self) -> Spinner | Table:
        found = compiling.done()
        if found is None:
            return self._spinner
        there, count = found
        shown = Table.grid(padding=(0, 1))
        text = Text(f"compiling {count} kernels, once on this machine")
        shown.add_row(text, ProgressBar(count, there, width=3 * count), f"{there} of {count}")
        return shown
