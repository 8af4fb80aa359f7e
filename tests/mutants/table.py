"""Which modules are checked, and which tests must notice that one of them is wrong."""

from __future__ import annotations

__all__ = ["MODULES"]

_THROUGHPUT = "tests/problems/throughput"
_HYBRID = "tests/problems/hybrid"
_LATENCY = "tests/problems/latency"
_MAKESPAN = "tests/problems/makespan"
_LAYERS = "tests/problems/layer_placement"
_SERVING = "tests/problems/serving"

_EVALUATE = (
    f"{_THROUGHPUT}/test_evaluate.py",
    f"{_THROUGHPUT}/test_contiguity.py",
    f"{_THROUGHPUT}/test_chain.py",
    f"{_THROUGHPUT}/test_evaluate_random.py::test_evaluate_agrees_on_arbitrary_plans",
    f"{_THROUGHPUT}/test_evaluate_random.py::test_evaluate_agrees_on_every_plan_of_tiny_problems",
    f"{_THROUGHPUT}/test_evaluate_random.py::test_evaluate_agrees_on_variants",
)

_KERNELS = "partita.engines.kernels"
_OF_KERNELS = "tests/engines/kernels"
_PLACEMENTS = f"{_OF_KERNELS}/latency/test_placements.py"
_PLACING = f"{_OF_KERNELS}/mapping/test_placing.py"
_STAGES = f"{_OF_KERNELS}/hybrid/test_stages.py"
_QUEUES = f"{_OF_KERNELS}/simulator/test_queues.py"
_RUN, _TAPES = "tests/execution/test_parts.py", "tests/execution/test_tapes.py"
_CLOCKS = "tests/profiler/test_fake_clocks.py"

#: The module, and the tests that are run on its mutants, quick ones first.
MODULES: dict[str, tuple[str, ...]] = {
    "partita.problems.throughput.evaluate": _EVALUATE,
    "partita.problems.throughput.contiguity": _EVALUATE,
    "partita.problems.hybrid.steady.evaluate": (f"{_HYBRID}/test_problem.py", f"{_HYBRID}/test_step_time.py"),
    "partita.problems.latency.evaluate": (f"{_LATENCY}/test_evaluate.py",),
    "partita.problems.latency.plan": (f"{_LATENCY}/test_evaluate.py",),
    "partita.problems.latency.files.dnn_partitioning": (f"{_LATENCY}/test_files.py",),
    "partita.problems.latency.files.plans": (f"{_LATENCY}/test_files.py",),
    "partita.problems.published": (
        f"{_THROUGHPUT}/files/test_dnn_partitioning.py",
        f"{_LATENCY}/test_files.py",
    ),
    "partita.problems.layer_placement.evaluate": (f"{_LAYERS}/test_evaluate.py",),
    "partita.problems.layer_placement.network": (f"{_LAYERS}/test_evaluate.py",),
    "partita.problems.layer_placement.files.helix": (f"{_LAYERS}/test_files.py",),
    "partita.problems.layer_placement.bounds.sides": (f"{_LAYERS}/test_bounds_keep.py",),
    "partita.problems.makespan.evaluate": (f"{_MAKESPAN}/test_evaluate.py",),
    "partita.problems.serving.evaluate": (f"{_SERVING}/test_evaluate.py",),
    "partita.nouns.workload.files": ("tests/nouns/workload/test_files.py",),
    "partita.nouns.workload.workload": ("tests/nouns/workload/test_workload.py",),
    "partita.engines.search.incumbent": (
        "tests/engines/search/test_incumbent_claims.py",
        "tests/engines/search/test_incumbent.py",
    ),
    "partita.problems.throughput.bounds.knowledge": (f"{_THROUGHPUT}/bounds/test_knowledge.py",),
    "partita.conductor.judge": ("tests/conductor/test_judge.py",),
    "partita.documents.document": ("tests/documents/test_document.py", "tests/documents/test_write.py"),
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
    f"{_KERNELS}.arrays": (f"{_OF_KERNELS}/test_graph_arrays.py",),
    f"{_KERNELS}.bits": (f"{_OF_KERNELS}/test_graph_arrays.py",),
    f"{_KERNELS}.closures": (f"{_OF_KERNELS}/test_graph_arrays.py",),
    f"{_KERNELS}.graph_arrays": (f"{_OF_KERNELS}/test_graph_arrays.py",),
    f"{_KERNELS}.hybrid.device_table": (f"{_STAGES}::test_where_a_row_falls",),
    f"{_KERNELS}.latency.quotient": (f"{_PLACEMENTS}::test_a_placement_is_kept_up_to_date_under_moves",),
    f"{_KERNELS}.mapping.arrays": (f"{_PLACING}::test_depth_first_finds_a_mapping_or_proves_that_there_is_none",),
    f"{_KERNELS}.serving.batch": (f"{_OF_KERNELS}/serving/test_engine.py",),
    f"{_KERNELS}.serving.cache": (f"{_OF_KERNELS}/serving/test_engine.py",),
    f"{_KERNELS}.serving.engine": (f"{_OF_KERNELS}/serving/test_engine.py", f"{_SERVING}/test_evaluate.py"),
    f"{_KERNELS}.simulator.queues": (
        f"{_QUEUES}::test_a_queue_gives_the_least_key_first",
        f"{_QUEUES}::test_a_pile_is_sorted",
    ),
    f"{_KERNELS}.simulator.sharing": (
        f"{_QUEUES}::test_links_are_shared_fairly",
        f"{_QUEUES}::test_without_amounts_there_is_room_for_nobody",
    ),
    "partita.execution.draws": (_RUN,),
    "partita.execution.orders": (_RUN,),
    "partita.execution.program": (_TAPES,),
    "partita.execution.wire": (_RUN,),
    "partita.profiler.clock": (_CLOCKS,),
    "partita.profiler.links": (_CLOCKS,),
    "partita.profiler.steps": (_CLOCKS,),
}
