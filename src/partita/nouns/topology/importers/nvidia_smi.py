"""The table that ``nvidia-smi topo -m`` prints, perhaps after the list of ``nvidia-smi -L``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from partita.nouns.topology.importers.importer import TopologyImporter
from partita.nouns.topology.importers.machine import MACHINE_OPTIONS, OneMachine, Rates, device_of_model, of_one_machine
from partita.nouns.topology.importers.text import TextFile
from partita.nouns.topology.topology import Link

#: The terminal's codes for underlining, which are in redirected output, too; copying may drop their first character.
_CODES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|\[\d{1,2}m")
_GLUED = re.compile(r"GPU\d+|NIC\d+|[a-z]+\d*_\w+")
_LISTED = re.compile(r"\s*GPU (\d+): (.+?) \(UUID: .*\)\s*")
_SLICE = re.compile(r"\s+MIG \S+\s+Device\s+\d+:.*")

#: Over PCIe inside one socket, from near to far, and over the link between sockets: SOC is what older drivers call it.
_NEAR = ("PIX", "PXB", "PHB", "NODE")
_FAR = ("SYS", "SOC")
_LABEL = re.compile(r"X|NV[1-9]\d?|" + "|".join(_NEAR + _FAR))

#: No GPU has more NVLinks: a row with more of them goes through an NVSwitch.
_MOST_NVLINKS = 18


def recognises(source: TextFile) -> bool:
    """Whether a line begins as the table's first or second line does."""
    text = _CODES.sub("", source.text)
    return re.search(r"^\s*GPU0(GPU1|\s+(GPU1|NIC\d|mlx\d_\d|CPU Affinity|X)\b)", text, re.MULTILINE) is not None


def read(source: TextFile, rates: Rates) -> OneMachine:
    """The machine of a table; labels become bandwidths by what the device, or an option, says of them."""
    lines = [_CODES.sub("", line) for line in source.text.splitlines()]
    columns, start = _header(source, lines)
    rows = _rows(source, lines, columns, start)
    gpus = [name for name in columns if name.startswith("GPU")]
    labels = _labels(source, columns, rows, gpus)
    models = {f"GPU{match[1]}": match[2] for line in lines if (match := _LISTED.fullmatch(line))}
    kinds = [device_of_model(models[name]) if name in models else None for name in gpus]
    notes = rates.notes
    alike = kinds[0] if len(set(kinds)) == 1 else None
    rates.device = rates.device or alike
    if any(_SLICE.fullmatch(line) for line in lines):
        notes.append(
            "Some GPUs are cut into MIG instances, which do not reach each other directly: whole GPUs are planned, and "
            "NVLinks are not used."
        )
        labels = [[label if not label.startswith("NV") else "PHB" for label in row] for row in labels]
    cards = len(columns) - len(gpus)
    if cards:
        notes.append(f"The machine has {cards} network cards; the file does not say how fast they are.")
    matrix = np.array([[_rate(label, rates) for label in row] for row in labels])
    links, switches = _links(labels, matrix)
    return OneMachine(names=[name.lower() for name in gpus], matrix=matrix, kinds=kinds, links=links, switches=switches)


def _header(source: TextFile, lines: Sequence[str]) -> tuple[list[str], int]:
    """The names of the columns, and the number of the line after them."""
    for number, line in enumerate(lines, 1):
        tokens = line.split()
        if not tokens or not re.fullmatch(r"GPU\d+.*", tokens[0]):
            continue
        if any(_LABEL.fullmatch(token) for token in tokens[1:2]):
            raise source.error("a row comes before the line with the names of the columns", number)
        names: list[str] = []
        for token in tokens:
            if token in ("CPU", "NUMA", "GPU"):
                break
            names += _GLUED.findall(token) if re.match(r"GPU\d+[A-Za-z]", token) else [token]
        twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
        if twice is not None:
            raise source.error(f"column {twice} is there twice", number)
        return names, number
    raise source.error("there is no table of nvidia-smi topo -m: no line names the columns GPU0, GPU1, …")


def _rows(
    source: TextFile, lines: Sequence[str], columns: Sequence[str], start: int
) -> dict[str, tuple[int, list[str]]]:
    """By name of a row its line and its cells."""
    rows: dict[str, tuple[int, list[str]]] = {}
    for number, line in enumerate(lines[start:], start + 1):
        name, *cells = line.split() or [""]
        if name not in columns:
            if re.fullmatch(r"GPU\d+", name):
                raise source.error(f"row {name} has no column of that name", number)
            if rows and name:
                break
            continue
        if name in rows:
            raise source.error(f"row {name} is there twice, first in line {rows[name][0]}", number)
        if len(cells) < len(columns):
            raise source.error(f"row {name} has {len(cells)} cells; there are {len(columns)} columns", number)
        rows[name] = number, cells[: len(columns)]
    return rows


def _labels(
    source: TextFile, columns: Sequence[str], rows: dict[str, tuple[int, list[str]]], gpus: Sequence[str]
) -> list[list[str]]:
    """What joins every two GPUs."""
    missing = next((name for name in gpus if name not in rows), None)
    if missing is not None:
        raise source.error(f"there is no row for {missing}; the table is cut off")
    for name in gpus:
        number, cells = rows[name]
        for column, label in zip(columns, cells, strict=True):
            if not _LABEL.fullmatch(label):
                known = ", ".join(("X", "NV1 …", *_NEAR, *_FAR))
                raise source.error(f"{name} to {column} is {label!r}; known are {known}", number)
            if (label == "X") != (column == name):
                raise source.error(f"{name} to {column} is {label!r}; only a device to itself is X", number)
    place = [columns.index(name) for name in gpus]
    labels = [[rows[name][1][i] for i in place] for name in gpus]
    for i, j in combinations(range(len(gpus)), 2):
        if labels[i][j] != labels[j][i]:
            raise source.error(
                f"{gpus[j]} to {gpus[i]} is {labels[j][i]}, but {gpus[i]} to {gpus[j]} is {labels[i][j]}",
                rows[gpus[j]][0],
            )
    return labels


def _rate(label: str, rates: Rates) -> float:
    """Bytes per second over what a label stands for."""
    if label == "X":
        return float("inf")
    if label.startswith("NV"):
        return int(label[2:]) * rates.of_nvlink()
    if label in _FAR:
        return min(rates.of_pcie(), rates.of_socket())
    return rates.of_pcie()


def _links(
    labels: list[list[str]], matrix: np.ndarray[tuple[int, int], np.dtype[np.float64]]
) -> tuple[list[Link], list[str]]:
    """NVLinks, to each other or to a switch; PCIe as one switch where it is used: its own are not in the table."""
    counts = [[int(label[2:]) if label.startswith("NV") else 0 for label in row] for row in labels]
    devices, links, switches = len(counts), [], []
    if max((sum(row) for row in counts), default=0) <= _MOST_NVLINKS:
        links = [Link(i, j, float(matrix[i, j])) for i, j in combinations(range(devices), 2) if counts[i][j]]
    else:
        switches.append("NVSwitch")
        for i, row in enumerate(counts):
            links += [Link(i, devices, max(float(matrix[i, j]) for j in range(devices) if row[j]))] if any(row) else []
    others = [(i, j) for i, j in combinations(range(devices), 2) if not counts[i][j]]
    if others:
        rate = max(float(matrix[i, j]) for i, j in others)
        links += [Link(i, devices + len(switches), rate) for i in range(devices)]
        switches.append("PCIe")
    return links, switches


NVIDIA_SMI = TopologyImporter(
    name="nvidia-smi",
    summary="what nvidia-smi topo -m prints, with nvidia-smi -L before it if wanted",
    recognises=recognises,
    read=of_one_machine(read),
    example="\tGPU0\tGPU1\tNIC0\tCPU Affinity\n"
    "GPU0\t X \tNV4\tPIX\t0-31\nGPU1\tNV4\t X \tSYS\t0-31\nNIC0\tPIX\tSYS\t X \n",
    options=MACHINE_OPTIONS,
)
