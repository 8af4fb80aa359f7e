"""Every solver and baseline of the makespan problem on the same problems, published ones and traced models.

    python benchmarks/makespan_contest.py [DATA] [--time-limit 60] [--instances gpt2,googlenet] [--quick]

DATA is a folder with files of the moirai format, ../shared/data/moirai by default. Models are traced from transformers
configurations without weights, in half precision, one sample; each is placed on 2, 4 and 8 mixed devices, as it is and
fused. All of them would fit into one device, and stay there: so no device has more memory than ``--share`` of an even
share of the model's. Published problems keep their devices and memory. Every run has a process of its own, so that its
peak memory is its own; its time begins when kernels and torch are loaded.

Prints the rows, then how much less time a sample takes than with each baseline (the shape of Moirai's Fig. 10), then
how long each took (the shape of its Table V), and writes ``results/makespan_contest.csv``. The end is an error if a
baseline is better than the default solver.

Source: "Moirai: Towards Optimal Placement for Distributed Inference on Heterogeneous Devices" (2023), §IV.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from _common import add_out, write

HERE = Path(__file__).resolve().parent

#: Model, and what else is asked of its trace, in full and with --quick.
MODELS: dict[str, tuple[str, dict[str, str], dict[str, str]]] = {
    "swin-t": ("hf:swin", {}, {"depths": "[1, 1, 1, 1]"}),
    "gpt2": ("hf:gpt2", {}, {"n_layer": "2"}),
    "bert": ("hf:bert", {}, {"num_hidden_layers": "2"}),
    "resnet50": ("hf:resnet", {}, {"depths": "[1, 1, 1, 1]"}),
    "esmfold-trunk": (f"{HERE / '_esmfold.py'}:trunk", {}, {"blocks": "1"}),
}

#: Fast and slow in one machine; two machines, unequal inside and between; three machines, of which one is half as fast
#: again. All of them compute in half precision by hardware.
CLUSTERS = {2: "(1xA100-40GB+1xL4)", 4: "2xA100-40GB+2xL4", 8: "2xA100-40GB+2xL4+4xT4"}

GRAPHS = ("original", "fused")

#: Makes the problem files of one model: what to trace, its fields, clusters by number of devices, the share of memory
#: and the folder. Prints the files and how many operators each has.
MAKE = """
import json, sys
import msgspec
import partita
from partita.nouns.topology.read import read_cluster
from partita.frontends.models import load_model
name, spec, fields, clusters, graphs, share, folder = json.loads(sys.argv[1])
graph = load_model(spec, dtype="float16", set_fields=fields)
found = []
for kind in graphs:
    for devices, cluster in clusters.items():
        problem = partita.price(graph, read_cluster(cluster), objective="latency", fuse=kind == "fused")
        if share:
            memory = {op.id: op.memory for op in problem.operators}
            classes = [sum(problem.operators[v].memory for v in members) for members in problem.classes()]
            limit = max(share * sum(memory.values()) / len(problem.devices), max(classes))
            problem = problem.replace(
                devices=tuple(msgspec.structs.replace(d, memory=min(d.memory, limit)) for d in problem.devices)
            )
        path = f"{folder}/{name}-{devices}-{kind}.json"
        partita.write_problem(path, problem)
        found.append([path, name, int(devices), kind])
print(json.dumps(found))
"""

#: Runs one solver or baseline on a file; the same on a tiny problem first, so that loading is not timed.
RUN = """
import json, sys
import partita
from partita.problems import kind_of
from partita.problems.makespan.options import MakespanOptions
from partita.problems.makespan.samples import DIAMOND
from partita.engines.search.monitor import Monitor
path, name, limit, seed, episodes = json.loads(sys.argv[1])
problem = partita.read_problem(path)
kind = kind_of(problem)
solver = next(entry for entry in (*kind.solvers, *kind.baselines) if entry.name == name)
options = MakespanOptions(seed=seed, episodes=episodes)
shape = {"operators": len(problem.operators), "unit": problem.unit}
refusal = solver.supports(problem, options)
if refusal is not None:
    print(json.dumps({**shape, "note": refusal}))
    sys.exit()
solver.solve(DIAMOND, MakespanOptions(episodes=1), Monitor(10.0))
monitor = Monitor(limit)
outcome = solver.solve(problem, options, monitor)
seconds = monitor.elapsed_s
found = None if outcome.plan is None else kind.evaluate(problem, outcome.plan)
fits = found is not None and found.feasible
with open("/proc/self/status") as status:
    peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
print(json.dumps({
    **shape,
    "makespan": found.objective if fits else None,
    "bound": outcome.bound if outcome.lossless else None,
    "time_s": seconds,
    "peak_mb": peak / 1024,
    "note": outcome.reason if found is None else "" if fits else found.violations[0],
}))
"""

#: Lists the solvers, default first, and the baselines.
LIST = """
import json
from partita.problems import kinds
kind = next(kind for kind in kinds() if kind.name == "makespan")
print(json.dumps([[entry.name for entry in kind.solvers], [entry.name for entry in kind.baselines]]))
"""


def apart(code: str, arguments: Any = None) -> Any:
    """What a process prints, from JSON; a sentence if it fails."""
    command = [sys.executable, "-c", code, json.dumps(arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return (done.stderr.strip() or f"ended with status {done.returncode}").splitlines()[-1]
    return json.loads(done.stdout.splitlines()[-1])


def problems(arguments: argparse.Namespace, folder: str) -> Iterator[tuple[str, str, int, str]]:
    """Path, name, devices and graph of every problem; files are made model by model."""
    wanted = None if arguments.instances is None else arguments.instances.split(",")
    files = {path.stem: path for path in sorted(arguments.data.glob("*.json"))}
    for unknown in set(wanted or ()) - files.keys() - MODELS.keys():
        sys.exit(f"there is no instance {unknown!r}; known are {', '.join([*files, *MODELS])}")
    if not files:
        print(f"no files in {arguments.data}; give the folder with the published files as an argument")
    for name, path in files.items():
        if wanted is None or name in wanted:
            yield str(path), name, len(json.loads(path.read_text())["devices"]), "original"
    clusters = {devices: CLUSTERS[devices] for devices in map(int, arguments.devices.split(","))}
    for name, (spec, full, quick) in MODELS.items():
        if wanted is None or name in wanted:
            fields = quick if arguments.quick else full
            graphs = arguments.graphs.split(",")
            made = apart(MAKE, [name, spec, fields, clusters, graphs, arguments.share, folder])
            if isinstance(made, str):
                print(f"{name}: {made}")
                continue
            yield from made


def run_all(path: str, arguments: argparse.Namespace, solvers: list[str], baselines: list[str]) -> list[dict[str, Any]]:
    """A row for every solver and baseline; the gap of each is to the best bound that any of them proves."""
    rows = []
    for name in [*solvers, *baselines]:
        found = apart(RUN, [path, name, arguments.time_limit, arguments.seed, arguments.episodes])
        found = {"note": found} if isinstance(found, str) else found
        rows.append({"solver": name, "kind": "solver" if name in solvers else "baseline", **found})
    bound = max((row["bound"] for row in rows if row.get("bound") is not None), default=None)
    for row in rows:
        known = bound is not None and row.get("makespan")
        row["gap"] = max(0.0, 1 - bound / row["makespan"]) if known else None
    return rows


def better_than(ours: str, rows: list[dict[str, Any]]) -> list[str]:
    """Where another schedule is better than ours, one sentence each."""

    def value(row: dict[str, Any]) -> float:
        return math.inf if row.get("makespan") is None else float(row["makespan"])

    keys = ("instance", "devices", "graph")
    best = {tuple(row[k] for k in keys): value(row) for row in rows if row["solver"] == ours}
    found = [(row, tuple(row[k] for k in keys)) for row in rows]
    return [
        f"{' '.join(map(str, key))}: {row['solver']} is better than {ours}"
        for row, key in found
        if value(row) < best[key] * (1 - 1e-9)
    ]


COLUMNS = ("instance", "devices", "graph", "operators", "solver", "kind", "makespan", "unit", "bound", "gap", "time_s")
FORMATS = {"makespan": ".6g", "bound": ".6g", "gap": ".2%", "time_s": ".2f", "peak_mb": ".0f"}


def shown(row: dict[str, Any], column: str) -> str:
    """A cell for people."""
    value = row.get(column)
    return "—" if value is None else format(value, FORMATS.get(column, ""))


def pivot(title: str, rows: list[dict[str, Any]], names: list[str], cell: Any) -> None:
    """A table with a line for every problem and a column for every name."""
    keys = list(dict.fromkeys((row["instance"], row["devices"], row["graph"]) for row in rows))
    print(f"\n{title}\n{'':36}" + "".join(f"{name:>18}" for name in names))
    for key in keys:
        of = {row["solver"]: row for row in rows if (row["instance"], row["devices"], row["graph"]) == key}
        print(f"{key[0]:20}{key[1]:>4}  {key[2]:10}" + "".join(f"{cell(of, name):>18}" for name in names))


def main() -> int:
    """Run, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="?", type=Path, default=Path("../shared/data/moirai"))
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds for each run")
    parser.add_argument("--instances", help="names of files and models, with commas between them; all unless stated")
    parser.add_argument("--devices", default="2,4,8", help="for models: numbers of devices")
    parser.add_argument("--graphs", default="original,fused", help="for models: which graphs")
    parser.add_argument(
        "--share", type=float, default=1.5, help="of an even share of memory; 0: as much as devices have"
    )
    parser.add_argument("--episodes", type=int, default=2000, help="of the learned baseline, as far as its time goes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--solvers", help="names of solvers and baselines, with commas between them; all unless stated")
    parser.add_argument("--quick", action="store_true", help="models of a few layers")
    add_out(parser)
    arguments = parser.parse_args()
    solvers, baselines = apart(LIST)
    if arguments.solvers is not None:
        names = arguments.solvers.split(",")
        for unknown in set(names) - {*solvers, *baselines}:
            sys.exit(f"there is no solver {unknown!r}; known are {', '.join([*solvers, *baselines])}")
        solvers, baselines = ([name for name in row if name in names] for row in (solvers, baselines))
    rows: list[dict[str, Any]] = []
    print(f"{'instance':20}{'dev':>4}  {'graph':10}{'ops':>6}  {'solver':16}{'makespan':>14}{'bound':>13}{'gap':>8}"
          f"{'time s':>9}{'MB':>6}")  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        for path, instance, devices, graph in problems(arguments, folder):
            for row in run_all(path, arguments, solvers, baselines):
                rows.append({"instance": instance, "devices": devices, "graph": graph, **row})
                cells = {column: shown(rows[-1], column) for column in (*COLUMNS, "peak_mb")}
                print(
                    f"{instance:20}{devices:>4}  {graph:10}{cells['operators']:>6}  {cells['solver']:16}"
                    f"{cells['makespan']:>11} {row.get('unit', ''):2}{cells['bound']:>13}{cells['gap']:>8}"
                    f"{cells['time_s']:>9}{cells['peak_mb']:>6}  {row.get('note', '')}",
                    flush=True,
                )
    ours = solvers[0] if solvers else ""

    def less(of: dict[str, dict[str, Any]], name: str) -> str:
        best, other = of[ours].get("makespan"), of[name].get("makespan")
        return "—" if not best or other is None else f"{(other - best) / other:.1%}"

    worse = []
    if ours and baselines:
        pivot(f"How much less time a sample takes with {ours!r}", rows, baselines, less)
        worse = better_than(ours, rows)
    pivot("Seconds", rows, [*solvers, *baselines], lambda of, name: shown(of[name], "time_s"))
    write(
        arguments.out / "makespan_contest.csv", [{c: row.get(c) for c in (*COLUMNS, "peak_mb", "note")} for row in rows]
    )
    print(*worse, sep="\n")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
