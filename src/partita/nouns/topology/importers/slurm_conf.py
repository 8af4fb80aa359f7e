"""Slurm's topology.conf: ``SwitchName=… Nodes=…`` lines of a tree, or ``BlockName=… Nodes=…`` lines."""

from __future__ import annotations

from typing import Any

from partita.nouns.topology.importers.importer import TopologyImporter, looks_like
from partita.nouns.topology.importers.slurm import SLURM_OPTIONS, SlurmSwitch, joined, names_in, slurm_topology
from partita.nouns.topology.importers.text import TextFile
from partita.nouns.topology.topology import Topology

_KEYS = ("switchname", "switches", "nodes", "linkspeed", "blockname", "blocksizes", "topologyparam")


def read(source: TextFile, **options: Any) -> Topology:
    """The tree of switches, or blocks under one switch; link speeds, which Slurm does not use either, are not read."""
    switches: list[SlurmSwitch] = []
    blocks: list[SlurmSwitch] = []
    for line, fields in _lines(source):
        nodes = names_in(source, fields["nodes"], line) if "nodes" in fields else []
        below = names_in(source, fields["switches"], line) if "switches" in fields else []
        if "switchname" in fields:
            if not nodes and not below:
                raise source.error(f"switch {fields['switchname']} has neither Nodes nor Switches", line)
            switches.append(SlurmSwitch(fields["switchname"], line, below, nodes))
        elif "blockname" in fields:
            if not nodes:
                raise source.error(f"block {fields['blockname']} has no Nodes", line)
            blocks.append(SlurmSwitch(fields["blockname"], line, nodes=nodes))
        elif "blocksizes" not in fields and "topologyparam" not in fields:
            raise source.error("a line needs SwitchName or BlockName", line)
    if switches and blocks:
        raise source.error("it has switches and blocks; a file has one of both", blocks[0].line)
    entries = switches or joined(blocks, "between blocks")
    return slurm_topology(source, entries, **options)


def _lines(source: TextFile) -> list[tuple[int, dict[str, str]]]:
    """Lines with their fields by name in small letters; a backslash continues a line."""
    found: list[tuple[int, dict[str, str]]] = []
    text, start = "", 0
    for number, line in enumerate(source.text.splitlines(), 1):
        start = start if text else number
        text += line.partition("#")[0].rstrip()
        if text.endswith("\\"):
            text = text[:-1] + " "
            continue
        fields: dict[str, str] = {}
        for word in text.split():
            name, equals, value = word.partition("=")
            if not equals or not value:
                raise source.error(f"{word!r} is not of the form NAME=VALUE", start)
            if name.lower() not in _KEYS:
                raise source.error(
                    f"there is no key {name!r}; known are SwitchName, Switches, Nodes, LinkSpeed, BlockName, "
                    "BlockSizes and TopologyParam",
                    start,
                )
            if name.lower() in fields:
                raise source.error(f"{name} is there twice", start)
            fields[name.lower()] = value
        if fields:
            found.append((start, fields))
        text = ""
    return found


SLURM_CONF = TopologyImporter(
    name="slurm-conf",
    summary="Slurm's topology.conf: a tree of switches, or blocks",
    recognises=looks_like(r"^\s*(SwitchName|BlockName)\s*=", case=False),
    read=read,
    example="SwitchName=leaf1 Nodes=n[01-02]\nSwitchName=leaf2 Nodes=n[03-04]\nSwitchName=top Switches=leaf[1-2]\n",
    options=SLURM_OPTIONS,
)
