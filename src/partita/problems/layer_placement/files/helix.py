"""The published layer placements: layers, machines with their tables, and links.

Source: the tables of the mixed-integer programs of Helix (ASPLOS 2025, artifact). Rates are tokens per second.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from partita.documents.document import decode
from partita.problems.layer_placement.problem import LayerMachine, LayerPlacementProblem, PublishedFlow, TokenLink


class _HelixMachine(msgspec.Struct):
    name: str
    tokens_per_s: dict[int, float]
    type: str = ""


class _Link(msgspec.Struct):
    source: str = msgspec.field(name="from")
    target: str = msgspec.field(name="to")
    tokens_per_s: float = msgspec.field()


class _Published(msgspec.Struct):
    objective: float
    bound: float | None = None
    seconds: float | None = None


class _HelixWorkload(msgspec.Struct):
    layers: int
    machines: list[_HelixMachine]
    links: list[_Link]
    name: str = ""
    source: str = ""
    overlap: bool = False
    published: _Published | None = None


def read_helix(data: bytes, path: str | Path, *, scale_communication: float = 1.0) -> LayerPlacementProblem:
    """Read a layer placement; keys beside the known ones are ignored, links carry 1 / scale times as many tokens.

    Raises ``FormatError`` if the file is malformed; ``InputError`` if the problem is invalid.
    """
    document = decode(data, _HelixWorkload, path)
    one = document.published
    problem = LayerPlacementProblem(
        name=document.name or Path(path).stem,
        layers=document.layers,
        machines=tuple(
            LayerMachine(name=machine.name, tokens_per_s=machine.tokens_per_s, type=machine.type)
            for machine in document.machines
        ),
        links=tuple(
            TokenLink(source=link.source, target=link.target, tokens_per_s=link.tokens_per_s) for link in document.links
        ),
        overlap=document.overlap,
        published=None if one is None else PublishedFlow(objective=one.objective, bound=one.bound, seconds=one.seconds),
        notes=(document.source,) if document.source else (),
    )
    return problem.scale_communication(scale_communication)
