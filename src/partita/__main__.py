"""``python -m partita``."""

from __future__ import annotations

from partita.cli import main

if __name__ == "__main__":
    main()
