"""partita trace: a model in, its graph out, which is planned without the libraries that the model is made of."""

from __future__ import annotations

from typing import Any

import click

from partita.cli.common import Output, output_options
from partita.cli.flags import subcommand
from partita.cli.options import model_options
from partita.cli.source import take_tracing
from partita.ground.errors import InputError


@subcommand(click.argument("model"), model_options, output_options)
def trace(model: str, **parameters: Any) -> None:
    """Trace MODEL into a graph, which --output writes.

    MODEL is path/to/file.py:callable, hf:TYPE_OR_FILE, or path/to/model.onnx. A graph file is a model for every
    command that plans, and needs no torch there.
    """
    from partita.api.tracing import is_graph_file, traced
    from partita.documents.document import tagged
    from partita.documents.stated import GRAPH_FORMAT, GRAPH_VERSION
    from partita.documents.tables.text import paragraphs
    from partita.problems.facets.report import model_sentence

    output = Output.take(parameters)
    if is_graph_file(model):
        raise InputError(f"{model} is no model that can be traced; write hf:{model} if it is a configuration")
    graph = traced(model, take_tracing(parameters))
    output.value(tagged(graph, GRAPH_FORMAT, GRAPH_VERSION))
    output.show([model_sentence(graph), paragraphs("Notes", graph.notes)])
