"""The exact program of acyclic splits, and the same with several blocks taken together.

What every split with loads up to a cutoff has in common (``charged_at``) makes both much stronger than the paper's
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

import numpy as np

from partita.engines.kernels.arrays import Floats
from partita.engines.kernels.throughput.blocks import BlockProblem
from partita.ground.rounding import TOLERANCE, up_to
from partita.problems.throughput.bounds.knowledge import Charged, suits_programs
from partita.problems.throughput.bounds.programs.block_rows import BlockProgram, OrderTables, order_of
from partita.problems.throughput.bounds.programs.minmax_program import MinMaxProgram, ProgramMember, ProgramRun

#: Targets of the merged programs, as the part of the way from the bound to the best value.
STEP = 0.5
#: A target this close to the best value (relative) is replaced by it.
NEAR = 2e-3
#: Rows of distances per item, at most: the shortest chains say most.
DISTANCES = 6


def split_program(
    run: ProgramRun, sizes: list[int], facts: Charged, order: OrderTables | None = None
) -> MinMaxProgram | None:
    """Minimise the largest average load of superblocks with so many blocks each, up to the target of the facts.

    With sizes of 1 this is the exact program. Otherwise a superblock costs at most what its blocks cost together. None
    if the run ends before the program is there: with many blocks of a large graph it is long to write down.
    """
    uniform, parts = run.knowledge.uniform, facts.parts
    blocks = BlockProgram(uniform, len(sizes), order)
    program = MinMaxProgram(blocks, run, run.knowledge.bound, facts.target)
    place = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    blocks.keep_within(place[parts.first], place[parts.last])
    whole = max(sizes) == 1
    if whole:
        blocks.apart, blocks.split_nets = facts.apart, parts.forced > 0
    for b, size in enumerate(sizes):
        if run.over:
            return None
        cuts = program.cuts(b, size)
        program.limit([*blocks.work(b, scale=program.scale), *cuts.values()], size)
        if (facts.work > up_to(uniform.work)).any():
            others = [cost for net, cost in cuts.items() if not parts.forced[net]]
            program.limit([*blocks.work(b, facts.work, program.scale), *others], size)
    if whole:
        _add_distances(blocks, facts, run)
    return program


def _add_distances(blocks: BlockProgram, facts: Charged, run: ProgramRun) -> None:
    """Rows for items that are several blocks apart, as many as there are by the end of the run.

    What lies between u and v, both included, needs at least ceil(charge / target) blocks, so v is at least one less
    than that many blocks after u: y_v(b+d) <= y_ub. Pairs follow from others where a neighbour of u or v in the order
    is as far from the other.
    """
    reach, hulls = blocks.order.reach, blocks.order.hulls(facts.work)
    n, last = blocks.uniform.items, blocks.count - 1
    need = np.ceil(hulls / facts.target - TOLERANCE)
    far = np.where(reach, np.maximum(need - 1, 0), 0).astype(np.int64)
    far = np.where(reach & facts.apart, np.maximum(far, 1), far)
    np.fill_diagonal(far, 0)
    implied = np.zeros((n, n), dtype=bool)
    for u, v in blocks.order.edges:
        implied[u] |= far[v] >= far[u]
        implied[:, v] |= far[:, u] >= far[:, v]
    rows, columns = np.nonzero((far > 0) & ~implied)
    weight = far[rows, columns] * facts.target - hulls[rows, columns]
    lightest = np.argsort(weight, kind="stable")[: DISTANCES * n] if len(rows) > DISTANCES * n else slice(None)
    for u, v in zip(rows[lightest].tolist(), columns[lightest].tolist(), strict=True):
        if run.over:
            return
        d = int(far[u, v])
        for b in range(max(0, last - d)):
            blocks.row([blocks.early(u, b), blocks.early(v, b + d, -1.0)], lower=0.0)


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
    argument = (
        "a program that every split satisfies with neighbouring blocks merged, bounded by HiGHS, lowered by its "
        "tolerances"
    )

    def share(self, uniform: BlockProblem) -> float:
        """Most where blocks are large, and there are more than its smallest program has."""
        return 0.0 if uniform.devices < 3 else 3.0 if suits_programs(uniform) else 1.0

    def programs(self, run: ProgramRun) -> None:
        """Programs from small to large, each for rising targets as long as they are refuted."""
        knowledge = run.knowledge
        order = order_of(knowledge.uniform)
        plans = compositions(knowledge.uniform.devices)
        for number, sizes in enumerate(plans):
            refuted = True
            while refuted and not knowledge.done:
                if run.left_s() <= 0:
                    return
                top = run.cutoff
                target = knowledge.bound + STEP * (top - knowledge.bound)
                target = top if top - target < NEAR * top else target
                facts = run.facts(target)
                if facts is not None:
                    share = 1.0 if number == len(plans) - 1 else 0.5
                    program = split_program(run, sizes, facts, order)
                    if program is None:
                        return
                    program.race(share * run.left_s())
                refuted = knowledge.bound >= target and target < top


class ExactBound(ProgramMember):
    """The exact program, with a cutoff just below the best value known: its proof ends with no solution at all.

    A start from the best split would be outside of that cutoff; it is given by the cutoff instead. Better splits that
    turn up are evaluated anew and shared. HiGHS and SCIP run side by side.
    """

    name = "exact-mip"
    summary = "exact program of acyclic splits, branching on which items are in a block or before (needs HiGHS)"
    argument = "the program of all acyclic splits, bounded by HiGHS, lowered by its tolerances"

    def share(self, uniform: BlockProblem) -> float:
        """Most where blocks are large: there are few of them then."""
        return 4.0 if suits_programs(uniform) else 1.0

    def programs(self, run: ProgramRun) -> None:
        """One program; its bound counts as it rises. Without a deadline it ends with the optimum."""
        knowledge, uniform = run.knowledge, run.knowledge.uniform
        if not math.isfinite(knowledge.value):
            # One block of everything: a split as good as any to begin with.
            knowledge.offer_blocks(np.zeros(uniform.items, dtype=np.int32), self.name)
        facts = None if knowledge.done else run.facts(run.cutoff)
        if facts is None:
            return
        program = split_program(run, [1] * uniform.devices, facts)
        if program is None:
            return

        def offer(values: Floats) -> None:
            knowledge.offer_blocks(program.blocks.label(values), self.name)

        # No better split: the best one known before is optimal, up to the step below it.
        program.race(run.left_s(), offer)
