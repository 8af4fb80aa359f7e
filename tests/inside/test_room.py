"""Private parts of other libraries are named in one room of the package alone."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import partita
from parsed import tree_of

SOURCE = Path(partita.__file__).parent
ROOM = SOURCE / "inside"

#: Documented parts of the standard library that begin with a line below.
STANDARD = {"_asdict", "_exit", "_fields", "_replace"}
#: Where else names are written that some library keeps private: operators by their names, which are public.
OPERATORS = {"_to_copy"}


def is_private(name: str) -> bool:
    """Whether a name, or a part of a dotted one, is a library's own business."""
    return any(part.startswith("_") and not part.startswith("__") and part != "_" for part in name.split("."))


def is_of_own(node: ast.Attribute) -> bool:
    """Whether an attribute is one of ``self`` or ``cls``."""
    return isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")


@cache
def trees() -> dict[Path, ast.Module]:
    """The source of the package, by file."""
    return {path: tree_of(path) for path in sorted(SOURCE.rglob("*.py"))}


def own_names(tree: ast.Module) -> Iterator[str]:
    """Private names that a file defines: functions, classes, variables, and attributes of its objects."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and is_of_own(node):
            yield node.attr


def private_imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Private names that a file imports from others than the package, with their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in found:
            if is_private(name) and not name.startswith("partita."):
                yield node.lineno, name


def private_attributes(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Private attributes that a file reads or sets of anything but ``self`` and ``cls``, with their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr) and not is_of_own(node):
            yield node.lineno, node.attr


def test_no_file_outside_the_room_imports_or_reads_what_is_private() -> None:
    found = []
    files = trees()
    own = STANDARD | {name for path, tree in files.items() if ROOM not in path.parents for name in own_names(tree)}
    for path, tree in files.items():
        if ROOM in path.parents:
            continue
        read = [(line, name) for line, name in private_attributes(tree) if name not in own]
        found += [f"{path.relative_to(SOURCE)}:{line}: {name}" for line, name in (*private_imports(tree), *read)]
    assert not found


def test_no_file_outside_the_room_names_what_the_room_wraps() -> None:
    """Neither as a name, nor as a text for ``getattr``: whatever is private in the room is in no other file."""
    wrapped: set[str] = set()
    files = trees()
    inside = [tree for path, tree in files.items() if ROOM in path.parents]
    own = {name for tree in files.values() for name in own_names(tree)}
    for tree in inside:
        wrapped |= {part for _, name in private_imports(tree) for part in name.split(".") if is_private(part)}
        wrapped |= {name for _, name in private_attributes(tree) if name not in own}
        texts = (n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str))
        wrapped |= {text for text in texts if text.isidentifier() and is_private(text)}
    assert {"_DisableTorchDispatch", "_cdata", "_from_config", "_sequence_nr"} <= wrapped
    wrapped |= {"TRANSFORMERS_DISABLE_TORCH_CHECK", "CONFIG_MAPPING", "magic_tuple", "find_packed_sequence_indices"}
    wrapped -= OPERATORS | own
    found = []
    for path, tree in files.items():
        if ROOM in path.parents:
            continue
        for node in ast.walk(tree):
            said = getattr(node, "attr", None) or getattr(node, "id", None) or getattr(node, "value", None)
            if isinstance(said, str) and said in wrapped:
                found.append(f"{path.relative_to(SOURCE)}:{getattr(node, 'lineno', 0)}: {said}")
    assert not found


def test_modules_of_libraries_that_are_private_are_in_no_text() -> None:
    """What is looked up by name among the loaded modules, or is a logger's name."""
    found = []
    for path, tree in trees().items():
        if ROOM in path.parents:
            continue
        for node in ast.walk(tree):
            text = node.value if isinstance(node, ast.Constant) else None
            if isinstance(text, str) and text.startswith(("torch._", "torch.utils._", "numba.core", "transformers.m")):
                found.append(f"{path.relative_to(SOURCE)}:{node.lineno}: {text}")
    assert not found


def test_what_the_room_has_is_used() -> None:
    """A wrapper that nobody imports is a private part that nobody needs."""
    files = trees()
    imported = {
        alias.name
        for tree in files.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("partita.inside")
        for alias in node.names
    }
    for path in ROOM.glob("*.py"):
        tree = files[path]
        defined = {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
        used_here = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        unused = {name for name in defined if not name.startswith("_")} - imported - used_here
        assert not unused, f"{path.name}: {unused}"


def test_the_package_is_imported_without_torch() -> None:
    script = (
        "import sys, partita, partita.inside, partita.inside.messages, partita.inside.transformers_inside, "
        "partita.inside.torchvision_inside\n"
        "print(sorted({'torch', 'transformers', 'numba', 'torchvision'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
