"""Branches, loops and scans: one operator each, with what its graphs do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import helper

from partita.frontends.onnx.arrays import ArrayView, Item, Items, arithmetic_dtype, constant_array, new_array
from partita.frontends.onnx.files import describe, opset_of
from partita.frontends.onnx.walk import Control, Scope, Walk, arrays_of
from partita.frontends.records import Read, RecordedCall
from partita.ground.errors import InputError

#: Shape and element type of an output, or of each array of a sequence.
Made = tuple[tuple[int, ...], int] | list[tuple[tuple[int, ...], int]]

#: Trip counts from here on are "until the condition ends it".
_ENDLESS = 2**31 - 1

#: The operator set whose scans have a dimension more.
_FIRST_SCAN = 8


def _if(walk: Walk, node: Any, inputs: Items, scope: Scope) -> list[Item]:
    branches = {a.name: a.g for a in node.attribute}
    condition = _an_array(walk, node, inputs[0]).known
    if condition is None:
        walk.notes[f"Data decides {describe(node)}: its first branch is counted."] = None
    first = condition is None or bool(condition.reshape(-1)[0])
    outputs, inner = _inside(walk, node, branches["then_branch" if first else "else_branch"], scope)
    reads = _outer(inner)
    if condition is None:
        # Whoever runs it holds what the other branch reads, too.
        others, idle = _inside(walk, node, branches["else_branch"], scope)
        reads += _outer(idle)
        if [a.shape for a in arrays_of(others)] != [a.shape for a in arrays_of(outputs)]:
            walk.guessed = True
            note = f"The branches of {describe(node)} make different shapes: those of the first are presumed."
            walk.notes[note] = None
    made = [
        [(array.shape, array.type) for array in item] if isinstance(item, tuple) else (item.shape, item.type)
        for item in outputs
    ]
    return _one(walk, node, inputs, reads + [a.read() for a in arrays_of(outputs) if a.numel], inner, made, 1)


def _loop(walk: Walk, node: Any, inputs: Items, scope: Scope) -> list[Item]:
    body = helper.get_attribute_value(node.attribute[0])
    limit, test, *initial = [*inputs, None, None][: max(len(inputs), 2)]
    count, condition = (None if each is None else _an_array(walk, node, each) for each in (limit, test))
    trips = None if count is None or count.known is None else int(count.known.reshape(-1)[0])
    trips = None if trips is None or trips >= _ENDLESS else max(trips, 0)
    if trips is None:
        # As the file says by the shapes of what its times are stacked to.
        shapes = [walk.declared.get(name) for name in node.output[len(initial) :]]
        trips = next((shape[0] for shape in shapes if shape and shape[0] is not None), None)
    first = constant_array((), 7), condition or constant_array((), 9, np.array(True))
    outputs, inner = _inside(walk, node, body, scope, [*first, *(_unknown(a) for a in initial)])
    if trips is None:
        walk.guessed = True
        walk.notes[f"How often {describe(node)} runs is not known: one time is counted."] = None
    elif _an_array(walk, node, outputs[0]).known is None:
        walk.notes[f"Data may end {describe(node)} early: all {trips} times are counted."] = None
    times = 1 if trips is None else trips
    carried, stacked = outputs[1 : 1 + len(initial)], outputs[1 + len(initial) :]
    made: list[Made] = []
    for before, after in zip(initial, carried, strict=True):
        if isinstance(before, tuple) or isinstance(after, tuple):
            made.append(_longer(walk, node, before, after, times))
            continue
        assert before is not None
        if len(before.shape) != len(after.shape):
            raise InputError(f"{walk.path}: {describe(node)} changes the number of dimensions of what it carries")
        if before.shape != after.shape:
            walk.notes[f"What {describe(node)} carries grows: its first time is counted for all."] = None
        grown = tuple(a + times * (b - a) for a, b in zip(before.shape, after.shape, strict=True))
        made.append((grown, after.type))
    made += [((times, *array.shape), array.type) for array in arrays_of(stacked)]
    for place, name in enumerate(node.output):
        # Slices by the number of the run have a size that the file states, if anything does.
        stated, now = walk.declared.get(name), made[place]
        if stated is not None and None not in stated and isinstance(now, tuple):
            made[place] = stated, now[1]
    # What comes from outside may be handed on as it is.
    handed = [array.read() for array in arrays_of(outputs) if array.numel]
    return _one(walk, node, inputs, _outer(inner) + handed, inner, made, times)


def _longer(walk: Walk, node: Any, before: Item | None, after: Item, times: int) -> list[tuple[tuple[int, ...], int]]:
    """What a sequence holds after so many runs, each of which puts the same behind it."""
    if isinstance(before, tuple) and isinstance(after, tuple) and after[: len(before)] == before:
        new = after[len(before) :]
        return [(array.shape, array.type) for array in (*before, *new * times)]
    raise InputError(
        f"{walk.path}: {describe(node)} carries a sequence that does not only grow; export the model with arrays alone"
    )


def _scan(walk: Walk, node: Any, items: Items, scope: Scope) -> list[Item]:
    inputs = [_an_array(walk, node, item) for item in items]
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    body, count = attributes["body"], attributes["num_scan_inputs"]
    if opset_of(walk.model, "") == _FIRST_SCAN:
        raise InputError(
            f"{walk.path}: {describe(node)} is that of operator set {_FIRST_SCAN}, which is not supported; convert the "
            "model to a newer one"
        )
    states, rows = inputs[: len(inputs) - count], inputs[len(inputs) - count :]
    axes = attributes.get("scan_input_axes", [0] * count)
    given, trips = [_unknown(state) for state in states], set()
    for row, axis in zip(rows, axes, strict=True):
        place = axis % len(row.shape)
        trips.add(row.shape[place])
        shape, strides = list(row.shape), list(row.strides)
        del shape[place], strides[place]
        given.append(row.view(shape, strides))
    if len(trips) != 1:
        raise InputError(f"{walk.path}: {describe(node)} scans rows of different lengths {sorted(trips)}")
    times = trips.pop()
    results, inner = _inside(walk, node, body, scope, given)
    outputs = [_an_array(walk, node, item) for item in results]
    stacked = outputs[len(states) :]
    out_axes = attributes.get("scan_output_axes", [0] * len(stacked))
    made: list[Made] = [(array.shape, array.type) for array in outputs[: len(states)]]
    for array, axis in zip(stacked, out_axes, strict=True):
        place = axis % (len(array.shape) + 1)
        made.append(((*array.shape[:place], times, *array.shape[place:]), array.type))
    return _one(walk, node, items, _outer(inner), inner, made, times)


def _an_array(walk: Walk, node: Any, item: Item | None) -> ArrayView:
    if not isinstance(item, ArrayView):
        raise InputError(f"{walk.path}: {describe(node)} lacks an array, or has a sequence in its place")
    return item


def _unknown(item: Item | None) -> Item:
    """What is carried, without its value: the next time it is another."""
    assert item is not None
    return item if isinstance(item, tuple) else item.view(item.shape, item.strides)


def _inside(
    walk: Walk, node: Any, graph: Any, outer: Scope, given: Sequence[Item] = ()
) -> tuple[list[Item], list[RecordedCall]]:
    """What a graph inside a node makes, and its calls, which are not written down by themselves."""
    if len(graph.input) != len(given):
        raise InputError(
            f"{walk.path}: the body of {describe(node)} takes {len(graph.input)} inputs, but {len(given)} are given"
        )
    scope = Scope(outer)
    scope.names.update((formal.name, item) for formal, item in zip(graph.input, given, strict=True))
    outside, walk.calls = walk.calls, []
    try:
        return walk.run(graph, scope, f"{node.name or node.output[0]}."), walk.calls
    finally:
        walk.calls = outside


def _outer(inner: Sequence[RecordedCall]) -> list[Read]:
    """What calls read that none of them makes."""
    made = {id(call) for call in inner}
    return [read for call in inner for read in call.reads if id(read.value.call) not in made]


def _one(
    walk: Walk,
    node: Any,
    inputs: Items,
    reads: list[Read],
    inner: list[RecordedCall],
    made: Sequence[Made],
    times: int,
) -> list[Item]:
    """One operator in the place of calls that run so many times."""
    within = {id(call) for call in inner}
    arrays = arrays_of(inputs)
    given = [array.read() for array in arrays if array.numel]
    known = {id(read.value) for read in given}
    taken: dict[Any, Read] = {}
    for read in [*given, *(read for read in reads if id(read.value) not in known)]:
        if not read.value.constant and id(read.value.call) not in within:
            taken.setdefault((id(read.value), read.layout.geometry), read)
    call = RecordedCall(len(walk.calls), f"onnx.{node.op_type}", walk.modules.of(node), False, list(taken.values()), "")
    call.constant = not taken
    outputs: list[Item] = [
        tuple(new_array(shape, number, call=call) for shape, number in each)
        if isinstance(each, list)
        else new_array(*each, call=call)
        for each in made
    ]
    heaviest = max(inner, key=lambda each: each.flops, default=None)
    call.dtype = heaviest.dtype if heaviest is not None and heaviest.flops else ""
    if not call.dtype and (arrays or arrays_of(outputs)):
        call.dtype = arithmetic_dtype(arrays, arrays_of(outputs))
    call.flops = times * sum(each.flops for each in inner)
    call.bytes_read = times * sum(each.bytes_read for each in inner)
    call.bytes_written = max(
        times * sum(each.bytes_written for each in inner), sum(value.layout.bytes for value in call.writes)
    )
    walk.calls.append(call)
    return [item for item, name in zip(outputs, node.output, strict=False) if name]


#: What stands for an operator that has graphs inside.
CONTROL: Control = {
    "If": _if,
    "Loop": _loop,
    "Scan": _scan,
}
