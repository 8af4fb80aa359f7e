"""What may be changed of a stated mapping problem, and the words of ``partita.problems.kind`` for it."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from partita.problems import kind, outcome
from partita.problems.mapping.problem import Form, MappingProblem, Placement
from partita.problems.settings import setting

Outcome = outcome.Outcome[Placement]
Solver = kind.Solver[MappingProblem, Placement, kind.SearchOptions]


class MappingChanges(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What may be changed of a stated problem."""

    topology: Annotated[
        str | None,
        setting(
            "The devices: a topology (see `partita topologies`), a file of one, or a bandwidth matrix in CSV.",
            metavar="SPEC|FILE",
            group="problem",
            stated=True,
        ),
    ] = None
    form: Annotated[
        Form | None,
        setting("Terms of the time of a replica: transfers and all-reduce, or one of them.", group="problem"),
    ] = None
    replicas: Annotated[
        int | None, setting("Replicas of each stage.", metavar="R", least=1, group="problem", unit="replicas")
    ] = None


def change(problem: MappingProblem, changes: MappingChanges) -> MappingProblem:
    """The problem with the changes that are stated.

    Raises ``InputError`` if there is no such topology, or the problem cannot be changed so.
    """
    fields: dict[str, Any] = {
        name: value for name in ("form", "replicas") if (value := getattr(changes, name)) is not None
    }
    if changes.topology is not None:
        import numpy as np

        from partita.nouns.topology import topology
        from partita.nouns.topology.counted import CountedLinks

        machine = topology(changes.topology)
        links = machine.bandwidth_bytes_per_s
        if isinstance(links, CountedLinks):
            fields |= {"machines": links.machines, "bandwidth_bytes_per_s": (), "devices": ()}
        else:
            # Infinite there, which JSON cannot say.
            matrix = np.where(np.isfinite(links), links, 0.0)
            fields |= {"machines": (), "devices": tuple(machine.names)}
            fields["bandwidth_bytes_per_s"] = tuple(map(tuple, matrix.tolist()))
        fields["notes"] = (*problem.notes, *machine.notes)
    return problem.replace(**fields) if fields else problem
