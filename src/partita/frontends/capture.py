"""Run a model on fake tensors and write down every ATen call, forward and backward.

Why execution and not ``torch.export``: an exported program has to be valid for later runs, so it specialises, guards,
decomposes and functionalises; here one run is all that is asked for. Executing under ``FakeTensorMode`` has no graph
breaks, handles whatever Python the model contains, gives the real autograd backward, and costs well under a
millisecond per call, whatever the model's size. What it cannot follow is what no static split could follow either:
control flow that depends on data.

Views need no handling at all: a tensor is looked up by its storage, so a chain of views is a read of the base.
In-place calls write a new version of their storage.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import torch

from partita.frontends.flops import (
    CALLS,
    consecutive_dimensions,
    count_flops,
    product_shape,
)
from partita.frontends.records import (
    ByteLayout,
    Capture,
    DispatchedCall,
    Read,
    RecordedCall,
    Stored,
    Value,
    make_geometry,
)
from partita.frontends.tape import Origin, Tape
from partita.frontends.values import tensors_in
from partita.inside.torch_inside import (
    DispatchMode,
    FakeTensorMode,
    composite,
    newest_node,
    packet_name,
    running_node,
    storage_id,
    undispatched,
    written_arguments,
)

MAX_KNOWN = 256
_CPU = torch.device("cpu")


#: What stands for a tensor made outside the run.
_CONSTANT = "partita.constant.default"


def event_of(target: str, arguments: Any) -> DispatchedCall:
    """What is written down of every dispatched operator."""
    return DispatchedCall(target, tuple((tuple(t.shape), dtype_name(t.dtype)) for t in tensors_in(arguments)))


def dtype_name(dtype: Any) -> str:
    """``float16`` for ``torch.float16``."""
    return str(dtype).removeprefix("torch.")


class _Target:
    """What a recorder needs to know about one ATen overload, worked out once."""

    def __init__(self, func: Any) -> None:
        self.name, self.packet, self.mutated = str(func), packet_name(func), written_arguments(func)
        self.fresh, self.gathers, self.overwrites, self.scatters = (
            self.packet in CALLS[row] for row in ("fresh", "gathers", "overwrites", "scatters")
        )
        self.random = torch.Tag.nondeterministic_seeded in func.tags
        self.composite = composite(func)

    def written(self, args: Any, kwargs: Any) -> list[Any]:
        """The tensors among a call's arguments that it writes in place."""
        return tensors_in([args[i] if i < len(args) else kwargs.get(name) for i, name in self.mutated])


class Recorder(DispatchMode):
    """Writes down calls into a :class:`Capture` while it is the active dispatch mode; the fake mode computes shapes."""

    def __init__(self, fake: FakeTensorMode, tape: Tape | None = None) -> None:
        super().__init__()
        self.fake = fake
        self.tape = tape
        self.capture = Capture()
        self.module = ""
        self.backward = False
        self.paused = False
        self.keep_events = False
        self._targets: dict[Any, _Target] = {}
        self._latest: dict[int, Value] = {}
        # Storages are looked up by address, so none may be freed while recording.
        self._alive: list[Any] = []

    # -- storages -------------------------------------------------------------------------------------------------

    def store(self, tensor: Any, stored: Stored) -> None:
        """Register a parameter, buffer or input before the run."""
        self.capture.stored.append(stored)
        self._write(tensor, None, stored)
        if self.tape is not None:
            self.tape.begin(tensor, Origin(stored.kind, stored.name, trainable=stored.trainable))

    def _write(self, tensor: Any, call: RecordedCall | None, stored: Stored | None = None) -> Value:
        self._alive.append(tensor.untyped_storage())
        value = Value(call, stored, _layout(tensor))
        if call is not None:
            value.order = len(call.writes)
            call.writes.append(value)
        self._latest[storage_id(tensor)] = value
        return value

    def read(self, tensor: Any) -> Read:
        """The region of the latest value of its storage that a tensor covers."""
        value = self._latest.get(storage_id(tensor))
        if value is None:
            # A tensor made outside the run (a literal, a captured array): any device has it, like a constant.
            value = self._write(tensor, self._new_call(_CONSTANT, [], ""))
        return Read(value, _layout(tensor))

    def _new_call(self, target: str, reads: list[Read], dtype: str, *, random: bool = False) -> RecordedCall:
        calls = self.capture.calls
        constant = not random and all(read.value.constant for read in reads)
        call = RecordedCall(len(calls), target, self.module, self.backward, reads, dtype, constant)
        if self.keep_events and target != _CONSTANT:
            call.event = len(self.capture.events) - 1
        if self.backward:
            call.node = running_node()
        calls.append(call)
        return call

    # -- calls ----------------------------------------------------------------------------------------------------

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        target = self._targets.get(func)
        if target is None:
            if func.namespace == "prim":
                return func(*args, **kwargs)
            if func.namespace == "quantized":
                raise NotImplementedError(f"{func} works on packed weights, which cannot be read; trace it unconverted")
            target = self._targets[func] = _Target(func)
        if target.composite:
            with self:
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        if kwargs.get("device") is not None:
            # Where code says a call should run is what a split decides; here there is one place.
            moves = target.packet == "aten._to_copy" and kwargs.get("dtype") in (None, args[0].dtype)
            if moves and kwargs.get("memory_format") is None:
                func, kwargs = torch.ops.aten.alias.default, {}
                target = self._targets.setdefault(func, _Target(func))
            else:
                kwargs = {**kwargs, "device": _CPU}
        try:
            out = func(*args, **kwargs)
            tensors = tensors_in(out)
            _check_layout(target.name, tensors)
        except Exception:  # whatever it is, it says where it was
            if self.backward and (node := running_node()) is not None:
                # Of the module whose forward call the autograd node at hand belongs to.
                origin = self.capture.nodes.get(node, (None, 0))[0]
                call = origin.call if isinstance(origin, Value) else origin
                self.module = "" if call is None else call.module
            raise
        if self.paused:
            return out
        if self.keep_events:
            self.capture.events.append(event_of(target.name, (args, kwargs)))
        if not tensors and not target.mutated:
            return out
        count = len(self.capture.calls)
        self._record(func, target, args, kwargs, out, tensors)
        if self.tape is not None and not self.backward:
            # Constants that the call reads may have been written down as calls before it.
            call = self.capture.calls[-1] if len(self.capture.calls) > count else None
            number = None if call is None or call.target != target.name else call.index
            mutated = target.written(args, kwargs)
            self.tape.note(func, args, kwargs, out, number, mutated=mutated, random=target.random)
        return out

    def _record(self, func: Any, target: _Target, args: Any, kwargs: Any, out: Any, outputs: list[Any]) -> None:
        fresh = [t for t in outputs if storage_id(t) not in self._latest]
        if not fresh and not target.mutated:
            if outputs:
                self._mark_node(self._latest[storage_id(outputs[0])])
            return
        mutated = target.written(args, kwargs)
        inputs = tensors_in((args, kwargs))
        reads: list[Read] = []
        traffic = 0
        if not target.fresh:
            reads, traffic = self._reads(target, inputs, mutated, outputs)
        call = self._new_call(target.name, reads, _arithmetic_dtype(inputs, outputs), random=target.random)
        self._mark_node(call)
        if (call.constant and not inputs) or target.packet == "aten.rand":
            self._remember(func, target, args, kwargs, fresh)
        call.flops = count_flops(func, args, kwargs, out)
        call.product = product_shape(target.packet, args)
        if call.product is not None:
            call.consecutive = consecutive_dimensions(target.packet, args)
        call.bytes_read = traffic
        for tensor in mutated:
            # The next version of a storage is laid out like the last.
            before = self._latest.get(storage_id(tensor))
            value = self._write(tensor, call)
            if before is not None:
                stored = before.home or before.stored
                value.layout = before.layout
                value.home = None if stored is None or stored.kind == "input" else stored
            call.bytes_written += _touched(target, tensor, inputs)
        for tensor in fresh:
            # The second of two outputs on one storage is a view of the first.
            if storage_id(tensor) not in self._latest:
                call.bytes_written += self._write(tensor, call).layout.bytes

    def _reads(
        self, target: _Target, inputs: list[Any], mutated: list[Any], outputs: list[Any]
    ) -> tuple[list[Read], int]:
        reads: list[Read] = []
        traffic = 0
        seen: set[tuple[int, Any]] = set()
        for position, tensor in enumerate(inputs):
            if not tensor.numel():
                continue
            read = self.read(tensor)
            key = (id(read.value), read.layout.geometry)
            if key in seen:
                continue
            seen.add(key)
            size = read.bytes
            if any(tensor is m for m in mutated):
                if target.overwrites or target.scatters:
                    size = 0
                if target.overwrites and read.whole:
                    continue
                # What a partial write leaves alone belongs to the result too.
                read = Read(read.value, read.value.layout)
            elif position == 0 and target.gathers:
                size = min(size, sum(t.numel() * t.element_size() for t in outputs))
            reads.append(read)
            traffic += size
        return reads, traffic

    def _mark_node(self, origin: RecordedCall | Value) -> None:
        """Forward, remember which call the newest autograd node stands for."""
        # Calls that make no node find an older number, which is taken already.
        if not self.backward:
            self.capture.nodes.setdefault(newest_node(), (origin, len(self.capture.calls)))

    def _remember(self, func: Any, target: _Target, args: Any, kwargs: Any, fresh: list[Any]) -> None:
        """Keep the actual content of small constants, so that Python may branch on them."""
        for tensor in fresh:
            if tensor.numel() > MAX_KNOWN or getattr(tensor, "constant", None) is not None:
                continue
            with undispatched(), torch.no_grad():
                if target.packet == "aten.rand" and tensor.dim() == 0:
                    tensor.constant = torch.full(tensor.shape, KEEPS_LAYERS, dtype=tensor.dtype)
                elif target.packet in CALLS["factories"]:
                    kwargs = {**kwargs, "device": "cpu"}
                    tensor.constant = func(*args, **kwargs)

    # -- calls made by hand ---------------------------------------------------------------------------------------

    def emit(
        self,
        target: str,
        inputs: list[Any],
        outputs: list[Any],
        flops: int = 0,
        *,
        causal: bool = False,
        partner: RecordedCall | None = None,
    ) -> RecordedCall:
        """Write down a fused call whose outputs were allocated while paused."""
        if self.keep_events:
            self.capture.events.append(event_of(target, inputs))
        reads, traffic = self._reads(_FUSED, inputs, [], [])
        call = self._new_call(target, reads, _arithmetic_dtype(inputs, outputs))
        call.flops, call.bytes_read, call.partner, call.causal = flops, traffic, partner, causal
        self._mark_node(call)
        for tensor in outputs:
            call.bytes_written += self._write(tensor, call).layout.bytes
            if self.tape is not None and not self.backward:
                self.tape.announce(tensor)
        return call

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Within, nothing is written down."""
        self.paused = True
        try:
            yield
        finally:
            self.paused = False

    def again(self, func: Any, args: Any, kwargs: Any, out: Any, *, random: bool = False) -> None:
        """Say what makes the results of the call written down last again, on real tensors."""
        if self.tape is not None and not self.backward:
            self.tape.note(func, args, kwargs, out, self.capture.calls[-1].index, random=random)


#: What a draw of a single number is: layer drop compares it with a small probability, and every layer is kept.
KEEPS_LAYERS = 1 - 2**-8

_FUSED: Any = SimpleNamespace(overwrites=False, scatters=False, gathers=False)


def _check_layout(name: str, tensors: list[Any]) -> None:
    """Refuse arrays that are not one block of numbers."""
    for tensor in tensors:
        form, remedy = "nested", "a padded one with a mask"
        if tensor.layout != torch.strided:
            form = dtype_name(tensor.layout)
            remedy = "dense ones, or index_add for products with few terms (an embedding: sparse=False)"
        elif not tensor.is_nested:
            continue
        raise NotImplementedError(f"{name} makes a {form} tensor, whose work depends on its data; use {remedy}")


def _layout(tensor: Any) -> ByteLayout:
    shape = tuple(tensor.shape)
    geometry = make_geometry(tensor.storage_offset(), shape, tensor.stride(), tensor.element_size())
    return ByteLayout(geometry, shape, dtype_name(tensor.dtype))


def _touched(target: _Target, tensor: Any, inputs: list[Any]) -> int:
    size = _layout(tensor).bytes
    if target.scatters and len(inputs) > 1:
        largest = max(t.numel() for t in inputs if t is not tensor)
        size = min(size, largest * tensor.element_size())
    return size


def _arithmetic_dtype(inputs: list[Any], outputs: list[Any]) -> str:
    """The format of the first floating input, else of the first floating output, else of any."""
    for tensor in (*inputs, *outputs):
        if tensor.is_floating_point() or tensor.is_complex():
            return dtype_name(tensor.dtype)
    return dtype_name((*outputs, *inputs)[0].dtype)
