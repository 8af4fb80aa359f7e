"""partita sweep: one row for every point of a grid."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from partita.cli import EXIT_INTERRUPTED
from partita.cli.common import Output, output_options, progress_line, run_options, take_search, warn
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
    from partita.api.sweeping import sweep_source
    from partita.engines.processes.pool import Pool
    from partita.report.sweep import save_sweep

    output = Output.take(parameters, csv_path, plot_path)
    search, axes = take_search(parameters), take_axes(parameters)
    workers = take_workers(parameters)
    if plot_path is not None:
        require("matplotlib", "plot")
    source = read_source(what, parameters, search.solver)
    with progress_line("sweeping") as progress:
        found = sweep_source(source, axes_of(source.kind, axes), replace(search, progress=progress), Pool(*workers))
    output.document(found.document())
    if csv_path is not None:
        found.save_csv(csv_path)
    if plot_path is not None and found.points:
        save_sweep(plot_path, found.facet.axes, found.document())
    output.show(found.tables())
    if found.interrupted:
        warn(f"interrupted after {len(found.points)} rows")
    return EXIT_INTERRUPTED if found.interrupted else 0
