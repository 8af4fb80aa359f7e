"""Where a library asks what fake tensors cannot answer, answer for it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from partita.frontends.capture import Recorder

__all__ = ["library_quirks"]


@contextmanager
def library_quirks(recorder: Recorder) -> Iterator[None]:
    """Let transformers see, while it is loaded, that counted positions hold one sequence a row.

    It looks for packed sequences in the position ids by value, and under fake tensors assumes the worst: a mask of
    sequence × sequence and keys repeated for every query head, neither of which the real run has. Positions that are
    constants were counted by the model itself, so they are not packed.
    """
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
