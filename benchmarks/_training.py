"""Published training runs: rows of facts, the models and layouts they ran, and what the planner says of them.

A row says what ran (``family`` and sizes), on what (``device``, ``machines``, ``per_machine``, ``network``, ``nics``),
how (``tensor``, ``pipeline``, ``data``, ``chunks``, ``microbatch``, ``global_batch``, ``recompute``,
``sequence_parallel``, ``zero``), and what was measured (``step_s``, ``memory_mib``). Nothing here is made for one row.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

import partita as pt
from partita.conductor.judge import evaluate
from partita.costs.strategies.layers import find_splits
from partita.costs.strategies.view import GraphView
from partita.nouns.graph import Graph
from partita.nouns.pipeline import Plan
from partita.problems.hybrid.blocks import find_blocks
from partita.problems.hybrid.evaluation import HybridEvaluation
from partita.problems.hybrid.layer import Edge, Layer
from partita.problems.hybrid.pricing import strategy_spaces
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.step.layout import MeshLayout, layout_plan, uniform_plan
from partita.problems.hybrid.training import Training

FOLDER = Path(__file__).resolve().parent
ROWS = FOLDER / "training_runs.json"
MODELS = FOLDER.parent / "examples" / "language_models.py"

#: Models are traced with so many blocks and the rest is repeated; ``tests/benchmarks`` compares it with a whole trace.
TRACED_BLOCKS = 4

Row = Mapping[str, Any]


def read_rows(path: str | Path = ROWS) -> list[dict[str, Any]]:
    """The rows of a file: a list, or a table with the list as ``rows``."""
    data = json.loads(Path(path).read_text(encoding="utf-8"))
    rows: list[dict[str, Any]] = data["rows"] if isinstance(data, dict) else data
    return rows


@dataclass(frozen=True)
class Prediction:
    """What is said of a row.

    Attributes
    ----------
    row
        The row.
    problem, plan, evaluation
        The model on the cluster, the layout's plan, and what it is worth.
    reserve_bytes
        Working memory beside what stages hold.
    model_flops
        Useful operations of a step.
    peak_flops
        Of all devices per second.
    """

    row: Row
    problem: HybridProblem
    plan: Plan
    evaluation: HybridEvaluation
    reserve_bytes: float
    model_flops: float
    peak_flops: float

    @property
    def step_s(self) -> float:
        """Time of a step."""
        return self.evaluation.objective

    @property
    def memory_bytes(self) -> float:
        """What the fullest device holds at the most."""
        return max(stage.memory_bytes for stage in self.evaluation.stages) + self.reserve_bytes

    def utilisation(self, step_s: float) -> float:
        """Model FLOPs utilisation of a step that takes so long."""
        return self.model_flops / (step_s * self.peak_flops)


def predict(row: Row) -> Prediction:
    """Price the layout of a row."""
    graph = traced(row)
    cluster = cluster_of(row)
    layout = layout_of(row)
    spaces = strategy_spaces(
        graph,
        cluster,
        microbatches=row["global_batch"] // row["microbatch"],
        degrees=(layout.tensor,),
        memory_options=(layout.recompute,),
        sequence_parallel=layout.sequence_parallel,
        gather_again=not _own_runtime(row),
        gradient_dtype="float32",
        training=Training(schedules=(layout.runs,), zero=(layout.zero,), overlap=layout.overlap),
    )
    problem = spaces.problem if row["layers"] <= TRACED_BLOCKS else repeat_block(spaces.problem, row["layers"])
    plan = balanced_by_cost(problem, layout, row) if _own_runtime(row) else layout_plan(problem, layout)
    (group,) = cluster.workers()
    return Prediction(
        row=row,
        problem=problem,
        plan=plan,
        evaluation=evaluate(problem, plan),
        reserve_bytes=spaces.reserve_bytes,
        model_flops=problem.microbatches * model_flops(graph, row["layers"]),
        peak_flops=group.spec.peak(row.get("dtype", "float16")) * cluster.device_count,
    )


def cluster_of(row: Row) -> pt.Cluster:
    """The machines of a row."""
    machine: dict[str, Any] = {"count": row["machines"], "devices": f"{row['per_machine']}x{row['device']}"}
    if row.get("nics"):
        machine["nics"] = row["nics"]
    document: dict[str, Any] = {"name": row["name"], "machines": [machine]}
    if row.get("network"):
        document["network"] = row["network"]
    return pt.Cluster.from_document(document, where=row["name"])


def layout_of(row: Row) -> MeshLayout:
    """The layout of a row; Megatron-LM exchanged gradients after the last backward part, later runtimes behind it."""
    return MeshLayout(
        tensor=row["tensor"],
        pipeline=row["pipeline"],
        data=row["data"],
        chunks=row["chunks"],
        recompute=row["recompute"],
        zero=row["zero"],
        sequence_parallel=row["sequence_parallel"],
        overlap=_model(row) != "megatron_gpt",
    )


def _model(row: Row) -> str:
    """Which of the example's models a row ran: GPTs with sharded weights are those with fused attention."""
    if row["family"] == "llama":
        return "llama"
    return "flash_gpt" if row["zero"] == 3 else "megatron_gpt"


def _own_runtime(row: Row) -> bool:
    """Whether the runtime deals out blocks by cost and lets autograd keep what it gathered, as nanotron does."""
    return _model(row) == "llama" and row["zero"] < 3


def trend_only(row: Row) -> bool:
    """Whether a row is of nanotron's first version, of which the order of runs is what is judged."""
    return _own_runtime(row)


def traced(row: Row) -> Graph:
    """A row's model with ``TRACED_BLOCKS`` blocks at the most."""
    fields = {"hidden", "heads", "vocabulary"}
    if row["family"] == "llama":
        fields |= {"kv_heads", "intermediate", "tied"} & row.keys()
    given = tuple(sorted((field, json.dumps(row[field])) for field in fields))
    given += (("layers", str(min(row["layers"], TRACED_BLOCKS))),)
    return _trace(_model(row), given, row["microbatch"], row["sequence"], row.get("dtype", "float16"))


@functools.lru_cache(maxsize=64)
def _trace(model: str, fields: tuple[tuple[str, str], ...], batch: int, sequence: int, dtype: str) -> Graph:
    return pt.load_model(
        f"{MODELS}:{model}",
        batch_size=batch,
        sequence_length=sequence,
        dtype=dtype,
        set_fields=dict(fields),
        training=True,
    )


def model_flops(graph: Graph, count: int) -> float:
    """Useful operations of one microbatch of the model with so many blocks."""
    splits = find_splits(GraphView(graph))
    blocks = [number for number, name in enumerate(splits.names) if name.rpartition(".")[2].isdigit()]
    if count == len(blocks):
        return float(graph.flops)
    one = sum(graph.operators[v].flops for v in splits.members[blocks[1]])
    return float(graph.flops + (count - len(blocks)) * one)


def repeat_block(problem: HybridProblem, count: int) -> HybridProblem:
    """The problem with so many blocks, given a chain of layers whose middle consists of like blocks of one layer each.

    The second block is repeated: the third is the same, so that the model with more of them has more of the same.
    """
    blocks = find_blocks(problem.layers)
    starts = blocks.starts
    size = len(problem.layers)
    if [*starts] != [*range(starts[0], blocks.end)] or len(starts) < 4:
        raise ValueError(f"{problem.name} is no chain of like blocks of one layer each")
    second, third = (_without_names(problem.layers[starts[k]]) for k in (1, 2))
    sizes = {edge.bytes for edge in problem.edges}
    row = [(edge.source, edge.target) for edge in problem.edges] == [(k, k + 1) for k in range(size - 1)]
    if second != third or len(sizes) != 1 or not row:
        raise ValueError(f"the blocks of {problem.name} are not alike")
    more = count - len(starts)
    if more < 0:
        raise ValueError(f"{count} blocks are fewer than the {len(starts)} of {problem.name}")
    kept = starts[1] + 1
    places = [*range(kept), *[starts[1]] * more, *range(kept, size)]

    def grown(layers: Sequence[Layer]) -> tuple[Layer, ...]:
        return tuple(_renumbered(layers[place], number - place, number) for number, place in enumerate(places))

    (bytes_,) = sizes
    edges = tuple(Edge(source=k, target=k + 1, bytes=bytes_) for k in range(len(places) - 1))
    spreads = tuple(msgspec.structs.replace(spread, layers=grown(spread.layers)) for spread in problem.spreads)
    return problem.replace(layers=grown(problem.layers), edges=edges, spreads=spreads)


def _without_names(layer: Layer) -> Layer:
    return msgspec.structs.replace(_renumbered(layer, -layer.id, 0), name="")


def _renumbered(layer: Layer, shift: int, number: int) -> Layer:
    """A layer under another number; its neighbours are numbered on with it."""
    configurations = {
        degree: tuple(
            msgspec.structs.replace(
                choice,
                sync_in_bytes={other + shift: size for other, size in choice.sync_in_bytes.items()},
                sync_out_bytes={other + shift: size for other, size in choice.sync_out_bytes.items()},
            )
            for choice in choices
        )
        for degree, choices in layer.configurations.items()
    }
    return msgspec.structs.replace(layer, id=number, configurations=configurations)


def balanced_by_cost(problem: HybridProblem, layout: MeshLayout, row: Row) -> Plan:
    """The plan of a runtime that deals out blocks by their operations, the head being one of them, as nanotron does.

    A stage takes blocks until all so far have more than its part of the operations.
    """
    hidden = row["hidden"]
    block = 4 * hidden**2 + 3 * row["intermediate"] * hidden
    costs = [0, *[block] * row["layers"], row["vocabulary"] * hidden]
    rows: list[list[int]] = [[]]
    done = 0
    for place, cost in enumerate(costs):
        rows[-1].append(place)
        done += cost
        if done > sum(costs) * len(rows) / layout.pipeline and place + 1 < len(costs):
            rows.append([])
    layout = msgspec.structs.replace(layout, pipeline=len(rows))
    configurations = {
        layer.id: layout.recompute if 0 < layer.id <= row["layers"] else "none" for layer in problem.layers
    }
    return uniform_plan(problem, problem.layers, rows, configurations, layout)


def median(values: Sequence[float]) -> float:
    """The median; 0 of nothing."""
    import statistics

    return statistics.median(values) if values else 0.0


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> float:
    """Spearman's rank correlation of two lists; equal values share a rank. 0 where one list is all equal."""
    ranks = [_ranks(one), _ranks(other)]
    middle = (len(one) - 1) / 2
    products = [
        sum((a - middle) * (b - middle) for a, b in zip(x, y, strict=True))
        for x, y in ((ranks[0], ranks[1]), (ranks[0], ranks[0]), (ranks[1], ranks[1]))
    ]
    spread = products[1] * products[2]
    return products[0] / spread**0.5 if spread > 0 else 0.0


def _ranks(values: Sequence[float]) -> list[float]:
    return [sum(b < a for b in values) + (sum(b == a for b in values) - 1) / 2 for a in values]
