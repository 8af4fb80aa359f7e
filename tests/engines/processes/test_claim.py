"""One of several does a piece of work, and the others wait."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from partita.engines.processes.claim import Claim

pytest.importorskip("fcntl", reason="this system has no claims on files")

#: Holds a claim until it is killed.
HOLD = "import sys; from pathlib import Path; from partita.engines.processes.claim import Claim\n"
HOLD += "claim = Claim(Path(sys.argv[1])); claim.take(1); print('held', flush=True); sys.stdin.read()"


def test_who_waits_learns_that_it_has(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "work.lock"
    first, second = Claim(path), Claim(path)
    assert not first.take(1.0)
    assert not first.take(1.0)
    timer = threading.Timer(0.1, first.drop)
    timer.start()
    assert second.take(30.0)
    timer.join()
    second.drop()
    assert not first.take(1.0)


def test_nobody_waits_for_ever(tmp_path: Path) -> None:
    first, second = Claim(tmp_path / "work.lock"), Claim(tmp_path / "work.lock")
    first.take(1.0)
    assert second.take(0.0)
    # Done without a claim, and so without one to drop.
    second.drop()
    assert Claim(tmp_path / "work.lock").take(0.0)


def test_a_claim_ends_with_its_process(tmp_path: Path) -> None:
    path = tmp_path / "work.lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert Claim(path).take(0.0)
        holder.kill()
    assert not Claim(path).take(1.0)


def test_a_place_that_cannot_be_written_has_no_claims() -> None:
    claim = Claim(Path("/proc/nowhere/work.lock"))
    assert not claim.take(1.0)
    claim.drop()
