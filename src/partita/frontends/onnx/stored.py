"""Arrays that a file holds: weights, buffers, and small constants."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from onnx import TensorProto, external_data_helper, numpy_helper

from partita.frontends.onnx.arrays import ArrayView, array_bytes, check_type, constant_array, new_array, row_major
from partita.frontends.onnx.files import place_of
from partita.frontends.onnx.shapes import MOST_KNOWN
from partita.frontends.options import passed_over
from partita.frontends.records import Stored
from partita.ground.errors import InputError

#: Whole numbers up to so many are sizes, axes and indices, which every device makes; more are a buffer.
_FEW = 256

_QUANTISED = frozenset({"int8", "uint8", "int4", "uint4", "int2", "uint2"})


def dense(what: str, sparse: Any) -> TensorProto:
    """What stands for a sparse tensor, which runtimes unpack as they load it: its name, type and shape, no data."""
    check_type(sparse.values.data_type, what)
    if any(extent < 0 for extent in sparse.dims):
        raise InputError(f"{what} has shape {list(sparse.dims)}; sizes cannot be negative")
    tensor = TensorProto(name=sparse.values.name, data_type=sparse.values.data_type, dims=list(sparse.dims))
    tensor.data_location = TensorProto.EXTERNAL
    return tensor


class StoredArrays:
    """The stored arrays of a model, those with the same bytes of one data file once."""

    def __init__(self, path: str, buffers: frozenset[str]) -> None:
        self.folder = Path(path).parent
        self.buffers = buffers
        self.stored: list[Stored] = []
        #: Small arrays whose values are in a data file that cannot be read: their names and the file's.
        self.unread: dict[int, tuple[str, str]] = {}
        self._names: set[str] = set()
        self._places: dict[Any, tuple[Stored, ArrayView]] = {}

    def array(self, tensor: Any, name: str) -> ArrayView:
        """What a tensor of the file stands for.

        Floating and quantised arrays are weights, but for single numbers; ``buffers`` names those that are not. Other
        arrays are buffers, or constants if they are small.
        """
        shape, number = tuple(tensor.dims), tensor.data_type
        plain = constant_array(shape, number)
        few = 1 if plain.floating or plain.dtype in _QUANTISED else _FEW
        known = self._value(tensor) if math.prod(shape) <= MOST_KNOWN else None
        if math.prod(shape) <= few:
            array = constant_array(shape, number, known)
            outside = place_of(tensor)
            if known is None and outside is not None:
                self.unread[id(array.value)] = name, outside[0]
            return array
        found = place_of(tensor)
        # Bytes of one place in a data file that are read in one format are one array.
        place = None if found is None else (*found, number, shape if found[2] is None else ())
        if place in self._places:
            owner, first = self._places[place]
            if name != owner.name:
                owner.aliases = (*owner.aliases, name)
            return ArrayView(first.value, shape, row_major(shape), number)
        weight = (plain.floating or plain.dtype in _QUANTISED) and name not in self.buffers
        stored = Stored(
            name=self._unique(name),
            shape=shape,
            dtype=plain.dtype,
            bytes=array_bytes(shape, number),
            kind="parameter" if weight else "buffer",
        )
        self.stored.append(stored)
        array = new_array(shape, number, stored=stored, known=known)
        if place is not None:
            self._places[place] = stored, array
        return array

    def _unique(self, name: str) -> str:
        base, count = name or "constant", 0
        while (unique := f"{base}_{count}" if count else base) in self._names:
            count += 1
        self._names.add(unique)
        return unique

    def _value(self, tensor: Any) -> Any:
        """The content of a small array, None if it is in a file that is not there."""
        try:
            if tensor.data_location == TensorProto.EXTERNAL:
                copy = TensorProto()
                copy.CopyFrom(tensor)
                external_data_helper.load_external_data_for_tensor(copy, str(self.folder))
                tensor = copy
            return numpy_helper.to_array(tensor)
        except Exception as error:
            # Whatever a file holds. Values are a help; a shape that needs them is refused where it does.
            passed_over(f"the content of {tensor.name!r}", error)
            return None
