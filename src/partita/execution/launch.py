"""The parent's side of a run: the process that the others come from, which lives for many runs."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from partita.engines.processes.child import Child
from partita.engines.processes.replies import Reply
from partita.execution.job import RunAnswer, RunJob
from partita.ground.errors import DisagreementError, InputError, PartitaError, RankError

#: Seconds between two looks at the process that the others come from.
POLL_S = 0.5


class Host:
    """A process that runs jobs, one after the other, in processes of its own; a context manager that ends them all."""

    def __init__(self) -> None:
        self.child: Child | None = None

    def __enter__(self) -> Host:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def run(self, job: RunJob) -> RunAnswer:
        """Run a job.

        Raises ``InputError`` if the plan, the model and what is asked for do not fit together; ``RankError`` if a
        process failed, was killed or hung.
        """
        if self.child is not None and not self.child.free:
            self.end()
        if self.child is None:
            self.child = Child("partita.execution.host", _lost, shown=True)
        child = self.child
        try:
            child.ask(job)
            while not isinstance(found := child.hear(POLL_S), Reply):
                child.check_stopped(job.timeout_s)
        except BaseException:
            self.end()
            raise
        return _read(found)

    def end(self) -> None:
        """End everything that was started."""
        child, self.child = self.child, None
        if child is not None:
            child.end()


def _lost(cause: str, output: str) -> RankError:
    return RankError(f"the process that all ranks come from {cause}", output)


def _read(found: Reply[Any]) -> RunAnswer:
    """The answer of a run; errors that nobody raises on purpose are defects."""
    error = found.error
    if error is None or isinstance(error, (InputError, RankError)):
        answer: RunAnswer = found.get()
        return answer
    defect = DisagreementError(str(error) if isinstance(error, PartitaError) else found.said)
    defect.add_note(found.where)
    raise defect
