"""Reports in a real browser: nothing goes wrong, nothing is fetched, and the numbers are the document's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("plotly", reason="plotly is not installed (extra report)")

from partita.ground.units import format_time
from partita.problems.planned import planned_in
from partita.report.pages import write_page
from report.documents import NAMES, Documents, call
from report.opened import Opened, opened

if TYPE_CHECKING:
    from playwright.sync_api import Browser

#: What cannot be shown of some documents: nothing runs, or no operators are placed one by one.
WITHOUT_RUN = {"impossible", "sweep", "simulation", "placement"}
WITHOUT_OPERATORS = {*WITHOUT_RUN, "serving", "fleet"}


class Report:
    """A document and its page."""

    def __init__(self, name: str, path: Path, page: Opened) -> None:
        self.name = name
        self.path = path
        self.document: dict[str, Any] = json.loads(path.read_text())
        self.page = page


@pytest.fixture(scope="module", params=[name for name in NAMES if name != "free"])
def report(
    request: pytest.FixtureRequest,
    browser: Browser,
    documents: Documents,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Report]:
    """Every sort of document, opened once."""
    name: str = request.param
    path = documents.path(name)
    page = tmp_path_factory.mktemp("pages") / "report.html"
    write_page(page, documents.read(name))
    found = opened(browser, page)
    yield Report(name, path, found)
    found.page.context.close()


def test_nothing_goes_wrong_and_nothing_is_fetched(report: Report) -> None:
    assert report.page.said == []
    assert report.page.errors == []
    assert [url for url in report.page.asked if not url.startswith(("file:", "data:", "blob:"))] == []
    assert len([url for url in report.page.asked if url.startswith("file:")]) == 1


def test_everything_is_drawn(report: Report) -> None:
    page = report.page.page
    charts = page.locator(".chart").count()
    assert page.locator(".chart.js-plotly-plot").count() == charts
    if report.name != "impossible":
        assert charts >= 1
    if report.name not in WITHOUT_RUN:
        assert page.locator(".line.js-plotly-plot").count() == 1
        assert page.locator(".line .bars path").count() > 0


def test_the_verdict_has_the_numbers_of_the_document(report: Report) -> None:
    document, unit = report.document, report.document["unit"]
    said = report.page.texts("#verdict .verdict")[0]
    shown = report.page.values("#verdict .verdict")
    if report.name == "sweep":
        best = min(row["objective"] for row in document["rows"] if row["objective"] is not None)
        assert shown == [best]
    elif report.name == "simulation":
        assert shown == [document["step_time"], document["bubble_fraction"]]
        assert format_time(document["step_time"], unit) in said
    elif document["objective"] is None:
        assert document["reason"] in said
    else:
        assert shown[0] == document["objective"]
        assert format_time(document["objective"], unit) in said
        # Of a plan that was stated, and not looked for, nothing is proven.
        proven = [document[key] for key in ("bound", "gap") if document[key] is not None]
        assert (proven == []) == (report.name == "serving")
        tiles = report.page.values("#verdict .tiles")
        assert tiles[: 1 + len(proven)] == [document["objective"], *proven]
        if isinstance(document.get("step"), dict):
            assert tiles[3:5] == [document["step"]["time"], document["step"]["bubble"]]
        assert report.page.values("#proof")[: len(proven)] == proven
        if proven:
            assert document["proof"]["argument"] in report.page.texts("#proof dd")


def test_baselines_and_the_search_are_those_of_the_document(report: Report) -> None:
    rows = report.document.get("baselines")
    if rows:
        shown = report.page.table("Plans that people make by hand")
        assert [row["plan"] for row in shown] == ["partita", *(row["name"] for row in rows)]
        for there, here in zip(rows, shown[1:], strict=True):
            assert here["objective"] == ("—" if there["objective"] is None else there["objective"])
            if there["reason"]:
                assert there["reason"] in here["what it does"]
    events = report.document.get("statistics", {}).get("events", ())
    if any(event["objective"] is not None or event["bound"] is not None for event in events):
        shown = report.page.table("Events of the search")
        assert [row["best plan"] for row in shown] == [
            "—" if event["objective"] is None else event["objective"] for event in events
        ]


def test_devices_spend_their_time_as_in_the_simulation(report: Report) -> None:
    """What ``partita simulate --json`` says of the same file."""
    if report.name in WITHOUT_RUN:
        pytest.skip("nothing runs here")
    simulated = json.loads(call("simulate", report.path, "--json"))
    shown = {row["device"]: row for row in report.page.table("Use of devices")}
    for device in simulated["devices"]:
        row = shown.get(device["name"])
        if row is None:
            # Devices in lockstep have one row.
            continue
        assert (row["works"], row["waits"]) == (device["busy"], device["idle"])
        assert row["moves data, exposed"] == device["communication_exposed"]
    assert shown
    changes = {row["change"]: row["batch takes"] for row in report.page.table("What a change would make")}
    assert changes == {one["change"]: one["step_time"] for one in simulated["sensitivities"]}
    if any((device["peak"] or {}).get("parts") for device in simulated["devices"]):
        held = {row["device"]: row["peak"] for row in report.page.table("Memory of devices")}
        for device in simulated["devices"]:
            if device["name"] in held:
                assert held[device["name"]] == pytest.approx(device["peak_memory_bytes"], rel=1e-12)


def test_everything_placed_can_be_looked_up(report: Report) -> None:
    """The table of operators is made when it is asked for, and finds what is typed."""
    if report.name in WITHOUT_OPERATORS:
        pytest.skip("nothing is placed here")
    planned = planned_in(report.document)
    assert planned is not None
    page = report.page.page
    layers = report.name in ("step", "steady")
    assert page.locator(".operators").count() == 1 + layers
    if layers:
        summary = page.locator("details:has(> .operators) > summary").nth(1)
        assert summary.text_content() == f"Operators of the model ({report.document['model']['operators']})"
    box = page.locator("details:has(> .operators)").first
    box.locator("summary").click()
    rows = box.locator("tbody tr")
    rows.first.wait_for()
    count = rows.count()
    name = rows.nth(0).locator("td").nth(0).text_content() or ""
    box.locator("input[type=search]").fill(name)
    assert 0 < rows.count() <= count
    box.locator("input[type=search]").fill("there is nothing of this name")
    assert rows.count() == 0


def test_pages_look_well_in_light_dark_print_and_on_a_phone(report: Report, shots: Path | None) -> None:
    """Pictures for people; on a phone nothing is wider than the screen, and dark is dark."""
    page = report.page.page

    def background() -> str:
        return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))

    def shot(what: str, *, whole: bool) -> None:
        if shots is not None:
            page.screenshot(path=shots / f"{report.name.replace(' ', '-')}-{what}.png", full_page=whole)

    page.evaluate("scrollTo(0, 0)")
    assert background() == "rgb(255, 255, 255)"
    shot("light", whole=True)
    page.emulate_media(color_scheme="dark")
    assert background() == "rgb(18, 21, 27)"
    shot("dark", whole=True)
    page.emulate_media(media="print", color_scheme="dark")
    page.pdf(path=None if shots is None else shots / f"{report.name.replace(' ', '-')}-print.pdf")
    assert background() == "rgb(255, 255, 255)"
    assert not page.locator("nav").is_visible()
    page.emulate_media(media="screen", color_scheme="light")
    page.set_viewport_size({"width": 390, "height": 844})
    # Charts follow the screen when they are next drawn; a busy machine takes its time.
    for _ in range(300):
        if page.evaluate("document.documentElement.scrollWidth") <= 390:
            break
        page.wait_for_timeout(100)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    shot("phone", whole=False)
    page.set_viewport_size({"width": 1200, "height": 900})
    assert report.page.errors == []
