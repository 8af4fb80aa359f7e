"""Requests: lengths, arrivals, and what is refused of them."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from partita.ground.errors import InputError
from partita.nouns.workload.workload import LengthShare, RequestTrace, RequestWorkload

TRACE = RequestTrace(arrival_s=(1.0, 2.0, 5.0), prompt_tokens=(10, 20, 30), output_tokens=(1, 2, 3))
FIXED: dict[str, Any] = {"prompt_tokens": 10, "output_tokens": 4}


def test_a_closed_loop_has_ten_requests_for_each_in_flight() -> None:
    drawn = RequestWorkload(**FIXED, concurrency=3).drawn()
    assert drawn.in_flight == 3
    assert drawn.prompt_tokens.tolist() == [10] * 30
    assert drawn.output_tokens.tolist() == [4] * 30
    assert drawn.group.tolist() == [-1] * 30


def test_a_poisson_process_has_its_rate() -> None:
    drawn = RequestWorkload(**FIXED, rate_per_s=4.0, requests=20_000).drawn()
    gaps = np.diff(drawn.arrival_s)
    assert (gaps >= 0).all()
    assert gaps.mean() == pytest.approx(0.25, rel=0.03)
    # Of exponential times the deviation is the mean.
    assert gaps.std() == pytest.approx(0.25, rel=0.03)
    assert drawn.in_flight == 0
    assert RequestWorkload(**FIXED, rate_per_s=4.0).count == 1000


def test_a_histogram_is_drawn_by_its_shares() -> None:
    bars = (
        LengthShare(prompt_tokens=10, output_tokens=1, share=3.0),
        LengthShare(prompt_tokens=20, output_tokens=2, share=1.0),
    )
    workload = RequestWorkload(histogram=bars, concurrency=1, requests=10_000)
    drawn = workload.drawn()
    assert (drawn.prompt_tokens == 10 * drawn.output_tokens).all()
    assert (drawn.prompt_tokens == 10).mean() == pytest.approx(0.75, abs=0.02)
    assert workload.lengths() == [(10, 1), (20, 2)]


def test_same_seed_same_requests() -> None:
    first, again, other = (RequestWorkload(**FIXED, rate_per_s=1.0, seed=seed).drawn().arrival_s for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_a_trace_begins_at_once_and_can_be_scaled() -> None:
    assert RequestWorkload(trace=TRACE).drawn().arrival_s.tolist() == [0.0, 1.0, 4.0]
    # Two gaps in four seconds are half a request per second.
    assert RequestWorkload(trace=TRACE, rate_per_s=1.0).drawn().arrival_s.tolist() == [0.0, 0.5, 2.0]
    assert RequestWorkload(trace=TRACE, requests=2).drawn().prompt_tokens.tolist() == [10, 20]


def test_a_trace_that_is_too_short_starts_again() -> None:
    drawn = RequestWorkload(trace=TRACE, requests=5).drawn()
    assert drawn.prompt_tokens.tolist() == [10, 20, 30, 10, 20]
    assert drawn.arrival_s.tolist() == [0.0, 1.0, 4.0, 6.0, 7.0]
    closed = RequestWorkload(trace=TRACE, concurrency=1).drawn()
    assert closed.prompt_tokens.tolist() == [10, 20, 30] * 3 + [10]


def test_a_spread_is_uniform_to_both_sides() -> None:
    workload = RequestWorkload(prompt_tokens=10, output_tokens=1000, concurrency=1, requests=5000, spread=0.1)
    output = workload.drawn().output_tokens
    assert output.min() >= 900
    assert output.max() <= 1100
    assert output.mean() == pytest.approx(1000, rel=0.01)
    assert workload.lengths() == [(10, 900), (10, 1100)]


def test_prefixes_belong_to_groups() -> None:
    drawn = RequestWorkload(**FIXED, concurrency=50, prefix_tokens=8, prefix_groups=3).drawn()
    assert set(drawn.group.tolist()) == {0, 1, 2}


def test_it_survives_json() -> None:
    workload = RequestWorkload(trace=TRACE, rate_per_s=2.0, prefix_tokens=5)
    assert msgspec.json.decode(msgspec.json.encode(workload), type=RequestWorkload) == workload


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"concurrency": 1}, "exactly one way.*it has 0"),
        ({**FIXED, "trace": TRACE}, "it has 2"),
        ({"prompt_tokens": 3, "concurrency": 1}, "output_tokens is missing"),
        ({**FIXED, "concurrency": 1, "rate_per_s": 1.0}, "leave one out"),
        ({"prompt_tokens": 0, "output_tokens": 1, "concurrency": 1}, "prompt_tokens is 0"),
        ({"prompt_tokens": 1, "output_tokens": -1, "concurrency": 1}, "output_tokens is -1"),
        ({**FIXED, "rate_per_s": 0.0}, "rate_per_s is 0.0"),
        ({**FIXED, "concurrency": 0}, "concurrency is 0"),
        ({**FIXED, "concurrency": 1, "prefix_tokens": 11}, "the shortest prompt has 10"),
        ({**FIXED, "concurrency": 1, "spread": 1.0}, "spread is 1.0"),
        ({"histogram": (LengthShare(prompt_tokens=1, output_tokens=1, share=0.0),), "concurrency": 1}, "share is 0.0"),
        ({"trace": msgspec.structs.replace(TRACE, arrival_s=(1.0, 0.5, 2.0))}, "request 1 .* arrives at 0.5 s"),
        ({"trace": msgspec.structs.replace(TRACE, arrival_s=(1.0, 2.0))}, "not equally many"),
        ({"trace": msgspec.structs.replace(TRACE, prompt_tokens=(1, -2, 3))}, "request 1 .* prompt_tokens is -2"),
        ({"trace": RequestTrace(arrival_s=(), prompt_tokens=(), output_tokens=())}, "has no requests"),
        ({"trace": msgspec.structs.replace(TRACE, arrival_s=(1.0,) * 3), "rate_per_s": 1.0}, "come all at once"),
    ],
)
def test_what_is_wrong_is_said(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        RequestWorkload(**fields)


def test_requests_are_not_drawn_where_it_is_open_when_they_come() -> None:
    with pytest.raises(InputError, match="give a concurrency, or a rate"):
        RequestWorkload(**FIXED).drawn()


def test_a_shorter_workload_has_fewer_requests_and_a_trace_stays_whole() -> None:
    drawn = RequestWorkload(prompt_tokens=100, output_tokens=20, rate_per_s=2.0, requests=50)
    assert drawn.shortened(20).count == 20
    assert len(drawn.shortened(20).drawn().arrival_s) == 20
    assert drawn.shortened(60) is drawn
    # The beginning of a trace has another rate than the whole.
    trace = RequestTrace(arrival_s=(0.0, 1.0, 9.0), prompt_tokens=(10, 10, 10), output_tokens=(2, 2, 2))
    recorded = RequestWorkload(trace=trace, rate_per_s=3.0)
    assert recorded.shortened(2) is recorded
