"""The same function on many values: here, in processes of this machine, or on a cluster, with the same answers."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from typing import Any, Literal, TypeVar

from partita.engines.processes.child import module_paths
from partita.engines.processes.replies import Reply
from partita.engines.processes.shipping import done_there, loads, packed_work
from partita.ground.errors import MissingExtraError

#: Where work is done.
Backend = Literal["processes", "dask", "ray"]

#: How often what was lost with a worker is given out again before it is done here.
_ATTEMPTS = 2

In = TypeVar("In")
Out = TypeVar("Out")


class Pool:
    """Workers for pure functions of values that can be sent (``partita.engines.processes.shipping``).

    They know the components that this process has registered.

    A worker that dies takes what it was doing with it: that is given out again, and in the end done in this process. So
    the answers are the same whatever the backend, the number of workers and their fate. An error of the function, or of
    what cannot be pickled, is no lost worker: it is raised once.

    Parameters
    ----------
    jobs
        Workers; 1 does everything in this process unless a cluster is asked for.
    backend
        ``processes`` of this machine, or the workers of a ``dask`` or ``ray`` cluster.
    address
        Of the cluster; None for a local one.

    Raises
    ------
    MissingExtraError
        If what the backend needs is not installed.
    """

    def __init__(self, jobs: int = 1, backend: Backend = "processes", address: str | None = None) -> None:
        self.jobs, self.backend, self.address = jobs, backend, address
        self.lost = 0
        self._settings: dict[str, Any] | None = None
        self._open = contextlib.ExitStack()

    def __enter__(self) -> Pool:
        if self.backend == "dask":
            self._settings = {"backend": "dask"}
            self._open.enter_context(_dask(self.jobs, self.address))
        elif self.backend == "ray":
            self._settings = {"backend": "ray"}
            self._open.enter_context(_ray(self.jobs, self.address))
        elif self.jobs > 1:
            _joblib()
            self._settings = {"backend": "loky"}
        return self

    def __exit__(self, *error: Any) -> None:
        self._open.close()

    @property
    def width(self) -> int:
        """How many values are worth handing in at once."""
        return 1 if self._settings is None else max(2, self.jobs)

    def map(self, function: Callable[[In], Out], values: Sequence[In]) -> list[Out]:
        """The function of every value, in order.

        An error of the function is raised, the first one in the order of values; its cause is the traceback in the
        worker.
        """
        if self._settings is None or not values:
            return [function(value) for value in values]
        joblib = _joblib()
        work = [packed_work(function, value) for value in values]
        for _ in range(_ATTEMPTS):
            try:
                with joblib.parallel_config(n_jobs=self.jobs, **self._settings):
                    found: list[bytes] = joblib.Parallel(batch_size=1)(joblib.delayed(done_there)(*one) for one in work)
            except _lost_worker():
                self.lost += 1
                continue
            replies: list[Reply[Out]] = [loads(answer) for answer in found]
            return [reply.get() for reply in replies]
        return [function(value) for value in values]


def _lost_worker() -> tuple[type[BaseException], ...]:
    """What backends raise when a worker, or the connection to it, is gone; of those that are in use."""
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    found: list[type[BaseException]] = [TerminatedWorkerError, ConnectionError, EOFError]
    if "distributed" in sys.modules:
        from distributed import KilledWorker
        from distributed.comm.core import CommClosedError

        # The scheduler cancels what it had given to a worker that is gone.
        found += [KilledWorker, CommClosedError, CancelledError]
    if "ray" in sys.modules:
        from ray import exceptions

        names = ("RayActorError", "WorkerCrashedError", "NodeDiedError", "ObjectLostError", "OutOfMemoryError")
        found += [getattr(exceptions, name) for name in names]
    return tuple(found)


def _joblib() -> Any:
    try:
        import joblib
    except ImportError as error:
        raise MissingExtraError("joblib", "parallel") from error
    return joblib


@contextlib.contextmanager
def _dask(jobs: int, address: str | None) -> Iterator[None]:
    """A client of a Dask cluster, a local one of processes if none is given."""
    _joblib()
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise MissingExtraError("distributed", "dask") from error
    if address is not None:
        with Client(address):
            yield
        return
    with LocalCluster(n_workers=jobs, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster):
        yield


@contextlib.contextmanager
def _ray(jobs: int, address: str | None) -> Iterator[None]:
    """A Ray cluster, a local one if none is given."""
    joblib = _joblib()
    try:
        import ray
        from ray.util.joblib import register_ray
    except ImportError as error:
        raise MissingExtraError("ray", "ray") from error
    own = not ray.is_initialized()
    if own and address is None:
        # Workers of its own find what this process finds.
        ray.init(
            num_cpus=jobs,
            include_dashboard=False,
            log_to_driver=False,
            runtime_env={"env_vars": {"PYTHONPATH": module_paths()}},
        )
    elif own:
        ray.init(address=address, log_to_driver=False)
    register_ray()
    assert joblib is not None
    try:
        yield
    finally:
        if own:
            ray.shutdown()
