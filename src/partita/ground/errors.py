"""The exceptions partita raises, all below one root.

Infeasibility is not an error: it is a ``Result`` with status ``infeasible`` and a reason.
"""

from __future__ import annotations

import importlib.util


class PartitaError(Exception):
    """Root of every exception partita raises on purpose."""


class InputError(PartitaError, ValueError):
    """A value, file or option is wrong; the message names it and the remedy. The command line exits with 2."""


class FormatError(InputError):
    """A file cannot be read as the format it claims."""


class NoBatchSizeError(InputError):
    """A batch size is asked of a model whose builder does not take one."""


class TraceError(InputError):
    """A model cannot be turned into a graph; the message names the module and the cause.

    ``inputs`` says what the model was run on, and how to give it others; empty if it did not come to that.
    """

    inputs: str = ""


class UnsupportedError(InputError):
    """A component was asked for something outside its declared domain."""


class StuckError(InputError):
    """Tasks wait for each other in a circle; ``task`` is the first that can never start."""

    def __init__(self, message: str, task: int) -> None:
        super().__init__(message)
        self.task = task


class MissingExtraError(InputError):
    """An optional dependency, by its import name, is not installed; the partita extra installs it."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed; install it with: pip install 'partita[{extra}]'")
        self.package = package
        self.extra = extra


def require(package: str, extra: str) -> None:
    """Refuse to go on without an optional dependency."""
    if importlib.util.find_spec(package) is None:
        raise MissingExtraError(package, extra)


class ProcessError(PartitaError, RuntimeError):
    """A process of ours ended without an answer: killed, out of memory, or by an error of its own; or it hangs.

    The output is the last lines it wrote; the message ends with the last of them.
    """

    def __init__(self, cause: str, output: str = "") -> None:
        super().__init__(": ".join([cause, *(line.strip() for line in output.strip().splitlines()[-1:])]))
        self.cause = cause
        self.output = output


class SolverCrashError(ProcessError):
    """The process of a MIP backend; the cause stands after the backend's name."""

    def __init__(self, backend: str, cause: str, output: str = "") -> None:
        super().__init__(f"the MIP backend {backend} {cause}", output)
        self.backend = backend


class ProfileError(ProcessError):
    """A process that measures a model."""


class RankError(ProcessError):
    """A process of a run failed, was killed or hung; the message names its rank and stage."""


class DisagreementError(PartitaError, AssertionError):
    """Two computations of one quantity differ: a defect in partita, never the user's fault."""


class ComponentWarning(UserWarning):
    """A component that an installed package brings cannot be used; the message names the package and the cause."""
