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
    write_result,
)
from partita.cli.model import is_model, model_options, pricing_arguments, read_cluster, read_model, take_pricing
from partita.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from partita.sweep import Point
    from partita.throughput.problem import ThroughputProblem

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
@model_options
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

    Values that are not given stay as the file or the cluster has them. For a model, --devices replaces the count of
    the cluster: --cluster A100-80GB --devices 2,4,8. Points that have no plan are rows, too. Ctrl-C writes the rows so
    far and ends with status 130.
    """
    from partita.reports.sweep import sweep_csv, sweep_document, sweep_table
    from partita.sweep import grid
    from partita.sweep import sweep as run

    for path in (csv_path, plot_path, output):
        check_writable(path)
    if plot_path is not None:
        _check_plotting()
    problem_at, name, unit = _problems(what, cluster, options)
    with progress_line(unit, "sweeping") as progress:
        found = run(
            grid(devices, memory, bandwidth),
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
        from partita.formats.document import write_atomic

        write_atomic(csv_path, sweep_csv(found).encode())
    if plot_path is not None and found.rows:
        from partita.reports.plots import save_sweep

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


def _problems(
    what: str, cluster: str | None, options: dict[str, Any]
) -> tuple[Callable[[Point], ThroughputProblem], str, str]:
    """The problem at a point, a name for the whole, and the time unit; reads or traces once."""
    from partita.sweep import scale_bandwidth

    pricing = take_pricing(options)
    reading = {name: options.pop(name) for name in ("file_format", "problem_kind", "cpus", "scale_communication")}
    microbatches = options.pop("microbatches")
    if not is_model(what):
        base = read_file(what, devices=None, memory=None, microbatches=microbatches, **reading)

        def from_file(point: Point) -> ThroughputProblem:
            changed = base
            if point.devices is not None or point.memory_bytes is not None:
                changed = base.replace(accelerators=point.devices, memory_bytes=point.memory_bytes)
            return scale_bandwidth(changed, point.bandwidth)

        return from_file, base.name, base.unit
    from partita.costs.price import price

    if cluster is None:
        raise InputError(f"{what} is a model; say what to split it over with --cluster, for example A100-80GB")
    # A mistake in the cluster should not cost the time of tracing.
    read_cluster(cluster)
    graph = read_model(what, **options)

    def from_model(point: Point) -> ThroughputProblem:
        machines = read_cluster(cluster if point.devices is None else _counted(cluster, point.devices))
        problem = price(graph, machines, **pricing_arguments(pricing, graph, machines, microbatches))
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
