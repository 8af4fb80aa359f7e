"""Where imports stand: at the top, but where a function's keep a heavy library out until it is needed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import partita
from parsed import nodes_of, tree_of

SOURCE = Path(partita.__file__).parent

#: Libraries that take long to import, or that an installation may lack.
HEAVY = {
    *("numpy", "numba", "torch", "torchvision", "timm", "transformers", "diffusers", "onnx", "onnxruntime", "pandas"),
    *("highspy", "ortools", "pyscipopt", "pymetis", "rustworkx", "matplotlib", "plotly", "rich", "yaml"),
    *("ray", "distributed", "joblib", "cloudpickle"),
}


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(SOURCE.rglob("*.py"))}


def imported(node: ast.stmt) -> Iterator[str]:
    """The modules that a statement imports; of ``from package import module`` the module."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module is not None:
        whole = (f"{node.module}.{alias.name}" for alias in node.names)
        yield from (name if name in MODULES else node.module for name in whole)


def at_once(body: list[ast.stmt]) -> Iterator[str]:
    """What importing a file imports: not in functions, and not for types only."""
    for node in body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            yield from at_once(node.orelse)
        elif not isinstance(node, ast.FunctionDef):
            yield from imported(node)
            for part in ("body", "orelse", "finalbody"):
                yield from at_once(getattr(node, part, []))


@cache
def late(path: Path) -> dict[tuple[int, str], list[str]]:
    """By function with imports of its own: what it imports."""
    functions = [node for node in nodes_of(path) if isinstance(node, ast.FunctionDef)]
    found = {
        (each.lineno, each.name): [
            one for node in ast.walk(each) if isinstance(node, ast.stmt) for one in imported(node)
        ]
        for each in functions
    }
    return {where: names for where, names in found.items() if names}


@cache
def direct(name: str) -> frozenset[str]:
    parents = {name.rsplit(".", 1)[0]} if "." in name else set()
    return frozenset({*at_once(tree_of(MODULES[name]).body), *parents})


@cache
def loaded(name: str) -> frozenset[str]:
    """The heavy libraries that importing a module loads."""
    seen, todo = set(), [name]
    while todo:
        one = todo.pop()
        if one not in seen:
            seen.add(one)
            todo.extend(direct(one) if one in MODULES else ())
    return frozenset({one.split(".")[0] for one in seen} & HEAVY)


@cache
def idle(name: str) -> list[tuple[int, str]]:
    """Functions of a module whose own imports load no heavy library that the module's do not."""
    here = loaded(name)
    return [where for where, names in late(MODULES[name]).items() if not frozenset().union(*map(loaded, names)) - here]


def test_imports_in_functions_keep_something_heavy_out() -> None:
    """Subcommands alone import what they need when they run, so that ``--help`` reads no more than its own room."""
    places = [name for name in MODULES if not name.startswith("partita.cli")]
    assert {name: idle(name) for name in places if idle(name)} == {}
    assert sum(len(late(MODULES[name])) for name in places) > 60


def test_what_an_import_loads_is_known() -> None:
    assert loaded("partita") == loaded("partita.cli") == frozenset()
    assert "torch" in loaded("partita.profiler.worker")


def test_an_import_that_keeps_nothing_out_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "late.py"
    path.write_text("import numpy\n\ndef f():\n    import numpy.linalg\n\ndef g():\n    import torch\n")
    monkeypatch.setitem(MODULES, "late", path)
    assert idle("late") == [(3, "f")]
