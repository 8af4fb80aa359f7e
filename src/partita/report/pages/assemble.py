"""The page around its sections: head, navigation, style, programs."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from importlib.resources import files

from partita.ground.errors import MissingExtraError
from partita.ground.version import __version__
from partita.report.pages.markup import Markup, tag
from partita.report.pages.packed import packed

#: Nothing may be fetched, by nobody: browsers hold the page to that.
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; "
    "base-uri 'none'; form-action 'none'"
)


@functools.cache
def asset(name: str) -> str:
    """A file beside this one."""
    return (files("partita.report.pages") / "assets" / name).read_text(encoding="utf-8")


@functools.cache
def library() -> str:
    """The library that draws charts, packed; ``MissingExtraError`` where it is not installed."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise MissingExtraError("plotly", "report") from error
    return packed(get_plotlyjs().encode())


def assembled(title: str, kind: str, sections: Sequence[Markup]) -> str:
    """A whole page of sections, which say themselves what they are called."""
    shown = [part for part in sections if part]
    links = []
    for part in shown:
        found = re.search(r'<section[^>]* id="([^"]+)"', part) or re.search(r'<section id="([^"]+)"', part)
        heading = re.search(r"<h2[^>]*>(.*?)</h2>", part)
        if found and heading:
            links.append(tag("li", tag("a", Markup(heading[1]), href=f"#{found[1]}")))
    head = tag(
        "head",
        Markup('<meta charset="utf-8">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup('<meta name="color-scheme" content="light dark">'),
        Markup(f'<meta name="generator" content="partita {__version__}">'),
        Markup('<link rel="icon" href="data:,">'),
        tag("title", f"{title} – partita"),
        tag("style", Markup(asset("report.css"))),
    )
    body = tag(
        "body",
        tag("a", "To the content", class_="skip", href="#content"),
        tag("header", tag("p", kind), tag("h1", title)),
        tag("nav", tag("ul", *links), aria_label="Sections"),
        tag("main", *shown, id_="content"),
        tag("footer", tag("p", f"Made by partita {__version__}. This page is one file and fetches nothing.")),
        tag("script", Markup(library()), type_="text/plain", id_="library"),
        tag(
            "script",
            Markup(asset("report.js") + asset("timeline.js").replace('"use strict";\n', "", 1) + "partita.start();"),
        ),
    )
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"
