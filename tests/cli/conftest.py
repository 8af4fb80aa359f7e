"""A small instance for the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest


def workload(**changes: Any) -> dict[str, Any]:
    """A chain of three operators on two accelerators in the dnn-partitioning format.

    Times 2, 3, 4; every transfer 1. Best contiguous split: {a, b} | {c} with loads 2+3+1 = 6 and 4+1 = 5.
    """
    document: dict[str, Any] = {
        "maxSizePerFPGA": 100.0,
        "maxFPGAs": 2,
        "maxCPUs": 0,
        "nodes": [
            {
                "id": number,
                "name": name,
                "supportedOnFpga": True,
                "cpuLatency": 10.0 * time,
                "fpgaLatency": time,
                "isBackwardNode": False,
                "size": 10.0,
            }
            for number, (name, time) in enumerate((("a", 2.0), ("b", 3.0), ("c", 4.0)))
        ],
        "edges": [{"sourceId": 0, "destId": 1, "cost": 1.0}, {"sourceId": 1, "destId": 2, "cost": 1.0}],
    }
    document.update(changes)
    return document


@pytest.fixture
def chain(tmp_path: Path) -> Path:
    """The chain of ``workload`` as a file."""
    path = tmp_path / "chain.json"
    path.write_text(json.dumps(workload()))
    return path
