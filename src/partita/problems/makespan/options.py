"""What can be asked of a makespan plan, what may be changed of a stated problem, and what a search leaves behind."""

from __future__ import annotations

import math
from functools import partial
from typing import Annotated, Literal

import msgspec

from partita.problems import kind, outcome
from partita.problems.facets.model import Pricing
from partita.problems.makespan.fusion import fuse_problem
from partita.problems.makespan.problem import MakespanPlan, MakespanProblem
from partita.problems.settings import setting


class MakespanOptions(kind.SearchOptions, frozen=True, kw_only=True):
    """What a search may use."""

    episodes: Annotated[
        int, setting("Episodes that the learned baseline trains for.", metavar="N", least=1, unit="episodes")
    ] = 200


Outcome = outcome.Outcome[MakespanPlan]
Solver = kind.Solver[MakespanProblem, MakespanPlan, MakespanOptions]

#: Why a search ends without a plan.
NONE_FOUND = "it found no schedule that fits into memory"


#: How fusing is asked for, of a problem in a file and of a model.
FUSE_HELP = "Operators are fused by rules over their types: one kernel for a group, as the runtime runs it."
RULES_HELP = "Rules for --fuse, which it implies: common, moirai, or a file in TOML or JSON."


#: What is asked of problems in files alone.
_STATED = partial(setting, group="problem", stated=True)


class MakespanPricing(Pricing, frozen=True, kw_only=True):
    """How a model on a cluster becomes a problem; ``pricing.price`` says what each means."""

    tied: Annotated[
        Literal["copy", "together"],
        setting("Tied parameters: a copy on each device that reads them, or their readers on one device."),
    ] = "copy"
    fuse: Annotated[bool, setting(FUSE_HELP)] = False
    fusion_rules: Annotated[str | None, setting(RULES_HELP, metavar="RULES")] = None


class MakespanChanges(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What may be changed of a stated problem."""

    memory: Annotated[
        float | None,
        setting(
            "Bytes (or what the file counts memory in) per device, or inf.",
            metavar="BYTES",
            in_bytes=True,
            least=0,
            group="problem",
        ),
    ] = None
    ignore_sender_congestion: Annotated[bool, _STATED("Flows that leave one device may overlap.")] = False
    ignore_receiver_congestion: Annotated[bool, _STATED("Flows that enter one device may overlap.")] = False
    parallel_operators: Annotated[bool, _STATED("Operators on one device may overlap.")] = False
    fuse: Annotated[bool, _STATED(FUSE_HELP)] = False
    fusion_rules: Annotated[str | None, _STATED(RULES_HELP, metavar="RULES")] = None


def change(problem: MakespanProblem, changes: MakespanChanges) -> MakespanProblem:
    """The problem with the changes that are stated; an infinite memory removes the limits.

    Raises ``InputError`` if the problem cannot be changed so.
    """
    if changes.memory is not None:
        limit = None if math.isinf(changes.memory) else changes.memory
        devices = tuple(msgspec.structs.replace(device, memory=limit) for device in problem.devices)
        problem = problem.replace(devices=devices)
    switches = {
        "sender_congestion": changes.ignore_sender_congestion,
        "receiver_congestion": changes.ignore_receiver_congestion,
        "serial_operators": changes.parallel_operators,
    }
    off = {name: False for name, asked in switches.items() if asked}
    if off:
        problem = problem.replace(**off)
    if changes.fuse or changes.fusion_rules is not None:
        problem = fuse_problem(problem, changes.fusion_rules).problem
    return problem
