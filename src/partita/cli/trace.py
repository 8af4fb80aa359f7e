"""partita trace: a model in, its graph out, which is planned without the libraries that the model is made of."""

from __future__ import annotations

from typing import Any

import click

from partita.cli.common import Output, output_options, quiet_stdout
from partita.cli.flags import subcommand
from partita.cli.options import model_options, read_fields, take_inputs
from partita.ground.errors import InputError


@subcommand(click.argument("model"), model_options, output_options)
def trace(model: str, set_fields: tuple[str, ...], **parameters: Any) -> None:
    """Trace MODEL into a graph, which --output writes.

    MODEL is path/to/file.py:callable, hf:TYPE_OR_FILE, or path/to/model.onnx. A graph file is a model for every
    command that plans, and needs no torch there.
    """
    from partita.documents.document import tagged
    from partita.documents.stated import GRAPH_FORMAT, GRAPH_VERSION
    from partita.documents.tables.text import paragraphs
    from partita.frontends.models import load_model
    from partita.problems.facets.report import model_sentence

    output = Output.take(parameters)
    if model.endswith(".json") and not model.startswith("hf:"):
        raise InputError(f"{model} is no model that can be traced; write hf:{model} if it is a configuration")
    inputs = take_inputs(parameters)
    with quiet_stdout():
        graph = load_model(model, set_fields=read_fields(set_fields), inputs=inputs, **parameters)
    output.document(tagged(graph, GRAPH_FORMAT, GRAPH_VERSION))
    output.show([model_sentence(graph), paragraphs("Notes", graph.notes)])
