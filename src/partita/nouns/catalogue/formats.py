"""Number formats of training, and which of them runtimes have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

#: ``any``: the runtime's script has none of its own. ``mixed``: float32, or a narrower format with states and a copy of
#: the weights in float32. ``sharded``: bfloat16 in such a mixture where weights are shared out, and float32.
Mixtures = Literal["any", "mixed", "sharded"]


class Formats(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Number formats of training."""

    weights: str  #: Of the weights that are trained; several names with commas where they differ.
    gradients: str  #: In which gradients are added up and exchanged.
    optimizer: str  #: Of what the optimizer keeps.
    master: bool  #: Whether it keeps a copy of the weights in that format, too.

    @property
    def alike(self) -> bool:
        """Whether all are in one format."""
        return self.weights == self.gradients == self.optimizer and not self.master

    def __str__(self) -> str:
        copied = " with a copy of the weights" if self.master else ""
        return f"weights in {self.weights}, gradients in {self.gradients}, states in {self.optimizer}{copied}"


def needs_shares(mixtures: Mixtures, formats: Formats) -> bool:
    """Whether a runtime has these formats only where weights are shared out."""
    return mixtures == "sharded" and not formats.alike


def format_refusals(mixtures: Mixtures, formats: Formats, optimizer: str, name: str) -> Iterator[str]:
    """Why a runtime does not train in these formats, a sentence each."""
    narrow = ("bfloat16",) if mixtures == "sharded" else ("bfloat16", "float16")
    if mixtures == "any":
        return
    if formats.weights not in ("float32", *narrow):
        yield f"{name} trains weights in float32 or {' or '.join(narrow)}, and the plan has {formats.weights}"
        return
    whole = formats.weights == "float32"
    added = ("float32",) if mixtures == "sharded" else ("float32", formats.weights)
    kept = formats.optimizer == "float32" and formats.master != whole
    if formats.gradients not in added or not kept:
        wanted = "float32" if whole else f"{formats.weights} with states and a copy in float32"
        yield (
            f"{name} trains in {wanted}, gradients in {' or '.join(dict.fromkeys(added))}, and the plan has {formats}; "
            "plan with --optimizer-dtype float32 and --gradient-dtype float32"
        )
