"""Why a runtime cannot run a split: its limits, each as a sentence that names what is in the way."""

from __future__ import annotations

from collections.abc import Iterator

from partita.exporters.facts import list_of
from partita.nouns.catalogue.formats import format_refusals, needs_shares
from partita.nouns.catalogue.meshes import Mesh
from partita.nouns.catalogue.runtimes import Limits
from partita.nouns.split import OPTIMIZER_STATES, Split


def refusals(split: Split, name: str, limits: Limits) -> list[str]:
    """A sentence for every limit that a split does not keep."""
    parts = (_uses, _devices, _training, _cuts, _ties, _order)
    return [reason for part in parts for reason in part(split, name, limits)]


def _uses(split: Split, name: str, limits: Limits) -> Iterator[str]:
    if split.training and not limits.training:
        yield f"{name} runs models and trains none, and this is a plan of training"
    if not split.training and not limits.inference:
        yield f"{name} trains models, and this is a plan of inference; plan with --training"
    if split.training and limits.schedules and split.schedule not in limits.schedules:
        yield f"{name} has no schedule {split.schedule}, only {', '.join(limits.schedules)}"
    looped = len(split.stages) > split.ranks
    if not limits.chunks and looped:
        yield f"{name} has one stage on a rank, and there are {len(split.stages)} stages on {split.ranks} ranks"
    if looped and len(split.stages) % split.ranks:
        yield f"{len(split.stages)} stages do not divide by {split.ranks} ranks, and all ranks have equally many"
    if limits.rounds and looped and split.microbatches_of_replica % split.ranks:
        yield (
            f"each replica has {split.microbatches_of_replica} microbatches, and with several stages on a rank {name} "
            f"takes multiples of the {split.ranks} ranks"
        )


def _devices(split: Split, name: str, limits: Limits) -> Iterator[str]:
    degrees = {(stage.replicas, stage.context * stage.tensor) for stage in split.stages}
    if limits.uniform and len(degrees) > 1:
        shown = ", ".join(f"{replicas} × {devices}" for replicas, devices in sorted(degrees))
        yield f"{name} has one mesh for all stages, and these have uneven degrees (replicas × devices of each: {shown})"
    elif limits.uniform and len({(s.tensor, s.context, s.expert, s.expert_tensor) for s in split.stages}) > 1:
        yield f"{name} has one mesh for all stages, and these differ in tensor, context or expert degrees"
    most = max(stage.replicas for stage in split.stages)
    if not limits.data and most > 1:
        yield f"{name} has no data-parallel replicas, and a stage has {most}"
    for kind in ("tensor", "context", "expert"):
        most = max(getattr(stage, kind) for stage in split.stages)
        if not getattr(limits, kind) and most > 1:
            yield f"{name} has no {kind} parallelism with such splits, and a stage has degree {most}"
    if not limits.expert and any(stage.expert_tensor for stage in split.stages):
        yield f"{name} has no groups of experts with such splits, and a stage has some"
    hosts = [number for number, stage in enumerate(split.stages) if not stage.accelerator]
    if limits.host == "alone" and 0 < len(hosts) < len(split.stages):
        yield f"stage {hosts[0]} is on a CPU beside accelerators, and {name} runs no stage there; plan without the CPU"
    if limits.host == "first" and any(hosts) and len(hosts) < len(split.stages):
        yield f"stage {hosts[-1]} is on a CPU, and {name} has only the first layers there, if any"
    used = sum(len(stage.devices) for stage in split.stages if stage.accelerator)
    if limits.accelerators is not None and used > limits.accelerators:
        yield f"{name} uses {limits.accelerators} accelerator in a session, and the plan has {used}"


def _training(split: Split, name: str, limits: Limits) -> Iterator[str]:
    """How it trains, and what it keeps where."""
    told = (OPTIMIZER_STATES,) if limits.optimizer_on_host else ()
    kept = next(((n, stage.offload) for n, stage in enumerate(split.stages) if stage.offload not in ("", *told)), None)
    if kept is not None and not limits.offload:
        yield f"stage {kept[0]} keeps {kept[1]} in the host's memory, which {name} is not told with such splits"
    if not split.training:
        return
    if split.optimizer_on_host and limits.optimizer_on_host:
        if split.groups > 1 and not split.zero:
            yield f"where {name}'s optimizer runs on hosts, replicas share out its states; plan with --zero 1"
        if split.optimizer == "sgd":
            yield f"{name} runs Adam on hosts, and the plan trains with sgd; plan without --offload-optimizer"
    if split.formats is None or split.optimizer is None:
        yield (
            "the file does not say what is recomputed, context degrees and number formats, for an earlier version "
            "wrote it; plan again"
        )
        return
    first = split.stages[0]
    sequence = split.sequence_parallel
    if first.tensor > 1 and limits.tokens == ("never" if sequence else "always"):
        yield (
            f"tensor-parallel groups of {name} share out {'no tokens' if sequence else 'tokens'}, and in the plan they "
            f"do{'' if sequence else ' not'}; plan with --{'no-' if sequence else ''}sequence-parallel"
        )
    yield from _numbers(split, name, limits)
    wrong = [layer for layer in split.layers if limits.recompute and layer.recompute not in limits.recompute]
    if wrong:
        yield (
            f"{wrong[0].name} recomputes {wrong[0].recompute!r}, and {name} has only {', '.join(limits.recompute)} "
            "with such splits; plan with --recompute-options"
        )
    elif limits.alike:
        if len(split.ways) > 1:
            yield f"{name} has all layers recompute alike, and these recompute {', '.join(split.ways)}"
        end = next((layer for layer in split.layers if layer.part != "block" and layer.recompute != "none"), None)
        if end is not None:
            yield (
                f"{name} recomputes layers of its list only, and what {_BESIDE[end.part]} recomputes {end.recompute!r}"
            )
    frozen = next((weight.name for weight in split.weights if not weight.trained and not weight.buffer), None)
    if frozen is not None and not limits.frozen:
        yield f"{name} trains all weights of a model, and the plan leaves {frozen} as it is"
    if split.packed and not limits.packed:
        yield (
            f"the plan keeps frozen weights in {split.packed}, which {name} is not told with such splits; plan without "
            "--weights"
        )


#: Where the ends of a model are.
_BESIDE = {"input": "comes before the first block", "output": "comes behind the last block"}


def _numbers(split: Split, name: str, limits: Limits) -> Iterator[str]:
    first, sharded = split.stages[0], False
    if limits.formats != "any" and split.formats is not None and split.optimizer is not None:
        yield from format_refusals(limits.formats, split.formats, split.optimizer, name)
        sharded = needs_shares(limits.formats, split.formats)
        if limits.optimizers and split.optimizer not in limits.optimizers:
            yield f"{name} has no optimizer {split.optimizer}, only {', '.join(limits.optimizers)}"
    meshes = limits.meshes_of(sequence_parallel=split.sequence_parallel, sharded=sharded)
    mesh = Mesh(
        stages=split.ranks,
        data=first.replicas,
        tensor=first.tensor,
        context=first.context,
        expert=first.expert,
        expert_tensor=first.expert_tensor,
        zero=split.zero,
        zero_shards=split.zero_shards,
        schedule=split.schedule,
        microbatches=split.microbatches_of_replica,
    )
    yield from meshes.refusals(mesh, name)


def _cuts(split: Split, name: str, limits: Limits) -> Iterator[str]:
    if limits.one_list and list_of(split) is None:
        parents = sorted({layer.name.rpartition(".")[0] or layer.name for layer in split.blocks})
        yield (
            f"{name} counts the layers of one list of modules, and the repeated parts of this model are "
            f"{', '.join(parents[:3])}{', …' if len(parents) > 3 else ''}"
        )
    if limits.cuts == "layer":
        cut = [layer for layer in split.layers if len(layer.stages) > 1 and not (layer.part != "block" and limits.ends)]
        if cut:
            shown = ", ".join(layer.name for layer in cut[:3]) + (", …" if len(cut) > 3 else "")
            yield f"{name} keeps layers whole, and {shown} is cut; plan with --cuts layer"
    if not limits.empty_stages:
        for number in range(len(split.stages)):
            if not any(number in layer.stages for layer in split.blocks):
                yield f"stage {number} has no layer, and in {name} every stage has at least one"


def _ties(split: Split, name: str, limits: Limits) -> Iterator[str]:
    for weight in split.tied:
        where = " = ".join((weight.name, *weight.aliases)) + f" is read on stages {_listed(weight.stages)}"
        if limits.ties(split.training):
            yield (
                f"weight {where}, and in {name} it would silently become {len(weight.stages)} copies; plan with "
                "--tied together"
            )
        elif limits.tied == "ends" and split.training and not set(weight.stages) <= {0, len(split.stages) - 1}:
            yield f"weight {where}, and {name} adds up gradients of the first and the last stage only"


def _order(split: Split, name: str, limits: Limits) -> Iterator[str]:
    for send in split.backwards[:1] if limits.contiguous else ():
        yield (
            f"the split is not contiguous: stage {send.source} sends to stage {send.target}, which comes before it; "
            f"{name} passes tensors forward only"
        )
    for send in split.skips[:1] if not limits.skips else ():
        yield (
            f"stage {send.source} sends {', '.join(send.tensors[:2])} past its neighbour to stage {send.target}, and "
            f"{name} has no skip connections between stages"
        )
    for module in split.shared if limits.calls else ():
        if module.joins:
            yield (
                f"{module.name or 'the model'} itself reads tensors of several stages at once, and {name} moves only "
                "what modules are called with"
            )
    if limits.ordered:
        firsts = [layer.stages[0] for layer in split.blocks]
        turned = next((place for place in range(1, len(firsts)) if firsts[place] < firsts[place - 1]), None)
        if turned is not None:
            here, before = split.blocks[turned], split.blocks[turned - 1]
            yield (
                f"{here.name} is on stage {here.stages[0]} and {before.name} before it on stage {before.stages[0]}; "
                f"{name} runs layers in the model's order, each stage a run of them"
            )
    if limits.ends:
        last = len(split.stages) - 1
        for layer in split.layers:
            place = {"input": 0, "output": last}.get(layer.part)
            if place is not None and layer.stages != (place,):
                where = "first" if layer.part == "input" else "last"
                yield (
                    f"what {_BESIDE[layer.part]} is on stage {_listed(layer.stages)}, and {name} has it on the {where} "
                    f"stage, {place}"
                )


def _listed(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers[:-1])) + f" and {numbers[-1]}" if len(numbers) > 1 else str(numbers[0])
