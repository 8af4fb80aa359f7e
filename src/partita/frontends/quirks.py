"""Where a library asks what fake tensors cannot answer, answer for it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from partita.frontends.capture import Recorder


@contextmanager
def library_quirks(module: Any, recorder: Recorder) -> Iterator[None]:
    """Let transformers, where it is loaded, run as it would on real tensors and without key-value caches.

    It looks for packed sequences in the position ids by value, and under fake tensors assumes the worst: a mask of
    sequence × sequence and keys repeated for every query head, neither of which the real run has. Positions that are
    constants were counted by the model itself, so they are not packed.
    """
    with ExitStack() as after:
        for child in module.modules():
            configuration = getattr(child, "config", None)
            if getattr(configuration, "use_cache", None) is True:
                after.callback(setattr, configuration, "use_cache", True)
                configuration.use_cache = False  # type: ignore[union-attr]
        masking: Any = sys.modules.get("transformers.masking_utils")
        original = getattr(masking, "find_packed_sequence_indices", None)
        if original is not None:

            def find_packed_sequence_indices(position_ids: Any) -> Any:
                return None if recorder.read(position_ids).value.constant else original(position_ids)

            after.callback(setattr, masking, "find_packed_sequence_indices", original)
            masking.find_packed_sequence_indices = find_packed_sequence_indices
        yield
