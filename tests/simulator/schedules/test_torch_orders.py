"""Every rank does what it does in torch's pipelining: same actions, same order, same refusals."""

from __future__ import annotations

import pytest

from partita.simulator.schedules import find_schedule

pytest.importorskip("torch.distributed.pipelining.schedules", reason="torch is not installed")

from models import torch_schedules

RANKS = (1, 2, 3, 4, 8)
MICROBATCHES = (1, 2, 3, 4, 5, 6, 8, 9, 12, 15, 16, 24)

#: How many of the numbers above, with these chunks, torch runs.
COMPARED = {
    "forward": ((1,), 60),
    "gpipe": ((1,), 60),
    "1f1b": ((1,), 48),
    "interleaved": ((1, 2, 3), 165),
    "looped-bfs": ((1, 2, 3), 180),
    "interleaved-zero-bubble": ((1, 2, 3), 165),
    "zero-bubble-v": ((2,), 60),
    "dualpipe-v": ((2,), 35),
}


def numbers(name: str) -> list[tuple[int, int, int]]:
    """Ranks, chunks and microbatches of a schedule, also those that it refuses."""
    return [(ranks, chunks, count) for ranks in RANKS for chunks in COMPARED[name][0] for count in MICROBATCHES]


@pytest.mark.parametrize("name", torch_schedules.MULTI)
def test_tables_of_several_stages(name: str) -> None:
    """As torch's constructors make them, with the ranks of the stages; where torch refuses there is a refusal."""
    schedule = find_schedule(name)
    compared = 0
    for ranks, chunks, microbatches in numbers(name):
        refusal = schedule.refusal(ranks, chunks, microbatches)
        try:
            theirs = torch_schedules.make(name, ranks, chunks, microbatches)
        except ValueError:
            assert refusal is not None
            continue
        assert refusal is None, (ranks, chunks, microbatches)
        ours = schedule.orders(ranks, chunks, microbatches)
        assert ours == [torch_schedules.plain(theirs.pipeline_order[rank]) for rank in range(ranks)]
        placed = theirs.stage_index_to_group_rank
        assert schedule.rank_of(ranks, chunks) == [placed[stage] for stage in range(ranks * chunks)]
        compared += 1
    assert compared == COMPARED[name][1]


@pytest.mark.parametrize("name", torch_schedules.SINGLE)
def test_what_single_stage_schedules_run(name: str) -> None:
    """As their stages are asked step by step."""
    schedule = find_schedule(name)
    compared = 0
    for ranks, chunks, microbatches in numbers(name):
        assert schedule.refusal(ranks, chunks, microbatches) is None, (ranks, microbatches)
        try:
            theirs = torch_schedules.stepped(name, ranks, microbatches)
        except ValueError:
            # torch wants as many microbatches as ranks for 1F1B, which also runs with fewer.
            assert (name, microbatches < ranks) == ("1f1b", True)
            continue
        assert schedule.orders(ranks, 1, microbatches) == theirs
        compared += 1
    assert compared == COMPARED[name][1]


@pytest.mark.parametrize("name", ["gpipe", "1f1b"])
def test_tables_of_single_stage_schedules(name: str) -> None:
    """As their constructors make them, but that torch numbers the last rank's forward actions of 1F1B from 1."""
    schedule = find_schedule(name)
    compared = 0
    for ranks, _, microbatches in numbers(name):
        if name == "1f1b" and microbatches < ranks:
            continue
        theirs = torch_schedules.table(name, ranks, 1, microbatches)
        first = theirs[-1][0].microbatch
        assert first in ((0, 1) if name == "1f1b" else (0,))
        theirs[-1] = [a._replace(microbatch=a.microbatch - first) if a.letter == "F" else a for a in theirs[-1]]
        assert schedule.orders(ranks, 1, microbatches) == theirs
        compared += 1
    assert compared == COMPARED[name][1]


def test_zero_bubble_is_the_interleaved_one_with_one_stage() -> None:
    """ZB-H1, which torch does not have, for the numbers for which torch has ZB1P."""
    schedule = find_schedule("zero-bubble")
    compared = 0
    for ranks, chunks, microbatches in numbers("interleaved-zero-bubble"):
        if chunks == 1 and not find_schedule("interleaved-zero-bubble").refusal(ranks, 1, microbatches):
            theirs = torch_schedules.table("interleaved-zero-bubble", ranks, 1, microbatches)
            assert schedule.orders(ranks, 1, microbatches) == theirs
            compared += 1
    assert compared == 55


@pytest.mark.parametrize("name", ["zero-bubble-v", "dualpipe-v"])
@pytest.mark.parametrize("chunks", [1, 3])
def test_a_v_has_two_stages_on_each_rank(name: str, chunks: int) -> None:
    """As in torch."""
    assert "set chunks to 2" in str(find_schedule(name).refusal(4, chunks, 16))
    with pytest.raises(ValueError, match="exactly 2 stages"):
        torch_schedules.make(name, 4, chunks, 16)


def test_everything_of_torch_is_compared() -> None:
    """All schedules that torch names are among those above."""
    classes = {
        name
        for name, value in vars(torch_schedules.torch_schedules).items()
        if name.lstrip("_").startswith("Schedule") and isinstance(value, type)
    }
    assert classes == {*torch_schedules.SINGLE.values(), *torch_schedules.MULTI.values()}
    assert COMPARED.keys() == torch_schedules.SINGLE.keys() | torch_schedules.MULTI.keys()
    assert sum(count for _, count in COMPARED.values()) == 773
