"""Large contiguous instances: copies of published graphs in series and in parallel, and long transformer chains.

    python benchmarks/throughput_large.py [DATA] [--limit 60] [--only TEXT] [--out results]

DATA is the folder with the published throughput files, ../shared/data/dnn-partitioning/throughput by default. In
series every last item of a copy (a contracted operator that nothing follows) feeds every first item of the next, at
the cost of its own output if it has one, otherwise at the smallest cost in the file. Memory and CPUs are as in the
file unless the name says "no limit": ten Inceptions need 9.8 accelerators' memory, so with 8 of them one CPU must
hold the rest.
"""

from __future__ import annotations

import argparse
import resource
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np

import partita
from _common import add_out, write
from partita.engines.search.monitor import Monitor
from partita.problems.throughput.contraction.instance import build_instance
from partita.problems.throughput.evaluate import evaluate
from partita.problems.throughput.problem import (
    DeviceKind,
    MicrobatchSchedule,
    MovedTensor,
    SavedTensor,
    ThroughputProblem,
    TimedOperator,
)
from partita.problems.throughput.protocol import ThroughputOptions
from partita.problems.throughput.solvers.exact import Exact

INCEPTION, BERT = "layer-inceptionv3_inference", "operator-bert_l-12_inference"


def copies(problem: ThroughputProblem, count: int, *, joined: bool) -> ThroughputProblem:
    """Several copies, one after another if ``joined``, otherwise side by side."""
    instance = build_instance(problem)
    first = [problem.operators[int(np.flatnonzero(instance.group == v)[0])].id for v in range(instance.items)]
    last = [first[v] for v in np.flatnonzero(np.diff(instance.graph.succ_ptr) == 0)]
    sources = [first[v] for v in np.flatnonzero(np.diff(instance.graph.pred_ptr) == 0)]
    sizes = {tensor.producer: tensor.size for tensor in problem.tensors}
    small = min((size for size in sizes.values() if size > 0), default=0.0)
    step = max(op.id for op in problem.operators) + 1
    operators: list[TimedOperator] = []
    tensors: list[MovedTensor] = []
    for copy in range(count):
        shift = copy * step
        for op in problem.operators:
            tie = None if op.colocation is None else op.colocation + copy * 1_000_000
            operators.append(msgspec.structs.replace(op, id=op.id + shift, colocation=tie))
        for tensor in problem.tensors:
            readers = tuple(reader + shift for reader in tensor.consumers)
            tensors.append(msgspec.structs.replace(tensor, producer=tensor.producer + shift, consumers=readers))
        if joined and copy + 1 < count:
            readers = tuple(source + shift + step for source in sources)
            tensors += [MovedTensor(producer=v + shift, consumers=readers, size=sizes.get(v, small)) for v in last]
    return msgspec.structs.replace(problem, operators=tuple(operators), tensors=tuple(tensors))


def transformer(
    layers: int, kinds: tuple[DeviceKind, ...], *, training: bool, schedule: MicrobatchSchedule
) -> ThroughputProblem:
    """A chain of layers of 15 operators with two skip connections each; sizes as of a model of width 4096."""
    random = np.random.default_rng(7)
    work = [0.2, 3.0, 0.1, 0.1, 1.0, 0.4, 1.0, 1.2, 0.1, 0.2, 4.0, 0.3, 4.0, 0.1, 0.1]
    operators: list[TimedOperator] = []
    tensors: list[MovedTensor] = []
    saved: list[SavedTensor] = []
    total = layers * 15

    def add(number: int, time: float, backward: bool) -> None:
        times = tuple(time * (1.0 + 0.6 * k) for k in range(len(kinds)))
        operators.append(
            TimedOperator(
                id=number,
                times=times,
                backward=backward,
                colocation=number % total,
                memory_bytes=time * 2e8 * (not backward),
            )
        )

    for v in range(total):
        time = work[v % 15] * (1 + 0.05 * float(random.random()))
        add(v, time, False)
        readers = [v + 1] if v + 1 < total else []
        # The layer's input skips attention, and what attention adds up skips the feed-forward part.
        readers += [v + span for place, span in ((14, 9), (8, 6)) if v % 15 == place and v + span < total]
        size = 2.0 if v % 15 in (10, 11) else 0.5
        tensors.append(MovedTensor(producer=v, consumers=tuple(readers), size=size))
    if training:
        for v in range(total):
            add(total + v, 2 * operators[v].times[0], True)  # type: ignore[operator]
            saved.append(SavedTensor(name=f"saved {v}", users=(total + v,), bytes=2e7))
        for tensor in tensors[:total]:
            tensors += [
                MovedTensor(producer=total + reader, consumers=(total + tensor.producer,), size=tensor.size)
                for reader in tensor.consumers
            ]
    name = f"transformer {layers} layers {'training' if training else 'inference'} {schedule.name} " + "+".join(
        f"{k.count}x{k.name}" for k in kinds
    )
    return ThroughputProblem(
        name=name,
        kinds=kinds,
        operators=tuple(operators),
        tensors=tuple(tensors),
        saved=tuple(saved),
        schedule=schedule,
        unit="ms",
    )


def cases(data: Path) -> Iterator[ThroughputProblem]:
    """The instances, files first."""
    for stem in (INCEPTION, BERT):
        path = data / f"{stem}.json"
        if not path.exists():
            print(f"{path} is absent; give the folder with the published throughput files as an argument")
            continue
        problem = partita.read_problem(path, format="dnn-partitioning")
        series = copies(problem, 10, joined=True)
        for k in (8, 32, 64):
            yield series.replace(accelerators=k, name=f"{stem} x 10 in series, k = {k}")
        if stem == INCEPTION:
            free = series.replace(accelerators=8, memory_bytes=float("inf"))
            yield msgspec.structs.replace(free, name=f"{stem} x 10 in series, k = 8, no limit")
            yield copies(problem, 2, joined=False).replace(accelerators=12, name=f"{stem} x 2 in parallel, k = 12")
    for layers in (3_400, 33_334):
        roomy = (DeviceKind(name="A100", count=8, memory_bytes=5e10 * layers / 80),)
        yield transformer(layers, roomy, training=False, schedule=MicrobatchSchedule())
    one = (DeviceKind(name="A100", count=8, memory_bytes=5e10),)
    two = (
        DeviceKind(name="A100", count=4, memory_bytes=6e10),
        DeviceKind(name="T4", count=4, memory_bytes=3e10, transfer_time_per_unit=1.5),
    )
    for kinds in (one, two):
        yield transformer(80, kinds, training=False, schedule=MicrobatchSchedule())
        yield transformer(80, kinds, training=True, schedule=MicrobatchSchedule(name="1f1b", microbatches=8))
        yield transformer(
            80, kinds, training=True, schedule=MicrobatchSchedule(name="1f1b", microbatches=8, recompute=True)
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="?", type=Path, default=Path("../shared/data/dnn-partitioning/throughput"))
    parser.add_argument("--limit", type=float, default=60.0, help="seconds per instance")
    parser.add_argument("--only", default="", help="instances whose name contains this")
    add_out(parser)
    arguments = parser.parse_args()
    # Compiles or loads the kernels.
    Exact().solve(next(iter(cases(arguments.data))), ThroughputOptions(), Monitor(5.0))
    print(f"{'instance':64} {'objective':>10} {'bound':>10} {'gap':>8} {'s':>6} {'MB':>5}")
    rows: list[dict[str, object]] = []
    for problem in cases(arguments.data):
        if arguments.only not in problem.name:
            continue
        monitor = Monitor(arguments.limit)
        outcome = Exact().solve(problem, ThroughputOptions(), monitor)
        seconds = monitor.elapsed_s
        objective = float("nan") if outcome.plan is None else evaluate(problem, outcome.plan).objective
        bound = outcome.bound or 0.0
        gap = max(0.0, 1 - bound / objective)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        note = "  infeasible" if outcome.infeasible else ""
        print(
            f"{problem.name:64} {objective:10.4f} {bound:10.4f} {gap:8.1e} {seconds:6.1f} {peak:5.0f}{note}", flush=True
        )
        rows.append(
            {
                "instance": problem.name,
                "objective": objective,
                "bound": bound,
                "gap": gap,
                "wall_s": seconds,
                "peak_mb": peak,
                "infeasible": outcome.infeasible,
            }
        )
    write(arguments.out / "throughput_large.csv", rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
