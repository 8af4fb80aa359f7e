"""The machines, what joins them, and what of the plan runs on each device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from partita.documents.tables.topology_plot import positions
from partita.nouns.topology.read import topology
from partita.nouns.topology.topology import MAX_TOPOLOGY, Link, Topology
from partita.report.pages.figures import WAIT, chart, colour, figure
from partita.report.pages.markup import Markup, section, table, tag, time
from partita.report.pages.subject import Subject

#: Of more devices than these not drawn are links between pairs, names, the matrix of bandwidths, and its numbers.
_PAIRS, _NAMED, _MATRIX, _LISTED = 96, 64, 256, 32
#: Classes of links that are told apart.
_CLASSES = 6
#: Rows of the table.
_ROWS = 1024


def where_it_runs(subject: Subject) -> Markup:
    """The topology with the placement, of a plan for machines or of one onto given devices."""
    found = _topology(subject)
    if found is None:
        return Markup("")
    machines, labels = found
    # So many points are no picture.
    drawn = (_picture(machines, labels), _matrix(machines)) if machines.device_count <= MAX_TOPOLOGY else ()
    return section(
        "topology",
        "Devices and links",
        *drawn,
        _placement(subject),
        lead=f"{machines.device_count} devices in {machines.machine_count} machines: {machines.name}."
        if machines.machine_count > 1
        else f"{machines.device_count} devices: {machines.name}.",
    )


def _topology(subject: Subject) -> tuple[Topology, dict[int, str]] | None:
    """The devices, and by number what runs there."""
    placement = subject.document.get("placement")
    if subject.cluster is not None:
        labels: dict[int, str] = {}
        if isinstance(placement, Mapping):
            for stage in placement["stages"]:
                for replica in stage["replicas"]:
                    labels |= {int(device): str(stage["stage"]) for device in replica["devices"]}
        elif subject.planned is not None and subject.planned.split is not None:
            for number, part in enumerate(subject.planned.split.stages):
                labels |= {place: str(number) for place in part.places}
        return topology(subject.cluster), labels
    if subject.planned is None or subject.report is None:
        return None
    return subject.report.topology(subject.planned.problem, subject.planned.plan)


def _links(machines: Topology) -> list[Link]:
    if machines.links:
        return list(machines.links)
    if machines.device_count > _PAIRS:
        return []
    matrix = machines.matrix()
    first, second = np.triu_indices(machines.device_count, 1)
    return [
        Link(a, b, float(matrix[a, b]))
        for a, b in zip(first.tolist(), second.tolist(), strict=True)
        if matrix[a, b] > 0
    ]


def _picture(machines: Topology, labels: Mapping[int, str]) -> Markup:
    from plotly.graph_objects import Scatter

    places, links = positions(machines), _links(machines)
    speeds = sorted({link.bandwidth_bytes_per_s for link in links}, reverse=True)
    # Speeds that are nearly alike are one class.
    classes = [part for part in np.array_split(np.array(speeds), min(len(speeds), _CLASSES)) if len(part)]
    traces = []
    for number, part in enumerate(classes):
        mine = [link for link in links if part[-1] <= link.bandwidth_bytes_per_s <= part[0]]
        x: list[float | None] = []
        y: list[float | None] = []
        for link in mine:
            x += [float(places[link.source, 0]), float(places[link.target, 0]), None]
            y += [float(places[link.source, 1]), float(places[link.target, 1]), None]
        low, high = part[-1] / 1e9, part[0] / 1e9
        name = f"{high:.4g} GB/s" if low == high else f"{low:.4g} to {high:.4g} GB/s"
        shade = f"rgba(120,130,150,{0.75 - 0.6 * number / max(len(classes), 1):.2f})"
        line = {"color": shade, "width": 3.0 - 2.2 * number / max(len(classes), 1)}
        traces.append(Scatter(x=x, y=y, mode="lines", line=line, name=name, hoverinfo="skip"))
    count = machines.device_count
    if machines.switches:
        traces.append(
            Scatter(
                x=places[count:, 0].tolist(),
                y=places[count:, 1].tolist(),
                mode="markers",
                marker={"symbol": "square", "size": 8, "color": "#777777"},
                name="switches",
                text=list(machines.switches),
                hovertemplate="%{text}<extra></extra>",
            )
        )
    known = sorted(set(labels.values()), key=lambda label: (len(label), label))
    groups = {label: [d for d in range(count) if labels.get(d) == label] for label in known}
    rest = [d for d in range(count) if d not in labels]
    shown = [(f"stage {label}", members, colour(n)) for n, (label, members) in enumerate(groups.items())]
    shown += [("unused" if labels else "devices", rest, WAIT)] if rest else []
    named = count <= _NAMED
    for name, members, shade in shown:
        traces.append(
            Scatter(
                x=places[members, 0].tolist(),
                y=places[members, 1].tolist(),
                mode="markers+text" if named else "markers",
                marker={"size": 20 if named else 9, "color": shade, "line": {"width": 1, "color": "#8888"}},
                text=[labels.get(d, "") for d in members],
                customdata=[machines.names[d] for d in members],
                hovertemplate="%{customdata}: " + name + "<extra></extra>",
                textposition="top center",
                textfont={"size": 12},
                name=name,
                showlegend=len(shown) <= 24,
            )
        )
    rows = int(np.ptp(places[:, 1])) + 1
    blank = {"visible": False, "showgrid": False, "zeroline": False}
    found = figure(
        traces,
        height=min(620, 260 + 90 * rows),
        xaxis=blank,
        yaxis={**blank, "scaleanchor": "x"},
        margin={"l": 8, "r": 8, "t": 30, "b": 8},
    )
    what = {d: labels.get(d, "–") for d in range(count)}
    listed = [(machines.names[d], str(machines.machine_of[d]), what[d]) for d in range(min(count, _ROWS))]
    numbers = table("Devices with their stages", ("device", "machine", "stage"), listed, words=("stage",))
    says = f"{count} devices, {len(labels)} of them in use" if labels else f"{count} devices"
    says += f", joined by {len(links)} links" if links else ""
    return chart("machines", found, f"{says}.", numbers)


def _matrix(machines: Topology) -> Markup:
    """What passes between every two devices, where that differs."""
    matrix = machines.matrix() / 1e9
    inner = matrix[~np.eye(machines.device_count, dtype=bool)]
    if not 3 <= machines.device_count <= _MATRIX or inner.min() == inner.max():
        return Markup("")
    from plotly.graph_objects import Heatmap

    shown = np.where(np.isfinite(matrix), matrix, np.nan)
    few = machines.device_count <= _LISTED
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log10(shown)
    low, high = float(np.nanmin(shown)), float(np.nanmax(shown))
    ticks = np.linspace(np.log10(low), np.log10(high), 4) if low > 0 else np.array([np.log10(high)])
    found = figure(
        [
            Heatmap(
                z=logs.astype(np.float32),
                customdata=shown.astype(np.float32),
                x=list(machines.names),
                y=list(machines.names),
                colorscale="Viridis",
                hovertemplate="%{y} → %{x}: %{customdata:.4~g} GB/s<extra></extra>",
                colorbar={
                    "title": {"text": "GB/s"},
                    "tickvals": ticks.tolist(),
                    "ticktext": [f"{10**tick:.3g}" for tick in ticks],
                    "thickness": 12,
                },
            )
        ],
        height=420,
        xaxis={"showticklabels": few, "showgrid": False, "constrain": "domain"},
        yaxis={"showticklabels": few, "showgrid": False, "autorange": "reversed", "scaleanchor": "x"},
    )
    numbers = None
    if few:
        rows = [
            (name, *("—" if not np.isfinite(v) else f"{v:.4g}" for v in row))
            for name, row in zip(machines.names, shown, strict=True)
        ]
        numbers = table("Bandwidth from the device of the row (GB/s)", ("device", *machines.names), rows)
    says = f"Bandwidth between every two devices, from {low:.4g} to {high:.4g} GB/s."
    return chart("bandwidth", found, says, numbers)


def _placement(subject: Subject) -> Markup:
    """Which replica of which stage is where."""
    placement, parts = subject.document.get("placement"), []
    if not isinstance(placement, Mapping):
        return Markup("")
    for stage in placement["stages"]:
        for number, replica in enumerate(stage["replicas"]):
            names: list[Any] = replica["names"]
            parts.append((str(stage["stage"]), stage["name"], str(number), str(replica["machine"]), ", ".join(names)))
    columns = ("stage", "name", "replica", "machine", "devices")
    found = table("Placement", columns, parts[:_ROWS], words=("name", "devices"))
    step = placement.get("step_time")
    said = ""
    if step is not None:
        said = tag("p", f"Placed so ({placement['name']}), a batch takes ", time(step, str(placement["unit"])), ".")
    return Markup(said + found)
