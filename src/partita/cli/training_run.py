"""partita training-run: how long a plan trains, what failures take, and what it costs."""

from __future__ import annotations

from typing import Any

import click

from partita.cli.common import emit_json, show
from partita.cli.flags import subcommand


@subcommand(
    click.argument("file", type=click.Path(), metavar="FILE"),
    click.option("--tokens", type=float, required=True, metavar="T", help="Tokens of the whole run, such as 15.6e12."),
    click.option(
        "--device-failure-hours",
        type=float,
        metavar="H",
        help="Mean time between failures of one device; none if not given.",
    ),
    click.option("--checkpoint-s", type=float, metavar="S", help="Seconds that a checkpoint stops training; 60."),
    click.option("--restart-s", type=float, metavar="S", help="Seconds from a failure until training goes on; 600."),
    click.option("--interval-steps", type=int, metavar="N", help="Steps between checkpoints; what loses least."),
    click.option("--price-per-device-hour", type=float, metavar="P", help="Money for one device and hour."),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object."),
)
def training_run(file: str, tokens: float, as_json: bool, **settings: Any) -> int:
    """Say how long the plan in FILE trains on so many tokens.

    FILE is what --output of plan --training writes. With the time between failures, checkpoints are as far apart as
    loses least, and goodput is the share of the time in which training makes progress.
    """
    from dataclasses import asdict

    from partita.api.training_run import training_run as run
    from partita.documents.tables.text import paragraphs

    found = run(file, tokens, **{name: value for name, value in settings.items() if value is not None})
    if as_json:
        figures = ("days", "device_hours", "tokens_per_s", "price")
        known = {key: None if value == float("inf") else value for key, value in asdict(found).items()}
        emit_json({**known, **{name: getattr(found, name) for name in figures}})
    else:
        show([paragraphs("The run", found.sentences())])
    return 0
