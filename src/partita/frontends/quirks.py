"""Where a library asks what fake tensors cannot answer, answer for it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from partita.frontends.capture import Recorder


@contextmanager
def library_quirks(module: Any, recorder: Recorder) -> Iterator[None]:
    """Let transformers, where it is loaded, run as it would on real tensors and without key-value caches.

    It looks for packed sequences in the position ids by value, and under fake tensors assumes the worst: a mask of
    sequence × sequence and keys repeated for every query head, neither of which the real run has. Positions that are
    constants were counted by the model itself, so they are not packed.
    """
    with _no_caches(module), _counted_positions(recorder):
        yield


@contextmanager
def _no_caches(module: Any) -> Iterator[None]:
    configurations = {id(c): c for child in module.modules() if (c := getattr(child, "config", None)) is not None}
    caching = [c for c in configurations.values() if getattr(c, "use_cache", None) is True]
    for configuration in caching:
        configuration.use_cache = False
    try:
        yield
    finally:
        for configuration in caching:
            configuration.use_cache = True


@contextmanager
def _counted_positions(recorder: Recorder) -> Iterator[None]:
    masking = sys.modules.get("transformers.masking_utils")
    original = getattr(masking, "find_packed_sequence_indices", None)
    if masking is None or original is None:
        yield
        return

    def find_packed_sequence_indices(position_ids: Any) -> Any:
        return None if recorder.read(position_ids).value.constant else original(position_ids)

    masking.find_packed_sequence_indices = find_packed_sequence_indices  # type: ignore[attr-defined]
    try:
        yield
    finally:
        masking.find_packed_sequence_indices = original  # type: ignore[attr-defined]
