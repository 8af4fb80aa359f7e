"""Instances on which components once contradicted each other; they lie beside the project, with the published data."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from pathlib import Path

import pytest

from crosscheck.claims import ask_all, compare
from crosscheck.parts import SLOW, drawn_parts, parts_of
from partita.ground.errors import FormatError
from partita.problems import kind_of
from partita.problems.importers import read_problem

FOLDER = Path(__file__).parents[3] / "shared" / "data" / "defects"
#: What each component gets, unless less is usual.
LIMIT_S = 0.5
#: A proof that was wrong after some seconds, and who has to be asked to see that.
LONGER = {"makespan_false_optimal": (8.0, ("exact", "cp-sat"))}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_nothing_contradicts_anything_any_more(path: Path) -> None:
    try:
        problem = read_problem(path)
    except FormatError:
        pytest.skip(f"{path.name} is no problem")
    kind = kind_of(problem)
    # Those that are loaded for minutes, and only heuristics, are left out.
    parts = [part for part in parts_of(kind) if SLOW.get((kind.name, part.name), (0.0, 1.0))[1] > 0.1]
    asked = [replace(part, limit_s=min(part.limit_s, LIMIT_S)) for part in parts]
    asked += [part for part in drawn_parts(kind, random.Random(path.stem)) if part.wording]
    if path.stem in LONGER:
        limit_s, names = LONGER[path.stem]
        asked = [replace(part, limit_s=limit_s) for part in parts if part.name in names]
    said = ask_all(kind, problem, asked)
    wrong, compared = compare(kind, said)
    # Where all agree that there is no plan, there is none to compare with.
    assert compared > 0 or sum(any(math.isinf(claim.value) for claim in one.claims) for one in said) > 1
    assert not wrong, "\n".join(map(str, wrong))


def test_the_instances_are_there() -> None:
    if not FOLDER.is_dir():
        pytest.skip(f"{FOLDER} is not there: the instances lie beside the project, in ../shared/data")
    assert len(list(FOLDER.glob("*.json"))) >= 15
