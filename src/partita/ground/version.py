"""The version of the package, which its face and the command line say."""

from __future__ import annotations

__version__ = "0.1.0"
