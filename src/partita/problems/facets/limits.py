"""What a runtime asks of a problem made from a model; what it does not run, or is not for, raises ``InputError``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from partita.costs.optimizer import formats_of
from partita.costs.packed import packed_format
from partita.ground.errors import InputError
from partita.nouns.catalogue.formats import format_refusals, needs_shares
from partita.nouns.catalogue.meshes import MeshLimits
from partita.nouns.catalogue.runtimes import Cuts, Runtime, find_runtime
from partita.nouns.graph import Graph, Workload

if TYPE_CHECKING:
    from partita.problems.facets.model import Pricing

#: Where stages may begin, the fewest places last.
_COARSER: tuple[Cuts, ...] = ("operator", "module", "layer")


def runtime_for(name: str | None, workload: Workload) -> Runtime | None:
    """The runtime of a name, None for none."""
    if name is None:
        return None
    runtime = find_runtime(name)
    if workload is Workload.TRAINING and not runtime.limits.training:
        raise InputError(f"{name} runs models and trains none; leave --training out, or take another runtime")
    if workload is Workload.INFERENCE and not runtime.limits.inference:
        raise InputError(f"{name} trains models and does nothing else; add --training, or take another runtime")
    return runtime


def check_training(
    runtime: Runtime, graph: Graph, settings: Pricing, *, gradient_dtype: str = "parameter", sequence_parallel: bool
) -> MeshLimits:
    """Refuse what of a training's settings a runtime does not do; which meshes it runs then.

    ``gradient_dtype`` is ``parameter`` for that of weights; tensor-parallel groups that are ``sequence_parallel``
    share out tokens.
    """
    limits, name = runtime.limits, runtime.name
    if limits.optimizers and settings.optimizer not in limits.optimizers:
        raise InputError(f"{name} has no optimizer {settings.optimizer}; take {' or '.join(limits.optimizers)}")
    frozen = next((p.name for p in graph.parameters if not p.trainable and not p.buffer), None)
    if frozen is not None and not limits.frozen:
        raise InputError(
            f"{name} trains all weights of a model, and this one leaves {frozen} as it is; leave --runtime out"
        )
    packed = packed_format(graph)
    if packed and not limits.packed:
        raise InputError(f"{name} is not told to keep weights in {packed} with such splits; leave --weights out")
    formats = formats_of(graph, settings.optimizer, settings.optimizer_dtype, settings.master_weights, gradient_dtype)
    wrong = next(format_refusals(limits.formats, formats, settings.optimizer, name), None)
    if wrong is not None:
        raise InputError(wrong)
    sharded = needs_shares(limits.formats, formats)
    return limits.meshes_of(sequence_parallel=sequence_parallel, sharded=sharded)


def coarsest(asked: Cuts, runtime: Runtime) -> Cuts:
    """Where stages may begin that both a user and a runtime allow."""
    return max(asked, runtime.limits.cuts, key=_COARSER.index)


def devices_for(runtime: Runtime, names: Sequence[str], accelerators: Sequence[bool]) -> list[int]:
    """Places of the devices of a cluster that a runtime uses.

    Given are by place the name of the kind, and whether it is an accelerator.
    """
    used = [place for place, accelerator in enumerate(accelerators) if accelerator]
    hosts = [place for place, accelerator in enumerate(accelerators) if not accelerator]
    if runtime.limits.host == "alone" and used:
        hosts = []
    most = runtime.limits.accelerators
    if most is not None and len(used) > most:
        kinds = sorted({names[place] for place in used})
        if len(kinds) > 1:
            raise InputError(
                f"{runtime.name} uses {most} accelerator, and the cluster has several kinds ({', '.join(kinds)}); "
                "give a cluster with one of them"
            )
        used = used[:most]
    return sorted([*used, *hosts])
