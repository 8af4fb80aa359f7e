"""partita topologies: the families and formats there are, and what one topology is."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from partita.cli.common import aligned, check_writable, emit_json, show
from partita.cli.flags import json_option, path_option, subcommand
from partita.ground.errors import InputError

if TYPE_CHECKING:
    from partita.nouns.topology.grammar import Option
    from partita.nouns.topology.topology import Topology

#: More devices than this are shown without their matrix.
MOST_DEVICES = 12

#: More different bandwidths than this are shown without a list of them.
MOST_LEVELS = 20


@subcommand(
    click.argument("name", required=False),
    path_option("--plot", metavar="OUT.png", help="Draw the topology; the ending decides the format."),
    json_option,
)
def topologies(name: str | None, plot: str | None, as_json: bool) -> None:
    """List the topologies, or show one.

    NAME is a short form such as mesh:16x16 or dgx1:4, a file (nvidia-smi topo -m, NCCL or hwloc XML, Slurm,
    ASTRA-sim, a matrix in CSV), a cluster such as 2x(4xL4), or a family or format for its options.
    """
    from partita.components.joined import topologies as list_topologies
    from partita.nouns.topology.read import find_generator, find_importer, topology

    check_writable(plot)
    family = None if name is None else find_generator(name) or find_importer(name)
    if name is None or family is not None:
        if plot is not None:
            what = f"{name} has no size" if name else "there is no topology to draw"
            raise InputError(f"{what}; write for example: partita topologies dgx1:4 --plot {plot}")
        if family is not None:
            document, lines = _described(family)
        else:
            listed = list_topologies()
            document, lines = listed.document(), aligned(listed.rows())
        emit_json(document) if as_json else show(lines)
        return
    assert name is not None
    found = topology(name)
    if plot is not None:
        from partita.documents.tables.topology_plot import save_topology

        save_topology(plot, found)
    if as_json:
        emit_json(_document(found))
    else:
        show(_summary(found))


def _described(family: Any) -> tuple[dict[str, Any], list[str]]:
    from partita.nouns.topology.grammar import DEVICE

    options: list[Option] = [*family.options, replace(DEVICE, default=getattr(family, "device", None))]
    listed = [{"name": o.name, "default": o.default, "help": o.help} for o in options]
    document = {"name": family.name, "summary": family.summary, "example": family.example, "options": listed}
    lines = [(f"  {o.name}", o.help + (f"  [default: {o.default}]" if o.default else "")) for o in options]
    title = "Options, each as :NAME=VALUE after the size or the file:"
    return document, [f"{family.name}: {family.summary}", title, *aligned(lines), "For example:", family.example]


def _document(found: Topology) -> dict[str, Any]:
    """Everything; the matrix's diagonal, which nobody reads, is 0. Counted machines stand for a matrix."""
    import msgspec

    from partita.nouns.topology.counted import CountedLinks

    count, links = found.device_count, found.bandwidth_bytes_per_s
    said: dict[str, Any]
    if isinstance(links, CountedLinks):
        said = {"bandwidth_bytes_per_s": None, "machines": msgspec.to_builtins(links.machines)}
    else:
        matrix = links.tolist()
        rows = [[0.0 if i == j else matrix[i][j] for j in range(count)] for i in range(count)]
        said = {"bandwidth_bytes_per_s": rows}
    return {
        "name": found.name,
        "devices": [
            {"name": name, "machine": machine, "kind": found.kinds[i] if found.kinds else None}
            for i, (name, machine) in enumerate(zip(found.names, found.machine_of, strict=True))
        ],
        **said,
        "switches": list(found.switches),
        "links": [dict(link._asdict()) for link in found.links],
        "notes": list(found.notes),
    }


def _summary(found: Topology) -> list[Any]:
    """Devices, bandwidths and what was taken for granted."""
    import numpy as np

    from partita.documents.tables.text import new_table, paragraphs
    from partita.nouns.topology.counted import CountedLinks

    kinds = Counter(found.kinds) or Counter({"not stated": found.device_count})
    said = ", ".join(f"{count} × {kind}" for kind, count in kinds.items())
    machines = "1 machine" if found.machine_count == 1 else f"{found.machine_count} machines"
    parts: list[Any] = [f"{found.name}: {found.device_count} devices in {machines} ({said})"]
    links = found.bandwidth_bytes_per_s
    if isinstance(links, CountedLinks):
        table = new_table("Bandwidth between two devices", ["GB/s", "pairs"])
        for level, number in sorted(links.pairs().items(), reverse=True):
            table.add_row(f"{level / 1e9:.4g}", f"{number}")
        return [*parts, table, paragraphs("Notes", found.notes)]
    matrix = links / 1e9
    pairs = matrix[~np.eye(found.device_count, dtype=bool)]
    if pairs.size:
        levels, counts = np.unique(np.round(pairs, 9), return_counts=True)
        if len(levels) <= MOST_LEVELS:
            table = new_table("Bandwidth between two devices", ["GB/s", "pairs"])
            for level, number in zip(levels[::-1], counts[::-1], strict=True):
                table.add_row(f"{level:.4g}", f"{number}")
            parts.append(table)
        else:
            parts.append(
                f"Between two devices {pairs.min():.4g} to {pairs.max():.4g} GB/s, {np.median(pairs):.4g} in the middle"
            )
    if 1 < found.device_count <= MOST_DEVICES:
        table = new_table("GB/s from row to column", ["", *map(str, range(found.device_count))])
        for i, name in enumerate(found.names):
            table.add_row(name, *("-" if i == j else f"{value:.4g}" for j, value in enumerate(matrix[i])))
        parts.append(table)
    return [*parts, paragraphs("Notes", found.notes)]
