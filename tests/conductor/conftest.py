"""Workers for tests of what may be done side by side."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from partita.conductor.parallel import Pool


@pytest.fixture(params=["processes", "dask", "ray"])
def two_workers(request: pytest.FixtureRequest) -> Iterator[Pool]:
    """A pool of two workers of every backend that is installed."""
    pytest.importorskip("joblib")
    needed = {"dask": "distributed", "ray": "ray"}.get(request.param)
    if needed is not None:
        pytest.importorskip(needed)
    with Pool(2, request.param) as pool:
        yield pool
