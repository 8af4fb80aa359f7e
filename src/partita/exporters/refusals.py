"""Why a runtime cannot run a split: its limits, each as a sentence that names what is in the way."""

from __future__ import annotations

from collections.abc import Iterator

from partita.catalogue.runtimes import Limits
from partita.split import Split


def refusals(split: Split, name: str, limits: Limits) -> list[str]:
    """A sentence for every limit that a split does not keep."""
    return [*_uses(split, name, limits), *_cuts(split, name, limits), *_order(split, name, limits)]


def _uses(split: Split, name: str, limits: Limits) -> Iterator[str]:
    """What the split is for, and how its stages are spread."""
    if split.training and not limits.training:
        yield f"{name} runs models and trains none, and this is a plan of training"
    if not split.training and not limits.inference:
        yield f"{name} trains models, and this is a plan of inference; plan with --training"
    if limits.schedules and split.schedule not in limits.schedules:
        yield f"{name} has no schedule {split.schedule}, only {', '.join(limits.schedules)}"
    degrees = {(stage.replicas, stage.tensor) for stage in split.stages}
    if limits.uniform and len(degrees) > 1:
        shown = ", ".join(f"{replicas} × {tensor}" for replicas, tensor in sorted(degrees))
        yield f"{name} has one mesh for all stages, and these have uneven degrees (replicas × devices of each: {shown})"
    most = max(stage.replicas for stage in split.stages)
    if not limits.data and most > 1:
        yield f"{name} has no data-parallel replicas, and a stage has {most}"
    most = max(stage.tensor for stage in split.stages)
    if not limits.tensor and most > 1:
        yield f"{name} has no tensor parallelism with such splits, and a stage has degree {most}"
    if not limits.chunks and len(split.stages) > split.ranks:
        yield f"{name} has one stage on a rank, and there are {len(split.stages)} stages on {split.ranks} ranks"


def _cuts(split: Split, name: str, limits: Limits) -> Iterator[str]:
    """Where stages begin, and what they share."""
    if limits.cuts == "layer":
        cut = [layer for layer in split.layers if len(layer.stages) > 1 and not (layer.part != "block" and limits.ends)]
        if cut:
            shown = ", ".join(layer.name for layer in cut[:3]) + (", …" if len(cut) > 3 else "")
            yield f"{name} keeps layers whole, and {shown} is cut; plan with --cuts layer"
    if limits.ties(split.training):
        for weight in split.tied:
            names = " = ".join((weight.name, *weight.aliases))
            yield (
                f"weight {names} is read on stages {_listed(weight.stages)}, and in {name} it would silently become "
                f"{len(weight.stages)} copies; plan with --tied together"
            )
    if not limits.empty_stages:
        for number in range(len(split.stages)):
            if split.blocks and not any(number in layer.stages for layer in split.blocks):
                yield f"stage {number} has no layer, and in {name} every stage has at least one"


def _order(split: Split, name: str, limits: Limits) -> Iterator[str]:
    """What follows what."""
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
                what = "comes before the first block" if layer.part == "input" else "comes behind the last block"
                where = "first" if layer.part == "input" else "last"
                yield (
                    f"what {what} is on stage {_listed(layer.stages)}, and {name} has it on the {where} stage, {place}"
                )


def _listed(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers[:-1])) + f" and {numbers[-1]}" if len(numbers) > 1 else str(numbers[0])
