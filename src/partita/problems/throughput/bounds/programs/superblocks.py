"""Bounds by three superblocks: the block looked at, all blocks before it, and all blocks after it.

Source: Archer et al., "Practical Performance Guarantees for Pipelined DNN Inference" (ICML 2024), §3.2 and §3.3.
"""

from __future__ import annotations

import operator
from functools import partial

import numpy as np

from partita.engines.kernels.arrays import Floats
from partita.ground.rounding import clearly_below, up_to
from partita.problems.throughput.bounds.knowledge import simple_bound
from partita.problems.throughput.bounds.programs.block_rows import BlockProgram, order_of
from partita.problems.throughput.bounds.programs.minmax_program import MinMaxProgram, ProgramMember, ProgramRun


class BottleneckBound(ProgramMember):
    """The cheapest convex block with at least the work that some block must have.

    Some block has at least L work, L the simple bound. With the items before that block in one superblock and those
    after it in another, its own cost is minimised: what the superblocks cost does not matter.
    """

    name = "bottleneck"
    summary = "cheapest convex block with at least the mean work: a program of three superblocks (needs HiGHS)"
    argument = "a program that every split's heaviest block satisfies, bounded by HiGHS, lowered by its tolerances"

    def programs(self, run: ProgramRun) -> None:
        """One program; its bound counts as it rises."""
        blocks = BlockProgram(run.knowledge.uniform, 3)
        program = MinMaxProgram(blocks, run, run.knowledge.bound, run.cutoff)
        program.limit(program.load(1))
        _fill(program)
        run.prove(program.solve(run.left_s(), on_bound=run.prove))


def _fill(program: MinMaxProgram) -> None:
    """Work of at least the simple bound in the block in the middle."""
    least = clearly_below(simple_bound(program.blocks.uniform)) * program.scale
    program.blocks.row(program.blocks.work(1, scale=program.scale), lower=least)


class GuessBound(ProgramMember):
    """For every j: the block with the work L is the j-th, and blocks before and after it cost their average.

    A superblock of q blocks costs no more than those together: its work is theirs, and a net that it cuts is cut by one
    of them (nets within it do not count, nets that enter several of its blocks count once). So the largest load is at
    least a q-th of it. The bound is the least one over all j: a guess can end once it is above another's result.
    """

    name = "bottleneck-guess"
    summary = "as bottleneck, for every position of the block, with the average cost of those before and after"
    argument = (
        "for each place of the heaviest block a program that every split satisfies, bounded by HiGHS, lowered by "
        "its tolerances"
    )

    def programs(self, run: ProgramRun) -> None:
        """One program for every position; nothing is proven before all have proven something."""
        knowledge, uniform = run.knowledge, run.knowledge.uniform
        k, charged = uniform.devices, knowledge.charged
        order = order_of(uniform)
        low, cutoff = knowledge.bound, run.cutoff
        least = cutoff
        # Guesses amid the pipeline are the weakest, mostly, and make the others end early.
        guesses = sorted(range(k), key=lambda j: (abs(2 * j - (k - 1)), j))
        for number, j in enumerate(guesses):
            if knowledge.done or least <= low:
                return
            blocks = BlockProgram(uniform, 3, order)
            program = MinMaxProgram(blocks, run, low, cutoff)
            if charged is not None and charged.target >= cutoff:
                place = np.sign(np.arange(k) - j) + 1
                blocks.keep_within(place[charged.parts.first], place[charged.parts.last])
            for block, share in ((0, j), (1, 1), (2, k - 1 - j)):
                if share:
                    program.limit(program.load(block, share), share)
            blocks.keep_within(np.full(uniform.items, int(j == 0)), np.full(uniform.items, 2 - int(j == k - 1)))
            _fill(program)
            # The first of them decide how far the others must get, which then end early.
            share_s = run.left_s() / min(2, len(guesses) - number)
            least = min(least, max(program.solve(share_s, enough=partial(operator.le, least)), low))
        run.prove(least)


class NodeProgramBound(ProgramMember):
    """The cheapest convex block with an item, for the item where that is most.

    The node bound computes the same over blocks that need not be convex, by minimum cuts. Items are taken by what is
    known to be their most: f of the item alone, and f of every convex block with it that a program has found. One whose
    most does not exceed the bound needs no program.
    """

    name = "node-mip"
    summary = "cheapest convex block with one operator, for the operator where it is most: a program each (needs HiGHS)"
    argument = (
        "for one operator the program of all convex blocks that hold it, bounded by HiGHS, lowered by its tolerances"
    )

    def programs(self, run: ProgramRun) -> None:
        """Every item that is proven counts; the bound of an unfinished program counts, too."""
        knowledge, uniform = run.knowledge, run.knowledge.uniform
        order = order_of(uniform)
        most = np.minimum(uniform.net_loads(), uniform.load(np.ones(uniform.items, dtype=bool)))
        blocks = BlockProgram(uniform, 3, order)
        program = MinMaxProgram(blocks, run, 0.0, run.cutoff)
        top = program.cutoff
        program.limit(program.load(1))
        lower, upper = list(blocks.model.lower), list(blocks.model.upper)

        def learn(values: Floats) -> None:
            members = blocks.label(values) == 1
            most[members] = np.minimum(most[members], uniform.load(members))

        while not knowledge.done and run.left_s() > 0:
            v = int(most.argmax())
            if most[v] <= up_to(knowledge.bound):
                return
            blocks.model.lower, blocks.model.upper = list(lower), list(upper)
            # A block that costs no more than this is known.
            known = float(most[v])
            cutoff = program.cutoff = min(top, known * (1 + 1e-6))
            blocks.model.lower[program.largest] = min(clearly_below(knowledge.bound), cutoff) * program.scale
            blocks.model.upper[program.largest] = cutoff * program.scale
            # What comes before v is in its block or before, what comes after in its block or after.
            first, last = np.zeros(uniform.items, np.int32), np.full(uniform.items, 2, np.int32)
            last[order.reach[:, v]] = 1
            first[order.reach[v]] = 1
            blocks.keep_within(first, last)

            def weak(_: float) -> bool:
                return bool(most[v] <= up_to(knowledge.bound))  # noqa: B023 - it runs in this round only

            proven = program.solve(
                run.left_s(),
                enough=weak,
                on_bound=lambda bound: run.prove(min(bound, known)),  # noqa: B023 - as above
                on_point=learn,
            )
            run.prove(min(proven, known))
            # Proven, or known to be too weak: not again.
            most[v] = min(most[v], knowledge.bound)
