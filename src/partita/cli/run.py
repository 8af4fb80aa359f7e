"""partita run: a plan on processes of this machine, compared with the model that is not split."""

from __future__ import annotations

from typing import Any

import click

from partita.cli.common import check_writable, emit_json, show
from partita.cli.flags import Positive, Whole, json_option, option, path_option, seed_type, subcommand
from partita.cli.options import input_options, read_fields
from partita.ground.errors import require

_count = Whole(min=1)


@subcommand(
    click.argument("result", type=click.Path(), metavar="R.json"),
    option("model", "--model", metavar="MODEL", help="How the model is made, if the file does not say so."),
    option("model", "--batch-size", type=_count, help="With --model: samples per microbatch."),
    option("model", "--sequence-length", type=_count, help="With --model: tokens per sample."),
    option("model", "--dtype", metavar="NAME", help="With --model: the number format that was planned."),
    option("model", "--set", "set_fields", multiple=True, metavar="FIELD=VALUE", help="With --model: its settings."),
    option("model", "--task", metavar="NAME", help="With --model: the head of an hf: model."),
    input_options,
    option("machine", "--processes", type=_count, metavar="N", help="A multiple of the plan's: so many copies of it."),
    option("machine", "--threads", type=_count, default=1, help="Of each process."),
    option("machine", "--port", type=Whole(1, 65535), help="Where processes meet; a file if not given."),
    option(
        "machine",
        "--timeout",
        "timeout_s",
        type=Positive(),
        default=20.0,
        help="Seconds without progress after which a process counts as hanging.",
    ),
    option("schedule", "--microbatches", type=_count, metavar="M", help="Of the batch, over all replicas."),
    option("schedule", "--schedule", metavar="NAME|FILE.csv", help="See `partita schedules`; the plan's if not given."),
    option("training", "--steps", type=_count, default=1, metavar="K", help="Steps to compare."),
    option("training", "--optimizer", type=click.Choice(("sgd", "adam")), default="sgd"),
    option("training", "--learning-rate", type=Positive(), default=1e-3),
    option("search", "--seed", type=seed_type, default=0, help="Of weights and inputs."),
    option("search", "--tolerance", type=Positive(), default=1e-4, help="Largest relative error."),
    option("search", "--repeats", type=_count, default=3, help="Batches that are timed."),
    path_option("--trace", metavar="TRACE.json", help="Write the measured time line for Perfetto or chrome://tracing."),
    json_option,
)
def run(
    result: str,
    model: str | None,
    set_fields: tuple[str, ...],
    processes: int | None,
    microbatches: int | None,
    trace: str | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Run the plan of a result file R.json on processes of this machine, and check it.

    Outputs, loss and the gradient of every parameter are compared with those of the model that is not split, run
    on the same microbatches with the same weights, which follow from the seed.
    """
    require("torch", "torch")
    from partita.api.running import MeasuredRun
    from partita.execution.run import run_plan
    from partita.frontends.given import read_short, together
    from partita.simulator.trace_file import write_trace

    check_writable(trace)
    names = ("batch_size", "sequence_length", "dtype", "task")
    settings = {name: value for name in names if (value := options.pop(name)) is not None}
    if set_fields:
        settings["set"] = read_fields(set_fields)
    given = together(read_short(options.pop("input_entries")), options.pop("inputs_file"))
    if given:
        settings["inputs"] = given
    found = MeasuredRun(
        run_plan(result, model=model, settings=settings, processes=processes, microbatches=microbatches, **options)
    )
    if trace is not None:
        write_trace(trace, found.timeline)
    if as_json:
        emit_json(found.document())
    else:
        show(found.tables())
    return 0 if found.verified else 1
