"""Smaller forms of an instance, as the tree that its file is: what a minimiser tries.

Nothing here knows what is valid: the problem's own checks refuse what is not.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

__all__ = ["PASSES", "measure"]

Tree = dict[str, Any]

#: Lists of what has an ``id`` that other parts refer to.
_NODES = ("operators", "layers")
#: Fields that hold one such id, several, or pairs of them.
_ONE = ("source", "target", "producer")
_MANY = ("users", "consumers")
_GROUPS = ("edges", "precedence", "handed", "together", "units")
#: Tables by id.
_BY_ID = ("sync_in_bytes", "sync_out_bytes")
#: Fields whose numbers say which.
_WHICH = ("id", *_ONE, *_MANY, *_GROUPS)


def measure(tree: Any) -> tuple[int, int, float]:
    """How large a tree is: its parts, how long its numbers are to read, and their sum."""
    parts = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else None
    if parts is None:
        return 1, *_plainness(tree)
    measured = [(1, 0, 0.0), *map(measure, parts)]
    leaves, lengths, sums = zip(*measured, strict=True)
    return sum(leaves), sum(lengths), sum(sums)


def _chunks(count: int) -> Iterator[range]:
    """Runs of places, long ones first."""
    length = max(1, count // 2)
    while length >= 1:
        for first in range(0, count, length):
            yield range(first, min(count, first + length))
        length //= 2


def _fewer_nodes(tree: Tree) -> Iterator[Tree]:
    """Without some operators or layers; then with one taken out of the middle of a path."""
    for name in _NODES:
        nodes = tree.get(name, ())
        # Layers that are a number are no nodes.
        ids = [node["id"] for node in nodes] if not isinstance(nodes, int) else []
        for run in _chunks(len(ids)):
            yield _renamed(tree, {ids[place]: None for place in run})
        for identity in ids:
            before = _before(tree, identity)
            if before is not None:
                yield _renamed(tree, {identity: before}, gone=identity)


def _before(tree: Tree, identity: int) -> int | None:
    """One that the node reads, None for none."""
    for edge in (*tree.get("flows", ()), *tree.get("edges", ())):
        source, target = (edge["source"], edge["target"]) if isinstance(edge, dict) else edge
        if target == identity:
            return int(source)
    for tensor in tree.get("tensors", ()):
        if identity in tensor["consumers"]:
            return int(tensor["producer"])
    return None


def _renamed(tree: Any, names: dict[int, int | None], gone: int | None = None) -> Any:
    """The tree with ids replaced, or, where that is None, without the nodes and all that refers to them alone."""
    if isinstance(tree, list):
        kept = (_renamed(each, names, gone) for each in tree if not _is_gone(each, names, gone))
        return [each for each in kept if not _is_empty(each)]
    if not isinstance(tree, dict):
        return tree
    found: Tree = {}
    for key, value in tree.items():
        if key in _ONE and isinstance(value, int):
            found[key] = names.get(value, value)
        elif key in _MANY:
            found[key] = _new(value, names)
        elif key in _GROUPS and all(isinstance(each, list) for each in value):
            groups = [_new(each, names) for each in value]
            least = 1 if key == "units" else 2
            whole = [g for g, old in zip(groups, value, strict=True) if len(g) >= min(least, len(old))]
            found[key] = [list(g) for g in dict.fromkeys(map(tuple, whole))]
        elif key in _BY_ID:
            found[key] = {k: v for k, v in value.items() if names.get(int(k), int(k)) == int(k)}
        else:
            found[key] = _renamed(value, names, gone)
    if "producer" in found and "consumers" in found:
        found["consumers"] = [v for v in found["consumers"] if v != found["producer"]]
    return found


def _new(ids: Sequence[int], names: dict[int, int | None]) -> list[int]:
    return [v for v in dict.fromkeys(names.get(v, v) for v in ids) if v is not None]


def _is_gone(each: Any, names: dict[int, int | None], gone: int | None) -> bool:
    """Whether it is a node that goes, or leads from or to one."""
    if not isinstance(each, dict):
        return False
    if "id" in each and "source" not in each and isinstance(each["id"], int):
        return each["id"] == gone or names.get(each["id"], 0) is None
    ends = [names.get(each[key], each[key]) for key in _ONE if isinstance(each.get(key), int)]
    return None in ends or (len(ends) == 2 and ends[0] == ends[1])


def _is_empty(each: Any) -> bool:
    """Whether nothing is left that it is about."""
    return isinstance(each, dict) and any(key in each and not each[key] for key in _MANY)


def _fewer_columns(tree: Tree) -> Iterator[Tree]:
    """Without a device, a kind of devices, or a stage, which other parts count by place."""
    for name in ("devices", "kinds"):
        held = tree.get(name)
        if isinstance(held, list) and len(held) > 1 and isinstance(held[0], dict):
            for place in range(len(held)):
                yield _without_column(tree, name, place, len(held))
    links = tree.get("bandwidth_bytes_per_s", ())
    for place in range(len(links)):
        yield _without_column(tree, "bandwidth_bytes_per_s", place, len(links))
    for place in range(len(tree.get("stages", ()))):
        yield _without_stage(tree, place)


def _without_column(tree: Tree, name: str, place: int, count: int) -> Tree:
    changed = copy.deepcopy(tree)
    del changed[name][place]

    def narrow(value: Any) -> None:
        if isinstance(value, dict):
            for key, each in value.items():
                if key in ("times", "times_s", "counts", "bandwidth_bytes_per_s") and isinstance(each, list):
                    if key != name and len(each) == count:
                        del each[place]
                    for row in each:
                        if isinstance(row, list) and len(row) == count:
                            del row[place]
                else:
                    narrow(each)
        elif isinstance(value, list):
            for each in value:
                narrow(each)

    narrow(changed)
    return changed


def _without_stage(tree: Tree, place: int) -> Tree:
    changed = copy.deepcopy(tree)
    del changed["stages"][place]
    kept = [one for one in changed["transfers"] if place not in (one["source"], one["target"])]
    for one in kept:
        for end in ("source", "target"):
            one[end] -= one[end] > place
    changed["transfers"] = kept
    return changed


def _places(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every part of a tree with the way to it, the larger ones first."""
    if path:
        yield path, tree
    parts = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, each in parts:
        yield from _places(each, (*path, key))


def _changed(tree: Tree, path: Sequence[Any], change: Callable[[Any, Any], None]) -> Tree:
    """A copy in which ``change`` was called with the part's container and its place there."""
    found = copy.deepcopy(tree)
    holder: Any = found
    for key in path[:-1]:
        holder = holder[key]
    change(holder, path[-1])
    return found


def _delete(holder: Any, key: Any) -> None:
    del holder[key]


def _fewer_elements(tree: Tree) -> Iterator[Tree]:
    """Without a run of a list, or an entry of a table: what has a default takes it."""
    for path, value in _places(tree):
        if isinstance(value, list) and path[-1] not in (*_NODES, "times", "times_s", "counts"):
            for run in _chunks(len(value)):
                kept = [each for place, each in enumerate(value) if place not in run]
                yield _changed(tree, path, lambda holder, key, kept=kept: holder.__setitem__(key, kept))
    for path, _ in _places(tree):
        if isinstance(path[-1], str) and path[-1] not in ("id", "format", "version"):
            yield _changed(tree, path, _delete)


def _plainer_everywhere(tree: Tree) -> Iterator[Tree]:
    """With every number of one field made plainer at once."""
    for field in sorted({_field(path) for path, value in _places(tree) if _says_how_much(path, value)}):
        for make in _PLAINER:
            changed = copy.deepcopy(tree)
            for path, value in list(_places(changed)):
                if _field(path) == field and _says_how_much(path, value) and _is_plainer(make(value), value):
                    holder: Any = changed
                    for key in path[:-1]:
                        holder = holder[key]
                    holder[path[-1]] = make(value)
            yield changed


def _plainer_somewhere(tree: Tree) -> Iterator[Tree]:
    """With one number made plainer."""
    for path, value in _places(tree):
        for make in _PLAINER if _says_how_much(path, value) else ():
            plainer = make(value)
            if _is_plainer(plainer, value):
                yield _changed(tree, path, lambda holder, key, new=plainer: holder.__setitem__(key, new))


def _field(path: Sequence[Any]) -> str:
    """The field that a part belongs to: the last name on the way to it that is no id and no place."""
    return next((key for key in reversed(path) if isinstance(key, str) and not key.isdigit()), "")


def _says_how_much(path: Sequence[Any], value: Any) -> bool:
    """Whether it is a number, and none that says which."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and _field(path) not in _WHICH


def _is_plainer(value: Any, than: Any) -> bool:
    return _plainness(value) < _plainness(than)


def _plainness(value: Any) -> tuple[int, float]:
    """Small for what is plain to read."""
    if value is None or isinstance(value, (bool, str)):
        return (1, 0.0)
    return len(f"{value:.17g}"), abs(value)


def _rounded(digits: int) -> Callable[[Any], Any]:
    return lambda value: value if isinstance(value, int) else float(f"{value:.{digits}g}")


#: Ways to make a number plainer, the plainest first.
_PLAINER: tuple[Callable[[Any], Any], ...] = (
    lambda value: type(value)(0),
    lambda value: type(value)(1),
    lambda value: value // 2 if isinstance(value, int) else float(round(value)),
    lambda value: value - 1 if isinstance(value, int) else value,
    _rounded(1),
    _rounded(2),
    _rounded(4),
)

#: Trees that are smaller or plainer than one; what takes away most comes first.
PASSES: tuple[Callable[[Tree], Iterator[Tree]], ...] = (
    _fewer_nodes,
    _fewer_columns,
    _fewer_elements,
    _plainer_everywhere,
    _plainer_somewhere,
)
