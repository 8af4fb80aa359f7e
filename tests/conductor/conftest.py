"""Pools of workers for the tests of this folder."""

from __future__ import annotations

from running.worker_pools import two_workers, workers_fixture

__all__ = ["two_workers", "workers_fixture"]
