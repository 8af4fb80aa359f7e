"""Training runs that were published since 2024: rows of facts, the models they ran, and what is said of their layouts.

A row says what ran (``model``, ``precision``, ``sequence``), on what (``system``, ``devices``), how (``tensor``,
``pipeline``,
``context``, ``chunks``, ``expert``, ``fsdp``, ``microbatch``, ``global_batch``), with what (``framework``,
``release``), and what was
measured (``tokens_per_s_per_device``, ``model_tflops_per_device``). What it leaves open is filled in by rules for all
rows:
no constant belongs to one model or one row.
"""

from __future__ import annotations

import csv
import dataclasses
import functools
import itertools
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

import partita as pt
from partita.costs.roofline import Roofline
from partita.costs.strategies.layers import find_splits
from partita.costs.strategies.view import GraphView
from partita.ground.errors import InputError
from partita.nouns.cluster import Cluster
from partita.nouns.graph import Graph
from partita.nouns.pipeline import SharedDegrees
from partita.problems.hybrid.evaluation import StepEvaluation
from partita.problems.hybrid.layer import Edge, Layer
from partita.problems.hybrid.pricing import strategy_spaces
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.step.degrees import DegreeChoices
from partita.problems.hybrid.step.evaluate import evaluate
from partita.problems.hybrid.step.from_model import even_degrees, with_unlike_parts
from partita.problems.hybrid.step.layout import MeshLayout
from partita.problems.hybrid.step.least_recompute import stated_plan
from partita.problems.hybrid.training import Training

FOLDER = Path(__file__).resolve().parent
ROWS = FOLDER / "frontier_runs.csv"
MODELS = FOLDER / "frontier_models.json"
BUILDER = FOLDER / "_trained_models.py"

Row = Mapping[str, str]

#: Devices of a machine, and its network, by device: DGX with eight cards of 400 Gbit/s (H100, B200) or 800 (B300);
#: NVLink
#: domains of 72, of which jobs of many machines take 64 (NVIDIA, DGX and GB200/GB300 NVL72 data sheets).
SYSTEMS = {
    "H100": ("H100-80GB", 8, "infiniband-ndr"),
    "H200": ("H200-141GB", 8, "infiniband-ndr"),
    "B200": ("B200", 8, "infiniband-ndr"),
    "B300": ("B300", 8, "infiniband-xdr"),
    "GB200": ("GB200", 64, "infiniband-ndr"),
    "GB300": ("GB300", 64, "infiniband-xdr"),
}

#: Devices of a whole NVLink domain.
DOMAIN = 72

#: Kinds of blocks of a pattern of letters, as Nemotron-H writes them.
_LETTERS = {"M": "linear_attention", "E": "moe", "*": "full_attention", "-": "mlp"}

#: Time to issue a kernel from Megatron's Python, where kernels are not recorded: fitted to the eleven rows of
#: mixtures of
#: experts on H100 and B200 without recorded kernels, which take the same time for a layer on both.
ISSUE_S = 80e-6

#: The part of a whole training's operations that training of adapters reports: no gradients of the weights.
_FROZEN = 0.85


def read_rows(path: str | Path = ROWS) -> list[dict[str, str]]:
    """The rows of a CSV file."""
    with Path(path).open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


@dataclass(frozen=True)
class Prediction:
    """What is said of a row.

    Attributes
    ----------
    row, layout
        The row, and its layout as the package states it.
    problem, evaluation
        The model on the cluster, and what the layout's plan is worth.
    adapters
        Whether adapters alone learn.
    kind
        ``dense``, ``mixture`` of experts, or ``hybrid`` with state-space layers.
    """

    row: Row
    layout: MeshLayout
    problem: HybridProblem
    evaluation: StepEvaluation
    adapters: bool
    kind: str

    @property
    def tokens_per_s(self) -> float:
        """Tokens per second and device."""
        return self.tokens_of(self.evaluation.objective)

    def tokens_of(self, step: float) -> float:
        """Tokens per second and device with a step of so many seconds."""
        tokens = _number(self.row, "global_batch") * _number(self.row, "sequence")
        return tokens / (step * _number(self.row, "devices"))

    @property
    def measured(self) -> float:
        """The same as published; where only operations are, by those that the others report for the model: 6·N and half
        of attention's scores for a token."""
        stated = self.row["tokens_per_s_per_device"]
        if stated:
            return float(stated)
        return float(self.row["model_tflops_per_device"]) * 1e12 / reported_flops(self.row)

    @property
    def memory_share(self) -> float:
        """What the fullest device holds, of what it has room for."""
        return max(stage.memory_bytes for stage in self.evaluation.stages) / float(self.problem.memory_bytes or 1.0)


def priced(row: Row, degrees: Sequence[int] | None, training: Training, sharing: DegreeChoices) -> HybridProblem:
    """The model of a row on its cluster, with the microbatches, formats and runtime of the row."""
    model, adapters, number = find_model(row["model"]), adapters_of(row), functools.partial(_number, row)
    graph, kinds = traced(model, number("microbatch"), number("sequence"), adapters)
    automodel = row["framework"] == "automodel"
    spaces = strategy_spaces(
        graph,
        cluster_of(row),
        microbatches=number("global_batch") // number("microbatch"),
        degrees=degrees,
        memory_options=("none", "elementwise", "full"),
        gradient_dtype="float32" if row["framework"] == "paper" else "parameter",
        optimizer_dtype="parameter" if automodel else "float32",
        master_weights=False if automodel else None,
        # AutoModel's recipes leave it off.
        sequence_parallel=not automodel,
        fused=True,
        precision=precision_of(row),
        behind=hidden(row, chunks_of(row)),
        issue_s=0.0 if automodel or records(row) or "tokendrop" in row["model"] else ISSUE_S,
        costs=Roofline(allow_tf32=True, tuned=True, recorded=records(row), fused_experts=fuses_experts(row)),
        training=training,
        sharing=dataclasses.replace(sharing, once="tokendrop" not in row["model"], reach=reach_of(model)),
        name=row["model"],
    )
    problem = even_degrees(spaces.problem, spaces.layers, stated=degrees is not None)
    return with_all_blocks(problem, kinds, further_predictions(row, model))


def predict(row: Row) -> Prediction:
    """Price the layout of a row; what is not known of it is an ``InputError``."""
    model = find_model(row["model"])
    adapters = adapters_of(row)
    number = functools.partial(_number, row)
    _, kinds = traced(model, number("microbatch"), number("sequence"), adapters)
    automodel, chunks = row["framework"] == "automodel", chunks_of(row)
    groups = number("devices") // (number("tensor") * number("pipeline"))
    numbers = dealt_out(len(kinds), number("pipeline") * chunks, further_predictions(row, model))
    # Megatron Bridge's recipes leave experts whole beside tensor parallelism (expert_tensor_parallel_size 1).
    mixture = kind_of(model) != "dense" and has_experts(model)
    whole = mixture and not automodel and number("tensor") > 1
    expert = math.gcd(number("expert"), groups * (number("tensor") if whole else 1)) if mixture else 1
    shared = SharedDegrees(number("context"), expert, 1 if whole else 0)
    schedules = ("interleaved" if chunks > 1 else "1f1b",)
    problem = priced(
        row,
        (number("tensor"),),
        Training(schedules=schedules, zero=(0, 1, 2, 3), uneven=True),
        DegreeChoices.of(shared),
    )
    tried: list[tuple[MeshLayout, StepEvaluation]] = []
    # AutoModel's checkpoints are of all blocks or of none.
    ways = ("none", "full") if automodel else ("least",)
    for zero, way in itertools.product(zero_stages(row, groups), ways):
        layout = MeshLayout(
            tensor=number("tensor"),
            pipeline=number("pipeline"),
            data=groups // number("context"),
            **shared._asdict(),
            sequence_parallel=not automodel,
            chunks=chunks,
            zero=zero,
            layers=numbers,
            recompute=way,
        )
        tried.append((layout, evaluate(problem, stated_plan(problem, layout))))
    layout, evaluation = min(tried, key=lambda entry: (not entry[1].feasible, entry[1].objective))
    return Prediction(row, layout, problem, evaluation, bool(adapters), kind_of(model))


def chosen(found: Prediction, seconds: float) -> Any:
    """What the planner makes of a row whose degrees, stages, ZeRO and recomputation are left open.

    Samples of a microbatch, batch, formats, runtime, and what it hides stay those of the run.
    """
    row = found.row
    training = Training(schedules=("1f1b", "interleaved"), zero=(0, 1, 2, 3))
    problem = with_unlike_parts(priced(row, None, training, DegreeChoices()), None)
    return pt.solve(problem, time_limit_s=seconds, explain=False)


def chunks_of(row: Row) -> int:
    """Parts of every stage."""
    return _number(row, "chunks") if _number(row, "pipeline") > 1 else 1


def _number(row: Row, name: str) -> int:
    """A whole number of a row; a degree that it leaves empty is 1."""
    text = row.get(name) or ("0" if name == "fsdp" else "1")
    try:
        return int(text)
    except ValueError:
        raise InputError(f"{name} of a row is {text!r}; give a whole number") from None


# -- what a row leaves open -----------------------------------------------------------------------------------------


def records(row: Row) -> bool:
    """Whether the runtime replays recorded kernels: in Megatron Bridge's recipes on GB200 and GB300, and on other
    Blackwells from release 26.04 on; not on Hopper."""
    device = row["system"].rpartition("-")[2]
    new = device in ("B200", "B300") and row["release"] >= "26.04"
    return row["framework"] == "megatron" and (device.startswith("GB") or new)


def fuses_experts(row: Row) -> bool:
    """Whether all experts of a layer are one kernel with their activation function: Megatron's recipes of narrow scaled
    formats on Blackwells, from release 26.06 on."""
    new = row["framework"] == "megatron" and row["release"] >= "26.06"
    return new and precision_of(row) in ("mxfp8", "nvfp4")


def hidden(row: Row, chunks: int) -> tuple[str, ...]:
    """What the runtime hides.

    Megatron exchanges of tensor-parallel groups, and from release 26.04 on those of experts, for which it takes another
    microbatch of an interleaved pipeline.
    """
    if row["framework"] == "automodel":
        return ()
    return ("tensor", "expert") if row["release"] >= "26.04" and chunks > 1 else ("tensor",)


def zero_stages(row: Row, replicas: int) -> tuple[int, ...]:
    """Stages of ZeRO of which the fastest that fits is what ran.

    Fully sharded weights stay gathered beside a pipeline (Llama Team, "The Llama 3 Herd of Models", 2024, section
    3.3.2;
    torchtitan's ``reshard_after_forward``). A page that states no sharding of weights that do not fit whole has left it
    out.
    """
    if replicas == 1:
        return (0,)
    if _number(row, "pipeline") > 1:
        return (1, 2, 3)
    return (3,) if _number(row, "fsdp") > 1 else (1, 3)


def precision_of(row: Row) -> str:
    """The format of products, in the package's words."""
    words = set(re.split(r"[^a-z0-9]+", row["precision"].lower()))
    if words & {"nvfp4", "fp4"}:
        return "nvfp4"
    if "mxfp8" in words or {"fp8", "mx"} <= words:
        return "mxfp8"
    if "fp8" in words:
        return "fp8-block" if words & {"sc", "block", "blockwise"} else "fp8"
    if "bf16" in words:
        return "bf16"
    raise InputError(
        f"precision {row['precision']!r} of a row is not known; known are BF16, FP8, FP8-CS, FP8-SC, MXFP8, NVFP4"
    )


def adapters_of(row: Row) -> str:
    """Which products have adapters that alone learn; none if the row trains all weights.

    Where a page does not say so, the operations that it reports do: those of the weights' gradients are missing.
    """
    stated = "lora" in f"{row['precision']} {row['model']}".lower()
    model = find_model(row["model"])
    if not stated and row["tokens_per_s_per_device"] and kind_of(model) == "dense":
        reported = float(row["model_tflops_per_device"]) * 1e12 / float(row["tokens_per_s_per_device"])
        stated = reported < _FROZEN * reported_flops(row)
    if not stated:
        return ""
    return "all" if row["framework"] == "automodel" else "attention"


def further_predictions(row: Row, model: Mapping[str, Any]) -> int:
    """How many tokens further on are predicted, each with a block and the head once more (multi-token prediction)."""
    without = "w/o mtp" in row["model"].lower() or row["framework"] == "automodel"
    return 0 if without else int(model.get("predicted", 0))


def dealt_out(layers: int, parts: int, further: int = 0) -> tuple[int, ...]:
    """How many layers each part of a pipeline has.

    Equally many, or with both ends counted as a layer each, or as evenly as the last part's head and further
    predictions allow, the first parts being the lighter ones.
    """
    if layers % parts == 0:
        return (layers // parts,) * parts
    if (layers + 2) % parts == 0:
        each = (layers + 2) // parts
        return (each - 1, *[each] * (parts - 2), each - 1)
    most = -(-(layers + 1 + further) // parts)
    numbers = [most] * parts
    numbers[-1] = max(0, most - 1 - further)
    over = sum(numbers) - layers
    for place in range(abs(over)):
        numbers[place % (parts - 1)] -= 1 if over > 0 else -1
    return tuple(numbers)


def cluster_of(row: Row) -> Cluster:
    """The machines of a row."""
    name = row["system"].rpartition("-")[2]
    if name not in SYSTEMS:
        raise InputError(f"system {row['system']!r} of a row is not known; known are {', '.join(SYSTEMS)}")
    device, most, network = SYSTEMS[name]
    count = _number(row, "devices")
    if most > 8 and count <= DOMAIN:
        most = count
    each = min(most, count) if count % min(most, count) == 0 else math.gcd(count, most)
    machine = {"count": count // each, "devices": f"{each}x{device}"}
    return Cluster.from_document(
        {"name": row["system"], "network": network, "machines": [machine]}, where=row["system"]
    )


# -- models -----------------------------------------------------------------------------------------------------------


@functools.cache
def _models() -> dict[str, dict[str, Any]]:
    """By every name of it each model's source, configuration, pattern of blocks, and further predictions."""
    stored: dict[str, dict[str, Any]] = json.loads(MODELS.read_text(encoding="utf-8"))
    return {_plain(name): entry for first, entry in stored.items() for name in (first, *entry["names"])}


def _plain(name: str) -> str:
    """A name without remarks, marks and spaces."""
    return re.sub(r"[^a-z0-9]", "", re.sub(r"\(.*?\)|\d+-node|\blora\b", "", name.lower()))


def find_model(name: str) -> dict[str, Any]:
    """The model of a name; an unknown one is an ``InputError``."""
    found = _models().get(_plain(name))
    if found is None:
        raise InputError(f"model {name!r} of a row is not known; add its configuration to {MODELS.name}")
    return found


def has_experts(model: Mapping[str, Any]) -> bool:
    """Whether a model that is no dense one has experts: hybrids may have none."""
    return "E" in model.get("pattern", "E")


def reach_of(model: Mapping[str, Any]) -> float:
    """Part of the experts that those of one token are chosen from, where a router chooses groups first."""
    fields = configuration(json.dumps(model, sort_keys=True)).to_dict()
    groups, chosen = fields.get("n_group") or 1, fields.get("topk_group") or 1
    return min(1.0, chosen / groups)


def kind_of(model: Mapping[str, Any]) -> str:
    """``dense``, ``mixture`` or ``hybrid``."""
    if "pattern" in model:
        return "hybrid"
    fields = configuration(json.dumps(model, sort_keys=True)).to_dict()
    return (
        "mixture"
        if any(fields.get(name) for name in ("num_local_experts", "num_experts", "n_routed_experts"))
        else "dense"
    )


@functools.cache
def configuration(model: str) -> Any:
    """The whole configuration of a model in JSON."""
    from transformers import AutoConfig

    entry = json.loads(model)
    fields = dict(entry["config"])
    if entry.get("pattern"):
        fields["layers_block_type"] = [_LETTERS[letter] for letter in entry["pattern"]]
    return AutoConfig.for_model(fields.pop("model_type"), **fields)


def reported_flops(row: Row) -> float:
    """Operations of a token that pages report: six for each weight that it passes, and half of attention's scores."""
    model = find_model(row["model"])
    graph, kinds = traced(model, _number(row, "microbatch"), _number(row, "sequence"), "")
    splits = find_splits(GraphView(graph))
    total = [0.0] * len(splits.names)
    for v, op in enumerate(graph.operators):
        half = 0.5 if op.causal and "attention" in op.target else 1.0
        total[splits.layer[v]] += op.flops * half
    whole = total[0] + total[-1] + sum(total[1 + place] for place in kinds)
    return whole / (_number(row, "microbatch") * _number(row, "sequence"))


def traced(model: Mapping[str, Any], samples: int, tokens: int, adapters: str) -> tuple[Graph, tuple[int, ...]]:
    """A model with two blocks of every kind, traced, and for each block of the whole model the place of its like."""
    return _traced(json.dumps(model, sort_keys=True), samples, tokens, adapters)


@functools.lru_cache(maxsize=32)
def _traced(model: str, samples: int, tokens: int, adapters: str) -> tuple[Graph, tuple[int, ...]]:
    config, given = configuration(model), json.loads(model)
    fields = config.to_dict()
    count = len(given.get("pattern", "")) or int(config.num_hidden_layers)
    lists = {name: value for name, value in fields.items() if isinstance(value, list) and len(value) == count}
    dense = fields.get("first_k_dense_replace") or 0
    kinds = [(tuple(str(value[place]) for value in lists.values()), place < dense) for place in range(count)]
    kept: list[int] = []
    for place, kind in enumerate(kinds):
        if sum(kinds[other] == kind for other in kept) < 2:
            kept.append(place)
    small = {**given["config"], **{name: [value[place] for place in kept] for name, value in lists.items()}}
    if not given.get("pattern"):
        small["num_hidden_layers"] = len(kept)
    if dense:
        small["first_k_dense_replace"] = sum(kinds[place][1] for place in kept)
    graph = pt.load_model(
        f"{BUILDER}:trained",
        batch_size=samples,
        sequence_length=tokens,
        dtype="bfloat16",
        set_fields={"config": json.dumps(small), **({"adapters": adapters} if adapters else {})},
        training=True,
    )
    last = {kinds[place]: number for number, place in enumerate(kept)}
    # The first block may keep less: nobody needs its gradient.
    return graph, tuple(0 if place == 0 else last[kind] for place, kind in enumerate(kinds))


def with_all_blocks(problem: HybridProblem, kinds: Sequence[int], further: int) -> HybridProblem:
    """The problem of the traced blocks grown to the whole model; each further prediction has a block and a head."""
    order = [0, *(1 + place for place in kinds), *[1 + kinds[-1]] * further, *[len(problem.layers) - 1] * (1 + further)]
    names = ["input", *(f"layers.{number}" for number in range(len(kinds))), *["further"] * further]
    names += ["output"] * (1 + further)

    def grown(layers: Sequence[Layer]) -> tuple[Layer, ...]:
        return tuple(
            _placed(layers[place], number, name, number + 1 < len(order))
            for number, (place, name) in enumerate(zip(order, names, strict=True))
        )

    handed = sorted(edge.bytes for edge in problem.edges)[len(problem.edges) // 2]
    edges = tuple(Edge(source=k, target=k + 1, bytes=handed) for k in range(len(order) - 1))
    spreads = tuple(msgspec.structs.replace(spread, layers=grown(spread.layers)) for spread in problem.spreads)
    return problem.replace(layers=grown(problem.layers), edges=edges, spreads=spreads)


def _placed(layer: Layer, number: int, name: str, followed: bool) -> Layer:
    """A layer in another place of the chain; what it exchanges with its neighbours follows."""
    configurations = {
        degree: tuple(
            msgspec.structs.replace(
                choice,
                sync_in_bytes={number - 1: max(choice.sync_in_bytes.values())} if choice.sync_in_bytes else {},
                sync_out_bytes=(
                    {number + 1: max(choice.sync_out_bytes.values())} if choice.sync_out_bytes and followed else {}
                ),
            )
            for choice in choices
        )
        for degree, choices in layer.configurations.items()
    }
    return msgspec.structs.replace(layer, id=number, name=name, configurations=configurations)
