"""Models on unlike machines as layer placements."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import partita as pt
from partita.api.planning import plan
from partita.conductor.plan import price_all
from partita.ground.errors import InputError
from partita.nouns.graph import Graph
from partita.problems import kind_of
from partita.problems.layer_placement.problem import LayerPlacementProblem

SMALL = {
    "hidden_size": "256",
    "num_hidden_layers": "6",
    "num_attention_heads": "8",
    "num_key_value_heads": "4",
    "intermediate_size": "512",
    "vocab_size": "50000",
}
LENGTHS = {"prompt_tokens": 100, "output_tokens": 20}


@pytest.fixture(scope="module")
def graph() -> Graph:
    return pt.load_model("hf:llama", decode=509, set_fields=SMALL, dtype="bfloat16")


def priced(graph: Graph, cluster: str = "2xL4+4xT4", **settings: Any) -> LayerPlacementProblem:
    return pt.price(graph, cluster, objective="layer_placement", **{**LENGTHS, "tensor": 1, **settings})


def test_machines_are_devices_or_groups_of_them(graph: Graph) -> None:
    assert [m.name for m in priced(graph).machines] == ["L4:0", "L4:1", "T4:2", "T4:3", "T4:4", "T4:5"]
    assert [m.name for m in priced(graph, tensor=2).machines] == ["L4:0-1", "T4:2-3", "T4:4-5"]
    # What is left of a machine is a smaller group.
    assert [m.name for m in priced(graph, "3xL4+4xT4", tensor=4).machines] == ["L4:0-1", "L4:2", "T4:3-6"]
    cluster = pt.Cluster.from_spec("2xL4+4xT4")
    kind = kind_of(priced(graph))
    tried = price_all(kind, graph, cluster, dict(LENGTHS), {})
    assert [len(one.problem.machines) for one in tried] == [6, 3, 2]


def test_rates_are_full_steps_and_prompts(graph: Graph) -> None:
    problem = priced(graph)
    machine = problem.machines[0]
    assert problem.layers == max(machine.tokens_per_s) == 6
    rates = list(machine.tokens_per_s.values())
    assert rates == sorted(rates, reverse=True)
    for k, steps in machine.steps.items():
        full = steps.requests / machine.tokens_per_s[k] - steps.requests * steps.prompt_s / 20
        assert 0 < steps.step_s <= full
    # The output is read by the machine with the last layer; a lookup of embeddings takes less.
    assert machine.last.tokens_per_s[2] < machine.first.tokens_per_s[2] <= machine.tokens_per_s[2]
    assert machine.last.tokens_per_s[6] == machine.first.tokens_per_s[6]
    # A longer request takes more of the cache, and of the time.
    longer = priced(graph, prompt_tokens=400).machines[0]
    assert longer.tokens_per_s[3] < machine.tokens_per_s[3]


def test_links_carry_activations(graph: Graph) -> None:
    links = {(link.source, link.target): link for link in priced(graph).links}
    path = pt.Cluster.from_spec("2xL4+4xT4").path(0, 2)
    assert links["L4:0", "T4:2"].tokens_per_s == path.bandwidth_bytes_per_s / (256 * 2)
    assert links["L4:0", "T4:2"].latency_s == path.latency_s
    assert len(links) == 6 * 5 + 2 * 6


def test_plans_name_modules(graph: Graph, tmp_path: Path) -> None:
    answer = pt.plan(graph, "1xL4+1xT4", objective="layer_placement", **LENGTHS, time_limit_s=4)
    answer.save(tmp_path / "r.json")
    document = json.loads((tmp_path / "r.json").read_text())
    assert pt.check(tmp_path / "r.json").plan.verified
    machines = {tuple(one["layers"]): one["modules"] for one in document["plan"]["machines"]}
    for (first, behind), modules in machines.items():
        layers = [f"model.layers.{number}" for number in range(first, behind)]
        assert [name for name in modules if name in layers] == layers
        assert len(modules) == len(layers) + (first == 0) + (behind == 6)
    assert document["tokens_per_s"] == pytest.approx(1 / document["objective"])
    assert document["status"] in ("optimal", "feasible")


def test_what_is_missing_is_said(graph: Graph) -> None:
    with pytest.raises(InputError, match="give --prompt-tokens and --output-tokens"):
        priced(graph, prompt_tokens=None)
    with pytest.raises(InputError, match=r"no machine of cluster 2xL4\+4xT4 has more than 4 devices"):
        priced(graph, tensor=8)
    with pytest.raises(InputError, match=r"has room for one layer of .* smaller format"):
        priced(graph, prompt_tokens=300_000_000)
    # Enough for some layers, not for all.
    cluster = pt.Cluster.from_spec("1xL4")
    result = plan(
        graph, cluster, objective="layer_placement", prompt_tokens=8_000_000, output_tokens=1, time_limit_s=4
    ).result
    assert result.status is pt.Status.INFEASIBLE
    assert "the model has 6; machines for" in result.reason
