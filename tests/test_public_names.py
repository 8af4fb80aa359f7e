"""The public names are sorted, exist, and are the documented ones."""

from __future__ import annotations

import partita

EXPECTED = {"Cluster", "Graph", "bound", "compare", "evaluate", "plan", "price", "read_problem", "solve", "trace"}


def test_public_names() -> None:
    names = [name for name in partita.__all__ if not name.startswith("__")]
    assert names == sorted(names)
    assert set(names) >= EXPECTED
    for name in partita.__all__:
        assert getattr(partita, name) is not None
    assert set(dir(partita)) == set(partita.__all__)
