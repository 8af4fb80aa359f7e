"""A model that is traced again for microbatches of other sizes, some of them in a process beside this one.

Tracing a large model takes some twenty seconds, and what it makes is kept on disk. So the process beside traces the
largest sizes first, while this one takes the small ones; they meet in between.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence

from partita.api.tracing import Tracing, traced, with_samples
from partita.engines.processes.child import Child
from partita.engines.processes.serving import Request, serve
from partita.ground.errors import ProcessError
from partita.ground.folders import kept_folder
from partita.ground.processors import usable_cores
from partita.nouns.graph import Graph

#: Seconds of a trace from which on a process of its own, which loads all libraries once more, is worth it.
WORTH_S = 5.0

_LOOK_S = 0.1


class Retraced:
    """Traces a model for so many samples.

    ``took`` are the seconds of the first trace; a short one says that the graphs are kept, or soon made.
    """

    def __init__(self, model: str, asked: Tracing, took: float) -> None:
        self.model, self.asked, self.took = model, asked, took
        self._child: Child | None = None
        self._expected: list[int] = []
        self._begun: int | None = None

    def __reduce__(self) -> tuple[type[Retraced], tuple[str, Tracing, float]]:
        # In another process nobody traces beside.
        return Retraced, (self.model, self.asked, 0.0)

    def __call__(self, size: int) -> Graph:
        """The graph of microbatches of so many samples; errors are those of ``traced``."""
        if self._child is not None:
            try:
                self._meet(self._child, size)
            except ProcessError:
                self._leave()
        return traced(self.model, with_samples(self.asked, size))

    def expect(self, sizes: Sequence[int]) -> None:
        """Say which sizes are asked for, in this order, so that the last ones can be traced meanwhile."""
        cores = usable_cores()
        kept = self.asked.cache and self.model.startswith("hf:") and kept_folder() is not None
        if not kept or cores < 2 or len(sizes) < 2 or self.took < WORTH_S:
            return
        self._expected = list(sizes)
        try:
            self._child = Child(__name__, lambda what, _: ProcessError(f"the process that traces ahead {what}"))
        except ProcessError:
            return
        weakref.finalize(self, self._child.end)
        self._child.ask(self.model, self.asked, self._expected[::-1])

    def _meet(self, child: Child, size: int) -> None:
        """Wait for a size that is traced beside now; of another one say that it is taken."""
        child.say("taken", size)
        while not child.answered:
            heard = child.hear(_LOOK_S if self._begun == size else 0.0)
            if heard is not None:
                self._begun = heard[0] if isinstance(heard, tuple) else None
            elif self._begun != size:
                break
        if child.answered or size == self._expected[-1]:
            self._leave()

    def _leave(self) -> None:
        if self._child is not None:
            self._child.end()
        self._child = None


def _trace_ahead(request: Request) -> None:
    """Trace a model for sizes one after the other, but for those that were taken meanwhile, so that they are kept."""
    model, asked, sizes = request.content
    taken: set[int] = set()
    for size in sizes:
        taken.update(one for _, one in request.heard())
        if size in taken:
            # The other side goes up, and has been everywhere below.
            return
        request.tell(size)
        traced(model, with_samples(asked, size))
    request.tell(None)


def main() -> None:
    """Trace what is asked for."""
    serve(_trace_ahead)
