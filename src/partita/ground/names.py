"""What somebody meant who wrote a name that there is none of."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def meant(name: str, known: Iterable[str], cutoff: float = 0.5) -> str:
    """``did you mean 'a' or 'b'?`` for the closest known names, at least so alike (from 0 to 1); empty if none is."""
    close = difflib.get_close_matches(name, sorted(known), n=3, cutoff=cutoff)
    return f"did you mean {' or '.join(map(repr, close))}?" if close else ""


def no_option(owner: str, name: str, known: Iterable[str], elsewhere: Iterable[str] = ()) -> str:
    """What is wrong with an option, what was meant perhaps, also of names known ``elsewhere``, and what there is."""
    shown = list(dict.fromkeys(known))
    hint = meant(name, [*shown, *elsewhere], 0.75)
    return f"{owner} has no option {name!r}; {hint}{' ' if hint else ''}known are {', '.join(shown) or 'none'}"
