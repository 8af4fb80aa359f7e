"""What runtimes can express: which splits of a model each of them can run, with the table of ``runtimes.toml``."""

from __future__ import annotations

import inspect
from typing import Any, Literal

import msgspec

from partita.ground.errors import InputError
from partita.ground.registry import Added, Shelf
from partita.nouns.catalogue.files import shipped_tables
from partita.nouns.catalogue.formats import Mixtures
from partita.nouns.catalogue.meshes import MeshLimits

#: Where stages may begin: between any operators, between modules of a layer, or between layers.
Cuts = Literal["operator", "module", "layer"]

#: What becomes of a weight that two stages read: the runtime does not keep copies alike; it has a copy in each stage,
#: which is right as long as weights do not change; it has a copy in each and adds up their gradients; it does so
#: between the first and the last stage only.
Tied = Literal["refused", "copied", "summed", "ends"]

#: Whether tensor-parallel groups share out tokens where they share out no features.
Tokens = Literal["any", "always", "never"]

#: Where stages on a CPU may be: anywhere, only first, or only if all are.
Host = Literal["any", "first", "alone"]


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a runtime can express. The defaults limit nothing."""

    cuts: Cuts = "operator"  #: Where stages may begin.
    contiguous: bool = False  #: Every tensor goes to the same stage or a later one.
    #: Every stage is a run of consecutive layers in the model's order, and the stages follow that order.
    ordered: bool = False
    #: What comes before the first block is on the first stage, and what comes behind the last block on the last one.
    ends: bool = False
    skips: bool = True  #: A tensor may pass over a stage. Constants (masks, positions) are no such tensors.
    #: Tensors move between devices only where a module is called: what a module computes by itself reads tensors of one
    #: device.
    calls: bool = False
    tied: Tied = "summed"  #: What becomes of a weight that two stages read.
    one_list: bool = False  #: The layers that it counts are the elements of one list of modules.
    empty_stages: bool = True  #: A stage may be without a block.
    #: Where stages on a CPU may be, and how many accelerators there may be at most.
    host: Host = "any"
    accelerators: int | None = None
    uniform: bool = True  #: All stages have the same numbers of replicas and of devices in each.
    #: Stages may have replicas; replicas may have several devices; ranks may have several stages.
    data: bool = True
    tensor: bool = True
    chunks: bool = True
    #: With several stages on a rank, each replica takes as many microbatches as there are ranks, or a multiple.
    rounds: bool = False
    #: Replicas may share out their sequences; groups may share out experts.
    context: bool = True
    expert: bool = True
    tokens: Tokens = "any"  #: Whether tensor-parallel groups share out tokens.
    experts_by_token: bool = False  #: Experts go with tensor parallelism only where its groups share out tokens.
    meshes: MeshLimits = MeshLimits()  #: Which degrees, schedules and stages of ZeRO go together.
    #: What blocks may run again, in the words of ``partita.nouns.split.Layer``; empty for anything.
    recompute: tuple[str, ...] = ()
    alike: bool = False  #: All blocks run the same again, and the model's ends nothing.
    offload: bool = False  #: Activations or weights may be kept in the host's memory.
    optimizer_on_host: bool = False  #: Adam may make its step there, where replicas share out its states.
    frozen: bool = True  #: Training may leave weights as they are.
    packed: bool = True  #: Frozen weights may be kept in a few bits and unpacked for each product.
    #: What optimizers it has, empty for any; which number formats.
    optimizers: tuple[str, ...] = ()
    formats: Mixtures = "any"
    #: What the runtime is for.
    training: bool = True
    inference: bool = True
    pipeline: bool = True  #: Microbatches are in flight at once; otherwise stages run one after the other.
    schedules: tuple[str, ...] = ()  #: What schedules of training it has; empty for any.

    def ties(self, training: bool) -> bool:
        """Whether all that reads a weight has to be on one stage; with ``ends`` only what else reads it than these."""
        return self.tied == "refused" or (self.tied == "copied" and training)

    def meshes_of(self, *, sequence_parallel: bool, sharded: bool) -> MeshLimits:
        """Which meshes it runs, by whether groups share out tokens, and number formats come with sharing weights."""
        apart = self.meshes.experts_apart or (self.experts_by_token and not sequence_parallel)
        return msgspec.structs.replace(self.meshes, experts_apart=apart, sharded=sharded)


class Runtime(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A program that runs split models: its name, what it takes from a plan in one line, and what it can express.

    ``source`` says where that is documented.
    """

    name: str
    summary: str
    limits: Limits
    source: str


def _read(name: str, summary: str, source: str, **stated: Any) -> Runtime:
    """A runtime of the shipped table."""
    fields = dict.fromkeys(stated.pop("keeps", ()), True) | dict.fromkeys(stated.pop("lacks", ()), False)
    return Runtime(name=name, summary=summary, limits=msgspec.convert(fields | stated, Limits), source=source)


RUNTIMES: tuple[Runtime, ...] = tuple(_read(**table) for table in shipped_tables("runtimes"))


class _Runtimes(Shelf[Runtime]):
    """The runtimes, also those that exporters bring: a ``runtime`` of their own."""

    def takes(self, one: Added) -> bool:
        return isinstance(self.of(one), Runtime)

    def of(self, one: Added) -> Runtime:
        found: Runtime = inspect.getattr_static(one.component, "runtime", one.component)
        return found


#: Those of the table and those that were added.
ALL_RUNTIMES = _Runtimes("runtime", Runtime, lambda: RUNTIMES, ("name", "summary"))


def find_runtime(name: str) -> Runtime:
    """The runtime of a name.

    Raises ``InputError`` if there is none.
    """
    found = ALL_RUNTIMES.get(name)
    if found is None:
        raise InputError(f"there is no runtime {name!r}; known are {ALL_RUNTIMES.known}")
    return found
