"""What every problem keeps, beside what its components do."""

from __future__ import annotations

from inspect import getmembers_static
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import msgspec
import pytest

from contracts.cases import all_kinds, families_of, options_of, over_examples
from contracts.samples import WHERE, Family
from partita.cli.flags import read_flags
from partita.documents.document import sha256
from partita.documents.stated import write_problem
from partita.problems import find_kind, kind_of
from partita.problems.attributes import Lazy
from partita.problems.facets.model import FromModel
from partita.problems.facets.stages import FromResult, Replication, Staging
from partita.problems.importers import read_problem
from partita.problems.kind import Kind, SearchOptions
from partita.problems.settings import read_settings, settings_of

KINDS = all_kinds()

every_kind = pytest.mark.parametrize("kind", KINDS, ids=[kind.title for kind in KINDS])


def test_every_problem_has_samples() -> None:
    """A problem without them would be tested by nothing."""
    assert set(WHERE) == {kind.name for kind in KINDS}


def test_names_and_formats_are_unique() -> None:
    """They are how a problem is found."""
    names = {kind.name for kind in KINDS}
    assert len({find_kind(name).problem.format for name in names}) == len(names)
    assert len({kind.title for kind in KINDS}) == len(KINDS)


@every_kind
def test_it_says_what_it_is(kind: Any) -> None:
    """In one line, and every typical problem knows its kind."""
    assert kind.name.islower()
    assert kind.summary
    assert "\n" not in kind.summary
    assert kind in find_kind(kind.name).parts
    assert issubclass(kind.options, SearchOptions)
    assert kind.baseline_time_s > 0
    for family in families_of(kind):
        assert isinstance(family.typical, kind.problem)
        assert kind_of(family.typical) is kind
        assert family.typical.unit


@every_kind
def test_what_is_imported_late_is_of_its_sort(kind: Any) -> None:
    """A class derives from what descriptors have in that place, which a type checker cannot see."""
    rooms = {"model": FromModel, "stages": Staging, "replicas": Replication, "from_result": FromResult}
    rooms |= {name: resolve_name(found.home) for name, found in vars(Kind).items() if isinstance(found, Lazy)}
    late = {name: found for name, found in getmembers_static(type(kind)) if isinstance(found, Lazy)}
    for name, found in late.items():
        made = resolve_name(found.home)
        assert isinstance(made, type) == (name in rooms)
        assert name not in rooms or issubclass(made, rooms[name])


@every_kind
def test_the_default_solver_has_a_name_and_no_place(kind: Any) -> None:
    """Another order of the list changes nothing."""
    turned = type("Turned", (type(kind),), {"solvers": tuple(reversed(kind.solvers))})()
    for family in families_of(kind):
        for options in options_of(kind):
            usual = kind.default_solver(family.typical, options)
            assert kind.solver(usual).name == usual == turned.default_solver(family.typical, options)


@every_kind
def test_scopes_are_consistent(kind: Any) -> None:
    """What is proven for the plans that were asked for holds for them, and is said in words."""
    for options in options_of(kind):
        assert options.covers(options.scope)
        assert kind.report.scope(options.scope)
        assert not options.covers("a scope that nobody knows")


@every_kind
def test_settings_are_written_and_read_alike(kind: Any) -> None:
    """As keywords, as JSON, and as texts on the command line."""
    for options in options_of(kind, seed=3, threads=1):
        fields = msgspec.structs.asdict(options)
        assert read_settings(kind.options, {k: v for k, v in fields.items() if v is not None}, kind.name) == options
        assert msgspec.json.decode(msgspec.json.encode(options), type=kind.options) == options
        given = {entry.flag: fields[name] for name, entry in settings_of(kind.options).items()}
        texts = {flag: str(value) for flag, value in given.items() if value is not None}
        (found,) = read_flags(texts, (kind.options,), "a test")
        assert read_settings(kind.options, {"seed": 3, "threads": 1, **found}, kind.name) == options


@every_kind
def test_every_setting_can_be_shown(kind: Any) -> None:
    """With a sentence on the help page, under a flag of its own."""
    for declaration in (kind.options, kind.changes):
        entries = settings_of(declaration).values()
        assert len({entry.flag for entry in entries}) == len(entries)
        for entry in entries:
            assert entry.flag.startswith("--")
            assert entry.help.endswith("."), entry.flag


@every_kind
def test_no_change_changes_nothing(kind: Any) -> None:
    """Of any typical problem."""
    for family in families_of(kind):
        assert sha256(kind.change(family.typical, kind.changes())) == sha256(family.typical)


@every_kind
def test_the_plainest_point_of_a_sweep_is_the_problem(kind: Any) -> None:
    """And every axis has a place there."""
    for family in families_of(kind):
        problem = kind.sweep.at(family.typical, {})
        assert sha256(problem) == sha256(family.typical)
        assert kind.sweep.place(problem, {}).keys() >= {axis.row_key for axis in kind.sweep.axes}


@pytest.mark.parametrize(
    ("kind", "family"),
    [(kind, family) for kind in KINDS for family in families_of(kind)],
    ids=lambda value: getattr(value, "title", value.name).replace(" ", "-"),
)
def test_problems_survive_a_file(kind: Any, family: Family, tmp_path: Path) -> None:
    """Whatever is drawn."""
    path = tmp_path / "p.json"

    def survives(problem: Any) -> bool:
        write_problem(path, problem)
        found = read_problem(path)
        assert type(found) is kind.problem
        assert found == problem
        return True

    over_examples([family], 15, survives)
