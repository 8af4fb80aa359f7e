"""The exact program of acyclic splits, and the same with several blocks taken together.

What every split with loads up to a cutoff has in common (``facts_at``) makes both much stronger than the paper's
program, whose linear relaxation spreads every item evenly over the blocks and cuts nothing: windows fix variables; a
net that is cut in any case costs every block with a pin of it, once for pins that are apart; and charged work bounds
blocks. Charged work counts nets that are cut in any case only, so the nets that need not be cut are added to it:
Σ charge(v)·x_vb + Σ cost(e)·c_eb over those <= the largest load.

Source of the exact program: Archer et al., "Practical Performance Guarantees for Pipelined DNN Inference" (ICML 2024),
§3.1, solved by branching on y as there.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np

from partita.kernels.throughput.blocks import BlockProblem
from partita.mip.model import Floats
from partita.problems.throughput.bounds.knowledge import Knowledge
from partita.problems.throughput.bounds.programs.block_rows import BlockProgram
from partita.problems.throughput.bounds.programs.implied_by_target import Facts, add_distances
from partita.problems.throughput.bounds.programs.minmax_program import Program, race
from partita.problems.throughput.bounds.programs.order_tables import OrderTables, order_of
from partita.problems.throughput.bounds.programs.program_bound import ProgramMember
from partita.problems.throughput.bounds.protocol import suits_programs

#: Targets of the merged programs, as the part of the way from the bound to the best value.
STEP = 0.5
#: A target this close to the best value (relative) is replaced by it.
NEAR = 2e-3


def split_program(
    uniform: BlockProblem,
    sizes: list[int],
    low: float,
    cutoff: float,
    grain: float,
    *,
    order: OrderTables | None = None,
    facts: Facts | None = None,
) -> Program:
    """Minimise the largest average load of superblocks with so many blocks each.

    With sizes of 1 this is the exact program. Otherwise a superblock costs at most what its blocks cost together.
    """
    blocks = BlockProgram(uniform, len(sizes), order)
    program = Program.over(blocks, low, cutoff, grain)
    whole = max(sizes) == 1
    if facts is not None:
        place = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
        blocks.keep_within(place[facts.first], place[facts.last])
        if whole:
            blocks.apart, blocks.split_nets = facts.apart, facts.forced
    for b, size in enumerate(sizes):
        cuts = blocks.cuts(b, program.scale)
        program.limit([*blocks.work(b, scale=program.scale), *cuts.values()], size)
        if facts is not None and (facts.work > uniform.work * (1 + 1e-9)).any():
            others = [cost for net, cost in cuts.items() if not facts.forced[net]]
            program.limit([*blocks.work(b, facts.work, program.scale), *others], size)
    if facts is not None and whole:
        add_distances(blocks, facts)
    return program


def compositions(devices: int) -> list[list[int]]:
    """Sizes of two, three and four superblocks, those that are not single blocks already."""
    found = []
    for count in (2, 3, 4):
        if devices > count:
            bounds = [round(i * devices / count) for i in range(count + 1)]
            found.append([b - a for a, b in itertools.pairwise(bounds)])
    return found


class MergedBound(ProgramMember):
    """The exact program of two, three, four superblocks of several blocks each, whose average load is bounded.

    A superblock of q blocks costs at most what they cost together: its work is theirs, and a net that it cuts is cut by
    at least one of them. So the largest load is at least a q-th of its cost. Charged work of the blocks adds up, too.
    Targets below the best value make the facts stronger and the program easier: what it proves holds up to the target.
    """

    name = "merged-mip"
    summary = "exact program of a few superblocks of several blocks each, with charged work (needs HiGHS)"

    def share(self, uniform: BlockProblem) -> float:
        """Most where blocks are large, and there are more than its smallest program has."""
        return 0.0 if uniform.devices < 3 else 3.0 if suits_programs(uniform) else 1.0

    def run(self, knowledge: Knowledge, grain: float, left_s: Callable[[], float]) -> None:
        """Programs from small to large, each for rising targets as long as they are refuted."""
        uniform = knowledge.uniform
        order = order_of(uniform)
        plans = compositions(uniform.devices)
        for number, sizes in enumerate(plans):
            refuted = True
            while refuted and not knowledge.done:
                if left_s() <= 0:
                    return
                top = self.cutoff(knowledge, grain)
                target = knowledge.bound + STEP * (top - knowledge.bound)
                target = top if top - target < NEAR * top else target
                facts = self.facts(knowledge, target, grain, left_s)
                if facts is None:
                    refuted = target < top
                    continue
                program = split_program(uniform, sizes, knowledge.bound, target, grain, order=order, facts=facts)
                share = 1.0 if number == len(plans) - 1 else 0.5
                proven = race(program, knowledge, time_s=share * left_s(), on_bound=self.prove(knowledge))
                refuted = proven >= target and target < top


class ExactBound(ProgramMember):
    """The exact program, with a cutoff just below the best value known: its proof ends with no solution at all.

    A start from the best split would be outside of that cutoff; it is given by the cutoff instead. Better splits that
    turn up are evaluated anew and shared. HiGHS and SCIP run side by side.
    """

    name = "exact-mip"
    summary = "exact program of acyclic splits, branching on which items are in a block or before (needs HiGHS)"

    def share(self, uniform: BlockProblem) -> float:
        """Most where blocks are large: there are few of them then."""
        return 4.0 if suits_programs(uniform) else 1.0

    def run(self, knowledge: Knowledge, grain: float, left_s: Callable[[], float]) -> None:
        """One program; its bound counts as it rises. Without a deadline it ends with the optimum."""
        uniform = knowledge.uniform
        if not math.isfinite(knowledge.value):
            # One block of everything: a split as good as any to begin with.
            everything = np.ones(uniform.items, dtype=bool)
            knowledge.offer(np.zeros(uniform.items, dtype=np.int32), uniform.load(everything), self.name)
        if knowledge.done:
            return
        cutoff = self.cutoff(knowledge, grain)
        facts = self.facts(knowledge, cutoff, grain, left_s)
        if facts is None:
            return
        program = split_program(uniform, [1] * uniform.devices, knowledge.bound, cutoff, grain, facts=facts)

        def offer(values: Floats) -> None:
            label = program.blocks.label(values)
            knowledge.offer(label, max(uniform.load(label == b) for b in range(uniform.devices)), self.name)

        # No better split: the best one known before is optimal, up to the step below it.
        race(program, knowledge, time_s=left_s(), on_bound=self.prove(knowledge), on_point=offer)
