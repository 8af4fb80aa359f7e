"""Models given as path/to/file.py:callable."""

# ruff: noqa: E402 -- the imports follow the check that torch is there
from __future__ import annotations

import sys
import textwrap

import msgspec
import pytest

torch = pytest.importorskip("torch", reason="the PyTorch frontend needs torch")

from frontends.helpers import check_training, targets
from partita.frontends.models import load_model, load_module
from partita.ground.errors import InputError, TraceError
from partita.nouns.graph import Source

SOURCE = """
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self, width, depth=2):
            super().__init__()
            self.embed = nn.Embedding(100, width)
            self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
            self.head = nn.Linear(width, 100, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, ids):
            x = self.embed(ids)
            for layer in self.layers:
                x = x + torch.relu(layer(x))
            return self.head(x)

    def small(batch_size=1, sequence_length=7, depth=2):
        return Net(8, depth), (torch.zeros(batch_size, sequence_length, dtype=torch.long),)

    def huge():
        return Net(200_000, 4), (torch.zeros(1, 4, dtype=torch.long),), {}

    def peeks():
        width = int(torch.full((2**30,), 8.0).sum().item())
        return Net(width), (torch.zeros(1, 4, dtype=torch.long),)

    def floats():
        return nn.Linear(4, 4), (torch.zeros(2, 4),)

    def needy(width):
        return Net(width), ()

    def fails():
        raise ValueError("no luck\\ntoday")

    def lonely():
        return Net(8)

    def reversed_():
        return (torch.zeros(1),), Net(8)

    def odd_args():
        return Net(8), 3

    number = 3
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "nets.py"
    path.write_text(textwrap.dedent(SOURCE))
    return path


def test_skips_and_ties(file) -> None:
    graph = load_model(f"{file}:small")
    assert targets(graph) == ["embedding", "addmm", "relu", "add", "addmm", "relu", "add", "mm"]
    weight = graph.parameters[0]
    assert (weight.name, weight.aliases, weight.users) == ("embed.weight", ("head.weight",), (0, 7))
    assert graph.name == "small"
    check_training(load_model(f"{file}:small", training=True))


def test_options_reach_the_callable(file) -> None:
    graph = load_model(f"{file}:small", batch_size=3, sequence_length=5, set_fields={"depth": "4"})
    assert graph.tensors[0].shape == (3, 5)
    assert graph.modules["layers.3"] == "Linear"


def test_no_weights_are_allocated(file) -> None:
    # Four square layers of 200,000 and an embedding are over 600 GB.
    graph = load_model(f"{file}:huge")
    assert graph.parameter_bytes > 600e9


def test_dtype_casts_weights_and_floating_inputs(file) -> None:
    graph = load_model(f"{file}:floats", dtype="bf16")
    assert {t.dtype for t in graph.tensors} == {"bfloat16"}
    assert graph.parameter_bytes == (16 + 4) * 2


def test_neighbours_can_be_imported(tmp_path) -> None:
    (tmp_path / "neighbour_of_model.py").write_text("width = 6\n")
    path = tmp_path / "model.py"
    path.write_text(
        "import torch\nfrom neighbour_of_model import width\n"
        "def build():\n    return torch.nn.Linear(width, 2), (torch.zeros(1, width),)\n"
    )
    assert load_model(f"{path}:build").parameter_count == 14


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("smal", r"'smal' does not exist in .*; did you mean 'small'"),
        ("number", r"'number' is not callable"),
        ("lonely", r"returns Net; it must return \(module, args\) or \(module, args, kwargs\)"),
        ("reversed_", r"returns a tuple of 1 first; it must return"),
        ("odd_args", r"returns args as int; it must return"),
        ("needy", r"needs width; give --set width=VALUE, or a default in the file"),
        ("", r"names no callable; write path/to/file\.py:callable"),
    ],
)
def test_wrong_callables(file, name: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        load_model(f"{file}:{name}")
    assert "\n" not in str(caught.value)


def test_wrong_options(file) -> None:
    with pytest.raises(InputError, match="takes no batch_size"):
        load_model(f"{file}:floats", batch_size=2)
    with pytest.raises(InputError, match="takes no 'deep'; did you mean 'depth'"):
        load_model(f"{file}:small", set_fields={"deep": "3"})
    with pytest.raises(InputError, match="task picks the head of an hf: model"):
        load_model(f"{file}:small", task="causal-lm")


def test_files_that_are_not_there_or_broken(tmp_path) -> None:
    with pytest.raises(InputError, match=r"there is no file .*absent\.py"):
        load_model(f"{tmp_path}/absent.py:build")
    broken = tmp_path / "broken.py"
    broken.write_text("import a_module_that_is_not_there\n")
    with pytest.raises(InputError, match=r"importing .*broken\.py.* fails: ModuleNotFoundError"):
        load_model(f"{broken}:build")


def test_a_callable_that_raises(file) -> None:
    with pytest.raises(TraceError, match=r"fails: ValueError: no luck today \(nets\.py, line 36\)$") as caught:
        load_model(f"{file}:fails")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("status", ["0", "'not today'"])
def test_a_file_that_ends_the_program(tmp_path, status: str) -> None:
    path = tmp_path / "ends.py"
    path.write_text(
        f"def build():\n    raise SystemExit({status})\n\nif {status} == 0:\n    raise SystemExit({status})\n"
    )
    with pytest.raises(InputError, match=r"fails: SystemExit: .*\(ends\.py, line \d\)"):
        load_model(f"{path}:build")


def test_a_file_reads_no_arguments_of_partita(tmp_path, monkeypatch) -> None:
    path = tmp_path / "arguments.py"
    path.write_text(
        "import argparse, torch\nparser = argparse.ArgumentParser()\n"
        "parser.add_argument('--width', type=int, default=6)\n"
        "given = parser.parse_args()\n"
        "def build():\n    return torch.nn.Linear(given.width, 2), (torch.zeros(1, given.width),)\n"
    )
    monkeypatch.setattr("sys.argv", ["partita", "plan", "--cluster", "2xL4"])
    assert load_model(f"{path}:build").parameter_count == 14
    assert sys.argv == ["partita", "plan", "--cluster", "2xL4"]


def test_the_callables_own_batch_size_is_kept(tmp_path) -> None:
    path = tmp_path / "own.py"
    path.write_text(
        "import torch\ndef build(batch_size=5):\n    return torch.nn.Linear(6, 2), (torch.zeros(batch_size, 6),)\n"
    )
    assert load_model(f"{path}:build").tensors[0].shape == (5, 6)
    assert load_model(f"{path}:build", batch_size=1).tensors[0].shape == (1, 6)


def test_a_callable_that_needs_data(file) -> None:
    with pytest.raises(TraceError, match=r"nets\.py, line \d+\); it is built without data, so values cannot be read"):
        load_model(f"{file}:peeks")


def test_missing_torch_names_the_install_command(monkeypatch, file) -> None:
    import importlib.util

    from partita.ground.errors import MissingExtraError

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"torch is not installed; .*partita\[torch\]"):
        load_model(f"{file}:small")


def test_importing_the_frontend_is_light() -> None:
    import subprocess
    import sys

    code = (
        "import sys, partita.frontends.torch, partita.frontends.models; "
        "sys.exit(any(m in sys.modules for m in ('torch', 'transformers')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_graph_says_how_its_model_was_made(file):
    graph = load_model(f"{file}:small", batch_size=3, set_fields={"depth": "4"}, training=True)
    assert graph.source is not None
    assert graph.source.model == f"{file}:small"
    assert graph.source.settings["batch_size"] == 3
    assert graph.source.settings["set"] == {"depth": "4"}
    assert graph.source.training
    again = load_module(msgspec.json.decode(msgspec.json.encode(graph.source), type=Source))
    assert again.trace().operators == graph.operators


def test_a_module_with_weights_follows_from_the_seed(file):
    source = Source(model=f"{file}:small", settings={"set": {"depth": 3}})
    one, same, other = (load_module(source, seed=seed).module for seed in (1, 1, 2))
    assert len(one.layers) == 3
    assert not any(p.is_meta for p in one.parameters())
    assert all(torch.equal(p, q) for p, q in zip(one.parameters(), same.parameters(), strict=True))
    assert not torch.equal(one.embed.weight, other.embed.weight)


def test_unknown_settings_of_a_source_are_refused(file):
    with pytest.raises(InputError, match="'batch'"):
        load_module(Source(model=f"{file}:small", settings={"batch": 3}))


def test_errors_of_a_module_name_file_and_line(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(
        "import torch\nclass Net(torch.nn.Linear):\n    def forward(self, x):\n        y = super().forward(x)\n"
        "        return y if y.sum() > 0 else y @ x\n\nclass Other(Net):\n    def forward(self, x):\n"
        "        return super().forward(x[:, :3])\n"
        "def reads():\n    return Net(4, 4), (torch.zeros(1, 4),)\n"
        "def fails():\n    return torch.nn.Sequential(Other(4, 4)), (torch.zeros(1, 4),)\n"
    )
    with pytest.raises(TraceError, match=r"the root module \(Net\): .*depend on data .*\(own\.py, line 5\)"):
        load_model(f"{path}:reads")
    with pytest.raises(TraceError, match=r"module '0' \(Other\): .*\(own\.py, line 4\)"):
        load_model(f"{path}:fails")
