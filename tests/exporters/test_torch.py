"""Exported scripts, run under torchrun: outputs and gradients are those of the model that is not split."""

from __future__ import annotations

import csv
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from exporters.splits import by_layers, graph_of, runs, unet
from partita.exporters import find_exporter
from partita.nouns.split import Split

torch = pytest.importorskip("torch")

#: Of the processes, so that one that hangs does not hold up everything; nothing is measured.
TIMEOUT_S = 300


def run(split: Split, folder: Path, processes: int) -> dict[str, Any]:
    """What the exported script prints on so many processes."""
    find_exporter("torch").export(split, folder / "pipeline")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    script = str(folder / "pipeline" / "run.py")
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(processes)]
    command += ["--master-addr", "127.0.0.1", "--master-port", str(port), script]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def test_stages_that_begin_inside_blocks(tmp_path: Path) -> None:
    """Training, two stages on each of two ranks, cut inside residual blocks; all of them read one mask."""
    starts = ("layers.0.up", "layers.1.up", "layers.2.down")
    split = runs(graph_of("masked", training=True), starts, schedule="interleaved", chunks=2, microbatches=4)
    assert {send.target for send in split.constants} == {1, 2, 3}
    stages = tuple(msgspec.structs.replace(part, rank=number % 2) for number, part in enumerate(split.stages))
    said = run(msgspec.structs.replace(split, stages=stages), tmp_path, 2)
    assert said["verified"]
    assert said["worst_output_error"] < 1e-6
    assert said["worst_gradient_error"] < 1e-6
    with (tmp_path / "pipeline" / "schedule.csv").open() as stream:
        rows = list(csv.reader(stream))
    assert [{cell[0] for cell in row} for row in rows] == [{"0", "2"}, {"1", "3"}]


def test_skips_are_handed_on(tmp_path: Path) -> None:
    """Training of a U-Net on three stages, whose first one's tensor goes to the last."""
    split = unet(training=True, schedule="gpipe", microbatches=3)
    assert split.skips
    said = run(split, tmp_path, 3)
    assert said["verified"]
    assert said["worst_gradient_error"] < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("schedule", ["1f1b", "gpipe", "zero-bubble"])
def test_replicas_share_the_batch(tmp_path: Path, schedule: str) -> None:
    devices = {n: {"replicas": 2, "devices": (f"L4:{2 * n}", f"L4:{2 * n + 1}")} for n in (0, 1)}
    split = by_layers("decoder", (3, 3), training=True, schedule=schedule, microbatches=8, devices=devices)
    said = run(split, tmp_path, 4)
    assert said["worst_output_error"] < 1e-6
    assert said["worst_gradient_error"] < 1e-6


def test_the_wrong_number_of_processes_is_said(tmp_path: Path) -> None:
    find_exporter("torch").export(by_layers("decoder", (3, 3)), tmp_path / "pipeline")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(tmp_path / "pipeline" / "run.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 1
    assert "the plan has 2 ranks and 1 replicas; run torchrun --nproc-per-node 2 run.py" in done.stderr
