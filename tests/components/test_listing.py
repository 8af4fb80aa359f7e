"""Listings as data: all facts of each entry, the same in Python and as JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

import partita as pt

FUNCTIONS: dict[str, Callable[[], Any]] = {
    "problems": pt.problem_kinds,
    "solvers": pt.solvers,
    "bounds": pt.bounds,
    "baselines": pt.baselines,
    "schedules": pt.schedules,
    "exporters": pt.runtimes,
    "topologies": pt.topologies,
    "devices": pt.devices,
    "links": pt.links,
}


@pytest.mark.parametrize("command", FUNCTIONS)
def test_json_has_what_the_records_have(document: Callable[..., dict[str, Any]], command: str) -> None:
    found = FUNCTIONS[command]()
    assert document(command) == msgspec.json.decode(msgspec.json.encode(found.document()))
    entries = document(command)[command]
    assert [entry["name"] for entry in entries] == found.names
    assert all(set(entry) == set(found[0].__struct_fields__) for entry in entries)
    assert {entry["package"] for entry in entries} == {"partita"}


@pytest.mark.parametrize("command", FUNCTIONS)
def test_listings_are_small_to_look_at(command: str) -> None:
    found = FUNCTIONS[command]()
    shown = repr(found)
    assert len(shown) <= 5000
    assert shown.count("\n") < 25
    assert shown.startswith(f"{len(found)} {command}\n")
    assert len(found._repr_html_()) < 200_000
    assert all(len(repr(entry)) <= 5000 for entry in found)


def test_a_device_says_what_is_in_effect() -> None:
    card = pt.devices()["L4"]
    assert card.memory_bytes == 24152899584
    assert card.reserved_bytes == card.memory_bytes // 20
    assert card.usable_memory_bytes == card.memory_bytes - card.reserved_bytes
    assert card.peak_flops["bfloat16"] == 121e12
    assert card.attention_efficiency == pytest.approx(0.7 * card.compute_efficiency)
    assert (card.host_link, card.package) == ("pcie4", "partita")
    assert "https://" in card.source
    link = pt.links()[card.link]
    assert link.reached_bytes_per_s == link.bandwidth_bytes_per_s * link.efficiency
    assert link.hop_time_s is not None
    assert set(pt.DeviceSpec.__struct_fields__) < set(card.__struct_fields__)


def test_entries_are_found_by_name_by_number_and_in_part() -> None:
    found = pt.solvers("mapping")
    assert {entry.problem for entry in found} == {"mapping"}
    assert found["swap-annealing"] is found[found.names.index("swap-annealing")]
    assert found[:2].names == found.names[:2]
    with pytest.raises(pt.InputError, match="no 'magic' among the solvers; there are combined"):
        found["magic"]
    with pytest.raises(pt.InputError, match="no problem 'knots'"):
        pt.bounds("knots")
    frame = found.to_frame()
    names = list(frame["name"]) if hasattr(frame, "columns") else [row["name"] for row in frame]
    assert names == found.names


def test_other_facts() -> None:
    assert pt.problem_kinds()["makespan"].objective == "latency"
    assert pt.problem_kinds()["mapping"].objective is None
    assert pt.schedules()["interleaved"].default_chunks > 1
    assert pt.runtimes()["megatron"].limits == msgspec.convert(
        pt.runtimes().document()["exporters"][pt.runtimes().names.index("megatron")]["limits"], pt.Limits
    )
    family = pt.topologies()["fat-tree"]
    assert family.kind == "family"
    assert all(option.help for option in family.options)
