"""What given stages cost: loads of plain problems and of blocks, lines and bytes of variants."""

from __future__ import annotations

import numpy as np

from partita.engines.kernels.arrays import Floats, Ints, Longs
from partita.engines.kernels.compiled import compiled, inlined
from partita.engines.kernels.rows import pins_of, sets_with
from partita.engines.kernels.throughput.arrays import Arrays, Lines
from partita.engines.kernels.throughput.blocks import BlockProblem


@inlined
def stages_of_net(a: Arrays | BlockProblem, e: int, label: Ints, mark: Longs) -> int:
    """How many stages hold pins of net e; they are marked with its number."""
    stages = 0
    for u in pins_of(a.net, e):
        stage = label[u]
        if mark[stage] != e:
            mark[stage] = e
            stages += 1
    return stages


@compiled
def segment_loads(
    a: Arrays | BlockProblem, work: Floats, cost: Floats, label: Ints, kind_of: Ints, loads: Floats
) -> None:
    """Load of every stage of an assignment of items to stages: (K, n) ``work``, and (K, m) ``cost`` of cut nets."""
    loads[:] = 0.0
    mark = np.full(loads.shape[0], -1, np.int64)
    for v in range(label.shape[0]):
        loads[label[v]] += work[kind_of[label[v]], v]
    for e in range(a.net.ptr.shape[0] - 1):
        if stages_of_net(a, e, label, mark) < 2:
            continue
        for u in pins_of(a.net, e):
            stage = label[u]
            if mark[stage] == e:
                mark[stage] = -1
                loads[stage] += cost[kind_of[stage], e]


@compiled
def stage_values(
    a: Arrays,
    b: Lines,
    label: Ints,
    kind_of: Ints,
    flights: Longs,
    space: Floats,
    values: Floats,
    extra: Floats,
    links: Floats,
) -> None:
    """Lines of every stage, bytes over its memory and bytes it synchronises (``extra``), and lines of the groups.

    ``space`` is what stages need while they run, or 0 for the largest workspace of their items.
    """
    stages, recompute = values.shape[0], a.recompute
    share = np.ones_like(flights) if recompute else flights
    values[:] = 0.0
    extra[:] = 0.0
    links[:] = 0.0
    for v in range(label.shape[0]):
        i = label[v]
        values[i] += b.work[kind_of[i], v]
        extra[i, 0] += a.fixed[v] + share[i] * a.active[v]
        extra[i, 1] += b.sync[v]
        space[i] = max(space[i], a.workspace[v])
    mark = np.full(stages, -1, np.int64)
    group = np.zeros(2, np.bool_)
    for e in range(a.net.ptr.shape[0] - 1):
        if stages_of_net(a, e, label, mark) < 2:
            continue
        home = label[b.maker[e]]
        source = label[a.net_source[e]] if a.net_source[e] >= 0 else -1
        group[:] = False
        for u in pins_of(a.net, e):
            stage = label[u]
            if mark[stage] != e:
                continue
            mark[stage] = -1
            group[b.phase[kind_of[stage]]] = True
            values[stage] += b.cost_out[kind_of[stage], e] if stage == home else b.cost_in[kind_of[stage], e]
            if recompute and source >= 0 and stage != source:
                extra[stage, 0] += flights[stage] * a.net_entering[e]
        if group[0] and group[1]:
            g = b.phase[kind_of[home]]
            links[g] += b.group_out[g, e]
            links[1 - g] += b.group_in[1 - g, e]
    held = np.zeros((a.cover_fixed.shape[0], stages), np.bool_)
    for v in range(label.shape[0]):
        i = label[v]
        for c in sets_with(a.cover, v):
            if not held[c, i]:
                held[c, i] = True
                extra[i, 0] += a.cover_fixed[c] + share[i] * a.cover_active[c]
                extra[i, 1] += b.cover_sync[c]
    for i in range(stages):
        extra[i, 0] = max(0.0, extra[i, 0] + space[i] - a.memory[kind_of[i]])
