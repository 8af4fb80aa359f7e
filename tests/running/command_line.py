"""Running the command line inside the test process."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from partita.cli import main


@dataclass(frozen=True)
class Run:
    """What one call printed and returned."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """The JSON object on stdout."""
        found: dict[str, Any] = json.loads(self.out)
        return found


@pytest.fixture
def partita(capsys: pytest.CaptureFixture[str]) -> Callable[..., Run]:
    """Call the command line with arguments."""

    def call(*arguments: object) -> Run:
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Run(int(stop.value.code or 0), captured.out, captured.err)

    return call
