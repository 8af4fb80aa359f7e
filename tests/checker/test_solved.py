"""Everything that is solved is checked: plans and certificates hold, and what was changed afterwards is found."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import partita
from checker.tampering import tampered
from contracts.cases import options_of
from contracts.samples import samples_of
from partita.checker.certificate import as_in_file
from partita.checker.listed import LISTED
from partita.conductor.documents import result_document
from partita.documents.document import tagged
from partita.documents.result_file import with_problem
from partita.engines.search.result import Bound
from partita.ground.errors import PartitaError
from partita.problems import find_kind, kind_of
from toy.registered import registered
from toy.samples import SIX
from toy.tasks import TASKS

#: Problems, and kinds of certificates that their small samples have to reach.
CERTIFICATES = {
    "throughput": {"largest-operator", "shared-work", "transfer-paths", "downsets"},
    "makespan": {"weighted-work", "earliest-ends", "separator-potentials"},
    "latency": {"earliest-ends"},
    "mapping": {"crowded-devices"},
    "layer_placement": {"work-of-layers"},
    "hybrid": {"suffix-sets"},
}
#: Drawn problems: solved and checked; changed in every place.
SOLVED, CHANGED = 40, 5

every_problem = pytest.mark.parametrize("name", CERTIFICATES)


def problems(name: str) -> st.SearchStrategy[Any]:
    """Small problems of every family; of hybrid ones those that certificates are made for, the others take longer."""
    families = samples_of(name).families
    return st.one_of(*(family.problems for family in (families[:1] if name == "hybrid" else families)))


def over(name: str, count: int, run: Any) -> None:
    """Call with so many drawn problems."""
    health = list(HealthCheck)
    drawn = settings(max_examples=count, deadline=None, phases=[Phase.generate], suppress_health_check=health)

    @drawn
    @given(problem=problems(name))
    def each(problem: Any) -> None:
        run(problem)

    each()


def document_of(problem: Any) -> dict[str, Any]:
    """Of its solution, as it stands in a file."""
    result = partita.solve(problem, time_limit_s=5.0)
    document: dict[str, Any] = as_in_file(with_problem(result_document(result), problem))
    return document


def test_every_problem_is_listed() -> None:
    """With its certificates."""
    for name, wanted in CERTIFICATES.items():
        checks = LISTED[find_kind(name).problem.format]
        assert {kind.__struct_config__.tag for kind in checks.certificates} == wanted


@every_problem
def test_what_is_solved_is_verified(name: str) -> None:
    """Every plan; every certificate that a bound has; nothing contradicts the file."""
    counted: Counter[str] = Counter()

    def run(problem: Any) -> None:
        result = partita.solve(problem, time_limit_s=5.0)
        found = partita.check(result)
        assert not found.refuted, found
        assert found.plan.verified is (None if result.plan is None else True)
        assert found.bound.verified is (None if result.bound is None or found.bound.certificate is None else True)
        counted["plans"] += result.plan is not None
        counted[str(found.bound.certificate)] += 1
        counted["own"] += found.plan.by == "the checker"
        if result.bound is not None:
            assert found.bound.argument

    over(name, SOLVED, run)
    assert counted["plans"] >= SOLVED // 4
    assert counted["own"] >= counted["plans"] // 4, "the checker covers few of the plans"
    reached = CERTIFICATES[name] & counted.keys()
    assert sum(counted[kind] for kind in reached) >= SOLVED // 8, counted
    assert len(reached) >= len(CERTIFICATES[name]) - 1, counted


@every_problem
def test_no_certificate_proves_more_than_the_optimum(name: str) -> None:
    """Asked for more than the best of all plans, by trying them, nobody makes a certificate that is accepted."""
    counted: Counter[str] = Counter()
    kind = find_kind(name)

    def run(problem: Any) -> None:
        for options in options_of(kind):
            optimum = samples_of(name).optimum(problem, options)
            if optimum is None:
                continue
            more = Bound(optimum * (1 + 1e-6) + 1e-9, "too much", options.scope)
            assert kind.of(problem).certify(problem, more) is None, (problem, optimum)
            exactly = kind.of(problem).certify(problem, Bound(optimum, "just", options.scope))
            counted["none" if exactly is None else "some"] += 1

    over(name, SOLVED, run)
    assert counted["some"] >= SOLVED // 8, counted


def holds_anyway(document: dict[str, Any], changed: dict[str, Any], problem: Any, path: Path) -> bool:
    """Whether a change made another right result: a plan as good, a proof of nothing, or another proof of the same."""
    if changed["plan"] != document["plan"]:
        kind = kind_of(problem)
        evaluation = kind.evaluate(problem, kind.files.read_plan(path, problem))
        return bool(evaluation.feasible) and evaluation.objective == pytest.approx(document["objective"], rel=1e-9)
    if changed["proof"]["scope"] != document["proof"]["scope"]:
        # Without a plan nobody can say what plans the proof is about.
        return document["plan"] is None
    stated, certificate = document["proof"]["certificate"], changed["proof"]["certificate"]
    if stated is None or certificate == stated:
        return False
    # Tables that leave room, and weights of no work, are not the only ones that prove the same.
    return stated["kind"] == "suffix-sets" or stated["value"] == 0


@every_problem
def test_what_is_changed_afterwards_is_found(name: str, tmp_path: Path) -> None:
    """Every value of objective, plan, bound, certificate and problem, one at a time."""
    path = tmp_path / "r.json"
    counted: Counter[str] = Counter()

    def run(problem: Any) -> None:
        document = document_of(problem)
        for where, changed in tampered(document):
            path.write_bytes(msgspec.json.encode(changed))
            try:
                found = partita.check(path)
            except PartitaError:
                # The problem in the file is none any more.
                assert where.startswith("problem.stated"), where
                counted["refused"] += 1
                continue
            if found.refuted:
                counted["found"] += 1
            else:
                assert holds_anyway(document, changed, problem, path), (where, document)
                counted["right"] += 1

    over(name, CHANGED, run)
    assert counted["found"] > 100
    assert counted["right"] < counted["found"] / 10, counted


def test_the_checker_runs_without_the_package(tmp_path: Path) -> None:
    """It checks a file where no solver, evaluator, kernel or bound has been imported, nor numpy."""
    problem = samples_of("makespan").families[0].typical
    document = document_of(problem)
    path = tmp_path / "r.json"
    path.write_text(json.dumps({"result": document, "problem": as_in_file(tagged(problem, problem.format, 1))}))
    code = (
        "import json, sys\n"
        "from partita.checker.document import check_document\n"
        f"both = json.load(open({str(path)!r}))\n"
        "assert check_document(both['result'], both['problem']).plan.verified\n"
        "known = [name for name in sys.modules if name.startswith('partita.') and 'checker' not in name]\n"
        "print(known, 'numpy' in sys.modules)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout.split("\n")[0] == "[] False"


def test_a_problem_from_elsewhere() -> None:
    """The package's evaluator says what the plan is worth; its bound comes by argument alone."""
    with registered(TASKS):
        found = partita.check(partita.solve(SIX))
    assert (found.plan.verified, found.plan.by, found.plan.objective) == (True, "the package's evaluator", 6.0)
    assert (found.verified, found.refuted, found.bound.verified) == (False, False, None)
    assert found.bound.argument.startswith("every assignment")
