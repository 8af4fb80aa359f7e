"""Whatever is typed as a cluster is understood or refused; nothing else happens."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partita.ground.errors import InputError
from partita.nouns.cluster import Cluster
from partita.problems.facets.report import network_sentences

TOKENS = st.sampled_from(
    ["2x", "3", "x", "L4", "T4", "A100-80GB", "CPU", "(", ")", "+", "@", ":", "pcie4", "0x", " ", "-"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 5) | st.floats() | st.sampled_from(["L4", "2xL4", "pcie4", "x"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["count", "devices", "link", "base", "L4", "X", "memory_bytes", "peak_flops", "latency_s"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)
KEYS = ["name", "cluster", "machines", "network", "devices", "links", "bandwidth_bytes_per_s", "format", "version"]


@given(st.lists(TOKENS, max_size=10).map("".join) | st.text(max_size=12))
def test_any_text_is_a_cluster_or_an_input_error(text: str) -> None:
    with contextlib.suppress(InputError):
        cluster = Cluster.from_spec(text)
        assert Cluster.from_document(json.loads(cluster.to_json()), where="again") == cluster


@given(st.dictionaries(st.sampled_from(KEYS), JSON, max_size=4))
def test_any_document_is_a_cluster_or_an_input_error(data: dict[str, object]) -> None:
    with contextlib.suppress(InputError):
        cluster = Cluster.from_document(data, where="any.json")
        assert cluster.device_count > 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("8xH100-80GB", ()),
        ("4x(8xH100-80GB):infiniband-ndr", ("4 machines joined by infiniband-ndr, 360 GB/s each",)),
        (
            "4x(8xH100-80GB)",
            ("4 machines joined by ethernet-100g, 90 GB/s each (presumed: the cluster names no network;",),
        ),
    ],
)
def test_a_plan_names_the_network(text: str, said: tuple[str, ...]) -> None:
    found = network_sentences(Cluster.from_spec(text))
    assert len(found) == len(said)
    assert all(sentence.startswith(start) for sentence, start in zip(found, said, strict=True))
