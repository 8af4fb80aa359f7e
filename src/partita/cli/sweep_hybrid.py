"""The hybrid part of ``partita sweep``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from partita.cli.common import console, emit_json, progress_line, write_result
from partita.cli.plan_hybrid import hybrid_pricing

if TYPE_CHECKING:
    from partita.cluster import Cluster
    from partita.conductor.hybrid_sweep import HybridSweepRow
    from partita.conductor.sweep import Point
    from partita.graph import Graph

__all__ = ["HybridRun", "SweepSource", "sweep_hybrid_points"]

EXIT_INTERRUPTED = 130


@dataclass(frozen=True)
class SweepSource:
    """What is swept: a problem file's problem, or a model with its cluster, the text of that, and its pricing."""

    problem: Any = None
    graph: Graph | None = None
    cluster: Cluster | None = None
    text: str = ""
    pricing: dict[str, Any] = field(default_factory=dict)
    microbatches: int | None = None
    objective: str | None = None

    @property
    def hybrid(self) -> bool:
        """Whether hybrid plans are wanted."""
        from partita.problems.hybrid.problem import HybridProblem

        return self.objective == "hybrid" or isinstance(self.problem, HybridProblem)


@dataclass(frozen=True)
class HybridRun:
    """What every point is solved with."""

    time_limit_s: float
    seed: int
    solver: str | None
    threads: int
    hybrid: dict[str, Any]


def sweep_hybrid_points(
    source: SweepSource,
    points: Sequence[Point],
    run: HybridRun,
    *,
    csv_path: str | None,
    plot_path: str | None,
    output: str | None,
    as_json: bool,
) -> int:
    """Sweep, write and show."""
    from partita.conductor.hybrid_sweep import change_problem, scale_cluster, sweep_hybrid
    from partita.documents.document import write_atomic
    from partita.problems.hybrid.report.sweep import (
        hybrid_sweep_csv,
        hybrid_sweep_document,
        hybrid_sweep_table,
        save_hybrid_sweep,
    )

    # A number of devices that no machines make up should not cost the points before it.
    for point in points:
        if source.cluster is not None and point.devices is not None:
            scale_cluster(source.cluster, point.devices)
        elif source.problem is not None:
            change_problem(source.problem, point)
    name, unit = (source.problem.name, source.problem.unit) if source.graph is None else (source.graph.name, "s")
    with progress_line(unit, "sweeping") as progress:
        found = sweep_hybrid(points, lambda point: _solve(source, point, run, progress))
    document = hybrid_sweep_document(name, unit, found)
    write_result(output, document)
    if csv_path is not None:
        write_atomic(csv_path, hybrid_sweep_csv(document).encode())
    if plot_path is not None and found.rows:
        save_hybrid_sweep(plot_path, document)
    if as_json:
        emit_json(document)
    else:
        console().print(hybrid_sweep_table(document))
    if found.interrupted:
        print(f"partita: interrupted after {len(found.rows)} rows", file=sys.stderr)
    return EXIT_INTERRUPTED if found.interrupted else 0


def _solve(source: SweepSource, point: Point, run: HybridRun, progress: Any) -> HybridSweepRow:
    from partita.conductor.hybrid_planning import plan_hybrid
    from partita.conductor.hybrid_sweep import change_problem, from_model_plan, scale_cluster, solve_point

    if source.graph is None or source.cluster is None:
        return solve_point(
            point,
            change_problem(source.problem, point),
            time_limit_s=run.time_limit_s,
            seed=run.seed,
            solver=run.solver,
            threads=run.threads,
            progress=progress,
        )
    cluster = source.cluster if point.devices is None else scale_cluster(source.cluster, point.devices)
    answer = plan_hybrid(
        source.graph,
        cluster,
        microbatches=() if source.microbatches is None else (source.microbatches,),
        aim=run.hybrid["minimise"],
        time_limit_s=run.time_limit_s,
        seed=run.seed,
        solver=run.solver,
        threads=run.threads,
        progress=progress,
        change=lambda problem: change_problem(problem, point, devices=False),
        **hybrid_pricing(source.pricing, run.hybrid),
    )
    return from_model_plan(point, answer)
