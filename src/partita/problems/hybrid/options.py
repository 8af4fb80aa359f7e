"""What can be asked of a hybrid plan: one declaration for keywords, flags and settings."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec.structs import asdict

from partita.problems.facets.model import DeviceChanges, Pricing
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.kind import SearchOptions
from partita.problems.settings import setting

#: What a plan is chosen for: the objective, an endless row of microbatches, or one synchronous step with its bubble.
Aim = Literal["steady", "step"]


class Options(SearchOptions, frozen=True, kw_only=True):
    """What a search may use.

    Attributes
    ----------
    machine_devices
        Devices of one machine, for baselines that keep tensor parallelism inside; unless stated those of the problem's
        hierarchy, and without one 8.
    """

    machine_devices: int | None = None


class Changes(DeviceChanges, frozen=True, kw_only=True):
    """What may be changed of a stated problem; it has at least one accelerator."""

    devices: Annotated[
        int | None, setting("Number of accelerators.", metavar="N", least=1, group="problem", stated=True)
    ] = None
    weight_sync_per_batch: Annotated[
        bool,
        setting("Replicas synchronise weights once per batch, not per microbatch.", group="problem", stated=True),
    ] = False


class HybridPricing(Pricing, frozen=True, kw_only=True):
    """How a model on a cluster becomes a problem; ``pricing.hybrid_problem`` says what each means.

    Attributes
    ----------
    offload
        As for ``pricing.layer_menus``; in Python only.
    """

    microbatches: Annotated[
        tuple[int, ...],
        setting(
            "Of several (N,N,… or LOW:HIGH[:STEP]) the best is chosen.",
            metavar="N",
            least=1,
            counts=True,
            group="training",
        ),
    ] = ()
    minimise: Annotated[
        Aim,
        setting("Time per sample of an endless row of microbatches, with proof, or of a step with its bubble."),
    ] = "steady"
    zero1: Annotated[bool, setting("Replicas share out the optimizer's states.")] = False
    sequence_parallel: Annotated[bool, setting("Tensor-parallel groups do not share out tokens.", inverted=True)] = True
    tensor_parallel_degrees: Annotated[
        tuple[int, ...], setting("1, 2, 4, … up to a machine's devices if not given.", metavar="T,T,…", least=1)
    ] = ()
    recompute_options: Annotated[
        tuple[Literal["none", "selective", "full"], ...],
        setting("What layers may recompute; none,selective,full if not given.", metavar="NAME,…"),
    ] = ()
    offload: Any = None


def change(problem: HybridProblem, changes: Changes) -> HybridProblem:
    """The problem with the changes that are stated.

    Raises
    ------
    InputError
        If the problem cannot be changed so.
    """
    stated = {name: value for name, value in asdict(changes).items() if value is not None and value is not False}
    return problem.replace(memory_bytes=stated.pop("memory", None), **stated)
