"""Models on clusters as serving problems."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import partita as pt
from partita.api.planning import plan
from partita.ground.errors import InputError
from partita.nouns.graph import Graph
from partita.problems.serving.options import parse_unit_layout

SMALL = {
    "hidden_size": "256",
    "num_hidden_layers": "4",
    "num_attention_heads": "8",
    "num_key_value_heads": "4",
    "intermediate_size": "512",
    "vocab_size": "1000",
}
MIXTURE = {**SMALL, "num_local_experts": "8"}
FIXED = {"prompt_tokens": 100, "output_tokens": 10, "concurrency": 4}


@pytest.fixture(scope="module")
def dense() -> Graph:
    return pt.load_model("hf:llama", decode=509, set_fields=SMALL, dtype="bfloat16")


@pytest.fixture(scope="module")
def mixture() -> Graph:
    return pt.load_model("hf:mixtral", decode=509, set_fields=MIXTURE, dtype="bfloat16")


def priced(graph: Graph, cluster: str = "4xL4", **settings: Any) -> Any:
    return pt.price(graph, cluster, objective="serving", **{**FIXED, **settings})


def test_a_layout_is_one_form(dense: Graph) -> None:
    problem = priced(dense, layout="tensor=2,pipeline=2,requests=32,tokens=512")
    (unit,) = problem.units
    assert (unit.layout.tensor, unit.layout.pipeline, unit.devices) == (2, 2, 4)
    assert (unit.rules.requests, unit.rules.tokens) == (32, 512)
    assert unit.prices.stages == 2
    assert problem.devices == 4
    assert problem.workload.count == 40


def test_without_one_every_layout_is_looked_at(dense: Graph) -> None:
    found = {(unit.layout.tensor, unit.layout.pipeline) for unit in priced(dense).units}
    assert found == {(1, 1), (2, 1), (4, 1), (1, 2), (2, 2), (1, 4)}
    assert {u.layout.pipeline for u in priced(dense, "6xL4").units} == {1, 2, 3, 4}
    # Tensor-parallel groups stay inside a machine.
    assert max(unit.layout.tensor for unit in priced(dense, "2x(2xL4)").units) == 2


def test_tensor_groups_have_whole_heads() -> None:
    heads = {"hidden_size": "384", "num_attention_heads": "6", "num_key_value_heads": "6"}
    graph = pt.load_model("hf:llama", decode=509, set_fields={**SMALL, **heads}, dtype="bfloat16")
    assert {unit.layout.tensor for unit in priced(graph).units} == {1, 2}


def test_layouts_of_experts(mixture: Graph) -> None:
    for unit in priced(mixture).units:
        layout = unit.layout
        assert layout.expert * layout.expert_tensor == layout.tensor * layout.attention_data
        assert unit.prices.attention_data == layout.attention_data
    (unit,) = priced(mixture, layout="tensor=1,attention_data=4,expert=4").units
    assert (unit.layout.expert, unit.layout.expert_tensor, unit.devices) == (4, 1, 4)


def test_prompts_are_spaced_where_the_engine_can(dense: Graph, mixture: Graph) -> None:
    free = {"concurrency": None}
    assert priced(mixture, **free).intervals[:2] == (1, 2)
    assert priced(mixture, **free, engine="sglang").intervals == priced(dense, **free).intervals == (1,)
    assert priced(mixture, **free, rate=1.0).intervals == priced(mixture).intervals == (1,)


def test_groups_of_a_dense_model_are_priced_alone(dense: Graph) -> None:
    (unit,) = priced(dense, layout="attention_data=4").units
    assert (unit.devices, unit.prices.attention_data) == (4, 1)


def test_engines_choose_steps_in_their_ways(dense: Graph) -> None:
    rules = {
        name: priced(dense, layout="tensor=1", engine=name).units[0].rules for name in ("vllm", "trtllm", "sglang")
    }
    assert rules["vllm"].mixed
    assert rules["vllm"].chunked
    assert not rules["sglang"].mixed
    assert rules["trtllm"].reserve == "whole"


def test_formats_make_weights_and_caches_smaller(dense: Graph) -> None:
    plain = priced(dense, layout="tensor=1").units[0].prices
    small = priced(dense, layout="tensor=1", weights="fp8", cache="fp8").units[0].prices
    assert small.weight_bytes[0] < plain.weight_bytes[0]
    assert small.cache_bytes_per_token[0][0] == plain.cache_bytes_per_token[0][0] / 2


def test_a_stated_layout_is_not_searched(dense: Graph) -> None:
    answer = plan(dense, "4xL4", objective="serving", layout="tensor=2", **FIXED)
    assert answer.result.solver == "stated"
    assert answer.result.plan.units[0].count == 1
    assert answer.result.evaluation.devices == 2


def test_the_best_of_all_is_searched_and_proven(dense: Graph) -> None:
    answer = plan(dense, "2xL4", objective="serving", **FIXED)
    assert answer.result.status == "optimal"
    stated = [
        plan(dense, "2xL4", objective="serving", layout=layout, **FIXED).result.objective
        for layout in ("tensor=1", "tensor=2", "pipeline=2")
    ]
    assert answer.result.objective <= min(stated)


def test_traces_and_rates(dense: Graph, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("arrival_s,prompt_tokens,output_tokens\n0,10,5\n1,20,6\n3,30,7\n")
    load = {"prompt_tokens": None, "output_tokens": None, "concurrency": None, "requests": str(path)}
    trace = priced(dense, layout="tensor=1", **load).workload
    assert trace.drawn().arrival_s.tolist() == [0.0, 1.0, 3.0]
    faster = priced(dense, layout="tensor=1", rate=4.0, **load).workload
    assert faster.drawn().arrival_s[-1] == pytest.approx(0.5)
    closed = priced(dense, layout="tensor=1", **{**load, "concurrency": 2}).workload
    assert closed.drawn().in_flight == 2


def test_without_a_load_a_layout_has_one_request_in_flight(dense: Graph) -> None:
    problem = priced(dense, concurrency=None, layout="tensor=2")
    assert problem.workload.concurrency == 1
    assert any("one is in flight" in note for note in problem.notes)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"layout": "tensor=8"}, "takes 8 devices, and cluster 4xL4 has 4"),
        ({"layout": "tensor=1", "prompt_tokens": 10**9}, "longer than the cache of one device on L4"),
        ({"layout": "tensor=2,expert=2"}, "experts"),
        ({"weights": "fp3"}, "no number format 'fp3'"),
        ({"engine": "orca"}, "engine 'orca' is unknown"),
        ({"prompt_tokens": None}, "serving needs a workload"),
        ({"requests": "x.csv"}, "gives the lengths of requests"),
        ({"rate": 1.0}, "leave one out"),
        ({"price_per_hour": "T4=1"}, "names T4, and the cluster has L4; name these"),
        ({"price_per_hour": 3}, "--price-per-hour 3 says no kind; give KIND=X"),
        ({"price_per_hour": {"L4": "cheap"}}, "L4 is cheap; it must be finite and positive"),
        ({"roles": "neither"}, "roles 'neither' is unknown"),
        ({"runtime": "vllm"}, "the engine is --engine"),
        ({"costs": "x.csv"}, "priced by the device's data"),
        ({"percentile": 2.0}, "out of range"),
    ],
)
def test_what_cannot_be_is_refused(dense: Graph, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        priced(dense, **settings)


def test_weights_that_leave_no_room_are_refused() -> None:
    fields = {"num_hidden_layers": "2", "intermediate_size": "400000", "hidden_size": "8192"}
    large = pt.load_model("hf:llama", decode=509, set_fields=fields, dtype="bfloat16")
    with pytest.raises(InputError, match="leave no room for a cache; use more devices, or a smaller format"):
        priced(large, layout="tensor=1")
    answer = plan(large, "1xL4", objective="serving", **FIXED)
    assert answer.result.status == "infeasible"
    # What would hold it is said.
    assert "tensor 4 takes 4 devices, and there are 1" in answer.result.reason


def test_kinds_of_devices_are_pools_with_forms_of_their_own(dense: Graph) -> None:
    problem = priced(dense, "2x(2xL4)+1xT4", concurrency=None, price_per_hour="L4=0.7,T4=0.35")
    assert [(pool.kind, pool.machines, pool.price_per_hour) for pool in problem.pools] == [
        ("L4", (2, 2), 0.7),
        ("T4", (1,), 0.35),
    ]
    assert {unit.kind for unit in problem.units} == {"L4", "T4"}
    assert max(unit.devices for unit in problem.units if unit.kind == "T4") == 1
    assert max(unit.layout.tensor for unit in problem.units if unit.kind == "L4") == 2


def test_what_is_looked_for_follows_from_the_load(dense: Graph) -> None:
    most = priced(dense, concurrency=None, ttft=1.0)
    assert (most.goal, most.roles, most.unit, most.workload.count) == ("rate", "any", "s", 10_000)
    assert not most.workload.loaded
    cheapest = priced(dense, concurrency=None, rate=2.0)
    assert (cheapest.goal, cheapest.unit, cheapest.workload.rate_per_s) == ("cost", "devices", 2.0)
    assert priced(dense, concurrency=None, rate=2.0, price_per_hour={"L4": 0.7}).unit == "per hour"
    assert any("Nothing is promised" in note for note in cheapest.notes)
    closed = priced(dense)
    assert (closed.goal, closed.roles) == ("time", "both")
    assert priced(dense, concurrency=None, roles="split").roles == "split"


def test_forms_of_one_layout_share_its_prices(dense: Graph) -> None:
    units = priced(dense).units
    by_layout = {unit.layout: unit.prices for unit in units}
    assert all(unit.prices is by_layout[unit.layout] for unit in units)
    assert {unit.rules.tokens for unit in units} == {512, 1024, 2048, 8192}
    assert len({(unit.layout, unit.rules) for unit in units}) == len(units)
    # Prompts that are not cut need a step that holds them.
    whole = priced(dense, engine="trtllm", prompt_tokens=1000).units
    assert min(unit.rules.tokens for unit in whole) == 1024


def test_caches_go_over_the_slowest_link(dense: Graph) -> None:
    near, far = (priced(dense, cluster).link_bytes_per_s for cluster in ("2xL4", "2x(1xL4):ethernet-1g"))
    assert near > far > 0
    assert priced(dense, "1xL4").link_bytes_per_s is None


def test_models_without_a_cache_are_refused() -> None:
    graph = pt.load_model("hf:llama", set_fields=SMALL, sequence_length=8)
    with pytest.raises(InputError, match="traced without a cache"):
        priced(graph)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tensor", "'tensor' is not one of tensor=…"),
        ("data=2", "'data=2' is not one of"),
        ("tensor=2,tensor=4", "gives tensor twice"),
        ("tensor=0", "give a whole number of at least 1"),
        ("tensor=two", "tensor is 'two'"),
        ("tensor=", "tensor is ''"),
    ],
)
def test_layouts_that_are_none(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        parse_unit_layout(text)
