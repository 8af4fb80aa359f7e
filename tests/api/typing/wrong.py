"""Wrong uses of public functions, a line each, every one of which a type checker refuses; nothing here runs."""

from __future__ import annotations

import partita as pt


def wrong(graph: pt.Graph, problem: pt.ThroughputProblem, mapping: pt.MappingProblem, plan: pt.LatencyPlan) -> None:
    """What a user may get wrong."""
    # A setting of another objective, one that there is not, a value that is no choice, a value of another type.
    pt.plan(graph, "4xL4", objective="throughput", zero=1)  # wrong
    pt.plan(graph, "4xL4", contiguitty="free")  # wrong
    pt.plan(graph, "4xL4", objective="hybrid", schedule="pipedream")  # wrong
    pt.plan(graph, "4xL4", time_limit_s="60")  # wrong
    # A model that is none, a search's option at pricing, an optimizer that there is not.
    pt.plan(3, "4xL4")  # wrong
    pt.price(graph, "4xL4", objective="throughput", contiguity="free")  # wrong
    pt.price(graph, "4xL4", optimizer="adamax")  # wrong
    # Settings of another problem, and of no problem.
    pt.solve(mapping, contiguity="free")  # wrong
    pt.solve(problem, devices="8")  # wrong
    pt.solve(problem, communication="duplx")  # wrong
    # Axes: of another problem, and of values of another type.
    pt.sweep(mapping, devices=[2, 4])  # wrong
    pt.sweep(problem, bandwidth=["half"])  # wrong
    # What answers have not, and what is not said to be there.
    print(pt.solve(problem).plann)  # wrong
    pt.bound(problem, time_limit=5)  # wrong
    pt.compare(problem, rank="speed")  # wrong
    pt.simulate("R.json", schedul="gpipe")  # wrong
    pt.run("R.json", steps="2")  # wrong
    pt.solv(problem)  # wrong
    # A bound that may be missing is no number yet.
    pt.solve(problem).bound + 1  # wrong
    pt.map_stages("R.json", form="ring")  # wrong
