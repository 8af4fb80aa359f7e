"""partita sweep: one row for every number of devices, memory and bandwidth."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from partita.cli.common import (
    Listed,
    Positive,
    check_writable,
    console,
    emit_json,
    positive,
    progress_line,
    read_file,
    reading_options,
    weight_sync_option,
    write_result,
)
from partita.cli.model import is_model, model_options, pricing_arguments, read_cluster, read_model, take_pricing
from partita.cli.plan_hybrid import HYBRID_OPTIONS, check_objective_options, choose_objective, hybrid_options
from partita.cli.sweep_hybrid import HybridRun, SweepSource, sweep_hybrid_points
from partita.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from partita.conductor.sweep import Point
    from partita.problems.throughput.problem import ThroughputProblem

__all__ = ["sweep"]

EXIT_INTERRUPTED = 130


@click.command()
@click.argument("what", metavar="FILE|MODEL")
@click.option("--devices", type=Listed(click.IntRange(min=1)), default=[], metavar="N,N,…", help="Accelerators.")
@click.option(
    "--memory",
    type=Listed(Positive(allow_inf=True, allow_zero=True)),
    default=[],
    metavar="B,B,…",
    help="Bytes per accelerator, or inf.",
)
@click.option(
    "--bandwidth", type=Listed(positive), default=[], metavar="X,X,…", help="Factors on every bandwidth, e.g. 0.5,1,2."
)
@click.option("--cluster", metavar="CLUSTER", help="For a model: a device such as A100-80GB, or any cluster.")
@click.option(
    "--objective",
    type=click.Choice(["throughput", "hybrid"]),
    help="For a model; default: hybrid for training on devices of one kind, otherwise throughput.",
)
@model_options
@hybrid_options
@weight_sync_option
@reading_options
@click.option("--contiguity", type=click.Choice(["acyclic", "free"]), default="acyclic", show_default=True)
@click.option("--solver", metavar="NAME", help="See `partita solvers`.")
@click.option("--time-limit", type=positive, default=60.0, show_default=True, help="Seconds for each point.")
@click.option("--seed", type=int, default=0, show_default=True, help="Same seed, same answer.")
@click.option("--threads", type=click.IntRange(min=1), default=2, show_default=True, help="Threads to use.")
@click.option("--csv", "csv_path", type=click.Path(), metavar="OUT.csv", help="Write the rows as CSV.")
@click.option("--plot", "plot_path", type=click.Path(), metavar="OUT.png", help="Draw the rows (needs partita[plot]).")
@click.option("--output", type=click.Path(), metavar="OUT.json", help="Write the rows as JSON.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
def sweep(
    what: str,
    devices: list[int],
    memory: list[float],
    bandwidth: list[float],
    cluster: str | None,
    objective: str | None,
    contiguity: str,
    solver: str | None,
    time_limit: float,
    seed: int,
    threads: int,
    csv_path: str | None,
    plot_path: str | None,
    output: str | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Split FILE or MODEL at every combination of the values given.

    Training on devices of one kind, and files of hybrid problems, are planned with data, tensor and pipeline
    parallelism at once. With --cluster 8xA100-80GB --devices 8,16,64 devices are added in machines of eight.

    Values that are not given stay as the file or the cluster has them. For a model, --devices replaces the count of
    the cluster: --cluster A100-80GB --devices 2,4,8. Points that have no plan are rows, too. Ctrl-C writes the rows so
    far and ends with status 130.
    """
    from partita.conductor.sweep import grid
    from partita.conductor.sweep import sweep as run
    from partita.problems.throughput.report.sweep import sweep_csv, sweep_document, sweep_table

    for path in (csv_path, plot_path, output):
        check_writable(path)
    if plot_path is not None:
        _check_plotting()
    points = grid(devices, memory, bandwidth)
    hybrid = {option: options.pop(option) for option in HYBRID_OPTIONS}
    source = _read(what, cluster, objective, solver, options)
    if source.hybrid:
        run_options = HybridRun(time_limit, seed, solver, threads, hybrid)
        return sweep_hybrid_points(
            source, points, run_options, csv_path=csv_path, plot_path=plot_path, output=output, as_json=as_json
        )
    problem_at, name, unit = _problems(source)
    with progress_line(unit, "sweeping") as progress:
        found = run(
            points,
            problem_at,
            time_limit_s=time_limit,
            seed=seed,
            contiguity=contiguity,  # type: ignore[arg-type]
            solver=solver,
            threads=threads,
            progress=progress,
        )
    document = sweep_document(name, unit, found)
    write_result(output, document)
    if csv_path is not None:
        from partita.documents.document import write_atomic

        write_atomic(csv_path, sweep_csv(found).encode())
    if plot_path is not None and found.rows:
        from partita.tables.plots import save_sweep

        save_sweep(plot_path, document)
    if as_json:
        emit_json(document)
    else:
        console().print(sweep_table(unit, found))
    if found.interrupted:
        print(f"partita: interrupted after {len(found.rows)} rows", file=sys.stderr)
    return EXIT_INTERRUPTED if found.interrupted else 0


def _check_plotting() -> None:
    """Fail before the search, not after it."""
    import importlib.util

    if importlib.util.find_spec("matplotlib") is None:
        raise MissingExtraError("matplotlib", "plot")


def _read(
    what: str, cluster: str | None, objective: str | None, solver: str | None, options: dict[str, Any]
) -> SweepSource:
    """Read the file, or trace the model: once for all points."""
    pricing = take_pricing(options)
    per_batch = options.pop("weight_sync_per_batch")
    reading = {name: options.pop(name) for name in ("file_format", "problem_kind", "cpus", "scale_communication")}
    microbatches = options.pop("microbatches")
    if not is_model(what):
        if objective is not None:
            raise InputError(f"{what} is a file, which states its own objective; leave --objective out")
        problem = read_file(
            what, devices=None, memory=None, microbatches=microbatches, weight_sync_per_batch=per_batch, **reading
        )
        found = SweepSource(problem=problem, microbatches=microbatches)
        check_objective_options("hybrid" if found.hybrid else "throughput", solver, planned=False)
        return found
    if cluster is None:
        raise InputError(f"{what} is a model; say what to split it over with --cluster, for example A100-80GB")
    # A mistake in the cluster or the options should not cost the time of tracing.
    machines = read_cluster(cluster)
    chosen, notes = choose_objective(objective, machines, options["training"], solver)
    graph = read_model(what, **options)
    if chosen is None:
        chosen, notes = choose_objective(objective, machines, graph.training, solver, known=True)
    if chosen == "hybrid" and not graph.training:
        raise InputError("objective hybrid plans training; add --training, or use --objective throughput")
    for note in notes:
        print(f"partita: note: {note}", file=sys.stderr)
    return SweepSource(
        graph=graph, cluster=machines, text=cluster, pricing=pricing, microbatches=microbatches, objective=chosen
    )


def _problems(source: SweepSource) -> tuple[Callable[[Point], ThroughputProblem], str, str]:
    """The throughput problem at a point, a name for the whole, and the time unit."""
    from partita.conductor.sweep import scale_bandwidth

    base = source.problem
    if base is not None:
        stated: ThroughputProblem = base

        def from_file(point: Point) -> ThroughputProblem:
            changed = stated
            if point.devices is not None or point.memory_bytes is not None:
                changed = stated.replace(accelerators=point.devices, memory_bytes=point.memory_bytes)
            return scale_bandwidth(changed, point.bandwidth)

        return from_file, stated.name, stated.unit
    from partita.problems.throughput.from_model import price

    graph, text = source.graph, source.text
    assert graph is not None

    def from_model(point: Point) -> ThroughputProblem:
        machines = read_cluster(text if point.devices is None else _counted(text, point.devices))
        problem = price(graph, machines, **pricing_arguments(source.pricing, graph, machines, source.microbatches))
        if point.memory_bytes is not None:
            problem = problem.replace(memory_bytes=point.memory_bytes)
        return scale_bandwidth(problem, point.bandwidth)

    return from_model, graph.name, "s"


def _counted(cluster: str, devices: int) -> str:
    """The cluster with another device count; it must be one machine of one kind, in the short form."""
    from partita.catalogue.shortform import parse_short_form

    hint = f"--devices needs a cluster of one kind such as A100-80GB, and {cluster!r} is not one"
    try:
        form = parse_short_form(cluster)
    except InputError as error:
        raise InputError(f"{hint}: {error}") from error
    machine = form.machines[0]
    if len(form.machines) != 1 or machine.count != 1 or len(machine.devices) != 1:
        raise InputError(f"{hint}; write one cluster per run, or sweep a problem file")
    link = "" if machine.link is None else f"@{machine.link}"
    return f"{devices}x{machine.devices[0][0]}{link}"
