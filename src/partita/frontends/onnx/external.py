"""Data files beside a model: whether they are there and hold what the model says. Only sizes are taken from a model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from onnx import TensorProto

from partita.frontends.onnx.arrays import array_bytes
from partita.ground.errors import InputError


def place_of(tensor: Any) -> tuple[str, int, int | None] | None:
    """File, first byte and number of bytes of a tensor's data; None where the model holds or says nothing of it."""
    if tensor.data_location != TensorProto.EXTERNAL:
        return None
    stated = {entry.key: entry.value for entry in tensor.external_data}
    if "location" not in stated:
        return None
    length = stated.get("length")
    return stated["location"], int(stated.get("offset") or 0), None if length is None else int(length)


def check_place(what: str, tensor: Any) -> None:
    """Refuse a tensor that says its data is in a file, but not in which, or in a place of another size."""
    try:
        place = place_of(tensor)
    except ValueError as error:
        raise InputError(f"{what} states no numbers for its place in a data file; export the model again") from error
    if place is None:
        raise InputError(f"{what} says that its data is in another file, but not in which; export the model again")
    name, first, length = place
    size = array_bytes(tensor.dims, tensor.data_type)
    if first < 0 or (length is not None and length != size):
        raise InputError(
            f"{what} states shape {list(tensor.dims)}, which is {size} bytes, but {length} of them in {name!r} from "
            f"{first} on; export the model again"
        )


def data_notes(path: str, model: Any) -> Iterator[str]:
    """Notes on data files that are not there, or that end before what the model has in them."""
    ends: dict[str, int] = {}
    for tensor in model.graph.initializer:
        place = place_of(tensor)
        if place is not None:
            end = place[1] + array_bytes(tensor.dims, tensor.data_type)
            ends[place[0]] = max(ends.get(place[0], 0), end)
    for name, end in sorted(ends.items()):
        try:
            held = (Path(path).parent / name).stat().st_size
        except OSError:
            yield f"The data file {name!r} is not there: sizes of weights are those that the model states."
            continue
        if held < end:
            yield (
                f"The data file {name!r} holds {held} bytes where the model has {end}: sizes of weights are those that "
                "the model states."
            )
