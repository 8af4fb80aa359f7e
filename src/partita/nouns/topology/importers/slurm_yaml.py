"""Slurm's topology.yaml: several topologies, each a tree, blocks, or flat."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from partita.nouns.topology.grammar import Option, parse_text
from partita.nouns.topology.importers.importer import TopologyImporter, looks_like
from partita.nouns.topology.importers.slurm import SLURM_OPTIONS, SlurmSwitch, joined, names_in, slurm_topology
from partita.nouns.topology.importers.text import TextFile, YamlValue, read_yaml
from partita.nouns.topology.topology import Topology


def read(source: TextFile, topology: str | None, **options: Any) -> Topology:
    """The topology of a name; without one that of the whole cluster, or the only one."""
    chosen = _chosen(source, _list(source, read_yaml(source), "the file"), topology)
    fields = _mapping(source, chosen, "a topology")
    if "tree" in fields:
        tree = _mapping(source, fields["tree"], "tree")
        entries = [
            _named(source, entry, "switch") for entry in _field(source, tree, "switches", fields["tree"], "tree")
        ]
    elif "block" in fields:
        block = _mapping(source, fields["block"], "block")
        found = _field(source, block, "blocks", fields["block"], "block")
        entries = joined([_named(source, entry, "block") for entry in found], "between blocks")
    elif "flat" in fields:
        raise source.error("a flat topology lists no nodes; write for example flat:64", fields["flat"].line)
    else:
        known = ", ".join(name for name in fields if name not in ("topology", "cluster_default")) or "nothing"
        raise source.error(f"the topology is {known}; tree and block are read", chosen.line)
    return slurm_topology(source, entries, **options)


def _chosen(source: TextFile, entries: list[YamlValue], wanted: str | None) -> YamlValue:
    named = {str(_mapping(source, e, "a topology").get("topology", YamlValue("", 0)).value): e for e in entries}
    if wanted is not None:
        if wanted not in named:
            raise source.error(f"there is no topology {wanted!r}; it has {', '.join(named)}")
        return named[wanted]
    default = [e for e in entries if e.value.get("cluster_default", YamlValue(False, 0)).value is True]
    if not default and len(entries) != 1:
        raise source.error(f"it has several topologies and no default; state topology=… of {', '.join(named)}")
    return (default or entries)[0]


def _named(source: TextFile, entry: YamlValue, kind: str) -> SlurmSwitch:
    """A switch or block of a list."""
    fields = _mapping(source, entry, f"a {kind}")
    for name in fields:
        if name not in (kind, "children", "nodes"):
            raise source.error(f"a {kind} has no {name!r}; it has {kind}, children and nodes", fields[name].line)
    if kind not in fields:
        raise source.error(f"an entry has no {kind!r}, which is its name", entry.line)
    lists = {name: names_in(source, str(e.value), e.line) for name, e in fields.items() if name != kind}
    if not lists:
        raise source.error(f"{kind} {fields[kind].value} has neither nodes nor children", entry.line)
    return SlurmSwitch(str(fields[kind].value), entry.line, lists.get("children", ()), lists.get("nodes", ()))


def _field(
    source: TextFile, fields: Mapping[str, YamlValue], name: str, owner: YamlValue, what: str
) -> list[YamlValue]:
    if name not in fields:
        raise source.error(f"{what} has no {name!r}", owner.line)
    return _list(source, fields[name], name)


def _list(source: TextFile, entry: YamlValue, what: str) -> list[YamlValue]:
    if not isinstance(entry.value, list) or not entry.value:
        raise source.error(f"{what} must be a list with at least one entry", entry.line)
    return list(entry.value)


def _mapping(source: TextFile, entry: YamlValue, what: str) -> dict[str, Any]:
    if not isinstance(entry.value, dict):
        raise source.error(f"{what} must be a table of keys, not {entry.value!r}"[:200], entry.line)
    return entry.value


SLURM_YAML = TopologyImporter(
    name="slurm-yaml",
    summary="Slurm's topology.yaml: a tree of switches, or blocks",
    recognises=looks_like(r"^\s*-\s*topology\s*:"),
    read=read,
    example="""- topology: main
  cluster_default: true
  tree:
    switches:
      - {switch: top, children: 'leaf[1-2]'}
      - {switch: leaf1, nodes: 'n[01-02]'}
      - {switch: leaf2, nodes: 'n[03-04]'}
""",
    options=(
        *SLURM_OPTIONS,
        Option("topology", parse_text, "which of several topologies; the default one unless stated"),
    ),
)
