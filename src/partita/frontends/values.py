"""Values of small tensors that follow from the example input, the shapes and the code alone.

Weights have no data, so nothing that comes from them can be read. What a model does with positions, masks, sizes of
images or token types often decides which operators run, though. Such values are computed for real beside the stand-ins,
as long as all that they come from is known and they are small.

Numbers that code limits to a range and then reads, such as the corners of boxes, come from activations, so nobody knows
them. They are presumed to be spread evenly over their range, by which a box is the whole image, and are followed
through what hands them on. Nothing is made of that unless code reads such a number; then a note says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from partita.frontends.flops import CALLS
from partita.frontends.options import passed_over
from partita.inside.torch_inside import (
    DispatchMode,
    FakeTensor,
    packet_name,
    storage_id,
    tree_map_only,
    undispatched,
    written_arguments,
)

#: Elements of what is worth following: masks of sequence × sequence for a thousand tokens, no more.
MAX_ELEMENTS = 2**21
#: The same of what follows from others: truths of tokens × features for a thousand tokens.
_MAX_BYTES = 2**24


def tensors_in(tree: Any) -> list[Any]:
    """The tensors among the arguments or results of a call, in order.

    Calls hold them in tuples, lists and dictionaries alone, and are many: looking through these is several times faster
    than through any tree.
    """
    found: list[Any] = []
    _gather(tree, found)
    return found


def _gather(tree: Any, found: list[Any]) -> None:
    if isinstance(tree, torch.Tensor):
        found.append(tree)
    elif isinstance(tree, (tuple, list)):
        for item in tree:
            _gather(item, found)
    elif isinstance(tree, dict):
        for item in tree.values():
            _gather(item, found)


def known(tensor: Any) -> Any:
    """The content of a tensor, None if it is not known."""
    if not isinstance(tensor, FakeTensor):
        return tensor if type(tensor) is torch.Tensor and tensor.device.type == "cpu" else None
    value = supposed(tensor)
    return None if value is None or storage_id(value) in marked(tensor, "guessed") else value


def supposed(tensor: Any) -> Any:
    """The content of a stand-in, known or presumed; None if there is neither."""
    value = getattr(tensor, "partita_value", None)
    return None if value is None or storage_id(value) in marked(tensor, "lost") else value


def tell(tensor: Any, value: Any, sources: frozenset[str] = frozenset()) -> None:
    """Say what a stand-in holds, and from which inputs of the model that comes."""
    tensor.partita_value = value
    tensor.partita_sources = sources


def sources_of(tensors: Iterable[Any]) -> frozenset[str]:
    """The inputs of the model that the contents of tensors come from."""
    return frozenset[str]().union(*(getattr(tensor, "partita_sources", ()) for tensor in tensors))


def marked(tensor: Any, what: str) -> set[int]:
    """Storages of contents that are ``lost``, because something unknown was written there, or ``guessed``."""
    found: set[int] = tensor.fake_mode.__dict__.setdefault(f"partita_{what}", set())
    return found


def mark(tensor: Any, value: Any, what: str) -> None:
    """Say that the content of a stand-in is ``lost`` or ``guessed``, for all that share its storage."""
    marked(tensor, what).add(storage_id(value))
    # Storages are told apart by address, so none that is marked may be freed.
    tensor.fake_mode.__dict__.setdefault("partita_kept", []).append(value.untyped_storage())


def compute(func: Any, args: Any, kwargs: Any, content: Callable[[Any], Any] = known, seed: int = 0) -> Any:
    """What a call gives for the contents of its tensors; of draws, each is another, but the same in every trace."""
    with undispatched():
        args, kwargs = tree_map_only(torch.Tensor, content, (args, kwargs))
    if kwargs.get("device") is not None:
        kwargs = {**kwargs, "device": "cpu"}
    with undispatched(), torch.no_grad():
        if torch.Tag.nondeterministic_seeded not in func.tags:
            return func(*args, **kwargs)
        # Only draws need it, and it takes longer than most calls.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return func(*args, **kwargs)


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
        if self.settle and packet == "aten._local_scalar_dense":
            if hasattr(tensors[0], "partita_presumed"):
                answer, said = tensors[0].partita_presumed
                self.presumed.add(said)
                return answer
            if (number := supposed(tensors[0])) is not None:
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
        elif packet == "aten.eq" and len(values) == 1:
            # One of several places compared with one of them.
            choices = getattr(tensors[0], "partita_choices", 0)
            if choices and 0 <= args[1] < choices:
                out.partita_share = 1 / choices
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
            content: Any = (lambda t: torch.empty(t.shape, dtype=t.dtype)) if shaped else known
            try:
                self.draws += drawn
                values = compute(func, args, kwargs, content, self.draws)
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
    low, high = (args[i] if i < len(args) else kwargs.get(name) for i, name in ((1, "min"), (2, "max")))
    if not (isinstance(low, (int, float)) and isinstance(high, (int, float)) and args[0].is_floating_point()):
        return []
    count = out.shape[-1] if out.dim() else 1
    with undispatched():
        row = torch.linspace(float(low), float(high), count) if count > 1 else torch.full((1,), float(high))
        return [(row if out.dim() else row[0]).to(out.dtype).expand(out.shape).clone()]


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


def _most_truths(packet: str, args: Any) -> int | None:
    """How many truths an array has at most: as many as places were set in one without any."""
    if packet in ("aten.bitwise_or", "aten.logical_or"):
        counts = [count for tensor in args[:2] if (count := _truths(tensor)) is not None]
        return sum(counts) if len(counts) == 2 else None
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
_FILLS, _DRAWS, _SHAPED, _PICKS, _KEEPS, _UNSET, _CARRIES, _PLACES = (
    CALLS[row] for row in ("fills", "draws", "shaped", "picks", "keeps", "unset", "carries", "places")
)
#: Elements of draws, and of what only has the shape of something, that are worth remembering.
_MOST_DRAWN, _MOST_SHAPED = 4096, 2**17
#: What code usually asks to be told of a fault, and what it asks to be told that there is none.
_PRESUMED = {
    "aten.any": (False, "what code asks of any value holds of none"),
    "aten.all": (True, "what code asks of all values holds"),
}
#: Calls whose last result is places among several: where among the arguments the dimension is, and what is usual.
_CHOOSES: dict[str, tuple[int, int | None]] = {
    **dict.fromkeys(("aten.argmax", "aten.argmin", "aten.max", "aten.min"), (1, None)),
    "aten.multinomial": (9, -1),
    "aten.sort": (1, -1),
    "aten.topk": (2, -1),
}
_SPREAD = "numbers that code limits to a range, such as corners of boxes, spread evenly over it"
