"""What goes wrong ends the whole run, is named, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the runner needs torch")

from execution.plans import source, split
from partita.execution.job import RunJob
from partita.execution.run import Host
from partita.ground.errors import InputError, RankError
from running.soon import SOON_S

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc to find processes")


def children(pid):
    """Direct children, in the order in which they were made."""
    listed = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(word) for word in listed.read_text().split()] if listed.exists() else []


def running(pid):
    """Whether a process is there and no corpse."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def gone(pids):
    """Whether all processes end; those that were killed need a moment."""
    for _ in range(200):
        if not any(running(pid) for pid in pids):
            return True
        time.sleep(0.05)
    return False


def endless(**changes):
    made = source("tied")
    return RunJob(split=split(made, 2), source=made, microbatches=2, repeats=10**8, **changes)


def warm(host):
    """Let the process that ranks come from be there, so that only ranks are waited for."""
    made = source("tied")
    host.run(RunJob(split=split(made, 2), source=made, microbatches=2))


def started(job, host, error):
    """Run a job beside; the thread, and its two ranks once they compute."""

    def work():
        try:
            host.run(job)
        except Exception as found:
            error.append(found)

    thread = threading.Thread(target=work)
    thread.start()
    while not error and (host.child is None or len(children(host.child.process.pid)) < 2):
        time.sleep(0.05)
    ranks = children(host.child.process.pid)
    # They meet before they compute.
    while not error and any(len(list(Path(f"/proc/{pid}/task").iterdir())) < 3 for pid in ranks):
        time.sleep(0.05)
    return thread, ranks


def test_a_killed_rank_is_named_and_the_others_end(host):
    error = []
    thread, ranks = started(endless(), host, error)
    os.kill(ranks[1], signal.SIGKILL)
    thread.join()
    assert isinstance(error[0], RankError)
    assert "rank 1 (stage 1)" in str(error[0])
    assert "SIGKILL" in str(error[0])
    assert gone(ranks)


def test_a_hanging_rank_is_named_and_the_others_end(host):
    error = []
    warm(host)
    thread, ranks = started(endless(timeout_s=2.0), host, error)
    os.kill(ranks[0], signal.SIGSTOP)
    thread.join()
    assert isinstance(error[0], RankError)
    assert "rank 0 (stage 0) hangs: it is stopped by a signal" in str(error[0])
    assert gone(ranks)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_is_stopped_at_once_is_named(host, rank):
    """Before it has shown any life, and while the other waits for it."""
    error = []
    warm(host)

    def work():
        try:
            host.run(endless(timeout_s=3.0))
        except Exception as found:
            error.append(found)

    thread = threading.Thread(target=work)
    thread.start()
    while not error and (host.child is None or len(children(host.child.process.pid)) <= rank):
        time.sleep(0.001)
    assert not error
    ranks = children(host.child.process.pid)
    os.kill(ranks[rank], signal.SIGSTOP)
    thread.join(SOON_S)
    assert isinstance(error[0], RankError)
    assert f"rank {rank} (stage {rank}) hangs: it is stopped by a signal" in str(error[0])
    assert gone(ranks)


def test_a_stopped_rank_that_goes_on_is_no_failure(host):
    error = []
    thread, ranks = started(endless(timeout_s=60.0), host, error)
    os.kill(ranks[0], signal.SIGSTOP)
    time.sleep(0.5)
    os.kill(ranks[0], signal.SIGCONT)
    time.sleep(0.5)
    assert not error
    os.kill(ranks[1], signal.SIGKILL)
    thread.join(SOON_S)
    assert "rank 1 (stage 1) was ended by SIGKILL" in str(error[0])


def test_the_model_that_is_not_split_is_watched_too(host):
    """It runs once the ranks have ended, alone."""
    made = source("tied")
    error, split_ranks = [], set()

    def work():
        try:
            host.run(RunJob(split=split(made, 2), source=made, microbatches=2, repeats=300, timeout_s=2.0))
        except Exception as found:
            error.append(found)

    thread = threading.Thread(target=work)
    thread.start()
    while not error:
        now = children(host.child.process.pid) if host.child is not None else []
        if len(now) == 2:
            split_ranks |= set(now)
        if len(now) == 1 and split_ranks and now[0] not in split_ranks:
            os.kill(now[0], signal.SIGSTOP)
            break
        time.sleep(0.01)
    thread.join(SOON_S)
    assert isinstance(error[0], RankError)
    assert "the model that is not split hangs: it is stopped by a signal" in str(error[0])
    assert gone(now)


def test_the_process_that_ranks_come_from_is_watched_too():
    error = []
    with Host() as host:
        thread, ranks = started(endless(timeout_s=2.0), host, error)
        first = host.child.process.pid
        os.kill(first, signal.SIGSTOP)
        thread.join(SOON_S)
    assert "the process that all ranks come from hangs: it is stopped by a signal" in str(error[0])
    assert gone([first, *ranks])


def test_a_rank_that_raises_is_named_with_its_error(host):
    made = source("beyond")
    with pytest.raises(RankError, match=r"rank 0 \(stage 0\) failed: IndexError"):
        host.run(RunJob(split=split(source("tied"), 2), source=made, microbatches=2, repeats=1))


def test_nothing_outlives_the_one_who_asked():
    error = []
    with Host() as host:
        thread, ranks = started(endless(), host, error)
        first = host.child.process.pid
        os.kill(first, signal.SIGKILL)
        thread.join()
    assert "SIGKILL" in str(error[0])
    assert gone([first, *ranks])


def test_a_port_in_use_is_named(host):
    made = source("tied")
    job = RunJob(split=split(made, 2), source=made, microbatches=2, repeats=1)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"port {port} cannot be used"):
            host.run(RunJob(split=job.split, source=made, microbatches=2, repeats=1, port=port))
    assert max(host.run(job).gradients.values()) < 1e-4


def test_another_model_is_refused(host):
    with pytest.raises(InputError, match="operators"):
        host.run(RunJob(split=split(source("unet"), 2), source=source("tied"), operators=99, microbatches=2))
