"""What is asked of a node before onnx's own code sees it, which ends the process on some damage instead of raising."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from partita.frontends.onnx.files import describe
from partita.ground.errors import InputError


def check_attributes(path: str, node: Any, ranks: Iterable[int | None]) -> None:
    """Refuse a node whose attributes name dimensions or outputs that there are not; ``ranks`` are of its inputs."""
    stated = {attribute.name: attribute.i for attribute in node.attribute}
    what = f"{path}: {describe(node)}"
    if node.op_type == "Split" and stated.get("num_outputs", len(node.output)) != len(node.output):
        raise InputError(f"{what} has {len(node.output)} outputs, but states {stated['num_outputs']}")
    if node.op_type == "GatherND":
        least = min((rank for rank in ranks if rank is not None), default=0)
        if not 0 <= stated.get("batch_dims", 0) <= least:
            raise InputError(f"{what} states {stated['batch_dims']} dimensions of samples, where there are {least}")
