"""Random small models with modules, and every split of them that a runtime says it can run."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

from partita.conductor.split import make_split
from partita.exporters import find_exporter
from partita.exporters.refusals import refusals
from partita.nouns.graph import Graph, Operator, Parameter, Tensor
from partita.nouns.pipeline import Plan, Stage
from partita.nouns.split import StagePart
from partita.problems.facets.model import ModelParts
from partita.problems.throughput.evaluate import evaluate
from partita.problems.throughput.problem import ThroughputProblem

#: Bytes of a small tensor; times of operators are those of hundreds of these.
UNIT = 1 << 20


def random_model(seed: int, *, training: bool) -> Graph:
    """An embedding, blocks of one or two operators, and a head; or any graph of modules without blocks.

    Costs are uneven; there may be tensors that pass over blocks, tied weights, and a mask that all blocks read.
    """
    draw = random.Random(seed)
    if draw.random() < 0.75:
        blocks = draw.randint(2, 4)
        size = 1 if blocks > 2 else draw.randint(1, 2)
        modules = ["embed", *(f"layers.{i}.{name}" for i in range(blocks) for name in ("att", "mlp")[:size]), "head"]
    else:
        modules = [draw.choice("abcd") for _ in range(draw.randint(3, 5))]
    count = len(modules)
    edges = [(v, v + 1) for v in range(count - 1)]
    if draw.random() < 0.4:
        edges.append(tuple(sorted(draw.sample(range(count), 2))))
    mask = draw.random() < 0.3
    weights = [(v,) for v in range(count) if draw.random() < 0.8]
    if draw.random() < 0.3:
        weights.append(tuple(sorted(draw.sample(range(count), 2))) if draw.random() < 0.3 else (0, count - 1))
    return _graph(f"random {seed}", draw, modules, sorted(set(edges)), weights, mask=mask, training=training)


def _graph(
    name: str,
    draw: random.Random,
    modules: list[str],
    edges: list[tuple[int, int]],
    weights: list[tuple[int, ...]],
    *,
    mask: bool,
    training: bool,
) -> Graph:
    shift = 1 if mask else 0
    work = [draw.randint(1, 40) for _ in modules]

    def operator(v: int, phase: str, colocation: int | None = None) -> Operator:
        moved = work[v] * UNIT * 100 * (2 if phase == "backward" else 1)
        return Operator(
            name=f"{phase} {v}", target="aten.mm.default", module=modules[v], phase=phase, bytes_read=moved,
            flops=1, colocation=colocation,
        )  # fmt: skip

    operators = [Operator(name="mask", target="aten.ones.default", module="")] if mask else []
    operators += [operator(v, "forward") for v in range(len(modules))]
    backward = {v: len(operators) + place for place, v in enumerate(reversed(range(len(modules))))} if training else {}
    operators += [operator(v, "backward", v + shift) for v in backward]
    tensors = []
    readers = {u: sorted(v for a, v in edges if a == u) for u, _ in edges}
    for u, found in readers.items():
        users = [v + shift for v in found] + sorted(backward[v] for v in found if training)
        size = draw.randint(1, 30) * UNIT
        tensors.append(Tensor(name=f"t{u}", producer=u + shift, consumers=tuple(users), bytes=size))
    if training:
        made = {v: sorted(backward[u] for u, w in edges if w == v) for v in backward}
        for v, users in made.items():
            if users:
                size = draw.randint(1, 30) * UNIT
                tensors.append(Tensor(name=f"g{v}", producer=backward[v], consumers=tuple(users), bytes=size))
    if mask:
        users = tuple(v + 1 for v, module in enumerate(modules) if module.startswith("layers"))
        tensors.append(Tensor(name="mask", producer=0, consumers=users, dtype="bool", bytes=UNIT // 8))
    tensors.append(Tensor(name="input", producer=None, consumers=(shift,), dtype="int64", bytes=64))
    parameters = []
    for users in weights:
        places = [v + shift for v in users] + ([backward[v] for v in users] if training else [])
        names = [f"{modules[v]}.weight" for v in users]
        parameters.append(
            Parameter(
                name=f"{names[0]}{len(parameters)}",
                aliases=tuple(names[1:]) if len(users) > 1 else (),
                bytes=draw.randint(1, 60) * UNIT,
                users=tuple(sorted(places)),
            )
        )
    return Graph(
        name=name, operators=tuple(operators), tensors=tuple(tensors), parameters=tuple(parameters), training=training
    )


def accepts(runtime: str, graph: Graph, problem: ThroughputProblem, plan: Plan) -> bool:
    """Whether a runtime takes a plan, by what its exporter says; that the model cannot be built does not count."""
    stages = [
        StagePart(operators=stage.operators, devices=stage.devices, kind=stage.kind, rank=n)
        for n, stage in enumerate(plan.stages)
    ]
    schedule = problem.schedule.name if problem.training else "forward"
    split = make_split(graph, ModelParts(stages, schedule=schedule, microbatches=problem.schedule.microbatches))
    exporter = find_exporter(runtime)
    own = [] if runtime == "torch" else exporter.reasons(split)
    if runtime == "megatron" and any(not _of_the_ends(graph, weight.name) for weight in split.tied):
        # It adds up gradients of the embedding; a block that happens to be on the last stage has no such thing.
        return False
    return not [*refusals(split, runtime, exporter.limits), *own]


def _of_the_ends(graph: Graph, weight: str) -> bool:
    """Whether a weight is read before the first block and behind the last one only."""
    users = next(parameter.users for parameter in graph.parameters if parameter.name == weight)
    return {graph.operators[v].module for v in users} <= {"embed", "head"}


def all_splits(problem: ThroughputProblem) -> Iterator[Plan]:
    """Every assignment of forward operators, backward ones with them, to devices that are alike; in no order.

    The mask is where the model begins.
    """
    kind = problem.kinds[0]
    mask = [op.id for op in problem.operators if op.name == "mask"]
    forward = [op.id for op in problem.operators if not op.backward and op.id not in mask]
    follows = {op.id: op.colocation for op in problem.operators if op.backward}
    first: dict[int, int] = {}
    for op in problem.operators:
        if not op.backward and op.colocation is not None:
            first[op.colocation] = op.id
    for labels in itertools.product(range(kind.count), repeat=len(forward)):
        if any(label > max(labels[:place], default=-1) + 1 for place, label in enumerate(labels)):
            continue
        home = dict(zip(forward, labels, strict=True))
        home |= dict.fromkeys(mask, home[forward[0]])
        home |= {v: home[first[group]] for v, group in follows.items()}
        stages = [tuple(v for v, label in home.items() if label == n) for n in range(max(labels) + 1)]
        yield Plan(
            stages=tuple(
                Stage(devices=(f"{kind.name}:{n}",), kind=kind.name, operators=ids) for n, ids in enumerate(stages)
            ),
            contiguity="free",
        )


def better_split(runtime: str, graph: Graph, problem: ThroughputProblem, than: float) -> Plan | None:
    """A split with a lower objective that fits and that the runtime takes, in any order of its stages."""
    for plan in all_splits(problem):
        found = evaluate(problem, plan)
        if not found.feasible or found.objective >= than * (1 - 1e-9):
            continue
        for stages in itertools.permutations(plan.stages):
            ordered = Plan(stages=stages, contiguity="free")
            if accepts(runtime, graph, problem, ordered):
                return ordered
    return None
