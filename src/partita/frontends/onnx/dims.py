"""Sizes that a file leaves open, settled by what the user gives."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from partita.errors import InputError, NoBatchSizeError
from partita.frontends.options import Asked, nearest


def open_sizes(inputs: Iterable[Any]) -> dict[str, list[str]]:
    """Names of dimensions without a size, with where they are; one without a name is ``INPUT.AXIS``."""
    found: dict[str, list[str]] = {}
    for each in inputs:
        for axis, dim in enumerate(each.type.tensor_type.shape.dim):
            if not dim.HasField("dim_value"):
                found.setdefault(dimension_name(each.name, axis, dim), []).append(f"{each.name}[{axis}]")
    return found


def dimension_name(owner: str, axis: int, dim: Any) -> str:
    """The name of a dimension without a size."""
    return dim.dim_param or f"{owner}.{axis}"


def settle(path: str, inputs: list[Any], asked: Asked) -> dict[str, int]:
    """A size for every dimension that the inputs leave open.

    The batch is the first open dimension, where that is the first axis of its input.

    Raises
    ------
    InputError
        If a size is missing, no whole number of at least one, or given for what there is not.
    """
    places = open_sizes(inputs)
    sizes: dict[str, int] = {}
    for name, text in asked.fields.items():
        if name not in places:
            what = nearest(name, places) if places else "; it states all sizes"
            raise InputError(f"{path} has no open dimension {name!r}{what}")
        if not text.strip().isdigit() or int(text) < 1:
            raise InputError(f"dimension {name!r} of {path} is set to {text!r}; give a whole number of at least 1")
        sizes[name] = int(text)
    first = next(iter(places), None)
    batch = first if first is not None and places[first][0].endswith("[0]") else None
    if asked.batch_size is not None:
        if batch is None:
            raise NoBatchSizeError(f"{path} leaves no batch size open; leave --batch-size out, or export it with one")
        if sizes.setdefault(batch, asked.batch_size) != asked.batch_size:
            raise InputError(
                f"dimension {batch!r} of {path} is the batch: --batch-size {asked.batch_size} and --set "
                f"{batch}={sizes[batch]} differ; leave one of both out"
            )
    missing = [name for name in places if name not in sizes]
    if missing:
        named = ", ".join(f"{name!r} ({', '.join(places[name][:3])})" for name in missing)
        ways = " ".join(f"--set {name}=VALUE" for name in missing)
        also = f" ({batch!r} also as --batch-size)" if batch in missing else ""
        raise InputError(f"{path} leaves sizes open: {named}; give {ways}{also}")
    return sizes


def input_shape(path: str, each: Any, sizes: dict[str, int]) -> tuple[int, ...]:
    """The shape of an input, its open dimensions settled."""
    kind = each.type.WhichOneof("value")
    if kind != "tensor_type":
        raise InputError(
            f"{path}: input {each.name!r} is a {str(kind).removesuffix('_type')}, not an array; export the model with "
            "arrays alone"
        )
    if not each.type.tensor_type.HasField("shape"):
        raise InputError(f"{path}: input {each.name!r} states no shape, not even how many dimensions; export it again")
    result = []
    for axis, dim in enumerate(each.type.tensor_type.shape.dim):
        size = dim.dim_value if dim.HasField("dim_value") else sizes[dimension_name(each.name, axis, dim)]
        if size < 0:
            raise InputError(f"{path}: input {each.name!r} has size {size} at axis {axis}; sizes cannot be negative")
        result.append(size)
    return tuple(result)


def declared_shape(each: Any, sizes: dict[str, int]) -> tuple[int | None, ...] | None:
    """The shape that a file states for an array, None where it cannot be told."""
    if each.type.WhichOneof("value") != "tensor_type" or not each.type.tensor_type.HasField("shape"):
        return None
    return tuple(
        dim.dim_value if dim.HasField("dim_value") else sizes.get(dim.dim_param)
        for dim in each.type.tensor_type.shape.dim
    )
