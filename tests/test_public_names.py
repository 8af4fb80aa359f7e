"""The public names are sorted, exist, and are the documented ones."""

from __future__ import annotations

import partita

#: Functions that users call, and what answers with.
FUNCTIONS = {
    *("plan", "price", "solve", "map_stages", "load", "sweep", "compare", "bound", "evaluate", "check", "place"),
    *("simulate", "export", "run", "training_run", "profile", "load_profile"),
    *("trace", "load_model", "read_problem", "read_graph", "read_cluster", "write_graph", "write_problem"),
}
CLASSES = {
    *("Answer", "SweepAnswer", "Comparison", "SimulationAnswer", "MeasuredRun", "ProfileAnswer", "Exported"),
    *("Cluster", "Topology", "Graph", "Plan", "Stage", "Result", "Bound", "Status", "StopReason", "Event"),
}


def test_public_names() -> None:
    names = [name for name in partita.__all__ if not name.startswith("__")]
    assert names == sorted(names)
    assert set(names) >= FUNCTIONS | CLASSES
    assert all(callable(getattr(partita, name)) for name in FUNCTIONS)
    assert all(isinstance(getattr(partita, name), type) for name in CLASSES)
    for name in partita.__all__:
        assert getattr(partita, name) is not None
    assert set(dir(partita)) == set(partita.__all__)
