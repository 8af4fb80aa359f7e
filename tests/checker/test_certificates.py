"""Certificates of instances that are worked out by hand, and what is refused of each."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import msgspec
import pytest

from partita.checker.certificate import Certificate, check
from partita.checker.hybrid.downsets import SuffixSets
from partita.checker.latency import ends as latency_ends
from partita.checker.makespan.ends import EarliestEnds
from partita.checker.makespan.separators import SeparatorPotentials, separators
from partita.checker.makespan.work import WeightedWork
from partita.checker.mapping.crowded import CrowdedDevices
from partita.checker.numbers import FailedCheckError, at_most, close, down, exact
from partita.checker.throughput.downsets import BlockGraph, Downsets, stages_about
from partita.checker.throughput.paths import Path, TransferPaths
from partita.checker.throughput.work import LargestOperator, SharedWork


def refused(certificate: Certificate, problem: Any, words: str) -> None:
    with pytest.raises(FailedCheckError, match=words):
        check(certificate, problem)


#: Two kinds of devices, the second twice as slow for a and b; a hands b 2, and b hands c 3 and the tied d nothing.
SPLIT: dict[str, Any] = {
    "format": "partita.problem",
    "kinds": [{"name": "gpu", "count": 2}, {"name": "slow", "count": 1}, {"name": "none", "count": 0}],
    "operators": [
        {"id": 0, "times": [4.0, 8.0, 0.0]},
        {"id": 1, "times": [1.0, 2.0, 0.0]},
        {"id": 2, "times": [1.0, None, 0.0], "colocation": 7},
        {"id": 3, "times": [5.0, 1.0, 0.0], "colocation": 7},
    ],
    "tensors": [{"producer": 0, "consumers": [1], "size": 2.0}, {"producer": 1, "consumers": [2], "size": 3.0}],
}


def test_largest_operator() -> None:
    """2 and 3 are together, on the first kind alone: 1 + 5; two replicas share that."""
    assert check(LargestOperator(value=6.0, operator=3), SPLIT) == 6
    assert check(LargestOperator(value=3.0, operator=2), SPLIT | {"max_replicas": 2}) == 3
    refused(LargestOperator(value=6.5, operator=3), SPLIT, "states 6.5 and proves 6.0")
    refused(LargestOperator(value=6.0, operator=9), SPLIT, "no operator 9")
    nowhere = SPLIT | {"operators": [{"id": 0, "times": [None, None, 1.0]}]}
    refused(LargestOperator(value=1.0, operator=0), nowhere, "nowhere")


def test_shared_work() -> None:
    """With weights 1 and 1/2: 4 + 1 + 6 = 11 over 2 + 1/2 devices."""
    assert check(SharedWork(value=4.4, weights=(1.0, 0.5, 0.0)), SPLIT) == Fraction(22, 5)
    again = SPLIT | {"schedule": {"recompute": True}}
    assert check(SharedWork(value=4.4, weights=(1.0, 0.5, 0.0)), again) == Fraction(22, 5)
    again["operators"] = [*SPLIT["operators"], {"id": 4, "times": [1.0, 1.0, 1.0], "backward": True}]
    assert check(SharedWork(value=9.0, weights=(1.0, 0.5, 0.0)), again) == Fraction(45, 5)
    refused(SharedWork(value=4.4, weights=(1.0, 0.5)), SPLIT, "one weight for each kind")
    refused(SharedWork(value=4.4, weights=(2.0, 1.0, 0.0)), SPLIT, "the largest is 1")
    refused(SharedWork(value=4.4, weights=(1.0, 0.5, 1.0)), SPLIT, "no devices has a weight")
    refused(SharedWork(value=4.4, weights=(1.0, -0.5, 0.0)), SPLIT, "not a number from 0 on")


#: a hands b 2; b hands c 1, and c hands d 5; all work 1 but a, which works 3. c and d are one class.
ROW: dict[str, Any] = {
    "format": "partita.problem",
    "kinds": [{"name": "gpu", "count": 2}],
    "operators": [{"id": v, "times": [3.0 if v == 0 else 1.0]} for v in (0, 1)]
    + [{"id": v, "times": [1.0], "colocation": 1} for v in (2, 3)],
    "tensors": [
        {"producer": 0, "consumers": [1], "size": 2.0},
        {"producer": 1, "consumers": [2], "size": 1.0},
        {"producer": 2, "consumers": [3], "size": 5.0},
    ],
}


def row(*paths: Path, value: float = 0.0, operator: int = 0) -> TransferPaths:
    return TransferPaths(value=value, operator=operator, paths=paths)


def test_transfer_paths() -> None:
    """Whoever holds a works 3, and pays 2: 1 of work at b or for a's tensor, 1 more for b's or the work at c."""
    alone, first = Path((0,), (), 3.0), Path((0, 1), (0,), 1.0)
    second = Path((0, 1, 2), (0, 1), 1.0)
    found = row(alone, first, second, value=5.0)
    assert check(found, ROW) == 5
    assert found.scope(ROW) == "free"
    tied = row(alone, first, Path((0, 1, 2, 3), (0, 1, -1), 1.0), value=5.0)
    assert check(tied, ROW) == 5
    assert tied.scope(ROW) == "free"
    refused(row(Path((0,), (), 3.5), value=3.5), ROW, "works less")
    refused(row(alone, first, second, Path((0, 1, 2, 3), (0, 1, -1), 0.5), value=5.5), ROW, "moving it costs less")
    refused(row(alone, value=3.0, operator=1), ROW, "does not start at operator 1")
    refused(row(Path((0, 2), (0,), 1.0), value=1.0), ROW, "do not both touch tensor 0")
    refused(row(Path((0, 1), (9,), 1.0), value=1.0), ROW, "no tensor 9")
    refused(row(Path((0, 1), (-1,), 1.0), value=1.0), ROW, "may be on another device")
    refused(row(Path((0, 9), (0,), 1.0), value=1.0), ROW, "operators that there are")
    refused(row(Path((0, 1), (), 1.0), value=1.0), ROW, "a tensor between every two")
    refused(found, ROW | {"communication": "overlap"}, "transfers add to work")
    refused(found, ROW | {"max_replicas": 2}, "one device")


#: a hands b 1 and c 1, which hand d 1 each: six downsets. Any two fit on a device, with what they hold.
DIAMOND: dict[str, Any] = {
    "format": "partita.problem",
    "kinds": [{"name": "gpu", "count": 2, "memory_bytes": 8.0}, {"name": "none", "count": 0}],
    "operators": [{"id": v, "times": [3.0, 0.0], "memory_bytes": 2.0, "workspace_bytes": 1.0} for v in range(4)],
    "tensors": [
        {"producer": 0, "consumers": [1, 2], "size": 1.0},
        {"producer": 1, "consumers": [3], "size": 1.0},
        {"producer": 2, "consumers": [3], "size": 1.0},
    ],
    "parameters": [{"name": "w", "users": [0, 3], "weight_bytes": 1.0}],
}


def test_downsets() -> None:
    """The best has a and b on the first device: 3 + 3 and the tensors of both go out; so they come in on the second."""
    found = Downsets(value=8.0, sets=6)
    assert check(found, DIAMOND) == 8
    assert found.scope(DIAMOND) == "acyclic"
    assert check(Downsets(value=5.0, sets=6), DIAMOND) == 5
    words = "run the whole model in less than"
    refused(Downsets(value=8.0 + 1e-9, sets=6), DIAMOND, words)
    refused(Downsets(value=8.0, sets=5), DIAMOND, "there are not 5 sets")
    refused(Downsets(value=8.0, sets=7), DIAMOND, "there are not 7 sets")
    several = [{"name": "gpu", "count": 1, "memory_bytes": 8.0}, {"name": "none", "count": 3}]
    refused(found, DIAMOND | {"kinds": several}, words)
    assert check(Downsets(value=12.0, sets=6), DIAMOND | {"kinds": [{"name": "gpu", "count": 1}]}) == 12
    for features in ({"groups": [1]}, {"streaming": True}, {"row": {}}, {"max_replicas": 2}):
        refused(found, DIAMOND | features, "it is not for")


def test_how_many_stages_there_are_is_told_from_some() -> None:
    """Of few downsets from all: 3 + 3 + 2 + 2 + 1 of one operator or two, as three take 9."""
    graph = BlockGraph(DIAMOND, exact(8.5))
    assert stages_about(graph, graph.downsets()) == 11
    row = {
        "format": "partita.problem",
        "kinds": [{"name": "gpu", "count": 2}],
        "operators": [{"id": v, "times": [1.0]} for v in range(64)],
        "tensors": [{"producer": v, "consumers": [v + 1], "size": 0.0} for v in range(63)],
    }
    graph = BlockGraph(row, exact(2.5))
    # Two from everywhere but the last two; every eighth of 65 is looked at.
    assert stages_about(graph, graph.downsets()) == 8 * (8 * 2)


def test_downsets_and_memory() -> None:
    """a and b hold 2 + 2, 1 while they run, and 1 for w: 6; with 5 the best has b and c together: 6, 1 in, 2 out."""
    small = DIAMOND | {"kinds": [{"name": "gpu", "count": 3, "memory_bytes": 5.0}]}
    assert check(Downsets(value=9.0, sets=6), small) == 9
    refused(Downsets(value=9.0 + 1e-9, sets=6), small, "run the whole model")
    # Without the shared weight a and b fit.
    refused(Downsets(value=9.0, sets=6), small | {"parameters": []}, "run the whole model")
    # What is over by rounding alone is let pass, as the evaluators do.
    near = {"kinds": [{"name": "gpu", "count": 3, "memory_bytes": 6.0 * (1 - 9e-10)}]}
    refused(Downsets(value=9.0, sets=6), small | near, "run the whole model")


def test_downsets_of_training() -> None:
    """Backward operators are where their forward ones are, and hand gradients to the stages before."""
    problem = {
        "format": "partita.problem",
        "kinds": [{"name": "gpu", "count": 2}],
        "operators": [{"id": v, "times": [1.0], "colocation": v % 3, "backward": v > 2} for v in range(6)],
        "tensors": [
            {"producer": 0, "consumers": [1], "size": 1.0},
            {"producer": 1, "consumers": [2], "size": 0.5},
            {"producer": 5, "consumers": [4], "size": 2.0},
            {"producer": 4, "consumers": [3], "size": 0.25},
        ],
    }
    # 2 and 2 | 2: 4 of work, 0.5 out and 2 in; 2 | 2 and 2: 4, 1 in and 0.25 out.
    assert check(Downsets(value=5.25, sets=4), problem) == 5.25
    refused(Downsets(value=5.26, sets=4), problem, "run the whole model")
    refused(Downsets(value=5.25, sets=4), problem | {"schedule": {"name": "gpipe"}}, "no largest load")
    assert check(Downsets(value=7.25, sets=4), problem | {"schedule": {"recompute": True}}) == 7.25


def test_transfer_paths_along_an_order() -> None:
    """c reads a and b, and b reads a: who holds a and c of an acyclic split holds b, too."""
    problem = {
        "format": "partita.problem",
        "kinds": [{"name": "gpu", "count": 3}],
        "operators": [{"id": v, "times": [1.0]} for v in range(4)],
        "tensors": [
            {"producer": 0, "consumers": [1], "size": 0.0},
            {"producer": 1, "consumers": [2], "size": 0.0},
            {"producer": 0, "consumers": [2], "size": 2.0},
            {"producer": 0, "consumers": [3], "size": 1.0},
        ],
    }
    between = Path((0, 2, 1), (2, -1), 1.0)
    found = row(Path((0,), (), 1.0), Path((0, 2), (2,), 1.0), between, value=3.0)
    assert check(found, problem) == 3
    assert found.scope(problem) == "acyclic"
    refused(row(Path((0, 2, 3), (2, -1), 1.0), value=1.0), problem, "may be on another device")
    late = problem | {"operators": [{"id": v, "times": [1.0], "backward": v > 1} for v in range(4)]}
    refused(found, late, "may be on another device")


#: Three operators on two devices: 0 → 2 and 1 → 2, each moving 2 or 3; 1 runs on the second device only.
JOIN: dict[str, Any] = {
    "format": "partita.makespan",
    "devices": [{"name": "a"}, {"name": "b", "memory": 4.0}],
    "operators": [
        {"id": 0, "times": [2.0, 4.0], "memory": 5.0},
        {"id": 1, "times": [None, 1.0]},
        {"id": 2, "times": [1.0, 6.0]},
    ],
    "flows": [
        {"id": 0, "source": 0, "target": 2, "times": [[0.0, 2.0], [2.0, 0.0]]},
        {"id": 1, "source": 1, "target": 2, "times": [[0.0, 3.0], [3.0, 0.0]]},
    ],
}


def test_weighted_work() -> None:
    """0 does not fit on b: 2 and 1/2 of 1 and the least of 1 and 3 over 1 1/2."""
    assert check(WeightedWork(value=7 / 3, weights=(1.0, 0.5)), JOIN) == Fraction(7, 3)
    refused(WeightedWork(value=7 / 3, weights=(1.0, 0.5)), JOIN | {"serial_operators": False}, "exclude")
    refused(WeightedWork(value=7 / 3, weights=(1.0,)), JOIN, "one weight for each device")
    refused(WeightedWork(value=7 / 3, weights=(0.5, 0.5)), JOIN, "the largest is 1")


def test_earliest_ends() -> None:
    """2 on a starts when 1's flow has come: 1 + 3, and takes 1; on b it waits for 0 and its flow: 4, and takes 6."""
    ends = EarliestEnds(
        value=5.0,
        operator=2,
        before={0: (2.0, None), 1: (None, 1.0), 2: (5.0, 10.0)},
        behind={2: (0.0, 0.0)},
    )
    assert check(ends, JOIN) == 5

    def changed(**fields: Any) -> EarliestEnds:
        return msgspec.structs.replace(ends, **fields)

    refused(changed(before=ends.before | {2: (5.5, 10.0)}, value=5.5), JOIN, "does not follow")
    refused(changed(before=ends.before | {2: (4.5, 10.0)}, value=4.5), JOIN, "does not follow")
    refused(changed(before=ends.before | {0: (2.0, 4.0)}), JOIN, "cannot be")
    refused(changed(before={v: ends.before[v] for v in (0, 2)}), JOIN, "other operators")
    refused(changed(before=ends.before | {0: (2.0,)}), JOIN, "a number for each device")
    refused(changed(value=4.0), JOIN, "states 4.0")


def test_earliest_ends_with_queues() -> None:
    """Two of 4 hand 9 to the third: with weights 7/10 and 3/10, each adds the smaller of 2.8 and 2.7, anywhere."""
    problem = {
        "devices": [{"name": "a"}, {"name": "b"}],
        "operators": [{"id": v, "times": [4.0, 4.0] if v < 2 else [0.0, 0.0]} for v in range(3)],
        "flows": [{"id": v, "source": v, "target": 2, "times": [[0.0, 9.0], [9.0, 0.0]]} for v in range(2)],
    }
    row, end = (4.0, 4.0), down(Fraction(54, 10))
    found = EarliestEnds(value=end, operator=2, before={0: row, 1: row, 2: (end, end)}, behind={2: (0.0, 0.0)})
    assert check(found, problem) == exact(end)
    refused(found, problem | {"receiver_congestion": False}, "does not follow")
    refused(found, problem | {"serial_operators": False}, "does not follow")


def test_separator_potentials() -> None:
    """One, then two of 4 side by side on two devices, then one: 1 + 4 + 1 by the work, 1 + 1 + 4 + 1 with transfers."""
    flow = [[0.0, 1.0], [1.0, 0.0]]
    times = {0: [1.0, None], 1: [4.0, 4.0], 2: [4.0, 4.0], 3: [None, 1.0]}
    problem = {
        "devices": [{"name": "a"}, {"name": "b"}],
        "operators": [{"id": v, "times": row} for v, row in times.items()],
        "flows": [
            {"id": number, "source": a, "target": b, "times": flow}
            for number, (a, b) in enumerate([(0, 1), (0, 2), (1, 3), (2, 3)])
        ],
    }
    assert separators(problem) == (0, 3)
    even = (1.0, 1.0)
    found = SeparatorPotentials(value=7.0, separators=(0, 3), weights=(even,) * 3, reached=((1.0, None), (None, 7.0)))
    # The chain through the block takes 4 and one transfer.
    assert check(found, problem) == 7
    slow = problem | {"operators": [*problem["operators"][:3], {"id": 3, "times": [None, 2.0]}]}
    refused(found, slow, "does not follow")
    three = problem | {"operators": [*problem["operators"], {"id": 4, "times": [4.0, 4.0]}]}
    refused(found, three, "not the operators")
    joined = three | {"precedence": [(0, 4), (4, 3)]}
    # Now the work of the block is more: 12 on two devices.
    later = msgspec.structs.replace(found, value=8.0, reached=((1.0, None), (None, 8.0)))
    assert check(later, joined) == 8
    refused(later, joined | {"serial_operators": False}, "does not follow")
    refused(msgspec.structs.replace(found, weights=(even,) * 2), problem, "weights for each block")
    refused(msgspec.structs.replace(found, weights=(even, (2.0, 1.0), even)), problem, "the largest is 1")
    refused(msgspec.structs.replace(found, reached=((1.0, 1.0), (None, 7.0))), problem, "cannot be")


def test_latency_ends() -> None:
    """0 on the CPU takes 5, on an accelerator 1 and a transfer of 1; 1 is on the CPU: at best 1 + 1 + 2."""
    problem = {
        "accelerators": 1,
        "memory_bytes": 10.0,
        "operators": [
            {"id": 0, "cpu_time": 5.0, "accelerator_time": 1.0, "transfer_time": 1.0},
            {"id": 1, "cpu_time": 2.0, "accelerator_time": 1.0, "memory_bytes": 11.0},
        ],
        "edges": [[0, 1]],
    }
    ends = latency_ends.EarliestPieceEnds(value=4.0, ends={0: (5.0, 1.0), 1: (4.0, None)})
    assert check(ends, problem) == 4
    assert latency_ends.best_ends(problem) == ends
    refused(msgspec.structs.replace(ends, ends={0: (5.0, 1.0), 1: (4.5, None)}, value=4.5), problem, "does not follow")
    refused(msgspec.structs.replace(ends, ends={0: (5.0, 1.0), 1: (4.0, 2.0)}), problem, "cannot be")
    refused(msgspec.structs.replace(ends, ends={0: (5.0, 1.0)}), problem, "other operators")
    refused(ends, problem | {"accelerators": 0}, "cannot be")


def test_crowded_devices() -> None:
    """Two stages of one replica exchange 6 bytes; only one of three devices has a link of 3 out of it, others of 2."""
    problem = {
        "replicas": 1,
        "stages": [{"time_s": 1.0}, {"time_s": 1.0}],
        "transfers": [{"source": 0, "target": 1, "bytes": 6.0}],
        "bandwidth_bytes_per_s": [[None, 3.0, 1.0], [2.0, None, 1.0], [1.0, 2.0, None]],
    }
    found = CrowdedDevices(value=4.0, replicas=((0, 0), (1, 0)), devices=(0,))
    assert check(found, problem) == 4
    refused(msgspec.structs.replace(found, devices=(0, 1)), problem, "devices enough")
    refused(msgspec.structs.replace(found, devices=(3,)), problem, "there is not")
    refused(msgspec.structs.replace(found, replicas=((0, 0), (0, 0))), problem, "twice")
    refused(msgspec.structs.replace(found, devices=()), problem, "states 4.0 and proves 3.0")
    refused(msgspec.structs.replace(found, replicas=((0, 0),), devices=(), value=3.0), problem, "leaves out replicas")


def test_suffix_sets() -> None:
    """Two layers of 4 on two devices, nothing moved: within 3.9 each takes two devices, so both take four."""
    layer = {"configurations": {"1": [{"id": "plain", "time": 4.0}]}}
    problem = {
        "devices": 2,
        "microbatches": 2,
        "bandwidth_bytes_per_unit": 1.0,
        "layers": [{"id": 0, **layer}, {"id": 1, **layer}],
        "edges": [{"source": 0, "target": 1, "bytes": 0.0}],
    }
    table = SuffixSets(value=3.9, sets=((), (1,), (0, 1)), outside=(3, 2, 0), fewest=(((0, 0),), ((2, 2),), ()))
    assert check(table, problem) == exact(3.9)
    assert table.scope(problem) == "acyclic"
    refused(msgspec.structs.replace(table, value=4.0), problem, "can be run|need no more")
    refused(msgspec.structs.replace(table, sets=((), (0,), (0, 1))), problem, "not all that hold the successors")
    refused(msgspec.structs.replace(table, fewest=(((0, 0),), ((2, 2),), ((2, 2),))), problem, "whole model")
    refused(msgspec.structs.replace(table, fewest=((), ((2, 2),), ()), outside=(2, 2, 0)), problem, "no layers at all")
    refused(msgspec.structs.replace(table, fewest=(((0, 0),), (), ()), outside=(2, 0, 0)), problem, "can be run")
    refused(table, problem | {"hierarchy": {}}, "linked alike")


def test_numbers() -> None:
    """Exact, from 0 on, and equal up to a part in 10⁹."""
    assert exact(0.1) == Fraction(0.1)
    for wrong in (-1.0, float("nan"), float("inf"), "1", True, None):
        with pytest.raises(FailedCheckError):
            exact(wrong)
    assert close(Fraction(1), 1 + Fraction(1, 10**10))
    assert not close(Fraction(1), 1 + Fraction(1, 10**8))
    assert at_most(Fraction(0), Fraction(0))
    assert not at_most(Fraction(1, 10**30), Fraction(0))
    assert Fraction(down(Fraction(1, 3))) < Fraction(1, 3)
    assert down(Fraction(1, 2)) == 0.5
