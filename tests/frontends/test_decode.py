"""One step of decoding: the graph of one token, with the cache where its layer's attention is."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import partita as pt
from partita.api.planning import price
from partita.frontends.models import load_model
from partita.ground.errors import InputError

SMALL = {"n_layer": "2", "n_embd": "64", "n_head": "4", "vocab_size": "100"}


@pytest.fixture(scope="module")
def step() -> pt.Graph:
    return load_model("hf:gpt2", set_fields=SMALL, decode=100, dtype="float16", batch_size=3)


def test_a_cache_is_buffers_of_attention(step: pt.Graph) -> None:
    cached = [p for p in step.parameters if p.cache]
    assert all(p.buffer and p.name.endswith(("cached_keys", "cached_values")) for p in cached)
    assert [p.name for p in cached] == [
        f"transformer.h.{layer}.attn.cached_{what}" for layer in range(2) for what in ("keys", "values")
    ]
    # Batch, heads, the tokens before with the new one, size of a head.
    assert {p.shape for p in cached} == {(3, 4, 101, 16)}
    assert all(p.buffer and not p.trainable and p.bytes == 3 * 4 * 101 * 16 * 2 for p in cached)


def test_a_plan_says_the_cache_apart_from_the_weights(step: pt.Graph) -> None:
    problem = price(step, pt.Cluster.from_spec("1xL4"))
    memory = pt.evaluate(problem, pt.solve(problem).plan).stages[0].memory
    assert memory.cache == sum(p.bytes for p in step.parameters if p.cache)
    assert memory.weights == sum(p.bytes for p in step.parameters if not p.cache and p.users)


def test_attention_reads_all_of_it_and_writes_one_row(step: pt.Graph) -> None:
    size = 3 * 4 * 101 * 16 * 2
    writes = [v for v, op in enumerate(step.operators) if op.target.startswith("aten.copy_")]
    attention = [v for v, op in enumerate(step.operators) if "attention" in op.target]
    assert len(writes) == 4
    assert len(attention) == 2
    assert all(step.operators[v].bytes_written == size // 101 for v in writes)
    assert all(step.operators[v].bytes_read == 2 * size + size // 101 for v in attention)
    # Scores and sums of 101 rows for one token.
    assert step.operators[attention[0]].flops == 2 * 2 * 3 * 4 * 101 * 16
    assert [step.operators[v].colocation for v in (*writes, *attention)] == [
        None, writes[0], None, writes[2], writes[0], writes[2],
    ]  # fmt: skip
    kept = [t for t in step.tensors if t.stored is not None]
    assert [t.producer for t in kept] == writes
    assert all(t.bytes == size for t in kept)


def test_the_cache_stays_with_its_layer(step: pt.Graph) -> None:
    """In both problems of inference: its bytes are memory of the device that attends, and cross nothing."""
    cluster = pt.Cluster.from_spec("2x(1xT4):ethernet-1g")
    problem = price(step, cluster, objective="latency")
    classes = {op.id: op.colocation for op in problem.operators}
    layers = [[v for v, op in enumerate(step.operators) if f"h.{k}.attn" == op.module[-8:]] for k in range(2)]
    for members in layers:
        assert len({classes[v] for v in members}) == 1
        memory = {op.id: op.memory for op in problem.operators}
        assert sum(memory[v] for v in members) == 2 * 3 * 4 * 101 * 16 * 2
    plan = pt.plan(step, cluster, time_limit_s=10, baselines=False).result.plan
    home = {v: number for number, stage in enumerate(plan.stages) for v in stage.operators}
    assert all(len({home[v] for v in members}) == 1 for members in layers)


def test_windows_cut_the_cache() -> None:
    fields = {"num_hidden_layers": "2", "sliding_window": "16", "hidden_size": "64", "num_attention_heads": "4"}
    fields |= {"num_key_value_heads": "2", "head_dim": "16", "intermediate_size": "64", "vocab_size": "100"}
    graph = load_model("hf:mistral", set_fields=fields, decode=100)
    assert {p.shape[2] for p in graph.parameters if p.name.endswith("cached_keys")} == {16}


@pytest.mark.parametrize(
    ("model", "asked", "message"),
    [
        ("hf:bert", {"decode": 5}, "does not decode token by token; decoding is for decoders"),
        ("hf:t5", {"decode": 5}, "does not decode token by token"),
        ("hf:gpt2", {"decode": 0}, "tokens before a step of decoding"),
        ("hf:gpt2", {"decode": 5, "training": True}, "trained on whole sequences"),
        ("hf:gpt2", {"decode": 5, "sequence_length": 7}, "here after 5; leave the sequence length out"),
        ("hf:gpt2", {"decode": 5000}, "exceeds the 1024 positions"),
        ("model.py:build", {"decode": 5}, "decoding one token is for hf: models"),
    ],
)
def test_what_is_refused(model: str, asked: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_model(model, **asked)
