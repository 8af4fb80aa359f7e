"""The compiled engine of serving against a plain one, and what holds of any run."""

from __future__ import annotations

import numpy as np
import pytest

from instances.serving import ServingRun, random_run
from partita.engines.kernels.serving.arrays import promised
from partita.problems.serving.engine import Served, run_units

#: Workloads in one test.
_PART = 100


def served(run: ServingRun) -> Served:
    found = run_units(run.units, run.drawn, run.prefixes)
    assert found is not None
    return found


def compare(run: ServingRun) -> None:
    """Every time, every step, and what the caches held are the same, to the last digit."""
    found = served(run)
    requests, totals, plain = found.requests, found.totals, run.plain
    assert found.end_s == plain.run()
    assert requests.arrival.tolist() == [one.arrival for one in plain.requests]
    assert requests.first.tolist() == [one.tokens[0] for one in plain.requests]
    assert requests.last.tolist() == [one.tokens[-1] for one in plain.requests]
    assert requests.begun.tolist() == [one.begun for one in plain.requests]
    assert requests.preempted.tolist() == [one.preempted for one in plain.requests]
    assert totals.steps.sum() == len(plain.log)
    for step, (unit, spans, prompts, decodes, used) in enumerate(plain.log):
        assert totals.unit[step] == unit
        assert totals.span[step, : len(spans)].tolist() == [list(span) for span in spans]
        assert (totals.step_prompts[step], totals.step_decodes[step]) == (prompts, decodes)
        assert totals.step_bytes[step] == used
    assert totals.peak.tolist() == [max(s.peak for s in unit.schedulers) for unit in plain.units]
    gaps = [after - before for one in plain.requests for before, after in zip(one.tokens, one.tokens[1:], strict=False)]
    assert (totals.gap_sum[0], totals.gap_sum[1]) == (sum(gaps), len(gaps))
    assert totals.gaps.sum() == len(gaps)


@pytest.mark.parametrize("part", range(10))
def test_as_the_plain_engine(part: int) -> None:
    """A thousand small workloads, with preemption, chunks, pipelines, splits and shared prefixes among them."""
    preempted = split = stages = groups = prefixes = spaced = uneven = 0
    for seed in range(part * _PART, (part + 1) * _PART):
        run = random_run(seed)
        compare(run)
        preempted += any(one.preempted for one in run.plain.requests)
        split += any(unit.role == "decode" for unit in run.units)
        stages += any(unit.form.prices.stages > 1 for unit in run.units)
        groups += any(unit.form.prices.attention_data > 1 for unit in run.units)
        uneven += any(unit.form.prices.uneven for unit in run.units)
        prefixes += bool(run.prefixes)
        spaced += any(unit.interval > 1 and unit.role == "both" for unit in run.units)
    assert min(preempted, split, stages, groups, prefixes, spaced, uneven) >= 4


@pytest.mark.parametrize("seed", range(2000, 2200))
def test_what_holds_of_every_run(seed: int) -> None:
    """Nothing is lost, tokens follow their prompts, and caches hold what they can."""
    run = random_run(seed)
    found = served(run)
    requests, totals, drawn = found.requests, found.totals, run.drawn
    # No request lost: all of its tokens came out, and nobody holds anything any more.
    assert (requests.generated == drawn.output_tokens).all()
    assert (requests.held == 0).all() or (requests.home == -1).all()
    assert totals.gap_sum[1] == (drawn.output_tokens - 1).sum()
    # The first token comes after the request was admitted, that after it arrived.
    assert (requests.begun >= requests.arrival).all()
    assert (requests.first > requests.begun).all()
    assert (requests.last >= requests.first).all()
    # The cache never holds more than there is.
    for unit, peak in zip(run.units, totals.peak, strict=True):
        assert 0 <= peak <= unit.form.prices.cache_budget_bytes[0]
    # Prompts are computed once, but for prefixes that are there already and what preempted ones lost.
    if not run.prefixes and not requests.preempted.any():
        assert totals.prompt_tokens.sum() == drawn.prompt_tokens.sum()
        assert totals.decode_tokens.sum() == (drawn.output_tokens - 1).sum()
    # A closed loop has as many in flight as it is asked for, and stages do one thing at a time.
    if drawn.in_flight:
        assert totals.counts[5] <= drawn.in_flight
    for unit in range(len(run.units)):
        own = totals.span[: found.recorded][totals.unit[: found.recorded] == unit]
        assert (own[1:, :, 0] >= own[:-1, :, 1]).all()
        assert totals.busy[unit, 0] == (own[:, 0, 1] - own[:, 0, 0]).sum()


def test_a_run_ends_as_soon_as_too_many_have_missed_a_promise() -> None:
    """Of either promise so many may miss it as do in the whole run, and not one less."""
    ended = 0
    for seed in range(25):
        run = random_run(seed)
        requests = served(run).requests
        several = requests.output > 1
        tpot = (requests.last - requests.first)[several] / (requests.output[several] - 1)
        for name, spared, times in (("ttft_s", "late", requests.first - requests.arrival), ("tpot_s", "slow", tpot)):
            for limit in np.unique(times)[:-1].tolist():
                missed = int((times > limit).sum())
                for may in (missed, missed - 1):
                    promises = promised(**{name: limit, spared: may})
                    kept = run_units(run.units, run.drawn, run.prefixes, promises=promises)
                    assert (kept is not None) == (may == missed)
                ended += 1
    assert ended >= 50


def plain_runs() -> list[ServingRun]:
    """Runs with one unit of one stage."""
    found = []
    for seed in range(2200, 2240):
        run = random_run(seed)
        run.units[:] = [unit for unit in run.units if unit.form.prices.stages == 1 and unit.role == "both"][:1]
        found += [run] if run.units else []
    return found


@pytest.mark.parametrize("run", plain_runs()[:20])
def test_work_is_conserved(run: ServingRun) -> None:
    """A unit of one stage never waits while there is something that it could do."""
    found = served(run)
    spans = found.totals.span[: found.recorded, 0]
    requests = found.requests
    for start, end in zip(spans[1:, 0], spans[:-1, 1], strict=True):
        if start > end:
            # Nobody is in the system between two steps.
            inside = (requests.arrival + run.units[0].form.prices.arrival_s < start) & (requests.last > end)
            assert not inside.any()


def test_same_requests_same_times() -> None:
    """Nothing is drawn in the engine."""
    for seed in range(20):
        first, second = served(random_run(seed)), served(random_run(seed))
        assert np.array_equal(first.requests.last, second.requests.last)
        assert first.totals.steps.tolist() == second.totals.steps.tolist()
