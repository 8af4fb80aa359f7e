"""Quantise and dequantise steps of a file in QDQ form, as runtimes run them: inside the operators beside them.

A file in that form states each quantised operator as DequantizeLinear → operator in floating point → QuantizeLinear
(ONNX Runtime, "Quantize ONNX models", QDQ). ONNX Runtime and TensorRT replace each such group by one operator that
reads and writes the integers; a product of two dequantised factors runs in integer arithmetic. Priced one by one the
same steps would cost more traffic than the model in floating point.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from partita.frontends.records import RecordedCall, Value

_QUANTISE, _DEQUANTISE = "QuantizeLinear", "DequantizeLinear"

#: Formats that products run in as they are; narrower ones are widened to int8.
_INTEGERS = frozenset({"int8", "uint8", "int4", "uint4", "float8_e4m3fn", "float8_e5m2"})

NOTE = (
    "Quantise and dequantise steps run inside the operators beside them, as runtimes fuse them; products whose factors "
    "are both dequantised run in the quantised format."
)


def fold(calls: Sequence[RecordedCall], results: Sequence[Value]) -> bool:
    """Price quantise and dequantise steps as part of their neighbours; whether there were any.

    ``results`` are the values that the model returns: what makes one of them stays an operator of its own.
    """
    readers: dict[int, list[RecordedCall]] = {}
    for call in calls:
        for read in call.reads:
            readers.setdefault(id(read.value), []).append(call)
    kept = {id(value) for value in results}
    folded: dict[int, Value] = {}
    for call in (each for each in calls if _name(each) == _DEQUANTISE):
        # Into its readers, if it has any and nobody else wants its result.
        made = id(call.writes[0])
        if made not in kept and readers.get(made) and call.reads:
            _free(call)
            folded[made] = call.reads[0].value
    for call in (each for each in calls if _name(each) == _QUANTISE and each.reads):
        source = call.reads[0].value
        maker = source.call
        if maker is not None and maker.free and _name(maker) == _DEQUANTISE:
            # What was integers is integers again: views of them, as they are.
            _free(call)
        elif maker is not None and not maker.free and id(source) not in kept and len(readers[id(source)]) == 1:
            # Into what makes its input, as nothing else reads that.
            maker.bytes_written -= max(0, source.layout.bytes - call.writes[0].layout.bytes)
            _free(call)
    for call in calls:
        if not call.free and _name(call) != _DEQUANTISE:
            _read_integers(call, folded)
    return any(call.free for call in calls)


def runs_in_integers(op: str, dtype: str) -> bool:
    """Whether a product whose first input has this format runs in int8: its other inputs may be scales in float."""
    return dtype in ("int8", "uint8") or op.startswith("DynamicQuantize")


def _name(call: RecordedCall) -> str:
    return call.target.rpartition(".")[2]


def _free(call: RecordedCall) -> None:
    call.free = True
    call.flops = call.bytes_read = call.bytes_written = 0


def _read_integers(call: RecordedCall, folded: Mapping[int, Value]) -> None:
    """Count what an operator reads through dequantise steps as integers, and its product in their format."""
    through = [read for read in call.reads if id(read.value) in folded]
    for read in through:
        stored = folded[id(read.value)].layout
        share = read.bytes / max(1, read.value.layout.bytes)
        call.bytes_read -= max(0, read.bytes - round(share * stored.bytes))
    factors = call.reads[:2]
    formats = {folded[id(read.value)].layout.dtype for read in factors if id(read.value) in folded}
    if call.flops and len(factors) == 2 and all(id(read.value) in folded for read in factors) and formats <= _INTEGERS:
        floats = sorted(name for name in formats if name.startswith("float"))
        call.dtype = floats[0] if floats else "int8"
