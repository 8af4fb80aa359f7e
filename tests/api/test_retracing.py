"""Sizes of microbatches that are traced in a process beside: the same graphs, and each traced once."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from partita.api import retracing
from partita.api.retracing import Retraced
from partita.api.tracing import Tracing, traced, with_samples

pytest.importorskip("transformers")

SMALL = {"n_layer": 2, "n_embd": 32, "n_head": 2}


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tracing:
    """A small model, and a folder of its own for graphs."""
    monkeypatch.setenv("PARTITA_CACHE", str(tmp_path))
    return Tracing(training=True, sequence_length=16, set=SMALL)


def graphs(folder: Path) -> int:
    return len(list(folder.rglob("*.graph")))


def test_the_last_sizes_are_traced_beside(asked: Tracing, tmp_path: Path) -> None:
    again = Retraced("hf:gpt2", asked, took=60.0)
    again.expect([2, 4, 8])
    ends = time.monotonic() + 120
    # Nobody asks for a while, so that it traces all of them.
    while graphs(tmp_path) < 3 and time.monotonic() < ends:
        time.sleep(0.1)
    assert graphs(tmp_path) == 3
    for size in (2, 4, 8):
        found = again(size)
        assert found.samples == size
        assert found == traced("hf:gpt2", with_samples(Tracing(**{**vars(asked), "cache": False}), size))
    assert graphs(tmp_path) == 3
    assert again._child is None


def test_a_size_that_is_taken_is_left_to_who_took_it(asked: Tracing) -> None:
    again = Retraced("hf:gpt2", asked, took=60.0)
    again.expect([2, 4, 8])
    assert [again(size).samples for size in (2, 4, 8)] == [2, 4, 8]
    assert again._child is None


def test_without_the_process_beside_everything_is_traced_here(asked: Tracing) -> None:
    again = Retraced("hf:gpt2", asked, took=60.0)
    again.expect([2, 4])
    assert again._child is not None
    again._child.process.kill()
    assert [again(size).samples for size in (2, 4)] == [2, 4]


@pytest.mark.parametrize(
    ("model", "cache", "took", "sizes"),
    [("hf:gpt2", True, 0.1, [2, 4]), ("hf:gpt2", False, 60.0, [2, 4]), ("hf:gpt2", True, 60.0, [2]),
     ("models.py:one", True, 60.0, [2, 4])],
)  # fmt: skip
def test_nothing_is_traced_beside_where_it_is_not_worth_it(
    asked: Tracing, monkeypatch: pytest.MonkeyPatch, model: str, cache: bool, took: float, sizes: list[int]
) -> None:
    monkeypatch.setattr(retracing, "Child", None)
    Retraced(model, Tracing(**{**vars(asked), "cache": cache}), took).expect(sizes)
