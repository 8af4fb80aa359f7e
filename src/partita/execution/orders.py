"""Which process does what in which order: the plan's stages under a schedule, as the simulator has them."""

from __future__ import annotations

from dataclasses import dataclass

from partita.ground.errors import InputError, UnsupportedError
from partita.nouns.split import Split
from partita.simulator.schedules import find_schedule
from partita.simulator.schedules.protocol import Action, Schedule
from partita.simulator.stages import rows_of


@dataclass(frozen=True)
class Process:
    """One process of a run."""

    number: int  #: Its rank in torch.distributed.
    #: The group of devices that it stands for, and which of its data-parallel replicas.
    group: int
    replica: int
    stages: tuple[int, ...]  #: The plan's stages that it runs.
    actions: tuple[Action, ...]  #: What it does, in order; stages are those of the run, which pass once a round.

    @property
    def label(self) -> str:
        """For people."""
        word = "stage" if len(self.stages) == 1 else "stages"
        return f"rank {self.number} ({word} {', '.join(map(str, self.stages))})"


@dataclass(frozen=True)
class Orders:
    """All processes, and who has what."""

    processes: tuple[Process, ...]  #: In the order of their numbers.
    schedule: str  #: The schedule's name.
    #: By stage of the run its group; by group the number of replicas.
    group_of: tuple[int, ...]
    replicas: tuple[int, ...]

    def holder(self, stage: int, microbatch: int) -> int:
        """The number of the process that runs a stage for a microbatch."""
        group = self.group_of[stage]
        return sum(self.replicas[:group]) + microbatch % self.replicas[group]


def make_orders(split: Split, rounds: int, microbatches: int, schedule: str | None, times: int = 1) -> Orders:
    """The processes of a run, for microbatches of the batch over all replicas.

    A microbatch passes the pipeline in so many ``rounds``. The schedule is a name or a CSV file, None for the
    plan's; ``times`` are data-parallel copies of the whole plan.

    Raises ``InputError`` if the schedule does not run with these stages and microbatches; ``UnsupportedError`` if the
    plan asks for what the runner does not do.
    """
    for number, stage in enumerate(split.stages):
        if stage.tensor > 1:
            raise UnsupportedError(
                f"stage {number} has tensor-parallel degree {stage.tensor}, and operators run whole here; plan with "
                "tensor-parallel degree 1, for example --layout tensor=1,…"
            )
        if stage.context > 1:
            raise UnsupportedError(
                f"stage {number} has context-parallel degree {stage.context}, and sequences run whole here; plan with "
                "--context-parallel-degrees 1"
            )
    groups = [stage.rank for stage in split.stages]
    replicas = [0] * split.ranks
    for stage in split.stages:
        replicas[stage.rank] = stage.replicas * times
    if microbatches < max(replicas):
        raise InputError(f"{microbatches} microbatches are too few for {max(replicas)} replicas; give --microbatches")
    name = schedule or (split.schedule if split.training else "forward")
    found = find_schedule(name)
    if found.training != split.training:
        use = "1f1b" if split.training else "forward"
        what = "training" if split.training else "inference"
        raise InputError(f"schedule {found.name} is not for {what}, and this plan is; use {use}")
    if not found.flush:
        raise UnsupportedError(
            f"schedule {found.name} has no end of a batch, and a run ends every batch; use 1f1b or gpipe"
        )
    if rounds > 1 or split.sequential:
        if schedule not in (None, "gpipe", "forward"):
            raise InputError(
                f"schedule {found.name} runs stages in a row, but in this split they wait for each other in a circle; "
                "use gpipe, or leave --schedule out"
            )
        rows = _in_rounds(groups, replicas, rounds, microbatches, split.training)
        name = "gpipe" if split.training else "forward"
    else:
        rows = _in_a_row(found, groups, replicas, microbatches)
        name = found.name
    processes: list[Process] = []
    for group, count in enumerate(replicas):
        stages = tuple(number for number, stage in enumerate(split.stages) if stage.rank == group)
        for replica in range(count):
            processes.append(Process(len(processes), group, replica, stages, tuple(rows[group, replica])))
    return Orders(tuple(processes), name, tuple(groups * rounds), tuple(replicas))


def _in_a_row(
    schedule: Schedule, groups: list[int], replicas: list[int], microbatches: int
) -> dict[tuple[int, int], list[Action]]:
    ranks, chunks = len(replicas), len(groups) // len(replicas)
    if schedule.rank_of(ranks, chunks) != groups:
        raise InputError(
            f"schedule {schedule.name} has stages on ranks {schedule.rank_of(ranks, chunks)}, and the plan has them on "
            f"{groups}; use another schedule, or plan with --schedule {schedule.name}"
        )
    columns = replicas[0]
    if len(set(replicas)) == 1 and microbatches % columns:
        raise InputError(
            f"{microbatches} microbatches are not as many for each of {columns} replicas; take more or fewer replicas, "
            f"or a multiple of {columns}"
        )
    held = [-(-sum(replicas[rank:]) // count) for rank, count in enumerate(replicas)]
    return {
        (row.rank, row.first + k): [a._replace(microbatch=a.microbatch * row.replicas + k) for a in row.actions]
        for row in rows_of("the plan", schedule, replicas, held, chunks, microbatches)
        for k in range(row.replicas)
    }


def _in_rounds(
    groups: list[int], replicas: list[int], rounds: int, microbatches: int, training: bool
) -> dict[tuple[int, int], list[Action]]:
    """Forward in waves, so that a later round of one microbatch runs beside an earlier one of the next; then back."""
    count = len(groups)
    forward = sorted(
        (Action(stage, "F", m) for stage in range(count * rounds) for m in range(microbatches)),
        key=lambda action: (action.microbatch + action.stage // count, action.microbatch, action.stage),
    )
    backward = [action._replace(letter="B") for action in reversed(forward)] if training else []
    rows: dict[tuple[int, int], list[Action]] = {
        (group, replica): [] for group, number in enumerate(replicas) for replica in range(number)
    }
    for action in (*forward, *backward):
        group = groups[action.stage % count]
        rows[group, action.microbatch % replicas[group]].append(action)
    return rows
