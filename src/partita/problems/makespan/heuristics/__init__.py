"""What people do by hand, and list scheduling heuristics of the literature: baselines, and where searches start."""

from __future__ import annotations

from partita.problems.makespan.heuristics.base import Heuristic
from partita.problems.makespan.heuristics.contiguous import Contiguous
from partita.problems.makespan.heuristics.cpop import Cpop
from partita.problems.makespan.heuristics.etf import MemoryEtf
from partita.problems.makespan.heuristics.getf import Getf
from partita.problems.makespan.heuristics.heft import Heft
from partita.problems.makespan.heuristics.plain import Fastest, SingleDevice
from partita.problems.makespan.heuristics.sct import MemorySct
from partita.problems.makespan.heuristics.topo import MemoryTopo

#: By hand first, then the heuristics.
HEURISTICS: tuple[Heuristic, ...] = (
    SingleDevice(),
    Fastest(),
    Contiguous(),
    MemoryTopo(),
    MemoryEtf(),
    MemorySct(),
    Getf(),
    Heft(),
    Cpop(),
)
