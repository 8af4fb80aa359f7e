"""Example arguments from what a model's own documentation says of them: a type, and a shape in names of sizes."""

from __future__ import annotations

import ast
import functools
import inspect
import re
from collections.abc import Callable
from typing import Any

import torch

from partita.frontends.hf.rules import FEW, Example, first, nested, ones
from partita.frontends.options import computed

_SHAPE = re.compile(r"of shape\s*[`'(\[]*(?P<sides>[^`'\n]*)|^[^`]*\[(?P<listed>\w+, [^\]]*)\]")
#: Sizes that documentation names in several ways, and what each is of an example.
_SIZES: dict[str, Callable[[Example], int]] = {
    name: rule
    for names, rule in {
        "batch_size batch bs num_images num_images_or_videos num_videos num_questions": lambda e: e.samples,
        "sequence_length seq_len seq_length seqlen num_tokens episode_length q_len": lambda e: e.length,
        "num_patches image_num_patches max_patches total_patches max_num_patches": lambda e: e.grid[0] * e.grid[1],
        "grid_height num_patches_height window_size": lambda e: e.grid[0],
        "grid_width num_patches_width": lambda e: e.grid[1],
        "num_channels channels image_channels in_channels": lambda e: e.image[0],
        "image_size height frame_size": lambda e: e.image[1],
        "width": lambda e: e.image[2],
        "patch_height patch_width patch_size": lambda e: e.patch,
    }.items()
    for name in names.split()
}


def describe(model: Any, name: str) -> str:
    """What the documentation of a model's call says that an argument is; empty if it says nothing."""
    text = inspect.getdoc(model.forward) or ""
    forms = (rf"^\s*{name} \((.*)\):", rf"^\s*{name}: (.*)")
    return next((found[1] for form in forms if (found := re.search(form, text, re.MULTILINE))), "")


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
        return ones(shape, torch.bool)
    whole = any(word in kind + annotation for word in ("Long", "Int")) or name.endswith(_WHOLE) or "mask" in name
    made = ones(shape, torch.long) if whole else example.free(*shape)
    return [made] if kind.lstrip("`").startswith("list") else made


#: Endings of names of whole numbers.
_WHOLE = ("_ids", "_id", "_index", "_idx", "_labels", "_lens", "_lengths", "_sizes", "_shapes", "_type", "_codes")


def _shape(example: Example, said: str) -> tuple[int, ...] | None:
    found = _SHAPE.search(said)
    if found is None:
        return None
    text = re.sub(r"\s+x\s+", " * ", (found["sides"] or found["listed"]).strip("()[] ").rstrip(","))
    text = re.sub(r"height\s*\*\s*width", "num_patches", text).replace("patch_size_", "patch_size")
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
    if isinstance(node, ast.Attribute):
        return first(node.attr, example.config, default=FEW)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len":
        value = _evaluate(example, node.args[0])
        return len(value) if isinstance(value, (list, tuple)) else 1
    return computed(node, functools.partial(_size, example), functools.partial(_evaluate, example))


def _size(example: Example, name: str) -> Any:
    """A size by its name: of the example, of a field of the configuration, else a few."""
    if name in _SIZES:
        return _SIZES[name](example)
    if name.endswith(("sequence_length", "seq_len", "seq_length")):
        return example.length
    values = (getattr(part, name, None) for part in (example.config, *nested(example.config)))
    return next((v for v in values if isinstance(v, (int, list, tuple)) and not isinstance(v, bool)), FEW)
