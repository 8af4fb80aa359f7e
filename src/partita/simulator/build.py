"""From a program to tasks: every part of every step, for every microbatch, with what it waits for and what it takes."""

from __future__ import annotations

from partita.simulator.batch_end import add_ends
from partita.simulator.builder import Builder, Tasks
from partita.simulator.program import Program
from partita.simulator.transfers import add_messages


def build(program: Program) -> Tasks:
    """The tasks of a program."""
    builder = Builder(program)
    builder.add_steps()
    if builder.contended:
        # Transfers between the ends of every message, over engines of devices and links that are shared or taken.
        add_messages(builder)
    if program.ends:
        add_ends(builder)
    return builder.tasks()
