"""What one configuration of a layer consists of."""

from __future__ import annotations

from dataclasses import dataclass

from partita.costs.collectives import sent_share
from partita.costs.strategies.regions import Region


@dataclass(frozen=True)
class Collective:
    """One exchange among the devices of a group, for one microbatch."""

    #: ``all-reduce``, ``all-gather`` or ``reduce-scatter``; ``all-to-all`` where experts are shared out, and ``ring``
    #: where the sequence is.
    kind: str
    #: ``forward``, ``backward``, ``recompute`` (a forward one once more), ``overlapped`` (runs beside arithmetic and
    #: costs no time of its own) or ``batch`` (gradients of weights that all devices hold but use for their own tokens;
    #: once per batch).
    phase: str
    bytes: float  #: Size of the whole tensor; of an ``all-to-all`` what each device has of it.
    tensor: str = ""  #: Its name in the graph.
    members: int = 0  #: Devices of the group; 0 for those of the tensor-parallel one.
    copies: float = 0.0  #: Of an ``all-to-all`` that sends a token once to each reader, rows of one token; else 0.
    beside_s: float = 0.0  #: Of a ``ring``, time of the arithmetic that hides it.

    def sent_bytes(self, degree: int) -> float:
        """What each device sends: (t − 1)/t of the tensor, twice that for an all-reduce."""
        return self.bytes * sent_share(self.kind, self.members or degree)


@dataclass(frozen=True)
class LayerStrategy:
    """One way to run a layer: a tensor-parallel degree and a memory option, with what its numbers are made of."""

    #: Which layer, how many devices, and ``none``, ``selective``, ``full`` or a name of the user's.
    layer: str
    degree: int
    option: str
    #: Arithmetic and memory traffic of one microbatch, in seconds; ``recompute_s`` is what runs a second time.
    forward_s: float
    backward_s: float
    recompute_s: float
    communication_s: float  #: Time of the collectives of one microbatch.
    collectives: tuple[Collective, ...]  #: The exchanges.
    parameters: int  #: Number of weights that each device holds.
    #: What each device holds of them; weights include buffers and frozen ones.
    weight_bytes: float
    gradient_bytes: float
    optimizer_bytes: float
    activation_bytes: float  #: What each device keeps of one microbatch from its forward to its backward pass.
    workspace_bytes: float  #: The most that each device needs while it runs the layer, beyond all that.
    flops: float  #: Floating-point operations of each device for one microbatch, those that run a second time included.
    trained: int = 0  #: Number of weights that each device holds and trains.
    weight_gradient_s: float = 0.0  #: What of ``backward_s`` makes gradients of weights and nothing else.
    #: What of ``communication_s`` is of groups that share out tokens or experts, forward and in all.
    context_expert_s: tuple[float, float] = (0.0, 0.0)
    #: What of the weights, gradients, optimizer's bytes and trained weights is of experts that a group shares out.
    of_experts: tuple[float, float, float, int] = (0.0, 0.0, 0.0, 0)

    @property
    def time_s(self) -> float:
        """Time of one microbatch, forward and backward."""
        return self.compute_s + self.communication_s

    @property
    def compute_s(self) -> float:
        """Time without communication."""
        return self.forward_s + self.backward_s + self.recompute_s

    @property
    def communication_bytes(self) -> float:
        """Bytes that each device sends to its groups for one microbatch, gradients of weights not included."""
        return sum(c.sent_bytes(self.degree) for c in self.collectives if c.phase not in ("overlapped", "batch"))

    @property
    def forward_communication_s(self) -> float:
        """What of the collectives' time is in the forward pass; of the tensor-parallel group's by what is sent."""
        mine = [c for c in self.collectives if not c.members and c.phase not in ("overlapped", "batch")]
        sent = sum(c.sent_bytes(self.degree) for c in mine)
        forward = sum(c.sent_bytes(self.degree) for c in mine if c.phase == "forward")
        shared, all_of_it = self.context_expert_s
        return shared + ((self.communication_s - all_of_it) * forward / sent if sent > 0 else 0.0)


@dataclass(frozen=True)
class StrategySpace:
    """All entries of a layer, with its number and name in the problem, and what can be split in it."""

    id: int
    name: str
    like: int  #: Number of the first layer that is built and run the same way; its own for the first.
    regions: tuple[Region, ...]
    entries: dict[int, tuple[LayerStrategy, ...]]  #: By degree, the ways to run it.

    def entry(self, degree: int, option: str = "none") -> LayerStrategy:
        """The entry of a degree and option; a ``KeyError`` if there is none."""
        return {entry.option: entry for entry in self.entries[degree]}[option]
