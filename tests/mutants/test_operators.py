"""The mutants of a snippet are the wrong versions that one would write by hand, and each of them runs."""

from __future__ import annotations

import pytest

from mutants.operators import mutants_of

SNIPPET = '''
def limit(values: list[float], floor: float = 2.0) -> float | None:
    """No mutant changes 1 < 2 in here."""
    if not values or min(values) < floor:
        raise ValueError(f"{values[0]} < {floor - 1}")
    found = []
    found.append(values[0] + 3)
    return max(found)
'''

EXPECTED = [
    (2, "limit", "2.0 → 3.0"),
    (2, "limit", "2.0 → 0.0"),
    (4, "limit", "not values or min(values) < floor → not values and min(values) < floor"),
    (4, "limit", "not values → values"),
    (4, "limit", "min(values) < floor → min(values) <= floor"),
    (4, "limit", "min(values) < floor → min(values) >= floor"),
    (4, "limit", "min(values) → max(values)"),
    (5, "limit", "raise ValueError(f'{values[0]} < {floor - 1}') → pass"),
    (7, "limit", "found.append(values[0] + 3) → pass"),
    (7, "limit", "values[0] + 3 → values[0] - 3"),
    (7, "limit", "0 → 1"),
    (7, "limit", "3 → 4"),
    (7, "limit", "3 → 2"),
    (8, "limit", "return max(found) → return None"),
    (8, "limit", "max(found) → min(found)"),
]


def test_the_mutants_of_a_snippet() -> None:
    assert [(mutant.line, mutant.where, mutant.change) for mutant in mutants_of(SNIPPET)] == EXPECTED


def test_each_mutant_changes_one_thing() -> None:
    """Called with 5 and 1 the snippet gives 8; a floor of 3 or 0 in the default is no change for these."""
    values = []
    for mutant in mutants_of(SNIPPET):
        names: dict[str, object] = {}
        exec(mutant.compile(SNIPPET, "snippet.py"), names)
        try:
            values.append(names["limit"]([5.0, 2.0]))  # type: ignore[operator]
        except (ValueError, IndexError) as error:
            values.append(type(error).__name__)
    assert values[:5] == ["ValueError", 8.0, 8.0, "ValueError", "ValueError"]
    # A smallest of 2 is not under 2; with max in place of min neither; without raise nothing changes here.
    assert values[5:8] == ["ValueError", 8.0, 8.0]
    assert values[8:] == ["ValueError", 2.0, 5.0, 9.0, 7.0, None, 8.0]


@pytest.mark.parametrize(
    ("line", "changes"),
    [
        ("x = [y for y in z if y]", ["y → not y"]),
        ("x = a if b else c", ["a if b else c → a if not b else c"]),
        ("x = f(a, key=b)", ["f(… key=b) → f(…)"]),
        ("x = zip(a, b, strict=True)", []),
        ("x = {'a': 'b'}", ["'a' → 'not a'"]),
        ("x = y == 'a'", ["y == 'a' → y != 'a'", "'a' → 'not a'"]),
        ("x.y, z[0] = 1, a", ["x.y, z[0] = (1, a) → pass", "0 → 1", "1 → 2", "1 → 0"]),
        ("x += y", ["x += y → pass", "x += y → x -= y"]),
        ("for x in y: continue", ["continue → break"]),
        ("x = -y", ["-y → y"]),
        ("x = True", ["True → False"]),
        ("x = 'text' + y", []),
        ("x: dict[str, int] | None = None", []),
        ("__all__ = ['x', 3]", []),
        ("if TYPE_CHECKING: x = 1", []),
        ("return None", []),
        ("@cache(maxsize=3)\ndef f(): pass", []),
    ],
)
def test_what_is_changed(line: str, changes: list[str]) -> None:
    indented = line.replace("\n", "\n ")
    found = mutants_of(f"def g():\n {indented}" if "TYPE" not in line and "__all__" not in line else line)
    assert [mutant.change for mutant in found] == changes
