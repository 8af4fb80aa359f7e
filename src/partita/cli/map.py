"""partita map: place stages and replicas on the devices of a topology."""

from __future__ import annotations

import click

from partita.cli.solve import verb_command


def command() -> click.Command:
    """The command."""
    return verb_command("map")
