"""Deployment: which engines serve a model where, how each shares it out, and what a step of each may hold."""

from __future__ import annotations

from typing import Literal

import msgspec

from partita.ground.checks import check_at_least
from partita.ground.errors import InputError
from partita.ground.shown import brief
from partita.nouns.cluster import Cluster

#: What units do of a request: all of it, its prompt, or what comes after that.
UnitRole = Literal["both", "prefill", "decode"]

#: The accelerators of a machine in order: pairs of a kind and how many.
MachineCards = tuple[tuple[str, int], ...]


class DeployedUnits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Units that are alike. Degrees are at least 1; sizes are of each attention-data group of a unit.

    Raises ``InputError`` if there is no unit, or a degree or size is below 1.
    """

    kind: str  #: Name of the kind of device.
    count: int
    role: UnitRole = "both"
    tensor: int = 1  #: Devices that share out every layer.
    pipeline: int = 1  #: Stages.
    attention_data: int = 1  #: Groups that share out requests.
    #: Of a mixture of experts: groups that share out experts, devices that share out each; None without experts.
    expert: int | None = None
    expert_tensor: int | None = None
    apart: bool = False  #: Whether attention-data groups never wait for each other: each has the whole model.
    requests: int  #: Most requests that run at once.
    tokens: int  #: Most tokens in a step.
    block_tokens: int  #: Tokens in a page of the cache.
    chunked: bool = True  #: Whether prompts are cut into chunks.
    mixed: bool = True  #: Whether steps mix prompts and decodes.
    interval: int = 1  #: Steps from one in which requests that decode have prompts beside them to the next.
    reserves: bool = False  #: Whether a request finds room for its output when it is admitted.
    #: By class of requests the share that it takes of those that arrive; empty where who has the fewest takes one.
    shares: tuple[float, ...] = ()
    memory_share: float | None = None  #: Share of a device's memory that weights and cache have; None for the engine's.
    engine: str | None = None  #: The engine whose steps were priced; None if that is not known.
    #: Formats, as ``partita.costs.serving.formats`` calls them; None for what the engine does by itself.
    weights: str | None = None
    expert_weights: str | None = None
    cache: str | None = None

    def __post_init__(self) -> None:
        for name in ("count", "tensor", "pipeline", "attention_data", "requests", "tokens", "block_tokens", "interval"):
            check_at_least(f"units: {name}", getattr(self, name))

    @property
    def devices(self) -> int:
        """Devices of each unit."""
        return self.tensor * self.pipeline * self.attention_data

    @property
    def of_experts(self) -> str | None:
        """The format of the weights of experts."""
        return self.weights if self.expert_weights is None else self.expert_weights

    @property
    def label(self) -> str:
        """Its degrees that are not 1, and its kind, in words."""
        names = ("tensor", "pipeline", "attention_data", "expert", "expert_tensor")
        found = [f"{name.replace('_', '-')} {getattr(self, name)}" for name in names]
        told = [text for text in found if not text.endswith((" None", " 1"))]
        return f"{', '.join(told) or 'one device'} on {self.kind}"


class Deployment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model as it is served: units, and the machines that they are on.

    Raises ``InputError`` if there is no unit or no machine.
    """

    name: str  #: What it serves, in words.
    units: tuple[DeployedUnits, ...]
    machines: tuple[MachineCards, ...]
    longest: int  #: Tokens of the longest request, its output included.

    __repr__ = brief

    def __post_init__(self) -> None:
        if not self.units:
            raise InputError(f"the deployment of {self.name!r} has no units; it needs at least one")
        if not self.machines:
            raise InputError(f"the deployment of {self.name!r} has no machines; it needs at least one")

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of devices of the machines, each once, in order."""
        return tuple(dict.fromkeys(kind for cards in self.machines for kind, _ in cards))

    @property
    def split(self) -> bool:
        """Whether some units serve prompts only, or what comes after them."""
        return any(group.role != "both" for group in self.units)


def machine_cards(cluster: Cluster) -> tuple[MachineCards, ...]:
    """The accelerators of every machine; all devices of one without any."""
    found = []
    for machine in cluster.machines:
        cards = tuple((kind, count) for kind, count in machine.devices if cluster.devices[kind].accelerator)
        found.append(cards or machine.devices)
    return tuple(found)
