"""Numbers and programs inside a page: compressed, as text.

The browser takes them apart again without any library (``DecompressionStream``, in all browsers since 2023).
"""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt


def packed(data: bytes) -> str:
    """Bytes in the format ``deflate``, as base 64."""
    return base64.b64encode(zlib.compress(data, 9)).decode()


def planes(values: npt.NDArray[Any]) -> bytes:
    """Whole numbers of 32 bits, their lowest bytes first, then their second ones …: neighbours are alike then."""
    words = np.ascontiguousarray(values, dtype="<i4")
    return words.view(np.uint8).reshape(-1, 4).T.tobytes()
