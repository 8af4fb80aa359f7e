"""Measured times: a user's table that overrides what another cost source says.

A table is rows of patterns and a value; the first row that matches an operator on a device decides. In TOML::

    [[times]]
    device = "A100-80GB"        # optional patterns, shell style; a missing one matches everything
    target = "aten.mm.*"
    module = "lm_head"
    phase = "forward"
    time_s = 1.2e-3             # or factor = 1.5 (times what the other source says), or runs = false

JSON holds the same, ``{"times": [{…}]}``; CSV has the keys as its header, and empty cells are missing keys.
"""

from __future__ import annotations

import csv
import fnmatch
import io
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from partita.costs.profile import Measured, Profile, read_profile
from partita.costs.roofline import CostSource, Roofline
from partita.ground.checks import check_fields
from partita.ground.errors import FormatError, InputError
from partita.ground.files import text_of
from partita.nouns.catalogue.files import check_keys, converted, read_document
from partita.nouns.catalogue.specs import DeviceSpec
from partita.nouns.graph import Graph

_WILD = re.compile(r"[*?\[]")


class CostRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One row: what it matches, and exactly one of a time, a factor, or ``runs`` false.

    Raises ``InputError`` if not exactly one value is stated, or it is negative or not finite.
    """

    #: Shell-style patterns, case sensitive, for the device's name and the operator's fields.
    device: str = "*"
    name: str = "*"
    target: str = "*"
    module: str = "*"
    phase: str = "*"
    time_s: float | None = None  #: Seconds per microbatch.
    factor: float | None = None  #: Times what the other source says.
    runs: bool = True  #: False: the operator cannot run there.

    def __post_init__(self) -> None:
        if (self.time_s is not None) + (self.factor is not None) + (not self.runs) != 1:
            raise InputError("a row of times states exactly one of time_s, factor and runs = false")
        check_fields("a row of times", self, "time_s", "factor")


@dataclass(frozen=True)
class CostTable:
    """Rows over another source, the roofline unless stated: the first row that matches decides."""

    rows: tuple[CostRow, ...]
    otherwise: CostSource = field(default_factory=Roofline)
    source: str = "a table"  #: The file, for notes.

    def operator_times(self, graph: Graph, device: DeviceSpec) -> list[float | None]:
        rows = [row for row in self.rows if fnmatch.fnmatchcase(device.name, row.device)]
        # Tables of measurements name every operator: rows with a plain name are looked up, only patterns are tried.
        by_name: dict[str, list[int]] = {}
        patterns: list[int] = []
        for place, row in enumerate(rows):
            if _WILD.search(row.name):
                patterns.append(place)
            else:
                by_name.setdefault(row.name, []).append(place)
        tests = [_tests(row) for row in rows]
        times = list(self.otherwise.operator_times(graph, device))
        for index, op in enumerate(graph.operators):
            places = sorted([*patterns, *by_name[op.name]]) if op.name in by_name else patterns
            for place in places:
                if all(pattern.match(getattr(op, key)) for key, pattern in tests[place]):
                    times[index] = _apply(rows[place], times[index])
                    break
        return times

    def notes(self, graph: Graph) -> list[str]:
        return [
            f"Operator times are overridden by {len(self.rows)} rows of {self.source}.",
            *self.otherwise.notes(graph),
        ]


def cost_source(stated: CostSource | str | None) -> CostSource | None:
    """A source as it is, or the table or profile that a path names."""
    if not isinstance(stated, str):
        return stated
    if Path(stated).suffix.lower() == ".json" and read_document(Path(stated)).get("format") == Profile.format:
        return Measured(read_profile(stated), source=stated)
    return read_cost_table(stated)


def read_cost_table(path: str | Path) -> CostTable:
    """Read a table of times, TOML, JSON or CSV (by suffix).

    Raises ``FormatError`` if the file is not one of them, a key is unknown, or a value has the wrong type;
    ``InputError`` if it cannot be read or a value is out of range.
    """
    path = Path(path)
    tables = _csv_rows(path) if path.suffix.lower() == ".csv" else _document_rows(path)
    valid = [f.name for f in msgspec.structs.fields(CostRow)]
    rows = []
    for number, table in enumerate(tables, start=1):
        where = f"{path}: row {number} of times"
        check_keys(where, table, valid)
        rows.append(converted(where, table, CostRow, strict=False))
    return CostTable(tuple(rows), Roofline(), path.name)


def _document_rows(path: Path) -> list[Mapping[str, Any]]:
    data = read_document(path)
    rows = data.pop("times", None)
    if data:
        raise FormatError(f"{path}: unknown key {next(iter(data))!r}; the only key is times")
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise FormatError(f"{path}: times must be a list of tables")
    return rows


def _csv_rows(path: Path) -> list[Mapping[str, Any]]:
    try:
        found = list(csv.DictReader(io.StringIO(text_of(path), newline="")))
    except csv.Error as error:
        raise FormatError(f"{path} is not a table in CSV: {error}") from None
    rows: list[Mapping[str, Any]] = []
    for number, row in enumerate(found, start=1):
        # DictReader puts cells beyond the header under None and fills missing ones with None.
        if None in row:
            raise FormatError(f"{path}: row {number} has more cells than the header")
        rows.append({key.strip(): cell.strip() for key, cell in row.items() if cell is not None and cell.strip()})
    return rows


def _tests(row: CostRow) -> list[tuple[str, re.Pattern[str]]]:
    return [
        (key, re.compile(fnmatch.translate(pattern)))
        for key, pattern in (("name", row.name), ("target", row.target), ("module", row.module), ("phase", row.phase))
        if pattern != "*"
    ]


def _apply(row: CostRow, time: float | None) -> float | None:
    if not row.runs:
        return None
    if row.factor is not None:
        return None if time is None else time * row.factor
    return row.time_s
