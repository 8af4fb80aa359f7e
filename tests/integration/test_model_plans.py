"""Plans of real traced models: proven, re-evaluated by an independent evaluator, and said in module terms."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import partita as pt
from partita.cli import main
from partita.problems.throughput.report import stage_modules
from second_opinions import independent_evaluator

#: Small relatives of real models: name, configuration fields.
SMALL = (
    ("gpt2", {"n_layer": "4", "n_embd": "64", "n_head": "4", "vocab_size": "500"}),
    ("llama", {"num_hidden_layers": "4", "hidden_size": "64", "intermediate_size": "128", "num_attention_heads": "4"}),
    ("t5", {"num_layers": "2", "d_model": "64", "d_ff": "128", "num_heads": "4", "d_kv": "16"}),
    ("bert", {"num_hidden_layers": "3", "hidden_size": "64", "intermediate_size": "128", "num_attention_heads": "4"}),
    ("resnet", {}),
)

USER_FILE = '''
import torch
from torch import nn


class Net(nn.Module):
    """Skip connections over several blocks, and an output layer tied to the embedding."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(1000, 64)
        self.blocks = nn.ModuleList(nn.Linear(64, 64) for _ in range(6))
        self.head = nn.Linear(64, 1000, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens):
        x = first = self.embed(tokens)
        for block in self.blocks:
            x = torch.relu(block(x)) + x
        return self.head(x + first)


def build():
    return Net(), (torch.zeros(4, 32, dtype=torch.long),)
'''


def _check(problem: pt.ThroughputProblem, result: Any, gap: float = 1e-3) -> None:
    assert result.plan is not None
    answer = independent_evaluator.evaluate(problem, result.plan)
    assert answer.objective == pytest.approx(result.objective, rel=1e-9)
    assert answer.feasible
    assert answer.acyclic
    assert result.bound is not None
    assert result.bound.value <= result.objective * (1 + 1e-9)
    assert result.gap <= gap
    assert sum(len(stage.operators) for stage in result.plan.stages) == len(problem.operators)


@pytest.mark.parametrize("training", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize(("name", "fields"), SMALL, ids=[name for name, _ in SMALL])
def test_small_models(name: str, fields: dict[str, str], training: bool) -> None:
    length = None if name == "resnet" else 32
    graph = pt.load_model(f"hf:{name}", sequence_length=length, set_fields=fields, training=training)
    cluster = pt.Cluster.from_spec("2xA100-40GB+1xT4")
    asked: dict[str, Any] = {"objective": "throughput", "microbatches": 4} if training else {}
    answer = pt.plan(graph, cluster, time_limit_s=30, **asked)
    _check(answer.problem, answer.result)
    for row in answer.baselines:
        if row.evaluation is not None and row.evaluation.feasible:
            assert row.evaluation.objective >= answer.result.objective * (1 - 1e-9)
    modules = stage_modules(answer.problem, answer.result.plan)
    assert all(entry.complete or entry.partial for entry in modules)


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe"])
def test_memory_limits_by_position(schedule: str) -> None:
    """With memory that just fits, in-flight microbatches decide where the cuts go, and the plan keeps every limit."""
    graph = pt.load_model("hf:gpt2", sequence_length=64, set_fields=SMALL[0][1], training=True)
    cluster = pt.Cluster.from_spec("3xL4")
    free = pt.plan(graph, cluster, objective="throughput", microbatches=8, schedule=schedule)
    assert free.result.evaluation is not None
    peaks = [stage.memory.total for stage in free.result.evaluation.stages]
    tight = free.problem.replace(memory_bytes=0.9 * max(peaks))
    result = pt.solve(tight, time_limit_s=30)
    if result.status is pt.Status.INFEASIBLE:
        assert "missing" in result.reason or "no split" in result.reason
        return
    _check(tight, result)
    assert result.objective >= free.result.objective * (1 - 1e-9)
    if schedule == "1f1b":
        assert [stage.in_flight for stage in result.evaluation.stages] == sorted(
            (stage.in_flight for stage in result.evaluation.stages), reverse=True
        )


def test_recompute_trades_time_for_memory() -> None:
    graph = pt.load_model("hf:gpt2", sequence_length=64, set_fields=SMALL[0][1], training=True)
    cluster = pt.Cluster.from_spec("3xL4")
    plain = pt.plan(graph, cluster, objective="throughput", microbatches=8)
    again = pt.plan(graph, cluster, objective="throughput", microbatches=8, recompute=True)
    _check(again.problem, again.result)
    assert again.result.objective > plain.result.objective
    assert again.result.evaluation.stages[0].memory.activations < plain.result.evaluation.stages[0].memory.activations


def test_user_file(tmp_path: Path) -> None:
    path = tmp_path / "net.py"
    path.write_text(USER_FILE)
    for training in (False, True):
        graph = pt.load_model(f"{path}:build", training=training)
        tied = [parameter for parameter in graph.parameters if parameter.aliases]
        assert len(tied) == 1
        # 1000·64 shared weights once, six blocks of 64·64 weights and 64 biases.
        assert graph.parameter_count == 1000 * 64 + 6 * (64 * 64 + 64)
        settings = {"microbatches": 4} if training else {}
        answer = pt.plan(graph, pt.Cluster.from_spec("3xT4"), objective="throughput", **settings)
        _check(answer.problem, answer.result)


def _plan(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    with pytest.raises(SystemExit) as stop:
        main(["plan", *arguments, "--json"])
    captured = capsys.readouterr()
    assert stop.value.code == 0, captured.err
    document: dict[str, Any] = json.loads(captured.out)
    return document


def test_plan_document(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path, problem_file, result_file = tmp_path / "net.py", tmp_path / "p.json", tmp_path / "r.json"
    path.write_text(USER_FILE)
    document = _plan(
        capsys,
        f"{path}:build",
        "--cluster",
        "2xL4",
        "--problem-output",
        str(problem_file),
        "--output",
        str(result_file),
    )
    assert document["unit"] == "s"
    assert document["model"]["parameters"] == 1000 * 64 + 6 * (64 * 64 + 64)
    stages = document["plan"]["stages"]
    assert stages[0]["modules"][0] == "embed"
    assert {"head"} <= set(stages[-1]["modules"])
    assert document["limits"]["binding"] in ("work", "communication", "memory")
    assert document["cluster"]["machines"]
    assert json.loads(result_file.read_text())["objective"] == document["objective"]
    problem = pt.read_problem(problem_file)
    assert pt.solve(problem).objective == pytest.approx(document["objective"], rel=1e-9)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def build():\n    return 3\n", "build"),
        ("import nowhere_to_be_found\n", "nowhere_to_be_found"),
        ("def other():\n    pass\n", "build"),
        (
            "import torch\n\nclass M(torch.nn.Linear):\n    def forward(self, x):\n        y = super().forward(x)\n"
            "        return y if y.sum() > 0 else -y\n\ndef build():\n    return M(3, 3), (torch.ones(3),)\n",
            "data",
        ),
    ],
    ids=["not a module", "missing import", "missing callable", "data dependent"],
)
def test_what_cannot_be_traced_gets_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, expected: str
) -> None:
    path = tmp_path / "broken.py"
    path.write_text(text)
    with pytest.raises(SystemExit) as stop:
        main(["plan", f"{path}:build", "--cluster", "2xL4"])
    captured = capsys.readouterr()
    assert stop.value.code == 2
    assert len(captured.err.strip().splitlines()) == 1
    assert expected in captured.err


#: The models that must plan without special cases, at full size.
LARGE: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("hf:llama", ("--cluster", "8xA100-80GB")),
    ("hf:llama", ("--cluster", "8xA100-80GB", "--training", "--objective", "throughput", "--microbatches", "32")),
    ("hf:resnet", ("--cluster", "4xL4")),
    ("hf:resnet", ("--cluster", "4xL4", "--training", "--objective", "throughput")),
    ("hf:swin", ("--cluster", "4xL4")),
    ("hf:swin", ("--cluster", "4xL4", "--training", "--objective", "throughput")),
    ("hf:bert", ("--cluster", "4xL4")),
    ("hf:bert", ("--cluster", "4xL4", "--training", "--objective", "throughput")),
    ("hf:t5", ("--cluster", "4xL4")),
    ("hf:t5", ("--cluster", "4xL4", "--training", "--objective", "throughput")),
    ("hf:mixtral", ("--cluster", "4xA100-80GB", "--set", "num_hidden_layers=4")),
    (
        "hf:mixtral",
        ("--cluster", "8xA100-80GB", "--set", "num_hidden_layers=4", "--training", "--objective", "throughput"),
    ),
)


@pytest.mark.slow
@pytest.mark.parametrize(("model", "arguments"), LARGE, ids=[f"{m} {' '.join(a)}" for m, a in LARGE])
def test_large_models(capsys: pytest.CaptureFixture[str], model: str, arguments: tuple[str, ...]) -> None:
    document = _plan(capsys, model, *arguments)
    assert document["gap"] <= 1e-3
    assert document["runtime_s"] < 90
    assert all(stage["modules"] or stage["partial_modules"] for stage in document["plan"]["stages"])


def test_infeasible_model_says_what_would_do(capsys: pytest.CaptureFixture[str]) -> None:
    """Twelve layers of a 7-billion-parameter model do not fit two devices of 15 GiB with all that training keeps."""
    model = "hf:llama --set num_hidden_layers=12 --training"
    arguments = f"plan {model} --cluster 2xT4 --objective throughput --microbatches 4 --json"
    with pytest.raises(SystemExit) as stop:
        main(arguments.split())
    captured = capsys.readouterr()
    assert stop.value.code == 1
    document = json.loads(captured.out)
    assert document["objective"] is None
    assert document["status"] == "infeasible"
    assert "missing" in document["reason"]
    assert "devices" in document["reason"]
    assert "memory" in document["reason"]


def progress_of(problem: pt.ThroughputProblem, solve: Callable[..., Any]) -> list[pt.Event]:
    """Events of a run."""
    events: list[pt.Event] = []
    solve(problem, progress=events.append)
    return events


def test_progress_only_improves() -> None:
    graph = pt.load_model("hf:gpt2", sequence_length=32, set_fields=SMALL[0][1])
    problem = pt.price(graph, pt.Cluster.from_spec("3xL4"))
    events = progress_of(problem, pt.solve)
    objectives = [event.objective for event in events if event.objective is not None]
    bounds = [event.bound for event in events if event.bound is not None]
    assert objectives == sorted(objectives, reverse=True)
    assert bounds == sorted(bounds)
    assert objectives
    assert bounds
