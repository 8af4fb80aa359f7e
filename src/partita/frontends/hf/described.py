"""Example arguments from what a model's own documentation says of them: a type, and a shape in names of sizes."""

from __future__ import annotations

import ast
import inspect
import operator
import re
from typing import Any

import torch

from partita.frontends.hf.rules import FEW, Example, first, nested

_SHAPE = re.compile(r"of shape\s*[`'(\[]*(?P<sides>[^`'\n]*)|^[^`]*\[(?P<listed>\w+, [^\]]*)\]")
#: Sizes that documentation names in several ways.
_SAMPLES = frozenset({"batch_size", "batch", "bs", "num_images", "num_images_or_videos", "num_videos", "num_questions"})
_LENGTHS = frozenset({"sequence_length", "seq_len", "seq_length", "seqlen", "num_tokens", "episode_length", "q_len"})
_PATCHES = frozenset({"num_patches", "image_num_patches", "max_patches", "total_patches", "max_num_patches"})
_ROWS = {"grid_height": 0, "num_patches_height": 0, "grid_width": 1, "num_patches_width": 1, "window_size": 0}
_SIDES = {"image_size": 1, "height": 1, "frame_size": 1, "width": 2}
_CHANNELS = frozenset({"num_channels", "channels", "image_channels", "in_channels"})
_OPERATORS: dict[type, Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
}


def describe(model: Any, name: str) -> str:
    """What the documentation of a model's call says that an argument is; empty if it says nothing."""
    text = inspect.getdoc(model.forward) or ""
    found = re.search(rf"^\s*{name} \((.*)\):", text, re.MULTILINE) or re.search(
        rf"^\s*{name}: (.*)", text, re.MULTILINE
    )
    return found[1] if found else ""


def make_described(example: Example, name: str) -> Any:
    """An argument of the type and shape that are documented, None if these do not say enough."""
    said = describe(example.model, name)
    parameter = inspect.signature(example.model.forward).parameters.get(name)
    annotation = "" if parameter is None else str(parameter.annotation)
    kind = said.split(" of shape")[0] if said.startswith("`") else annotation
    if "Tensor" not in kind and "Tensor" not in annotation:
        if kind.startswith(("int", "`int")) or annotation == "<class 'int'>":
            return _size(example, name)
        if "bool" in kind or "bool" in annotation:
            return False
        return None
    shape = _shape(example, said)
    if shape is None and "feat" in name and annotation.startswith(("list[torch.Tensor", "tuple[torch.Tensor")):
        # One map of features.
        return [example.numbers(_size(example, "hidden_size"), *example.grid[:2])]
    if shape is None or any(word in kind for word in ("~", "dict", "tuple", "Cache")):
        return None
    if "Bool" in kind + annotation:
        return example.ones(shape, torch.bool)
    whole = any(word in kind + annotation for word in ("Long", "Int")) or name.endswith(_WHOLE)
    if whole or "mask" in name:
        made = example.ones(shape, torch.long)
    else:
        made = torch.empty(shape, dtype=example.dtype, device="meta")
    return [made] if kind.lstrip("`").startswith("list") else made


#: Endings of names of whole numbers.
_WHOLE = ("_ids", "_id", "_index", "_idx", "_labels", "_lens", "_lengths", "_sizes", "_shapes", "_type", "_codes")


def _shape(example: Example, said: str) -> tuple[int, ...] | None:
    found = _SHAPE.search(said)
    if found is None:
        return None
    text = re.sub(r"\s+x\s+", " * ", (found["sides"] or found["listed"]).strip("()[] ").rstrip(","))
    text = re.sub(r"height\s*\*\s*width", "num_patches", text)
    text = re.sub(r"patch_size_", "patch_size", text)
    sides: list[int] = []
    for side in _split(text):
        try:
            sides.append(max(1, int(_evaluate(example, ast.parse(side.strip(), mode="eval").body))))
        except (SyntaxError, TypeError, ValueError, ZeroDivisionError):
            return None
    return tuple(sides) or None


def _split(text: str) -> list[str]:
    """The parts between commas that are in no brackets."""
    parts, depth = [""], 0
    for sign in text:
        depth += sign in "([" and 1
        if sign in ")]":
            if not depth:
                break
            depth -= 1
        if sign == "," and not depth:
            parts.append("")
        else:
            parts[-1] += sign
    return [part for part in parts if part.strip()]


def _evaluate(example: Example, node: ast.expr) -> Any:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.Name):
        return _size(example, node.id)
    if isinstance(node, ast.Attribute):
        return first(example.config, node.attr, default=FEW)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_evaluate(example, node.left), _evaluate(example, node.right))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len":
        value = _evaluate(example, node.args[0])
        return len(value) if isinstance(value, (list, tuple)) else 1
    raise ValueError("not a size")


def _size(example: Example, name: str) -> Any:
    """A size by its name: of the example, of the image, of a field of the configuration, else a few."""
    rows, columns, _, _ = example.grid
    if name in _SAMPLES:
        return example.samples
    if name in _LENGTHS or name.endswith(("sequence_length", "seq_len", "seq_length")):
        return example.length
    if name in _PATCHES:
        return rows * columns
    if name in _ROWS:
        return (rows, columns)[_ROWS[name]]
    if name in _SIDES:
        return example.image[_SIDES[name]]
    if name in _CHANNELS:
        return example.image[0]
    if name in ("patch_height", "patch_width", "patch_size"):
        return example.patch
    for part in (example.config, *nested(example.config)):
        value = getattr(part, name, None)
        if isinstance(value, (int, list, tuple)) and not isinstance(value, bool):
            return value
    return FEW
