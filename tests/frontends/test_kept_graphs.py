"""A graph from disk is the traced one, and none comes from there once anything that the trace has read is another."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import threading
import types
from collections.abc import Callable
from pathlib import Path

import pytest

from partita.frontends.kept import graphs, installed
from partita.frontends.kept.graphs import kept
from partita.frontends.options import Adapters, Asked
from partita.ground.folders import kept_folder
from partita.nouns.graph import Graph, Operator, Source, Tensor

ASKED = Asked(2, None, None, {"n_layer": "3"}, None, False)
#: Modules that the classes of a traced model are of.
NO_CLASSES: frozenset[str] = frozenset()


def graph_of(name: str) -> Graph:
    """One with all that has to come back."""
    return Graph(
        name=name,
        operators=(Operator(name="a", target="aten.mm.default", flops=7), Operator(name="b", target="x", launches=2)),
        tensors=(Tensor(name="t", producer=0, consumers=(1,), shape=(3, 5), bytes=60),),
        modules={"": "Net"},
        notes=("A note – with more than ASCII.",),
        source=Source(model="hf:gpt2", settings={"set": {"n_layer": "3"}, "batch_size": 2, "dtype": None}),
    )


class Tracer:
    """Traces, and counts how often."""

    def __init__(self) -> None:
        self.traces = 0
        self.reads: Callable[[], object] = lambda: None
        self.modules = NO_CLASSES

    def __call__(self) -> tuple[Graph, frozenset[str]]:
        self.traces += 1
        return graph_of(str(self.reads())), self.modules


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where graphs are kept; a process that has loaded no modules of its own yet, on libraries of one version."""
    monkeypatch.setenv("PARTITA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(graphs, "version_of", lambda package: "1.0")
    monkeypatch.setattr(graphs, "own_modules", dict)
    return tmp_path / "cache" / "graphs"


@pytest.fixture
def tracer() -> Tracer:
    return Tracer()


def entry(folder: Path) -> Path:
    """The one file that there is."""
    (found,) = folder.iterdir()
    return found


def older(path: Path) -> Path:
    """A file that was not changed just now."""
    os.utime(path, (1e9, 1e9))
    return path


def test_a_model_is_traced_once(folder: Path, tracer: Tracer) -> None:
    first = kept("hf:gpt2", ASKED, tracer)
    assert kept("hf:gpt2", ASKED, tracer) == first == graph_of("None")
    assert tracer.traces == 1
    assert entry(folder).suffix == ".graph"


@pytest.mark.parametrize(
    "change",
    [
        {"batch_size": 3},
        {"sequence_length": 8},
        {"dtype": "float16"},
        {"fields": {"n_layer": "4"}},
        {"task": "causal-lm"},
        {"training": True},
        {"decode": 5},
        {"inputs": {"x": 1}},
        {"adapters": Adapters(4)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_whatever_is_asked_for_counts(folder: Path, tracer: Tracer, change: dict[str, object]) -> None:
    kept("hf:gpt2", ASKED, tracer)
    kept("hf:gpt2", dataclasses.replace(ASKED, **change), tracer)
    kept("hf:llama", ASKED, tracer)
    assert tracer.traces == 3


def test_every_setting_is_among_those() -> None:
    """A setting that is added gets a line in the test above."""
    named = {"batch_size", "sequence_length", "dtype", "fields", "task", "training", "decode", "inputs", "adapters"}
    assert {field.name for field in dataclasses.fields(Asked)} == named


@pytest.mark.parametrize("what", ["version_of", "frontends_digest", "installed_packages"])
def test_versions_count(folder: Path, tracer: Tracer, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    kept("hf:gpt2", ASKED, tracer)
    monkeypatch.setattr(graphs, what, lambda *_: "2.0")
    kept("hf:gpt2", ASKED, tracer)
    assert tracer.traces == 2


def test_a_library_that_is_worked_on_is_not_trusted(
    folder: Path, tracer: Tracer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graphs, "version_of", lambda package: None)
    kept("hf:gpt2", ASKED, tracer)
    assert not folder.exists()
    # What is imported from elsewhere than where its version says it is has none.
    monkeypatch.setattr(installed.importlib.util, "find_spec", lambda name: types.SimpleNamespace(origin="/elsewhere"))
    assert installed.version_of("msgspec") is None
    monkeypatch.undo()
    assert installed.version_of("msgspec")
    assert installed.version_of("no_such_package") is None


def test_a_configuration_file_counts_by_its_content(folder: Path, tracer: Tracer, tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text('{"n": 1}')
    older(config)
    for _ in range(2):
        kept(f"hf:{config}", ASKED, tracer)
    assert tracer.traces == 1
    config.write_text('{"n": 2}')
    older(config)
    for _ in range(2):
        kept(f"hf:{config}", ASKED, tracer)
    assert tracer.traces == 2


def test_a_file_named_as_a_type_counts(
    folder: Path, tracer: Tracer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    kept("hf:gpt2", ASKED, tracer)
    (tmp_path / "gpt2").write_text("{}")
    kept("hf:gpt2", ASKED, tracer)
    assert tracer.traces == 2


def test_what_own_code_opens_counts(folder: Path, tracer: Tracer, tmp_path: Path) -> None:
    model, table = tmp_path / "net.py", tmp_path / "table.json"
    model.write_text("")
    table.write_text("[1]")
    older(model)
    older(table)
    tracer.reads = lambda: json.loads(table.read_text())
    spec = f"{model}:build"
    assert kept(spec, ASKED, tracer) == kept(spec, ASKED, tracer) == graph_of("[1]")
    assert tracer.traces == 1
    table.write_text("[2]")
    older(table)
    assert kept(spec, ASKED, tracer) == graph_of("[2]")
    model.write_text("# edited")
    older(model)
    kept(spec, ASKED, tracer)
    table.unlink()
    tracer.reads = lambda: table.exists()
    assert kept(spec, ASKED, tracer) == graph_of("False")
    assert tracer.traces == 4


def test_variables_that_own_code_reads_count(
    folder: Path, tracer: Tracer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "net.py").write_text("")
    spec = f"{older(tmp_path / 'net.py')}:build"
    monkeypatch.setenv("A_WIDTH", "a secret")
    tracer.reads = lambda: (os.environ["A_WIDTH"], os.environ.get("A_DEPTH"), os.getenv("A_DEPTH", "2"))
    kept(spec, ASKED, tracer)
    kept(spec, ASKED, tracer)
    assert tracer.traces == 1
    head = entry(folder).read_bytes().split(b"\n")[0]
    assert b"A_WIDTH" in head
    assert b"a secret" not in head
    monkeypatch.setenv("A_DEPTH", "3")
    kept(spec, ASKED, tracer)
    assert tracer.traces == 2
    monkeypatch.setenv("A_WIDTH", "9")
    assert kept(spec, ASKED, tracer) == graph_of("('9', '3', '3')")
    monkeypatch.setenv("ANOTHER", "9")
    kept(spec, ASKED, tracer)
    assert tracer.traces == 3
    assert isinstance(os.environ, os._Environ)


@pytest.mark.parametrize(
    "reads",
    [
        lambda folder: (folder / "out.txt").write_text("x"),
        lambda folder: dict(os.environ),
        lambda folder: subprocess.run([sys.executable, "-c", ""], check=True),
        lambda folder: (folder / "net.py").write_text("# edited while it is traced"),
    ],
    ids=["writes", "whole environment", "process", "edited"],
)
def test_what_cannot_be_looked_at_again_is_not_kept(
    folder: Path, tracer: Tracer, tmp_path: Path, reads: Callable[[Path], object]
) -> None:
    (tmp_path / "net.py").write_text("")
    older(tmp_path / "net.py")
    tracer.reads = lambda: reads(tmp_path)
    for _ in range(2):
        kept(f"{tmp_path}/net.py:build", ASKED, tracer)
    assert tracer.traces == 2


def test_modules_of_ones_own_count(
    folder: Path, tracer: Tracer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("net.py", "helper.py"):
        (tmp_path / name).write_text("")
        older(tmp_path / name)
    spec, loaded = f"{tmp_path}/net.py:build", {}
    monkeypatch.setattr(graphs, "own_modules", lambda: dict(loaded))
    tracer.reads = lambda: loaded.setdefault("helper", str(tmp_path / "helper.py"))
    kept(spec, ASKED, tracer)
    # What was loaded before the trace may be older than its file.
    (tmp_path / "helper.py").write_text("# edited")
    older(tmp_path / "helper.py")
    kept(spec, ASKED, tracer)
    kept(spec, ASKED, tracer)
    assert tracer.traces == 3
    loaded.clear()
    kept(spec, ASKED, tracer)
    loaded.clear()
    kept(spec, ASKED, tracer)
    assert tracer.traces == 4


def test_own_modules_are_known() -> None:
    found = installed.own_modules()
    assert any(Path(file).name == Path(__file__).name for file in found.values())
    assert not any(name.startswith(("partita.", "msgspec", "json", "pytest")) for name in found)


def test_a_class_that_was_put_into_a_library_is_not_trusted(folder: Path, tracer: Tracer) -> None:
    """One of a user's that transformers was told of, and a function that took the place of the library's."""
    tracer.modules = frozenset({__name__})
    kept("hf:gpt2", ASKED, tracer)
    tracer.modules = frozenset({"__main__"})
    kept("hf:gpt2", ASKED, tracer)
    assert not folder.exists()
    tracer.modules = frozenset({"msgspec.json"})
    for _ in range(2):
        kept("hf:gpt2", ASKED, tracer)
    assert tracer.traces == 3
    import msgspec.json as library

    library.put_there = lambda: None  # type: ignore[attr-defined]
    try:
        kept("hf:gpt2", ASKED, tracer)
    finally:
        del library.put_there  # type: ignore[attr-defined]
    assert tracer.traces == 4


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:-7],
        lambda data: data.replace(b"aten.mm", b"aten.bm"),
        lambda data: b"\xff" + data,
        lambda data: b"{}\n{}",
    ],
)
def test_what_is_damaged_is_traced_again(folder: Path, tracer: Tracer, damage: Callable[[bytes], bytes]) -> None:
    kept("hf:gpt2", ASKED, tracer)
    path = entry(folder)
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    assert kept("hf:gpt2", ASKED, tracer) == graph_of("None")
    assert tracer.traces == 2
    assert entry(folder).read_bytes() == whole


def test_a_folder_that_cannot_be_is_no_error(folder: Path, tracer: Tracer, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in (__file__, "", "off", "/proc/nowhere"):
        monkeypatch.setenv("PARTITA_CACHE", place)
        assert kept("hf:gpt2", ASKED, tracer) == graph_of("None")
    assert tracer.traces == 4


def test_where_the_folder_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PARTITA_CACHE", str(tmp_path))
    assert kept_folder() == tmp_path
    monkeypatch.delenv("PARTITA_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert kept_folder() == tmp_path / "xdg" / "partita"
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    assert kept_folder() == tmp_path / ".cache" / "partita"


def test_the_least_recently_used_go(folder: Path, tracer: Tracer, monkeypatch: pytest.MonkeyPatch) -> None:
    specs = ["hf:a", "hf:b", "hf:c"]
    for age, spec in enumerate(specs):
        before = set(folder.iterdir()) if folder.exists() else set()
        kept(spec, ASKED, tracer)
        (new,) = set(folder.iterdir()) - before
        os.utime(new, (1e9 + age, 1e9 + age))
    kept("hf:a", ASKED, tracer)
    monkeypatch.setattr(graphs, "MOST_BYTES", 3 * new.stat().st_size + 100)
    kept("hf:d", ASKED, tracer)
    assert tracer.traces == 4
    assert len(list(folder.iterdir())) == 3
    kept("hf:a", ASKED, tracer)
    kept("hf:d", ASKED, tracer)
    assert tracer.traces == 4
    kept("hf:b", ASKED, tracer)
    assert tracer.traces == 5


def test_writers_at_the_same_time(folder: Path, tracer: Tracer) -> None:
    """Whoever is last has written a whole file, and readers see a whole file or none."""
    path, data = folder / "one.graph", [bytes([number]) * 200_000 for number in range(4)]
    seen: list[bool] = []

    def write(mine: bytes) -> None:
        for _ in range(20):
            graphs._write(path, mine)
            seen.append(path.read_bytes() in data)

    threads = [threading.Thread(target=write, args=(mine,)) for mine in data]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 80
    assert all(seen)
    assert [each.name for each in folder.iterdir()] == ["one.graph"]


MODEL = """
import torch
from widths import WIDTH
def build(batch_size=1):
    return torch.nn.Linear(WIDTH, 2), (torch.zeros(batch_size, WIDTH),)
"""
RUN = """
import sys, msgspec
import partita as pt
graph = pt.load_model("net.py:build", cache={cache})
print(graph.parameter_count, "torch" in sys.modules, msgspec.json.encode(graph).decode())
"""


def test_a_process_that_finds_the_graph_imports_no_torch(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "net.py").write_text(MODEL)
    (tmp_path / "widths.py").write_text("WIDTH = 3\n")

    def run(cache: bool = True) -> list[str]:
        variables = {**os.environ, "PARTITA_CACHE": str(tmp_path / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
        variables["PYTHONPATH"] = os.pathsep.join(sys.path)
        code = RUN.format(cache=cache)
        done = subprocess.run(
            [sys.executable, "-c", code], env=variables, cwd=tmp_path, capture_output=True, text=True, check=True
        )
        return done.stdout.split(" ", 2)

    first, second = run(), run()
    assert (first[:2], second[:2]) == (["8", "True"], ["8", "False"])
    assert first[2] == second[2]
    (tmp_path / "widths.py").write_text("WIDTH = 40\n")
    assert run()[:2] == ["82", "True"]


def test_an_onnx_file_counts_by_its_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    onnx = pytest.importorskip("onnx", reason="ONNX files are read by onnx")
    import partita as pt

    monkeypatch.setenv("PARTITA_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "net.onnx"

    def write(kind: str) -> None:
        value = onnx.helper.make_tensor_value_info
        node = onnx.helper.make_node(kind, ["x"], ["y"])
        ends = ([value("x", 1, [2, 3])], [value("y", 1, [2, 3])])
        onnx.save(onnx.helper.make_model(onnx.helper.make_graph([node], "net", *ends)), path)
        older(path)

    write("Relu")
    first = pt.load_model(str(path))
    assert pt.load_model(str(path)) == first
    assert len(list((tmp_path / "cache" / "graphs").iterdir())) == 1
    write("Sigmoid")
    second = pt.load_model(str(path))
    assert second.operators[0].target != first.operators[0].target
    assert second == pt.load_model(str(path), cache=False)
