"""Planning a model's training from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import partita as pt
from partita.conductor.judge import evaluate
from partita.problems.hybrid.options import HybridPricing
from partita.problems.settings import settings_of

FIELDS = {"n_layer": "8", "n_embd": "256", "n_head": "8", "vocab_size": "2000"}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small GPT-2, traced for training."""
    path = tmp_path_factory.mktemp("graphs") / "gpt2.json"
    pt.write_graph(path, pt.load_model("hf:gpt2", sequence_length=128, set_fields=FIELDS, training=True))
    return path


def test_training_is_planned_as_hybrid(partita: Callable[..., Any], small: Path, tmp_path: Path) -> None:
    output, problem_file = tmp_path / "r.json", tmp_path / "p.json"
    run = partita(
        "plan", small, "--cluster", "2x(4xL4)", "--output", output, "--problem-output", problem_file, "--json"
    )
    assert run.code == 0, run.err
    document = run.document
    assert (document["status"], document["unit"], document["microbatches"]) == ("optimal", "s", 32)
    assert document["objective"] == pytest.approx(document["bound"], rel=1e-6)
    assert (document["mesh"], document["minimised"]) == ("uniform", "step")
    assert document["step"]["time"] == pytest.approx(document["objective"], rel=1e-12)
    assert 0 < document["model_flops_utilisation"]["step"] <= document["model_flops_utilisation"]["steady"] < 1
    stages = document["plan"]["stages"]
    assert sum(len(stage["operators"]) for stage in stages) == document["model"]["layers"]
    assert "transformer.wte" in stages[0]["modules"]
    assert {f"transformer.h.{i}" for i in range(8)} <= {name for stage in stages for name in stage["modules"]}
    assert all(stage["memory_bytes"] <= document["memory_limit_bytes"] for stage in stages)
    spent = document["limits"]["device_time"]
    assert sum(spent.values()) == pytest.approx(8 * document["step"]["time_per_sample"], rel=1e-9)
    assert len({(stage["data_parallel"], stage["tensor_parallel"]) for stage in stages}) == 1
    assert json.loads(output.read_text())["plan"] == document["plan"]
    problem = pt.read_problem(problem_file)
    assert pt.solve(problem).objective == pytest.approx(document["objective"], rel=1e-6)
    again = partita("evaluate", problem_file, output, "--json").document
    assert again["feasible"]
    assert again["objective"] == pytest.approx(document["objective"], rel=1e-9)


def test_no_recipe_is_better(partita: Callable[..., Any], small: Path) -> None:
    document = partita("plan", small, "--cluster", "8xL4", "--json").document
    rows = {row["name"]: row for row in document["baselines"]}
    recipes = {"FSDP only", "DeepSpeed ZeRO-3", "torchtitan's defaults", "nanotron's defaults"}
    assert {"pure data parallel", "Megatron's recipe", "no tensor parallelism", *recipes} <= set(rows)
    for row in rows.values():
        assert row["feasible"] or row["reason"]
        if row["feasible"]:
            assert row["objective"] >= document["objective"] * (1 - 1e-6)
            each = row["step"]["time_per_sample"]
            assert sum(row["device_time"].values()) == pytest.approx(8 * each, rel=1e-9)
            assert row["step"]["time"] == pytest.approx(row["objective"], rel=1e-12)


def test_no_recipe_is_better_in_the_steady_state(partita: Callable[..., Any], small: Path) -> None:
    document = partita("plan", small, "--cluster", "8xL4", "--minimise", "steady", "--json").document
    rows = {row["name"]: row for row in document["baselines"]}
    assert {"pure data parallel", "Megatron's recipe", "equal stages", "no tensor parallelism"} <= set(rows)
    assert "FSDP only" not in rows
    assert document["mesh"] == "free"
    for row in rows.values():
        if row["feasible"]:
            assert row["objective"] >= document["objective"] * (1 - 1e-6)
            assert sum(row["device_time"].values()) == pytest.approx(8 * row["objective"], rel=1e-9)
            assert row["step"]["time_per_sample"] >= row["objective"] * (1 - 1e-9)


def test_tables_say_what_the_plan_is(partita: Callable[..., Any], small: Path) -> None:
    run = partita("plan", small, "--cluster", "8xL4", "--microbatches", "16")
    assert run.code == 0
    for text in (
        "Stages: ",
        "16 microbatches of 1 sample take",
        "runtimes call it tensor",
        "FLOPs utilisation",
        "Compared with",
        "Megatron",
        "transformer.h.",
    ):
        assert text in run.out
    assert run.err == ""


def test_the_shortest_step_is_no_longer(partita: Callable[..., Any], small: Path, tmp_path: Path) -> None:
    free = ("--microbatches", "16", "--minimise", "steady", "--json")
    steady = partita("plan", small, "--cluster", "2x(4xL4)", *free).document
    output, problem_file = tmp_path / "r.json", tmp_path / "p.json"
    arguments = ("--microbatches", "16", "--mesh", "free", "--output", output, "--problem-output", problem_file)
    step = partita("plan", small, "--cluster", "2x(4xL4)", *arguments, "--json").document
    assert (step["minimised"], step["mesh"], steady["minimised"]) == ("step", "free", "steady")
    assert step["objective"] == pytest.approx(step["bound"], rel=1e-6)
    assert step["faster_step"] is None
    same = partita("plan", small, "--cluster", "2x(4xL4)", "--microbatches", "16", "--json").document
    least = same["objective"] * (1 - same["uniformity_loss_at_most"])
    assert least * (1 - 1e-6) <= step["objective"] <= same["objective"] * (1 + 1e-9)
    assert same["uniformity_loss_at_most"] < 0.1
    for row in step["baselines"]:
        if row["feasible"]:
            assert row["step"]["time"] >= step["step"]["time"] * (1 - 1e-9)
    assert evaluate(pt.read_problem(problem_file), pt.solve(pt.read_problem(problem_file)).plan).feasible


def test_of_several_batches_the_best_step_is_chosen(partita: Callable[..., Any], small: Path) -> None:
    document = partita("plan", small, "--cluster", "4xL4", "--microbatches", "4:16", "--json").document
    tried = {row["microbatches"]: row["step"]["time_per_sample"] for row in document["batches"]}
    assert list(tried) == [4, 8, 16]
    assert document["microbatches"] == min(tried, key=lambda number: tried[number])
    assert document["step"]["time_per_sample"] == pytest.approx(min(tried.values()), rel=1e-9)


def test_options_reach_the_plan(partita: Callable[..., Any], small: Path) -> None:
    options = ("--tensor-parallel-degrees", "2", "--recompute-options", "none", "--no-sequence-parallel")
    document = partita("plan", small, "--cluster", "4xL4", *options, "--json").document
    stages = document["plan"]["stages"]
    assert {stage["tensor_parallel"] for stage in stages} == {2}
    assert {name for stage in stages for name in stage["configurations"].values()} == {"none"}


def test_what_does_not_fit_says_what_would_do(partita: Callable[..., Any], tmp_path: Path) -> None:
    fields = {"n_layer": "8", "n_embd": "8192", "n_head": "64", "vocab_size": "2000"}
    path = tmp_path / "large.json"
    pt.write_graph(path, pt.load_model("hf:gpt2", sequence_length=64, set_fields=fields, training=True))
    run = partita("plan", path, "--cluster", "2xT4", "--json")
    assert run.code == 1
    document = run.document
    assert (document["status"], document["objective"], document["plan"]) == ("infeasible", None, None)
    assert "needs" in document["reason"]
    assert "smallest" in document["reason"]


def test_throughput_stays_there(partita: Callable[..., Any], small: Path) -> None:
    options = ("--cluster", "4xL4", "--objective", "throughput", "--microbatches", "8", "--json")
    document = partita("plan", small, *options).document
    assert [device["name"] for device in document["plan"]["devices"]]
    mixed = partita("plan", small, "--cluster", "(1xL4+1xT4)", "--microbatches", "8", "--json")
    assert mixed.code == 0
    assert mixed.document["plan"]["devices"]
    assert "a machine with L4 and T4" in mixed.err
    assert any("a machine with L4 and T4" in note for note in mixed.document["notes"])


def test_stages_may_be_on_several_kinds_of_devices(partita: Callable[..., Any], small: Path, tmp_path: Path) -> None:
    files = ("--output", tmp_path / "r.json", "--problem-output", tmp_path / "p.json")
    run = partita("plan", small, "--cluster", "2xL4+2xT4", "--microbatches", "8", *files, "--json")
    document = run.document
    assert (run.code, document["status"], document["devices"]) == (0, "optimal", 4)
    assert {stage["device"] for stage in document["plan"]["stages"]} <= {"L4", "T4"}
    rows = {row["name"]: row for row in document["baselines"]}
    assert {"the fastest kind of devices alone", "pipeline in proportion to speed"} <= set(rows)
    for row in rows.values():
        if row["feasible"]:
            assert row["objective"] >= document["objective"] * (1 - 1e-6)
    assert "uniformity_loss_at_most" not in document
    problem = pt.read_problem(tmp_path / "p.json")
    assert [kind.device for kind in problem.kinds] == ["L4", "T4"]
    again = partita("evaluate", tmp_path / "p.json", tmp_path / "r.json", "--json").document
    assert again["objective"] == pytest.approx(document["objective"], rel=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--contiguity", "free"), "objective hybrid; add --objective throughput, or leave it out"),
        (("--recompute",), "--recompute means nothing for a plan with objective hybrid; add --objective throughput"),
        (("--max-replicas", "2"), "--objective throughput"),
        (("--weight-sync-per-batch",), "--weight-sync-per-batch changes a stated problem"),
        (("--solver", "free"), "(it is one for throughput problems)"),
        (
            ("--objective", "throughput", "--minimise", "steady"),
            "--minimise means nothing for a plan with objective",
        ),
        (("--objective", "throughput", "--microbatches", "4,8"), "takes one"),
        (("--microbatches", "9:3"), "low end"),
        (("--microbatches", "0"), "at least 1"),
        (("--microbatches", "4,4"), "twice"),
        (("--microbatches", "many"), "8:64"),
        (("--recompute-options", "some"), "some"),
        (("--tensor-parallel-degrees", "64"), "64"),
        (("--minimise", "steady", "--mesh", "uniform"), "--mesh uniform is for steps"),
        (("--minimise", "steady", "--zero", "1"), "--zero is for steps; leave it out"),
        (("--mesh", "free", "--layout", "data=2"), "--layout is a uniform mesh"),
        (("--zero", "4"), "--zero 4 is no stage of ZeRO"),
        (("--zero", "1", "--zero1"), "leave --zero1 out"),
        (("--schedule", "spiral"), "spiral"),
        (("--layout", "data=3"), "does not divide"),
        (("--layout", "pipeline=3,chunks=2"), "do not divide the 8 blocks"),
        (("--layout", "expert=2"), "expert"),
    ],
)
def test_what_makes_no_sense_gets_one_line(
    partita: Callable[..., Any], small: Path, options: tuple[str, ...], message: str
) -> None:
    run = partita("plan", small, "--cluster", "4xL4", *options)
    assert run.code == 2
    assert message in run.err
    assert "Traceback" not in run.err


def test_hybrid_needs_training_and_machines_of_one_kind_each(partita: Callable[..., Any], small: Path) -> None:
    run = partita("plan", small, "--cluster", "(1xL4+1xT4)", "--objective", "hybrid")
    assert run.code == 2
    assert "a machine with L4 and T4" in run.err
    run = partita("plan", small, "--cluster", "1xL4+1xT4", "--minimise", "steady")
    assert run.code == 2
    assert "leave --minimise steady out" in run.err
    run = partita("plan", small, "--cluster", "1xL4+1xT4", "--layout", "data=2")
    assert run.code == 2
    assert "--layout is for devices of one kind" in run.err
    run = partita("plan", "hf:gpt2", "--cluster", "2xL4", "--objective", "hybrid", "--set", "n_layer=2")
    assert run.code == 2
    assert "--training" in run.err


def test_counts() -> None:
    read = settings_of(HybridPricing)["microbatches"].parse
    assert read("32") == (32,)
    assert read("8,16,3") == (8, 16, 3)
    assert read("8:64") == (8, 16, 32, 64)
    assert read("8:40") == (8, 16, 32, 40)
    assert read("8:24:8,100") == (8, 16, 24, 100)


def test_training_is_compared_as_hybrid(partita: Callable[..., Any], small: Path, tmp_path: Path) -> None:
    common = ("--cluster", "2x(4xL4)", "--microbatches", "16", "--json")
    output = tmp_path / "mine.json"
    planned = partita("plan", small, *common, "--output", output).document
    compared = partita("compare", small, *common, "--expert", output).document
    assert compared["objective"] == pytest.approx(planned["objective"], rel=1e-9)
    rows = {row["name"]: row for row in compared["baselines"]}
    assert rows.keys() == {"expert mine", *(row["name"] for row in planned["baselines"])}
    assert rows["expert mine"]["objective"] == pytest.approx(planned["objective"], rel=1e-9)
    assert rows["expert mine"]["step"]["time"] == pytest.approx(planned["step"]["time"], rel=1e-9)
    shown = partita("compare", small, *common[:-1])
    assert shown.code == 0
    assert "Megatron's recipe" in shown.out
    assert "proven bound" in shown.out


def test_experts_are_judged_on_the_batch_that_is_chosen(
    partita: Callable[..., Any], small: Path, tmp_path: Path
) -> None:
    output = tmp_path / "mine.json"
    planned = partita("plan", small, "--cluster", "4xL4", "--microbatches", "16", "--output", output, "--json").document
    options = ("--cluster", "4xL4", "--microbatches", "4,16", "--expert", output, "--json")
    compared = partita("compare", small, *options).document
    assert compared["microbatches"] == 16
    (row,) = [row for row in compared["baselines"] if row["name"] == "expert mine"]
    assert row["step"]["microbatches"] == 16
    assert row["step"]["time"] == pytest.approx(planned["step"]["time"], rel=1e-9)


def test_training_may_be_compared_for_throughput(partita: Callable[..., Any], small: Path) -> None:
    common = ("--cluster", "2xL4", "--microbatches", "4", "--json")
    document = partita("compare", small, *common, "--objective", "throughput", "--time-limit", "2").document
    assert "equal-layers" in {row["name"] for row in document["baselines"]}
    run = partita("compare", small, *common, "--contiguity", "free")
    assert run.code == 2
    assert "--objective throughput" in run.err


def test_stages_of_zero_are_planned(partita: Callable[..., Any], small: Path) -> None:
    common = ("--cluster", "8xL4", "--json", "--layout")
    layouts = [f"data=8,zero={zero}" for zero in range(4)]
    found = [partita("plan", small, *common, layout).document for layout in layouts]
    memory = [document["plan"]["stages"][0]["memory_bytes"] for document in found]
    assert memory == sorted(memory, reverse=True)
    assert memory[3] < memory[0] / 2
    assert found[1]["step"]["update"] == pytest.approx(found[0]["step"]["update"] / 8)
    assert [document["plan"].get("zero") for document in found] == [0, 1, 2, 3]
    shared = partita("plan", small, "--cluster", "8xL4", "--json", "--zero1").document
    assert shared["plan"]["zero"] == 1


def test_a_layout_is_priced_without_search(partita: Callable[..., Any], small: Path, tmp_path: Path) -> None:
    text = "tensor=2,pipeline=2,data=2,chunks=2,recompute=full,zero=1"
    output, problem_file = tmp_path / "r.json", tmp_path / "p.json"
    common = ("--cluster", "2x(4xL4)", "--microbatches", "16")
    run = partita(
        "plan", small, *common, "--layout", text, "--json", "--output", output, "--problem-output", problem_file
    )
    assert run.code == 0, run.err
    document = run.document
    assert (document["status"], document["bound"], document["solver"]) == ("feasible", None, "stated")
    plan = document["plan"]
    assert (plan["schedule"], plan["zero"], len(plan["stages"])) == ("interleaved", 1, 2)
    assert [len(stage["chunks"]) for stage in plan["stages"]] == [2, 2]
    again = partita("evaluate", problem_file, output, "--json").document
    assert again["feasible"]
    assert again["step"]["time"] == pytest.approx(document["step"]["time"], rel=1e-12)
    simulated = partita("simulate", output, "--json").document
    assert simulated["step_time"] <= document["step"]["time"] * 1.1
    best = partita("plan", small, *common, "--json").document
    assert best["objective"] <= document["objective"] * (1 + 1e-9)


def test_experts_and_sequences_are_shared_out(partita: Callable[..., Any], tmp_path: Path) -> None:
    fields = {
        "num_hidden_layers": "4",
        "hidden_size": "256",
        "intermediate_size": "512",
        "num_attention_heads": "4",
        "num_key_value_heads": "4",
        "num_local_experts": "4",
        "vocab_size": "1000",
    }
    path = tmp_path / "mixture.json"
    pt.write_graph(path, pt.load_model("hf:mixtral", sequence_length=128, set_fields=fields, training=True))
    output, problem_file = tmp_path / "r.json", tmp_path / "p.json"
    common = ("plan", path, "--cluster", "2x(4xL4)", "--microbatches", "8")
    text = "tensor=2,data=2,context=2,expert=4,zero=1"
    run = partita(*common, "--layout", text, "--json", "--output", output, "--problem-output", problem_file)
    assert run.code == 0, run.err
    (stage,) = run.document["plan"]["stages"]
    assert (stage["context_parallel"], stage["expert_parallel"], run.document["plan"]["devices"]) == (2, 4, 8)
    again = partita("evaluate", problem_file, output, "--json").document
    assert again["feasible"]
    assert again["step"]["time"] == pytest.approx(run.document["step"]["time"], rel=1e-12)
    simulated = partita("simulate", output, "--json").document
    assert simulated["step_time"] == pytest.approx(run.document["step"]["time"], rel=1e-9)
    shown = partita(*common, "--context-parallel-degrees", "1,2", "--expert-parallel-degrees", "4")
    assert shown.code == 0, shown.err
    for word in ("context", "expert", "·e4", "runtimes call it tensor"):
        assert word in shown.out
    for asked, message in (
        (("--layout", "data=4,expert=3"), "expert is 3; it must divide data · context, 4"),
        (("--layout", "data=8,expert=8"), "degree 8 does not divide the 4 experts of model.layers.0"),
        (("--context-parallel-degrees", "3"), "does not cut the 128 tokens of a sequence into 6 equal pieces"),
        (("--expert-capacity", "0.5"), "the busiest device has the mean of rows or more"),
        (
            ("--minimise", "steady", "--expert-parallel-degrees", "2"),
            "--expert-parallel-degrees is for steps; leave it out",
        ),
    ):
        wrong = partita(*common, *asked)
        assert wrong.code == 2
        assert message in wrong.err


def test_degrees_that_do_not_divide_heads_are_left_out(partita: Callable[..., Any], tmp_path: Path) -> None:
    fields = {"n_layer": "4", "n_embd": "300", "n_head": "6", "vocab_size": "2000"}
    path = tmp_path / "six.json"
    pt.write_graph(path, pt.load_model("hf:gpt2", sequence_length=64, set_fields=fields, training=True))
    document = partita("plan", path, "--cluster", "4xL4", "--json").document
    assert {stage["tensor_parallel"] for stage in document["plan"]["stages"]} <= {1, 2}
    assert any("degree 4 does not divide the 6 heads" in note for note in document["notes"])
    for asked in (("--layout", "tensor=4"), ("--tensor-parallel-degrees", "4")):
        run = partita("plan", path, "--cluster", "4xL4", *asked)
        assert run.code == 2
        assert "degree 4 does not divide the 6 heads of transformer.h.0" in run.err


def test_a_layout_that_does_not_fit_says_what_is_short(partita: Callable[..., Any], tmp_path: Path) -> None:
    fields = {"n_layer": "8", "n_embd": "4096", "n_head": "32", "vocab_size": "2000"}
    path = tmp_path / "large.json"
    pt.write_graph(path, pt.load_model("hf:gpt2", sequence_length=64, set_fields=fields, training=True))
    run = partita("plan", path, "--cluster", "2xT4", "--layout", "data=2", "--json")
    assert run.code == 1
    assert run.document["status"] == "infeasible"
    assert "more than its" in run.document["reason"]
    assert run.document["step"]["time"] > 0


def test_the_microbatch_is_chosen_with_the_global_batch(partita: Callable[..., Any]) -> None:
    model = ("plan", "hf:gpt2", "--training", "--cluster", "2xL4", "--sequence-length", "64", "--json")
    fields = [word for name, value in {**FIELDS, "n_layer": "2"}.items() for word in ("--set", f"{name}={value}")]
    found = partita(*model, *fields, "--global-batch", "8").document
    assert found["microbatches"] * found["microbatch_samples"] == found["global_batch"] == 8
    assert {row["microbatches"] for row in found["batches"]} == {8, 4, 2, 1}
    tried = [row["step"]["time"] for row in found["batches"] if row["step"] is not None]
    assert found["step"]["time"] == pytest.approx(min(tried), rel=1e-9)
    fixed = partita(*model, *fields, "--global-batch", "8", "--batch-size", "2").document
    assert (fixed["microbatches"], fixed["microbatch_samples"]) == (4, 2)
    assert fixed["step"]["time"] >= found["step"]["time"] * (1 - 1e-9)
    wrong = partita(*model, *fields, "--global-batch", "9", "--batch-size", "2")
    assert wrong.code == 2
    assert "no multiple" in wrong.err


@pytest.mark.parametrize(("signature", "sizes"), [("", {2}), ("batch_size=4", {8, 4, 2, 1})])
def test_callables_that_take_no_batch_size_have_that_of_their_inputs(
    partita: Callable[..., Any], tmp_path: Path, signature: str, sizes: set[int]
) -> None:
    """Four rows are four samples; with a parameter the sizes are powers of two, as for any model."""
    size = "batch_size" if signature else "4"
    (tmp_path / "net.py").write_text(
        "import torch\n"
        f"def build({signature}):\n"
        "    layers = [torch.nn.Linear(64, 64) for _ in range(2)]\n"
        f"    return torch.nn.Sequential(*layers), (torch.zeros({size}, 64),)\n"
    )
    run = partita(
        "plan", f"{tmp_path / 'net.py'}:build", "--training", "--cluster", "2xL4", "--global-batch", "8", "--json"
    )
    assert run.code == 0, run.err
    assert {row["microbatches"] for row in run.document["batches"]} == sizes


@pytest.mark.parametrize("objective", ["hybrid", "throughput"])
def test_times_of_a_sample_are_of_one_sample(partita: Callable[..., Any], objective: str) -> None:
    model = ("plan", "hf:gpt2", "--training", "--cluster", "2xL4", "--sequence-length", "16", "--batch-size", "32")
    fields = [word for name, value in {**FIELDS, "n_layer": "2"}.items() for word in ("--set", f"{name}={value}")]
    run = (*model, *fields, "--objective", objective, "--microbatches", "4")
    found = partita(*run, "--json").document
    step = found["step"]
    assert step["time_per_microbatch"] == pytest.approx(step["time"] / 4, rel=1e-9)
    assert step["time_per_sample"] == pytest.approx(step["time"] / (4 * 32), rel=1e-9)
    for stage in found["plan"]["stages"] if objective == "hybrid" else ():
        assert stage["time_per_sample"] == pytest.approx(stage["time_per_microbatch"] / 32, rel=1e-9)
    text = partita(*run).out
    assert "per sample" not in text
    assert "per microbatch" in text


def test_recipes_are_listed_with_the_baselines(partita: Callable[..., Any]) -> None:
    rows = partita("baselines", "--json").document["baselines"]
    assert {row["problem"] for row in rows} == {
        "throughput",
        "hybrid",
        "latency",
        "layer_placement",
        "serving",
        "makespan",
        "mapping",
    }
    assert any(row["name"] == "Megatron's recipe" and row["problem"] == "hybrid" for row in rows)
