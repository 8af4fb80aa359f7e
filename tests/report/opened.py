"""A report that is open in a browser, and what happened meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

#: Milliseconds until a page is drawn, on a machine that is busy.
PATIENCE = 60_000


@dataclass
class Opened:
    """A page; what its console said, what went wrong, and what it asked to be fetched."""

    page: Page
    said: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def values(self, selector: str) -> list[float]:
        """The exact numbers behind what is shown inside some elements."""
        script = "found => found.flatMap(one => [...one.querySelectorAll('data')].map(data => data.value))"
        return [float(value) for value in self.page.eval_on_selector_all(selector, script)]

    def texts(self, selector: str) -> list[str]:
        """What some elements say, as it stands in the document."""
        found: list[str] = self.page.eval_on_selector_all(selector, "found => found.map(one => one.textContent.trim())")
        return found

    def table(self, caption: str) -> list[dict[str, Any]]:
        """The rows of the table whose caption starts so: by column the exact number, or the text without one."""
        script = """caption => {
            const found = [...document.querySelectorAll('table')].find(
                table => table.caption.textContent.startsWith(caption));
            if (!found) return null;
            const titles = [...found.tHead.rows[0].cells].map(cell => cell.textContent);
            return [...found.tBodies[0].rows].map(row => Object.fromEntries([...row.cells].map((cell, k) => {
                const data = cell.querySelector('data');
                return [titles[k], data ? Number(data.value) : cell.textContent];
            })));
        }"""
        rows = self.page.evaluate(script, caption)
        assert rows is not None, f"there is no table {caption!r}"
        found: list[dict[str, Any]] = rows
        return found


def opened(browser: Browser, path: Path, **context: Any) -> Opened:
    """Open a file and wait until everything is drawn."""
    page = browser.new_context(viewport={"width": 1200, "height": 900}, **context).new_page()
    found = Opened(page)
    page.on("console", lambda message: found.said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: found.errors.append(str(error)))
    page.on("request", lambda request: found.asked.append(request.url))
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready=yes]", state="attached", timeout=PATIENCE)
    return found
