"""The hybrid part of ``partita plan`` and ``partita compare``: options, and planning a model's training."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from partita.cli.common import Listed, console, emit_json, exit_code, progress_line, write_result
from partita.errors import InputError, UnsupportedError

if TYPE_CHECKING:
    from partita.cluster import Cluster
    from partita.graph import Graph

__all__ = [
    "HYBRID_OPTIONS",
    "THROUGHPUT_OPTIONS",
    "Counts",
    "check_objective_options",
    "choose_objective",
    "compare_hybrid_model",
    "hybrid_options",
    "hybrid_pricing",
    "hybrid_refusal",
    "plan_hybrid_model",
    "single_count",
]

Command = TypeVar("Command", bound=Callable[..., Any])

#: Options that mean nothing for hybrid plans, by parameter name.
THROUGHPUT_OPTIONS = (
    "contiguity",
    "schedule",
    "recompute",
    "hierarchy",
    "tied",
    "communication",
    "max_replicas",
    "groups",
    "group_bandwidth",
    "streaming",
    "reload_bandwidth",
)

#: Options that only hybrid plans have.
HYBRID_OPTIONS = ("zero1", "no_sequence_parallel", "tensor_parallel_degrees", "recompute_options", "minimise")


class Counts(click.ParamType[tuple[int, ...]]):
    """Numbers from 1: ``32``; a list ``8,16,32``; doubling ``8:64`` (8, 16, 32, 64); or in steps ``8:64:8``."""

    name = "counts"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Read them."""
        if isinstance(value, tuple):
            return value
        found: list[int] = []
        for part in str(value).split(","):
            pieces = part.strip().split(":")
            try:
                numbers = [int(piece) for piece in pieces]
            except ValueError:
                self.fail(f"{value!r} is no number, list such as 8,16,32 or range such as 8:64 or 8:64:8", param, ctx)
            if len(numbers) > 3 or min(numbers) < 1:
                self.fail(
                    f"{part!r} is out of range; numbers are at least 1, and a range is LOW:HIGH[:STEP]", param, ctx
                )
            if len(numbers) == 1:
                found += numbers
                continue
            low, high = numbers[:2]
            if low > high:
                self.fail(f"{part!r} has its low end {low} above its high end {high}", param, ctx)
            if len(numbers) == 3:
                found += range(low, high + 1, numbers[2])
                continue
            while low < high:
                found.append(low)
                low *= 2
            found.append(high)
        if len(set(found)) < len(found):
            self.fail(f"{value!r} has a number twice", param, ctx)
        return tuple(found)


def hybrid_options(command: Command) -> Command:
    """Options of hybrid plans."""
    for option in (
        click.option(
            "--minimise",
            type=click.Choice(["steady", "step"]),
            default="steady",
            show_default=True,
            help="Hybrid: time per sample of an endless row of microbatches, with proof, or of a step with its bubble.",
        ),
        click.option(
            "--recompute-options",
            type=Listed(click.Choice(["none", "selective", "full"])),
            metavar="NAME,…",
            help="Hybrid: what layers may recompute; default none,selective,full.",
        ),
        click.option(
            "--tensor-parallel-degrees",
            type=Listed(click.IntRange(min=1)),
            metavar="T,T,…",
            help="Hybrid: default 1, 2, 4, … up to the devices of a machine.",
        ),
        click.option(
            "--no-sequence-parallel", is_flag=True, help="Hybrid: tensor-parallel groups do not share out tokens."
        ),
        click.option("--zero1", is_flag=True, help="Hybrid: replicas share out the optimizer's states."),
    ):
        command = option(command)
    return command


def choose_objective(
    objective: str | None, cluster: Cluster, training: bool, solver: str | None, *, known: bool = False
) -> tuple[str | None, list[str]]:
    """What to plan for, and what a reader should know about the choice; options that do not fit it are refused.

    Parameters
    ----------
    objective
        What was asked for; None to choose.
    cluster
        The devices.
    training
        Whether the model is traced for training.
    solver
        The solver asked for.
    known
        Whether ``training`` is certain: a graph file may hold a backward part without being asked for one. If it is
        not, the answer may be None.
    """
    refusal = hybrid_refusal(cluster)
    if objective == "hybrid" and refusal is not None:
        raise UnsupportedError(
            f"cluster {cluster.name} {refusal}; hybrid plans need machines that are alike, with devices of one kind: "
            "use --objective throughput"
        )
    if objective is None and not training and not known:
        return None, []
    chosen = objective or ("hybrid" if training and refusal is None else "throughput")
    check_objective_options(chosen, solver)
    if objective is None and training and refusal is not None:
        return chosen, [f"Planned with objective throughput: the cluster {refusal}, and hybrid plans need one kind."]
    return chosen, []


def check_objective_options(objective: str, solver: str | None, *, planned: bool = True) -> None:
    """Refuse options on the command line that the objective does not know.

    With ``planned`` false the objective is that of a file, which has no other, and options of models are not looked at.
    """
    from partita.problems.hybrid.solvers import DEFAULT_HYBRID_SOLVERS

    context = click.get_current_context()
    foreign: tuple[str, ...] = THROUGHPUT_OPTIONS if objective == "hybrid" else HYBRID_OPTIONS
    if not planned:
        foreign = (*HYBRID_OPTIONS, "contiguity") if objective == "hybrid" else HYBRID_OPTIONS
    given = [name for name in foreign if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE]
    flags = {p.name: p.opts[0] for p in context.command.params if isinstance(p, click.Option)}
    if given and not planned:
        raise InputError(f"{flags[given[0]]} means nothing for a file of a {objective} problem; leave it out")
    if given and objective == "hybrid":
        raise InputError(
            f"{flags[given[0]]} is an option of objective throughput, and training is planned with objective hybrid, "
            "which has its own stages, replicas and recomputation; add --objective throughput, or leave it out"
        )
    if given:
        raise InputError(
            f"{flags[given[0]]} is an option of objective hybrid (training on devices of one kind), and this plan has "
            f"objective {objective}; leave it out"
        )
    known = [candidate.name for candidate in DEFAULT_HYBRID_SOLVERS]
    if objective == "hybrid" and solver is not None and solver not in known:
        raise InputError(
            f"solver {solver!r} does not make hybrid plans, with which training is planned; known are "
            f"{', '.join(known)}" + ("; for other solvers add --objective throughput" if planned else "")
        )


def hybrid_refusal(cluster: Cluster) -> str | None:
    """Why hybrid plans cannot be made for a cluster; None if they can."""
    groups = [group for group in cluster.groups() if group.spec.accelerator] or cluster.groups()
    if len(groups) > 1:
        return f"has several kinds of devices ({', '.join(group.spec.name for group in groups)})"
    machine = cluster.machine_of()
    counts: dict[int, int] = {}
    for device in groups[0].indices:
        counts[machine[device]] = counts.get(machine[device], 0) + 1
    if len(set(counts.values())) > 1:
        return f"has machines of {min(counts.values())} to {max(counts.values())} devices"
    return None


def single_count(counts: tuple[int, ...] | None, objective: str) -> int | None:
    """The one number of microbatches; other objectives do not choose among several."""
    if counts is not None and len(counts) > 1:
        raise InputError(f"--microbatches lists {len(counts)} numbers; objective {objective} takes one")
    return None if counts is None else counts[0]


def hybrid_pricing(pricing: dict[str, Any], hybrid: dict[str, Any]) -> dict[str, Any]:
    """Arguments of ``hybrid_problem`` from a command's options."""
    from partita.costs.table import read_cost_table

    table = pricing["cost_table"]
    arguments = {
        "optimizer": pricing["optimizer"],
        "optimizer_dtype": pricing["optimizer_dtype"],
        "costs": None if table is None else read_cost_table(table),
        "zero1": hybrid["zero1"],
        "sequence_parallel": not hybrid["no_sequence_parallel"],
        "degrees": hybrid["tensor_parallel_degrees"] or None,
    }
    if hybrid["recompute_options"]:
        arguments["memory_options"] = tuple(hybrid["recompute_options"])
    return arguments


def plan_hybrid_model(
    graph: Graph,
    cluster: Cluster,
    *,
    microbatches: tuple[int, ...] | None,
    minimise: str,
    solver: str | None,
    time_limit: float,
    seed: int,
    threads: int,
    output: str | None,
    problem_output: str | None,
    as_json: bool,
    pricing: dict[str, Any],
) -> int:
    """Plan, write and show."""
    from partita.cli.hybrid import hybrid_summary
    from partita.conductor.hybrid_planning import plan_hybrid
    from partita.problems.hybrid.report.model_plan import hybrid_model_document, hybrid_model_tables
    from partita.problems.throughput.files.native import write_problem

    with progress_line("s", "planning") as progress:
        answer = plan_hybrid(
            graph,
            cluster,
            microbatches=microbatches or (),
            aim=minimise,  # type: ignore[arg-type]
            time_limit_s=time_limit,
            seed=seed,
            solver=solver,
            threads=threads,
            progress=progress,
            **pricing,
        )
    if problem_output is not None:
        write_problem(problem_output, answer.problem)
    document = hybrid_model_document(answer)
    write_result(output, document)
    if as_json:
        emit_json(document)
    else:
        screen = console()
        for part in hybrid_model_tables(answer):
            screen.print(part, soft_wrap=isinstance(part, str), highlight=False)
    if not as_json or answer.result.plan is None:
        for line in hybrid_summary(answer.result):
            print(line, file=sys.stdout if not as_json and sys.stdout.isatty() else sys.stderr)
    return exit_code(answer.result)


def compare_hybrid_model(
    graph: Graph,
    cluster: Cluster,
    experts: Sequence[str],
    *,
    microbatches: tuple[int, ...],
    minimise: str,
    solver: str | None,
    time_limit: float,
    seed: int,
    threads: int,
    output: str | None,
    as_json: bool,
    pricing: dict[str, Any],
) -> int:
    """Put every recipe, and the plans of result files, beside a model's plan."""
    import dataclasses
    from pathlib import Path

    from partita.cli.hybrid import hybrid_summary
    from partita.conductor.hybrid_comparison import adopt_better_hybrid, judge_hybrid
    from partita.conductor.hybrid_planning import plan_hybrid, update_times
    from partita.problems.hybrid.files.native import read_hybrid_plan
    from partita.problems.hybrid.report.comparison import hybrid_comparison_table
    from partita.problems.hybrid.report.model_plan import hybrid_model_document
    from partita.problems.hybrid.step_time import step_time

    if not graph.training:
        raise InputError("objective hybrid plans training; add --training, or use --objective throughput")
    plans = [(path, read_hybrid_plan(path)) for path in experts]
    with progress_line("s", "planning") as progress:
        answer = plan_hybrid(
            graph,
            cluster,
            microbatches=microbatches,
            aim=minimise,  # type: ignore[arg-type]
            time_limit_s=time_limit,
            seed=seed,
            solver=solver,
            threads=threads,
            progress=progress,
            **pricing,
        )
    rows = list(answer.recipes)
    for path, plan in plans:
        update = update_times(answer.menus, cluster, plan)
        rows.append(
            judge_hybrid(answer.problem, f"expert {Path(path).stem}", f"the plan in {path}", plan, update=update)
        )
    result, step = adopt_better_hybrid(answer.result, rows), answer.step
    if result.plan is not answer.result.plan and result.plan is not None and result.evaluation is not None:
        update = update_times(answer.menus, cluster, result.plan)
        step = step_time(answer.problem, result.plan, result.evaluation, update)
    document = hybrid_model_document(dataclasses.replace(answer, result=result, step=step, recipes=tuple(rows)))
    write_result(output, document)
    if as_json:
        emit_json(document)
    else:
        console().print(hybrid_comparison_table(result, step, rows))
        for line in hybrid_summary(result):
            print(line, file=sys.stdout if sys.stdout.isatty() else sys.stderr)
    return exit_code(result)
