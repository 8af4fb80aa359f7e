"""Charts: figures of plotly, which draws them in the reader's browser.

A figure is made with plotly's own classes, which check it, and stands on the page as JSON with a sentence that says
what it shows and the table of its numbers. Colours of text and lines are the page's, light or dark, and stand in its
style sheet.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from partita.ground.errors import MissingExtraError
from partita.report.pages.markup import Markup, details, tag

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

#: Colours of stages and lines, told apart by eyes of all sorts, on white and on black.
COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccaa33", "#2a9fc0", "#aa3377", "#e08214", "#7f7fbf", "#8c6d46", "#888888")

#: Colours of the uses of time and memory: work, exposed communication, waiting; a bound; a limit.
WORK, MOVE, WAIT, BOUND, LIMIT = "#4477aa", "#e08214", "#b8bec8", "#228833", "#cc3344"


#: As the page's.
_FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", sans-serif'


def colour(number: int) -> str:
    """That of a stage or a line."""
    return COLOURS[number % len(COLOURS)]


def figure(traces: Sequence[Any], *, height: int = 320, **layout: Any) -> Figure:
    """A figure in the one style of all figures; ``MissingExtraError`` without plotly."""
    try:
        from plotly.graph_objects import Figure, Layout
    except ImportError as error:
        raise MissingExtraError("plotly", "report") from error
    axis: dict[str, Any] = {
        "title": {"font": {"size": 12}},
        "gridcolor": "#8884",
        "zerolinecolor": "#8886",
        "linecolor": "#8886",
        "automargin": True,
    }
    given: dict[str, Any] = {}
    for name in ("xaxis", "yaxis"):
        own = dict(layout.pop(name, {}))
        own["title"] = {**axis["title"], **own.get("title", {})}
        given[name] = {**axis, **own}
    style = {
        "template": "none",
        "height": height,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": _FONT, "size": 13},
        "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
        "legend": {
            "orientation": "h",
            "yanchor": "bottom",
            "y": 1.0,
            "xanchor": "left",
            "x": 0,
            "traceorder": "normal",
        },
        "hoverlabel": {"font": {"family": _FONT}},
        "dragmode": False,
        "colorway": list(COLOURS),
    }
    return Figure(data=list(traces), layout=Layout({**style, **given, **layout}))


#: At the end of what is shown of a point: no box beside it.
BARE = "<extra></extra>"

#: Fractions of a second that axes count in, the largest first.
_PREFIXES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def scaled(most: float, unit: str) -> tuple[float, str]:
    """The factor that makes times of a unit, the longest of which is given, easy to read on an axis, and their unit."""
    if unit != "s" or not most > 0:
        return 1.0, unit
    size, name = next((entry for entry in _PREFIXES if most >= entry[0]), _PREFIXES[-1])
    return 1 / size, name


def script(identity: str, data: str) -> Markup:
    """Data for the page's program; nothing in it ends the element."""
    safe = Markup(re.sub("<", r"\\u003c", data))
    return tag("script", safe, type_="application/json", id_=identity)


def chart(identity: str, found: Figure, says: str, numbers: Markup | None) -> Markup:
    """A figure on the page: what it says for those who do not see it, and its numbers for all who ask."""
    height = int(found.layout.height or 320)
    return tag(
        "figure",
        tag("div", "", class_="chart", id_=identity, role="img", aria_label=says, style=f"height:{height}px"),
        script(f"{identity}-figure", found.to_json()),
        tag("figcaption", says),
        "" if numbers is None else details("The numbers", numbers),
    )
