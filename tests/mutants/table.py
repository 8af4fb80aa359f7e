"""Which modules are checked, and which tests must notice that one of them is wrong."""

from __future__ import annotations

__all__ = ["MODULES"]

_THROUGHPUT = "tests/problems/throughput"
_HYBRID = "tests/problems/hybrid"
_LATENCY = "tests/problems/latency"
_MAKESPAN = "tests/problems/makespan"

_EVALUATE = (
    f"{_THROUGHPUT}/test_evaluate.py",
    f"{_THROUGHPUT}/test_contiguity.py",
    f"{_THROUGHPUT}/test_evaluate_random.py::test_evaluate_agrees_on_arbitrary_plans",
    f"{_THROUGHPUT}/test_evaluate_random.py::test_evaluate_agrees_on_every_plan_of_tiny_problems",
    f"{_THROUGHPUT}/test_evaluate_random.py::test_evaluate_agrees_on_variants",
)

#: The module, and the tests that are run on its mutants, quick ones first.
MODULES: dict[str, tuple[str, ...]] = {
    "partita.problems.throughput.evaluate": _EVALUATE,
    "partita.problems.throughput.contiguity": _EVALUATE,
    "partita.problems.hybrid.steady.evaluate": (f"{_HYBRID}/test_problem.py",),
    "partita.problems.latency.evaluate": (f"{_LATENCY}/test_evaluate.py",),
    "partita.problems.latency.plan": (f"{_LATENCY}/test_evaluate.py",),
    "partita.problems.latency.files.dnn_partitioning": (f"{_LATENCY}/test_files.py",),
    "partita.problems.latency.files.plans": (f"{_LATENCY}/test_files.py",),
    "partita.problems.published": (
        f"{_THROUGHPUT}/files/test_dnn_partitioning.py",
        f"{_LATENCY}/test_files.py",
    ),
    "partita.problems.makespan.evaluate": (f"{_MAKESPAN}/test_evaluate.py",),
    "partita.engines.search.incumbent": (
        "tests/engines/search/test_incumbent_claims.py",
        "tests/engines/search/test_incumbent.py",
    ),
    "partita.problems.throughput.bounds.knowledge": (f"{_THROUGHPUT}/bounds/test_knowledge.py",),
    "partita.conductor.judge": ("tests/conductor/test_judge.py",),
    "partita.documents.document": ("tests/documents/test_document.py",),
    "partita.documents.stated": ("tests/documents/test_stated.py", "tests/problems/test_importers.py"),
    "partita.documents.result_file": ("tests/documents/test_result_file.py",),
    "partita.problems.throughput.files.dnn_partitioning": (f"{_THROUGHPUT}/files/test_dnn_partitioning.py",),
    "partita.problems.throughput.files.plans": (
        f"{_THROUGHPUT}/files/test_dnn_partitioning.py",
        f"{_THROUGHPUT}/files/test_plans.py",
    ),
    "partita.problems.throughput.files.cost_graph": (f"{_THROUGHPUT}/files/test_cost_graph.py",),
    "partita.problems.hybrid.files.piper": (f"{_HYBRID}/files/test_piper.py",),
    "partita.problems.hybrid.files.plans": (f"{_HYBRID}/files/test_plans.py",),
    "partita.problems.makespan.files.moirai": (f"{_MAKESPAN}/files/test_moirai.py",),
    "partita.problems.importers": ("tests/problems/test_importers.py",),
}
