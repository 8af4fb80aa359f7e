"""Shared test set-up.

Hypothesis runs the profile named by ``HYPOTHESIS_PROFILE``: ``ci`` (the default: the same examples on every run, no
deadline, because the first call of a kernel compiles it) or ``thorough`` (twenty times as many, other ones each time).

Tests marked ``slow`` are skipped unless ``--run-slow`` or ``-m slow`` is given. ``--run-slow`` also draws three times
as many examples (profile ``slow``, where no other one is named).

Published instance files lie in ``../shared/data`` relative to the repository root, and are not part of it; tests that
ask for the fixture ``published_data`` are skipped where that folder is absent.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from instances.strategies import USUAL_EXAMPLES
from partita.ground.collecting import collect_rarely
from partita.inside.torchvision_inside import declare_where_missing
from running.command_line import partita as partita

# The libraries of the extra "vision" are in a folder of their own (see the Makefile). Tests import transformers
# themselves, and with it a torchvision that may not fit the installed torch.
sys.path.append(str(Path(sys.prefix) / "vision"))
declare_where_missing()

# Tests trace what they test, and leave nothing in the folder of whoever runs them; ``kept_graphs`` is for those that
# are about what comes after the trace.
os.environ["PARTITA_CACHE"] = "off"

PUBLISHED_DATA = Path(__file__).resolve().parent.parent.parent / "shared" / "data"

# As the command line does: tests trace models by the hundred.
collect_rarely()

_CHECKS = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile(
    "ci", max_examples=USUAL_EXAMPLES, derandomize=True, deadline=None, suppress_health_check=_CHECKS
)
settings.register_profile(
    "slow", max_examples=3 * USUAL_EXAMPLES, derandomize=True, deadline=None, suppress_health_check=_CHECKS
)
settings.register_profile("thorough", max_examples=20 * USUAL_EXAMPLES, deadline=None, suppress_health_check=_CHECKS)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--run-slow``."""
    parser.addoption("--run-slow", action="store_true", default=False, help="run tests marked slow, too")


def pytest_configure(config: pytest.Config) -> None:
    """More examples for who has the time; tests read how many when they are imported, which is later."""
    if config.getoption("--run-slow") and "HYPOTHESIS_PROFILE" not in os.environ:
        settings.load_profile("slow")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip slow tests unless they are asked for; an expression given with ``-m`` that names slow asks for them."""
    if config.getoption("--run-slow") or "slow" in str(config.getoption("markexpr")):
        return
    skip = pytest.mark.skip(reason="slow: give --run-slow or -m slow")
    for item in items:
        if "slow" in item.keywords:
            item.add_marker(skip)


@pytest.fixture(scope="session")
def _graphs_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("graphs")


@pytest.fixture
def kept_graphs(_graphs_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where graphs are kept from one test to the next: a model of the same settings is traced once."""
    monkeypatch.setenv("PARTITA_CACHE", str(_graphs_folder))
    return _graphs_folder


@pytest.fixture(scope="session")
def published_data() -> Path:
    """The folder of the published instance files."""
    if not PUBLISHED_DATA.is_dir():
        pytest.skip(f"the published instance files are not at {PUBLISHED_DATA}")
    return PUBLISHED_DATA
