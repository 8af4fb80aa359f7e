"""One process that all runs of a module's tests come from."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="the runner needs torch")

from partita.execution.run import Host


@pytest.fixture(scope="package")
def host():
    """Where ranks come from."""
    with Host() as made:
        yield made
