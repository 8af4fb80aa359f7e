"""Schedules as CSV files, as torch's pipelining reads and writes them: a row for each rank, a cell for each action."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, cast

from partita.documents.document import write_atomic
from partita.ground.errors import FormatError, InputError
from partita.ground.files import text_of
from partita.simulator.schedules.check import find_fault
from partita.simulator.schedules.protocol import Action, Letter, Schedule

_ACTION = re.compile(r"([0-9]{1,9})([FBIW])([0-9]{1,9})")
_PAIR = re.compile(r"\(([^()]*)\)OVERLAP_F_B")
_SKIPPED = re.compile(r"[0-9]{1,9}(?:UNSHARD|RESHARD|REDUCE_GRAD|SEND_F|RECV_F|SEND_B|RECV_B)[0-9]{0,9}")


class UserSchedule(Schedule):
    """A schedule that a file gives, for its own numbers of ranks, stages and microbatches only.

    Attributes
    ----------
    path
        The file.
    ranks, chunks, microbatches
        What it is for.
    """

    def __init__(self, path: str | Path, orders: list[list[Action]], rank_of: list[int], microbatches: int) -> None:
        letters = {action.letter for order in orders for action in order}
        self.path = Path(path)
        self.name = str(path)
        self.summary = f"read from {path}"
        self.training = letters != {"F"}
        self.splits_backward = bool(letters & {"I", "W"})
        self.ranks = len(orders)
        self.chunks = self.default_chunks = len(rank_of) // len(orders)
        self.microbatches = microbatches
        self._orders = orders
        self._rank_of = rank_of

    def refusal(self, ranks: int, chunks: int, microbatches: int) -> str | None:
        """It needs the numbers of the file."""
        if (ranks, chunks, microbatches) == (self.ranks, self.chunks, self.microbatches):
            return None
        return (
            f"schedule {self.path} is for {self.ranks} ranks, {self.chunks} stages on each and {self.microbatches} "
            f"microbatches, not for {ranks}, {chunks} and {microbatches}; use its numbers or another schedule"
        )

    def rank_of(self, ranks: int, chunks: int) -> list[int]:
        """As in the file."""
        return list(self._rank_of)

    def orders(self, ranks: int, chunks: int, microbatches: int) -> list[list[Action]]:
        """As in the file."""
        return [list(order) for order in self._orders]


class _Cell(NamedTuple):
    """An action with the column that it stands in, counted from 1."""

    column: int
    action: Action


def read_schedule(path: str | Path) -> UserSchedule:
    """Read a schedule from a file in torch's compute-only or compute-and-communication format.

    An ``OVERLAP_F_B`` cell is its actions one after the other. Cells that move data, gather weights or add up gradients
    are left out: what a schedule moves follows from where its stages are.

    Raises ``FormatError`` if the file is empty, is no text, or has a cell that is no action; ``InputError`` if it
    cannot be read; if a rank or stage has no actions, a stage is on two ranks, or ranks have different numbers of
    stages; or if the schedule is not complete or cannot run, as ``check_orders`` says. What is wrong is named with
    file, row and column.
    """
    rows = [list(_cells(row, f"{path}, row {number}")) for number, row in enumerate(_rows(path), 1)]
    for number, cells in enumerate(rows, 1):
        if not cells:
            raise InputError(f"{path}, row {number}: rank {number - 1} has no actions; add some or take out the row")
    rank_of = _placement(path, rows)
    orders = [[cell.action for cell in cells] for cells in rows]
    letters = {action.letter for order in orders for action in order}
    if fault := find_fault(orders, rank_of, training=letters != {"F"}):
        cells = rows[fault.rank]
        column = cells[fault.place].column if fault.place < len(cells) else cells[-1].column + 1
        raise InputError(f"{path}, row {fault.rank + 1}, column {column} (rank {fault.rank}): {fault.text}")
    return UserSchedule(path, orders, rank_of, 1 + max(action.microbatch for order in orders for action in order))


def _rows(path: str | Path) -> list[list[str]]:
    """The rows of a file."""
    text = text_of(path)
    try:
        rows = list(csv.reader(io.StringIO(text, newline="")))
    except csv.Error as error:
        raise FormatError(f"{path} is not a CSV file: {error}; it should have cells such as 0F0") from None
    if not text.strip():
        raise FormatError(f"{path} is empty; it should have a row for each rank, with cells such as 0F0")
    while not rows[-1]:
        rows.pop()
    return rows


def _cells(row: list[str], place: str) -> list[_Cell]:
    """The actions of a row."""
    cells: list[_Cell] = []
    for column, cell in enumerate(row, 1):
        text = cell.strip()
        pair = _PAIR.fullmatch(text)
        for part in pair[1].split(";") if pair else [text] if text else []:
            if match := _ACTION.fullmatch(part.strip()):
                cells.append(_Cell(column, Action(int(match[1]), cast("Letter", match[2]), int(match[3]))))
            elif pair or not _SKIPPED.fullmatch(part):
                raise FormatError(
                    f"{place}, column {column}: {text!r} is no action; write stage, letter (F, B, I or W) and "
                    "microbatch, as in 0F0, or two such as in (0F1;1B0)OVERLAP_F_B, or leave the cell empty"
                )
    return cells


def _placement(path: str | Path, rows: list[list[_Cell]]) -> list[int]:
    """The rank of every stage."""
    found: dict[int, tuple[int, int]] = {}
    for rank, cells in enumerate(rows):
        for column, action in cells:
            first, where = found.setdefault(action.stage, (rank, column))
            if first != rank:
                raise InputError(
                    f"{path}, row {rank + 1}, column {column} (rank {rank}): {action} is of a stage of rank {first} "
                    f"(row {first + 1}, column {where}); leave every stage on one rank"
                )
    last = max(found)
    if len(found) <= last:
        stage = next(stage for stage in range(last) if stage not in found)
        rank, column = found[last]
        raise InputError(
            f"{path}, row {rank + 1}, column {column} (rank {rank}): there is a stage {last}, and no row has an action "
            f"of stage {stage}; number the stages 0, 1, … without a gap"
        )
    rank_of = [found[stage][0] for stage in range(last + 1)]
    for rank in range(len(rows)):
        if rank_of.count(rank) != rank_of.count(0):
            raise InputError(
                f"{path}, row {rank + 1}, column 1 (rank {rank}): there are {rank_of.count(rank)} stages on it, and "
                f"{rank_of.count(0)} on rank 0; give all ranks the same number of stages"
            )
    return rank_of


def write_schedule(path: str | Path, orders: Sequence[Sequence[Action]]) -> None:
    """Write what every rank does, in order, in torch's compute-only format; the file is replaced in one go.

    Raises ``InputError`` if the file cannot be written.
    """
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(orders)
    write_atomic(path, text.getvalue().encode())
