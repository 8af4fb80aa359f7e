"""build_instance on problems small enough to check by hand."""

from __future__ import annotations

import numpy as np

from partita.engines.kernels.graph_arrays import csr, lists
from partita.problems.throughput.contraction.instance import build_instance
from partita.problems.throughput.problem import (
    DeviceKind,
    MicrobatchSchedule,
    MovedTensor,
    SavedTensor,
    StoredParameter,
    ThroughputProblem,
    TimedOperator,
)

GPU = DeviceKind(name="gpu", count=2, memory_bytes=100, transfer_time_per_unit=2, transfer_latency=1)
CPU = DeviceKind(name="cpu", count=1, accelerator=False, transfer_time_per_unit=0)


def training(**schedule: object) -> ThroughputProblem:
    """Forward 0 → 1 → 2, backward 12 → 11 → 10, each with the class of its forward operator."""
    return ThroughputProblem(
        name="hand",
        kinds=(GPU, CPU),
        operators=(
            TimedOperator(id=0, times=(1, 10), colocation=0, memory_bytes=1, workspace_bytes=4),
            TimedOperator(id=1, times=(2, 20), colocation=1, memory_bytes=2),
            TimedOperator(id=2, times=(4, None), colocation=2, memory_bytes=4),
            TimedOperator(id=12, times=(8, 80), colocation=2, backward=True),
            TimedOperator(id=11, times=(16, 160), colocation=1, backward=True),
            TimedOperator(id=10, times=(32, 320), colocation=0, backward=True, memory_bytes=8, workspace_bytes=6),
        ),
        tensors=(
            MovedTensor(producer=0, consumers=(1, 11), size=1),
            MovedTensor(producer=1, consumers=(2,), size=2),
            MovedTensor(producer=12, consumers=(11,), size=4),
            MovedTensor(producer=11, consumers=(10,), size=8),
            MovedTensor(producer=2, consumers=(12,), size=16),
        ),
        parameters=(
            StoredParameter(name="tied", users=(0, 2), weight_bytes=32, gradient_bytes=64),
            StoredParameter(name="own", users=(1, 11), weight_bytes=128, optimizer_bytes=256),
        ),
        saved=(
            SavedTensor(name="both", users=(11, 12), bytes=512),
            SavedTensor(name="one", users=(10,), bytes=1024),
        ),
        schedule=MicrobatchSchedule(**schedule),  # type: ignore[arg-type]
    )


def test_items_work_and_order() -> None:
    """Each class is an item; forward and backward work add; one operator that cannot run bars its item."""
    instance = build_instance(training())
    assert instance.group.tolist() == [0, 1, 2, 2, 1, 0]
    assert instance.work.tolist() == [[33, 330], [18, 180], [12, np.inf]]
    assert instance.work_backward.tolist() == [[32, 320], [16, 160], [8, 80]]
    assert lists(instance.graph.succ_ptr, instance.graph.succ) == [[1], [2], []]
    assert lists(instance.graph.pred_ptr, instance.graph.pred) == [[], [0], [1]]
    assert (instance.items, instance.kinds) == (3, 2)
    assert instance.count.tolist() == [2, 1]
    assert instance.memory.tolist() == [100, np.inf]


def test_nets_with_equal_pins_are_added_up() -> None:
    """Items 0 and 1 share tensors of size 1 and 8, items 1 and 2 of size 2 and 4; the one inside item 2 is dropped."""
    instance = build_instance(training())
    assert instance.nets == 2
    assert lists(instance.net.ptr, instance.net.pins) == [[0, 1], [1, 2]]
    # Two tensors each: (1 + 8)·2 + 2·1 and (2 + 4)·2 + 2·1 on the GPU, nothing on the CPU.
    assert instance.net_cost.tolist() == [[20, 0], [14, 0]]
    # Backward tensors: 8·2 + 1 and 4·2 + 1.
    assert instance.net_backward.tolist() == [[17, 0], [9, 0]]
    assert lists(instance.net.item_ptr, instance.net.of_item) == [[0], [0, 1], [1]]


def test_memory_by_what_it_depends_on() -> None:
    """Own memory and single-item parameters are fixed, single-item saved tensors active, the rest covers."""
    instance = build_instance(training())
    assert instance.fixed.tolist() == [9, 2 + 384, 4]  # 1 + 8; 2 + (128 + 256); 4
    assert instance.active.tolist() == [1024, 0, 0]
    assert instance.workspace.tolist() == [6, 0, 0]  # max(4, 6)
    assert lists(instance.cover.ptr, instance.cover.pins) == [[0, 2], [1, 2]]
    assert instance.cover_fixed.tolist() == [96, 0]  # 32 + 64
    assert instance.cover_active.tolist() == [0, 512]


def test_microbatches_in_flight() -> None:
    """By number of stages that remain, itself included; index 0 is not used."""
    assert build_instance(training()).in_flight.tolist() == [0, 1, 1, 1]
    assert build_instance(training(name="gpipe", microbatches=2)).in_flight.tolist() == [0, 2, 2, 2]
    one_forward = build_instance(training(name="1f1b", microbatches=2))
    assert one_forward.in_flight.tolist() == [0, 1, 2, 2]
    assert one_forward.positional
    assert not build_instance(training(name="1f1b", microbatches=1)).positional
    assert not build_instance(training(name="gpipe", microbatches=2)).positional


def test_position_does_not_matter_where_nothing_is_kept() -> None:
    """Without saved tensors 1f1b needs the same everywhere; recomputation keeps what enters instead of them."""
    problem = training(name="1f1b", microbatches=2)
    assert not build_instance(problem.replace(saved=())).positional
    assert build_instance(
        problem.replace(saved=(), schedule=MicrobatchSchedule(name="1f1b", microbatches=2, recompute=True))
    ).positional
    assert not build_instance(
        problem.replace(tensors=(), schedule=MicrobatchSchedule(name="1f1b", microbatches=2, recompute=True))
    ).positional


def test_recomputation_counts_forward_work_twice_and_notes_what_enters() -> None:
    """The second run is backward work; forward tensors of size 1 and 2 enter items 1 and 2."""
    instance = build_instance(training(recompute=True))
    assert instance.recompute
    assert instance.work[:, 0].tolist() == [34, 20, 16]
    assert instance.work_backward[:, 0].tolist() == [33, 18, 12]
    assert instance.net_source.tolist() == [0, 1]
    assert instance.net_entering.tolist() == [1, 2]
    assert not build_instance(training()).net_entering.any()


def test_what_only_the_backward_part_reads_does_not_enter() -> None:
    """Operator 0 feeds 1 (forward) and 12 (backward, item 2): only item 1 keeps it, through a net without cost."""
    problem = training(recompute=True).replace(tensors=(MovedTensor(producer=0, consumers=(1, 12), size=4),))
    instance = build_instance(problem)
    assert lists(instance.net.ptr, instance.net.pins) == [[0, 1], [0, 1, 2]]
    assert instance.net_cost[:, 0].tolist() == [0, 9]  # 4·2 + 1
    assert instance.net_entering.tolist() == [4, 0]
    assert instance.net_source.tolist() == [0, -1]


def test_sources_are_not_mixed_up() -> None:
    """A tensor of item 1 read in the backward part of item 0 has the pins of one that enters item 1 from item 0.

    Merging them by pins alone would make item 1 keep nothing and item 0 keep its own tensor.
    """
    problem = training(recompute=True).replace(
        tensors=(MovedTensor(producer=0, consumers=(1,), size=4), MovedTensor(producer=1, consumers=(10,), size=2))
    )
    instance = build_instance(problem)
    assert lists(instance.net.ptr, instance.net.pins) == [[0, 1]]
    assert instance.net_source.tolist() == [0]
    assert instance.net_entering.tolist() == [4]
    assert instance.net_cost[:, 0].tolist() == [14]  # (4 + 2)·2 + 2·1


def test_what_a_cycle_holds_together_is_one_item() -> None:
    """Forward operators 0 and 2 share a device and 0 → 1 → 2, so 1 lies between: one item, unless the split is free."""
    problem = ThroughputProblem(
        name="cycle",
        kinds=(DeviceKind(name="gpu", count=2),),
        operators=tuple(TimedOperator(id=i, times=(1.0,), colocation=0 if i in (0, 2) else None) for i in range(4)),
        tensors=tuple(MovedTensor(producer=i, consumers=(i + 1,), size=1) for i in range(3)),
    )
    instance = build_instance(problem)
    assert instance.group.tolist() == [0, 0, 0, 1]
    assert instance.work[:, 0].tolist() == [3, 1]
    free = build_instance(problem, free=True)
    assert free.group.tolist() == [0, 1, 0, 2]
    assert lists(free.graph.succ_ptr, free.graph.succ) == [[1, 2], [0], []]


def test_items_are_numbered_along_the_order() -> None:
    """Listed against the order, earliest in the list first among equals."""
    problem = ThroughputProblem(
        name="order",
        kinds=(DeviceKind(name="gpu", count=2),),
        operators=tuple(TimedOperator(id=i, times=(1.0,)) for i in (4, 3, 2, 1)),
        tensors=(MovedTensor(producer=2, consumers=(4,), size=1),),
    )
    # 3 and 2 are ready; then 4 becomes ready and comes before 1.
    assert build_instance(problem).group.tolist() == [2, 0, 1, 3]


def test_csr() -> None:
    """Pointers and members of a list of lists, empty ones included."""
    pointer, members = csr([[1, 2], [], [0]])
    assert pointer.tolist() == [0, 2, 2, 3]
    assert members.tolist() == [1, 2, 0]
    pointer, members = csr([])
    assert pointer.tolist() == [0]
    assert members.tolist() == []
