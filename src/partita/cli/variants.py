"""Options that choose a variant of the throughput problem."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from partita.problems.throughput.problem import ThroughputProblem

__all__ = ["VARIANT_OPTIONS", "apply_variants", "chosen_variants", "schedule_option", "variant_options"]

Command = TypeVar("Command", bound=Callable[..., Any])

#: Parameter names of the options below, ``schedule`` included.
VARIANT_OPTIONS = (
    "communication",
    "schedule",
    "max_replicas",
    "groups",
    "group_bandwidth",
    "streaming",
    "working_memory",
    "reload_bandwidth",
)

schedule_option = click.option(
    "--schedule",
    type=click.Choice(["1f1b", "gpipe"]),
    help="Overrides the file; gpipe adds the largest forward and the largest backward load.",
)


def variant_options(command: Command) -> Command:
    """Options of every command that reads a throughput problem, but for ``schedule_option``, which models have too."""
    positive = click.FloatRange(min=0, min_open=True)
    for option in (
        click.option(
            "--reload-bandwidth", type=positive, metavar="BYTES_PER_S", help="With --streaming; default the file's."
        ),
        click.option(
            "--working-memory",
            type=click.Choice(["largest", "peak"]),
            help="With --streaming: the largest workspace, or the peak of the order in which operators run.",
        ),
        click.option(
            "--streaming", is_flag=True, help="Memory over the limit is allowed, and fetched for each sample."
        ),
        click.option(
            "--group-bandwidth",
            type=positive,
            default=0.1,
            show_default=True,
            metavar="X",
            help="With --groups: of a group's link, relative to an accelerator's.",
        ),
        click.option(
            "--groups", type=click.IntRange(min=1), metavar="G", help="Devices in G groups behind slower links."
        ),
        click.option(
            "--max-replicas", type=click.IntRange(min=1), metavar="R", help="Most devices that share a stage."
        ),
        click.option(
            "--communication",
            type=click.Choice(["sum", "overlap", "duplex"]),
            help="work + transfers, max(work, transfers), or max(work, in, out).",
        ),
    ):
        command = option(command)
    return command


def chosen_variants(options: dict[str, Any]) -> list[str]:
    """The options that were given, as they are written on the command line."""
    given = {name: value for name, value in options.items() if name != "group_bandwidth"}
    return [f"--{name.replace('_', '-')}" for name, value in given.items() if value not in (None, False)]


def apply_variants(
    problem: ThroughputProblem,
    *,
    communication: str | None = None,
    schedule: str | None = None,
    max_replicas: int | None = None,
    groups: int | None = None,
    group_bandwidth: float = 0.1,
    streaming: bool = False,
    working_memory: str | None = None,
    reload_bandwidth: float | None = None,
    weight_sync_per_batch: bool = False,
) -> ThroughputProblem:
    """The problem with the variants that were asked for."""
    import msgspec

    from partita.problems.throughput.variants import reload_at, split_evenly

    changes: dict[str, Any] = {}
    if communication is not None:
        changes["communication"] = communication
    if schedule is not None:
        changes["schedule"] = msgspec.structs.replace(problem.schedule, name=schedule)
    if max_replicas is not None:
        changes["max_replicas"] = max_replicas
    if streaming:
        changes["streaming"] = True
    if working_memory is not None:
        changes["working_memory"] = working_memory
    if weight_sync_per_batch:
        changes["weight_sync_per_batch"] = True
    if changes:
        problem = problem.replace(**changes)
    if reload_bandwidth is not None:
        problem = reload_at(problem, reload_bandwidth)
    return problem if groups is None else split_evenly(problem, groups, group_bandwidth)
