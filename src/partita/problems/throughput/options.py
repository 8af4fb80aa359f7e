"""What can be asked of a throughput plan: one declaration for keywords, flags and settings."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from partita.nouns.pipeline import Contiguity, Plan
from partita.problems.facets.model import DeviceChanges, FrozenWeights, Pricing
from partita.problems.kind import SearchOptions
from partita.problems.settings import setting
from partita.problems.throughput.problem import Communication, ThroughputProblem, WorkingMemory
from partita.problems.throughput.variants import reload_at, split_evenly


class ThroughputOptions(SearchOptions, frozen=True, kw_only=True):
    """What a search may use."""

    contiguity: Annotated[Contiguity, setting("acyclic: stages in a row; free: any assignment.", group="search")] = (
        "acyclic"
    )

    @property
    def scope(self) -> str:
        return self.contiguity

    def covers(self, scope: str) -> bool:
        """What holds for free splits, or for all plans, holds for acyclic ones, which are free, too."""
        return scope in ("", "free", self.contiguity)

    def unkept(self, evaluation: Any) -> str | None:
        return "the split is not contiguous" if self.contiguity == "acyclic" and not evaluation.acyclic else None

    def marked(self, plan: Plan) -> Plan:
        return msgspec.structs.replace(plan, contiguity=self.contiguity)


class ThroughputChanges(DeviceChanges, frozen=True, kw_only=True):
    """What may be changed of a stated problem, and, but for what a cluster says, of one made from a model."""

    cpus: Annotated[
        int | None, setting("Number of CPUs.", metavar="L", least=0, group="problem", stated=True, unit="CPUs")
    ] = None
    schedule: Annotated[
        Literal["1f1b", "gpipe"] | None,
        setting(
            "gpipe adds the largest forward and the largest backward load.",
            group="problem",
            stated=True,
            meaning="The schedule of the microbatches; gpipe adds the largest forward and the largest backward load.",
        ),
    ] = None
    communication: Annotated[
        Communication | None,
        setting(
            "work + transfers, max(work, transfers), or max(work, in, out).",
            meaning="Load of a device: work + transfers, max(work, transfers), or max(work, in, out).",
        ),
    ] = None
    max_replicas: Annotated[
        int | None, setting("Most devices that share a stage.", metavar="R", least=1, unit="devices")
    ] = None
    groups: Annotated[
        int | None, setting("Devices in G groups behind slower links.", metavar="G", least=1, unit="groups")
    ] = None
    group_bandwidth: Annotated[
        float,
        setting(
            "With --groups: of a group's link, relative to an accelerator's.",
            metavar="X",
            above=0,
            unit="share of an accelerator's bandwidth",
            meaning="With groups: the bandwidth of a group's link, relative to an accelerator's.",
        ),
    ] = 0.1
    streaming: Annotated[bool, setting("Memory over the limit is allowed, and fetched for each sample.")] = False
    working_memory: Annotated[
        WorkingMemory | None,
        setting(
            "With --streaming: the largest workspace, or the peak of the order in which operators run.",
            meaning="With streaming, memory of a running stage: the largest workspace, or the peak of the order in "
            "which operators run.",
        ),
    ] = None
    reload_bandwidth: Annotated[
        float | None,
        setting(
            "With --streaming; the file's or the link's if not given.",
            metavar="BYTES_PER_S",
            above=0,
            unit="bytes/s",
            meaning="With streaming: the bandwidth of reloading; the file's or the link's if None.",
        ),
    ] = None


class ThroughputPricing(Pricing, frozen=True, kw_only=True):
    """How a model on a cluster becomes a problem; docs/cost-model.md says more of each."""

    microbatches: Annotated[
        int | None,
        setting(
            "Of the whole batch; 1, or 4 per device for training.",
            metavar="N",
            least=1,
            group="training",
            unit="microbatches",
            meaning="Microbatches of the whole batch; if None 1, or 4 per device for training.",
        ),
    ] = None
    schedule: Annotated[
        Literal["1f1b", "gpipe"],
        setting("Of the microbatches.", group="training", meaning="The schedule of the microbatches."),
    ] = "1f1b"
    weights: FrozenWeights = None
    recompute: Annotated[
        bool, setting("Keep only what enters a stage, and run its forward part again.", group="training")
    ] = False
    tied: Annotated[
        Literal["copy", "together"],
        setting("Tied parameters: a copy on each device that reads them, or their readers on one device."),
    ] = "copy"
    cuts: Annotated[
        Literal["operator", "module", "layer"],
        setting("Where stages may begin: between operators, modules of a layer, or layers."),
    ] = "operator"
    hierarchy: Annotated[bool, setting("Machines are groups: fast links inside, the network between.")] = False
    working_memory: Annotated[
        WorkingMemory,
        setting(
            "The largest workspace, or the peak of the order in which operators run (which streams).",
            meaning="Memory of a running stage: the largest workspace, or the peak of the order in which operators run "
            "(which streams).",
        ),
    ] = "largest"


def change(problem: ThroughputProblem, changes: ThroughputChanges) -> ThroughputProblem:
    """The problem with the changes that are stated."""
    fields: dict[str, Any] = {
        name: value
        for name in ("communication", "max_replicas", "working_memory")
        if (value := getattr(changes, name)) is not None
    }
    asked = {"microbatches": changes.microbatches, "name": changes.schedule}
    schedule = {name: value for name, value in asked.items() if value is not None}
    if schedule:
        fields["schedule"] = msgspec.structs.replace(problem.schedule, **schedule)
    fields |= {name: True for name in ("streaming", "weight_sync_per_batch") if getattr(changes, name)}
    if fields or not (changes.devices is changes.cpus is changes.memory is None):
        problem = problem.replace(
            accelerators=changes.devices, cpus=changes.cpus, memory_bytes=changes.memory, **fields
        )
    if changes.reload_bandwidth is not None:
        problem = reload_at(problem, changes.reload_bandwidth)
    return problem if changes.groups is None else split_evenly(problem, changes.groups, changes.group_bandwidth)
