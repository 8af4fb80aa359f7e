"""Split: a plan in terms of the model, as whoever runs or exports it needs it.

Whatever problem the plan was made for, a split says which part of the model runs where, in pipeline order.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from partita.ground.errors import InputError
from partita.ground.shown import brief
from partita.nouns.catalogue.formats import Formats
from partita.nouns.cluster import Cluster
from partita.nouns.graph import Source
from partita.nouns.pipeline import state_copies

Part = Literal["input", "block", "output"]

#: What a stage keeps in the host's memory where its optimizer runs there.
OPTIMIZER_STATES = "optimizer states"


class Card(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A device of the cluster, which counts them as it was stated: machine after machine."""

    kind: str  #: Its name in the catalogue.
    machine: int = 0  #: Number of its machine.
    accelerator: bool = True  #: Whether it is an accelerator.


def cards_of(cluster: Cluster) -> tuple[Card, ...]:
    """The devices of a cluster, in its order."""
    return tuple(
        Card(kind=name, machine=machine, accelerator=cluster.devices[name].accelerator)
        for name, machine in zip(cluster.device_names(), cluster.machine_of(), strict=True)
    )


class RuntimeLayer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of the row of parts that runtimes count: what comes before the blocks, each block, what comes behind them."""

    name: str  #: The block's qualified module name; ``input`` and ``output`` for the parts at the ends.
    part: Part  #: Which of the three it is.
    #: Outermost modules all of whose forward operators are in it, without those that make constants only.
    modules: tuple[str, ...] = ()
    stages: tuple[int, ...] = ()  #: The stages that run a part of it, ascending: one, unless the layer is cut.
    #: What of it runs again in the backward part: ``none``, ``full``, ``attention`` (what lies between attention's two
    #: products), ``operators`` (all but the results of attention and of every other product), ``stage`` (all that its
    #: stage has, as one piece), or the name of a configuration that a user stated.
    recompute: str = "none"


class StagePart(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What of a model runs together, and where."""

    rank: int  #: Place of its group of devices; with several stages on a device (chunks) stages share ranks.
    devices: tuple[str, ...]  #: Names of its devices, replica after replica; each replica has ``tensor`` of them.
    kind: str = ""  #: Name of their kind in the catalogue.
    accelerator: bool = True  #: Whether they are accelerators.
    #: Data-parallel replicas, and devices of each tensor-parallel group.
    replicas: int = 1
    tensor: int = 1
    #: Indices of its operators in the traced graph, ascending, with those of the backward part.
    operators: tuple[int, ...] = ()
    #: Outermost modules all of whose forward operators are on the stage, in execution order.
    modules: tuple[str, ...] = ()
    context: int = 1  #: Tensor-parallel groups of each replica, which share out its sequence.
    expert: int = 1  #: Of all groups so many, one behind the other, share out experts.
    expert_tensor: int = 0  #: Devices of each of these groups; 0 for the tensor-parallel ones.
    #: Numbers of its devices among the cards of the split, in the order of ``devices``; empty if not known.
    places: tuple[int, ...] = ()
    #: Ids of the plan's layers that it has, where these are not the operators themselves.
    planned: tuple[int, ...] = ()
    #: What is kept in the host's memory: ``activations``, ``optimizer states``, both, ``weights``, or nothing.
    offload: str = ""

    __repr__ = brief


class Send(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tensors of the forward part that go from one stage to another."""

    #: Stages.
    source: int
    target: int
    bytes: int  #: Together, for one microbatch.
    tensors: tuple[str, ...] = ()  #: Their names in the graph.


class Weight(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A stored array and the stages whose operators read it."""

    #: Its qualified name, and further names of the same array.
    name: str
    aliases: tuple[str, ...] = ()
    stages: tuple[int, ...] = ()  #: Ascending; empty if nothing reads it.
    buffer: bool = False  #: Whether it is a buffer; those are copied wherever they are read.
    trained: bool = True  #: Whether training changes it.


class SharedModule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A module that calls operators of its own on several stages."""

    name: str  #: Its qualified name; the empty string is the root.
    #: For each of its own forward operators, in execution order, what it computes (``aten.add.Tensor``) and its stage.
    operators: tuple[tuple[str, int], ...]
    joins: int = 0  #: How many of these read tensors that were made on different stages.


class Split(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model over stages in pipeline order.

    Raises ``InputError`` if there is no stage, or a stage or card is named that does not exist.
    """

    model: str  #: The model's name.
    stages: tuple[StagePart, ...]  #: In pipeline order, first stage first.
    layers: tuple[RuntimeLayer, ...] = ()  #: The chain of the model's layers, in the model's order.
    #: What stages send each other in the forward part, constants (masks, positions) left out: every stage makes them
    #: itself, or gets them beside its input.
    sends: tuple[Send, ...] = ()
    constants: tuple[Send, ...] = ()  #: The same for these constants.
    weights: tuple[Weight, ...] = ()  #: All stored arrays of the model.
    shared: tuple[SharedModule, ...] = ()  #: Modules that call operators of their own on several stages.
    source: Source | None = None  #: Where it comes from; None if that is not known.
    training: bool = False  #: Whether the plan is of a training step.
    schedule: str = "forward"  #: How microbatches run through the stages.
    microbatches: int = 1  #: Of a batch, over all replicas.
    chunks: int = 1  #: Stages of each rank.
    zero: int = 0  #: What replicas share out (ZeRO's stage).
    zero_shards: int = 0  #: Groups of the same weights that do among them; 0 for all.
    sequential: bool = False  #: Whether one sample runs alone, stage after stage, instead of a pipeline of several.
    #: Samples of a microbatch, and tokens of each; 0 if not known.
    samples: int = 0
    sequence: int = 0
    dtype: str = ""  #: Number format of most of the weights; empty if not known.
    packed: str = ""  #: What frozen weights are kept in, unpacked for each product; empty for their own format.
    sequence_parallel: bool = True  #: Whether tensor-parallel groups share out tokens where they share out no features.
    overlap: bool = True  #: Whether replicas exchange gradients behind the backward part.
    #: Of training; None if not known.
    optimizer: str | None = None
    formats: Formats | None = None
    cards: tuple[Card, ...] = ()  #: All devices of the cluster, in its order; empty if not known.

    __repr__ = brief

    def __post_init__(self) -> None:
        if not self.stages:
            raise InputError(f"the split of {self.model!r} has no stages; a split needs at least one")
        named = [number for send in (*self.sends, *self.constants) for number in (send.source, send.target)]
        named += [number for layer in self.layers for number in layer.stages]
        named += [number for weight in self.weights for number in weight.stages]
        wrong = next((number for number in named if not 0 <= number < len(self.stages)), None)
        if wrong is not None:
            raise InputError(f"the split of {self.model!r} names stage {wrong} and has {len(self.stages)} stages")
        for number, stage in enumerate(self.stages):
            if stage.places and len(stage.places) != len(stage.devices):
                raise InputError(
                    f"stage {number} of the split of {self.model!r} has {len(stage.devices)} devices on "
                    f"{len(stage.places)} cards"
                )
            wrong = next((place for place in stage.places if not 0 <= place < len(self.cards)), None)
            if wrong is not None:
                raise InputError(f"the split of {self.model!r} names card {wrong} and has {len(self.cards)} cards")
            if any(self.cards[place].accelerator != stage.accelerator for place in stage.places):
                raise InputError(f"stage {number} of the split of {self.model!r} is on accelerators and CPUs at once")

    @property
    def ranks(self) -> int:
        """Groups of devices."""
        return 1 + max(stage.rank for stage in self.stages)

    @property
    def microbatches_of_replica(self) -> int:
        """Microbatches of a batch that a replica of the first stage runs."""
        return -(-self.microbatches // self.stages[0].replicas)

    @property
    def groups(self) -> int:
        """Groups of the first stage that hold the same weights, but for experts."""
        return self.stages[0].replicas * self.stages[0].context

    @property
    def zero_of_groups(self) -> int:
        """ZeRO's stage; 0 where nobody is there to share anything out with."""
        return self.zero if any(stage.replicas * stage.context > 1 for stage in self.stages) else 0

    @property
    def state_copies(self) -> int:
        """How often what ZeRO's stage says is held."""
        return state_copies(self.groups, self.zero_shards) if self.zero else 1

    @property
    def optimizer_on_host(self) -> bool:
        """Whether any stage's optimizer keeps its states in the host's memory and makes its step there."""
        return any(OPTIMIZER_STATES in stage.offload for stage in self.stages)

    @property
    def blocks(self) -> tuple[RuntimeLayer, ...]:
        """The repeated layers."""
        return tuple(layer for layer in self.layers if layer.part == "block")

    def layers_of(self, stage: int) -> tuple[RuntimeLayer, ...]:
        """Layers that are wholly on a stage, in the model's order."""
        return tuple(layer for layer in self.layers if layer.stages == (stage,))

    def blocks_of(self, stage: int) -> int:
        """Number of blocks that are wholly on a stage."""
        return sum(layer.part == "block" for layer in self.layers_of(stage))

    @property
    def ways(self) -> tuple[str, ...]:
        """What blocks run again: one way, or several where they differ."""
        return tuple(sorted({layer.recompute for layer in self.blocks}))

    @property
    def tied(self) -> tuple[Weight, ...]:
        """Weights that several stages read."""
        return tuple(weight for weight in self.weights if len(weight.stages) > 1 and not weight.buffer)

    @property
    def skips(self) -> tuple[Send, ...]:
        """What passes over a stage on its way forward."""
        return tuple(send for send in self.sends if send.target > send.source + 1)

    @property
    def backwards(self) -> tuple[Send, ...]:
        """What goes to an earlier stage: with any of these the split is not contiguous."""
        return tuple(send for send in self.sends if send.target < send.source)
