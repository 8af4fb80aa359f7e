"""What planning takes as a cluster: a short form, the path of a file, or the cluster itself."""

from __future__ import annotations

from pathlib import Path

import pytest

import partita as pt
from partita.nouns.graph import Graph, Operator, Tensor

GRAPH = Graph(
    name="row",
    operators=tuple(
        Operator(name=name, target="aten.mm", dtype="float32", flops=10**10, bytes_read=4000, bytes_written=4000)
        for name in "abcd"
    ),
    tensors=tuple(
        Tensor(name=f"t{v}", producer=v, consumers=(v + 1,), shape=(1000,), dtype="float32", bytes=4000)
        for v in range(3)
    ),
)


@pytest.fixture
def clusters(tmp_path: Path) -> list[object]:
    """One cluster, said in every way."""
    path = tmp_path / "lab.toml"
    path.write_text('cluster = "4xL4"\n')
    return ["4xL4", str(path), path, pt.Cluster.from_spec("4xL4")]


def test_a_cluster_in_every_form(clusters: list[object]) -> None:
    answers = [pt.plan(GRAPH, cluster, objective="throughput", baselines=False) for cluster in clusters]
    assert {answer.result.objective for answer in answers} == {answers[-1].result.objective}
    assert all(answer.result.status == "optimal" for answer in answers)
    priced = [pt.price(GRAPH, cluster, objective="throughput") for cluster in clusters]
    assert all(problem.operators == priced[-1].operators for problem in priced)
    result = answers[0].result
    placed = [pt.place(result.problem, result.plan, cluster) for cluster in clusters]
    assert {found.chosen.layout for found in placed} == {placed[-1].chosen.layout}


def test_a_model_without_a_cluster() -> None:
    with pytest.raises(pt.InputError, match="row is a model; say what to split it over with --cluster, for example"):
        pt.plan(GRAPH)


@pytest.mark.parametrize("wrong", [4, ["4xL4"]])
def test_what_is_no_cluster(wrong: object) -> None:
    with pytest.raises(pt.InputError, match="is no cluster; give a short form such as '4xA100-80GB'"):
        pt.plan(GRAPH, wrong)


def test_memory_with_a_unit() -> None:
    with_unit, plain = (pt.price(GRAPH, "2xL4", objective="throughput", memory=m) for m in ("20GB", 20e9))
    assert with_unit.kinds[0].memory_bytes == 20e9
    assert with_unit == plain
    with pytest.raises(pt.InputError, match="not a number of bytes, such as 40GB"):
        pt.price(GRAPH, "2xL4", objective="throughput", memory="20XB")


@pytest.mark.parametrize("seed", [-1, 2**31])
def test_seeds_that_not_all_take(seed: int) -> None:
    with pytest.raises(pt.InputError, match=r"the seed is .*; it must be a whole number from 0 to 2,147,483,647"):
        pt.plan(GRAPH, "2xL4", seed=seed)
