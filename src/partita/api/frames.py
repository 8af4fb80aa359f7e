"""Records as a frame of pandas where that is installed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from pandas import DataFrame

#: A ``pandas.DataFrame``, or a list of dictionaries where pandas is not installed.
Frame: TypeAlias = "DataFrame | list[dict[str, object]]"


def frame(records: Sequence[dict[str, Any]]) -> Frame:
    """A row for each record."""
    try:
        from pandas import DataFrame
    except ImportError:
        return list(records)
    return DataFrame(list(records))
