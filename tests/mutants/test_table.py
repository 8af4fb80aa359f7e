"""What the mutation check is told is still so."""

from __future__ import annotations

import importlib.util
import tomllib
from pathlib import Path

import pytest

from mutants.operators import mutants_of
from mutants.table import MODULES

ROOT = Path(__file__).resolve().parent.parent.parent
ROWS = tomllib.loads((Path(__file__).parent / "equivalent.toml").read_text())["mutant"]


def source(name: str) -> str:
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).read_text()


@pytest.mark.parametrize("name", MODULES)
def test_modules_have_mutants_and_tests(name: str) -> None:
    assert mutants_of(source(name))
    assert MODULES[name]
    for test in MODULES[name]:
        assert (ROOT / test.split("::")[0]).is_file(), test


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['where']}: {row['change']}")
def test_equivalent_mutants_are_mutants(row: dict[str, str]) -> None:
    """An entry whose line has changed is taken out, or looked at anew."""
    assert row["module"] in MODULES
    assert row["reason"]
    found = {(mutant.where, mutant.text, mutant.change) for mutant in mutants_of(source(row["module"]))}
    assert (row["where"], row["line"], row["change"]) in found
