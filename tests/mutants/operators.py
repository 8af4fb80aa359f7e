"""Small wrong versions of a module, one change each: what a test suite should notice.

Left alone are annotations, decorators, imports, what a message says (the arguments of ``raise`` and formatted strings),
strings other than keys of a dictionary and what is compared, and the ``strict`` of ``zip``, which only claims a length.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Any

__all__ = ["Mutant", "mutants_of"]

_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_TWINS = {"min": "max", "max": "min", "any": "all", "all": "any"}
_SKIPPED_FIELDS = frozenset({"annotation", "returns", "decorator_list", "ctx", "type_ignores"})
_SKIPPED_NODES = (ast.Import, ast.ImportFrom, ast.JoinedStr, ast.Raise)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
#: From a node to one below it: the field's name, and the place in it where it is a list.
_Step = tuple[str, int | None]


@dataclass(frozen=True)
class Mutant:
    """One change of a module.

    Attributes
    ----------
    where
        Qualified name of the function or class, ``<module>`` outside of any.
    line, text
        Number and content of the changed line.
    change
        What stood there, and what stands there now.
    """

    where: str
    line: int
    text: str
    change: str
    _path: tuple[_Step, ...]
    _new: ast.AST

    def compile(self, source: str, filename: str) -> CodeType:
        """The changed module's code."""
        tree: Any = ast.parse(source)
        node = tree
        for field, place in self._path[:-1]:
            node = getattr(node, field) if place is None else getattr(node, field)[place]
        field, place = self._path[-1]
        new = copy.deepcopy(self._new)
        if place is None:
            ast.copy_location(new, getattr(node, field))
            setattr(node, field, new)
        else:
            ast.copy_location(new, getattr(node, field)[place])
            getattr(node, field)[place] = new
        return compile(ast.fix_missing_locations(tree), filename, "exec")


def mutants_of(source: str) -> list[Mutant]:
    """All mutants of a module, in the order of its lines."""
    lines = source.splitlines()
    found: list[Mutant] = []

    def visit(node: ast.AST, path: tuple[_Step, ...], where: str, parent: ast.AST) -> None:
        if _is_declaration(node, where):
            return
        for new in _changes(node, parent, where):
            line: int = node.lineno  # type: ignore[attr-defined]
            change = _described(node, new)
            found.append(Mutant(where or "<module>", line, lines[line - 1].strip(), change, path, new))
        if isinstance(node, _SKIPPED_NODES):
            return
        if isinstance(node, _SCOPES):
            where = f"{where}.{node.name}" if where else node.name
        for field, value in ast.iter_fields(node):
            if field in _SKIPPED_FIELDS or (isinstance(node, ast.ClassDef) and field != "body"):
                continue
            if isinstance(node, ast.keyword) and node.arg == "strict":
                continue
            if isinstance(value, ast.AST):
                visit(value, (*path, (field, None)), where, node)
            elif isinstance(value, list):
                for place, entry in enumerate(value):
                    if isinstance(entry, ast.AST):
                        visit(entry, (*path, (field, place)), where, node)

    visit(ast.parse(source), (), "", ast.Pass())
    return sorted(found, key=lambda mutant: mutant.line)


def _is_declaration(node: ast.AST, where: str) -> bool:
    """Whether a node only declares names or types: the visible names of a module, type aliases and variables."""
    if isinstance(node, ast.If):
        return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    if where or not isinstance(node, ast.Assign):
        return False
    alias = isinstance(node.value, (ast.Subscript, ast.BinOp, ast.Attribute))
    variable = isinstance(node.value, ast.Call) and _name(node.value.func) in ("TypeVar", "ParamSpec")
    return alias or variable or _name(node.targets[0]) == "__all__"


def _changes(node: ast.AST, parent: ast.AST, where: str) -> Iterator[ast.AST]:
    """What can stand in a node's place."""
    if isinstance(node, ast.stmt):
        yield from _changed_statements(node)
    elif isinstance(node, ast.expr):
        yield from _changed_expressions(node, parent)
    if isinstance(node, (ast.If, ast.While, ast.IfExp)) and _is_plain(node.test):
        yield _with(node, test=_negated(node.test))


def _changed_statements(node: ast.stmt) -> Iterator[ast.AST]:
    if isinstance(node, ast.Raise) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        yield ast.Pass()
    elif isinstance(node, ast.Return) and node.value is not None and not _is_none(node.value):
        yield ast.Return(value=ast.Constant(value=None))
    elif isinstance(node, ast.Continue):
        yield ast.Break()
    elif isinstance(node, ast.Break):
        yield ast.Continue()
    elif isinstance(node, ast.AugAssign):
        yield ast.Pass()
        if type(node.op) in _ARITHMETIC and not isinstance(node.value, (ast.List, ast.ListComp)):
            yield _with(node, op=_ARITHMETIC[type(node.op)]())
    elif isinstance(node, ast.Assign) and not any(isinstance(name, ast.Name) for name in _targets(node)):
        yield ast.Pass()


def _changed_expressions(node: ast.expr, parent: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.Compare):
        for place, operator in enumerate(node.ops):
            for other in _COMPARISONS[type(operator)]:
                yield _with(node, ops=[*node.ops[:place], other(), *node.ops[place + 1 :]])
    elif isinstance(node, ast.BoolOp):
        yield _with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
    elif isinstance(node, ast.BinOp):
        texts = any(isinstance(side, ast.JoinedStr) or _is_text(side) for side in (node.left, node.right))
        if type(node.op) in _ARITHMETIC and not texts:
            yield _with(node, op=_ARITHMETIC[type(node.op)]())
    elif isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.UAdd):
        yield node.operand
    elif isinstance(node, ast.Constant):
        yield from _changed_constants(node, parent)
    elif isinstance(node, ast.Call):
        if _name(node.func) in _TWINS:
            yield _with(node, func=ast.Name(id=_TWINS[_name(node.func)], ctx=ast.Load()))
        for place, keyword in enumerate(node.keywords):
            if keyword.arg not in (None, "strict") and _name(node.func) != "field":
                yield _with(node, keywords=[*node.keywords[:place], *node.keywords[place + 1 :]])
    if isinstance(parent, ast.comprehension) and any(node is test for test in parent.ifs) and _is_plain(node):
        yield _negated(node)


def _changed_constants(node: ast.Constant, parent: ast.AST) -> Iterator[ast.AST]:
    value = node.value
    if isinstance(value, bool):
        yield ast.Constant(value=not value)
    elif isinstance(value, (int, float)):
        yield ast.Constant(value=value + 1)
        if value:
            yield ast.Constant(value=value - 1 if isinstance(value, int) else 0.0)
    elif isinstance(value, str) and (
        isinstance(parent, ast.Compare) or (isinstance(parent, ast.Dict) and any(node is key for key in parent.keys))
    ):
        yield ast.Constant(value=f"not {value}")


def _targets(node: ast.Assign) -> list[ast.expr]:
    target = node.targets[0]
    return list(target.elts) if isinstance(target, ast.Tuple) else [target]


def _with(node: ast.AST, **fields: Any) -> ast.AST:
    """A copy with other fields."""
    new = copy.copy(node)
    for name, value in fields.items():
        setattr(new, name, value)
    return new


def _negated(node: ast.expr) -> ast.expr:
    return ast.UnaryOp(op=ast.Not(), operand=node)


def _is_plain(node: ast.expr) -> bool:
    """Whether a condition has no operator of its own that is changed."""
    return not isinstance(node, (ast.Compare, ast.BoolOp, ast.UnaryOp, ast.Constant))


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _described(node: ast.AST, new: ast.AST) -> str:
    if isinstance(node, ast.Call) and isinstance(new, ast.Call) and len(new.keywords) < len(node.keywords):
        (left_out,) = set(node.keywords) - set(new.keywords)
        return f"{_short(node.func)}(… {_short(left_out)}) → {_short(node.func)}(…)"
    return f"{_short(node)} → {_short(new)}"


def _short(node: ast.AST) -> str:
    """A node as one line of text, of a compound statement the head only."""
    text = ast.unparse(ast.fix_missing_locations(copy.deepcopy(node)))
    return " ".join(text.split("\n", 1)[0].split())
