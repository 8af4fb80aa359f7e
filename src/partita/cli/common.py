"""What the commands share: options, consoles, progress and exit codes."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import click

from partita.cli.variants import apply_variants, chosen_variants
from partita.errors import InputError, UnsupportedError
from partita.run.result import Event, Progress, Result, Status, StopReason, relative_gap
from partita.units import format_time

if TYPE_CHECKING:
    from rich.console import Console

    from partita.conductor.pipeline import ThroughputResult
    from partita.problems.hybrid.problem import HybridProblem
    from partita.problems.throughput.evaluate import Evaluation
    from partita.problems.throughput.plan import Plan
    from partita.problems.throughput.problem import ThroughputProblem

__all__ = [
    "Listed",
    "Positive",
    "console",
    "emit_json",
    "exit_code",
    "file_options",
    "pipeline_line",
    "positive",
    "progress_line",
    "read_file",
    "reading_options",
    "run_options",
    "summary_lines",
    "weight_sync_option",
    "write_result",
]

Command = TypeVar("Command", bound=Callable[..., Any])


class Positive(click.ParamType[float]):
    """A number above zero; ``inf`` only where it is allowed."""

    name = "number"

    def __init__(self, *, allow_inf: bool = False, allow_zero: bool = False) -> None:
        self.allow_inf = allow_inf
        self.allow_zero = allow_zero

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read the number."""
        try:
            number = float(value)
        except ValueError:
            self.fail(f"{value!r} is not a number", param, ctx)
        low_enough = number > 0 or (self.allow_zero and number == 0)
        if not low_enough or (number == float("inf") and not self.allow_inf):
            self.fail(f"{value} is out of range; give a {'' if self.allow_zero else 'positive '}number", param, ctx)
        return number


positive = Positive()


class Listed(click.ParamType[list[Any]]):
    """Values of one type between commas, each once."""

    name = "list"

    def __init__(self, item: click.ParamType[Any]) -> None:
        self.item = item

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[Any]:
        """Read the list."""
        if isinstance(value, list):
            return value
        found = [self.item.convert(part.strip(), param, ctx) for part in str(value).split(",")]
        if len(set(found)) < len(found):
            self.fail(f"{value!r} has a value twice", param, ctx)
        return found


def run_options(command: Command) -> Command:
    """Options of every command that searches."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout."),
        click.option("--output", type=click.Path(), metavar="R.json", help="Write the result file."),
        click.option("--threads", type=click.IntRange(min=1), default=2, show_default=True, help="Threads to use."),
        click.option("--seed", type=int, default=0, show_default=True, help="Same seed, same answer."),
        click.option("--time-limit", type=positive, default=60.0, show_default=True, help="Seconds for the search."),
        click.option("--solver", metavar="NAME", help="See `partita solvers`."),
        click.option(
            "--contiguity",
            type=click.Choice(["acyclic", "free"]),
            default="acyclic",
            show_default=True,
            help="acyclic: stages in a row; free: any assignment.",
        ),
    ):
        command = option(command)
    return command


def file_options(command: Command) -> Command:
    """Options that say how to read a problem file and what to change in it."""
    for option in (
        click.option("--memory", type=Positive(allow_inf=True, allow_zero=True), help="Bytes per accelerator, or inf."),
        click.option("--devices", type=click.IntRange(min=0), help="Number of accelerators; overrides the file."),
        reading_options,
    ):
        command = option(command)
    return command


weight_sync_option = click.option(
    "--weight-sync-per-batch", is_flag=True, help="Replicas synchronise weights once per batch, not per microbatch."
)


def reading_options(command: Command) -> Command:
    """The options of ``file_options`` without those that a sweep has lists of."""
    for option in (
        click.option("--scale-communication", type=Positive(allow_zero=True), default=1.0, help="Factor on transfers."),
        click.option("--microbatches", type=click.IntRange(min=1), help="Microbatches per batch; overrides the file."),
        click.option("--cpus", type=click.IntRange(min=0), help="Number of CPUs; overrides the file."),
        click.option(
            "--problem",
            "problem_kind",
            type=click.Choice(["throughput", "latency"]),
            default="throughput",
            show_default=True,
        ),
        click.option(
            "--format",
            "file_format",
            type=click.Choice(["partita", "dnn-partitioning", "piper", "moirai", "cost-graph"]),
            help="Recognised from the file's keys if not given.",
        ),
    ):
        command = option(command)
    return command


def read_file(
    path: str,
    file_format: str | None,
    problem_kind: str,
    devices: int | None,
    cpus: int | None,
    memory: float | None,
    microbatches: int | None,
    scale_communication: float,
    *,
    weight_sync_per_batch: bool | None = None,
    **variants: Any,
) -> Any:
    """The problem of a file, with the overrides applied; ``variants`` are those of ``partita.cli.variants``.

    Commands that know hybrid problems pass ``weight_sync_per_batch``; for the others such a file is an error.
    """
    import msgspec

    from partita.problems.hybrid.problem import HybridProblem
    from partita.problems.importers import detect_format, read_problem

    problem = read_problem(path, file_format, problem_kind, scale_communication=scale_communication)
    if isinstance(problem, HybridProblem):
        if weight_sync_per_batch is None:
            raise UnsupportedError(f"{path} states a hybrid problem; use `partita solve`, `evaluate` or `bound` on it")
        if given := chosen_variants(variants):
            raise UnsupportedError(f"{path} states a hybrid problem, which knows no {given[0]}")
        problem = override_hybrid(
            problem,
            devices=devices,
            cpus=cpus,
            memory=memory,
            microbatches=microbatches,
            weight_sync_per_batch=weight_sync_per_batch,
        )
        print_notes(problem.notes, path, file_format)
        return problem
    changes: dict[str, Any] = {}
    if microbatches is not None:
        changes["schedule"] = msgspec.structs.replace(problem.schedule, microbatches=microbatches)
    if devices is not None or cpus is not None or memory is not None or changes:
        problem = problem.replace(accelerators=devices, cpus=cpus, memory_bytes=memory, **changes)
    if variants.get("working_memory") == "peak" and (file_format or detect_format(path)) == "dnn-partitioning":
        raise UnsupportedError(
            f"{path} gives transfer times instead of bytes of tensors, so peaks of memory mean nothing; "
            "leave out --working-memory peak"
        )
    problem = apply_variants(problem, weight_sync_per_batch=bool(weight_sync_per_batch), **variants)
    print_notes(problem.notes, path, file_format)
    return problem


def print_notes(notes: tuple[str, ...], path: str, file_format: str | None) -> None:
    """Warn of what is odd about a file.

    A problem that partita wrote carries notes about its making; only foreign files are a surprise to warn of.
    """
    from partita.problems.importers import detect_format

    foreign = (file_format or detect_format(path)) != "partita"
    for note in notes if foreign else ():
        print(f"partita: note: {note}", file=sys.stderr)


def override_hybrid(
    problem: HybridProblem,
    *,
    devices: int | None,
    cpus: int | None,
    memory: float | None,
    microbatches: int | None,
    weight_sync_per_batch: bool,
) -> HybridProblem:
    """A hybrid problem with the command line's overrides."""
    if cpus:
        raise InputError(f"{problem.name} is a hybrid problem, which has no CPUs; leave --cpus out")
    changes: dict[str, Any] = {"devices": devices, "microbatches": microbatches}
    changes = {name: value for name, value in changes.items() if value is not None}
    if weight_sync_per_batch:
        changes["weight_sync_per_batch"] = True
    return problem.replace(memory_bytes=memory, **changes)


def console() -> Console:
    """Where tables go: stdout on a terminal, stderr otherwise, so that stdout stays for data."""
    from rich.console import Console

    if sys.stdout.isatty():
        return Console()
    # Piped tables still need room; a terminal's own width is kept.
    return Console(stderr=True, width=None if sys.stderr.isatty() else 140)


def emit_json(document: dict[str, Any]) -> None:
    """Print one JSON object on stdout."""
    import msgspec

    sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
    sys.stdout.flush()


@contextlib.contextmanager
def progress_line(unit: str, label: str) -> Iterator[Progress]:
    """A live line on a terminal's stderr with the best plan and bound; silent elsewhere."""
    if not sys.stderr.isatty():
        yield _notes_only
        return
    from rich.console import Console

    screen = Console(stderr=True)
    with screen.status(f"{label} …") as status:

        def show(event: Event) -> None:
            if event.note:
                screen.print(f"[dim]{event.note}[/dim]")
            best = "none yet" if event.objective is None else format_time(event.objective, unit)
            bound = "none yet" if event.bound is None else format_time(event.bound, unit)
            gap = relative_gap(event.objective, event.bound)
            text = "" if gap is None else f", gap {gap:.3%}"
            status.update(f"{label}: best {best}, bound {bound}{text} ({event.time_s:.1f} s)")

        yield show


def _notes_only(event: Event) -> None:
    if event.note:
        print(f"partita: {event.note}", file=sys.stderr)


def exit_code(result: Result[Any, Any, Any]) -> int:
    """130 after an interruption, 1 for a proven infeasible problem, else 0."""
    if result.stop_reason is StopReason.INTERRUPTED:
        return 130
    return 1 if result.status is Status.INFEASIBLE else 0


def summary_lines(result: ThroughputResult) -> list[str]:
    """Objective, bound, gap and status in words."""
    unit = result.problem.unit
    if result.objective is None:
        reason = f": {result.reason}" if result.reason else ""
        return [f"{result.status} ({result.stop_reason}, {result.runtime_s:.2f} s){reason}"]
    bound = "none" if result.bound is None else format_time(result.bound.value, unit)
    gap = "unknown" if result.gap is None else f"{result.gap:.4%}"
    return [
        f"objective {format_time(result.objective, unit)} per sample, proven bound {bound}, gap {gap}",
        *_pipeline_lines(result),
        f"{result.status}, stopped: {result.stop_reason}, {result.runtime_s:.2f} s, solver {result.solver}",
    ]


def _pipeline_lines(result: ThroughputResult) -> list[str]:
    if result.plan is None or result.evaluation is None:
        return []
    return [pipeline_line(result.problem, result.plan, result.evaluation)]


def pipeline_line(problem: ThroughputProblem, plan: Plan, evaluation: Evaluation) -> str:
    """Depth of the pipeline and the time one sample takes, in words."""
    from partita.problems.throughput.sample_latency import pipeline_of

    found = pipeline_of(problem, plan, evaluation)
    stages = f"{found.stages} stage{'s' if found.stages != 1 else ''}"
    if found.virtual_stages != found.stages:
        stages += f" as {found.virtual_stages} virtual ones"
    return (
        f"pipeline of {stages}, {found.depth} deep: a sample takes {format_time(found.latency, problem.unit)} when it "
        f"is full, {format_time(found.latency_alone, problem.unit)} alone"
    )


def write_result(path: str | None, document: dict[str, Any]) -> None:
    """Write the result file, if one was asked for."""
    if path is not None:
        from partita.documents.document import write_json

        write_json(path, document)


def check_writable(path: str | None) -> None:
    """Fail before the search, not after it, when the result's folder does not exist."""
    from pathlib import Path

    if path is not None and not Path(path).resolve().parent.is_dir():
        raise InputError(f"{path}: the folder {Path(path).resolve().parent} does not exist; create it first")
