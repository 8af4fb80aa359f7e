"""Split regions: where a tensor-parallel group can share the features of a tensor out among its devices.

A product with a weight can give each device some of the columns of its result; everything up to the next products with
weights then works on these columns alone, and those products need only the matching rows, after which the results of
the devices are added (Shoeybi et al., "Megatron-LM", 2019, §3). Such a region is found from the graph: the tensors
between products with weights, as far as only operators lie between them that leave features, or heads, apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from partita.costs.menus.forward import GraphView, numel
from partita.costs.menus.targets import ATTENTION, ELEMENTWISE, EMBEDDINGS, LOSSES, NORMS, REDUCTIONS, SLICES, SOFTMAX

#: Vocabularies are padded to a multiple of this for each device; tables with fewer rows are not split.
_ROWS_PER_DEVICE = 128


@dataclass(frozen=True)
class Linear:
    """A product of a tensor with a weight: ``tokens`` rows of ``inputs`` features become rows of ``outputs``."""

    operator: int
    source: int
    weight: int
    tokens: int
    inputs: int
    outputs: int
    experts: int = 1


@dataclass(frozen=True)
class Embedding:
    """A lookup by an input of the model in a table of ``rows`` rows."""

    operator: int
    table: int
    rows: int

    def splits(self, degree: int) -> bool:
        """Whether each device of a group holds a part of the rows."""
        return self.rows >= _ROWS_PER_DEVICE * degree


@dataclass(frozen=True)
class Region:
    """Operators that work on a part of the features at each device.

    Attributes
    ----------
    kind
        ``attention``, ``mlp``, ``experts`` or ``vocabulary``.
    columns, rows
        Products with weights whose columns, and whose rows, are shared out.
    operators
        The operators between them.
    units
        Numbers that a degree must divide: heads, or features. Words of a vocabulary may be divided unevenly, if each
        device gets enough of them.
    core
        Operators from the product that makes attention scores to the one that uses them: what selective recomputation
        runs again. Empty where one operator does it all.
    context
        The last of them.
    """

    kind: str
    columns: tuple[int, ...]
    rows: tuple[int, ...]
    operators: tuple[int, ...]
    units: tuple[int, ...]
    core: tuple[int, ...] = ()
    context: int | None = None

    def splits(self, degree: int) -> bool:
        """Whether the degree divides what must be divided."""
        if self.kind == "vocabulary":
            return self.units[0] >= _ROWS_PER_DEVICE * degree
        return all(unit % degree == 0 for unit in self.units)

    def share(self, degree: int) -> float:
        """The largest part that a device gets."""
        if self.kind == "vocabulary":
            return math.ceil(self.units[0] / degree) / self.units[0]
        return 1.0 / degree


@dataclass
class _Found:
    """A region while it is being collected."""

    columns: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    operators: list[int] = field(default_factory=list)
    tensors: list[int] = field(default_factory=list)
    broken: bool = False

    def absorb(self, other: _Found) -> None:
        self.columns += other.columns
        self.rows += other.rows
        self.operators += other.operators
        self.tensors += other.tensors
        self.broken |= other.broken


def find_linears(view: GraphView) -> dict[int, Linear]:
    """Forward products of a tensor with one weight, by operator."""
    result: dict[int, Linear] = {}
    for v, op in enumerate(view.graph.operators):
        if not view.backward[v] and op.flops:
            linear = _linear(view, v)
            if linear is not None:
                result[v] = linear
    return result


def _linear(view: GraphView, v: int) -> Linear | None:
    graph = view.graph
    weights = [p for p in view.parameters[v] if len(graph.parameters[p].shape) in (2, 3)]
    if len(weights) != 1:
        return None
    shape = graph.parameters[weights[0]].shape
    experts = shape[0] if len(shape) == 3 else 1
    first, second = shape[-2:]
    tokens, rest = divmod(graph.operators[v].flops, 2 * first * second)
    if rest or not tokens:
        return None
    for place in sorted(view.inputs[v], key=lambda place: -numel(graph.tensors[place])):
        size = numel(graph.tensors[place])
        for inputs, outputs in ((first, second), (second, first)):
            written = max((numel(graph.tensors[t]) for t in view.outputs[v]), default=0)
            if size == tokens * inputs and 0 < written <= tokens * outputs:
                if first != second and size == tokens * outputs and written > tokens * inputs:
                    continue
                return Linear(v, place, weights[0], tokens, inputs, outputs, experts)
    return None


def find_embeddings(view: GraphView) -> dict[int, Embedding]:
    """Forward lookups by what the user puts in, by operator."""
    result: dict[int, Embedding] = {}
    for v in range(len(view.graph.operators)):
        if view.backward[v] or view.names[v] not in EMBEDDINGS:
            continue
        tables = [p for p in view.parameters[v] if len(view.graph.parameters[p].shape) == 2]
        if tables and _from_input(view, v):
            result[v] = Embedding(v, tables[0], view.graph.parameters[tables[0]].shape[0])
    return result


def _from_input(view: GraphView, v: int) -> bool:
    pending, seen = [v], {v}
    while pending:
        for place in view.inputs[pending.pop()]:
            producer = view.graph.tensors[place].producer
            if producer is None:
                return True
            if producer not in seen:
                seen.add(producer)
                pending.append(producer)
    return False


def find_regions(view: GraphView, linears: dict[int, Linear], layer: list[int]) -> list[Region]:
    """All regions that can be split at once, each inside one layer, by their first operator.

    A product cannot end one region and begin the next without its result being put together; where regions compete,
    the one with more arithmetic in its products is taken.
    """
    found = [_finish(view, linears, layer, part) for part in _collect(view, linears)]
    regions = sorted(
        (region for region in found if region is not None),
        key=lambda r: (-sum(view.graph.operators[v].flops for v in (*r.columns, *r.rows)), r.columns),
    )
    taken: set[int] = set()
    chosen = []
    for region in regions:
        ends = {*region.columns, *region.rows}
        if not ends & taken:
            taken |= ends
            chosen.append(region)
    return sorted(chosen, key=lambda r: r.columns)


def _collect(view: GraphView, linears: dict[int, Linear]) -> list[_Found]:
    """Sets of tensors that have to be split together, with what makes, joins and reads them."""
    of: dict[int, _Found] = {}

    def join(parts: list[int], new: list[int]) -> _Found:
        groups: list[_Found] = []
        for place in parts:
            if all(of[place] is not group for group in groups):
                groups.append(of[place])
        groups.sort(key=lambda group: -len(group.tensors))
        first = groups[0] if groups else _Found()
        for group in groups[1:]:
            for place in group.tensors:
                of[place] = first
            first.absorb(group)
        for place in new:
            of[place] = first
            first.tensors.append(place)
        return first

    graph = view.graph
    for v in range(len(graph.operators)):
        if view.backward[v]:
            continue
        split = [place for place in view.inputs[v] if place in of]
        if v in linears:
            for place in split:
                if place == linears[v].source:
                    of[place].rows.append(v)
                else:
                    of[place].broken = True
            join([], view.outputs[v]).columns.append(v)
        elif split:
            if _leaves_apart(view, v, split):
                join(split, view.outputs[v]).operators.append(v)
            else:
                for place in split:
                    of[place].broken = True
    unique: dict[int, _Found] = {id(group): group for group in of.values()}
    return list(unique.values())


def _leaves_apart(view: GraphView, v: int, split: list[int]) -> bool:
    """Whether an operator may work on a part of the features of its split inputs; the others it reads whole."""
    name = view.names[v]
    graph = view.graph
    whole = [place for place in view.inputs[v] if place not in split]
    size = max((numel(graph.tensors[place]) for place in view.outputs[v]), default=0)
    if name in LOSSES:
        return True
    if graph.operators[v].flops:
        # Attention in one operator, or one of its two products.
        weights = any(len(graph.parameters[p].shape) > 1 for p in view.parameters[v])
        heads = _heads(view, v)
        masks = all(name in ATTENTION and heads not in graph.tensors[p].shape[-3:-2] for p in whole)
        return not weights and heads > 0 and masks and len(split) > 1
    if name not in ELEMENTWISE | SLICES | SOFTMAX | REDUCTIONS | NORMS:
        return False
    # A whole operand may only be one that is broadcast over features or heads.
    return all(numel(graph.tensors[place]) < size or size == 1 for place in whole)


def _heads(view: GraphView, v: int) -> int:
    """Heads of an attention operator, or 1 for a product of two batches of matrices; 0 for anything else."""
    if view.names[v] in ATTENTION:
        shape = view.graph.tensors[view.outputs[v][0]].shape
        return shape[-3] if len(shape) > 2 else 1
    return 1 if view.names[v] in ("bmm", "baddbmm", "matmul") else 0


def _finish(view: GraphView, linears: dict[int, Linear], layer: list[int], part: _Found) -> Region | None:
    """The region of a set of tensors; None where it cannot be split."""
    if part.broken or not part.columns or set(part.columns) & set(part.rows):
        return None
    everything = [*part.columns, *part.rows, *part.operators]
    if len({layer[v] for v in everything}) > 1:
        return None
    names = [view.names[v] for v in part.operators]
    columns, rows, operators = tuple(sorted(part.columns)), tuple(sorted(part.rows)), tuple(sorted(part.operators))
    if not rows:
        return _vocabulary(view, linears, columns, operators, part.tensors)
    if any(name in LOSSES for name in names) or _open(view, part.tensors):
        return None
    if not all(_width(view, linears, v) for v in (*columns, *rows)):
        return None
    products = [v for v in operators if view.graph.operators[v].flops]
    # What rows multiply must be the features that columns make, not tokens that a transposed reader takes for features.
    if {linears[v].tokens for v in rows} - {linears[v].tokens for v in columns}:
        return None
    if products:
        return _attention(view, linears, columns, rows, operators, products)
    if any(name in SOFTMAX | REDUCTIONS | NORMS for name in names):
        return None
    tokens = {linears[v].tokens for v in (*columns, *rows)}
    if len(tokens) > 1 or not all(_in_rows(view.graph.tensors[place].shape, *tokens) for place in part.tensors):
        return None
    units = sorted({_features(view, linears, c, place) for c in columns for place in view.outputs[c]})
    units += [linears[v].inputs for v in rows]
    kind = "experts" if any(linears[v].experts > 1 for v in columns) else "mlp"
    return Region(kind, columns, rows, operators, tuple(sorted(set(units))))


def _width(view: GraphView, linears: dict[int, Linear], v: int) -> bool:
    """Whether what a product makes is whole rows of features."""
    return all(numel(view.graph.tensors[place]) % linears[v].tokens == 0 for place in view.outputs[v])


def _features(view: GraphView, linears: dict[int, Linear], column: int, place: int) -> int:
    return numel(view.graph.tensors[place]) // linears[column].tokens


def _in_rows(shape: tuple[int, ...], tokens: int) -> bool:
    """Whether the first dimensions of a shape are so many tokens, and the last their features."""
    return any(math.prod(shape[:k]) == tokens for k in range(len(shape) + 1))


def _open(view: GraphView, tensors: list[int]) -> bool:
    """Whether some tensor of the region is a result of the model."""
    return any(not view.graph.tensors[place].consumers for place in tensors)


def _vocabulary(
    view: GraphView,
    linears: dict[int, Linear],
    columns: tuple[int, ...],
    operators: tuple[int, ...],
    tensors: list[int],
) -> Region | None:
    """A product whose result only a loss reads, or nobody: the last layer of a model that predicts words."""
    if len(columns) != 1:
        return None
    for v in operators:
        name = view.names[v]
        if view.graph.operators[v].flops or name in SOFTMAX | NORMS | SLICES:
            return None
        if name in REDUCTIONS and any(numel(view.graph.tensors[place]) > 1 for place in view.outputs[v]):
            return None
    (column,) = columns
    size = max(numel(view.graph.tensors[place]) for place in tensors)
    if size > linears[column].tokens * linears[column].outputs:
        return None
    return Region("vocabulary", columns, (), operators, (linears[column].outputs,))


def _attention(
    view: GraphView,
    linears: dict[int, Linear],
    columns: tuple[int, ...],
    rows: tuple[int, ...],
    operators: tuple[int, ...],
    products: list[int],
) -> Region | None:
    graph = view.graph
    fused = [v for v in products if view.names[v] in ATTENTION]
    if fused:
        shape = graph.tensors[view.outputs[fused[0]][0]].shape
        heads, width = (shape[-3] if len(shape) > 2 else 1), shape[-1]
        if len(products) > 1:
            return None
    else:
        if len(products) != 2:
            return None
        scores = graph.tensors[view.outputs[products[0]][0]]
        width = graph.operators[products[0]].flops // (2 * numel(scores))
        if not width or linears[rows[0]].inputs % width:
            return None
        heads = linears[rows[0]].inputs // width
    units = {heads}
    for column in columns:
        for place in view.outputs[column]:
            features = _features(view, linears, column, place)
            if features < heads * width:
                # Fewer heads of keys and values, shared by groups of query heads.
                if features % width:
                    return None
                units.add(features // width)
            elif features % heads:
                return None
    for v in operators:
        if not _inside_heads(view, v, width, bool(fused)):
            return None
    if any(linears[v].inputs % heads for v in rows):
        return None
    core: tuple[int, ...] = ()
    if not fused:
        core = _between(view, operators, products[0], products[1])
    return Region("attention", columns, rows, operators, tuple(sorted(units)), core, products[-1])


def _inside_heads(view: GraphView, v: int, width: int, fused: bool) -> bool:
    """Whether an operator of an attention region works on each head alone."""
    name, graph = view.names[v], view.graph
    if name in SOFTMAX:
        return not fused
    if name in NORMS:
        return all(math.prod(graph.parameters[p].shape) == width for p in view.parameters[v])
    if name in REDUCTIONS:
        read = max(numel(graph.tensors[place]) for place in view.inputs[v])
        return all(numel(graph.tensors[place]) * width == read for place in view.outputs[v])
    return True


def _between(view: GraphView, operators: tuple[int, ...], first: int, last: int) -> tuple[int, ...]:
    """Operators on the ways from one to another, both included."""
    inside = set(operators)
    after = {first}
    for v in operators:
        if v > first and any(view.graph.tensors[place].producer in after for place in view.inputs[v]):
            after.add(v)
    before = {last}
    for v in reversed(operators):
        if any(w in before for place in view.outputs[v] for w in view.readers(place) if w in inside):
            before.add(v)
    return tuple(sorted(after & before))
