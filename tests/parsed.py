"""Python files as trees, each parsed once in a process: several tests look through all of the package."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


@cache
def tree_of(path: Path) -> ast.Module:
    """The tree of a file, which does not change meanwhile."""
    return ast.parse(path.read_text())


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of a file, as ``ast.walk`` has them."""
    return tuple(ast.walk(tree_of(path)))
