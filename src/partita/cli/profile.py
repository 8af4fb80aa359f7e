"""partita profile: a model's operators, timed where it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from partita.cli.common import Output, output_options, quiet_stdout, warn
from partita.cli.flags import option, subcommand, together
from partita.cli.options import model_options, read_fields, take_inputs
from partita.ground.errors import InputError

if TYPE_CHECKING:
    from partita.costs.calibration import Calibration
    from partita.costs.profile import Profile
    from partita.nouns.graph import Graph

_count = click.IntRange(min=1)

#: How a model is measured.
measuring_options = together(
    option("machine", "--processes", type=_count, default=1, help="Copies at work at the same time."),
    option("machine", "--threads", type=_count, help="Threads of each; an equal share of the cores if not given."),
    option("machine", "--device", type=click.Choice(("cpu", "cuda")), help="Where; cuda where there is one."),
    option("machine", "--device-name", metavar="NAME", help="Name in clusters, such as A100-80GB; the processor's."),
    option("search", "--warm-up", type=click.IntRange(min=0), default=2, help="Runs before."),
    option("search", "--repeats", type=click.IntRange(min=2), default=10, help="Runs that count."),
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
def profile(model: str | None, by: str, calibrate: str | None, against: str | None, **parameters: Any) -> int:
    """Time MODEL's operators on this machine, and messages between processes.

    MODEL is path/to/file.py:callable or hf:TYPE_OR_FILE, with random weights. `partita plan MODEL --costs
    PROFILE.json` plans with what was measured, for the machine it was measured on. With --calibrate no model is
    run.
    """
    output = Output.take(parameters)
    if calibrate is not None:
        if model is not None:
            raise InputError(f"--calibrate reads {calibrate} and runs no model; leave {model} out")
        return _calibrate(calibrate, against, output)
    if model is None:
        raise InputError("there is no model; name one to profile, or a profile with --calibrate")
    if against is not None:
        raise InputError("--against goes with --calibrate; leave it out")
    graph, found = _measure(model, parameters)
    output.document(found.to_dict())
    output.show(_tables(graph, found, by))
    return 0


def _measure(model: str, parameters: dict[str, Any]) -> tuple[Graph, Profile]:
    from partita.frontends.options import Asked
    from partita.profiler.profile import profile_model

    asked = Asked(
        parameters["batch_size"],
        parameters["sequence_length"],
        parameters["dtype"],
        read_fields(parameters["set_fields"]),
        parameters["task"],
        parameters["training"],
        parameters["decode"],
        take_inputs(parameters),
    )
    if asked.decode is not None:
        raise InputError("a step of decoding is planned only, not run; leave --decode out")
    measuring = {name: parameters[name] for name in ("processes", "threads", "warm_up", "repeats", "device_name")}
    with quiet_stdout():
        graph, found = profile_model(asked.source(model), device=parameters["device"] or _best_device(), **measuring)
    missing = sum(place is None and not op.free for op, place in zip(graph.operators, found.operators, strict=True))
    if missing:
        warn(f"note: {missing} operators did not run as they were traced; plans take the roofline for them")
    return graph, found


def _best_device() -> str:
    from partita.ground.errors import require

    require("torch", "torch")
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def _calibrate(path: str, against: str | None, output: Output) -> int:
    from partita.costs.calibration import calibrate, device_toml
    from partita.costs.profile import read_profile
    from partita.documents.tables.profile import calibration_document, calibration_table
    from partita.nouns.catalogue.loader import load_catalogue

    found = read_profile(path)
    calibration: Calibration = calibrate(found, found.spec if against is None else load_catalogue().device(against))
    output.document(calibration_document(calibration))
    output.show([calibration_table(calibration), device_toml(calibration)])
    return 0


def _tables(graph: Graph, found: Profile, by: str) -> list[Any]:
    from partita.costs.calibration import calibrate
    from partita.documents.tables.profile import block_table, calibration_table, operator_table, profile_lines

    table = block_table(graph, found) if by == "block" else operator_table(found)
    return [table, calibration_table(calibrate(found, found.spec)), profile_lines(graph, found)]
