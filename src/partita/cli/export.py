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
        help="The model, for runtimes that get it with the plan: MODEL.onnx, what was planned if the file moved, or of "
        "engines that serve the name that they load.",
    ),
    json_option,
)
def export(result: str, name: str, output: str, model: str | None, as_json: bool) -> int:
    """Write the plan of a result file R.json for a runtime.

    What a runtime cannot run is refused with the reason; `partita plan --runtime NAME` plans within its limits.
    """
    from partita.exporters.prepared import check_name, prepare, writes_folder
    from partita.ground.errors import InputError
    from partita.problems.planned import read_exported

    check_name(name, model)
    check_writable(output, folders=True)
    folder = f"{name} takes a folder of several files, which stdout is not; give --output FOLDER"
    if output == STDOUT and writes_folder(name):
        raise InputError(folder)
    if output == STDOUT and as_json:
        raise InputError("--json and --output - both print on stdout; leave one of them out")
    prepared = prepare(read_exported(result), name, model)
    written: list[str] = []
    if output == STDOUT:
        if prepared.content is None:
            raise InputError(folder)
        with quiet_stdout():
            found = prepared.content()
        emit_bytes(found)
    else:
        written = prepared.write(output)
    for note in prepared.notes():
        warn(f"note: {note}")
    if as_json:
        emit_json({"runtime": prepared.name, "written": written})
    else:
        sys.stdout.write("".join(f"{path}\n" for path in written))
    return 0
