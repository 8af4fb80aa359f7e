"""partita sweep: one row for every point of a grid."""

from __future__ import annotations

from typing import Any

import click

from partita.cli.common import (
    EXIT_INTERRUPTED,
    STDOUT,
    check_writable,
    emit_json,
    output_options,
    progress_line,
    run_options,
    show,
    warn,
    write_document,
)
from partita.cli.flags import GroupedCommand, axes_of, grouped, sweep_flags, take_axes, take_flags
from partita.cli.source import (
    Model,
    Stated,
    cluster_options,
    file_options,
    is_model,
    model_options,
    read_file,
    read_model,
    refuse_model_options,
    settings_beside_axes,
    take_reading,
)
from partita.errors import MissingExtraError

__all__ = ["command"]


def command() -> click.Command:
    """The command, with a flag for every setting and every axis that some problem has."""

    @click.command("sweep", cls=GroupedCommand)
    @click.argument("what", metavar="FILE|MODEL")
    @cluster_options
    @sweep_flags
    @model_options
    @file_options
    @settings_beside_axes
    @run_options
    @output_options
    @grouped(
        "output",
        (("--csv", "csv_path"), {"type": click.Path(), "metavar": "OUT.csv", "help": "Write the rows as CSV."}),
        (
            ("--plot", "plot_path"),
            {"type": click.Path(), "metavar": "OUT.png", "help": "Draw the rows (needs partita[plot])."},
        ),
    )
    def sweep(
        what: str,
        cluster: str | None,
        objective: str | None,
        solver: str | None,
        time_limit: float,
        seed: int,
        threads: int,
        csv_path: str | None,
        plot_path: str | None,
        output: str | None,
        as_json: bool,
        **parameters: Any,
    ) -> int:
        """Plan FILE or MODEL at every combination of the values given.

        Values that are not given stay as the file or the cluster has them. For a model, --devices replaces the count of
        the cluster: --cluster A100-80GB --devices 2,4,8; with --cluster 8xA100-80GB --devices 8,16,64 devices are added
        in machines of eight. --time-limit is that of each point. Points that have no plan are rows, too. Ctrl-C writes
        the rows so far and ends with status 130.
        """
        from partita.conductor.sweep import grid
        from partita.conductor.sweep import sweep as run
        from partita.tables.sweep import sweep_csv, sweep_document, sweep_table

        check_writable(csv_path, plot_path, output)
        if plot_path is not None:
            _check_plotting()
        given, reading = take_flags(parameters), take_reading(parameters)
        axes = take_axes(parameters)
        source: Model | Stated
        if is_model(what):
            source = read_model(what, cluster, objective, given, parameters, solver=solver)
            name, unit = source.graph.name, "s"
            for note in source.notes:
                warn(f"note: {note}")
        else:
            refuse_model_options(what)
            source = read_file(what, *reading, given)
            name, unit = source.problem.name, source.problem.unit
        facet = source.kind.sweep
        with progress_line(unit, "sweeping") as progress:
            swept = run(
                grid(axes_of(source.kind, axes)),
                source.at,
                time_limit_s=time_limit,
                seed=seed,
                solver=solver,
                threads=threads,
                progress=progress,
                **source.options,
            )
        document = sweep_document(name, unit, swept.rows(), interrupted=swept.interrupted)
        write_document(output, document)
        if csv_path is not None:
            from partita.documents.document import write_atomic

            write_atomic(csv_path, sweep_csv(document).encode())
        if plot_path is not None and swept.points:
            from partita.tables.plots import save_sweep

            save_sweep(plot_path, facet.axes, document)
        if as_json and output != STDOUT:
            emit_json(document)
        elif not as_json and output != STDOUT and swept.points:
            show([sweep_table(facet, document)])
        if swept.interrupted:
            warn(f"interrupted after {len(swept.points)} rows")
        return EXIT_INTERRUPTED if swept.interrupted else 0

    return sweep


def _check_plotting() -> None:
    """Fail before the search, not after it."""
    import importlib.util

    if importlib.util.find_spec("matplotlib") is None:
        raise MissingExtraError("matplotlib", "plot")
