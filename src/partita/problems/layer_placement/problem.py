"""The layer placement problem: which consecutive layers of a served model each of several unlike machines holds.

Source: Mei et al., "Helix: Serving Large Language Models over Heterogeneous GPUs and Network via Max-Flow" (ASPLOS
2025), §3 and §4; the same question stands behind Petals (Borzunov et al., 2023) and SWARM (Ryabinin et al., 2023).

A model of L layers is served by machines that each hold one interval of consecutive layers, or nothing. Tokens flow
from the source, which feeds machines that begin with the first layer, to the sink, which takes from those that end with
the last; a machine hands on to machines that begin where it ends. A machine passes at most as many tokens per second as
its table says for the number of layers that it holds, a link as many as it carries. The largest flow is looked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

import msgspec

from partita.ground.checks import check_at_least, check_number, check_positive
from partita.ground.errors import InputError
from partita.problems.kind import Stated
from partita.problems.settings import setting

#: Names of the ends of all flow in links.
SOURCE, SINK = "source", "sink"


class LayerSteps(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a machine works through the requests that it holds, with a number of layers."""

    requests: int  #: Requests whose cache it has room for beside the weights; no more are in a step.
    step_s: float  #: What a step takes however few requests are in it, such as reading the weights.
    prompt_s: float | None = None  #: What the prompt of a request takes; None where it counts as one more token.


class MachineEnd(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tables of a machine that also holds what comes before the first layer, or behind the last."""

    tokens_per_s: dict[int, float]
    steps: dict[int, LayerSteps] = {}


class LayerMachine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A machine, or a group of devices that works as one."""

    name: str
    #: Tokens per second that it passes, by the number of layers that it holds; it holds no number that is not named.
    tokens_per_s: dict[int, float]
    type: str = ""  #: For people.
    #: By the number of layers; where it says nothing, see ``pace``.
    steps: dict[int, LayerSteps] = {}
    #: Where it holds the first or the last layer, and passes no more than these say, too; None for no difference. The
    #: tables of the last layer say of a machine that holds all layers what it does with both ends.
    first: MachineEnd | None = None
    last: MachineEnd | None = None

    def ends(self, first: int, behind: int, layers: int) -> list[MachineEnd]:
        """The tables that hold beside its own for an interval of so many layers in all."""
        return [
            end for end, there in ((self.first, first == 0), (self.last, behind == layers)) if there and end is not None
        ]

    def passes(self, first: int, behind: int, layers: int) -> float | None:
        """Tokens per second with an interval of so many layers in all; None where tables say nothing of the number."""
        held = behind - first
        rates = [
            table.get(held)
            for table in (self.tokens_per_s, *(e.tokens_per_s for e in self.ends(first, behind, layers)))
        ]
        known = [rate for rate in rates if rate is not None]
        return min(known) if len(known) == len(rates) else None

    def told(self, layers: int) -> bool:
        """Whether all its tables say how it steps with every number of layers, up to those of the model."""
        return all(k in one.steps for one in self.tables() for k in one.tokens_per_s if k <= layers)

    def tables(self) -> list[LayerMachine | MachineEnd]:
        """Its own, and those of the ends that differ."""
        return [self, *(end for end in (self.first, self.last) if end is not None)]

    @property
    def most_layers(self) -> int:
        """What it holds at most."""
        return max(self.tokens_per_s, default=0)


class TokenLink(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is carried from one machine to another at most, in tokens per second; the ends are ``source``, ``sink``."""

    source: str = msgspec.field(name="from")
    target: str = msgspec.field(name="to")
    tokens_per_s: float
    latency_s: float = 0.0  #: Seconds from one end to the other, beside what its width takes.


class PublishedFlow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is published of an instance, in tokens per second: a flow, its bound, and seconds that it took."""

    objective: float
    bound: float | None = None
    seconds: float | None = None


class HeldLayers(msgspec.Struct, frozen=True, kw_only=True):
    """The layers of one machine: the first, counted from 0, and the one behind the last."""

    name: str
    layers: tuple[int, int]


class LinkFlow(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens per second over one link."""

    source: str = msgspec.field(name="from")
    target: str = msgspec.field(name="to")
    tokens_per_s: float


class LayerPlacement(msgspec.Struct, frozen=True, kw_only=True):
    """A plan: the layers of every machine that holds any, and the flow on every link that carries any.

    Without ``flows`` it is partial; ``evaluate.complete`` adds a largest flow.
    """

    machines: tuple[HeldLayers, ...]
    flows: tuple[LinkFlow, ...] = ()


class LayerPlacementProblem(Stated, frozen=True, kw_only=True):
    """Hand out the layers so that the most tokens per second flow; the objective is seconds per token, 1 / flow.

    Raises
    ------
    InputError
        If there are no layers or machines, two machines or links are the same, a link names no machine, or a number of
        a table is negative, not finite or of no layers.
    """

    kind: ClassVar[str] = "layer_placement"
    format: ClassVar[str] = "partita.layer-placement"

    name: str = "layer placement"
    layers: Annotated[int, setting("Layers of the model.", metavar="N", least=1, group="problem", unit="layers")]
    machines: tuple[LayerMachine, ...]
    links: tuple[TokenLink, ...]
    #: Whether tokens may enter a machine inside its layers, which then computes only what they miss.
    overlap: Annotated[
        bool, setting("Tokens may enter a machine in the middle of its layers (Helix's overlap rule).", group="problem")
    ] = False
    #: Of the requests that rates are for; None where nothing is known of them.
    prompt_tokens: Annotated[
        int | None,
        setting("Tokens of every prompt.", metavar="P", least=1, group="problem", unit="tokens", stated=True),
    ] = None
    output_tokens: Annotated[
        int | None,
        setting("Tokens of every output.", metavar="O", least=1, group="problem", unit="tokens", stated=True),
    ] = None
    worth: Annotated[
        Literal["flow", "served"],
        setting(
            "What counts: the largest flow of tokens, as published; or tokens served in a simulated run, with the room "
            "for caches and the length of paths.",
            group="problem",
        ),
    ] = "flow"
    run_requests: Annotated[
        int,
        setting(
            "Requests of the run in which tokens served are counted.",
            metavar="N",
            least=1,
            group="problem",
            unit="requests",
        ),
    ] = 500
    #: Of ``served`` where machines do not say for how many requests they have room.
    layer_requests: Annotated[
        int | None,
        setting(
            "Requests whose caches of a layer take as much memory as its weights, for machines of which only rates are "
            "known.",
            metavar="N",
            least=1,
            group="problem",
            unit="requests",
            stated=True,
        ),
    ] = None
    published: PublishedFlow | None = None

    def __post_init__(self) -> None:
        where = f"problem {self.name!r}"
        check_at_least(f"{where}: layers", self.layers)
        if not self.machines:
            raise InputError(f"{where} has no machines; give at least one")
        names: set[str] = set()
        for machine in self.machines:
            if machine.name in names or machine.name in (SOURCE, SINK):
                why = "is an end of all flow" if machine.name in (SOURCE, SINK) else "is there twice"
                raise InputError(f"{where}: the name {machine.name!r} of a machine {why}; give it another one")
            names.add(machine.name)
            for own in (machine, machine.first, machine.last):
                if own is not None:
                    _check_tables(f"{where}: machine {machine.name!r}", own)
        known: set[tuple[str, str]] = set()
        for link in self.links:
            owner = f"{where}: link from {link.source!r} to {link.target!r}"
            for end, other in ((link.source, SOURCE), (link.target, SINK)):
                if end != other and end not in names:
                    raise InputError(f"{owner}: there is no machine {end!r}")
            if link.source == link.target or (link.source, link.target) in known:
                what = "leads back" if link.source == link.target else "is there twice"
                raise InputError(f"{owner} {what}; leave it out")
            known.add((link.source, link.target))
            check_number(owner, "tokens_per_s", link.tokens_per_s)
            check_number(owner, "latency_s", link.latency_s)
        if self.published is not None:
            check_positive(f"{where}: published", "objective", self.published.objective)
        for name in ("prompt_tokens", "output_tokens", "run_requests", "layer_requests"):
            if getattr(self, name) is not None:
                check_at_least(f"{where}: {name}", getattr(self, name))
        if self.worth == "served":
            self._check_served(where)

    def _check_served(self, where: str) -> None:
        """Refuse what cannot be simulated."""
        if self.output_tokens is None:
            raise InputError(f"{where}: tokens served are counted in requests; say how long (--output-tokens)")
        unknown = next((machine.name for machine in self.machines if not machine.told(self.layers)), None)
        if unknown is not None and self.layer_requests is None:
            raise InputError(
                f"{where}: machine {unknown!r} does not say for how many requests it has room beside its layers "
                "(steps); say how many requests' caches of a layer take as much memory as its weights "
                "(--layer-requests)"
            )

    def shortage(self) -> str | None:
        """Why there is no plan, where counting shows it; None where it does not."""
        most = sum(
            max((k for k, rate in machine.tokens_per_s.items() if rate > 0 and k <= self.layers), default=0)
            for machine in self.machines
        )
        if most < self.layers:
            return (
                f"all machines together hold {most} layers, and the model has {self.layers}; "
                f"machines for {self.layers - most} more layers would do"
            )
        for missing, ends in ((SOURCE, self._neighbours(source=True)), (SINK, self._neighbours(source=False))):
            if not any(ends):
                return f"no link of the {missing} carries tokens; one at a machine would do"
        return None

    def _neighbours(self, *, source: bool) -> Iterator[str]:
        """Machines that the source feeds, or that the sink takes from."""
        for link in self.links:
            end, other = (link.source, link.target) if source else (link.target, link.source)
            if end == (SOURCE if source else SINK) and link.tokens_per_s > 0:
                yield other

    def scale_communication(self, factor: float) -> LayerPlacementProblem:
        """A copy in which every token has ``factor`` times as many bytes, so that links carry fewer of them.

        Raises ``InputError`` if the factor is not finite and positive.
        """
        check_positive(f"problem {self.name!r}", "the communication scale", factor)
        if factor == 1.0:
            return self
        return self.replace(
            links=tuple(msgspec.structs.replace(link, tokens_per_s=link.tokens_per_s / factor) for link in self.links)
        )


def _check_tables(owner: str, tables: LayerMachine | MachineEnd) -> None:
    for count, rate in tables.tokens_per_s.items():
        check_at_least(f"{owner}: a number of layers in tokens_per_s", count)
        check_number(owner, f"tokens_per_s with {count} layers", rate)
    for count, steps in tables.steps.items():
        check_at_least(f"{owner}: a number of layers in steps", count)
        check_at_least(f"{owner}: requests with {count} layers", steps.requests)
        check_number(owner, f"step_s with {count} layers", steps.step_s)
        if steps.prompt_s is not None:
            check_number(owner, f"prompt_s with {count} layers", steps.prompt_s)
