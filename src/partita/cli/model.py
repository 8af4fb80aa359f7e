"""Reading the model and the cluster of a command."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from partita.errors import InputError, UnsupportedError

if TYPE_CHECKING:
    from partita.cluster import Cluster
    from partita.graph import Graph

__all__ = ["is_model", "model_options", "pricing_arguments", "read_cluster", "read_model", "take_pricing"]

Command = TypeVar("Command", bound=Callable[..., Any])


def model_options(command: Command) -> Command:
    """Options that say what the model is and how it runs."""
    for option in (
        click.option("--hierarchy", is_flag=True, help="Machines are groups: fast links inside, the network between."),
        click.option("--recompute", is_flag=True, help="Training: keep only stage inputs, run forward again."),
        click.option(
            "--schedule", type=click.Choice(["1f1b", "gpipe"]), default="1f1b", show_default=True, help="Training."
        ),
        click.option("--costs", "cost_table", type=click.Path(), metavar="TABLE", help="Measured times."),
        click.option(
            "--tied",
            type=click.Choice(["copy", "together"]),
            default="copy",
            show_default=True,
            help="Tied parameters: a copy on each device that reads them, or their readers on one device.",
        ),
        click.option("--optimizer-dtype", default="float32", show_default=True, metavar="NAME", help="Of its state."),
        click.option("--optimizer", default="adam", show_default=True, metavar="NAME", help="Training: its state."),
        click.option("--training", is_flag=True, help="Forward and backward, with gradients and optimizer."),
        click.option("--task", metavar="NAME", help="The head of an hf: model, for example causal-lm."),
        click.option("--set", "set_fields", multiple=True, metavar="FIELD=VALUE", help="Change the configuration."),
        click.option("--dtype", metavar="NAME", help="Number format, for example float16."),
        click.option("--sequence-length", type=click.IntRange(min=1), help="Tokens per sample."),
        click.option("--batch-size", type=click.IntRange(min=1), default=1, show_default=True, help="Per microbatch."),
    ):
        command = option(command)
    return command


def is_model(text: str) -> bool:
    """Whether an argument names a model rather than a problem file."""
    if text.startswith("hf:") or ".py:" in text or text.endswith((".py", ".onnx")):
        return True
    path = Path(text)
    if path.suffix == ".json" and path.is_file():
        from partita.documents.document import document_keys, read_bytes

        tag = document_keys(read_bytes(path), path).get("format")
        return tag is not None and bytes(tag) == b'"partita.graph"'
    return False


def read_model(
    text: str,
    batch_size: int,
    sequence_length: int | None,
    dtype: str | None,
    set_fields: tuple[str, ...],
    task: str | None,
    training: bool,
) -> Graph:
    """The graph of a model argument."""
    if text.endswith(".onnx"):
        raise UnsupportedError(f"{text}: ONNX models are not read yet; give a PyTorch callable or a graph file")
    if not text.startswith("hf:") and text.endswith(".json"):
        from partita.problems.throughput.files.native import read_graph

        graph = read_graph(text)
        if training and not graph.training:
            raise InputError(f"{text} was traced without its backward part; trace it again with training")
        return graph
    fields: dict[str, str] = {}
    for entry in set_fields:
        name, equals, value = entry.partition("=")
        if not equals or not name:
            raise InputError(f"--set {entry!r} is not of the form FIELD=VALUE")
        fields[name] = value
    from partita.frontends.models import load_model

    started = time.perf_counter()
    if sys.stderr.isatty():
        print(f"partita: tracing {text} …", file=sys.stderr)
    graph = load_model(
        text,
        batch_size=batch_size,
        sequence_length=sequence_length,
        dtype=dtype,
        set_fields=fields,
        task=task,
        training=training,
    )
    elapsed = time.perf_counter() - started
    if sys.stderr.isatty():
        print(f"partita: {len(graph.operators)} operators in {elapsed:.1f} s", file=sys.stderr)
    return graph


def read_cluster(text: str) -> Cluster:
    """The cluster of an argument: a short form or a file."""
    from partita.cluster import parse_cluster

    return parse_cluster(text)


#: Options that go to ``price`` under their own name.
PRICING = ("optimizer", "optimizer_dtype", "tied", "schedule", "recompute", "hierarchy")


def take_pricing(options: dict[str, Any]) -> dict[str, Any]:
    """Take the options of pricing out of a command's options, leaving those of tracing."""
    return {name: options.pop(name) for name in (*PRICING, "cost_table")}


def pricing_arguments(
    taken: dict[str, Any], graph: Graph, cluster: Cluster, microbatches: int | None
) -> dict[str, Any]:
    """Arguments of ``price``; training defaults to four microbatches per device, usual for small pipeline bubbles."""
    from partita.costs.table import read_cost_table

    arguments = dict(taken)
    table = arguments.pop("cost_table")
    arguments["costs"] = None if table is None else read_cost_table(table)
    arguments["microbatches"] = microbatches or (4 * cluster.device_count if graph.training else 1)
    return arguments
