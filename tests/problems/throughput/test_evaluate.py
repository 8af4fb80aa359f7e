"""evaluate on problems small enough to check by hand."""

from __future__ import annotations

import pytest

from partita.ground.errors import InputError
from partita.nouns.pipeline import Contiguity, Plan, Stage
from partita.problems.throughput.evaluate import evaluate
from partita.problems.throughput.evaluation import TransferTimes
from partita.problems.throughput.problem import (
    DeviceKind,
    LinkedGroup,
    MicrobatchSchedule,
    MovedTensor,
    SavedTensor,
    StoredParameter,
    ThroughputProblem,
    TimedOperator,
)

GPU = DeviceKind(name="gpu", count=4)
CPU = DeviceKind(name="cpu", count=2, accelerator=False, transfer_time_per_unit=0.0)


def op(identity: int, *times: float | None, **fields: object) -> TimedOperator:
    """An operator with its times."""
    return TimedOperator(id=identity, times=times, **fields)  # type: ignore[arg-type]


def chain(times: list[float], sizes: list[float], **fields: object) -> ThroughputProblem:
    """Operators 0, 1, … on the GPU, each feeding the next one."""
    return ThroughputProblem(
        name="chain",
        kinds=(GPU,),
        operators=tuple(op(i, time) for i, time in enumerate(times)),
        tensors=tuple(MovedTensor(producer=i, consumers=(i + 1,), size=size) for i, size in enumerate(sizes)),
        **fields,  # type: ignore[arg-type]
    )


def plan(*stages: tuple[str, tuple[int, ...]], contiguity: Contiguity = "acyclic") -> Plan:
    """A plan from (device, operators) pairs."""
    return Plan(
        stages=tuple(Stage(devices=(name,), kind=name.split(":")[0], operators=ids) for name, ids in stages),
        contiguity=contiguity,
    )


def on_gpus(*groups: tuple[int, ...], contiguity: Contiguity = "acyclic") -> Plan:
    """A plan with one GPU for each group."""
    return plan(*((f"gpu:{i}", ids) for i, ids in enumerate(groups)), contiguity=contiguity)


class TestLoad:
    """Compute plus one payment per distinct tensor per device."""

    def test_one_device_pays_no_transfer(self) -> None:
        evaluation = evaluate(chain([1, 2, 4], [8, 16]), on_gpus((0, 1, 2)))
        assert evaluation.objective == 7  # 1 + 2 + 4
        assert evaluation.stages[0].communication == 0
        assert evaluation.feasible

    def test_a_cut_is_paid_on_both_sides(self) -> None:
        evaluation = evaluate(chain([1, 2, 4], [8, 16]), on_gpus((0,), (1, 2)))
        first, second = evaluation.stages
        assert (first.compute, first.communication_in, first.communication_out, first.load) == (1, 0, 8, 9)
        assert (second.compute, second.communication_in, second.communication_out, second.load) == (6, 8, 0, 14)
        assert evaluation.objective == 14
        assert evaluation.bottleneck == 1

    def test_a_tensor_read_on_three_other_devices(self) -> None:
        # The producer's device pays 10 once, each of the three readers' devices pays 10 once, the second reader on
        # gpu:1 pays nothing more.
        problem = ThroughputProblem(
            name="fan",
            kinds=(GPU,),
            operators=tuple(op(i, 1.0) for i in range(5)),
            tensors=(MovedTensor(producer=0, consumers=(1, 2, 3, 4), size=10),),
        )
        evaluation = evaluate(problem, on_gpus((0,), (1, 2), (3,), (4,)))
        assert [stage.communication_out for stage in evaluation.stages] == [10, 0, 0, 0]
        assert [stage.communication_in for stage in evaluation.stages] == [0, 10, 10, 10]
        assert [stage.load for stage in evaluation.stages] == [11, 12, 11, 11]

    def test_two_tensors_of_one_producer_are_paid_apart(self) -> None:
        problem = ThroughputProblem(
            name="two outputs",
            kinds=(GPU,),
            operators=(op(0, 0.0), op(1, 0.0)),
            tensors=(MovedTensor(producer=0, consumers=(1,), size=3), MovedTensor(producer=0, consumers=(1,), size=4)),
        )
        assert evaluate(problem, on_gpus((0,), (1,))).objective == 7  # 3 + 4

    def test_an_output_of_the_model_is_free(self) -> None:
        problem = chain([1], []).replace(tensors=(MovedTensor(producer=0, consumers=(), size=100),))
        assert evaluate(problem, on_gpus((0,))).objective == 1

    def test_latency_and_speed_belong_to_the_device(self) -> None:
        slow = DeviceKind(name="slow", count=1, transfer_time_per_unit=0.5, transfer_latency=2)
        fast = DeviceKind(name="fast", count=1, transfer_time_per_unit=0.25, transfer_latency=0)
        problem = ThroughputProblem(
            name="unequal",
            kinds=(slow, fast),
            operators=(op(0, 1, 9), op(1, 9, 1)),
            tensors=(MovedTensor(producer=0, consumers=(1,), size=8), MovedTensor(producer=0, consumers=(1,), size=0)),
        )
        evaluation = evaluate(problem, plan(("slow:0", (0,)), ("fast:0", (1,))))
        # slow: 1 + (2 + 8/2) + (2 + 0); fast: 1 + 8/4 + 0
        assert [stage.load for stage in evaluation.stages] == [9, 3]

    def test_a_cpu_pays_nothing_and_costs_its_neighbour_the_same(self) -> None:
        problem = ThroughputProblem(
            name="cpu",
            kinds=(GPU, CPU),
            operators=(op(0, 1, 5), op(1, 1, 5)),
            tensors=(MovedTensor(producer=0, consumers=(1,), size=3),),
        )
        evaluation = evaluate(problem, plan(("cpu:1", (0,)), ("gpu:2", (1,))))
        assert [stage.load for stage in evaluation.stages] == [5, 4]  # 5 + 0, 1 + 3

    def test_an_unsupported_operator_makes_the_plan_infeasible(self) -> None:
        problem = ThroughputProblem(
            name="unsupported", kinds=(GPU, CPU), operators=(op(0, None, 5, name="embedding"), op(1, 1, 5))
        )
        evaluation = evaluate(problem, on_gpus((0,), (1,)))
        assert not evaluation.feasible
        assert evaluation.violations == ("operator 0 (embedding) cannot run on gpu, where stage 0 puts it",)
        assert evaluate(problem, plan(("cpu:0", (0,)), ("gpu:0", (1,)))).feasible


def mirrored(**schedule: object) -> ThroughputProblem:
    """Two layers, forward 0 → 1 and backward 3 → 2: 2 belongs to 0 and 3 to 1."""
    return ThroughputProblem(
        name="training",
        kinds=(GPU,),
        operators=(
            op(0, 1, colocation=0),
            op(1, 2, colocation=1),
            op(3, 8, colocation=1, backward=True),
            op(2, 4, colocation=0, backward=True),
        ),
        tensors=(
            MovedTensor(producer=0, consumers=(1, 3), size=16),
            MovedTensor(producer=1, consumers=(3,), size=32),
            MovedTensor(producer=3, consumers=(2,), size=64),
        ),
        saved=(
            SavedTensor(name="input of 0", users=(2,), bytes=128),
            SavedTensor(name="output of 0", users=(3,), bytes=256),
        ),
        schedule=MicrobatchSchedule(**schedule),  # type: ignore[arg-type]
    )


class TestTraining:
    """Forward and backward work add, and so do their transfers."""

    def test_loads_add(self) -> None:
        first, second = evaluate(mirrored(), on_gpus((0, 2), (1, 3))).stages
        assert (first.compute_forward, first.compute_backward) == (1, 4)
        assert (first.communication_in, first.communication_out) == (64, 16)
        assert first.load == 85  # 1 + 4 + 64 + 16
        assert second.load == 90  # 2 + 8 + 16 + 64; what stays (32) is free

    def test_recomputation_runs_the_forward_part_twice(self) -> None:
        first, second = evaluate(mirrored(recompute=True), on_gpus((0, 2), (1, 3))).stages
        assert (first.compute_forward, first.compute_backward) == (1, 5)  # 4 + 1 again
        assert (second.compute_forward, second.compute_backward) == (2, 10)  # 8 + 2 again
        assert (first.load, second.load) == (86, 92)

    def test_recomputation_without_a_backward_part_does_nothing(self) -> None:
        plain = chain([1, 2], [4])
        again = plain.replace(schedule=MicrobatchSchedule(recompute=True))
        split = on_gpus((0,), (1,))
        assert evaluate(again, split) == evaluate(plain, split)

    def test_a_class_on_two_devices_is_a_violation(self) -> None:
        evaluation = evaluate(mirrored(), on_gpus((0, 2, 3), (1,)))
        assert not evaluation.feasible
        assert evaluation.violations == ("operators 1 and 3 must share a device, but are in stages 1 and 0",)

    def test_a_broken_class_is_ordered_by_its_own_operators(self) -> None:
        # 0 → 1 makes the first stage the earlier one, though the backward operators lie the other way round.
        evaluation = evaluate(mirrored(name="1f1b", microbatches=4), on_gpus((0, 3), (1, 2)))
        assert evaluation.acyclic
        assert [stage.in_flight for stage in evaluation.stages] == [2, 1]


class TestMemory:
    """What a stage must hold."""

    def test_operators_add_and_workspace_is_the_largest(self) -> None:
        problem = ThroughputProblem(
            name="memory",
            kinds=(DeviceKind(name="gpu", count=1, memory_bytes=12),),
            operators=(op(0, 0.0, memory_bytes=2, workspace_bytes=4), op(1, 0.0, memory_bytes=3, workspace_bytes=7)),
        )
        memory = evaluate(problem, on_gpus((0, 1))).stages[0].memory
        assert (memory.operators, memory.workspace, memory.total, memory.limit) == (5, 7, 12, 12)  # 2 + 3, max(4, 7)
        assert evaluate(problem, on_gpus((0, 1))).feasible, "exactly full is fine"
        over = evaluate(problem.replace(memory_bytes=11.0), on_gpus((0, 1)))
        assert over.violations == ("stage 0 on gpu:0 needs 12 B, 1 B more than its 11 B",)
        assert not over.feasible

    def test_a_tied_parameter_is_stored_once_on_each_device_of_a_user(self) -> None:
        tied = StoredParameter(name="w", users=(0, 1, 2), weight_bytes=4, gradient_bytes=2, optimizer_bytes=8)
        problem = chain([1, 1, 1], [0, 0], parameters=(tied,))
        together = evaluate(problem, on_gpus((0, 1, 2))).stages
        assert [stage.memory.total for stage in together] == [14]  # 4 + 2 + 8, once for three users
        apart = evaluate(problem, on_gpus((0, 1), (2,))).stages
        assert [stage.memory.total for stage in apart] == [14, 14]
        memory = apart[1].memory
        assert (memory.weights, memory.gradients, memory.optimizer) == (4, 2, 8)

    @pytest.mark.parametrize(
        ("name", "microbatches", "in_flight"),
        [
            ("inference", 4, [1, 1]),
            ("1f1b", 1, [1, 1]),
            ("1f1b", 4, [2, 1]),  # two stages remain from the first, one from the last
            ("gpipe", 4, [4, 4]),
        ],
    )
    def test_saved_tensors_count_per_microbatch_in_flight(
        self, name: str, microbatches: int, in_flight: list[int]
    ) -> None:
        stages = evaluate(mirrored(name=name, microbatches=microbatches), on_gpus((0, 2), (1, 3))).stages
        assert [stage.in_flight for stage in stages] == in_flight
        assert [stage.memory.activations for stage in stages] == [128 * in_flight[0], 256 * in_flight[1]]

    def test_recomputation_keeps_what_enters(self) -> None:
        problem = mirrored(name="gpipe", microbatches=3, recompute=True)
        first, second = (stage.memory for stage in evaluate(problem, on_gpus((0, 2), (1, 3))).stages)
        # Nothing enters the first stage; while it runs backward it holds the 128 bytes of one microbatch.
        assert (first.activations, first.workspace) == (0, 128)
        # The output of 0 (16 bytes) enters the second stage, three times; 256 bytes of one microbatch besides. The
        # gradient that enters the first stage (64) is not kept.
        assert (second.activations, second.workspace) == (3 * 16, 256)

    def test_recomputation_does_not_keep_what_only_the_backward_part_reads(self) -> None:
        problem = mirrored(name="gpipe", microbatches=3, recompute=True).replace(
            tensors=(MovedTensor(producer=0, consumers=(3,), size=16),)
        )
        assert evaluate(problem, on_gpus((0, 2), (1, 3))).stages[1].memory.activations == 0

    def test_position_follows_the_pipeline_not_the_list(self) -> None:
        # Listed last first: the stage of operator 0 is still the first of the pipeline.
        evaluation = evaluate(mirrored(name="1f1b", microbatches=4), on_gpus((1, 3), (0, 2)))
        assert evaluation.acyclic
        assert [stage.in_flight for stage in evaluation.stages] == [1, 2]

    def test_a_stage_without_operators_has_no_place_in_the_pipeline(self) -> None:
        problem = mirrored(name="1f1b", microbatches=4)
        for groups in [((0, 2), (1, 3), ()), ((0, 2), (), (1, 3)), ((), (0, 2), (1, 3)), ((1, 3), (), (0, 2))]:
            evaluation = evaluate(problem, on_gpus(*groups))
            held = {ids: stage.in_flight for ids, stage in zip(groups, evaluation.stages, strict=True)}
            assert (held[0, 2], held[1, 3]) == (2, 1)
            assert evaluation.objective == 90


class TestOrder:
    """acyclic is more than convex."""

    def test_two_convex_sets_that_depend_on_each_other_are_not_acyclic(self) -> None:
        # 0 → 1 and 2 → 3 with {0, 3} and {1, 2}: no path leaves a set and comes back, so both are convex, but tensors
        # go from the first to the second and from the second to the first.
        problem = ThroughputProblem(
            name="crossed",
            kinds=(GPU,),
            operators=tuple(op(i, 1.0) for i in range(4)),
            tensors=(MovedTensor(producer=0, consumers=(1,), size=1), MovedTensor(producer=2, consumers=(3,), size=1)),
        )
        evaluation = evaluate(problem, on_gpus((0, 3), (1, 2)))
        assert not evaluation.acyclic
        assert not evaluation.feasible
        assert evaluation.violations == ("the stages depend on each other in a cycle, so the split is not contiguous",)
        assert evaluation.objective == 4  # 1 + 1 + 1 out + 1 in, on both
        free = evaluate(problem, on_gpus((0, 3), (1, 2), contiguity="free"))
        assert free.feasible
        assert not free.acyclic
        assert free.objective == 4

    def test_a_set_that_is_left_and_entered_again_is_not_acyclic(self) -> None:
        evaluation = evaluate(chain([1, 1, 1], [1, 1]), on_gpus((0, 2), (1,)))
        assert not evaluation.acyclic

    def test_a_cycle_of_three_stages(self) -> None:
        problem = ThroughputProblem(
            name="ring",
            kinds=(GPU,),
            operators=tuple(op(i, 1.0) for i in range(6)),
            tensors=tuple(MovedTensor(producer=a, consumers=(b,), size=0) for a, b in ((0, 1), (2, 3), (4, 5))),
        )
        assert not evaluate(problem, on_gpus((0, 5), (1, 2), (3, 4))).acyclic
        assert evaluate(problem, on_gpus((0,), (1, 2), (3, 4), (5,))).acyclic

    def test_the_backward_part_may_go_back(self) -> None:
        evaluation = evaluate(mirrored(), on_gpus((0, 2), (1, 3)))
        assert evaluation.acyclic
        assert evaluation.feasible

    def test_orphans_are_ordered_by_their_mirrored_tensors(self) -> None:
        # Backward 3 → 9 → 2: the orphan 9 has no forward operator. Mirrored: class of 2 before 9, 9 before class of 3.
        problem = mirrored().replace(
            operators=(*mirrored().operators, op(9, 1, backward=True)),
            tensors=(
                MovedTensor(producer=0, consumers=(1,), size=1),
                MovedTensor(producer=3, consumers=(9,), size=1),
                MovedTensor(producer=9, consumers=(2,), size=1),
            ),
        )
        assert evaluate(problem, on_gpus((0, 2), (9,), (1, 3))).acyclic
        # With 0 and 1 on one device, 9 would have to come after and before it.
        assert not evaluate(problem, on_gpus((0, 2, 1, 3), (9,))).acyclic
        assert evaluate(problem, on_gpus((0, 2, 9), (1, 3))).acyclic


def groups_of(*counts: int) -> tuple[LinkedGroup, ...]:
    """Groups of so many GPUs, which pay 1 + 2 · size for a tensor that crosses their boundary."""
    return tuple(
        LinkedGroup(name=f"group {number}", counts=(count,), transfer_time_per_unit=2.0, transfer_latency=1.0)
        for number, count in enumerate(counts)
    )


def grouped(*counts: int, **fields: object) -> ThroughputProblem:
    """As many operators as GPUs, without tensors, with so many microbatches that in_flight is counted from the end."""
    return ThroughputProblem(
        name="grouped",
        kinds=(DeviceKind(name="gpu", count=sum(counts)),),
        operators=tuple(op(i, 1.0) for i in range(sum(counts))),
        groups=groups_of(*counts),
        schedule=MicrobatchSchedule(name="1f1b", microbatches=9),
        **fields,  # type: ignore[arg-type]
    )


def on(*devices: int) -> Plan:
    """Operator i on the GPU of the i-th number."""
    return plan(*((f"gpu:{device}", (place,)) for place, device in enumerate(devices)))


class TestGroups:
    """Devices behind slower links."""

    def test_what_crosses_a_boundary_is_paid_by_both_groups(self) -> None:
        # {0} and {1} share a group: 8 and 16 are cut, only 16 crosses, for 1 + 2 · 16 on each side.
        problem = chain([1, 2, 4], [8, 16]).replace(kinds=(DeviceKind(name="gpu", count=3),), groups=groups_of(2, 1))
        evaluation = evaluate(problem, on_gpus((0,), (1,), (2,)))
        first, second = evaluation.groups
        assert (first.name, first.transfers, first.load) == ("group 0", TransferTimes(forward_out=33), 33)
        assert (second.name, second.transfers, second.load) == ("group 1", TransferTimes(forward_in=33), 33)
        assert [stage.load for stage in evaluation.stages] == [9, 26, 20]
        assert evaluation.objective == 33

    def test_forward_and_backward_tensors_have_directions_of_their_own(self) -> None:
        problem = mirrored(name="gpipe").replace(kinds=(DeviceKind(name="gpu", count=2),), groups=groups_of(1, 1))
        evaluation = evaluate(problem, on_gpus((0, 2), (1, 3)))
        assert [stage.transfers for stage in evaluation.stages] == [
            TransferTimes(forward_out=16, backward_in=64),
            TransferTimes(forward_in=16, backward_out=64),
        ]
        first, second = evaluation.groups
        # 1 + 2 · 16 and 1 + 2 · 64
        assert first.transfers == TransferTimes(forward_out=33, backward_in=129)
        assert second.transfers == TransferTimes(forward_in=33, backward_out=129)
        assert (first.forward_load, first.backward_load, first.load) == (33, 129, 162)
        assert evaluation.objective == 162  # the links' phases exceed 2 + 16 and 8 + 64

    @pytest.mark.parametrize(
        ("counts", "devices", "in_flight"),
        [
            ((2, 1), (0, 1, 2), [3, 2, 1]),  # groups 0, 0, 1: as listed
            ((2, 1), (2, 0, 1), [3, 2, 1]),  # groups 1, 0, 0: as listed
            ((2, 1), (0, 2, 1), [3, 1, 2]),  # groups 0, 1, 0: the last stage goes before the second
            ((2, 2), (2, 0, 3, 1), [4, 2, 3, 1]),  # groups 1, 0, 1, 0: the group that is listed first comes first
            ((2, 2), (0, 2, 3, 1), [4, 2, 1, 3]),  # groups 0, 1, 1, 0
        ],
    )
    def test_the_stages_of_a_group_follow_each_other(
        self, counts: tuple[int, ...], devices: tuple[int, ...], in_flight: list[int]
    ) -> None:
        evaluation = evaluate(grouped(*counts), on(*devices))
        assert evaluation.acyclic
        assert [stage.in_flight for stage in evaluation.stages] == in_flight

    def test_tensors_order_the_groups(self) -> None:
        # Operator 1, in the other group, feeds operator 0: its group is first, then the two stages of group 0.
        back = (MovedTensor(producer=1, consumers=(0,), size=0.0),)
        evaluation = evaluate(grouped(2, 1, tensors=back), on(0, 2, 1))
        assert evaluation.acyclic
        assert [stage.in_flight for stage in evaluation.stages] == [2, 3, 1]

    def test_groups_that_wait_for_each_other(self) -> None:
        # 0 → 1 → 2 without a cycle of stages, but from group 0 to group 1 and back.
        there_and_back = tuple(MovedTensor(producer=i, consumers=(i + 1,), size=0.0) for i in range(2))
        evaluation = evaluate(grouped(2, 1, tensors=there_and_back), on(0, 2, 1))
        assert not evaluation.acyclic
        assert not evaluation.feasible


def shared_stage(*devices: str) -> Plan:
    """Operator 0 on several GPUs, operator 1 on one of its own."""
    first, *others = devices
    return Plan(
        stages=(
            Stage(devices=(first, *others), kind="gpu", operators=(0,), data_parallel=1 + len(others)),
            Stage(devices=("gpu:3",), kind="gpu", operators=(1,)),
        )
    )


class TestReplicasAndStreaming:
    """Devices that take turns, and memory over the limit."""

    gpus = DeviceKind(name="gpu", count=4, memory_bytes=60.0, sync_time_per_byte=0.5, reload_time_per_byte=0.25)
    weights = StoredParameter(name="w", users=(0,), weight_bytes=47.0, gradient_bytes=8.0, optimizer_bytes=2.0)

    def problem(self, **fields: object) -> ThroughputProblem:
        """57 bytes of a parameter and 10 of its own for operator 0, which is 7 too many."""
        return ThroughputProblem(
            name="shared",
            kinds=(self.gpus,),
            operators=(op(0, 4.0, memory_bytes=10.0), op(1, 3.0)),
            tensors=(MovedTensor(producer=0, consumers=(1,), size=6.0),),
            max_replicas=2,
            streaming=True,
            **{"parameters": (self.weights,), **fields},  # type: ignore[arg-type]
        )

    def test_replicas_share_the_work_and_synchronise_gradients(self) -> None:
        first, second = evaluate(self.problem(), shared_stage("gpu:0", "gpu:1")).stages
        assert first.reload == 1.75  # 7 bytes at 0.25
        assert first.synchronisation == 2.0  # 1/2 of 8 bytes at 0.5
        assert (first.load, first.replicas) == ((4 + 6 + 1.75) / 2 + 2, 2)
        assert (second.load, second.replicas, second.synchronisation, second.reload) == (9, 1, 0, 0)

    def test_files_without_parameters_synchronise_operators(self) -> None:
        first, _ = evaluate(self.problem(parameters=()), shared_stage("gpu:0", "gpu:1")).stages
        assert first.synchronisation == 2.5  # 1/2 of 10 bytes at 0.5
        assert first.reload == 0

    def test_once_per_batch(self) -> None:
        batches = self.problem(weight_sync_per_batch=True, schedule=MicrobatchSchedule(microbatches=4))
        first, _ = evaluate(batches, shared_stage("gpu:0", "gpu:1")).stages
        assert first.synchronisation == 0.5

    def test_too_many_replicas(self) -> None:
        evaluation = evaluate(self.problem(), shared_stage("gpu:0", "gpu:1", "gpu:2"))
        assert evaluation.violations == ("stage 0 has 3 replicas, the problem allows 2",)

    def test_replicas_lie_in_one_group(self) -> None:
        within = self.problem(groups=groups_of(2, 2))
        assert evaluate(within, shared_stage("gpu:0", "gpu:1")).feasible
        evaluation = evaluate(within, shared_stage("gpu:0", "gpu:2"))
        assert evaluation.violations == ("the replicas of stage 0 are in different groups",)

    def test_replicas_count_as_devices_to_the_end(self) -> None:
        # The stage is followed by one device: three to the end, two of them take turns, so each holds ⌈3/2⌉.
        problem = self.problem(schedule=MicrobatchSchedule(name="1f1b", microbatches=9))
        assert [stage.in_flight for stage in evaluate(problem, shared_stage("gpu:0", "gpu:1")).stages] == [2, 1]


class TestPeaks:
    """Working memory along the order in which a stage lists its operators."""

    problem = ThroughputProblem(
        name="peaks",
        kinds=(DeviceKind(name="gpu", count=2, memory_bytes=10.0, reload_time_per_byte=0.5),),
        operators=(op(0, 1.0, workspace_bytes=1.0), op(1, 1.0), op(2, 1.0, workspace_bytes=4.0)),
        tensors=(
            MovedTensor(producer=0, consumers=(1,), size=3.0),
            MovedTensor(producer=1, consumers=(2,), size=5.0),
            MovedTensor(producer=0, consumers=(2,), size=2.0),
        ),
        streaming=True,
        working_memory="peak",
    )

    def test_the_peak_is_held(self) -> None:
        # While 0 runs 3 + 2 + 1 are held, while 1 runs 3 + 5 + 2, while 2 runs 5 + 2 + 4 = 11: 1 too many, at 0.5.
        (stage,) = evaluate(self.problem, on_gpus((0, 1, 2))).stages
        assert (stage.memory.workspace, stage.reload, stage.load) == (11, 0.5, 3.5)

    def test_otherwise_the_largest_workspace(self) -> None:
        (stage,) = evaluate(self.problem.replace(working_memory="largest"), on_gpus((0, 1, 2))).stages
        assert (stage.memory.workspace, stage.reload, stage.load) == (4, 0, 3)

    def test_each_stage_has_a_peak_of_its_own(self) -> None:
        # What comes from elsewhere is there when it is read first, what only others read is sent at once.
        first, second = evaluate(self.problem, on_gpus((0,), (1, 2))).stages
        assert first.memory.workspace == 3 + 2 + 1
        assert second.memory.workspace == 5 + 2 + 4

    def test_makers_run_before_readers(self) -> None:
        evaluation = evaluate(self.problem, on_gpus((0, 2, 1)))
        assert evaluation.violations == ("stage 0 runs operator 2 before operator 1, whose tensor it reads",)
        assert not evaluation.feasible
        evaluation = evaluate(self.problem, on_gpus((0,), (2, 1)))
        assert evaluation.violations == ("stage 1 runs operator 2 before operator 1, whose tensor it reads",)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (Plan(stages=()), "the plan has no stages"),
        (on_gpus((0,)), r"operator 1 is in no stage \(1 are missing\)"),
        (on_gpus((0, 1), (1,)), "operator 1 is placed twice, in stages 0 and 1"),
        (on_gpus((0, 0, 1)), "operator 0 is placed twice, in stages 0 and 0"),
        (on_gpus((0, 1, 7)), "plan stage 0: there is no operator with id 7"),
        (plan(("gpu:4", (0, 1))), "plan stage 0: there is no device 'gpu:4' in problem 'chain'"),
        (plan(("gpu:0", (0,)), ("gpu:0", (1,))), "plan stage 1: device 'gpu:0' is used twice"),
        (
            Plan(stages=(Stage(devices=("gpu:0",), kind="cpu", operators=(0, 1)),)),
            "plan stage 0: device 'gpu:0' is not of kind 'cpu'",
        ),
    ],
)
def test_what_is_no_plan_of_the_problem(broken: Plan, message: str) -> None:
    """Each way to fail to be a plan names what is wrong."""
    with pytest.raises(InputError, match=message):
        evaluate(chain([1, 1], [1]), broken)
