"""One right use of each public function, which a strict type checker takes; nothing here runs."""

from __future__ import annotations

from typing import Any, assert_type

import torch

import partita as pt


def plans(module: torch.nn.Module, graph: pt.Graph, cluster: pt.Cluster) -> None:
    """Of models, by objective, and without one."""
    answer = pt.plan("hf:gpt2", "4xL4", objective="throughput", contiguity="free", memory="20GB", time_limit_s=5)
    assert_type(answer, pt.Answer[pt.ThroughputProblem, pt.Plan, pt.Evaluation])
    hybrid = pt.plan(
        graph,
        cluster,
        objective="hybrid",
        training=True,
        microbatches=[16, 32],
        schedule="1f1b",
        recompute_options=("none", "full"),
    )
    assert_type(hybrid.problem, pt.HybridProblem)
    host = pt.plan("hf:bert", "(4xT4+1xCPU)", objective="host-memory", pieces=2)
    assert_type(host.plan, pt.LatencyPlan | None)
    pt.plan("model.onnx", "2x(4xL4)", objective="latency", fuse=True, tied="together", seed=3)
    anything = pt.plan(module, "8xA100-80GB", inputs=(1, 2), training=True, global_batch=512, optimizer="sgd")
    if anything.bound is not None and anything.objective is not None:
        assert_type(anything.bound <= anything.objective, bool)
        assert_type(anything.bound * 2, float)
    print(anything.summary(), anything.gap, anything.stages, anything.notes)
    name = "elsewhere" + "'s"
    pt.plan(graph, cluster, objective=name, time_limit_s=None)
    settings: dict[str, Any] = {"own": 3}
    # Of a problem from elsewhere nothing is known here but its name: its settings come as a dictionary.
    pt.plan(graph, cluster, objective=name, **settings)


def prices(graph: pt.Graph, cluster: pt.Cluster) -> None:
    """Problems of models."""
    assert_type(pt.price(graph, cluster, microbatches=8, cuts="layer"), pt.ThroughputProblem)
    assert_type(pt.price(graph, "4xL4", objective="latency", tied="copy"), pt.MakespanProblem)
    pt.hybrid_problem(graph, cluster, microbatches=8, degrees=(1, 2))


def problems() -> None:
    """Of stated problems."""
    problem = pt.read_problem("x.json", problem="throughput", format="dnn-partitioning")
    assert_type(problem, pt.ThroughputProblem)
    result = pt.solve(problem, contiguity="acyclic", devices=8, communication="overlap", progress=print)
    assert_type(result.plan, pt.Plan | None)
    if result.plan is not None:
        assert_type(pt.evaluate(problem, result.plan), pt.Evaluation)
    pt.solve("x.json", solver="exact", pieces=3)
    own: dict[str, Any] = {"assignment": "consecutive"}
    pt.solve(pt.read_problem("tasks.json"), **own)
    pt.solve(pt.read_problem("y.json"), seed=1)
    assert_type(pt.bound(problem, "charge"), pt.Bound)
    assert_type(pt.check(result).verified, bool)
    pt.plain_problem(problem, devices=8)
    mapping = pt.read_problem("m.json", problem="mapping")
    assert_type(pt.map_stages(mapping, topology="dgx1:2", form="both").plan, pt.Placement | None)
    pt.map_stages("R.json", "dgx1:2", replicas=2)
    pt.write_problem("copy.json", problem.replace(accelerators=3))


def many(graph: pt.Graph, problem: pt.MakespanProblem) -> None:
    """Of models and problems."""
    swept = pt.sweep("hf:gpt2", "8xL4", devices=[2, 4, 8], memory=("20GB", 24e9), contiguity="free")
    assert_type(swept, pt.SweepAnswer)
    pt.sweep(problem, bandwidth=0.5, episodes=10, jobs=2)
    pt.sweep(graph, "8xL4", objective="hybrid", devices=range(2, 9), microbatches=32, zero=1)
    assert_type(pt.compare(problem, memory="inf", rank="step"), pt.Comparison)
    pt.compare(graph, "4xL4", objective="throughput", hierarchy=True, experts=["R.json"])


def plans_used(answer: pt.Answer[pt.ThroughputProblem, pt.Plan, pt.Evaluation]) -> None:
    """What is done with plans."""
    assert_type(pt.simulate(answer, schedule="gpipe", contention="dedicated"), pt.SimulationAnswer)
    pt.export("R.json", "torchtitan", "plan.toml")
    assert_type(pt.run(answer, steps=2, optimizer="adam"), pt.MeasuredRun)
    if answer.plan is not None:
        pt.place(answer.problem, answer.plan, "dgx1:2", evaluation=answer.evaluation)
    answer.save("R.json")
    again = pt.load("R.json")
    print(again.objective, again.to_frame("baselines"))
    assert_type(pt.profile("hf:gpt2", batch_size=1), pt.ProfileAnswer)
    pt.load_profile("PROFILE.json")


def models(module: torch.nn.Module) -> None:
    """Models and clusters."""
    graph = pt.trace(module, (1, 2), {"mask": None}, training=True)
    pt.write_graph("g.json", graph)
    assert_type(pt.read_graph("g.json"), pt.Graph)
    assert_type(pt.load_model("hf:gpt2", batch_size=2), pt.Graph)
    assert_type(pt.read_cluster("4xL4"), pt.Cluster)
    pt.regal_problem(4)


def components(solver: pt.Solver[pt.ThroughputProblem, pt.Plan, pt.SearchOptions], device: pt.DeviceSpec) -> None:
    """What there is, and what is added."""
    assert_type(pt.register(device), pt.DeviceSpec)
    pt.register(solver, problem="throughput", sort="baseline")
    pt.unregister(solver)
    for listing in (pt.solvers("throughput"), pt.baselines(), pt.bounds()):
        print(len(listing))
    for found in (pt.devices(), pt.links(), pt.topologies(), pt.schedules(), pt.runtimes(), pt.problem_kinds()):
        print(len(found))
    pt.setting("Number of machines.", least=1, unit="machines")


def a_long_run(answer: pt.Answer[pt.ThroughputProblem, pt.Plan, pt.Evaluation]) -> float:
    """What a plan of training comes to."""
    run: pt.TrainingRun = pt.training_run(answer, 1e12, device_failure_hours=5e4, price_per_device_hour=2.0)
    return run.days + pt.training_run("R.json", 1e12).goodput
