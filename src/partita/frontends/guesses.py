"""Numbers that code limits to a range and then reads, such as the corners of boxes.

They come from activations, so nobody knows them; but code that reads them needs some that fit together. They are
presumed to be spread evenly over their range, by which a box is the whole image, and are followed through what hands
them on. Nothing is made of that unless code reads such a number; then a note says so.
"""

from __future__ import annotations

from typing import Any

import torch

from partita.frontends.contents import compute, known, mark, supposed, tell, tensors_in
from partita.frontends.flops import aten
from partita.frontends.options import passed_over
from partita.inside.torch_inside import FakeTensor, undispatched

SPREAD = "numbers that code limits to a range, such as corners of boxes, spread evenly over it"


def guess(func: Any, packet: str, args: Any, kwargs: Any, outputs: list[Any]) -> bool:
    """Presume what a call makes, if it limits numbers to a range or hands such numbers on; whether that was done."""
    if packet == "aten.clamp" and supposed(args[0]) is None:
        found = _spread(args, kwargs, outputs[0])
    elif packet in _CARRIES and any(
        isinstance(leaf, FakeTensor) and supposed(leaf) is not None for leaf in tensors_in((args, kwargs))
    ):
        found = _carried(func, packet, args, kwargs)
    else:
        return False
    if [tuple(value.shape) for value in found] != [tuple(tensor.shape) for tensor in outputs]:
        return False
    for tensor, value in zip(outputs, found, strict=True):
        tell(tensor, value)
        mark(tensor, value, "guessed")
    return True


def _spread(args: Any, kwargs: Any, out: Any) -> list[Any]:
    low, high = (_limit(args, kwargs, place, name) for place, name in ((1, "min"), (2, "max")))
    if low is None or high is None or not args[0].is_floating_point():
        return []
    count = out.shape[-1] if out.dim() else 1
    with undispatched():
        row = torch.linspace(low, high, count) if count > 1 else torch.full((1,), high)
        return [row.to(out.dtype).expand(out.shape).clone() if out.dim() else row[0].to(out.dtype).clone()]


def _limit(args: Any, kwargs: Any, place: int, name: str) -> float | None:
    given = args[place] if place < len(args) else kwargs.get(name)
    return float(given) if isinstance(given, (int, float)) else None


def _carried(func: Any, packet: str, args: Any, kwargs: Any) -> list[Any]:
    def content(tensor: Any) -> Any:
        value = supposed(tensor) if isinstance(tensor, FakeTensor) else known(tensor)
        if value is None and packet in _PLACES and tensor.dtype == torch.long:
            # All rows are alike, so it makes no difference which one is picked.
            return torch.zeros(tensor.shape, dtype=torch.long)
        return value

    try:
        with undispatched():
            values = compute(func, args, kwargs, content)
    except Exception as error:
        # Any operator's own code, on numbers that nobody knows.
        passed_over(f"a guess at {packet}", error)
        return []
    return tensors_in(values)


#: Calls that hand on numbers, or do arithmetic with a few.
_CARRIES = aten(
    "_to_copy _unsafe_view add add_ alias cat ceil clamp clamp_max clamp_min clone copy_ detach div div_ eq expand "
    "floor gather ge gt index index_select le lt maximum minimum mul mul_ neg permute round rsub select slice split "
    "split_with_sizes squeeze stack sub sub_ t transpose unbind unsqueeze view"
)
#: Those of them that take the places of what they hand on.
_PLACES = aten("gather index index_select")
