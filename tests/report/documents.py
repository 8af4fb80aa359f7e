"""One document of every sort that can be reported, made by the command line from small problems and a small model."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import workload
from partita.cli import main
from partita.documents.stated import write_graph

#: What a mapping problem states: two stages of two replicas on four devices, links of two speeds.
PIPELINE: dict[str, Any] = {
    "format": "partita.mapping",
    "version": 1,
    "name": "front <b>and</b> back & more",
    "replicas": 2,
    "stages": [
        {"name": "front", "time_s": 0.01, "parameter_bytes": 1e6},
        {"name": "back", "time_s": 0.012, "parameter_bytes": 1e6},
    ],
    "transfers": [{"source": 0, "target": 1, "bytes": 2e6}],
    "bandwidth_bytes_per_s": [
        [None, 1e9, 5e8, 5e8],
        [1e9, None, 5e8, 5e8],
        [5e8, 5e8, None, 1e9],
        [5e8, 5e8, 1e9, None],
    ],
}

FIELDS = {"n_layer": "2", "n_embd": "32", "n_head": "2", "vocab_size": "64"}

REQUESTS = ("--prompt-tokens", "24", "--output-tokens", "8")

#: How a model is planned, by the name of the document.
PLANS: dict[str, tuple[str, ...]] = {
    "plan": ("--cluster", "2xA100-40GB+2xT4"),
    "training": ("--cluster", "4xL4", "--training", "--objective", "throughput", "--microbatches", "8"),
    "step": ("--cluster", "2x(2xL4)", "--training", "--global-batch", "16"),
    "steady": ("--cluster", "4xL4", "--training", "--minimise", "steady", "--microbatches", "8"),
    "one sample": ("--cluster", "A100-40GB+T4", "--objective", "latency"),
    "host memory": ("--cluster", "(2xT4+1xCPU)", "--objective", "host-memory"),
    "serving": ("--cluster", "2xL4", "--objective", "serving", "--layout", "tensor=2", "--concurrency", "4", *REQUESTS),
    "fleet": ("--cluster", "2xL4+2xT4", "--objective", "serving", "--tpot", "0.05", "--time-limit", "8", *REQUESTS),
    "placement": ("--cluster", "2xL4+2xT4", "--objective", "layer_placement", *REQUESTS),
}

#: Those that decode token by token.
DECODING = {"serving", "fleet", "placement"}

#: All documents there are.
NAMES = (*PLANS, "solved", "free", "impossible", "mapping", "compared", "sweep", "simulation")


def call(*arguments: object) -> str:
    """Run the command line and give what it printed."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    assert stop.value.code in (0, 1), arguments
    return out.getvalue()


class Documents:
    """Documents by their names, made when they are asked for, in files of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.known: dict[str, Path] = {}
        self.others: dict[str, Callable[[Path], str]] = {
            "solved": lambda path: call("solve", self.instance(), "--output", path),
            "free": lambda path: call("solve", self.instance(), "--contiguity", "free", "--output", path),
            "impossible": lambda path: call("solve", self.instance(), "--memory", "5", "--output", path),
            "mapping": lambda path: call("map", self.written("pipeline.json", PIPELINE), "--output", path),
            "compared": lambda path: call("compare", self.instance(), "--output", path),
            "sweep": lambda path: call(
                *("sweep", self.instance(), "--devices", "1,2", "--bandwidth", "0.5,1", "--output", path)
            ),
            "simulation": lambda path: str(
                path.write_text(call("simulate", self.path("step"), "--schedule", "gpipe", "--json"))
            ),
        }

    def written(self, name: str, document: dict[str, Any]) -> Path:
        """A file with a document."""
        path = self.folder / name
        path.write_text(json.dumps(document))
        return path

    def instance(self) -> Path:
        """A published format: a chain of three operators on two accelerators."""
        return self.written("chain.json", workload())

    def graph(self, *, training: bool = False, decode: bool = False) -> Path:
        """A tiny model, traced; with ``decode`` with the cache of what came before."""
        from partita.frontends.models import load_model

        path = self.folder / f"model-{training}-{decode}.json"
        if not path.exists():
            asked: dict[str, Any] = {"decode": 31} if decode else {"training": training, "sequence_length": 16}
            write_graph(path, load_model("hf:gpt2", set_fields=FIELDS, batch_size=1, **asked))
        return path

    def path(self, name: str) -> Path:
        """The file of a document."""
        if name not in self.known:
            path = self.folder / f"{name.replace(' ', '-')}.json"
            if name in PLANS:
                pytest.importorskip("transformers")
                graph = self.graph(training="--training" in PLANS[name], decode=name in DECODING)
                call("plan", graph, "--time-limit", "60", *PLANS[name], "--output", path)
            else:
                self.others[name](path)
            self.known[name] = path
        return self.known[name]

    def read(self, name: str) -> dict[str, Any]:
        """A document."""
        found: dict[str, Any] = json.loads(self.path(name).read_text())
        return found
