"""A layout as its user writes it down, and the plan that a runtime makes of it.

A layout says degrees, schedule and recomputation. Runtimes deal out equally many blocks to every stage and part, and
put the model's ends on the first and the last one (Megatron-LM: Narayanan et al., SC 2021, §2.2).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import msgspec

from partita.ground.errors import InputError
from partita.nouns.pipeline import Plan, SharedDegrees, Stage
from partita.problems.hybrid.blocks import LikeBlocks, find_blocks
from partita.problems.hybrid.layer import Configuration, Layer
from partita.problems.hybrid.options import HybridPricing
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.spaces import ELEMENTWISE
from partita.problems.hybrid.training import Training

#: Ways to recompute, from most to least memory, by the configurations that stand for them.
WAYS = ("none", "selective", "full")

#: What a layout may say: one of them, all but products, or of each layer whatever takes least time in the memory.
LAYOUT_WAYS = (*WAYS, ELEMENTWISE, "least")

_WORDS = {"yes": True, "no": False}


class MeshLayout(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The same degrees for the whole model."""

    #: Degrees.
    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    chunks: int = 1  #: Parts of every stage; more than one make an interleaved schedule.
    #: What the repeated blocks recompute: ``none``, ``selective``, ``full``, ``elementwise`` for all but products and
    #: attention, or ``least`` for what takes least time in the memory, layer by layer; the model's ends recompute
    #: nothing.
    recompute: str = "none"
    zero: int = 0  #: What replicas share out (ZeRO's stage).
    #: Groups of ``tensor`` devices, of ``data · context``, among which they do while others hold the same (hybrid
    #: sharding); 0 for all.
    zero_shards: int = 0
    sequence_parallel: bool = True  #: Whether tensor-parallel groups share out tokens.
    overlap: bool = True  #: Whether replicas exchange gradients behind the backward part.
    schedule: str | None = None  #: By default ``1f1b``, with several chunks ``interleaved``.
    #: Degrees of expert and context parallelism: each replica is of ``context`` groups of ``tensor`` devices, and of
    #: all groups ``expert`` share out experts, so that it divides ``data · context``.
    expert: int = 1
    context: int = 1
    #: If not 0, experts have groups of their own, of so many devices, which share out each expert's features: then
    #: ``expert`` such groups share out the experts, and both together divide ``data · context · tensor``.
    expert_tensor: int = 0
    #: How many of the model's repeated layers each part has, in the order in which a microbatch passes them; equally
    #: many
    #: where it is empty. The first part has what comes before them, the last one what comes behind.
    layers: tuple[int, ...] = ()
    ends: bool = False  #: Whether the embedding and the head count as a layer each where layers are dealt out.

    def __post_init__(self) -> None:
        for field in ("tensor", "pipeline", "data", "chunks", "expert", "context"):
            if getattr(self, field) < 1:
                raise InputError(f"layout: {field} is {getattr(self, field)}; it must be at least 1")
        if self.recompute not in LAYOUT_WAYS:
            raise InputError(f"layout: recompute is {self.recompute!r}; it must be one of {', '.join(LAYOUT_WAYS)}")
        if self.zero not in (0, 1, 2, 3):
            raise InputError(f"layout: zero is {self.zero}; it must be 0, 1, 2 or 3")
        stage = self.data * self.context * self.tensor
        if self.expert_tensor < 0 or stage % self.shared.experts_on(self.tensor):
            whole = "data · context · tensor" if self.expert_tensor else "data · context"
            what = "expert · expert_tensor" if self.expert_tensor else "expert"
            raise InputError(
                f"layout: {what} is {self.expert * (self.expert_tensor or 1)}; it must divide {whole}, "
                f"{stage // (1 if self.expert_tensor else self.tensor)}"
            )
        groups = self.data * self.context
        if self.zero_shards < 0 or (self.zero_shards and groups % self.zero_shards):
            raise InputError(
                f"layout: zero_shards is {self.zero_shards}; it must divide data · context, {groups}, or be 0 for all"
            )
        if self.zero_shards and not self.zero:
            raise InputError(f"layout: zero_shards is {self.zero_shards} where zero 0 shares out nothing; leave it out")
        parts = self.pipeline * self.chunks
        if self.layers and (len(self.layers) != parts or min(self.layers) < 0):
            raise InputError(
                f"layout: layers has {len(self.layers)} numbers; give one of at least 0 for each of the {parts} parts"
            )
        if self.layers and self.ends:
            raise InputError("layout: layers says how many each part has; leave ends out")

    @property
    def shared(self) -> SharedDegrees:
        """What devices share out beside features."""
        return SharedDegrees(self.context, self.expert, self.expert_tensor)

    @property
    def uneven(self) -> bool:
        """Whether it says how layers are dealt out, rather than equally many to each part."""
        return bool(self.layers) or self.ends

    def training(self, *, overlap: bool) -> Training:
        """What plans may choose: what it says, with exchanges behind work if both it and the caller allow them."""
        return Training(
            schedules=(self.runs,),
            zero=(self.zero,),
            zero_shards=(self.zero_shards,),
            uneven=self.uneven,
            overlap=overlap and self.overlap,
        )

    @property
    def devices(self) -> int:
        """Devices it uses."""
        return self.tensor * self.pipeline * self.data * self.context

    @property
    def runs(self) -> str:
        """Its schedule."""
        return self.schedule or ("interleaved" if self.chunks > 1 else "1f1b")


def parse_layout(text: str) -> MeshLayout:
    """A layout of the form ``tensor=8,pipeline=8,data=24,chunks=2,recompute=full``; InputError if it is none.

    ``layers`` takes a number for each part, with commas between them.
    """
    fields = {field.name: field.type for field in msgspec.structs.fields(MeshLayout)}
    given: dict[str, Any] = {}
    last = ""
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if last == "layers" and not equals and name:
            name, equals, value = last, "=", name
        if name == "layers" and equals and (last == name or name not in given):
            if not value.isdecimal():
                raise InputError(
                    f"layout {text!r}: layers has {value!r}; give a whole number for each part: layers=7,8,8,7"
                )
            given[name] = (*given.get(name, ()), int(value))
            last = name
            continue
        last = name
        if not equals or name not in fields:
            raise InputError(f"layout {text!r}: {part.strip()!r} is not one of {', '.join(f'{n}=…' for n in fields)}")
        if name in given:
            raise InputError(f"layout {text!r} gives {name} twice")
        kind = fields[name]
        try:
            given[name] = _WORDS[value] if kind is bool else int(value) if kind is int else value
        except (KeyError, ValueError):
            wanted = "yes or no" if kind is bool else "a whole number"
            raise InputError(f"layout {text!r}: {name} is {value!r}; give {wanted}") from None
    return MeshLayout(**given)


def shares_tokens(settings: HybridPricing) -> bool:
    """Whether tensor-parallel groups share out tokens, by the layout if one is asked for."""
    return (parse_layout(settings.layout) if settings.layout else settings).sequence_parallel


def options_of(layout: MeshLayout, asked: Sequence[str]) -> tuple[str, ...]:
    """The memory options that layers are priced with, given those that are asked for: a layout may need another."""
    if layout.recompute == "least":
        return tuple(dict.fromkeys((*(option for option in asked if option != "least"), ELEMENTWISE, "full")))
    return tuple(dict.fromkeys((*asked, layout.recompute)))


def layout_plan(problem: HybridProblem, layout: MeshLayout) -> Plan:
    """The plan of a layout; whether it can run, the evaluator says.

    InputError if the blocks cannot be dealt out, or lack the degree or the way to recompute.
    """
    there = problem_of(problem, layout)
    order = [there.layers[place] for place in there.order()]
    blocks, places = dealt_out(problem, order, layout)
    repeated = range(blocks.starts[0], blocks.end)
    configurations = {
        layer.id: _choice(layer, layout, layout.recompute if place in repeated else "none")
        for place, layer in enumerate(order)
    }
    return uniform_plan(problem, order, places, configurations, layout)


def problem_of(problem: HybridProblem, layout: MeshLayout) -> HybridProblem:
    """The problem where devices share out what a layout says; an InputError if that is unknown."""
    there = problem.at(*layout.shared)
    if there is None:
        raise InputError(f"layout: {problem.name} does not say what layers cost with {layout.shared}")
    return there


def dealt_out(problem: HybridProblem, order: Sequence[Layer], layout: MeshLayout) -> tuple[LikeBlocks, list[range]]:
    """The repeated layers of a model, and the places of each part's layers in the topological ``order``."""
    blocks = repeated_layers(order) if layout.uneven else find_blocks(order)
    count, parts = len(blocks.starts), layout.pipeline * layout.chunks
    if layout.uneven:
        return blocks, _unequal_parts(problem, order, blocks, layout)
    if parts > count:
        raise InputError(f"layout: {parts} stages and parts are more than the {count} blocks of {problem.name}")
    if layout.chunks > 1 and count % parts:
        raise InputError(
            f"layout: {layout.pipeline} stages of {layout.chunks} parts do not divide the {count} blocks of "
            f"{problem.name}; say with layers=… how many each part has"
        )
    first = [blocks.starts[number * count // parts] for number in range(parts)]
    return blocks, equal_parts(len(order), [0, *first[1:]])


def repeated_layers(order: Sequence[Layer]) -> LikeBlocks:
    """The layers that the model numbers (``model.layers.0``), whatever they are; its blocks if it numbers none."""
    numbered = [place for place, layer in enumerate(order) if layer.name.rpartition(".")[2].isdecimal()]
    return LikeBlocks(tuple(numbered), numbered[-1] + 1, len(order)) if numbered else find_blocks(order)


def _unequal_parts(
    problem: HybridProblem, order: Sequence[Layer], blocks: LikeBlocks, layout: MeshLayout
) -> list[range]:
    """Places of the layers of each part, as a layout deals them out."""
    count, parts = len(blocks.starts), layout.pipeline * layout.chunks
    numbers = list(layout.layers)
    if layout.ends:
        each, rest = divmod(count + 2, parts)
        if rest or (parts == 1 and not count):
            raise InputError(
                f"layout: with both ends {problem.name} has {count + 2} layers, which {parts} parts do not share "
                "evenly; say with layers=… how many each part has"
            )
        numbers = [each] * parts
        numbers[0] -= 1
        numbers[-1] -= 1
    if sum(numbers) != count:
        raise InputError(f"layout: layers adds up to {sum(numbers)}; {problem.name} has {count} repeated layers")
    edges = [0]
    for number in itertools.accumulate(numbers[:-1]):
        edges.append(blocks.starts[number] if number < count else blocks.end)
    places = [range(a, b) for a, b in itertools.pairwise([*edges, len(order)])]
    if any(not part for part in places):
        empty = next(number for number, part in enumerate(places) if not part)
        raise InputError(f"layout: part {empty} of {problem.name} has no layers; give each of them some")
    return places


def check_layout(problem: HybridProblem, layout: MeshLayout) -> None:
    """Refuse a layout of more devices than there are, or of replicas that do not share the microbatches evenly."""
    block = layout.shared.block(layout.tensor)
    within = max(layout.tensor, layout.expert_tensor) <= problem.devices_per_machine
    if within and layout.devices > problem.room(block):
        there = problem.room_words(block)
        raise InputError(f"layout: it uses {layout.devices} devices, and there are {there}")
    if problem.microbatches % layout.data:
        raise InputError(
            f"layout: data degree {layout.data} does not divide the {problem.microbatches} microbatches of a step"
        )


def equal_parts(layers: int, starts: Sequence[int]) -> list[range]:
    """Parts of a chain of layers that begin at these places."""
    return [range(a, b) for a, b in zip(starts, [*starts[1:], layers], strict=True)]


def uniform_plan(
    problem: HybridProblem,
    order: Sequence[Layer],
    parts: Sequence[Sequence[int]],
    configurations: dict[int, str],
    layout: MeshLayout,
) -> Plan:
    """A plan of a uniform mesh, with the degrees and the schedule of a layout.

    ``order`` are the problem's layers in topological order, ``parts`` the places in it of each part's layers, in the
    order in which a microbatch passes them, ``configurations`` the id of each layer's.
    """
    place = {layer.id: number for number, layer in enumerate(problem.layers)}
    dealt = [tuple(sorted((order[v].id for v in part), key=place.__getitem__)) for part in parts]
    stages = []
    for rank in range(layout.pipeline):
        mine = dealt[rank :: layout.pipeline]
        operators = tuple(sorted((identity for part in mine for identity in part), key=place.__getitem__))
        stages.append(
            Stage(
                operators=operators,
                data_parallel=layout.data,
                tensor_parallel=layout.tensor,
                configurations={identity: configurations[identity] for identity in operators},
                chunks=tuple(mine) if len(mine) > 1 else (),
                context_parallel=layout.context,
                expert_parallel=layout.expert,
                expert_tensor_parallel=layout.expert_tensor,
            )
        )
    return Plan(stages=tuple(stages), schedule=layout.runs, zero=layout.zero, zero_shards=layout.zero_shards)


def offered(layer: Layer, layout: MeshLayout) -> tuple[Configuration, ...]:
    """What a layer may run at the degree of a layout; an InputError if that is nothing."""
    choices = layer.configurations.get(layout.tensor, ())
    if not choices:
        known = ", ".join(str(degree) for degree, found in sorted(layer.configurations.items()) if found)
        raise InputError(f"layout: {layer.label} has no tensor-parallel degree {layout.tensor}; it has {known}")
    return choices


def _choice(layer: Layer, layout: MeshLayout, recompute: str) -> str:
    known_ids = [choice.id for choice in offered(layer, layout)]
    if recompute in known_ids:
        return recompute
    raise InputError(
        f"layout: {layer.label} cannot recompute {recompute!r} at degree {layout.tensor}; it has {', '.join(known_ids)}"
    )
