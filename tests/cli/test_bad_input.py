"""Every mistake gets exit status 2 and one line that names the object, the value or the remedy; never a traceback."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import workload
from partita.cli.common import check_writable
from partita.ground.errors import InputError
from running.command_line import Run

Change = Callable[[dict[str, Any]], Any]


def _set(path: str, value: Any) -> Change:
    """Set a value at a dotted path such as ``nodes.1.cpuLatency``."""

    def change(document: dict[str, Any]) -> None:
        *parents, last = path.split(".")
        target: Any = document
        for part in parents:
            target = target[int(part) if isinstance(target, list) else part]
        target[int(last) if isinstance(target, list) else last] = value

    return change


def _drop(path: str) -> Change:
    def change(document: dict[str, Any]) -> None:
        *parents, last = path.split(".")
        target: Any = document
        for part in parents:
            target = target[int(part) if isinstance(target, list) else part]
        del target[last]

    return change


def _edge(source: int, target: int, cost: float = 1.0) -> Change:
    return lambda document: document["edges"].append({"sourceId": source, "destId": target, "cost": cost})


WORKLOADS: list[tuple[str, Change, str]] = [
    ("cycle", _edge(2, 0), "cycle"),
    ("self-loop", _edge(1, 1), "cycle of one node"),
    ("NaN time", _set("nodes.1.fpgaLatency", float("nan")), "NaN"),
    ("infinite time", _set("nodes.1.cpuLatency", float("inf")), "Infinity"),
    ("negative time", _set("nodes.1.fpgaLatency", -3.0), "operator 1 (b): time on accelerator is -3.0"),
    ("negative CPU time", _set("nodes.2.cpuLatency", -1.0), "operator 2 (c): time on cpu is -1.0"),
    ("negative size", _set("nodes.0.size", -5.0), "memory_bytes is -5.0"),
    ("negative cost", _set("edges.0.cost", -1.0), "cost is -1.0"),
    ("negative memory", _set("maxSizePerFPGA", -1.0), "maxSizePerFPGA is -1.0"),
    ("negative devices", _set("maxFPGAs", -1), "count is -1"),
    ("no devices", _set("maxFPGAs", 0), "no devices"),
    ("duplicate id", _set("nodes.2.id", 1), "id 1 appears twice"),
    ("dangling source", _edge(7, 1), "node 7"),
    ("dangling target", _edge(1, 9), "node 9"),
    ("unequal costs of one tensor", _edge(0, 2, 4.0), "differs from 1.0"),
    ("empty graph", lambda d: d.update(nodes=[], edges=[]), "no operators"),
    ("text for a number", _set("nodes.0.cpuLatency", "fast"), "$.nodes[0].cpuLatency"),
    ("number for a list", _set("nodes", 3), "$.nodes"),
    ("null time", _set("nodes.0.fpgaLatency", None), "$.nodes[0].fpgaLatency"),
    ("fractional id", _set("nodes.0.id", 0.5), "$.nodes[0].id"),
    ("flag out of range", _set("nodes.0.isBackwardNode", 7), "isBackwardNode is 7"),
    ("missing id", _drop("nodes.1.id"), "missing key `id`"),
    ("missing time", _drop("nodes.1.fpgaLatency"), "missing key `fpgaLatency`"),
    ("missing edges", _drop("edges"), "missing key `edges`"),
    ("missing cost", _drop("edges.0.cost"), "missing key `cost`"),
    ("missing device count", _drop("maxFPGAs"), "missing key `maxFPGAs`"),
    (
        "backward feeds forward",
        _set("nodes.0.isBackwardNode", True),
        "backward operator 0 feeds forward operator 1",
    ),
]


def _is_one_message(run: Run, expected: str) -> None:
    assert run.code == 2, run
    assert run.out == ""
    lines = run.err.strip().splitlines()
    assert len(lines) == 1, run.err
    assert expected in lines[0], run.err
    assert "Traceback" not in run.err


@pytest.mark.parametrize(("change", "expected"), [row[1:] for row in WORKLOADS], ids=[row[0] for row in WORKLOADS])
def test_malformed_workload(partita: Callable[..., Run], tmp_path: Path, change: Change, expected: str) -> None:
    document = workload()
    change(document)
    path = tmp_path / "broken.json"
    path.write_text(json.dumps(document))
    output = tmp_path / "result.json"
    run = partita("solve", path, "--json", "--output", output)
    _is_one_message(run, expected)
    assert not output.exists()


TEXTS = [
    ("empty file", "", "is empty"),
    ("white space", " \n", "is empty"),
    ("not JSON", "graph LR; a --> b", "not valid JSON"),
    ("truncated", json.dumps(workload())[:-20], "cut off"),
    ("trailing text", json.dumps(workload()) + "}", "not valid JSON"),
    ("a list", "[1, 2]", "expected `object`"),
    ("unknown keys only", '{"layers": []}', "not in a known format"),
    ("another format tag", '{"format": "partita.cluster", "version": 1}', "partita.cluster"),
]


@pytest.mark.parametrize(("text", "expected"), [row[1:] for row in TEXTS], ids=[row[0] for row in TEXTS])
def test_malformed_text(partita: Callable[..., Run], tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "broken.json"
    path.write_text(text)
    _is_one_message(partita("solve", path, "--json"), expected)


def _native() -> dict[str, Any]:
    return {
        "format": "partita.problem",
        "version": 1,
        "name": "p",
        "kinds": [{"name": "gpu", "count": 2, "memory_bytes": 100.0}],
        "operators": [{"id": 0, "times": [1.0]}, {"id": 1, "times": [2.0]}],
        "tensors": [{"producer": 0, "consumers": [1], "size": 1.0}],
        "parameters": [{"name": "w", "users": [0, 1], "weight_bytes": 8.0}],
    }


NATIVE: list[tuple[str, Change, str]] = [
    ("unknown key", lambda d: d.update(colour="red"), "unknown key `colour`"),
    ("unknown key below", _set("operators.0.flops", 3), "unknown key `flops`"),
    ("unknown version", _set("version", 99), "version 99"),
    ("missing version", _drop("version"), "missing key `version`"),
    ("too few times", _set("operators.1.times", []), "has 0 times"),
    ("unknown producer", _set("tensors.0.producer", 5), "no operator with id 5"),
    ("consumer twice", _set("tensors.0.consumers", [1, 1]), "listed twice"),
    ("unknown user", _set("parameters.0.users", [4]), "no operator with id 4"),
    ("negative weight", _set("parameters.0.weight_bytes", -8.0), "weight_bytes is -8.0"),
    ("kind twice", lambda d: d["kinds"].append(copy.deepcopy(d["kinds"][0])), "appears twice"),
    ("unknown schedule", lambda d: d.update(schedule={"name": "zigzag"}), "zigzag"),
    ("no microbatches", lambda d: d.update(schedule={"name": "1f1b", "microbatches": 0}), "microbatches is 0"),
]


@pytest.mark.parametrize(("change", "expected"), [row[1:] for row in NATIVE], ids=[row[0] for row in NATIVE])
def test_malformed_problem(partita: Callable[..., Run], tmp_path: Path, change: Change, expected: str) -> None:
    document = _native()
    change(document)
    path = tmp_path / "broken.json"
    path.write_text(json.dumps(document))
    _is_one_message(partita("solve", path, "--json"), expected)


USAGE = [
    (("solve", "{missing}"), "there is no such file"),
    (("solve", "{folder}"), "is a folder"),
    (("solve", "{chain}", "--time-limit", "0"), "out of range"),
    (("solve", "{chain}", "--time-limit", "soon"), "not a number"),
    (("solve", "{chain}", "--devices", "-1"), "-1"),
    (("solve", "{chain}", "--memory", "much"), "not a number of bytes, such as 40GB, 40GiB, 80e9 or inf"),
    (("solve", "{chain}", "--memory", "40XB"), "not a number of bytes"),
    (
        ("solve", "{chain}", "--seed", "-1"),
        "'--seed': -1 is out of range; give a whole number of at least 0 and at most",
    ),
    (("solve", "{chain}", "--seed", "2147483648"), "'--seed': 2147483648 is out of range"),
    (("solve", "{chain}", "--solver", "oracle"), "no solver 'oracle'"),
    (("solve", "{chain}", "--contiguity", "loose"), "loose"),
    (("solve", "{chain}", "--format", "piper"), "missing key"),
    (("solve", "{chain}", "--output", "{missing}/r.json"), "does not exist"),
    (("solve", "{chain}", "--frobnicate"), "--frobnicate"),
    (("solve",), "FILE"),
    (("bound", "{chain}", "--method", "oracle"), "no bound 'oracle'"),
    (("evaluate", "{chain}", "{chain}"), "partita.result"),
    (("plan", "hf:gpt2"), "--cluster"),
    (("plan", "hf:gpt2", "--cluster", "3xZ9000"), "Z9000"),
    (("plan", "hf:gpt2", "--cluster", ""), 'the cluster is empty; write for example "4xA100-80GB"'),
    (("plan", "hf:gpt2", "--cluster", ":1"), "a device is missing"),
    (("plan", "model.onnx", "--cluster", "2xL4"), "there is no file 'model.onnx'"),
    (("plan", "{missing}", "--cluster", "2xL4"), "missing"),
    (("plan", "hf:gpt2", "--cluster", "8x8xL4"), "8x(8xL4)"),
    (("plan", "hf:openai/gpt2", "--cluster", "2xL4"), "download it first"),
    (("plan", "hf:gpt2", "--cluster", "2xL4", "--set", "n_layer=-1"), "'n_layer' of the configuration of 'gpt2' is -1"),
    (("plan", "hf:gpt2", "--cluster", "2xL4", "--optimizer", "sgd"), "add --training"),
    (("plan", "hf:gpt2", "--cluster", "2xL4", "--lora", "16"), "add --training, or leave --lora out"),
    (
        ("plan", "hf:gpt2", "--cluster", "2xL4", "--training", "--lora", "0"),
        "0 is out of range; give a whole number of at least 1",
    ),
    (("plan", "hf:gpt2", "--cluster", "2xL4", "--training", "--lora-targets", "c_attn"), "give the rank of these, too"),
    (("plan", "hf:gpt2", "--cluster", "2xL4", "--weights", "nf4"), "--weights is about training; add --training"),
    (
        ("plan", "hf:gpt2", "--cluster", "2xL4", "--batch-size", "1000000000"),
        "batch size 1,000,000,000 is out of range",
    ),
    (("plan", "hf:gpt2", "--cluster", "2xL4", "--sequence-length", "1000000000"), "sequence length 1,000,000,000 is"),
    (("compare", "hf:gpt2"), "--cluster"),
    (("invent",), "invent"),
]


@pytest.mark.parametrize(("arguments", "expected"), USAGE, ids=[" ".join(row[0]) for row in USAGE])
def test_usage(
    partita: Callable[..., Run], tmp_path: Path, chain: Path, arguments: tuple[str, ...], expected: str
) -> None:
    values = {"missing": tmp_path / "missing.json", "folder": tmp_path, "chain": chain}
    _is_one_message(partita(*(argument.format(**values) for argument in arguments)), expected)


SPLITS = [
    ({"fpgas": [{"nodes": [0, 1]}, {"nodes": [7]}]}, "node 7 does not exist"),
    ({"fpgas": [{"nodes": [0, 1]}, {"nodes": [1, 2]}]}, "node 1 is placed twice"),
    ({"fpgas": [{"nodes": [0, 1]}]}, "operator 2 is in no stage"),
    ({"fpgas": [{"nodes": [0]}, {"nodes": [1]}, {"nodes": [2]}]}, "uses 3 accelerators"),
    ({"fpgas": [{"nodes": [0, "b", 2]}]}, "$.fpgas[0].nodes[1]"),
]


@pytest.mark.parametrize(("split", "expected"), SPLITS, ids=[row[1] for row in SPLITS])
def test_malformed_split(
    partita: Callable[..., Run], tmp_path: Path, chain: Path, split: dict[str, Any], expected: str
) -> None:
    path = tmp_path / "split.json"
    path.write_text(json.dumps(split))
    _is_one_message(partita("evaluate", chain, path, "--json"), expected)


TRACING = {
    "--batch-size": "3",
    "--sequence-length": "3",
    "--dtype": "float16",
    "--set": "n_layer=3",
    "--task": "base",
    "--input": "x=3:int64",
    "--inputs": "x.json",
}


@pytest.mark.parametrize("flag", TRACING)
def test_options_of_tracing_are_refused_for_graphs(partita: Callable[..., Run], tmp_path: Path, flag: str) -> None:
    from partita.documents.stated import write_graph
    from partita.nouns.graph import Graph, Operator

    path = tmp_path / "g.json"
    write_graph(
        path,
        Graph(
            name="g",
            operators=(Operator(name="a", target="t", dtype="float32", flops=1, bytes_read=1, bytes_written=1),),
        ),
    )
    _is_one_message(
        partita("plan", path, "--cluster", "2xL4", flag, TRACING[flag]), f"a traced graph, which {flag} cannot change"
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
def test_a_place_that_takes_no_file_is_refused_before_the_search(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder; name a file to write"):
        check_writable(str(tmp_path))
    check_writable(str(tmp_path), folders=True)
    check_writable(str(tmp_path / "new.json"), "/dev/null", "-", None)
    assert not list(tmp_path.iterdir())
    if Path("/proc/version").exists():
        with pytest.raises(InputError, match=r"^/proc/new\.json cannot be written: "):
            check_writable("/proc/new.json")


@pytest.mark.parametrize("arguments", [("devices",), ("solve", "{chain}", "--json")])
def test_a_full_standard_output(chain: Path, arguments: tuple[str, ...]) -> None:
    with open("/dev/full", "wb") as full:
        run = subprocess.run(
            [sys.executable, "-m", "partita", *(argument.format(chain=chain) for argument in arguments)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
            check=False,
        )
    assert run.returncode == 2
    assert run.stderr.splitlines()[-1] == "partita: standard output cannot be written: No space left on device"


@pytest.mark.parametrize("before", [False, True])
def test_the_whole_traceback_of_an_error(tmp_path: Path, partita: Callable[..., Run], before: bool) -> None:
    pytest.importorskip("torch")
    path = tmp_path / "own.py"
    path.write_text("def build():\n    raise ValueError('no luck')\n")
    plan = ("plan", f"{path}:build", "--cluster", "2xL4")
    plain, full = partita(*plan), partita(*(("--debug", *plan) if before else (*plan, "--debug")))
    assert (plain.code, full.code) == (2, 2)
    assert "Traceback" not in plain.err
    assert full.err.startswith("Traceback")
    assert "raise ValueError('no luck')" in full.err
    assert full.err.splitlines()[-1] == plain.err.splitlines()[-1]
    assert "--debug" in partita("plan", "--help").out


def test_options_of_training_need_training(partita: Callable[..., Run]) -> None:
    asked = ("plan", "hf:gpt2", "--cluster", "2xL4", "--optimizer", "adam")
    _is_one_message(partita(*asked), "--optimizer is about training; add --training")


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (("--layout", "tp=8"), "layout 'tp=8': 'tp=8' is not one of tensor=…"),
        (("--layout", "tensor=8,tensor=4"), "gives tensor twice"),
        (("--zero", "7"), "--zero 7 is no stage of ZeRO"),
        (("--minimise", "steady", "--layout", "tensor=8"), "--layout is for steps"),
    ],
)
def test_settings_are_looked_at_before_the_model(
    partita: Callable[..., Run], monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...], expected: str
) -> None:
    def traced(*_: object, **__: object) -> None:
        raise AssertionError("the model was traced first")

    monkeypatch.setattr("partita.frontends.models.load_model", traced)
    asked = ("plan", "hf:gpt2", "--training", "--cluster", "8xL4", *flags)
    _is_one_message(partita(*asked), expected)


@pytest.mark.parametrize("value", ["-1", "-12"])
def test_negative_sizes_of_configurations(partita: Callable[..., Run], value: str) -> None:
    pytest.importorskip("transformers")
    asked = ("plan", "hf:gpt2", "--cluster", "2xL4", "--set", f"n_layer={value}")
    _is_one_message(
        partita(*asked), f"field 'n_layer' of the configuration of 'gpt2' is {value}; it cannot be negative"
    )
