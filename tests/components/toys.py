"""A component of every sort, made of ``partita`` alone: registered by tests, and the whole of a package of theirs."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np

import partita as pt


class InOrder(pt.Solver):
    """A solver of a problem of the package."""

    name = "in-order"
    summary = "devices in order; ignores bandwidth"
    problem = "mapping"

    def solve(self, problem: Any, options: Any, monitor: Any) -> Any:
        devices = iter(range(problem.used))
        return pt.Outcome(pt.Placement(placement=tuple(tuple(next(devices) for _ in range(n)) for n in problem.counts)))


class Backwards(pt.Solver):
    """A baseline of it."""

    name = "backwards"
    summary = "devices from the last one; ignores bandwidth"
    problem = "mapping"
    sort = "baseline"

    def solve(self, problem: Any, options: Any, monitor: Any) -> Any:
        devices = iter(reversed(range(problem.used)))
        return pt.Outcome(pt.Placement(placement=tuple(tuple(next(devices) for _ in range(n)) for n in problem.counts)))


class LongestStage(pt.BoundMethod):
    """A bound of it."""

    name = "longest-stage"
    summary = "the time of the longest stage; ignores transfers"
    argument = "some device does the longest stage"
    problem = "mapping"

    def bound(self, problem: Any, monitor: Any) -> Any:
        longest = max(stage.time_s for stage in problem.stages)
        return pt.Bound(longest, self.name, self.scope, monitor.elapsed_s)


class Jobs(pt.Stated, frozen=True, kw_only=True):
    """A problem of its own."""

    kind: ClassVar[str] = "jobs"
    format: ClassVar[str] = "toys.jobs"

    machines: Annotated[int, pt.setting("Number of machines.", metavar="N", least=1)]
    times: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.times:
            raise pt.InputError("there are no jobs")


class Rota(msgspec.Struct, frozen=True):
    """Its plan."""

    machine_of: tuple[int, ...]


class LongestFirst(pt.Solver):
    """Its solver."""

    name = "longest-first"
    summary = "the longest job to the least loaded machine; ignores what comes later"

    def solve(self, problem: Any, options: Any, monitor: Any) -> Any:
        loads, home = [0.0] * problem.machines, [0] * len(problem.times)
        for job in sorted(range(len(home)), key=lambda i: -problem.times[i]):
            home[job] = loads.index(min(loads))
            loads[home[job]] += problem.times[job]
        return pt.Outcome(Rota(tuple(home)))


class JobKind(pt.Kind):
    """Its descriptor."""

    summary = "independent jobs on identical machines"
    problem, plan = Jobs, Rota
    solvers, usual_solver = (LongestFirst(),), "longest-first"

    def evaluate(self, problem: Any, plan: Any) -> Any:
        loads = [0.0] * problem.machines
        for time, machine in zip(problem.times, plan.machine_of, strict=True):
            loads[machine] += time
        return pt.PlanEvaluation(objective=max(loads))


class LastDown(pt.Schedule):
    """A schedule: all forward, then backward from the last microbatch."""

    name = "last-down"
    summary = "all forward, then the last microbatch first"

    def orders(self, ranks: int, chunks: int, microbatches: int) -> list[list[pt.Action]]:
        up = range(microbatches)
        return [
            [pt.Action(rank, "F", m) for m in up] + [pt.Action(rank, "B", m) for m in reversed(up)]
            for rank in range(ranks)
        ]


class Rows(pt.FileExporter):
    """An exporter, with its runtime."""

    name = "rows"
    runtime = pt.Runtime(name="rows", summary="rows: a line a stage", limits=pt.Limits(training=False), source="here")

    def content(self, split: pt.Split, model: Any) -> bytes:
        return "".join(f"{part.rank} {' '.join(part.devices)}\n" for part in split.stages).encode()


def hub(size: tuple[int, ...], rate: float) -> pt.Topology:
    """Devices of one machine."""
    (count,) = size
    return pt.Topology(
        name="hub",
        names=tuple(f"hub{i}" for i in range(count)),
        bandwidth_bytes_per_s=np.full((count, count), rate),
        machine_of=(0,) * count,
    )


HUB = pt.TopologyGenerator(
    "hub",
    "devices around a hub",
    "hub:4",
    "DEVICES",
    hub,
    options=(pt.Option("rate", lambda where, text: float(text), "bytes per second", "5e9"),),
)


def recognises(source: Any) -> bool:
    """Whether a file is a list of devices."""
    return bool(source.text.startswith("devices of a hub:"))


def read(source: Any, device: str | None) -> pt.Topology:
    """Its devices."""
    return hub((int(source.text.split(":")[1]),), 1e9)


LISTED = pt.TopologyImporter("hub-list", "how many devices there are", recognises, read, "devices of a hub: 2\n")

WIRE = pt.LinkSpec(name="wire", bandwidth_bytes_per_s=2e9, source="here")
CARD = pt.DeviceSpec(
    name="MyCard",
    peak_flops={"float32": 1e13, "bfloat16": 2e13},
    memory_bandwidth_bytes_per_s=1e11,
    memory_bytes=8 * 2**30,
    link="wire",
    source="here",
)


def read_jobs(data: bytes, path: Any, *, scale_communication: float = 1.0) -> Jobs:
    """Jobs as numbers with commas behind the word."""
    times = data.decode().removeprefix("jobs ").split(",")
    return Jobs(name=str(path), machines=2, times=tuple(map(float, times)))


def looks_like_jobs(data: bytes) -> bool:
    """Whether a file begins with the word."""
    return data.startswith(b"jobs ")


COMMAS = pt.ForeignFormat("commas", {"jobs": read_jobs}, text=looks_like_jobs)

#: In an order in which each finds what it refers to.
COMPONENTS = (InOrder, Backwards, LongestStage, JobKind, LastDown, Rows, HUB, LISTED, WIRE, CARD, COMMAS)

FOUR = Jobs(name="four", machines=2, times=(3.0, 3.0, 2.0, 2.0))
