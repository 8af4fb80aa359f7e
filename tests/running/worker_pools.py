"""Workers for tests of what may be done side by side."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from partita.engines.processes.pool import Pool


@pytest.fixture(
    name="workers", params=["processes", "dask", pytest.param("ray", marks=pytest.mark.slow)], scope="module"
)
def workers_fixture(request: pytest.FixtureRequest) -> Iterator[Pool]:
    """A pool of two workers of every backend that is installed, for all tests of a file: clusters begin slowly.

    Ray's takes longest, and is usual in one test only.
    """
    pytest.importorskip("joblib")
    needed = {"dask": "distributed", "ray": "ray"}.get(request.param)
    if needed is not None:
        pytest.importorskip(needed)
    with Pool(2, request.param) as pool:
        yield pool


@pytest.fixture
def two_workers(workers: Pool) -> Pool:
    """A pool of two workers that has lost none."""
    workers.lost = 0
    return workers
