"""Types of what public functions take: models and clusters, as text, as files and as values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

from partita.nouns.cluster import Cluster
from partita.nouns.graph import Graph
from partita.nouns.topology.topology import Topology


class TorchModule(Protocol):
    """A ``torch.nn.Module``, by what is asked of it here: torch need not be there for the others."""

    training: bool

    def __call__(self, *args: object, **kwargs: object) -> object:
        """What it computes."""

    def named_parameters(self) -> Iterator[tuple[str, object]]:
        """Its parameters by name."""


#: ``hf:TYPE_OR_FILE``, ``path/to/file.py:callable``, a path of an ONNX or graph file, a traced graph, or a module.
Model: TypeAlias = str | Path | Graph | TorchModule

#: A short form such as ``4xL4`` or ``dgx1:2``, a path, or a value.
Devices: TypeAlias = str | Path | Cluster | Topology

#: Arguments of a model: of a module its example arguments (positional, or by name); of others arrays by name, as
#: ``load_model`` takes them.
Inputs: TypeAlias = Sequence[object] | Mapping[str, object]
