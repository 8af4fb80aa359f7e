"""Random makespan problems are what was asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import partita as pt
from partita.ground.random_dags import FAMILIES
from partita.problems.makespan.generators import random_makespan_problem
from partita.problems.makespan.instance import build_instance
from partita.problems.makespan.separators import chain_of
from partita.problems.makespan.transformers import transformer_problem


@pytest.mark.parametrize("family", FAMILIES)
def test_families(family: str) -> None:
    """The same seed gives the same problem; there is room for what has to be held."""
    problem = random_makespan_problem(4, family=family, nodes=50, devices=3, room=1.2)
    assert problem == random_makespan_problem(4, family=family, nodes=50, devices=3, room=1.2)
    assert problem != random_makespan_problem(5, family=family, nodes=50, devices=3, room=1.2)
    assert (len(problem.operators), len(problem.devices)) == (50, 3)
    held = sum(op.memory for op in problem.operators)
    assert 1.2 * held <= sum(device.memory or 0.0 for device in problem.devices) <= 1.2 * held + 3
    assert len(random_makespan_problem(4, family=family, nodes=1, devices=1).operators) == 1


def test_branches_have_separators_until_skips_pass_them() -> None:
    chained = random_makespan_problem(1, family="branches", nodes=80)
    assert len(chain_of(build_instance(chained)).separators) >= 8
    skipped = random_makespan_problem(1, family="branches", nodes=80, skips=0.3)
    assert len(skipped.flows) > len(chained.flows)
    assert len(chain_of(build_instance(skipped)).separators) < 5


def test_communication_scales_transfers() -> None:
    one, two = (random_makespan_problem(3, communication=c) for c in (1.0, 2.0))
    moved = [sum(sum(sum(row) for row in flow.times) for flow in p.flows) for p in (one, two)]
    assert moved[1] == pytest.approx(2 * moved[0], rel=1e-2)
    assert one.operators == two.operators


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"family": "ring"}, "no graph family 'ring'"),
        ({"nodes": 0}, "nodes"),
        ({"room": 0.0}, "room"),
        ({"skips": 2.0}, "skips"),
        ({"communication": -1.0}, "communication"),
    ],
)
def test_what_makes_no_sense_is_refused(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(pt.InputError, match=said):
        random_makespan_problem(0, **asked)


def test_command(partita: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    options = ("--family", "wide", "--nodes", 30, "--devices", 3, "--room", 1.5, "--seed", 2, "--output", path)
    assert partita("generate", "makespan", *options).code == 0
    assert pt.read_problem(path) == random_makespan_problem(2, family="wide", nodes=30, devices=3, room=1.5)
    assert partita("generate", "makespan", "--family", "ring", "--output", path).code == 2
    assert partita("generate", "transformer", "--encoders", 1, "--decoders", 2, "--seed", 3, "--output", path).code == 0
    assert pt.read_problem(path) == transformer_problem(3, encoders=1, decoders=2)


@pytest.mark.parametrize(("encoders", "decoders", "heads", "operators"), [(2, 3, 1, 111), (2, 0, 2, 48), (0, 2, 1, 34)])
def test_transformers(encoders: int, decoders: int, heads: int, operators: int) -> None:
    """Equal layers are equal; decoders read the encoder's result past all others, if there is one."""
    problem = transformer_problem(2, encoders=encoders, decoders=decoders, heads=heads, devices=3, room=1.5)
    again = transformer_problem(2, encoders=encoders, decoders=decoders, heads=heads, devices=3, room=1.5)
    assert (problem, len(problem.operators)) == (again, operators)
    by_name = {op.name: op for op in problem.operators}
    assert len(by_name) == operators
    last = [op for op in problem.operators if op.name.endswith("feed.norm")]
    assert len(last) == encoders + decoders
    assert len({(op.times, op.memory) for op in last}) == 1
    readers = {by_name[f"decoder.{layer}.cross.k"].id for layer in range(decoders)} if encoders else set()
    result = by_name[f"encoder.{encoders - 1}.feed.norm"].id if encoders else None
    assert readers <= {flow.target for flow in problem.flows if flow.source == result}
    held = sum(op.memory for op in problem.operators)
    assert 1.5 * held <= sum(device.memory or 0.0 for device in problem.devices) <= 1.5 * held + 3


def test_heads_share_the_work_of_attention() -> None:
    """Eight heads do what one does, but for what joins them; a layer is as long, at the mean."""
    one, eight = (transformer_problem(0, encoders=2, decoders=0, heads=heads, communication=0.0) for heads in (1, 8))
    linear = [sum(op.times[0] or 0.0 for op in p.operators if op.type == "linear") for p in (one, eight)]
    widen = [sum(op.times[0] or 0.0 for op in p.operators if op.type == "widen") for p in (one, eight)]
    assert linear[1] / widen[1] == pytest.approx(linear[0] / widen[0], rel=1e-2)


@pytest.mark.parametrize(
    "asked", [{"encoders": 0, "decoders": 0}, {"heads": 0}, {"devices": 0}, {"room": 0.0}, {"communication": -1.0}]
)
def test_transformers_that_make_no_sense_are_refused(asked: dict[str, Any]) -> None:
    with pytest.raises(pt.InputError):
        transformer_problem(0, **asked)
