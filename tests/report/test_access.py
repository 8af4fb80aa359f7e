"""Reports by keyboard and with a screen reader: order of headings, names of everything, and what keys do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("plotly", reason="plotly is not installed (extra report)")

from partita.conductor.simulate import simulate_plan
from partita.report.pages import write_page
from partita.report.pages.assemble import asset
from partita.report.pages.timeline import timeline_document
from partita.simulator.document import simulation_document
from report.documents import Documents
from report.large import pipeline
from report.opened import Opened, opened

if TYPE_CHECKING:
    from playwright.sync_api import Browser

#: Least contrast of text (WCAG 2.1, 1.4.3).
CONTRAST = 4.5


@pytest.fixture(scope="module")
def page(browser: Browser, documents: Documents, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    """The report of a solved file, which has every part but a model."""
    path = tmp_path_factory.mktemp("pages") / "report.html"
    write_page(path, documents.read("compared"))
    found = opened(browser, path)
    yield found
    found.page.context.close()


def test_headings_are_in_order_and_every_part_has_one(page: Opened) -> None:
    levels = page.page.eval_on_selector_all("h1, h2, h3, h4", "found => found.map(one => Number(one.tagName[1]))")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(later <= earlier + 1 for earlier, later in pairwise(levels))
    titles = page.texts("h2")
    assert titles[:3] == ["Verdict", "Proof", "Stages"]
    for title in ("Time line", "Critical path", "What limits the plan", "Compared with", "The search", "Make it again"):
        assert title in titles
    links = page.page.eval_on_selector_all("nav a", "found => found.map(one => one.getAttribute('href'))")
    parts = page.page.eval_on_selector_all("main > section", "found => found.map(one => '#' + one.id)")
    assert links == parts


def test_everything_has_a_name(page: Opened) -> None:
    """Landmarks, tables with the scope of their headers, charts in words and with their numbers, and inputs."""
    count = page.page.evaluate
    assert count("document.documentElement.lang") == "en"
    for landmark in ("header", "nav[aria-label]", "main", "footer"):
        assert page.page.locator(landmark).count() == 1
    assert count("[...document.querySelectorAll('table')].every(one => one.caption?.textContent)")
    assert count("[...document.querySelectorAll('th')].every(one => ['col', 'row'].includes(one.scope))")
    assert count("[...document.querySelectorAll('.chart, .line')].every(one => one.ariaLabel && one.role === 'img')")
    assert count("[...document.querySelectorAll('button')].every(one => one.ariaLabel)")
    assert count("[...document.querySelectorAll('section')].every(one => document.getElementById("
                 "one.getAttribute('aria-labelledby'))?.textContent)")  # fmt: skip
    assert count("new Set([...document.querySelectorAll('[id]')].map(one => one.id)).size"
                 " === document.querySelectorAll('[id]').length")  # fmt: skip


def test_the_keyboard_reaches_everything(page: Opened) -> None:
    """From the link over the navigation to the last table, in the order of the page."""
    page.page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
    reached: list[str] = []
    for _ in range(200):
        page.page.keyboard.press("Tab")
        now = page.page.evaluate(
            "document.activeElement === document.body ? '' : [...document.querySelectorAll('*')]"
            ".indexOf(document.activeElement) + ' ' + document.activeElement.tagName + ' '"
            " + document.activeElement.className"
        )
        if not now or now in reached:
            break
        reached.append(now)
    kinds = [entry.split(" ", 1)[1] for entry in reached]
    assert kinds[0] == "A skip"
    assert kinds.count("BUTTON ") == page.page.locator("button").count()
    assert any(kind.startswith("DIV line") for kind in kinds)
    assert kinds.count("SUMMARY ") == page.page.locator("summary").count()
    assert sum(kind.startswith("DIV scroll") for kind in kinds) >= 3
    places = [int(entry.split()[0]) for entry in reached]
    assert places == sorted(places)


def test_keys_zoom_and_move_the_time_line(page: Opened) -> None:
    said = page.page.locator(".readout")
    line = page.page.locator(".line")
    whole = said.text_content()
    line.focus()
    line.press("+")
    page.page.wait_for_timeout(150)
    closer = said.text_content()
    assert closer != whole
    line.press("ArrowRight")
    page.page.wait_for_timeout(150)
    assert said.text_content() not in (whole, closer)
    line.press("0")
    page.page.wait_for_timeout(150)
    assert said.text_content() == whole
    page.page.locator("button[data-act=zoom-in]").click()
    page.page.wait_for_timeout(150)
    assert said.text_content() == closer
    page.page.locator("button[data-act=reset]").click()
    page.page.wait_for_timeout(150)
    assert page.errors == []


def test_the_critical_path_alone(page: Opened) -> None:
    """Its slices are those that are left."""
    bars = page.page.locator(".line .bars .point path")
    before = bars.count()
    page.page.locator("input[data-act=critical]").check()
    page.page.wait_for_timeout(200)
    slices = re.search(r"chain of (\d+) slices", page.texts("#critical-path .lead")[0])
    assert slices is not None
    assert bars.count() <= min(before, int(slices[1]))
    page.page.locator("input[data-act=critical]").uncheck()
    page.page.wait_for_timeout(200)
    assert bars.count() == before


def _colours(block: str) -> dict[str, tuple[float, ...]]:
    found = re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block)
    return {name: tuple(int(text[k : k + 2], 16) / 255 for k in (1, 3, 5)) for name, text in found}


def _luminance(colour: tuple[float, ...]) -> float:
    """Relative luminance, as WCAG 2.1 defines it."""
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def test_text_stands_out_in_light_and_in_dark() -> None:
    style = asset("report.css")
    light, dark, *_ = re.findall(r":root \{(.*?)\}", style, re.DOTALL)
    pairs = [(text, paper) for text in ("ink", "soft", "accent") for paper in ("paper", "panel")]
    pairs += [("ink", "mark"), *((name, f"{name}-paper") for name in ("good", "warn", "bad"))]
    for block in (light, dark):
        colours = _colours(block)
        for text, paper in pairs:
            low, high = sorted((_luminance(colours[text]), _luminance(colours[paper])))
            assert (high + 0.05) / (low + 0.05) >= CONTRAST, (text, paper)


def test_a_long_name_and_markup_are_text(browser: Browser, documents: Documents, tmp_path: Path) -> None:
    """Whatever a problem is called, it is neither markup nor a program."""
    document = documents.read("mapping")
    evil = "</script><script>document.title='taken'</script><img src=x onerror=alert(1)>" + "long" * 60
    document["problem"]["name"] = evil
    document["notes"] = [evil]
    path = tmp_path / "page.html"
    write_page(path, document)
    found = opened(browser, path)
    assert found.texts("h1") == [evil]
    assert found.page.title() != "taken"
    assert found.page.locator("img").count() == 0
    assert found.errors == []
    assert len(found.asked) == 1
    found.page.context.close()


def test_a_long_time_line_is_a_picture_until_one_looks_closer(browser: Browser, tmp_path: Path) -> None:
    """A simulation that holds its time line: thousands of slices are drawn as an image, few as bars with names."""
    run = simulate_plan(*pipeline(24, 40)).simulation
    line = timeline_document(run.timeline, run.critical())
    assert line["count"] > 3000
    path = tmp_path / "page.html"
    write_page(path, {**simulation_document(run), "time_line": line})
    found = opened(browser, path)
    page = found.page
    assert page.locator(".line .heatmaplayer image").count() == 1
    assert page.locator(".line .bars .point path").count() == 0
    assert "each point has the colour of what takes most of it" in found.texts(".readout")[0]
    for _ in range(4):
        page.locator("button[data-act=zoom-in]").click()
    page.locator(".line .bars .point path").first.wait_for()
    assert page.locator(".line .heatmaplayer image").count() == 0
    box = page.locator(".line").bounding_box()
    assert box is not None
    # Dragging over a part shows that part: some rows, and less time.
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2 + 150, box["y"] + 160, steps=4)
    page.mouse.up()
    page.wait_for_timeout(400)
    rows = re.search(r"(\d+) of 24 rows", found.texts(".readout")[0])
    assert rows is not None
    assert 0 < int(rows[1]) < 24
    assert found.errors == []
    assert found.said == []
    page.context.close()
