"""partita profile: a model's operators, timed where it runs."""

from __future__ import annotations

from typing import Any

import click

from partita.cli.common import Output, output_options, quiet_stdout, warn
from partita.cli.flags import Whole, option, subcommand, together
from partita.cli.options import model_options
from partita.cli.source import take_tracing
from partita.ground.errors import InputError

_count = Whole(min=1)

#: How a model is measured.
measuring_options = together(
    option("machine", "--processes", type=_count, default=1, help="Copies at work at the same time."),
    option("machine", "--threads", type=_count, help="Threads of each; an equal share of the cores if not given."),
    option("machine", "--device", type=click.Choice(("cpu", "cuda")), help="Where; cuda where there is one."),
    option("machine", "--device-name", metavar="NAME", help="Name in clusters, such as A100-80GB; the processor's."),
    option("search", "--warm-up", type=Whole(min=0), default=2, help="Runs before."),
    option("search", "--repeats", type=Whole(min=2), default=10, help="Runs that count."),
)


@subcommand(
    click.argument("model", required=False),
    model_options,
    measuring_options,
    option(
        "output",
        "--by",
        type=click.Choice(("operator", "block")),
        default="operator",
        help="Rows of the table: distinct operators, or the model's repeated blocks.",
    ),
    option("output", "--calibrate", metavar="PROFILE.json", help="Compare a profile with the roofline, and fit that."),
    option("output", "--against", metavar="DEVICE", help="With --calibrate: an entry of the catalogue."),
    output_options,
)
def profile(model: str | None, by: Any, calibrate: str | None, against: str | None, **parameters: Any) -> None:
    """Time MODEL's operators on this machine, and messages between processes.

    MODEL is path/to/file.py:callable or hf:TYPE_OR_FILE, with random weights. `partita plan MODEL --costs
    PROFILE.json` plans with what was measured, for the machine it was measured on. With --calibrate no model is
    run.
    """
    output = Output.take(parameters)
    if calibrate is not None:
        _calibrate(output, calibrate, against, model)
        return
    if model is None:
        raise InputError("there is no model; name one to profile, or a profile with --calibrate")
    if against is not None:
        raise InputError("--against goes with --calibrate; leave it out")
    from partita.api.profiling import profile_named

    asked = take_tracing(parameters)
    with quiet_stdout():
        found = profile_named(model, asked, **parameters)
    if found.missing:
        warn(f"note: {found.missing} operators did not run as they were traced; plans take the roofline for them")
    output.value(found.document())
    output.show(found.tables(by))


def _calibrate(output: Output, path: str, against: str | None, model: str | None) -> None:
    from partita.costs.calibration import calibrate, device_toml
    from partita.costs.profile import read_profile
    from partita.documents.tables import profile as tables
    from partita.nouns.catalogue.loader import load_catalogue

    if model is not None:
        raise InputError(f"--calibrate reads {path} and runs no model; leave {model} out")
    found = read_profile(path)
    calibration = calibrate(found, found.spec if against is None else load_catalogue().device(against))
    output.value(tables.calibration_document(calibration))
    output.show([tables.calibration_table(calibration), device_toml(calibration)])
