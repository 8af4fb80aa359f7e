"""Times of collectives, by hand."""

from __future__ import annotations

import pytest

from partita.costs.collectives import Level, collective_time, hops, neighbour_time

SWITCH = Level(8, 100.0, call_time=3.0, hop_time=0.5, switched=True)
RING = Level(8, 100.0, call_time=3.0, hop_time=0.5)


@pytest.mark.parametrize(
    ("kind", "group", "expected"),
    [
        # 7/8 of 800 bytes at 100 a second, a call, 7 hops of the ring.
        ("all-gather", RING, 7.0 + 3.0 + 3.5),
        ("reduce-scatter", SWITCH, 7.0 + 3.0 + 3.5),
        # Twice the bytes; 14 hops around a ring, 3 levels up and down a tree.
        ("all-reduce", RING, 14.0 + 3.0 + 7.0),
        ("all-reduce", SWITCH, 14.0 + 3.0 + 3.0),
    ],
)
def test_one_level(kind: str, group: Level, expected: float) -> None:
    assert collective_time(kind, 800.0, (group,)) == pytest.approx(expected)


def test_machines_exchange_what_their_devices_share_out() -> None:
    inside, outside = Level(4, 100.0, call_time=1.0, hop_time=0.1), Level(3, 10.0, call_time=2.0, hop_time=1.0)
    # Inside 3/4 of 1200 bytes take 9 s; outside 2/3 of the 300 bytes of each device take 20 s, and cover them.
    assert collective_time("all-gather", 1200.0, (inside, outside)) == pytest.approx(20.0 + 2.0 + 0.3 + 2.0)
    # With a card for each device only a quarter goes out by each; a single card would carry all of it.
    alone = Level(3, 10.0)
    assert collective_time("all-gather", 1200.0, (Level(1, 100.0), alone)) == pytest.approx(80.0)


def test_parts_of_all_go_straight_to_all() -> None:
    inside, outside = Level(4, 100.0, call_time=1.0, hop_time=0.1), Level(3, 10.0, call_time=2.0, hop_time=1.0)
    # Of 12 equal parts 3 stay in the machine (3 s), and 8 leave it (80 s) at the same time.
    assert collective_time("all-to-all", 1200.0, (inside, outside)) == pytest.approx(80.0 + 2.0 + 0.3 + 2.0)
    assert collective_time("all-to-all", 1200.0, (inside, Level(1, 10.0))) == pytest.approx(9.0 + 1.0 + 0.3)
    assert collective_time("all-to-all", 1200.0, (Level(4, 1.0), outside)) == pytest.approx(300.0 + 2.0 + 2.0)


def test_a_ring_is_as_slow_as_its_slowest_link() -> None:
    inside, outside = Level(4, 100.0, call_time=1.0), Level(2, 10.0, call_time=2.0)
    assert neighbour_time(300.0, (inside, outside)) == 32.0
    assert neighbour_time(300.0, (inside, Level(1, 10.0, call_time=2.0))) == 4.0
    assert neighbour_time(300.0, (Level(1, 1.0), Level(1, 1.0))) == 0.0


def test_alone_there_is_nothing_to_do() -> None:
    assert collective_time("all-reduce", 800.0, (Level(1, 100.0, call_time=3.0, hop_time=1.0),)) == 0.0


def test_hops_of_odd_groups() -> None:
    assert [hops("all-reduce", size, switched=True) for size in (2, 3, 5, 8)] == [2, 4, 6, 6]
    assert [hops("all-reduce", size, switched=False) for size in (2, 3, 5, 8)] == [2, 4, 8, 14]
