"""Schedules from CSV files: what torch writes is read, what is written torch reads, and what is wrong is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from partita.ground.errors import FormatError, InputError
from partita.simulator.schedules import DEFAULT_SCHEDULES, find_schedule
from partita.simulator.schedules.csv import UserSchedule, read_schedule, write_schedule
from partita.simulator.schedules.protocol import Action

GOOD = """\
0F0,0F1,,3F0,3I0,(3F1;0B0)OVERLAP_F_B,3W0,3B1,0B1
1F0,2F0,1F1,2F1,2B0,1B0,2B1,1B1
"""

#: What is wrong in a file, and where.
WRONG = {
    "empty": ("", "is empty; it should have a row for each rank"),
    "blank": (" \n\n", "is empty"),
    "no such letter": (
        "0F0,0X0\n",
        "row 1, column 2: '0X0' is no action; write stage, letter (F, B, I or W) and microbatch",
    ),
    "no microbatch": ("0F,0B0\n", "row 1, column 1: '0F' is no action"),
    "more after it": ("0F0 0B0\n", "row 1, column 1: '0F0 0B0' is no action"),
    "other digits": ("0F٣\n", "row 1, column 1: '0F٣' is no action"),
    "bad pair": ("0F0\n1F0,(1F1;x)OVERLAP_F_B\n", "row 2, column 2: '(1F1;x)OVERLAP_F_B' is no action"),
    "pair that moves": ("0F0,(0F1;0SEND_F0)OVERLAP_F_B\n", "row 1, column 2: '(0F1;0SEND_F0)OVERLAP_F_B' is no action"),
    "unknown pair": ("(0F1;0B0)OVERLAP\n", "row 1, column 1: '(0F1;0B0)OVERLAP' is no action"),
    "rank without actions": ("0F0,0B0\n\n1F0,1B0\n", "row 2: rank 1 has no actions; add some or take out the row"),
    "rank with empty cells": ("0F0,0B0\n,,\n", "row 2: rank 1 has no actions"),
    "rank that only moves": ("0F0,0B0\n0SEND_F0\n", "row 2: rank 1 has no actions"),
    "stage missing": (
        "0F0,0B0\n,2F0,2B0\n",
        "row 2, column 2 (rank 1): there is a stage 2, and no row has an action of stage 1",
    ),
    "huge stage": ("0F0,999999999F0\n", "row 1, column 2 (rank 0): there is a stage 999999999, and no row"),
    "stage on two ranks": (
        "0F0,1F0,1B0\n,0B0\n",
        "row 2, column 2 (rank 1): 0B0 is of a stage of rank 0 (row 1, column 1); leave every stage on one rank",
    ),
    "ranks with different stages": (
        "0F0,2F0,2B0,0B0\n1F0,1B0\n",
        "row 2, column 1 (rank 1): there are 1 stages on it, and 2 on rank 0; give all ranks the same number",
    ),
    "microbatch missing": (
        "0F0,0F2,0B0,0B2\n1F0,1B0,1F2,1B2\n",
        "row 1, column 5 (rank 0): 0F1 is missing: the order of 4 actions ends without it",
    ),
    "microbatch missing on a rank": ("0F0,0F1,0B0,0B1\n1F0,1B0,,\n", "row 2, column 3 (rank 1): 1F1 is missing"),
    "backward missing": ("0F0,,0F1,0B0\n", "row 1, column 3 (rank 0): 0F1 has no backward action"),
    "twice": ("0F0,,0F0,0B0\n", "row 1, column 3 (rank 0): 0F0 is there for the second time; leave it out"),
    "backward first": (",0B0,0F0\n", "row 1, column 2 (rank 0): 0B0 waits for 0F0, which comes later on the same rank"),
    "deadlock": (
        "0F0,,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n",
        "row 1, column 3 (rank 0): 0B0 waits for 1B0 of rank 1; rank 1 is at 1F1, which waits for 0F1 of rank 0",
    ),
}


def write(folder: Path, text: str) -> Path:
    """A file with this text."""
    path = folder / "own.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_is_a_schedule(tmp_path: Path) -> None:
    """With its own numbers, placement and orders; pairs are one after the other, and bubbles nothing."""
    path = write(tmp_path, GOOD)
    schedule = find_schedule(str(path))
    assert isinstance(schedule, UserSchedule)
    assert (schedule.name, schedule.path, schedule.summary) == (str(path), path, f"read from {path}")
    assert (schedule.ranks, schedule.chunks, schedule.microbatches, schedule.default_chunks) == (2, 2, 2, 2)
    assert (schedule.training, schedule.flush, schedule.splits_backward) == (True, True, True)
    assert schedule.refusal(2, 2, 2) is None
    assert schedule.rank_of(2, 2) == [0, 1, 1, 0]
    orders = schedule.orders(2, 2, 2)
    assert [" ".join(map(str, order)) for order in orders] == [
        "0F0 0F1 3F0 3I0 3F1 0B0 3W0 3B1 0B1",
        "1F0 2F0 1F1 2F1 2B0 1B0 2B1 1B1",
    ]
    assert schedule.in_flight(0, 2, 2, 2) is None
    orders[0].clear()
    assert schedule.orders(2, 2, 2)[0]


@pytest.mark.parametrize("numbers", [(3, 2, 2), (2, 1, 2), (2, 2, 4)])
def test_other_numbers_are_refused(tmp_path: Path, numbers: tuple[int, int, int]) -> None:
    """Those of the file are named."""
    path = write(tmp_path, GOOD)
    refusal = read_schedule(path).refusal(*numbers)
    assert refusal is not None
    assert f"schedule {path} is for 2 ranks, 2 stages on each and 2 microbatches, not for {numbers[0]}, " in refusal


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_named(tmp_path: Path, case: str) -> None:
    """File, row, column and value, in one line with a remedy."""
    text, message = WRONG[case]
    path = write(tmp_path, text)
    with pytest.raises(InputError) as caught:
        read_schedule(path)
    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, FormatError) == any(said in message for said in ("is empty", "is no action"))


def test_files_that_are_none(tmp_path: Path) -> None:
    """Missing, a folder, no text."""
    with pytest.raises(InputError, match=r"own\.csv: there is no such file"):
        find_schedule(str(tmp_path / "own.csv"))
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InputError, match=r"folder\.csv is a folder; name a file"):
        find_schedule(str(tmp_path / "folder.csv"))
    (tmp_path / "own.csv").write_bytes(b"\xff\xfe0F0")
    with pytest.raises(FormatError, match=r"own\.csv is not text in UTF-8"):
        find_schedule(str(tmp_path / "own.csv"))
    (tmp_path / "own.csv").write_text("0F0," + "0" * 200_000)
    with pytest.raises(FormatError, match=r"own\.csv is not a CSV file: field larger"):
        find_schedule(str(tmp_path / "own.csv"))


def test_how_spreadsheets_write(tmp_path: Path) -> None:
    """A mark of the byte order, CRLF, quotes, spaces, and blank lines at the end change nothing."""
    path = write(tmp_path, '\ufeff"0F0", 0B0 ,\r\n1F0,"1B0"\r\n\r\n\r\n')
    assert read_schedule(path).orders(2, 1, 1) == [
        [Action(0, "F", 0), Action(0, "B", 0)],
        [Action(1, "F", 0), Action(1, "B", 0)],
    ]


def test_forward_only(tmp_path: Path) -> None:
    """A file without a backward action does not train."""
    schedule = read_schedule(write(tmp_path, "0F0,0F1\n1F0,1F1\n"))
    assert (schedule.training, schedule.splits_backward) == (False, False)


def test_written_schedules_are_read(tmp_path: Path) -> None:
    """All of the list, action by action; no other file is left."""
    count = 0
    for schedule in DEFAULT_SCHEDULES:
        chunks = schedule.default_chunks
        orders = schedule.orders(4, chunks, 8)
        write_schedule(tmp_path / "own.csv", orders)
        again = read_schedule(tmp_path / "own.csv")
        assert again.orders(4, chunks, 8) == orders
        assert again.rank_of(4, chunks) == schedule.rank_of(4, chunks)
        assert (again.training, again.splits_backward) == (schedule.training, schedule.splits_backward)
        count += 1
    assert count == 11
    assert [path.name for path in tmp_path.iterdir()] == ["own.csv"]


def test_what_cannot_be_written(tmp_path: Path) -> None:
    """A folder is named."""
    with pytest.raises(InputError, match="is a folder"):
        write_schedule(tmp_path, [[Action(0, "F", 0)]])


def test_torch_writes_and_partita_reads(tmp_path: Path) -> None:
    """Both formats of torch, of all its schedules with several stages on a rank."""
    reason = "torch is not installed"
    torch_schedules = pytest.importorskip("models.torch_schedules", reason=reason, exc_type=ImportError)
    compared = 0
    for name in torch_schedules.MULTI:
        for ranks, microbatches in ((1, 2), (2, 4), (4, 8), (3, 9)):
            theirs = torch_schedules.make(name, ranks, 2, microbatches)
            ours = find_schedule(name)
            for form in ("compute_only", "compute_comms"):
                path = tmp_path / f"{name}-{form}.csv"
                theirs._dump_csv(path, format=form)
                read = read_schedule(path)
                assert read.orders(ranks, 2, microbatches) == ours.orders(ranks, 2, microbatches)
                assert read.rank_of(ranks, 2) == ours.rank_of(ranks, 2)
                assert read.refusal(ranks, 2, microbatches) is None
                compared += 1
    assert compared == 40
    assert "OVERLAP_F_B" in (tmp_path / "dualpipe-v-compute_only.csv").read_text()
    assert "SEND_B" in (tmp_path / "dualpipe-v-compute_comms.csv").read_text()


def test_partita_writes_and_torch_reads(tmp_path: Path) -> None:
    """Torch's runtime loads what is written, and places the stages on the same ranks."""
    reason = "torch is not installed"
    torch_schedules = pytest.importorskip("models.torch_schedules", reason=reason, exc_type=ImportError)
    compared = 0
    for schedule in DEFAULT_SCHEDULES:
        if not schedule.training:
            continue
        for ranks, microbatches in ((1, 2), (2, 4), (4, 8), (3, 9)):
            chunks = schedule.default_chunks
            orders = schedule.orders(ranks, chunks, microbatches)
            write_schedule(tmp_path / "own.csv", orders)
            runtime = torch_schedules.make("_PipelineScheduleRuntime", ranks, chunks, microbatches)
            runtime._load_csv(tmp_path / "own.csv")
            assert [torch_schedules.plain(runtime.pipeline_order[rank]) for rank in range(ranks)] == orders
            placed = runtime.stage_index_to_group_rank
            assert [placed[stage] for stage in range(ranks * chunks)] == schedule.rank_of(ranks, chunks)
            compared += 1
    assert compared == 40
