"""Which module a node of an ONNX graph belongs to, as far as its exporter wrote that down."""

from __future__ import annotations

import ast
from typing import Any

#: Where torch's exporter writes the modules around a node, outermost first, and their classes; the last is the call.
_SCOPES = "pkg.torch.onnx.name_scopes"
_CLASSES = "pkg.torch.onnx.class_hierarchy"


class Modules:
    """Modules in order of appearance, parents first, each with its class where that is known."""

    def __init__(self, root: str) -> None:
        self.classes = {"": root}

    def of(self, node: Any) -> str:
        """The module of a node: from what torch's exporter states, else from a name such as ``/layer.0/fc/MatMul``."""
        stated = {entry.key: entry.value for entry in node.metadata_props}
        scopes, classes = _row(stated.get(_SCOPES)), _row(stated.get(_CLASSES))
        if scopes:
            known = dict(zip(scopes, classes, strict=False))
            # The root, and the exporter's own mark of a node that has no module, have no name.
            names = [name for name in scopes[:-1] if name and not name.startswith("_empty_nn_module")]
            name = names[-1] if names else ""
            for each in names:
                self._add(each, known.get(each, "").rpartition(".")[2])
            return name
        name = ".".join(part for part in node.name.split("/")[:-1] if part)
        self._add(name, "")
        return name

    def _add(self, name: str, of_class: str) -> None:
        parts = name.split(".")
        for end in range(1, len(parts) + 1):
            self.classes.setdefault(".".join(parts[:end]), "Module")
        if of_class:
            self.classes[name] = of_class


def _row(text: str | None) -> list[str]:
    try:
        value = ast.literal_eval(text or "")
    except (SyntaxError, ValueError):
        return []
    return [str(entry) for entry in value] if isinstance(value, list) else []
