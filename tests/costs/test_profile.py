"""Profiles as a source of costs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from instances.cost_graphs import make_graph
from instances.profiles import make_machine, make_profile
from partita.api.planning import price
from partita.costs.profile import Measured, Profile, read_profile
from partita.costs.roofline import Roofline
from partita.costs.signatures import fingerprint, signatures
from partita.documents.document import write_json
from partita.ground.errors import FormatError, InputError
from partita.nouns.cluster import Cluster

TIMES: list[float | None] = [1.0, 2.0, None, 4.0, 5.0, 6.0]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file of a profile of the hand-made graph without one of its operators."""
    place = tmp_path / "p.json"
    write_json(place, make_profile(make_graph(), TIMES).to_dict())
    return place


def priced(path: Path, **settings: Any) -> list[float]:
    problem = price(make_graph(), Cluster.read(path), objective="throughput", costs=str(path), **settings)
    return [op.times[0] for op in problem.operators]


def test_measured_times_and_what_passes_between_operators(path: Path) -> None:
    """0.5 s beside each; the one that was not measured reads 10 bytes at 10 bytes/s."""
    assert priced(path) == [1.5, 2.5, 1.0, 4.5, 5.5, 6.5]


def test_a_file_is_what_was_written(path: Path) -> None:
    assert json.loads(path.read_text()) == json.loads(msgspec.json.encode(read_profile(path).to_dict()))
    found = msgspec.structs.replace(read_profile(path), cluster={"devices": {"here": {}}})
    assert found == msgspec.structs.replace(make_profile(make_graph(), TIMES), cluster=found.cluster)


def test_its_machine_is_a_cluster(path: Path) -> None:
    assert Cluster.read(path) == make_machine()


def test_an_accelerator_hides_what_passes_between_operators() -> None:
    cluster = make_machine()
    device = msgspec.structs.replace(cluster.devices["here"], accelerator=True)
    cluster = msgspec.structs.replace(cluster, devices={"here": device})
    found = make_profile(make_graph(), [0.1, 2.0, 0.5, 4.0, 5.0, 6.0], cluster=cluster.to_dict())
    assert Measured(found).operator_times(make_graph(), device) == [0.5, 2.0, 0.5, 4.0, 5.0, 6.0]


def test_another_graph_takes_operators_with_an_equal_signature() -> None:
    """The same layers twice, under other names."""
    graph = make_graph()
    renamed = graph.replace(
        operators=tuple(msgspec.structs.replace(op, name=f"{op.name}2") for op in graph.operators), name="two"
    )
    assert fingerprint(renamed) != fingerprint(graph)
    source = Measured(make_profile(graph, TIMES))
    assert source.operator_times(renamed, make_machine().devices["here"])[:3] == [1.5, 2.5, 1.0]
    assert source.coverage(renamed) == (5, 6)
    assert "a profile of another graph (hand)" in source.notes(renamed)[0]


def test_other_shapes_are_not_the_measured_ones() -> None:
    graph = make_graph()
    tensors = list(graph.tensors)
    tensors[2] = msgspec.structs.replace(tensors[2], shape=(7,))
    wider = graph.replace(tensors=tuple(tensors))
    # h is made by the first operator and read by the next one and by its backward one.
    assert Measured(make_profile(graph, TIMES)).coverage(wider) == (2, 6)


def test_signatures_know_what_is_added_to_a_gradient() -> None:
    assert [found.accumulates for found in signatures(make_graph())] == [False, False, False, False, True, True]


def test_notes_say_how_many_operators_were_measured() -> None:
    source = Measured(make_profile(make_graph(), TIMES), source="p.json")
    notes = source.notes(make_graph())
    assert notes[0].startswith("Times of 5 of 6 operators on here are from p.json, measured with 2 processes")
    assert notes[1:] == Roofline().notes(make_graph())
    whole = Measured(make_profile(make_graph(), [1.0] * 6), source="p.json")
    assert len(whole.notes(make_graph())) == 1


def test_other_devices_take_the_roofline() -> None:
    other = msgspec.structs.replace(make_machine().devices["here"], name="there")
    source = Measured(make_profile(make_graph(), TIMES))
    assert source.operator_times(make_graph(), other) == Roofline().operator_times(make_graph(), other)


def test_a_profile_of_another_model_is_refused(path: Path) -> None:
    graph = make_graph()
    other = graph.replace(
        name="other", operators=tuple(msgspec.structs.replace(op, flops=op.flops + 1) for op in graph.operators)
    )
    with pytest.raises(InputError, match=r"p.json is a profile of hand in training and holds no operator of other"):
        price(other, Cluster.read(path), objective="throughput", costs=str(path))


def test_a_profile_of_another_machine_is_refused(path: Path) -> None:
    with pytest.raises(InputError, match=r"was measured on here, and the cluster has L4;.*--cluster"):
        price(make_graph(), Cluster.from_spec("2xL4"), objective="throughput", costs=str(path))


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"format": "partita.graph"}, FormatError, "is not a partita.profile file"),
        ({"version": 2}, FormatError, "version 2 of partita.profile is not known"),
        ({"speed": 1}, FormatError, "speed"),
        ({"operators": [0, 0, 0, 0, 0, 9]}, InputError, "names measurement 9; there are 5"),
        ({"device": "elsewhere"}, InputError, "device 'elsewhere' is not among"),
    ],
)
def test_damaged_files_are_refused(path: Path, changes: dict[str, Any], error: type[Exception], message: str) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    with pytest.raises(error, match=message):
        read_profile(path)


def test_negative_times_are_refused() -> None:
    with pytest.raises(InputError, match="time_s is -1"):
        make_profile(make_graph(), [-1.0, None, None, None, None, None])


def test_version_and_format_are_those_of_the_document() -> None:
    document = make_profile(make_graph(), TIMES).to_dict()
    assert (document["format"], document["version"]) == (Profile.format, Profile.version) == ("partita.profile", 1)
