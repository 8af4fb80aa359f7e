"""partita generate and partita convert: make problem files for comparing bounds and solvers."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from partita.cli.common import Positive, check_writable, file_options, positive, read_file
from partita.cli.model import is_model, model_options, pricing_arguments, read_cluster, read_model, take_pricing
from partita.errors import InputError

if TYPE_CHECKING:
    from partita.problems.throughput.problem import ThroughputProblem

__all__ = ["convert", "generate"]


@click.group()
def generate() -> None:
    """Make a random problem."""


@generate.command()
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Same seed, same problem.")
@click.option("--family", metavar="NAME", help="Of graphs; one of REGAL's four at random if not given.")
@click.option("--nodes", type=click.IntRange(min=1), help="Operators; 50 to 200 at random if not given.")
@click.option("--devices", type=click.IntRange(min=1), default=8, show_default=True, help="Identical devices.")
@click.option(
    "--noise",
    type=click.Choice(["graph", "operator"]),
    default="graph",
    show_default=True,
    help="Random work as a fraction of all tensors, or of the operator's own.",
)
@click.option("--parameter-bytes", type=Positive(allow_zero=True), default=0.0, help="Mean parameter size; none if 0.")
@click.option("--memory", type=Positive(allow_zero=True), help="Bytes per device; more is streamed.")
@click.option(
    "--hard",
    type=click.FloatRange(min=0, max=1, max_open=True),
    default=0.0,
    help="Draw until searching for an order with little memory gains this fraction.",
)
@click.option(
    "--working-memory",
    type=click.Choice(["largest", "peak"]),
    default="largest",
    show_default=True,
    help="With --memory: peak adds the tensors of the operators that run.",
)
@click.option("--output", required=True, type=click.Path(), metavar="P.json", help="Write the problem.")
def regal(output: str, memory: float | None, **options: Any) -> int:
    """A graph like the synthetic ones of REGAL, with work and tensors of the same unit (docs/instances.md)."""
    from partita.problems.throughput.generators.regal import regal_problem

    check_writable(output)
    _write(output, regal_problem(memory_bytes=memory, **options))
    return 0


@click.command()
@click.argument("what", metavar="FILE|MODEL")
@file_options
@model_options
@click.option("--cluster", metavar="CLUSTER", help="For a model: what prices it, for example 4xA100-80GB.")
@click.option("--kind", metavar="NAME", help="Device kind that all devices are like; the accelerator's if not given.")
@click.option("--reload-bandwidth", type=positive, metavar="BYTES_PER_S", help="With --memory: for what is streamed.")
@click.option("--keep-tensors", is_flag=True, help="Do not join the tensors of an operator into one.")
@click.option("--drop-colocation", is_flag=True, help="Let operators part that must share a device.")
@click.option("--output", required=True, type=click.Path(), metavar="P.json", help="Write the problem.")
def convert(
    what: str,
    devices: int | None,
    memory: float | None,
    cluster: str | None,
    kind: str | None,
    reload_bandwidth: float | None,
    keep_tensors: bool,
    drop_colocation: bool,
    output: str,
    **options: Any,
) -> int:
    """Write FILE or MODEL as a problem of identical devices without CPUs, variants and memory limit.

    With --memory, what exceeds it is streamed. The backward part of training is left out (docs/instances.md).
    """
    from partita.problems.throughput.generators.plain import plain_problem
    from partita.problems.throughput.variants import reload_at

    check_writable(output)
    problem = _read(what, cluster, options)
    if reload_bandwidth is not None:
        problem = reload_at(problem, reload_bandwidth)
    limit = None if memory is None or memory == float("inf") else memory
    _write(
        output,
        plain_problem(
            problem,
            devices=devices,
            kind=kind,
            memory_bytes=limit,
            keep_tensors=keep_tensors,
            keep_colocation=not drop_colocation,
        ),
    )
    return 0


def _read(what: str, cluster: str | None, options: dict[str, Any]) -> ThroughputProblem:
    pricing = take_pricing(options)
    reading = {
        name: options.pop(name)
        for name in ("file_format", "problem_kind", "cpus", "scale_communication", "microbatches")
    }
    if not is_model(what):
        problem: ThroughputProblem = read_file(what, devices=None, memory=None, **reading)
        return problem
    from partita.conductor.sweep import scale_bandwidth
    from partita.problems.throughput.from_model import price

    if cluster is None:
        raise InputError(f"{what} is a model; say what prices it with --cluster, for example 4xA100-80GB")
    machines = read_cluster(cluster)
    graph = read_model(what, **options)
    problem = price(graph, machines, **pricing_arguments(pricing, graph, machines, reading["microbatches"]))
    scale = reading["scale_communication"]
    if scale == 0:
        raise InputError("--scale-communication 0 makes a model's transfers free; use a small factor instead")
    return scale_bandwidth(problem, 1.0 / scale)


def _write(output: str, problem: ThroughputProblem) -> None:
    from partita.problems.throughput.files.native import write_problem

    write_problem(output, problem)
    print(
        f"partita: {len(problem.operators)} operators, {len(problem.tensors)} tensors, {problem.device_count} devices: "
        f"{output}",
        file=sys.stderr,
    )
