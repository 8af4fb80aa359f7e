"""A hybrid plan's stages and degrees in short."""

from __future__ import annotations

import itertools

from partita.problems.hybrid.plan import HybridPlan


def degrees_text(plan: HybridPlan) -> str:
    """Stages and their degrees in short: ``8 stages: 7 × d4·t2, d8·t1``."""
    runs = itertools.groupby(f"d{stage.data_parallel}·t{stage.tensor_parallel}" for stage in plan.stages)
    counted = [(text, len(list(alike))) for text, alike in runs]
    shown = [text if count == 1 else f"{count} × {text}" for text, count in counted]
    if len(shown) > 4:
        shown = [*shown[:2], "…", shown[-1]]
    count = len(plan.stages)
    return f"{count} stage{'s' if count > 1 else ''}: {', '.join(shown)}"


def stage_degrees(plan: HybridPlan) -> list[dict[str, int]]:
    """Layers and degrees of every stage."""
    return [
        {
            "layers": len(stage.operators),
            "data_parallel": stage.data_parallel,
            "tensor_parallel": stage.tensor_parallel,
        }
        for stage in plan.stages
    ]
