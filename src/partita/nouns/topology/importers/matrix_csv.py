"""A measured matrix: rows of numbers, with names of devices and a unit if wanted."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Sequence
from pathlib import PurePath

import numpy as np

from partita.ground.errors import InputError
from partita.nouns.topology.grammar import UNITS, Option, parse_count, parse_text, parse_unit
from partita.nouns.topology.importers.importer import TopologyImporter
from partita.nouns.topology.importers.text import TextFile
from partita.nouns.topology.topology import Topology, check_count, device_names

#: What stands for a device to itself.
_SELF = ("", "-", "x", "inf", "nan", "n/a", "self")


def recognises(source: TextFile) -> bool:
    """Whether it is called so, or its first lines have commas, semicolons or tabs between numbers."""
    if PurePath(source.path).suffix.lower() in (".csv", ".tsv"):
        return True
    first = [line for line in source.text.splitlines() if line.strip() and not line.startswith("#")][:2]
    return bool(first) and all(re.fullmatch(r"[\w./:+\- ]*([,;\t][\w./:+\- ]*)+", line) is not None for line in first)


def read(source: TextFile, device: str | None, machine: int | None, unit: str | None) -> Topology:
    """Devices with the matrix's bandwidths; the row is the sender. The diagonal is not read."""
    stated, rows = _rows(source)
    names, corner, rows = _names(source, rows)
    notes = []
    text = unit or stated or (corner if corner in UNITS else None)
    if text is None:
        notes.append(
            "The matrix states no unit: bytes per second are taken; write it in the first cell, or state unit=…."
        )
    scale = parse_unit(source.path, text) if text else 1.0
    count = len(rows)
    check_count(source.path, count)
    matrix = np.empty((count, count))
    for i, (line, cells) in enumerate(rows):
        if len(cells) != count:
            raise source.error(f"row {i + 1} has {len(cells)} numbers; there are {count} rows", line)
        for j, cell in enumerate(cells):
            matrix[i, j] = math.inf if i == j else _value(source, cell, line, names, i, j) * scale
    if names and len(names) != count:
        raise source.error(f"there are {len(names)} names and {count} rows")
    machine_of = _machines(source, names, count, machine)
    if machine is None and machine_of[-1] == 0:
        notes.append("All devices are taken as one machine; state machine=… or write names such as host1/gpu0.")
    found = Topology(
        name=source.path,
        names=tuple(names) or device_names(machine_of),
        bandwidth_bytes_per_s=matrix,
        machine_of=machine_of,
        notes=tuple(notes),
    )
    return found if device is None else found.with_device(device)


def _rows(source: TextFile) -> tuple[str | None, list[tuple[int, list[str]]]]:
    """The unit of a comment, and the lines with their cells."""
    unit, rows = None, []
    delimiter = max(",;\t", key=source.text.count)
    for number, line in enumerate(source.text.splitlines(), 1):
        if line.startswith("#"):
            match = re.fullmatch(r"#\s*(?:unit\s*[:=]\s*)?(\S+)\s*", line, re.IGNORECASE)
            unit = match[1] if match and match[1] in UNITS else unit
        elif line.strip():
            try:
                cells = next(csv.reader([line], delimiter=delimiter, strict=True))
            except csv.Error as error:
                raise source.error(f"it is not valid CSV: {error}", number) from None
            rows.append((number, [cell.strip() for cell in cells]))
    if not rows:
        raise source.error("it has no rows")
    return unit, rows


def _names(source: TextFile, rows: list[tuple[int, list[str]]]) -> tuple[list[str], str, list[tuple[int, list[str]]]]:
    """The names of the first row, its first cell if that is none, and the rows without names."""
    _, first = rows[0]
    numbered = first[1:] == [str(i) for i in range(len(first) - 1)] and all(
        cells[:1] == [str(i)] for i, (_, cells) in enumerate(rows[1:])
    )
    if all(_plain(cell) for cell in first) and not (numbered and len(rows) > 1):
        return [], "", rows
    body = rows[1:]
    if not body:
        raise source.error("it has names but no numbers", rows[0][0])
    if len(body[0][1]) != len(body) + 1:
        # Names above the columns only.
        return first, "", body
    names = first[1:] if len(first) == len(body) + 1 else first
    for name, (line, cells) in zip(names, body, strict=False):
        if cells[0] != name:
            raise source.error(f"the row is of {cells[0]!r}, but the column in its place of {name!r}", line)
    return names, first[0], [(line, cells[1:]) for line, cells in body]


def _plain(cell: str) -> bool:
    """Whether a cell is a number, or stands for a device to itself."""
    try:
        float(cell)
    except ValueError:
        return cell.lower() in _SELF
    return True


def _value(source: TextFile, cell: str, line: int, names: Sequence[str], i: int, j: int) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        ends = f"{names[i]} to {names[j]}" if len(names) > max(i, j) else f"device {i} to {j}"
        raise source.error(f"the bandwidth from {ends} is {cell!r}; it must be a positive number", line)
    return value


def _machines(source: TextFile, names: Sequence[str], count: int, machine: int | None) -> tuple[int, ...]:
    """The machine of every device: as stated, else what stands before the slash in its name."""
    if machine is not None:
        if count % machine:
            raise InputError(f"{source.path}: machines of {machine} devices do not fill {count}")
        return tuple(i // machine for i in range(count))
    hosts = [name.partition("/")[0] for name in names] if names and all("/" in name for name in names) else []
    if not hosts:
        return (0,) * count
    numbers = {host: i for i, host in enumerate(dict.fromkeys(hosts))}
    found = tuple(numbers[host] for host in hosts)
    if list(found) != sorted(found):
        host = next(hosts[i] for i in range(1, count) if found[i] < found[i - 1])
        raise source.error(f"the devices of {host} are not beside each other; sort rows and columns by machine")
    return found


MATRIX_CSV = TopologyImporter(
    name="matrix-csv",
    summary="a measured bandwidth matrix: rows of numbers, names and unit if wanted",
    recognises=recognises,
    read=read,
    example="GB/s,a/gpu0,a/gpu1,b/gpu0\na/gpu0,-,40.1,9.8\na/gpu1,40.0,-,9.7\nb/gpu0,9.6,9.9,-\n",
    options=(
        Option("machine", parse_count, "devices of a machine"),
        Option("unit", parse_text, "of the numbers, where the file does not say it"),
    ),
)
