"""Expert parallelism: a group shares out the experts of a layer, and tokens travel to theirs and back.

Experts are found by their weights: a product of rows with one of several matrices that are stored as one. Of e devices
each holds an e-th of them, sends what its tokens' experts need to all others, and gets the results back (Lepikhin et
al., "GShard", ICLR 2021, section 3.2). Routers are trained to balance: each device gets as many rows as it sends, times
a capacity (DeepSeek-AI, "DeepSeek-V2", 2024, section 2.2).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from partita.costs.strategies.modes import Mode, Modes, Splits
from partita.costs.strategies.shares import Shape, shared_view
from partita.costs.strategies.view import GraphView


@dataclass(frozen=True)
class Experts:
    """The experts of a layer."""

    count: int  #: How many there are.
    weights: tuple[int, ...]  #: Their parameters.
    operators: tuple[int, ...]  #: Forward operators from the first products of experts to the last ones.
    #: Tensors whose rows go to their experts, and come back.
    dispatched: tuple[int, ...]
    combined: tuple[int, ...]


def find_experts(splits: Splits) -> dict[int, Experts]:
    """The experts of every layer that has some."""
    view = splits.view
    found: dict[int, Experts] = {}
    for layer in sorted({splits.layer[v] for v, linear in view.linears.items() if linear.experts > 1}):
        forward = splits.forward(layer)
        products = [v for v in forward if v in view.linears and view.linears[v].experts > 1]
        after = view.reach(products, forward)
        before = view.reach(products, forward, back=True)
        inside = [v for v in forward if v in products or (v in after and v in before)]
        made = {place for v in inside for place in view.outputs[v]}
        sources = {view.linears[v].source for v in products}
        found[layer] = Experts(
            count=max(view.linears[v].experts for v in products),
            weights=tuple(sorted({view.linears[v].weight for v in products})),
            operators=tuple(inside),
            dispatched=tuple(sorted(sources - made)),
            combined=tuple(
                sorted(place for v in products for place in view.outputs[v] if not set(view.readers(place)) & {*inside})
            ),
        )
    return found


def refusal(experts: dict[int, Experts], names: list[str], degree: int) -> str | None:
    """Why so many devices cannot share out the experts; None if they can."""
    if degree > 1 and not experts:
        return f"expert-parallel degree {degree} needs layers with experts, and none were found"
    for layer, found in experts.items():
        if found.count % degree:
            return f"expert-parallel degree {degree} does not divide the {found.count} experts of {names[layer]}"
    return None


def folding_refusal(modes: Modes, experts: dict[int, Experts]) -> str | None:
    """Why each device of a tensor-parallel group cannot send its own tokens to whole experts; None if it can."""
    splits, degree = modes.splits, modes.degree
    if not experts:
        return "expert-tensor degree 1 needs layers with experts, and none were found"
    if degree > 1 and not modes.sequence:
        return f"expert-tensor degree 1 beside tensor-parallel degree {degree} needs groups that share out tokens"
    for layer in experts:
        if splits.tokens[layer] % degree:
            return (
                f"expert-tensor degree 1 needs a number of tokens that tensor-parallel degree {degree} divides, and "
                f"{splits.names[layer]} has {splits.tokens[layer]}"
            )
    return None


def folded(modes: Modes, experts: dict[int, Experts]) -> Modes:
    """Modes of a tensor-parallel group whose devices route their own tokens, to experts that are not split.

    That is "MoE Parallel Folding" with an expert-tensor degree of 1 (Liu et al., 2025, section 3): between the products
    before the router and the sum of the experts' results each device works on its own tokens.
    """
    if modes.degree == 1:
        return modes
    splits = modes.splits
    view, mode, share = splits.view, list(modes.mode), list(modes.share)
    for layer, found in experts.items():
        inside = [v for v in splits.forward(layer) if v not in view.linears or view.linears[v].experts > 1]
        behind = {*found.operators, *view.reach(found.operators, inside)}
        around = behind | view.reach(behind, inside, back=True)
        for v in around:
            if v in found.operators or (mode[v] is Mode.WHOLE and view.state[v]):
                mode[v], share[v] = Mode.TOKENS, 1.0 / modes.degree
    return dataclasses.replace(
        modes, mode=tuple(mode[root] for root in view.roots), share=tuple(share[root] for root in view.roots)
    )


def expert_view(view: GraphView, experts: dict[int, Experts], degree: int, capacity: float) -> GraphView:
    """What one of so many devices that share out experts has of a graph, with rows by the capacity."""
    weights = {place for one in experts.values() for place in one.weights}
    inside = {v for one in experts.values() for v in one.operators}
    work = [v for v, root in enumerate(view.roots) if root in inside]
    rows = {place for one in experts.values() for place in one.dispatched}
    tensors: dict[int, float] = {}
    for v in work:
        for place in view.outputs[v]:
            tensors[place] = 1.0 / degree if place in view.weight_gradients else capacity
    tensors |= dict.fromkeys(rows, capacity)

    def part(v: int, shape: Shape) -> Shape:
        linear = view.linears.get(view.roots[v])
        batch, rows, columns, inner = shape
        if linear is None or linear.experts == 1 or batch % degree:
            return shape
        more = degree * capacity
        if any(place in view.weight_gradients for place in view.outputs[v]):
            return batch // degree, rows, columns, max(1, round(inner * more))
        if columns == round(linear.tokens / linear.experts) != rows:
            return batch // degree, rows, max(1, round(columns * more)), inner
        return batch // degree, max(1, round(rows * more)), columns, inner

    # Arithmetic stays, but for what is beyond the mean: fewer experts get more rows each.
    return shared_view(view, tensors, dict.fromkeys(weights, 1.0 / degree), dict.fromkeys(work, capacity), part)
