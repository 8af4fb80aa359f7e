"""Requests in CSV files: traces in two forms, and histograms of lengths.

=================================================  ===========================================================
columns                                            what
=================================================  ===========================================================
``TIMESTAMP``, ``ContextTokens``,                  a trace as in the Azure Public Dataset (LLM inference, 2023):
``GeneratedTokens``                                dates with times
``arrival_s``, ``prompt_tokens``,                  a trace: arrivals in seconds
``output_tokens``
``prompt_tokens``, ``output_tokens``, ``share``    a histogram of lengths
=================================================  ===========================================================

Other columns are ignored.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from partita.ground.errors import FormatError, InputError
from partita.ground.files import text_of
from partita.nouns.workload.workload import LengthShare, RequestTrace

_AZURE = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
_TRACE = ("arrival_s", "prompt_tokens", "output_tokens")
_SHARES = ("prompt_tokens", "output_tokens", "share")


def read_requests(path: str | Path) -> RequestTrace | tuple[LengthShare, ...]:
    """The trace or the histogram of a file.

    Raises
    ------
    InputError
        If the file cannot be read, has other columns or no rows, a value is no number, a length is below 1, or times
        fall.
    """
    try:
        return _read(csv.DictReader(io.StringIO(text_of(path), newline=""), strict=True), str(path))
    except csv.Error as error:
        raise FormatError(f"{path} is not valid CSV: {error}") from None


def _read(rows: csv.DictReader[str], path: str) -> RequestTrace | tuple[LengthShare, ...]:
    columns = list(rows.fieldnames or ())
    readers: tuple[Callable[[str], float], ...]
    if set(_AZURE) <= set(columns):
        names, readers = _AZURE, (_seconds, _length, _length)
    elif set(_TRACE) <= set(columns):
        names, readers = _TRACE, (_number, _length, _length)
    elif set(_SHARES) <= set(columns):
        names, readers = _SHARES, (_length, _length, _number)
    else:
        known = "; or ".join(", ".join(each) for each in (_AZURE, _TRACE, _SHARES))
        raise FormatError(
            f"{path} is no file of requests: its columns are {', '.join(columns) or 'none'}; known are {known}"
        )
    found = list(_cells(rows, path, names, readers))
    if not found:
        raise InputError(f"{path} has no requests; give at least one row")
    if names is _SHARES:
        return tuple(LengthShare(prompt_tokens=p, output_tokens=o, share=share) for _, p, o, share in found)
    first = found[0][1]
    before = first
    for line, arrival, _, _ in found:
        if arrival < before:
            raise InputError(
                f"{path}, line {line}: a request arrives before the one above it; sort the file by {names[0]}"
            )
        before = arrival
    # Dates are as long ago as they are; seconds stay what they are.
    start = first if names is _AZURE or first < 0 else 0.0
    return RequestTrace(
        arrival_s=tuple(arrival - start for _, arrival, _, _ in found),
        prompt_tokens=tuple(prompt for _, _, prompt, _ in found),
        output_tokens=tuple(output for _, _, _, output in found),
    )


def _cells(
    rows: csv.DictReader[str], path: str, names: tuple[str, ...], readers: tuple[Callable[[str], Any], ...]
) -> Iterator[tuple[Any, ...]]:
    """The line and the values of every row."""
    for row in rows:
        values = []
        for name, read in zip(names, readers, strict=True):
            text = row[name]
            try:
                value = read((text or "").strip())
            except ValueError as error:
                raise InputError(f"{path}, line {rows.line_num}: {name} is {text!r}; {error}") from None
            values.append(value)
        yield (rows.line_num, *values)


def _length(text: str) -> int:
    """A number of tokens."""
    try:
        value = int(text)
    except ValueError:
        raise ValueError("it must be a whole number of at least 1") from None
    if not 1 <= value < 2**31:
        raise ValueError("it must be a whole number of at least 1")
    return value


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError("it must be a number") from None
    if not abs(value) < float("inf"):
        raise ValueError("it must be finite")
    return value


def _seconds(text: str) -> float:
    """A date with a time, as seconds; digits beyond microseconds are dropped."""
    try:
        return (datetime.fromisoformat(text).replace(tzinfo=None) - datetime(1970, 1, 1)).total_seconds()
    except ValueError:
        raise ValueError("it must be a date with a time, as 2023-11-16 18:17:03.97") from None
