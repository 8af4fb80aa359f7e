"""Exports of plans of engines that serve, from the command line and from Python."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

import partita as pt
from partita.documents.stated import write_problem
from partita.ground.errors import InputError
from partita.problems.serving.samples import LOOP

MODEL = (
    *("hf:mixtral", "--set", "hidden_size=256", "--set", "num_hidden_layers=2", "--set", "num_attention_heads=8"),
    *("--set", "num_key_value_heads=4", "--set", "intermediate_size=512", "--set", "vocab_size=1000"),
    *("--dtype", "bfloat16", "--objective", "serving", "--cluster", "2x(4xL4)", "--weights", "fp8", "--cache", "fp8"),
    *("--prompt-tokens", "100", "--output-tokens", "10", "--concurrency", "8"),
)


@pytest.fixture
def solved(partita: Callable[..., Any], tmp_path: Path) -> Path:
    path = tmp_path / "r.json"
    write_problem(tmp_path / "p.json", LOOP)
    assert partita("solve", tmp_path / "p.json", "--output", path).code == 0
    return path


def test_a_solved_file_is_exported(partita: Callable[..., Any], solved: Path, tmp_path: Path) -> None:
    """By all names, to a file and to stdout, with notes on stderr."""
    shown = {
        name: partita("export", solved, "--to", name, "--output", "-") for name in ("vllm", "vllm-serve", "sglang")
    }
    assert all(run.code == 0 for run in shown.values())
    assert shown["vllm"].out == shown["vllm-serve"].out
    assert ' vllm serve "$model" --tensor-parallel-size ' in shown["vllm"].out
    assert ' python3 -m sglang.launch_server --model-path "$model" --tp-size ' in shown["sglang"].out
    assert "--max-num-seqs 16 --max-num-batched-tokens 256 " in shown["vllm"].out
    assert "note: requests of more than 120 tokens" in shown["vllm"].err
    run = partita("export", solved, "--to", "vllm", "--output", tmp_path / "serve.sh", "--json")
    assert run.document == {"runtime": "vllm-serve", "written": [str(tmp_path / "serve.sh")]}
    assert (tmp_path / "serve.sh").read_text() == shown["vllm"].out
    run = partita("export", solved, "--to", "dynamo", "--output", tmp_path / "d.yaml", "--model", "org/model")
    assert (run.code, run.out) == (0, f"{tmp_path / 'd.yaml'}\n")
    assert yaml.safe_load((tmp_path / "d.yaml").read_text())["spec"]["env"] == [{"name": "MODEL", "value": "org/model"}]
    run = partita("export", solved, "--to", "sglang", "--output", "-", "--model", "/models/it's")
    assert """model='/models/it'"'"'s'""" in run.out


def test_a_planned_model_is_exported(partita: Callable[..., Any], tmp_path: Path) -> None:
    """Degrees, formats and machines are those of the plan."""
    pytest.importorskip("transformers")
    path = tmp_path / "r.json"
    layout = ("--layout", "tensor=2,attention_data=4,expert=8,requests=64,tokens=2048")
    run = partita("plan", *MODEL, *layout, "--output", path)
    assert run.code == 0, run.err
    run = partita("export", path, "--to", "vllm", "--output", "-")
    assert run.code == 0, run.err
    starts = [line for line in run.out.splitlines() if " vllm serve " in line]
    assert len(starts) == 2
    for line in starts:
        assert line.startswith("CUDA_VISIBLE_DEVICES=0,1,2,3 vllm serve ")
        for words in (
            "--tensor-parallel-size 2 --pipeline-parallel-size 1 --data-parallel-size 4 --enable-expert-parallel ",
            "--max-num-seqs 64 --max-num-batched-tokens 2048 ",
            "--gpu-memory-utilization 0.9 --dtype bfloat16 --quantization fp8 --kv-cache-dtype fp8 ",
            '--data-parallel-size-local 2 --data-parallel-address "$HOST0" ',
        ):
            assert words in line
    run = partita("export", path, "--to", "sglang", "--output", "-")
    assert "--tp-size 8 --pp-size 1 --dp-size 4 --enable-dp-attention --ep-size 8 " in run.out
    assert "--max-running-requests 256 --chunked-prefill-size 8192 " in run.out
    assert "priced as those of vllm; --engine sglang plans with sglang's own" in run.err
    run = partita("export", path, "--to", "dynamo", "--output", "-")
    component = yaml.safe_load(run.out)["spec"]["components"][1]
    assert (component["type"], component["replicas"], component["multinode"]) == ("worker", 1, {"nodeCount": 2})
    # What another engine was priced as.
    run = partita("plan", *MODEL, "--layout", "tensor=2", "--engine", "sglang", "--output", path)
    assert run.code == 0, run.err
    run = partita("export", path, "--to", "vllm", "--output", tmp_path / "none")
    assert run.code == 2
    assert run.err.startswith("partita: vllm-serve cannot run this plan: ")
    assert "plan with --engine vllm" in run.err
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("--to", "megatron", "--output", "x"),
            "there is no exporter 'megatron' of plans of engines that serve; known are",
        ),
        (("--to", "nothing", "--output", "x"), "there is no exporter 'nothing'; known are accelerate, "),
        (("--to", "dynamo", "--output", "-", "--json"), "both print on stdout"),
    ],
)
def test_mistakes_are_one_message(
    partita: Callable[..., Any], solved: Path, arguments: tuple[str, ...], said: str
) -> None:
    run = partita("export", solved, *arguments)
    assert (run.code, run.out) == (2, "")
    assert said in run.err
    assert run.err.count("\n") == 1


def test_answers_are_exported(solved: Path, tmp_path: Path) -> None:
    """Those that were just found, and those from files, alike."""
    answers = pt.solve(LOOP), pt.load(solved)
    for number, answer in enumerate(answers):
        exported = answer.export("vllm", tmp_path / f"{number}.sh")
        assert (exported.runtime, exported.written) == ("vllm-serve", (str(tmp_path / f"{number}.sh"),))
        assert any("requests of more than 120 tokens" in note for note in exported.notes)
    assert (tmp_path / "0.sh").read_bytes() == (tmp_path / "1.sh").read_bytes()
    assert answers[0].export("dynamo", tmp_path / "d.yaml", model="org/model").runtime == "dynamo"
    with pytest.raises(InputError, match="no exporter 'torch' of plans of engines that serve"):
        answers[0].export("torch", tmp_path / "none")


def test_runtimes_say_what_they_take() -> None:
    found = pt.runtimes()
    assert {entry.name for entry in found if entry.takes == "deployment"} == {"vllm-serve", "sglang", "dynamo"}
    assert all((entry.limits is None) == (entry.takes == "deployment") for entry in found)
