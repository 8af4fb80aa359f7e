"""partita export: a plan for a runtime that people use."""

from __future__ import annotations

import sys

import click

from partita.cli.common import STDOUT, check_writable, emit_bytes, emit_json, quiet_stdout, warn
from partita.cli.flags import json_option, option, path_option, subcommand


@subcommand(
    click.argument("result", type=click.Path(), metavar="R.json"),
    option("output", "--to", "name", metavar="NAME", required=True, help="The runtime; see `partita exporters`."),
    path_option(
        "--output",
        metavar="PATH",
        required=True,
        help="The file (- is stdout), or for several files a new folder; see `exporters`.",
    ),
    option(
        "model",
        "--model",
        metavar="MODEL",
        help="The model, for runtimes that get it with the plan: MODEL.onnx, or what was planned if the file moved.",
    ),
    json_option,
)
def export(result: str, name: str, output: str, model: str | None, as_json: bool) -> int:
    """Write the plan of a result file R.json for a runtime.

    What a runtime cannot run is refused with the reason; `partita plan --runtime NAME` plans within its limits.
    """
    from partita.exporters import find_exporter
    from partita.exporters.exporter import FileExporter
    from partita.ground.errors import InputError
    from partita.problems.planned import read_split

    exporter = find_exporter(name)
    check_writable(output)
    if model is not None and not exporter.needs_model:
        raise InputError(f"{name} takes the plan alone; leave --model out")
    written: list[str] = []
    if output == STDOUT:
        if not isinstance(exporter, FileExporter):
            raise InputError(f"{name} takes a folder of several files, which stdout is not; give --output FOLDER")
        if as_json:
            raise InputError("--json and --output - both print on stdout; leave one of them out")
        split = read_split(result)
        with quiet_stdout():
            found = exporter.checked(split, model)
        emit_bytes(found)
    else:
        split = read_split(result)
        written = exporter.export(split, output, model)
    for note in exporter.notes(split):
        warn(f"note: {note}")
    if as_json:
        emit_json({"runtime": name, "written": written})
    else:
        sys.stdout.write("".join(f"{path}\n" for path in written))
    return 0
