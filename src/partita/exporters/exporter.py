"""What an exporter is: it says whether a runtime can run a split, and writes the split for it."""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from partita.documents.document import write_atomic
from partita.exporters.cards import card_refusals, order_notes
from partita.exporters.facts import Facts, differences
from partita.exporters.refusals import refusals
from partita.ground.errors import InputError, UnsupportedError
from partita.nouns.catalogue.runtimes import Limits, Runtime, find_runtime
from partita.nouns.split import Split

if TYPE_CHECKING:
    from os import PathLike

#: What a file holds, or what writes it.
Content = bytes | Callable[[Path], None]


class Exporter(ABC):
    """One runtime, which takes one file (``FileExporter``) or a folder of several (``FolderExporter``)."""

    name: str  #: Of the runtime, as in ``partita.nouns.catalogue.runtimes``.
    needs_model: bool = False  #: Whether the model itself is needed, not only its split.
    #: Where a file has numbers of cards, and before what they are counted; None where a user has nothing to see to.
    numbers: tuple[str, str] | None = None

    @property
    def runtime(self) -> Runtime:
        """What is known of the runtime."""
        return find_runtime(self.name)

    @property
    def summary(self) -> str:
        """What it takes from a plan, in one line."""
        return self.runtime.summary

    @property
    def limits(self) -> Limits:
        """What it can express."""
        return self.runtime.limits

    def supports(self, split: Split) -> list[str]:
        """Why the runtime cannot run a split, a sentence for each reason; empty if it can."""
        return [*refusals(split, self.name, self.limits), *card_refusals(split), *self.reasons(split)]

    def reasons(self, split: Split) -> Iterable[str]:
        """What the runtime refuses beyond its limits."""
        return ()

    def notes(self, split: Split) -> Iterable[str]:
        """What a user has to see to that the file cannot say, a sentence each."""
        return () if self.numbers is None else order_notes(split, *self.numbers)

    def export(self, split: Split, path: str | PathLike[str], model: Any = None) -> list[str]:
        """Write a split for the runtime; the paths that were written.

        Parameters
        ----------
        split
            What to write.
        path
            A file, or for runtimes that take several files a folder that does not exist or is empty.
        model
            Where the model is, if it is needed and the split does not say or says something else.

        Raises
        ------
        UnsupportedError
            If the runtime cannot run the split; nothing is written.
        InputError
            If the model cannot be built, or the path not be written.
        """
        self.check(split)
        return self.write(split, Path(path), model)

    def check(self, split: Split) -> None:
        """Refuse a split that the runtime cannot run, with all reasons in one ``UnsupportedError``."""
        reasons = self.supports(split)
        if reasons:
            # A plan within its limits is another plan, but not of another workload.
            known = self.limits.training if split.training else self.limits.inference
            if known and refusals(split, self.name, self.limits):
                reasons.append(f"plan with --runtime {self.name}")
            raise UnsupportedError(f"{self.name} cannot run this plan: {'; '.join(reasons)}")

    @abstractmethod
    def write(self, split: Split, path: Path, model: Any) -> list[str]:
        """``export`` for a split that the runtime can run."""


class FileExporter(Exporter):
    """A runtime that takes one file."""

    @abstractmethod
    def content(self, split: Split, model: Any) -> bytes:
        """The file of a split that the runtime can run."""

    def said(self, content: bytes) -> Facts:
        """What a file says, by the names of ``facts``; what is not looked at again is missing."""
        return {}

    def checked(self, split: Split, model: Any = None) -> bytes:
        """The file, if the runtime can run the split and the file says what the split does.

        Raises ``UnsupportedError`` if not; ``InputError`` if the model cannot be built.
        """
        self.check(split)
        found = self.content(split, model)
        wrong = differences(split, self.said(found))
        if wrong:
            raise UnsupportedError(
                f"an export that does not read back as the plan is refused: in {self.name}'s form {'; '.join(wrong)}"
            )
        return found

    def write(self, split: Split, path: Path, model: Any) -> list[str]:
        """The file, read back before it is put in its place."""
        write_atomic(path, self.checked(split, model))
        return [str(path)]


class FolderExporter(Exporter):
    """A runtime that takes several files."""

    @abstractmethod
    def contents(self, split: Split, model: Any) -> Mapping[str, Content]:
        """By name the files of a split that the runtime can run."""

    def write(self, split: Split, path: Path, model: Any) -> list[str]:
        """The files in a folder of their own; a crash leaves none of that name, or the whole one."""
        files = self.contents(split, model)
        if path.exists() and not (path.is_dir() and not any(path.iterdir())):
            raise InputError(
                f"{path} exists, and several files are written in a folder of their own; name a new folder"
            )
        draft = path.with_name(f".{secrets.token_hex(8)}.tmp")
        try:
            draft.mkdir()
            for name, content in files.items():
                if callable(content):
                    content(draft / name)
                else:
                    (draft / name).write_bytes(content)
            # An empty folder gives way to one that takes its name.
            os.replace(draft, path)
        except OSError as error:
            raise InputError(f"{path} cannot be written: {error.strerror or error}") from None
        finally:
            with contextlib.suppress(OSError):
                shutil.rmtree(draft)
        return [str(path / name) for name in files]


def lines(*texts: str) -> bytes:
    """A text file."""
    return "".join(f"{text}\n" for text in texts).encode()


def read_arguments(text: str) -> dict[str, str]:
    """By name the value of every ``--name value`` in a text whose lines of remarks begin with ``#``."""
    words = [word for line in text.splitlines() if not line.startswith("#") for word in shlex.split(line)]
    found: dict[str, str] = {}
    for word, behind in zip(words, [*words[1:], "--"], strict=True):
        if word.startswith("--"):
            found[word] = "" if behind.startswith("--") else behind
    return found
