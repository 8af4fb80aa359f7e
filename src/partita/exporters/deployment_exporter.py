"""What an exporter of deployments is: it says whether a runtime can serve so, and writes what starts it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from os import PathLike
from pathlib import Path

from partita.documents.document import write_atomic
from partita.ground.errors import UnsupportedError
from partita.nouns.deployment import Deployment


class DeploymentExporter(ABC):
    """One runtime, which takes one file."""

    name: str  #: In ``partita export --to``.
    also: str = ""  #: Another name that it answers to.
    summary: str  #: What it takes, in one line.
    source: str  #: Where its grammar is documented.

    @abstractmethod
    def supports(self, deployment: Deployment) -> list[str]:
        """Why the runtime cannot serve so, a sentence for each reason; empty if it can."""

    @abstractmethod
    def content(self, deployment: Deployment, model: str | None) -> bytes:
        """The file of a deployment that the runtime can serve, of a model by its name if that is known."""

    @abstractmethod
    def differences(self, deployment: Deployment, content: bytes) -> list[str]:
        """What a file says otherwise than the deployment, a clause each; ``FlagError`` if it is none of the grammar."""

    def notes(self, deployment: Deployment, model: str | None = None) -> Iterable[str]:
        """What a user has to see to that the file cannot say, a sentence each."""
        return ()

    def checked(self, deployment: Deployment, model: str | None = None) -> bytes:
        """The file, if the runtime can serve so and the file says what the deployment does.

        Raises ``UnsupportedError`` if not.
        """
        reasons = self.supports(deployment)
        if reasons:
            raise UnsupportedError(f"{self.name} cannot run this plan: {'; '.join(reasons)}")
        found = self.content(deployment, model)
        try:
            wrong = self.differences(deployment, found)
        except ValueError as error:
            wrong = [str(error)]
        if wrong:
            raise UnsupportedError(
                f"an export that does not read back as the plan is refused: in {self.name}'s form {'; '.join(wrong)}"
            )
        return found

    def export(self, deployment: Deployment, path: str | PathLike[str], model: str | None = None) -> list[str]:
        """Write a deployment for the runtime; the paths that were written.

        Raises
        ------
        UnsupportedError
            If the runtime cannot serve so; nothing is written.
        InputError
            If the path cannot be written.
        """
        write_atomic(Path(path), self.checked(deployment, model))
        return [str(path)]


def priced_for(deployment: Deployment, engine: str) -> Iterable[str]:
    """What a user should know where steps were priced as another engine's."""
    others = sorted({group.engine for group in deployment.units if group.engine and group.engine != engine})
    if others:
        yield f"steps are priced as those of {' and '.join(others)}; --engine {engine} plans with {engine}'s own"


def share_notes(deployment: Deployment) -> Iterable[str]:
    """What a router has to keep where groups of units take shares of classes of requests."""
    for number, group in enumerate(deployment.units):
        if group.shares:
            shares = ", ".join(f"{share:.0%}" for share in group.shares)
            yield f"group {number} of units ({group.role}, {group.label}) takes of the classes of requests {shares}"


def longest_note(deployment: Deployment) -> str:
    """What becomes of longer requests than the workload has."""
    return f"requests of more than {deployment.longest} tokens, the longest of the workload, are refused by the units"
