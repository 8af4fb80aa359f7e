"""partita sweep: one row for every point of a grid."""

from __future__ import annotations

from typing import Any

import click

from partita.cli import EXIT_INTERRUPTED
from partita.cli.common import Output, SearchArguments, output_options, progress_line, run_options, warn
from partita.cli.flags import axes_of, axis_flags, path_option, subcommand, take_axes
from partita.cli.options import (
    file_options,
    machine_options,
    model_options,
    settings_beside_axes,
    take_workers,
    worker_options,
)
from partita.cli.source import read_source
from partita.ground.errors import require


@subcommand(
    click.argument("what", metavar="FILE|MODEL"),
    machine_options,
    axis_flags,
    model_options,
    file_options,
    settings_beside_axes,
    run_options,
    worker_options,
    output_options,
    path_option("--csv", "csv_path", metavar="OUT.csv", help="Write the rows as CSV."),
    path_option("--plot", "plot_path", metavar="OUT.png", help="Draw the rows (needs partita[plot])."),
)
def sweep(what: str, csv_path: str | None, plot_path: str | None, **parameters: Any) -> int:
    """Plan FILE or MODEL at every combination of the values given.

    Values that are not given stay as the file or the cluster has them. For a model, --devices replaces the count of
    the cluster: --cluster A100-80GB --devices 2,4,8; with --cluster 8xA100-80GB --devices 8,16,64 devices are added
    in machines of eight. --time-limit is that of each point. Points that have no plan are rows, too. Ctrl-C writes
    the rows so far and ends with status 130. --jobs solves points side by side that do not bound each other.
    """
    from partita.conductor.sweep import grid
    from partita.conductor.sweep import sweep as run
    from partita.engines.processes.pool import Pool
    from partita.report.sweep import save_sweep, sweep_csv, sweep_document, sweep_table

    output = Output.take(parameters, csv_path, plot_path)
    search, axes = SearchArguments.take(parameters), take_axes(parameters)
    workers = take_workers(parameters)
    if plot_path is not None:
        require("matplotlib", "plot")
    source = read_source(what, parameters, search.solver)
    facet = source.kind.sweep
    with progress_line(source.unit, "sweeping") as progress, Pool(*workers) as pool:
        swept = run(
            grid(axes_of(source.kind, axes)),
            source.at,
            time_limit_s=search.time_limit,
            seed=search.seed,
            solver=search.solver,
            threads=search.threads,
            pool=pool,
            progress=progress,
            **source.options,
        )
    document = sweep_document(source.name, source.unit, swept.rows(), interrupted=swept.interrupted)
    output.document(document)
    if csv_path is not None:
        from partita.documents.document import write_atomic

        write_atomic(csv_path, sweep_csv(document).encode())
    if plot_path is not None and swept.points:
        save_sweep(plot_path, facet.axes, document)
    if swept.points:
        output.show([sweep_table(facet, document)])
    if swept.interrupted:
        warn(f"interrupted after {len(swept.points)} rows")
    return EXIT_INTERRUPTED if swept.interrupted else 0
