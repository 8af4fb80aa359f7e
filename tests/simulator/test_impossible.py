"""What can never run is refused: with what waits for what, and what would do."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from instances.pipelines import equal_stages
from partita.ground.errors import FormatError, InputError
from partita.simulator.pipeline import Pipeline
from partita.simulator.program import End, Order, Place, Program, Step
from partita.simulator.schedules import find_schedule
from partita.simulator.schedules.protocol import Action, Schedule
from partita.simulator.simulate import simulate
from partita.simulator.stages import staged_program
from partita.simulator.timeline import FORWARD


class Given(Schedule):
    """A schedule of orders that somebody gives; texts such as ``0F0 0B0``."""

    name = "given"
    summary = "as given"

    def __init__(self, *rows: str) -> None:
        self.rows = rows

    def orders(self, ranks: int, chunks: int, microbatches: int) -> list[list[Action]]:
        return [[Action(int(word[0]), word[1], int(word[2])) for word in row.split()] for row in self.rows]  # type: ignore[arg-type]


def pipeline(stages: int, **changes: object) -> Pipeline:
    """Equal stages for training."""
    return equal_stages(stages, 1.0, 2.0, **changes)  # type: ignore[arg-type]


# -- orders that wait for each other -----------------------------------------------------------------------------------

GIVEN = {
    "each for the other": (
        ("0F0 0B0 0F1 0B1", "1F0 1F1 1B0 1B1"),
        "rank 0, action 2: 0B0 waits for 1B0 of rank 1; rank 1 is at 1F1, which waits for 0F1 of rank 0",
    ),
    "for what comes later": (("0B0 0F0 0F1 0B1", "1F0 1F1 1B0 1B1"), "rank 0, action 1: 0B0 waits for 0F0, which"),
    "backward missing": (
        ("0F0 0F1 0B0", "1F0 1B0 1F1 1B1"),
        "rank 0, action 2: 0F1 has no backward action: the order ends without it; add it",
    ),
    "forward missing": (("0F0 0F1 0B0 0B1", "1F0 1B0"), "rank 1, action 3: 1F1 is missing: the order of 2 actions"),
    "another stage": (("0F0 0F1 0B0 0B1 2F0", "1F0 1B0 1F1 1B1"), "rank 0, action 5: 2F0 is of stage 2, and"),
    "another rank's": (("0F0 1F0 0F1 0B0 0B1", "1B0 1F1 1B1"), "rank 0, action 2: 1F0 is of a stage of rank 1; put it"),
    "one microbatch too many": (
        ("0F0 0F1 0F2 0B0 0B1", "1F0 1B0 1F1 1B1"),
        "rank 0, action 3: 0F2 is not of one of the 2 microbatches; leave it out",
    ),
    "twice": (("0F0 0F1 0B0 0B1 0B0", "1F0 1B0 1F1 1B1"), "rank 0, action 5: 0B0 is there for the second time"),
}


@pytest.mark.parametrize(("rows", "says"), GIVEN.values(), ids=GIVEN)
def test_orders_that_cannot_run_are_refused(rows: tuple[str, ...], says: str) -> None:
    """Before anything runs, with the first action that cannot."""
    with pytest.raises(InputError, match=re.escape(says)):
        staged_program(pipeline(2), Given(*rows), 2)
    # It is the orders that are refused.
    good = Given("0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1")
    assert simulate(staged_program(pipeline(2), good, 2)).step_time == (2 + 2 - 1) * 3.0


def test_windows_that_do_not_nest_are_refused() -> None:
    """The second of two ranks wants to hold two microbatches, the first gives it one at a time: neither can go on."""
    row = pipeline(2)
    first, second = row.stages
    row = replace(row, stages=(replace(first, in_flight=1), replace(second, in_flight=2)))
    # Rank 0: F0 B0 F1 …; rank 1: F0 F1 B0 …, whose F1 waits for what waits for its B0.
    with pytest.raises(InputError, match=r"equal cannot run under schedule 1f1b: the forward of stage 0 .* waits for"):
        simulate(staged_program(row, find_schedule("1f1b"), 4))
    # With one each they take turns: 4 · (1 + 1 + 2 + 2).
    row = replace(row, stages=(row.stages[0], replace(second, in_flight=1)))
    assert simulate(staged_program(row, find_schedule("1f1b"), 4)).step_time == 24.0


def by_hand(orders: tuple[str, ...], edges: list[tuple[int, int]]) -> Program:
    """A step on each of two devices, and what each does of microbatches 0 and 1: ``01`` in this order."""
    return Program(
        name="by hand",
        unit="ms",
        places=[Place(f"place {k}", ((f"device:{k}",),)) for k in range(2)],
        steps=[Step(k, k, "F", FORWARD, 1.0) for k in range(2)],
        edges=edges,
        orders=[
            Order(k, 0, np.full(len(row), k), np.array([int(letter) for letter in row])) for k, row in enumerate(orders)
        ],
        microbatches=2,
    )


def test_programs_that_wait_for_themselves_are_refused() -> None:
    """Steps in a circle, whatever their orders; the name of the program and of what is stuck are said."""
    assert simulate(by_hand(("01", "01"), [(0, 1)])).step_time == 3.0
    # The second takes 1 first, which the first does last: 2 + 1 + 1.
    assert simulate(by_hand(("01", "10"), [(0, 1)])).step_time == 4.0
    with pytest.raises(InputError, match=r"by hand cannot run .*: the forward of stage 0 for microbatch 0 at place 0"):
        simulate(by_hand(("01", "01"), [(0, 1), (1, 0)]))


def test_two_orders_that_wait_for_each_other() -> None:
    """Each device first does what the other has to do before: no edge alone is in a circle."""
    program = by_hand(("01", "01"), [])
    steps = [*program.steps, *(Step(k, 2 + k, "F", FORWARD, 1.0) for k in range(2))]
    # Place 0 has steps 0 and 2, place 1 has 1 and 3; 3 comes before 0, and 2 before 1, but both are second.
    orders = [Order(k, 0, np.array([k, k + 2]), np.array([0, 0])) for k in range(2)]
    stuck = replace(program, steps=steps, edges=[(3, 0), (2, 1)], orders=orders, microbatches=1)
    with pytest.raises(InputError, match=r"cannot run under schedule forward: the forward of stage [01] for"):
        simulate(stuck)
    turned = [Order(k, 0, np.array([k + 2, k]), np.array([0, 0])) for k in range(2)]
    assert simulate(replace(stuck, orders=turned)).step_time == 2.0


def test_too_few_microbatches_for_two_versions_of_the_weights() -> None:
    """2BW with one a batch on four ranks: the third batch waits for the first one, and that for the fourth."""
    row = pipeline(4, end=End(update=1.0))
    with pytest.raises(InputError, match="2bw"):
        simulate(staged_program(row, find_schedule("2bw"), 1))


def test_too_few_microbatches_for_two_versions_are_refused_with_a_remedy() -> None:
    """As the schedule itself says: 4 or more microbatches."""
    row = pipeline(4, end=End(update=1.0))
    with pytest.raises(InputError, match="use 4 or more microbatches"):
        staged_program(row, find_schedule("2bw"), 1)


# -- schedules from files ----------------------------------------------------------------------------------------------

FILES = {
    "backward missing": (
        "0F0,0F1,0B0\n1F0,1B0,1F1,1B1\n",
        "row 1, column 2 (rank 0): 0F1 has no backward action: the order ends without it; add it",
    ),
    "unknown stage": (
        "0F0,0F1,0B0,0B1,3F0\n1F0,1B0,1F1,1B1\n",
        "row 1, column 5 (rank 0): there is a stage 3, and no row has an action of stage 2",
    ),
    "stage of another rank": (
        "0F0,0F1,0B0,0B1,1F0\n1F0,1B0,1F1,1B1\n",
        "row 2, column 1 (rank 1): 1F0 is of a stage of rank 0 (row 1, column 5)",
    ),
    "truncated row": (
        "0F0,0F1,0B0,0B1\n1F0,1B0\n",
        "row 2, column 3 (rank 1): 1F1 is missing: the order of 2 actions ends without it",
    ),
    "truncated in its backward part": (
        "0F0,0F1,0B0,0B1\n1F0,1F1,1B0\n",
        "row 2, column 2 (rank 1): 1F1 has no backward action",
    ),
    "truncated split backward": ("0F0,0I0\n1F0,1I0,1W0\n", "row 1, column 2 (rank 0): 0I0 has no W"),
    "deadlock": (
        "0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n",
        "row 1, column 2 (rank 0): 0B0 waits for 1B0 of rank 1; rank 1 is at 1F1, which waits for 0F1 of rank 0",
    ),
    "backward before forward": (
        "0F0,0B1,0F1,0B0\n1F0,1B0,1F1,1B1\n",
        "row 1, column 2 (rank 0): 0B1 waits for 0F1, which comes later on the same rank, as action 3; put it before",
    ),
}


@pytest.mark.parametrize(("text", "says"), FILES.values(), ids=FILES)
def test_files_that_cannot_run_name_the_first_action(tmp_path: Path, text: str, says: str) -> None:
    """With file, row and column, when the schedule is found: there is no program of it."""
    path = tmp_path / "mine.csv"
    path.write_text(text)
    with pytest.raises(InputError) as refused:
        staged_program(pipeline(2), find_schedule(str(path)), 2)
    assert str(refused.value).startswith(f"{path}, {says}")


def test_a_file_that_can_run_runs(tmp_path: Path) -> None:
    """1F1B on two ranks with two microbatches: (2 + 2 − 1) · (1 + 2); GPipe's order of the same takes as long."""
    path = tmp_path / "mine.csv"
    for text in ("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n", "0F0,0F1,0B0,0B1\n1F0,1F1,1B0,1B1\n"):
        path.write_text(text)
        assert simulate(staged_program(pipeline(2), find_schedule(str(path)), 2)).step_time == 9.0


@pytest.fixture
def two_by_two(tmp_path: Path) -> Schedule:
    """A file for two ranks with a stage each, and two microbatches."""
    path = tmp_path / "mine.csv"
    path.write_text("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n")
    return find_schedule(str(path))


@pytest.mark.parametrize(
    ("ranks", "microbatches", "chunks", "told"),
    [(3, 2, None, "3, 1 and 2"), (2, 4, None, "2, 1 and 4"), (1, 1, None, "1, 1 and 1"), (2, 2, 2, "2, 2 and 2")],
)
def test_a_file_for_another_pipeline_is_refused(
    two_by_two: Schedule, ranks: int, microbatches: int, chunks: int | None, told: str
) -> None:
    """With the numbers of both, and what to do."""
    says = (
        f"equal: schedule {two_by_two.name} is for 2 ranks, 1 stages on each and 2 microbatches, not for {told}; "
        "use its numbers or another schedule"
    )
    with pytest.raises(InputError, match=re.escape(says)):
        staged_program(pipeline(ranks), two_by_two, microbatches, chunks=chunks)


def test_a_file_is_for_each_column_of_replicas(two_by_two: Schedule) -> None:
    """Two replicas of every stage have two microbatches each, four in all."""
    assert simulate(staged_program(pipeline(2, replicas=2), two_by_two, 4)).step_time == 9.0
    with pytest.raises(InputError, match="gives each of 2 replicas as many microbatches, but there are 3; take a mult"):
        staged_program(pipeline(2, replicas=2), two_by_two, 3)


def test_a_file_for_inference_does_not_train(tmp_path: Path, two_by_two: Schedule) -> None:
    """And one for training does not infer."""
    path = tmp_path / "forward.csv"
    path.write_text("0F0,0F1\n1F0,1F1\n")
    with pytest.raises(InputError, match="is for inference, and there is backward work"):
        staged_program(pipeline(2), find_schedule(str(path)), 2)
    with pytest.raises(InputError, match="is for training; use --schedule forward"):
        staged_program(equal_stages(2, 1.0), two_by_two, 2)
    assert simulate(staged_program(equal_stages(2, 1.0), find_schedule(str(path)), 2)).step_time == 3.0


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    """With the path, and what is expected."""
    with pytest.raises(InputError, match="there is no such file"):
        find_schedule(str(tmp_path / "none.csv"))
    path = tmp_path / "mine.csv"
    path.write_text("0F0,0X0\n")
    with pytest.raises(FormatError, match=r"row 1, column 2: '0X0' is no action; write stage, letter"):
        find_schedule(str(path))


# -- numbers that do not fit -------------------------------------------------------------------------------------------

NUMBERS = {
    "interleaved in unequal rounds": ("interleaved", 2, 7, None, "use 6 or 8 microbatches, or a multiple of the ranks"),
    "a V with one stage": ("zero-bubble-v", 2, 4, 1, "has two stages on each rank; set chunks to 2"),
    "too few for pairs": ("dualpipe-v", 2, 3, None, "use 4 or more microbatches, or schedule zero-bubble-v"),
    "chunks of 1F1B": ("1f1b", 2, 4, 2, "has one stage on each rank; leave chunks at 1"),
    "chunks of zero bubble": ("zero-bubble", 2, 4, 3, "has one stage on each rank; leave chunks at 1"),
}


@pytest.mark.parametrize(("schedule", "ranks", "microbatches", "chunks", "says"), NUMBERS.values(), ids=NUMBERS)
def test_numbers_that_a_schedule_does_not_take(
    schedule: str, ranks: int, microbatches: int, chunks: int | None, says: str
) -> None:
    """With those that it takes."""
    with pytest.raises(InputError, match=rf"equal: schedule {schedule} .*{says}"):
        staged_program(pipeline(ranks), find_schedule(schedule), microbatches, chunks=chunks)


def test_unequal_replicas() -> None:
    """Schedules in turns take them, others say which do."""
    row = pipeline(2)
    wide = replace(row.stages[1], replicas=(("device:1",), ("device:2",)))
    row = replace(row, stages=(row.stages[0], wide))
    for schedule in ("zero-bubble", "interleaved", "looped-bfs"):
        with pytest.raises(InputError, match=r"as many replicas of every stage, here are 1, 2; use one of forward,"):
            staged_program(row, find_schedule(schedule), 4)
    for schedule in ("gpipe", "1f1b", "pipedream", "2bw"):
        assert simulate(staged_program(row, find_schedule(schedule), 4)).step_time >= 4 * 3.0


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe", "looped-bfs", "zero-bubble", "zero-bubble-v", "dualpipe-v"])
def test_no_microbatches(schedule: str) -> None:
    """One at least."""
    with pytest.raises(InputError, match="microbatch"):
        simulate(staged_program(pipeline(2), find_schedule(schedule), 0))


@pytest.mark.parametrize("schedule", ["pipedream", "2bw", "interleaved", "interleaved-zero-bubble"])
def test_no_microbatches_to_divide_by(schedule: str) -> None:
    """The same."""
    with pytest.raises(InputError, match="microbatch"):
        simulate(staged_program(pipeline(2), find_schedule(schedule), 0))
