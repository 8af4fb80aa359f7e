"""What every family of topologies and every format of files keeps."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from partita.ground.errors import InputError
from partita.nouns.topology import Topology, topology
from partita.nouns.topology.generators import FAMILIES
from partita.nouns.topology.generators.generator import TopologyGenerator
from partita.nouns.topology.grammar import Option
from partita.nouns.topology.importers import FORMATS
from partita.nouns.topology.importers.importer import TopologyImporter
from partita.nouns.topology.importers.machine import widest
from partita.nouns.topology.importers.text import TextFile
from partita.nouns.topology.topology import Link

families = pytest.mark.parametrize("family", list(FAMILIES), ids=lambda family: family.name)
formats = pytest.mark.parametrize("form", list(FORMATS), ids=lambda form: form.name)


def check_sound(found: Topology) -> None:
    """Everything has its size, and the parts agree."""
    count = found.device_count
    assert count == len(found.names) == len(set(found.names)) == len(found.machine_of)
    matrix = found.bandwidth_bytes_per_s
    assert matrix.shape == (count, count)
    assert np.isinf(np.diag(matrix)).all()
    assert not matrix.flags.writeable
    assert (matrix > 0).all()
    assert sorted(set(found.machine_of)) == list(range(found.machine_count))
    assert all(re.search(r"\w.*\.$", note) for note in found.notes)
    if found.links:
        # Over all vertices, since the devices of a mesh forward: the links carry what the matrix promises a pair.
        vertices = count + len(found.switches)
        ways = [Link(count + a, count + b, rate) for a, b, rate in found.links]
        ways += [Link(device, count + device, np.inf) for device in range(count)]
        assert (matrix <= widest(count, vertices, ways) * (1 + 1e-9)).all()
        assert all(link.source != link.target for link in found.links)
    # A device is planned on as a cluster, the same for pricing as for mapping.
    cluster = found.with_device("A100-40GB").cluster()
    bandwidth = cluster.bandwidth_bytes_per_s()
    assert (bandwidth == matrix).all()
    assert cluster.machine_of() == list(found.machine_of)
    assert cluster.notes == found.notes


def check_described(name: str, summary: str, options: tuple[Option, ...]) -> None:
    """One line for people, and names that can be typed."""
    assert re.fullmatch(r"[a-z][a-z0-9-]*", name)
    assert summary
    assert "\n" not in summary
    assert not summary.endswith(".")
    assert len({option.name for option in options} | {"device"}) == len(options) + 1
    for option in options:
        assert re.fullmatch(r"[a-z_]+", option.name)
        assert option.help
        if option.default is not None:
            option.parse(name, option.default)


@families
def test_a_family_is_described_and_its_example_builds(family: TopologyGenerator) -> None:
    check_described(family.name, family.summary, family.options)
    assert family.example.startswith(f"{family.name}:")
    found = topology(family.example)
    check_sound(found)
    assert found.name == family.example
    if family.alias:
        other = topology(family.example.replace(family.name, family.alias.upper(), 1))
        assert (other.bandwidth_bytes_per_s == found.bandwidth_bytes_per_s).all()
    again = topology(family.example)
    assert (again.bandwidth_bytes_per_s == found.bandwidth_bytes_per_s).all()


def test_names_are_different() -> None:
    """Of families with their further names, and of formats."""
    names = [name for family in FAMILIES for name in (family.name, family.alias) if name]
    names += [form.name for form in FORMATS]
    assert len(set(names)) == len(names)


@families
def test_a_family_refuses_nonsense(family: TopologyGenerator) -> None:
    for text in ("", ":", ":0", ":x", ":-1", ":4.5", ":1x1x1x1x1x1x1x1", ":99999999", f":{'9' * 30}"):
        with pytest.raises(InputError):
            topology(family.name + text)
    for option in family.options:
        for value in ("", "nonsense?"):
            with pytest.raises(InputError, match=option.name):
                topology(f"{family.example.partition(':')[0]}:{_size(family)}:{option.name}={value}")


def _size(family: TopologyGenerator) -> str:
    return family.example.split(":")[1]


@families
def test_a_family_takes_a_device(family: TopologyGenerator) -> None:
    found = topology(f"{family.name}:{_size(family)}:device=L4")
    assert set(found.kinds) == {"L4"}


@formats
def test_a_format_is_described_and_its_example_is_read(form: TopologyImporter, tmp_path: Path) -> None:
    """By its content, whatever the file is called; no other format claims it before."""
    check_described(form.name, form.summary, form.options)
    path = tmp_path / "file"
    path.write_text(form.example)
    assert (
        next(
            other
            for other in (*FORMATS.added(), *FORMATS.listed())
            if other.recognises(TextFile(str(path), form.example))
        )
        is form
    )
    found = topology(path)
    check_sound(found)
    assert found.name == str(path)
    assert set(topology(f"{path}:device=L4").kinds) == {"L4"}
    with pytest.raises(InputError, match="there is no option 'colour'"):
        topology(f"{path}:colour=red")


@formats
def test_a_format_survives_damage(form: TopologyImporter, tmp_path: Path) -> None:
    """Cut anywhere, or with any line left out or twice: it is read, or one error names the file."""
    path = tmp_path / "file.txt"
    lines = form.example.splitlines(keepends=True)
    messages: list[str] = []
    texts = [form.example[:at] for at in range(0, len(form.example), 7)]
    for number in range(len(lines)):
        texts.append("".join(lines[:number] + lines[number + 1 :]))
        texts.append("".join(lines[: number + 1] + lines[number:]))
    for text in texts:
        path.write_text(text)
        source = TextFile(str(path), text)
        if not form.recognises(source):
            continue
        try:
            check_sound(form.load(source, ()))
        except InputError as error:
            messages.append(str(error))
    assert messages
    assert all(message.startswith(str(path)) and "\n" not in message for message in messages)
