"""How large reports are, how long they take to make, and how fast a browser opens them.

    python benchmarks/report_pages.py [--out results] [--largest 512] [--repeats 3]

Each row is the report of a training pipeline, every stage on a device of its own. Seconds of making are those of the
whole page, the simulation included; those of opening are from the start of the navigation to the first text, to the
time line, and until everything is drawn, the best of some repeats in Debian's Chromium without a graphics card.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

from _common import add_out, write

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from partita.report.pages import write_page
from report.large import pipeline_result

#: Devices and microbatches.
ROWS = ((2, 16), (8, 64), (64, 256), (512, 512))

FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")

#: When what a reader waits for is there, in seconds.
MARKS = """() => Object.fromEntries([
    ...performance.getEntriesByType('paint').map(entry => [entry.name, entry.startTime / 1e3]),
    ...performance.getEntriesByType('mark').map(entry => [entry.name, entry.startTime / 1e3])])"""


def opened_s(browser: Browser, path: Path) -> dict[str, float]:
    """First text, time line, and everything."""
    page = browser.new_page(viewport={"width": 1200, "height": 900})
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready=yes]", state="attached", timeout=120_000)
    marks: dict[str, float] = page.evaluate(MARKS)
    page.close()
    return {"text_s": marks["first-contentful-paint"], "time_line_s": marks["time line"], "ready_s": marks["ready"]}


def main() -> int:
    """Make and open every report up to the largest number of devices, print the table, and write the CSV."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_out(parser)
    parser.add_argument("--largest", type=int, default=512, help="most devices")
    parser.add_argument("--repeats", type=int, default=3, help="how often each page is opened")
    given = parser.parse_args()
    where = shutil.which("chromium")
    if where is None:
        print("there is no Chromium here; install it with: apt-get install chromium", file=sys.stderr)
        return 1
    rows: list[dict[str, Any]] = []
    print(f"{'devices × microbatches':>22} {'MB':>6} {'made s':>7} {'text s':>7} {'time line s':>12} {'ready s':>8}")
    with sync_playwright() as driver, tempfile.TemporaryDirectory() as folder:
        for devices, microbatches in ROWS:
            if devices > given.largest:
                continue
            document = pipeline_result(devices, microbatches)
            path = Path(folder) / "report.html"
            started = time.perf_counter()
            write_page(path, document, microbatches=microbatches)
            made_s = time.perf_counter() - started
            browser = driver.chromium.launch(executable_path=where, args=list(FLAGS))
            runs = [opened_s(browser, path) for _ in range(given.repeats)]
            browser.close()
            best = {key: min(run[key] for run in runs) for key in runs[0]}
            row = {"devices": devices, "microbatches": microbatches, "bytes": path.stat().st_size, "made_s": made_s}
            rows.append({**row, **best})
            print(
                f"{f'{devices} × {microbatches}':>22} {row['bytes'] / 1e6:6.2f} {made_s:7.2f} {best['text_s']:7.2f} "
                f"{best['time_line_s']:12.2f} {best['ready_s']:8.2f}",
                flush=True,
            )
    write(given.out / "report_pages.csv", rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
