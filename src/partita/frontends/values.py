"""Values of small tensors that follow from the example input, the shapes and the code alone.

Weights have no data, so nothing that comes from them can be read. What a model does with positions, masks, sizes of
images or token types often decides which operators run, though. Such values are computed for real beside the stand-ins,
as long as all that they come from is known and they are small.

Numbers that code limits to a range and then reads, such as the corners of boxes, come from activations, so nobody knows
them. They are presumed to be spread evenly over their range, by which a box is the whole image, and are followed
through what hands them on. Nothing is made of that unless code reads such a number; then a note says so.
"""

from __future__ import annotations

from typing import Any

import torch

from partita.frontends.contents import compute, known, mark, sources_of, supposed, tell, tensors_in
from partita.frontends.flops import aten
from partita.frontends.options import passed_over
from partita.inside.torch_inside import (
    DispatchMode,
    FakeTensor,
    packet_name,
    tree_map_only,
    undispatched,
    written_arguments,
)

#: Elements of what is worth following: masks of sequence × sequence for a thousand tokens, no more.
MAX_ELEMENTS = 2**21
#: The same of what follows from others: truths of tokens × features for a thousand tokens.
_MAX_BYTES = 2**24


class Values(DispatchMode):
    """Computes values that are known, and answers calls whose shapes or results depend on them.

    Without ``settle`` it only answers what code reads: shapes that depend on data are left as they are, for traces that
    are run again on other data.
    """

    def __init__(self, *, settle: bool = True, recorder: Any = None) -> None:
        super().__init__()
        self.recorder = recorder
        self.draws = 0
        self.settle = settle
        self.read: set[str] = set()
        """Inputs whose values decided what runs."""
        self.presumed: set[str] = set()
        """What was presumed of values that are not known."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        packet = packet_name(func)
        tensors = tensors_in((args, kwargs))
        if packet in _FILLS and known(args[0]) is None and isinstance(args[0], FakeTensor):
            self._begin(args[0], _MOST_DRAWN if packet in _DRAWS else MAX_ELEMENTS)
        values = [known(tensor) for tensor in tensors]
        complete = all(value is not None for value in values)
        if packet == "aten._local_scalar_dense" and complete:
            self.read |= sources_of(tensors)
            with undispatched():
                return values[0].item()
        if self.settle and packet == "aten._local_scalar_dense" and hasattr(tensors[0], "partita_presumed"):
            self.presumed.add(tensors[0].partita_presumed[1])
            return tensors[0].partita_presumed[0]
        if self.settle and packet == "aten._local_scalar_dense" and (number := supposed(tensors[0])) is not None:
            self.presumed.add(_SPREAD)
            with undispatched():
                return number.item()
        repeats = packet == "aten.repeat_interleave" and len(tensors) == 1
        if not self.settle:
            pass
        elif packet in ("aten.index", "aten.index_put", "aten.index_put_"):
            args = self._plain_indices(args)
        elif complete and tensors and (torch.Tag.dynamic_output_shape in func.tags or repeats):
            return self._shaped(compute(func, args, kwargs), tensors)
        elif not complete and packet in _PICKS:
            return self._most(func, packet, args)
        most = _most_truths(packet, args)
        out = func(*args, **kwargs)
        if written_arguments(func) and tensors:
            # What was said of its former content no longer holds.
            for said in _SAID:
                vars(tensors[0]).pop(said, None)
        self._follow(func, packet, args, kwargs, out, tensors, complete)
        if packet in _PRESUMED and not complete and known(out) is None:
            out.partita_presumed = _PRESUMED[packet]
        elif most is not None:
            out.partita_most = most
        elif packet in _KEEPS:
            for said in _SAID:
                if hasattr(tensors[0], said):
                    for made in tensors_in(out):
                        setattr(made, said, getattr(tensors[0], said))
        elif packet in _CHOOSES and not complete:
            place, usual = _CHOOSES[packet]
            dim = args[place] if place < len(args) else kwargs.get("dim", usual)
            indices = out if isinstance(out, torch.Tensor) else out[1]
            if indices.dtype == torch.long:
                indices.partita_choices = tensors[0].numel() if dim is None else tensors[0].shape[dim]
        elif packet == "aten.eq" and len(values) == 1 and hasattr(tensors[0], "partita_choices"):
            # One of several places compared with one of them.
            if 0 <= args[1] < tensors[0].partita_choices:
                out.partita_share = 1 / tensors[0].partita_choices
        elif packet == "aten.eq" and len(values) == 2 and (values[0] is None) != (values[1] is None):
            # One of several different values: a row of a one-hot array.
            with undispatched():
                different = (values[0] if values[1] is None else values[1]).unique().numel()
            if different == out.shape[-1] and different > 1:
                out.partita_share = 1 / different
        return out

    def _begin(self, tensor: Any, most: int) -> None:
        """Give a tensor that is about to be filled as a whole a content to fill."""
        whole = tensor.is_contiguous() and tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()
        if whole and tensor.numel() <= most:
            with undispatched():
                tell(tensor, torch.zeros(tensor.shape, dtype=tensor.dtype))

    def _most(self, func: Any, packet: str, args: Any) -> Any:
        """Rows that data picks, where their number is part of a shape: their expected share if known, else all."""
        chosen = args[1] if packet == "aten.masked_select" else args[0]
        share = getattr(chosen, "partita_share", None)
        limit = getattr(chosen, "partita_most", chosen.numel())
        count = min(limit, chosen.numel()) if share is None else max(1, round(share * chosen.numel()))
        if packet == "torchvision.nms":
            count = chosen.shape[0]
        if packet == "aten._unique2":
            self.presumed.add("what sorts values into groups finds one group")
            with self:
                places = torch.zeros(chosen.shape if len(args) > 2 and args[2] else 0, dtype=torch.long)
                return chosen.flatten()[:1].clone(), places, torch.full((1,), chosen.numel())
        few = share is None and count < chosen.numel() and packet != "torchvision.nms"
        reason = "as many as there can be" if few else "their expected share"
        self.presumed.add(
            f"{packet} picks {count} of {chosen.numel()} rows, {reason}"
            if few or share is not None
            else f"all of the {count} rows that {packet} may pick are picked"
        )
        if packet == "aten.masked_select":
            return self._made(func, args, args[0].dtype, (count,))
        places = self._made(func, args, torch.long, (count,) if packet == "torchvision.nms" else (count, chosen.dim()))
        if packet == "aten.nonzero" and share is None and not few and count <= MAX_ELEMENTS:
            with undispatched():
                tell(places, torch.ones(tuple(chosen.shape)).nonzero())
        return places

    def _made(self, func: Any, args: Any, dtype: Any, shape: tuple[int, ...]) -> Any:
        """The result of a call whose shape was presumed, written down where the run is."""
        if self.recorder is None:
            with self:
                return torch.empty(shape, dtype=dtype, device="cpu")
        with self.recorder.aside(), self:
            made = torch.empty(shape, dtype=dtype, device="cpu")
        self.recorder.emit(str(func), tensors_in(args), [made])
        return made

    def _plain_indices(self, args: Any) -> Any:
        """Rows to pick instead of a mask whose content is known: how many there are is part of the shape."""
        indices: list[Any] = []
        for index in args[1]:
            if index is None or index.dtype not in (torch.bool, torch.uint8):
                indices.append(index)
                continue
            value = known(index)
            if value is None:
                with self:
                    indices.extend(index.nonzero().unbind(1))
            else:
                with undispatched():
                    rows = value.nonzero(as_tuple=True)
                indices.extend(self._shaped(rows, [index]))
        return (args[0], indices, *args[2:])

    def _shaped(self, values: Any, origins: list[Any]) -> Any:
        """Stand-ins of the shapes that values have."""
        sources = sources_of(origins)
        self.read |= sources

        def stand_in(value: Any) -> Any:
            made = torch.empty(value.shape, dtype=value.dtype, device="cpu")
            tell(made, value, sources)
            return made

        with self:
            return tree_map_only(torch.Tensor, stand_in, values)

    def _follow(
        self, func: Any, packet: str, args: Any, kwargs: Any, out: Any, tensors: list[Any], complete: bool
    ) -> None:
        outputs = [leaf for leaf in tensors_in(out) if isinstance(leaf, FakeTensor)]
        small = all(tensor.numel() * tensor.element_size() <= _MAX_BYTES for tensor in outputs)
        drawn = torch.Tag.nondeterministic_seeded in func.tags
        if drawn and not (packet in _DRAWS and all(tensor.numel() <= _MOST_DRAWN for tensor in outputs)):
            complete = False
        settled = complete and packet not in _UNSET
        # An array that only has the shape of another one is known whatever the other holds.
        shaped = packet in _SHAPED and all(tensor.numel() <= _MOST_SHAPED for tensor in outputs)
        if (settled or shaped) and small and outputs and func.namespace == "aten":
            try:
                self.draws += drawn
                values = compute(func, args, kwargs, _blank if shaped else known, self.draws)
            except Exception as error:
                # Any operator's own code. A value is a help: what needs it is refused where it does.
                passed_over(f"the value of {packet}", error)
                values = None
            found = tensors_in(values)
            if len(found) == len(outputs) and all(a.shape == b.shape for a, b in zip(found, outputs, strict=True)):
                sources = frozenset[str]() if shaped else sources_of(tensors)
                for tensor, value in zip(outputs, found, strict=True):
                    tell(tensor, value, sources)
                return
        if self.settle and not complete and small and outputs and _guess(func, packet, args, kwargs, outputs):
            return
        for position, name in written_arguments(func):
            tensor = args[position] if position < len(args) else kwargs.get(name)
            value = getattr(tensor, "partita_value", None)
            if value is not None:
                mark(tensor, value, "lost")


def _guess(func: Any, packet: str, args: Any, kwargs: Any, outputs: list[Any]) -> bool:
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


def _blank(tensor: Any) -> Any:
    return torch.empty(tensor.shape, dtype=tensor.dtype)


def _most_truths(packet: str, args: Any) -> int | None:
    """How many truths an array has at most: as many as places were set in one without any."""
    if packet in ("aten.bitwise_or", "aten.logical_or"):
        counts = [_truths(tensor) for tensor in args[:2]]
        return None if None in counts else sum(count for count in counts if count is not None)
    if packet in ("aten.index_put", "aten.index_put_") and len(args[1]) == 1 and args[1][0].dtype == torch.long:
        before = _truths(args[0])
        return None if before is None or args[0].dim() != 1 else before + int(args[1][0].numel())
    return None


def _truths(tensor: Any) -> int | None:
    if not isinstance(tensor, torch.Tensor):
        return None
    value = known(tensor)
    if value is None:
        return getattr(tensor, "partita_most", None)
    with undispatched():
        return int(value.count_nonzero())


#: What is said of tensors: the share of truths, how many places there are to choose from, the most truths there can be.
_SAID = ("partita_share", "partita_choices", "partita_most")
#: Calls that set every element.
_FILLS = aten("fill_ uniform_ zero_")
#: Draws that code may branch on, such as one of several sizes of images: they are the same in every trace.
_DRAWS = aten("randint randperm uniform_ uniform multinomial")
_MOST_DRAWN = 4096
#: Calls that take a tensor only for its shape, and what is worth remembering of them.
_SHAPED = aten("full_like new_full new_ones new_zeros ones_like zeros_like")
_MOST_SHAPED = 2**17
#: Calls whose number of rows depends on data.
_PICKS = frozenset({"aten._unique2", "aten.nonzero", "aten.masked_select", "torchvision.nms"})
#: What code usually asks to be told of a fault, and what it asks to be told that there is none.
_PRESUMED = {
    "aten.any": (False, "what code asks of any value holds of none"),
    "aten.all": (True, "what code asks of all values holds"),
}
#: Calls whose last result is places among several: where among the arguments the dimension is, and what is usual.
_CHOOSES: dict[str, tuple[int, int | None]] = {
    **dict.fromkeys(aten("argmax argmin max min"), (1, None)),
    "aten.multinomial": (9, -1),
    "aten.sort": (1, -1),
    "aten.topk": (2, -1),
}
#: Calls that leave the share of truths as it is.
_KEEPS = aten("_to_copy alias clone detach index permute select slice squeeze t transpose unbind unsqueeze view")
#: Calls whose results are not set.
_UNSET = aten("empty empty_like empty_strided new_empty new_empty_strided")
#: Calls that hand on numbers, or do arithmetic with a few.
_CARRIES = aten(
    "_to_copy _unsafe_view add add_ alias cat ceil clamp clamp_max clamp_min clone copy_ detach div div_ eq expand "
    "floor gather ge gt index index_select le lt maximum minimum mul mul_ neg permute round rsub select slice split "
    "split_with_sizes squeeze stack sub sub_ t transpose unbind unsqueeze view"
)
#: Those of them that take the places of what they hand on.
_PLACES = aten("gather index index_select")
_SPREAD = "numbers that code limits to a range, such as corners of boxes, spread evenly over it"
