"""What Slurm's two topology files have in common: switches or blocks with nodes, but no bandwidths.

Nodes are host lists: ``tux[0-3,12],rack[1-2]n[00-15]``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from partita.nouns.catalogue.loader import load_catalogue
from partita.nouns.cluster import DEFAULT_NETWORK
from partita.nouns.topology.grammar import Option, parse_bandwidth, parse_count
from partita.nouns.topology.importers.text import TextFile
from partita.nouns.topology.topology import Topology, check_count
from partita.nouns.topology.tree import OVERSUBSCRIPTION, Switch, tree_topology

#: More names than this are taken for a slip of the keyboard.
MAX_NAMES = 65536

_PART = re.compile(r"\[([^\[\]]*)\]|([^\[\],\s]+)")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")

SLURM_OPTIONS = (
    Option("devices", parse_count, "devices of a node; 1 unless stated"),
    Option("inside", parse_bandwidth, "between two devices of one node"),
    Option("link", parse_bandwidth, "of a device to its node's switch"),
    replace(OVERSUBSCRIPTION, default=None),
)


@dataclass(frozen=True)
class SlurmSwitch:
    """A switch or block of a file: its line if that is known, the switches below it, and its nodes."""

    name: str
    line: int | None
    switches: Sequence[str] = ()
    nodes: Sequence[str] = ()


def expand(text: str) -> list[str]:
    """The names of a list in order; ``ValueError`` says what is wrong with it."""
    names: list[str] = []
    for entry in _names(text):
        parts: list[list[str]] = []
        at = 0
        while at < len(entry):
            match = _PART.match(entry, at)
            if match is None:
                raise ValueError(f"{entry!r} is no name or list such as tux[0-3,12]")
            parts.append([match[2]] if match[1] is None else _in_brackets(match[1], entry))
            at = match.end()
        size = len(names)
        for part in parts:
            size = max(1, size) * len(part)
        if size > MAX_NAMES:
            raise ValueError(f"{entry!r} has more than {MAX_NAMES} names")
        names += ["".join(chosen) for chosen in product(*parts)]
    return names


def _names(text: str) -> list[str]:
    """Parts between commas outside brackets."""
    entries, depth = [""], 0
    for character in text:
        depth += {"[": 1, "]": -1}.get(character, 0)
        if not 0 <= depth <= 1:
            break
        if character == "," and depth == 0:
            entries.append("")
        else:
            entries[-1] += character
    if depth:
        raise ValueError(f"{text!r} has brackets that do not match")
    if not all(entries):
        raise ValueError(f"{text!r} has an empty name")
    return entries


def _in_brackets(text: str, entry: str) -> list[str]:
    """Numbers between brackets, padded as the first of each range is."""
    numbers: list[str] = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            raise ValueError(f"{part!r} in {entry!r} is no number or range such as 0-3")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or last - first >= MAX_NAMES:
            raise ValueError(f"range {part!r} in {entry!r} runs backwards or is too long")
        numbers += [str(number).zfill(len(match[1])) for number in range(first, last + 1)]
    return numbers


def names_in(source: TextFile, text: str, line: int | None) -> list[str]:
    """The names of a host list of a file."""
    try:
        return expand(text)
    except ValueError as error:
        raise source.error(str(error), line) from None


def slurm_topology(
    source: TextFile,
    entries: Sequence[SlurmSwitch],
    *,
    device: str | None,
    devices: int | None,
    inside: float | None,
    link: float | None,
    oversubscription: float | None,
) -> Topology:
    """The tree that switches make, each node with so many devices; the order of nodes is that of the tree."""
    known: dict[str, SlurmSwitch] = {}
    for entry in entries:
        if entry.name in known:
            raise source.error(f"{entry.name} is there twice", entry.line)
        known[entry.name] = entry
    _check_nodes(source, entries)
    root = _root(source, known)
    number = devices or 1
    names: list[str] = []
    tree = _switch(root, known, number, names)
    check_count(source.path, tree.count)
    notes = []
    if link is None:
        link = load_catalogue().link(DEFAULT_NETWORK).achievable_bytes_per_s
        notes.append(
            f"Slurm's file has no bandwidths: {link / 1e9:.4g} GB/s of a device to its switch is taken, of "
            f"{DEFAULT_NETWORK}; state link=…."
        )
    if oversubscription is None:
        notes.append(
            "Slurm's file does not say how thin the upper links are: full width is taken; state oversubscription=…."
        )
    if devices is None:
        notes.append("Slurm's file does not say how many devices a node has: 1 is taken; state devices=….")
    if inside is None:
        name = load_catalogue().device(device).link if device is not None else "nvlink3"
        inside = load_catalogue().link(name).achievable_bytes_per_s
        if number > 1:
            notes.append(f"{inside / 1e9:.4g} GB/s is taken between the devices of a node, of {name}; state inside=….")
    found = tree_topology(source.path, tree, oversubscription or 1.0, link, number, inside)
    labels = tuple(f"{node}/gpu{i}" if number > 1 else node for node in names for i in range(number))
    found = replace(found, names=labels, notes=(*notes, *found.notes))
    return found if device is None else found.with_device(device)


def joined(entries: Sequence[SlurmSwitch], name: str) -> list[SlurmSwitch]:
    """Entries below one more, unless there is only one."""
    if len(entries) == 1:
        return list(entries)
    return [*entries, SlurmSwitch(name, None, [entry.name for entry in entries])]


def _check_nodes(source: TextFile, entries: Sequence[SlurmSwitch]) -> None:
    home: dict[str, str] = {}
    for entry in entries:
        for node in entry.nodes:
            if node in home:
                raise source.error(f"node {node} is at {home[node]} and at {entry.name}; it has one switch", entry.line)
            home[node] = entry.name
    if not home:
        raise source.error("it has no nodes")


def _root(source: TextFile, known: Mapping[str, SlurmSwitch]) -> SlurmSwitch:
    """The one switch above all."""
    above: dict[str, str] = {}
    for entry in known.values():
        for name in entry.switches:
            if name not in known:
                raise source.error(f"{entry.name} has the switch {name}, which is nowhere described", entry.line)
            if name in above:
                raise source.error(
                    f"{name} is below {above[name]} and below {entry.name}; it has one above", entry.line
                )
            above[name] = entry.name
    roots = [entry for name, entry in known.items() if name not in above]
    if len(roots) > 1:
        raise source.error(
            f"no switch is above both {roots[0].name} and {roots[1].name}; devices must reach each other", roots[1].line
        )
    seen: set[str] = set()
    waiting = [entry.name for entry in roots]
    while waiting:
        name = waiting.pop()
        seen.add(name)
        waiting += known[name].switches
    circle = next((entry for name, entry in known.items() if name not in seen), None)
    if circle is not None:
        raise source.error(f"{circle.name} is above itself: switches go round in a circle", circle.line)
    return roots[0]


def _switch(entry: SlurmSwitch, known: Mapping[str, SlurmSwitch], devices: int, names: list[str]) -> Switch:
    """The tree below an entry; ``names`` takes the nodes in its order."""
    below = tuple(_switch(known[name], known, devices, names) for name in entry.switches)
    names += entry.nodes
    return Switch(entry.name, below, len(entry.nodes) * devices)
