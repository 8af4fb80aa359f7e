"""Local functions of an ONNX model, put in the place of the nodes that call them."""

from __future__ import annotations

from typing import Any

from partita.frontends.options import one_line
from partita.ground.errors import InputError


def inlined(path: str, model: Any) -> Any:
    """The model without calls of local functions.

    Functions written for another version of the standard's operator set are taken as of the model's where that has the
    same operators with such inputs and attributes.

    Raises
    ------
    InputError
        If functions call each other in a circle, or use operators that the model's operator set has otherwise.
    """
    from onnx import inliner

    versions = {opset.domain: opset.version for opset in model.opset_import}
    for function in model.functions:
        for opset in function.opset_import:
            wanted = versions.get(opset.domain)
            if wanted is None:
                model.opset_import.add(domain=opset.domain, version=opset.version)
                versions[opset.domain] = opset.version
            elif wanted != opset.version:
                _check_alike(path, function, opset.domain, wanted)
                opset.version = wanted
    try:
        return inliner.inline_local_functions(model)
    except Exception as error:  # code in C++, on whatever a file holds
        raise InputError(f"{path}: its local functions cannot be inlined: {one_line(error)}") from error


def _check_alike(path: str, function: Any, domain: str, version: int) -> None:
    from onnx import defs

    for node in function.node:
        if node.domain != domain:
            continue
        schema = defs.get_schema(node.op_type, version, domain) if defs.has(node.op_type, version, domain) else None
        if (
            schema is None
            or not schema.min_input <= len(node.input) <= schema.max_input
            or any(attribute.name not in schema.attributes for attribute in node.attribute)
        ):
            raise InputError(
                f"{path}: local function {function.name!r} is of another operator set than the model's {version}, "
                f"which has no such {node.op_type}; convert the model to one version"
            )
