"""The split of a result file: what of a model runs where, with a digest that says whether it was changed by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from partita.documents.document import decode, sha256
from partita.ground.errors import InputError
from partita.nouns.split import Split

#: Beside the fields of the split.
_DIGEST = "sha256"


def split_document(split: Split) -> dict[str, Any]:
    """A split as it stands in a result file."""
    found: dict[str, Any] = msgspec.to_builtins(split)
    return {**found, _DIGEST: sha256(found)}


def decode_split(data: bytes, path: str | Path) -> Split:
    """The split of a result file; one without a digest, of an earlier version, is taken as it is.

    Raises
    ------
    FormatError
        If it is malformed.
    InputError
        If it is not as it was written.
    """
    fields = decode(data, dict[str, Any], f"{path}: split")
    stated = fields.pop(_DIGEST, None)
    split = decode(msgspec.json.encode(fields), Split, f"{path}: split")
    if stated is not None and stated != sha256(fields):
        raise InputError(
            f"{path}: split was changed after it was written; it follows from the model and the plan, so plan again "
            "(--layout prices a plan of your own)"
        )
    return split
