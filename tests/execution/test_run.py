"""Plans on processes agree with the model that is not split."""

from __future__ import annotations

import json

import msgspec
import pytest

pytest.importorskip("torch", reason="the runner needs torch")

from execution.plans import MODELS, source, split
from partita.execution.job import RunJob
from partita.execution.orders import make_orders
from partita.execution.report import measured_timeline, run_document, verified
from partita.execution.run import Ran
from partita.ground.errors import InputError, UnsupportedError
from partita.nouns.graph import Source
from partita.simulator.trace_file import trace_document

QUICK = {"repeats": 1}


def largest(table):
    return max(table.values(), default=0.0)


CASES = [
    # name, stages, ranks, replicas, schedule, microbatches
    ("tied", 2, 2, 1, "1f1b", 4),
    ("tied", 4, 2, 1, "interleaved", 4),
    ("tied", 2, 2, 2, "gpipe", 4),
    ("unet", 2, 2, 2, "1f1b", 4),
    ("unet", 4, 4, 1, "zero-bubble", 4),
    ("tricky", 3, 3, 1, "gpipe", 3),
    ("recurrent", 2, 2, 1, "1f1b", 3),
]


@pytest.mark.parametrize(("name", "stages", "ranks", "replicas", "schedule", "microbatches"), CASES)
def test_training_computes_the_same(host, name, stages, ranks, replicas, schedule, microbatches):
    made = source(name)
    plan = split(made, stages, ranks=ranks, replicas=replicas, schedule=schedule)
    job = RunJob(split=plan, source=made, microbatches=microbatches, steps=2, optimizer="adam", seed=2, **QUICK)
    answer = host.run(job)
    assert answer.schedule == schedule
    assert len(answer.workers) == ranks * replicas
    assert len(answer.losses) == 2 * microbatches
    for table in (answer.outputs, answer.losses, answer.gradients, answer.parameters, answer.buffers):
        assert largest(table) < 1e-4
    trained = {"tied": 9, "unet": 12, "tricky": 7, "recurrent": 20}
    assert len(answer.gradients) == len(answer.parameters) == trained[name]
    assert bool(answer.buffers) == (name in ("unet", "tricky"))
    assert verified(Ran(job, answer, None))


def test_inference_computes_the_same_and_says_what_it_took(host):
    made = source("unet", training=False)
    job = RunJob(split=split(made, 2), source=made, microbatches=5, **QUICK)
    ran = Ran(job, host.run(job), None)
    document = run_document(ran)
    assert document["verified"]
    assert document["worst_output_error"] == 0
    assert document["worst_gradient_error"] is None
    assert document["step_time_s"]["measured"] > 0
    assert [entry["stage"] for entry in document["devices"]] == [0, 1]
    for entry, worker in zip(document["devices"], ran.answer.workers, strict=True):
        assert entry["busy_s"] > 0
        assert entry["peak_memory_bytes"] > worker.weight_bytes > 0
        total = entry["busy_s"] + entry["communication_exposed_s"] + entry["idle_s"]
        assert total == pytest.approx(worker.step_s[-1], rel=0.2)
    events = trace_document(measured_timeline(ran))["traceEvents"]
    slices = [event for event in events if event["ph"] == "X" and event["cat"] == "forward"]
    assert sorted((e["args"]["stage"], e["args"]["microbatch"]) for e in slices) == [
        (stage, microbatch) for stage in (0, 1) for microbatch in range(5)
    ]


_SIZES = {"vocab_size": "100", "max_position_embeddings": "64"}
TRANSFORMERS = {
    # Dropout by functions beside attention without any.
    "opt": _SIZES
    | {"hidden_size": "32", "num_hidden_layers": "2", "num_attention_heads": "2", "ffn_dim": "64"}
    | {"word_embed_proj_dim": "32", "activation_function": "relu"},
    # Likewise; labels are shifted behind a literal.
    "bart": _SIZES
    | {"d_model": "32", "encoder_layers": "2", "decoder_layers": "2", "encoder_ffn_dim": "64", "decoder_ffn_dim": "64"}
    | {"encoder_attention_heads": "2", "decoder_attention_heads": "2", "decoder_layerdrop": "0.3"},
    # Its default configuration does not say what labels are shifted behind.
    "t5": {"vocab_size": "100", "d_model": "32", "num_layers": "2", "d_kv": "16", "d_ff": "64", "num_heads": "2"},
}


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_training_transformers_computes_the_same(host, name):
    pytest.importorskip("transformers")
    asked = {"batch_size": 2, "sequence_length": 16, "set": TRANSFORMERS[name]}
    made = Source(model=f"hf:{name}", settings=asked, training=True)
    answer = host.run(RunJob(split=split(made, 2), source=made, microbatches=2, **QUICK))
    assert answer.gradients
    assert len(answer.losses) == 2
    for table in (answer.outputs, answer.losses, answer.gradients, answer.parameters):
        assert largest(table) < 1e-4


def test_a_difference_is_no_verification(host):
    made = source("tied")
    job = RunJob(split=split(made, 2), source=made, microbatches=2, **QUICK)
    answer = host.run(job)
    assert verified(Ran(job, answer, None))
    for field in ("outputs", "gradients", "parameters", "losses"):
        wrong = msgspec.structs.replace(answer, **{field: {**getattr(answer, field), "x": 2e-4}})
        assert not verified(Ran(job, wrong, None))
    assert not verified(Ran(job, msgspec.structs.replace(answer, outputs={}, losses={}), None))


def test_a_split_that_goes_round_in_circles_runs_in_rounds(host):
    made = source("tied")
    row = split(made, 4)
    stages = tuple(
        msgspec.structs.replace(row.stages[s], operators=row.stages[s].operators + row.stages[s + 2].operators)
        for s in (0, 1)
    )
    job = RunJob(split=msgspec.structs.replace(row, stages=stages), source=made, microbatches=3, **QUICK)
    answer = host.run(job)
    assert answer.schedule == "gpipe"
    assert len(answer.workers) == 2
    assert {stage for worker in answer.workers for *_, stage, _ in worker.slices} >= {0, 1, 2, 3}
    assert largest(answer.gradients) < 1e-4


def test_replicas_of_stages_may_differ():
    made = source("tied")
    row = split(made, 2)
    plan = msgspec.structs.replace(row, stages=(msgspec.structs.replace(row.stages[0], replicas=2), row.stages[1]))
    orders = make_orders(plan, 1, 4, None)
    assert [(p.group, p.replica) for p in orders.processes] == [(0, 0), (0, 1), (1, 0)]
    done = [{a.microbatch for a in p.actions if a.letter == "B"} for p in orders.processes]
    assert done == [{0, 2}, {1, 3}, {0, 1, 2, 3}]
    with pytest.raises(InputError, match="as many replicas"):
        make_orders(plan, 1, 4, "zero-bubble")


def test_what_the_runner_does_not_do_is_refused():
    made = source("tied")
    row = split(made, 2)
    tensor = msgspec.structs.replace(row, stages=(msgspec.structs.replace(row.stages[0], tensor=2), row.stages[1]))
    with pytest.raises(UnsupportedError, match="tensor-parallel degree 2"):
        make_orders(tensor, 1, 4, None)
    shared = msgspec.structs.replace(row, stages=(msgspec.structs.replace(row.stages[0], context=2), row.stages[1]))
    with pytest.raises(UnsupportedError, match="context-parallel degree 2"):
        make_orders(shared, 1, 4, None)
    with pytest.raises(UnsupportedError, match="pipedream"):
        make_orders(row, 1, 4, "pipedream")
    with pytest.raises(InputError, match="forward is not for training"):
        make_orders(row, 1, 4, "forward")
    with pytest.raises(InputError, match="too few"):
        make_orders(
            msgspec.structs.replace(row, stages=(msgspec.structs.replace(row.stages[0], replicas=2),)), 1, 1, None
        )


def test_the_command_runs_a_planned_model(partita, tmp_path):
    result, trace = tmp_path / "r.json", tmp_path / "t.json"
    planned = partita(
        "plan", f"{MODELS}:tied", "--training", "--cluster", "2xA100-40GB", "--objective", "throughput",
        "--time-limit", "2", "--output", result, "--microbatches", "4",
    )  # fmt: skip
    assert planned.code == 0
    done = partita("run", result, "--json", "--repeats", "1", "--processes", "4", "--trace", trace)
    assert done.code == 0, done.err
    document = done.document
    assert document["verified"]
    assert document["processes"] == 4
    assert document["microbatches"] == 8
    assert document["worst_gradient_error"] < 1e-4
    assert document["model"]["model"] == f"{MODELS}:tied"
    assert json.loads(trace.read_text())["traceEvents"]
    wrong = partita("run", result, "--model", f"{MODELS}:unet")
    assert wrong.code == 2
    assert "operators" in wrong.err
    assert "--model" in wrong.err
    assert partita("run", result, "--processes", "3").code == 2
    strict = partita("run", result, "--json", "--repeats", "1", "--tolerance", "1e-15")
    assert strict.code == 1
    assert not strict.document["verified"]
