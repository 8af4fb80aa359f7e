"""The split of a result file: what of a model runs where."""

from __future__ import annotations

from pathlib import Path

from partita.documents.document import decode, document_keys, read_bytes
from partita.documents.result_file import read_plan_bytes
from partita.errors import InputError
from partita.split import Split


def read_split(path: str | Path) -> Split:
    """The split of a model's plan in a result file.

    Raises
    ------
    FormatError
        If the file is not a result file, or its split is malformed.
    InputError
        If it holds no plan, or none of a model.
    """
    read_plan_bytes(path)
    keys = document_keys(read_bytes(path), path)
    found = keys.get("split")
    if found is None or bytes(found) == b"null":
        raise InputError(
            f"{path} does not say what of a model each stage has; only plans of models do: plan the model with "
            "partita plan MODEL --output"
        )
    return decode(bytes(found), Split, f"{path}: split")
