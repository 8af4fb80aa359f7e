"""What people do by hand, and list scheduling heuristics of the literature."""

from __future__ import annotations

from partita.problems.makespan.baselines.contiguous import Contiguous
from partita.problems.makespan.baselines.cpop import Cpop
from partita.problems.makespan.baselines.etf import MemoryEtf
from partita.problems.makespan.baselines.getf import Getf
from partita.problems.makespan.baselines.heft import Heft
from partita.problems.makespan.baselines.plain import Fastest, SingleDevice
from partita.problems.makespan.baselines.sct import MemorySct
from partita.problems.makespan.baselines.topo import MemoryTopo
from partita.problems.makespan.solvers.protocol import Solver

#: By hand first, then the heuristics.
DEFAULT_BASELINES: tuple[Solver, ...] = (
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
