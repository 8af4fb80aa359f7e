"""Documents to report, and a browser to open reports in."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from report.documents import Documents

if TYPE_CHECKING:
    from playwright.sync_api import Browser

#: What keeps a browser from anything but the page.
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)

#: Where screenshots are kept for who wants to see them.
SHOTS = Path(__file__).resolve().parents[2] / "results" / "report"


@pytest.fixture(scope="session")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Documents:
    """One document of every sort."""
    return Documents(tmp_path_factory.mktemp("documents"))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The Chromium of this machine; what is not installed here is not fetched."""
    api: Any = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra test)")
    path = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("there is no Chromium here; install it with: apt-get install chromium (or name it in CHROMIUM)")
    with api.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=path, args=list(FLAGS))
        yield found
        found.close()


@pytest.fixture(scope="session")
def shots(request: pytest.FixtureRequest) -> Path | None:
    """The folder of screenshots, which slow runs make; None in others."""
    if not request.config.getoption("--run-slow"):
        return None
    SHOTS.mkdir(parents=True, exist_ok=True)
    return SHOTS
