"""Why runtimes refuse plans: one split for every limit, which differs from an accepted one in that alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from exporters.splits import by_layers, changed, cut, graph_of, usual
from partita.exporters import EXPORTERS, find_exporter
from partita.exporters.refusals import refusals
from partita.ground.errors import UnsupportedError
from partita.nouns.catalogue.meshes import MeshLimits
from partita.nouns.catalogue.runtimes import Limits
from partita.nouns.split import Split

Make = Callable[[], Split]


def sub_layer() -> Split:
    """Cut inside the second block."""
    graph = graph_of("decoder")
    first = next(v for v, op in enumerate(graph.operators) if op.module == "layers.1.up")
    return cut(graph, [int(v >= first) for v in range(len(graph.operators))])


def skipping() -> Split:
    """A U-Net on four stages: the first one's tensor goes to the last."""
    graph = graph_of("unet")
    place = {"a": 0, "b": 1, "c": 2, "d": 3, "e": 3}
    stage, found = 0, []
    for op in graph.operators:
        stage = place.get(op.module, stage)
        found.append(stage)
    return cut(graph, found)


def turned() -> Split:
    """The stages in the wrong order."""
    split = by_layers("decoder", (3, 3))
    graph = graph_of("decoder")
    first = set(split.stages[0].operators)
    return cut(graph, [int(v in first) for v in range(len(graph.operators))])


def placed(number: dict[str, int]) -> Split:
    """Modules of the decoder on stages; the rest on the first one."""
    operators = graph_of("decoder").operators
    stages = (next((n for name, n in number.items() if op.module.startswith(name)), 0) for op in operators)
    return cut(graph_of("decoder"), list(stages))


def alternating() -> Split:
    """Blocks in turn on two stages."""
    return placed({"layers.1": 1, "layers.3": 1, "norm": 1, "output": 1})


def early_head() -> Split:
    """The head on the first stage."""
    return placed({"layers.2": 1, "layers.3": 1})


def trained(**how: object) -> Split:
    return by_layers("decoder", (3, 3), training=True, **how)


TWO = {"replicas": 2, "devices": ("L4:0", "L4:1")}
CPU = {"devices": ("cpu:0",), "kind": "cpu", "accelerator": False}

CASES: list[tuple[Limits, Make, str]] = [
    (Limits(training=False), trained, "trains none, and this is a plan of training"),
    (
        Limits(inference=False),
        lambda: by_layers("decoder", (3, 3)),
        "a plan of inference; plan with --training",
    ),
    (Limits(schedules=("gpipe",)), trained, "has no schedule 1f1b, only gpipe"),
    (
        Limits(meshes=MeshLimits(zero=(0, 1))),
        lambda: trained(zero=3, devices={0: TWO, 1: TWO}),
        "2 groups of the same weights beside pipelines with ZeRO-0 or ZeRO-1, and this is ZeRO-3; plan with --zero 0,1",
    ),
    (Limits(), lambda: trained(devices={0: TWO}), r"uneven degrees \(replicas × devices of each: 1 × 1, 2 × 1\)"),
    (Limits(data=False), lambda: trained(devices={0: TWO, 1: TWO}), "no data-parallel replicas, and a stage has 2"),
    (Limits(tensor=False), lambda: trained(devices={n: {"tensor": 2} for n in (0, 1)}), "a stage has degree 2"),
    (Limits(chunks=False), lambda: looped(), "4 stages on 2 ranks"),
    (Limits(rounds=True), lambda: looped(microbatches=3), "has 3 microbatches, .* takes multiples of the 2 ranks"),
    (Limits(host="alone"), lambda: by_layers("decoder", (3, 3), devices={0: CPU}), "stage 0 is on a CPU beside"),
    (Limits(host="first"), lambda: by_layers("decoder", (3, 3), devices={1: CPU}), "stage 1 is on a CPU, and"),
    (
        Limits(accelerators=1),
        lambda: by_layers("decoder", (3, 3)),
        "uses 1 accelerator in a session, .* has 2",
    ),
    (Limits(one_list=True), skipping, "counts the layers of one list of modules, .* are a, b, c, …"),
    (Limits(cuts="layer"), sub_layer, "keeps layers whole, and layers.1 is cut"),
    (Limits(empty_stages=False), lambda: by_layers("decoder", (1, 5)), "stage 0 has no layer, and"),
    (Limits(tied="refused"), lambda: by_layers("tied", (3, 3)), "would silently become 2 copies"),
    (
        Limits(tied="copied"),
        lambda: by_layers("tied", (3, 3), training=True),
        "weight tok_embeddings.weight = output",
    ),
    (Limits(tied="ends"), lambda: by_layers("tied", (2, 3, 1), training=True), "nothing"),
    (Limits(contiguous=True), turned, "not contiguous: stage 1 sends to stage 0"),
    (Limits(skips=False), skipping, "past its neighbour to stage 3, and .* has no skip connections"),
    (Limits(calls=True), skipping, "the model itself reads tensors of several stages at once"),
    (Limits(ordered=True), alternating, "layers.2 is on stage 0 and layers.1 before it on stage 1"),
    (Limits(ends=True), early_head, "what comes behind the last block is on stage 0, and .* on the last stage, 1"),
]


def looped(microbatches: int = 4) -> Split:
    """Four stages on two ranks."""
    how = {"schedule": "interleaved", "chunks": 2, "microbatches": microbatches}
    split = by_layers("decoder", (2, 1, 1, 2), training=True, **how)
    stages = tuple(msgspec.structs.replace(stage, rank=number % 2) for number, stage in enumerate(split.stages))
    return msgspec.structs.replace(split, stages=stages)


@pytest.mark.parametrize(("limits", "make", "reason"), CASES, ids=[str(number) for number in range(len(CASES))])
def test_every_limit_is_a_reason_of_its_own(limits: Limits, make: Make, reason: str) -> None:
    """The sentence names what is in the way; without the limit there is none."""
    found = refusals(make(), "it", limits)
    if reason == "nothing":
        assert found == []
        return
    assert len(found) == 1, found
    assert re.search(reason, found[0]), found[0]
    if limits != Limits():
        assert refusals(make(), "it", Limits(uniform=False)) == []


def test_gradients_are_added_up_at_the_ends_only() -> None:
    """A weight of the embedding and a block is not of the first and the last stage."""
    ends = by_layers("tied", (3, 3), training=True)
    assert [weight.stages for weight in ends.tied] == [(0, 1)]
    assert refusals(ends, "it", Limits(tied="ends")) == []
    between = msgspec.structs.replace(by_layers("tied", (2, 2, 2), training=True), weights=ends.weights)
    (reason,) = refusals(between, "it", Limits(tied="ends"))
    assert "first and the last stage only" in reason


def test_own_reasons() -> None:
    """What limits do not say: each runtime's own."""
    unknown = msgspec.structs.replace(usual("torch"), source=None)
    assert find_exporter("torch").supports(unknown) == [
        "the plan does not say how its model is built; plan it again from hf:TYPE or path/to/file.py:callable"
    ]
    versions = msgspec.structs.replace(trained(), schedule="2bw")
    assert any("versions of weights" in reason for reason in find_exporter("torch").supports(versions))


@pytest.mark.parametrize("exporter", EXPORTERS, ids=lambda exporter: exporter.name)
def test_what_is_refused_is_not_written(exporter: object, tmp_path: Path) -> None:
    """By every runtime: replicas of unequal numbers."""
    split = changed(usual(exporter.name), 0, replicas=2)  # type: ignore[attr-defined]
    with pytest.raises(UnsupportedError, match="uneven degrees"):
        exporter.export(split, tmp_path / "out")  # type: ignore[attr-defined]
    assert list(tmp_path.iterdir()) == []
