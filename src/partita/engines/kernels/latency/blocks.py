"""Ways through a block between separators: what leaves the piece before, what is between, what joins the next."""

from __future__ import annotations

import numpy as np

from partita.engines.kernels.arrays import Floats, Longs
from partita.engines.kernels.compiled import compiled


@compiled
def block_options(
    ideals: Longs,
    by_memory: Longs,
    out: Floats,
    into: Floats,
    work: Floats,
    rest: Floats,
    cpu: Floats,
    acc: Floats,
    comm: Floats,
    before: Longs,
    after: Longs,
) -> tuple[Floats, Longs, Longs, Longs]:
    """Cost, pieces between, and the numbers of the two ideals, of every way that may be needed.

    ``ideals`` are the predecessor-closed sets of the block as bits; a way is a pair X ⊆ I of them: X joins the piece
    before, what is not in I joins the one after, and I without X is between. ``out`` and ``into`` are what the two
    pieces pay, infinite for ideals that are none of theirs; ``work`` and ``rest`` the work of an ideal and of what is
    not in it. ``cpu``, ``acc``, ``comm`` are of the operators, ``before`` and ``after`` what each reads and who reads
    it as bits; the last bit, and the last of ``comm``, are the separators'. ``by_memory`` lists the ideals by their
    memory. Of ways with one I, only those are listed that cost less than all with less memory in X.

    Between, all on the CPU take the longest path of ``cpu``. With a piece there, a path takes at least what it does if
    every operator has the better of both places, where it pays for each tensor that goes from one to the other, or
    enters or leaves on an accelerator.
    """
    count, n = ideals.shape[0], cpu.shape[0]
    cost, pieces = np.empty(1024), np.empty(1024, np.int64)
    first, last = np.empty(1024, np.int64), np.empty(1024, np.int64)
    found = 0
    path_cpu, on_cpu, on_acc = np.zeros(n), np.zeros(n), np.zeros(n)
    for i in range(count):
        least0, least1 = np.inf, np.inf
        for q in range(count):
            x = by_memory[q]
            if ideals[x] & ~ideals[i]:
                continue
            base = out[x] + into[i] + work[x] + rest[i]
            if base >= least0 and base >= least1:
                continue
            between = ideals[i] & ~ideals[x]
            none, some = base, np.inf
            if between:
                alone, latest = 0.0, 0.0
                for v in range(n):
                    if not (between >> v) & 1:
                        continue
                    ready, a, b = 0.0, 0.0, 0.0
                    reads = before[v]
                    u = 0
                    while reads:
                        if reads & 1:
                            c = comm[u]
                            if u == n or not (between >> u) & 1:
                                b = max(b, c)
                            else:
                                ready = max(ready, path_cpu[u])
                                a = max(a, min(on_cpu[u], on_acc[u] + c))
                                b = max(b, min(on_cpu[u] + c, on_acc[u]))
                        reads >>= 1
                        u += 1
                    path_cpu[v] = ready + cpu[v]
                    on_cpu[v], on_acc[v] = a + cpu[v], b + acc[v]
                    alone = max(alone, path_cpu[v])
                    if after[v] & ~between:
                        latest = max(latest, min(on_cpu[v], on_acc[v] + comm[v]))
                none, some = base + alone, base + latest
            for p in range(2):
                value = none if p == 0 else some
                if value < (least0 if p == 0 else least1) and (p == 0 or value < none):
                    if p == 0:
                        least0 = value
                    else:
                        least1 = value
                    if found == cost.shape[0]:
                        cost = np.concatenate((cost, np.empty(found)))
                        pieces = np.concatenate((pieces, np.empty(found, np.int64)))
                        first = np.concatenate((first, np.empty(found, np.int64)))
                        last = np.concatenate((last, np.empty(found, np.int64)))
                    cost[found], pieces[found], first[found], last[found] = value, p, x, i
                    found += 1
    return cost[:found], pieces[:found], first[:found], last[:found]
