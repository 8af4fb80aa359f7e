"""Mappings of a semantic FPN on the topologies of the Parmesan paper: ``python -m benchmarks.mapping [--limit S] …``.

The workload is a chain of stages with skip connections, cut from semantic FPN with a ResNet-50 backbone on images of
512×512 in single precision: operations, parameters and outputs of its blocks are computed here. Stages are cut so that
the most time of one is least; a stage takes three times its forward operations (forward and backward), activations and
their gradients cross between stages, and the skip connections from the backbone to the pyramid do, too.

By default a microbatch has two images and a device does 7 TFLOP/s, half the peak of the paper's Titan V: outputs are
large, and 30 million parameters are reduced. On slow links communication then takes longer than computing, on fast ones
less. ``--tflops 150`` is a device of today, where communication takes longer nearly everywhere.

Every row is a process of its own. Columns: the two orders that people take, the published search, ours, its bound, the
gap, how much better ours is than the better order, seconds, peak memory.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks._common import add_out, write

from partita.documents.stated import write_problem
from partita.nouns.topology import topology
from partita.problems.mapping.problem import MappingProblem, MappingStage, MappingTransfer

#: By family, the short form for each number of devices.
TOPOLOGIES = {
    "two-level": {n: f"two-level:{n // 4}x4" for n in (16, 64, 256, 512)},
    "dgx1": {n: f"dgx1:{n // 8}" for n in (16, 64, 256, 512)},
    "2-d mesh": {16: "mesh:4x4", 64: "mesh:8x8", 256: "mesh:16x16", 512: "mesh:16x32"},
    "2-d torus": {16: "torus:4x4", 64: "torus:8x8", 256: "torus:16x16", 512: "torus:16x32"},
    "3-d mesh": {16: "mesh:2x2x4", 64: "mesh:4x4x4", 256: "mesh:4x8x8", 512: "mesh:8x8x8"},
    "3-d torus": {16: "torus:2x2x4", 64: "torus:4x4x4", 256: "torus:4x8x8", 512: "torus:8x8x8"},
    "random_blk_1": {n: f"random-blk-1:{n}" for n in (16, 64, 256, 512)},
    "random_blk_2": {n: f"random-blk-2:{n}" for n in (16, 64, 256, 512)},
    "uniform_dist": {n: f"uniform:{n}" for n in (16, 64, 256, 512)},
}
#: Stages × replicas for each number of devices; the first one unless all are asked for.
SPLITS = {
    16: ((4, 4), (8, 2), (16, 1)),
    64: ((8, 8), (4, 16), (16, 4)),
    256: ((4, 64), (8, 32), (16, 16)),
    512: ((8, 64), (4, 128), (16, 32)),
}


class Block(NamedTuple):
    """Operations of the forward part and output elements, for one image, and parameters."""

    name: str
    flops: float
    parameters: int
    outputs: int


def _convolutions(*shapes: tuple[int, int, int, int]) -> tuple[float, int]:
    """Operations and parameters of convolutions: side of the output, channels in and out, side of the kernel."""
    return (
        sum(2.0 * side**2 * before * after * kernel**2 for side, before, after, kernel in shapes),
        sum(before * after * kernel**2 for _, before, after, kernel in shapes),
    )


def semantic_fpn() -> tuple[list[Block], list[tuple[int, int]]]:
    """Its blocks in order, and the skip connections between them."""
    blocks = [Block("stem", *_convolutions((256, 3, 64, 7)), 128**2 * 64)]
    channels, ends = 64, {}
    for level, (side, inner, count) in enumerate(((128, 64, 3), (64, 128, 4), (32, 256, 6), (16, 512, 3)), 2):
        for number in range(count):
            outer = 4 * inner
            shapes = [(side, channels, inner, 1), (side, inner, inner, 3), (side, inner, outer, 1)]
            shapes += [(side, channels, outer, 1)] if number == 0 else []
            blocks.append(Block(f"c{level}.{number}", *_convolutions(*shapes), side**2 * outer))
            channels = outer
        ends[level] = len(blocks) - 1
    skips = []
    for level, side, channels in ((5, 16, 2048), (4, 32, 1024), (3, 64, 512), (2, 128, 256)):
        shapes = [(side, channels, 256, 1), (side, 256, 256, 3), (side, 256, 128, 3)]
        # The merged map for the next level, and the sum of the head so far.
        blocks.append(Block(f"p{level}", *_convolutions(*shapes), side**2 * 256 + 128**2 * 128))
        if level < 5:
            skips.append((ends[level], len(blocks) - 1))
    blocks.append(Block("head", *_convolutions((128, 128, 150, 1)), 1))
    return blocks, skips


def _cuts(work: Sequence[float], stages: int) -> list[int]:
    """Where consecutive blocks are cut so that the most work of a stage is least: first blocks, and the end."""
    count = len(work)
    best: dict[tuple[int, int], tuple[float, list[int]]] = {(0, 0): (0.0, [0])}
    for stage in range(1, stages + 1):
        for end in range(stage, count - stages + stage + 1):
            options = (
                (max(best[stage - 1, start][0], sum(work[start:end])), [*best[stage - 1, start][1], end])
                for start in range(stage - 1, end)
                if (stage - 1, start) in best
            )
            best[stage, end] = min(options)
    return best[stages, count][1]


def workload(stages: int, replicas: int, machine: str, images: int, tflops: float) -> MappingProblem:
    """The mapping problem of a split on a topology."""
    blocks, skips = semantic_fpn()
    cuts = _cuts([block.flops for block in blocks], stages)
    home = [next(s for s in range(stages) if number < cuts[s + 1]) for number in range(len(blocks))]
    parts = [blocks[cuts[s] : cuts[s + 1]] for s in range(stages)]
    chain = [(cuts[s + 1] - 1, cuts[s + 1]) for s in range(stages - 1)]
    found = topology(machine)
    matrix = found.bandwidth_bytes_per_s.copy()
    matrix[range(len(matrix)), range(len(matrix))] = 0.0
    return MappingProblem(
        name=f"semantic FPN, {stages}x{replicas}, {machine}",
        replicas=replicas,
        stages=tuple(
            MappingStage(
                name=part[0].name,
                time_s=3 * images * sum(block.flops for block in part) / (tflops * 1e12),
                parameter_bytes=4.0 * sum(block.parameters for block in part),
            )
            for part in parts
        ),
        transfers=tuple(
            MappingTransfer(source=home[a], target=home[b], bytes=2 * 4.0 * images * blocks[a].outputs)
            for a, b in (*chain, *skips)
            if home[a] != home[b]
        ),
        bandwidth_bytes_per_s=tuple(map(tuple, matrix.tolist())),
        devices=found.names,
    )


#: What a process runs: arguments are the file and the limit in seconds.
CHILD = """
import json, resource, sys
import partita
from partita.problems.mapping.descriptor import MAPPING
from partita.problems.mapping.samples import SAMPLES
from partita.engines.search.monitor import Monitor
for sample in SAMPLES[0]:
    partita.solve(sample, time_limit_s=20)
problem, limit = partita.read_problem(sys.argv[1]), float(sys.argv[2])
found = {}
for baseline in MAPPING.baselines[:3]:
    plan = baseline.solve(problem, MAPPING.options(), Monitor(limit)).plan
    found[baseline.name] = MAPPING.evaluate(problem, plan).objective
result = partita.solve(problem, time_limit_s=limit)
found |= {"objective": result.objective, "bound": result.bound.value, "gap": result.gap, "seconds": result.runtime_s}
found["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps(found))
"""


def rows(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """One for each topology, size and split."""
    path = options.out / "mapping.problem.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    for count in options.devices:
        for family, forms in TOPOLOGIES.items():
            if options.family and family not in options.family:
                continue
            for stages, replicas in SPLITS[count] if options.all else SPLITS[count][:1]:
                problem = workload(stages, replicas, forms[count], options.images, options.tflops)
                write_problem(path, problem)
                command = [sys.executable, "-c", CHILD, str(path), str(options.limit)]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode != 0:
                    print(f"{problem.name}: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
                    continue
                found = json.loads(done.stdout)
                better = min(found["consecutive"], found["point-to-point-first"])
                yield {
                    "topology": family,
                    "devices": count,
                    "stages": stages,
                    "replicas": replicas,
                    **found,
                    "speed_up": better / found["objective"],
                }
    path.unlink(missing_ok=True)


def main() -> None:
    """Print a line for each row as it comes, and write all as CSV."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=float, default=60.0, help="seconds of ours, and of the published search")
    parser.add_argument("--devices", type=int, nargs="+", default=list(SPLITS), choices=list(SPLITS))
    parser.add_argument("--family", nargs="+", choices=list(TOPOLOGIES))
    parser.add_argument("--all", action="store_true", help="all splits")
    parser.add_argument("--images", type=int, default=2, help="of a microbatch")
    parser.add_argument("--tflops", type=float, default=7.0, help="that a device does")
    add_out(parser)
    options = parser.parse_args()
    started, found = time.perf_counter(), []
    print(f"{options.images} images per microbatch, {options.tflops:g} TFLOP/s; times in milliseconds")
    titles = ("consecutive", "p2p first", "parmesan", "ours", "bound", "gap", "speed-up", "seconds", "MB")
    print(f"{'topology':14}{'devices':>8}{'S x R':>9}" + "".join(f"{title:>12}" for title in titles))
    for row in rows(options):
        found.append(row)
        times = ("consecutive", "point-to-point-first", "parmesan", "objective", "bound")
        line = "".join(f"{1e3 * row[name]:12.2f}" for name in times)
        split = f"{row['stages']}x{row['replicas']}"
        rest = f"{row['gap']:12.1%}{row['speed_up']:11.2f}x{row['seconds']:12.1f}{row['peak_mb']:12.0f}"
        print(f"{row['topology']:14}{row['devices']:8}{split:>9}{line}{rest}", flush=True)
    close = sum(row["gap"] <= 0.1 for row in found)
    print(f"{close} of {len(found)} within 10 %; {time.perf_counter() - started:.0f} s")
    write(options.out / "mapping.csv", found)


if __name__ == "__main__":
    main()
