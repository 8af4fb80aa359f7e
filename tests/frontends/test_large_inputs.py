"""Inputs of many samples have a shape and no data: nothing as large is allocated."""

from __future__ import annotations

import resource

import pytest

import partita as pt

pytest.importorskip("torch")
pytest.importorskip("transformers")

FIELDS = {"n_layer": "1", "n_embd": "32", "n_head": "2", "vocab_size": "100"}


def test_a_million_samples_take_no_memory() -> None:
    samples, length = 2**20, 64
    pt.load_model("hf:gpt2", batch_size=2, sequence_length=length, set_fields=FIELDS)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    graph = pt.load_model("hf:gpt2", batch_size=samples, sequence_length=length, set_fields=FIELDS)
    grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    assert max(tensor.bytes for tensor in graph.tensors) > 2**31
    # One argument of whole numbers would be this large.
    assert grown < 8 * samples * length / 2


def test_more_is_refused() -> None:
    with pytest.raises(pt.InputError, match="batch size 1,048,577 is out of range; models are traced with at most"):
        pt.load_model("hf:gpt2", batch_size=2**20 + 1)
