"""What limits the plan, what would change it, and what people do instead."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from partita.ground.units import format_time
from partita.report.pages.figures import BOUND, MOVE, WAIT, WORK, chart, figure, scaled
from partita.report.pages.markup import Markup, exact, joined, listed, markup, section, share, table, tag, time
from partita.report.pages.subject import Subject
from partita.report.pages.verdict import batch_of

#: Values closer than this, relative, are drawn on an axis that is a little longer.
_ALIKE = 5e-3


def limits(subject: Subject) -> Markup:
    """Sentences of the document, and every change of the machine with the step that it would make."""
    found = subject.document.get("limits")
    sentences = found.get("sentences", ()) if isinstance(found, Mapping) else ()
    runtime = subject.document.get("runtime")
    if isinstance(runtime, Mapping):
        sentences = [*sentences, *runtime.get("sentences", ())]
    changes = [(change.what, change.step_time, change.saved) for change in subject.changes]
    return limits_section(sentences, changes, subject.run_unit)


def limits_section(sentences: Sequence[str], changes: Sequence[tuple[str, float, float]], unit: str) -> Markup:
    """What binds in words, and changes: what, the time of a batch with it, and the share that it saves."""
    shown = listed(f"{sentence[:1].upper()}{sentence[1:]}." for sentence in sentences)
    return section("limits", "What limits the plan", shown, _changes(changes, unit))


def _changes(changes: Sequence[tuple[str, float, float]], unit: str) -> Markup:
    if not changes:
        return Markup("")
    from plotly.graph_objects import Bar

    ordered = sorted(changes, key=lambda change: -change[2])[:24]
    found = figure(
        [
            Bar(
                y=[what for what, _, _ in ordered],
                x=[saved for _, _, saved in ordered],
                orientation="h",
                marker={"color": [WORK if saved >= 0 else MOVE for _, _, saved in ordered]},
                hovertemplate="%{y}<br>%{x:.2%} of the batch saved<extra></extra>",
                name="",
            )
        ],
        height=90 + 26 * len(ordered),
        xaxis={"title": {"text": "share of the batch that is saved"}, "tickformat": ".1%"},
        yaxis={"autorange": "reversed", "type": "category"},
        showlegend=False,
    )
    rows = [(what, time(step, unit), share(saved, 2)) for what, step, saved in sorted(changes, key=lambda c: -c[2])]
    numbers = table("What a change would make of the batch", ("change", "batch takes", "saved"), rows)
    what, step, saved = ordered[0]
    says = f"The change that helps most: {what}, with which a batch takes {format_time(step, unit)} ({saved:.2%} less)."
    return joined([tag("h3", "What would change it"), chart("changes", found, says, numbers)])


def baselines(subject: Subject) -> Markup:
    """What people do by hand, judged by the same evaluator, and what each of it ignores."""
    rows = subject.document.get("baselines")
    if not rows:
        return Markup("")
    unit, mine = subject.unit, subject.document.get("objective")
    works = [row for row in rows if row.get("objective") is not None]
    shown: list[tuple[Any, ...]] = []
    if mine is not None:
        shown.append(("partita", time(mine, unit), "", _step(subject.document, unit), "this plan", ""))
    for row in rows:
        does, _, ignores = str(row.get("summary") or "").partition("; ignores ")
        ignores = "; ".join(part for part in (ignores, row.get("why") or "") if part)
        if row.get("objective") is None:
            note = f"does not work: {row['reason']}" if row.get("reason") else "no plan"
            shown.append((row["name"], "—", "", "", note, ignores))
            continue
        against: Any = ""
        if mine:
            ratio = row["objective"] / mine - 1
            against = exact(ratio, f"{ratio:+.1%}")
        shown.append((row["name"], time(row["objective"], unit), against, _step(row, unit), does, ignores))
    columns = ("plan", "objective", "against the plan", "batch", "what it does", "what it ignores, where it loses")
    found = table(
        "Plans that people make by hand", columns, shown, words=columns[4:], marked=() if mine is None else (0,)
    )
    return section("baselines", "Compared with", _bars(works, mine, subject), found)


def _step(row: Mapping[str, Any], unit: str) -> Markup:
    step = batch_of(row)
    return markup("") if step is None else time(step["time"], unit)


def _bars(works: Sequence[Mapping[str, Any]], mine: float | None, subject: Subject) -> Markup:
    if not mine or not works:
        return Markup("")
    from plotly.graph_objects import Bar

    unit = subject.unit
    bars = sorted(
        [("partita", mine, WORK), *((row["name"], row["objective"], WAIT) for row in works)], key=lambda b: b[1]
    )
    factor, shown = scaled(mine, unit)
    spread = bars[-1][1] / bars[0][1] > 20 if bars[0][1] > 0 else False
    found = figure(
        [
            Bar(
                y=[name for name, _, _ in bars],
                x=[value * factor for _, value, _ in bars],
                orientation="h",
                marker={"color": [shade for _, _, shade in bars]},
                text=[format_time(value, unit) for _, value, _ in bars],
                textposition="outside",
                cliponaxis=False,
                hovertemplate="%{y}: %{text}<extra></extra>",
                name="",
            )
        ],
        height=90 + 24 * len(bars),
        margin={"l": 8, "r": 64, "t": 8, "b": 8},
        showlegend=False,
        xaxis={
            "title": {"text": f"objective ({shown})" + (", logarithmic" if spread else "")},
            **({"type": "log", "dtick": "D2"} if spread else {"rangemode": "tozero"}),
        },
        yaxis={"autorange": "reversed", "type": "category"},
    )
    bound = subject.document.get("bound")
    if bound:
        found.add_vline(x=bound * factor, line={"color": BOUND, "width": 2, "dash": "dash"}, layer="below")
    best = min(row["objective"] for row in works)
    name = next(row["name"] for row in works if row["objective"] == best)
    says = f"The best of {len(works)} plans made by hand is {name}, {best / mine - 1:+.1%} against the plan"
    says += "; the dashed line is the proven bound." if bound else "."
    return chart("rivals", found, says, None)


def _range(values: Sequence[float], factor: float) -> dict[str, Any]:
    """The range of an axis of values that differ by less than can be written beside it; nothing where they do not."""
    low, high = min(values, default=0.0), max(values, default=0.0)
    return {} if high - low > _ALIKE * high else {"range": [0.98 * low * factor, 1.02 * high * factor]}


def history(subject: Subject) -> Markup:
    """Plan and bound over the time of the search."""
    statistics = subject.document.get("statistics")
    events = statistics.get("events", ()) if isinstance(statistics, Mapping) else ()
    if not events:
        return Markup("")
    from plotly.graph_objects import Scatter

    unit = subject.unit
    known = [event[key] for event in events for key in ("objective", "bound") if event[key] is not None]
    factor, shown = scaled(max(known, default=0.0), unit)
    end = max([float(subject.document.get("runtime_s") or 0.0), *(event["time_s"] for event in events)])
    traces = []
    for key, title, shade, dash in (
        ("objective", "best plan", WORK, "solid"),
        ("bound", "proven bound", BOUND, "dash"),
    ):
        line = [(event["time_s"], event[key]) for event in events if event[key] is not None]
        if line:
            last = subject.document.get(key)
            line.append((end, line[-1][1] if last is None else last))
            traces.append(
                Scatter(
                    x=[at for at, _ in line],
                    y=[value * factor for _, value in line],
                    name=title,
                    mode="lines+markers" if len(line) < 60 else "lines",
                    line={"shape": "hv", "color": shade, "dash": dash, "width": 2},
                    hovertemplate="%{x:.2f} s: %{y:.5~g} " + shown + f"<extra>{title}</extra>",
                )
            )
    if not traces:
        return Markup("")
    found = figure(
        traces,
        height=300,
        xaxis={"title": {"text": "time of the search (s)"}, "rangemode": "tozero"},
        yaxis={"title": {"text": f"objective ({shown})"}, **_range(known, factor)},
        hovermode="closest",
    )
    rows = [
        (
            f"{event['time_s']:.2f} s",
            time(event["objective"], unit),
            time(event["bound"], unit),
            event.get("note") or "",
        )
        for event in events[:200]
    ]
    numbers = table("Events of the search", ("time", "best plan", "proven bound", "note"), rows, words=("note",))
    gap = subject.document.get("gap")
    says = f"The search took {end:.2f} s"
    says += f" and ended with a gap of {gap:.4%}." if gap is not None and math.isfinite(gap) else "."
    return section("history", "The search", chart("events", found, says, numbers))
