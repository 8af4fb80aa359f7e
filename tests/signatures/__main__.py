"""Writes the public functions with a signature for every objective and problem: ``make signatures``."""

from __future__ import annotations

from signatures.files import main

main()
