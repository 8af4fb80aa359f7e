"""What a graph presumes of the routing of tokens to experts."""

from __future__ import annotations

from partita.graph import Graph


def experts_notes(graph: Graph) -> tuple[str, ...]:
    """A note on grouped products, whose tokens are routed by data: how many every expert is expected to get."""
    routed = [op for op in graph.operators if "grouped_mm" in op.target and op.phase == "forward"]
    if not routed:
        return ()
    shares = sorted({(op.product[0], op.product[1]) for op in routed if op.product is not None})
    expected = ", ".join(f"{rows:,} of each of {experts} experts" for experts, rows in shares)
    return (
        "Every token goes through its top experts: the experts of a layer are grouped products over all tokens, which "
        "read all the experts' weights and count each token's chosen experts only. Tokens are presumed to be spread "
        f"evenly{f': {expected}' if expected else ''}.",
    )
