"""With --json there is one JSON object on stdout, whatever a user's file prints."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

NOISY = """
import atexit, ctypes, os, subprocess, sys
import torch

def shout(where):
    print(where, "printed")
    os.write(1, (where + " written\\n").encode())
    ctypes.CDLL(None).printf(b"from C\\n")
    subprocess.run(["echo", where, "from a child"], check=True)

shout("import")
atexit.register(shout, "exit")

class Loud(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(64, 64) for _ in range(4)])

    def forward(self, x):
        shout("forward")
        for layer in self.layers:
            x = layer(x)
        return x

def build():
    shout("callable")
    return Loud(), (torch.zeros(8, 64),)
"""


@pytest.mark.parametrize("command", ["plan", "compare", "sweep"])
def test_one_object_whatever_is_printed(tmp_path: Path, command: str) -> None:
    model = tmp_path / "noisy.py"
    model.write_text(NOISY)
    run = subprocess.run(
        [sys.executable, "-m", "partita", command, f"{model}:build", "--cluster", "2xA100-40GB", "--json"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    document = json.loads(run.stdout)
    if command == "sweep":
        assert document["rows"][0]["status"] == "optimal"
    else:
        assert document["status"] == "optimal"
    for place in ("import", "callable", "forward", "exit"):
        for way in ("printed", "written", "from a child"):
            assert f"{place} {way}" in run.stderr
    assert "from C" in run.stderr
