"""A plan of a step that was made for a runtime is one that its exporter takes, and what it drops nothing of."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

import partita as pt
from exporters.readers import deepspeed, megatron, torchtitan
from partita import load_model
from partita.conductor.split import split_of
from partita.engines.search.result import Status
from partita.exporters import find_exporter
from partita.ground.errors import InputError, UnsupportedError
from partita.nouns.graph import Graph
from partita.nouns.split import Split
from partita.problems.hybrid.step.limits import alike

RUNTIMES = ("megatron", "torchtitan", "deepspeed", "torch")


@cache
def llama(**fields: str) -> Graph:
    """A small decoder of transformers, four layers."""
    shape = {
        "num_hidden_layers": "4", "hidden_size": "256", "intermediate_size": "512", "num_attention_heads": "8",
        "num_key_value_heads": "8", "vocab_size": "512", "tie_word_embeddings": "false",
    }  # fmt: skip
    return load_model("hf:llama", training=True, sequence_length=256, set_fields={**shape, **fields})


def planned(runtime: str, cluster: str = "8xL4", graph: Graph | None = None, **settings: Any) -> Split | None:
    """The split of a plan for a runtime; None without a plan."""
    answer = pt.plan(
        graph or llama(),
        pt.Cluster.from_spec(cluster),
        objective="hybrid",
        runtime=runtime,
        time_limit_s=120,
        baselines=False,
        **{"microbatches": (16,), **settings},
    )
    if answer.result.plan is None or answer.result.status is Status.INFEASIBLE or not answer.result.evaluation.feasible:
        return None
    return split_of(answer)


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("share", [1.0, 0.85, 0.7])
def test_plans_for_a_runtime_are_taken_by_its_exporter(runtime: str, share: float) -> None:
    """With less and less memory, so that meshes and recomputation change; the plan within the limits is proven."""
    free = planned(runtime)
    assert free is not None
    found = planned(runtime, memory=share * memory_of(runtime))
    for split in (free, found):
        if split is not None:
            assert find_exporter(runtime).supports(split) == []


@cache
def memory_of(runtime: str) -> float:
    """What the largest stage of the plan without limits needs."""
    answer = pt.plan(
        llama(), pt.Cluster.from_spec("8xL4"), objective="hybrid", runtime=runtime, time_limit_s=120, baselines=False,
        microbatches=(16,),
    )  # fmt: skip
    assert answer.result.evaluation is not None
    return max(stage.memory_bytes for stage in answer.result.evaluation.stages)


LAYOUTS = (
    "tensor=2,pipeline=2,data=2,recompute=full,zero=1",
    "tensor=2,pipeline=2,data=2,sequence_parallel=no,zero=1",
    "tensor=2,pipeline=2,data=1,context=2,zero=1",
    "pipeline=2,data=4,chunks=2,zero=1",
    "pipeline=2,data=4,zero=3",
    "data=8,zero=2",
    "data=8,zero=3,recompute=full",
    "tensor=2,pipeline=4,data=1,recompute=selective",
    "pipeline=4,data=2,zero=0",
)


def test_layouts_are_taken_or_refused_alike() -> None:
    """What a layout asks beyond a runtime is refused when it is planned; the others are exported as they are."""
    taken: dict[str, int] = dict.fromkeys(RUNTIMES, 0)
    for runtime in RUNTIMES:
        for layout in LAYOUTS:
            try:
                split = planned(runtime, layout=layout)
            except InputError:
                continue
            if split is not None:
                assert find_exporter(runtime).supports(split) == [], (runtime, layout)
                taken[runtime] += 1
    assert taken["megatron"] >= 4, taken
    assert min(taken.values()) >= 1, taken


def test_no_degree_is_dropped(tmp_path: Path) -> None:
    """A plan with context parallelism, recomputation, tokens and ZeRO: every device and every saving is in the file."""
    answer = pt.plan(
        llama(), pt.Cluster.from_spec("2x(8xL4)"), objective="hybrid", microbatches=(16,),
        layout="tensor=2,pipeline=2,data=2,context=2,recompute=full,zero=1",
    )  # fmt: skip
    split = split_of(answer)
    assert split is not None
    assert {stage.context for stage in split.stages} == {2}
    for runtime, read in (("megatron", lambda text: megatron.read(text, 16)), ("torchtitan", torchtitan.read)):
        find_exporter(runtime).export(split, tmp_path / runtime)
        found = read((tmp_path / runtime).read_text()).rest
        degrees = [found[name] for name in ("tensor", "ranks", "data", "context")]
        assert degrees == [2, 2, 2, 2]
        assert (found["recompute"], found["zero"], found["sequence_parallel"]) == ("full", 1, True)
    with pytest.raises(UnsupportedError, match="deepspeed has no context parallelism with such splits"):
        find_exporter("deepspeed").export(split, tmp_path / "deepspeed")
    assert not (tmp_path / "deepspeed").exists()


def test_each_way_of_recomputation_is_said_or_refused(tmp_path: Path) -> None:
    """Per layer where layers differ; selective recomputation is not the same in two runtimes."""
    graph = llama()
    answer = pt.plan(
        graph, pt.Cluster.from_spec("8xL4"), objective="hybrid", microbatches=(16,),
        layout="pipeline=2,data=4,zero=1,recompute=full",
    )  # fmt: skip
    split = split_of(answer)
    assert split is not None
    for runtime, read in (
        ("megatron", lambda text: megatron.read(text, 8)),
        ("torchtitan", torchtitan.read),
        ("deepspeed", lambda text: deepspeed.read(text, {layer.name for layer in split.blocks})),
    ):
        exporter = find_exporter(runtime)
        for way, takers in (
            ("full", {"megatron", "torchtitan", "deepspeed"}),
            ("attention", {"megatron"}),
            ("operators", {"torchtitan"}),
            ("stage", set()),
            ("my own", set()),
        ):
            layers = tuple(
                msgspec.structs.replace(layer, recompute=way if layer.part == "block" else "none")
                for layer in split.layers
            )
            other = msgspec.structs.replace(split, layers=layers)
            if runtime not in takers:
                assert any(repr(way) in reason for reason in exporter.supports(other))
                continue
            exporter.export(other, tmp_path / "out")
            assert read((tmp_path / "out").read_text()).rest["recompute"] == way
        uneven = (msgspec.structs.replace(split.layers[1], recompute="none"), *split.layers[2:])
        mixed = msgspec.structs.replace(split, layers=(split.layers[0], *uneven))
        assert any("recompute alike" in reason for reason in exporter.supports(mixed))


@pytest.mark.parametrize("runtime", ["megatron", "torchtitan"])
def test_weights_that_are_not_trained_are_refused(runtime: str) -> None:
    """Low-rank adapters beside weights that stay: at planning, at exporting, and where runtimes are named."""
    split = planned(runtime, layout="pipeline=2,data=4,zero=1")
    assert split is not None
    frozen = msgspec.structs.replace(split.weights[3], trained=False)
    adapted = msgspec.structs.replace(split, weights=(*split.weights[:3], frozen, *split.weights[4:]))
    (reason,) = find_exporter(runtime).supports(adapted)
    assert reason == f"{runtime} trains all weights of a model, and the plan leaves {frozen.name} as it is"
    graph = llama()
    parameters = tuple(msgspec.structs.replace(one, trainable=one.name != frozen.name) for one in graph.parameters)
    with pytest.raises(InputError, match=f"{runtime} trains all weights of a model"):
        planned(runtime, graph=graph.replace(parameters=parameters))


def test_files_that_do_not_say_enough_are_refused(tmp_path: Path) -> None:
    """A split of an earlier version says neither context degrees nor recomputation: they are not taken to be none."""
    for runtime in ("megatron", "torch"):
        split = planned(runtime, layout="pipeline=2,data=4,zero=0")
        assert split is not None
        old = msgspec.structs.replace(split, formats=None, optimizer=None)
        (reason,) = find_exporter(runtime).supports(old)
        assert "an earlier version wrote it; plan again" in reason


def test_reports_name_runtimes_whose_exporters_take_the_plan() -> None:
    """Not DeepSpeed for sequences that are shared out, nor Megatron-LM for weights that are not trained."""
    from partita.conductor.documents import answer_document

    cluster, called = pt.Cluster.from_spec("8xL4"), {"Megatron-LM": "megatron", "torchtitan": "torchtitan"}
    named = {}
    for layout in LAYOUTS:
        answer = pt.plan(llama(), cluster, objective="hybrid", microbatches=(16,), layout=layout)
        split = split_of(answer)
        assert split is not None
        if answer.result.evaluation is None or not answer.result.evaluation.feasible:
            continue
        named[layout] = answer_document(answer)["runtimes"]
        for name, runtime in {**called, "DeepSpeed": "deepspeed"}.items():
            taken = find_exporter(runtime).supports(split) == []
            # DeepSpeed also shares out weights where there is no pipeline, without this export.
            if name != "DeepSpeed" or len(split.stages) > 1:
                assert (name in named[layout]) == taken, (layout, name)
    assert "DeepSpeed" not in named["tensor=2,pipeline=2,data=1,context=2,zero=1"]
    assert {name for names in named.values() for name in names} >= {"Megatron-LM", "torchtitan", "DeepSpeed"}
    graph = llama()
    frozen = tuple(msgspec.structs.replace(one, trainable=place > 2) for place, one in enumerate(graph.parameters))
    adapted = graph.replace(parameters=frozen)
    answer = pt.plan(adapted, cluster, objective="hybrid", microbatches=(16,), layout="pipeline=2,data=4,zero=1")
    assert set(answer_document(answer)["runtimes"]) == {"DeepSpeed"}


def test_one_way_for_all_blocks_is_the_best_of_the_ways() -> None:
    """Within memory that not every way fits: the search over ways finds what searches of one way each find."""
    priced = pt.price(
        llama(), pt.Cluster.from_spec("4xL4"), objective="hybrid", runtime="megatron", microbatches=(8,),
        memory=0.8 * memory_of("megatron"),
    )  # fmt: skip
    assert priced.training is not None
    limits = priced.training.limits
    assert set(limits.ways) >= {"none", "full"}
    free = msgspec.structs.replace(priced.training, limits=msgspec.structs.replace(limits, ways=(), blocks=()))
    each = {
        way: pt.solve(problem.replace(training=free), solver="uniform", time_limit_s=60)
        for way, problem in alike(priced).items()
    }
    found = pt.solve(priced, solver="uniform", time_limit_s=60)
    values = [result.objective for result in each.values() if result.objective is not None]
    assert values
    assert found.objective == pytest.approx(min(values), rel=1e-6)
    assert found.bound is not None
    assert found.bound.value <= min(values) * (1 + 1e-9)
    mixed = pt.solve(priced.replace(training=free), solver="uniform", time_limit_s=60)
    assert mixed.objective is not None
    assert mixed.objective <= found.objective * (1 + 1e-9)
    ways = {way for stage in mixed.plan.stages for way in stage.configurations.values()}
    if len(ways) > 1:
        assert not pt.evaluate(priced, mixed.plan).feasible
