"""A piece as a Python function: one line for every call, so that nothing but the calls costs time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableSequence, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from partita.execution.draws import is_single
from partita.execution.pieces import Line, PlanPiece
from partita.frontends.capture import KEEPS_LAYERS
from partita.frontends.tape import Ref, Tape
from partita.inside.torch_inside import switch_gradients

#: What computes in these formats on an accelerator runs in float32 here, so that results can be compared.
WIDENED = {torch.bfloat16: torch.float32, torch.float16: torch.float32}


def widened(value: Any) -> Any:
    """A number format, or the floats of a tensor, as they run here."""
    if isinstance(value, torch.dtype):
        return WIDENED.get(value, value)
    if isinstance(value, torch.Tensor) and value.dtype in WIDENED:
        return value.to(WIDENED[value.dtype])
    return value


@dataclass(frozen=True)
class CompiledPiece:
    """A piece that can run."""

    #: Takes the tensors received, in the order of ``receives``, the inputs by name, a function that seeds a draw by its
    #: number, and an array whose first entry counts calls; returns the tensors for others in the order of
    #: ``PlanPiece.kept``, outputs by place, and the loss.
    run: Callable[[Sequence[Any], Mapping[str, Any], Callable[[int], None], MutableSequence[float]], Any]
    receives: tuple[tuple[int, int], ...]  #: (piece, place in its list) of every tensor received.
    source: str  #: The function's text.


def compile_piece(tape: Tape, piece: PlanPiece, arrays: Mapping[str, Any], *, training: bool) -> CompiledPiece:
    """Write and compile the function of a piece, given the model's parameters and buffers by name."""
    return _Text(tape, piece, arrays, training).program()


def draws(tape: Tape) -> dict[int, int]:
    """The number of every entry that draws random numbers, among those that do."""
    return {number: count for count, number in enumerate(n for n, e in enumerate(tape.entries) if e.random)}


class _Text:
    def __init__(self, tape: Tape, piece: PlanPiece, arrays: Mapping[str, Any], training: bool) -> None:
        self.tape, self.piece, self.arrays, self.training = tape, piece, arrays, training
        self.names: dict[str, Any] = {"set_grad": switch_gradients}
        self.draw = draws(tape)
        self.receives: list[tuple[int, int]] = []

    def program(self) -> CompiledPiece:
        steady = [line for line in self.piece.lines if line.constant]
        self._run_once(steady)
        body: list[str] = []
        used: list[tuple[int, ...]] = []
        for line in self.piece.lines:
            if not line.constant:
                body.append(self._line(line))
                used.append(self._slots(line))
        kept = [f"e{tensor.slot}_{tensor.version}" for tensor in self.piece.kept]
        outputs = ", ".join(f"{place}: t{slot}" for place, slot in self.piece.outputs.items())
        loss = "None" if self.piece.loss is None else f"t{self.piece.loss}"
        text = ["def run(received, inputs, seed, beat):"]
        text += [f"    {line}" for line in self._freed(body, used)]
        text.append(f"    return ({''.join(name + ', ' for name in kept)}), {{{outputs}}}, {loss}")
        source = "\n".join(text)
        exec(compile(source, "<piece>", "exec"), self.names)
        return CompiledPiece(self.names["run"], tuple(self.receives), source)

    def _run_once(self, lines: Sequence[Line]) -> None:
        with torch.no_grad():
            for line in lines:
                if line.what == "origin":
                    self.names[f"t{line.slot}"] = widened(self.tape.origins[line.slot].value).clone()
                    continue
                exec(self._call(line.entry), self.names)

    def _freed(self, body: Sequence[str], used: Sequence[tuple[int, ...]]) -> list[str]:
        """The lines, each followed by letting go of what nothing below needs."""
        stays = {*self.piece.outputs.values(), self.piece.loss}
        last: dict[int, int] = {}
        for number, slots in enumerate(used):
            last.update(dict.fromkeys(slots, number))
        text = []
        for number, line in enumerate(body):
            text.append(line)
            gone = [s for s in used[number] if last[s] == number and s not in stays and f"t{s}" not in self.names]
            if gone:
                text.append("del " + ", ".join(f"t{slot}" for slot in dict.fromkeys(gone)))
        return text

    def _slots(self, line: Line) -> tuple[int, ...]:
        if line.what != "call":
            return (line.slot,)
        entry = self.tape.entries[line.entry]
        return (*entry.reads, *(slot for slot in entry.outs if slot is not None))

    def _line(self, line: Line) -> str:
        slot = line.slot
        if line.what == "call":
            return f"beat[0] += 1; {self._call(line.entry)}"
        if line.what == "receive":
            source = next(p for p, ts in self.piece.receives.items() if (slot, line.version) in ts)
            self.receives.append((source, self.piece.receives[source].index((slot, line.version))))  # type: ignore[arg-type]
            return f"t{slot} = received[{len(self.receives) - 1}]"
        if line.what == "own":
            return f"t{slot} = t{slot}.clone()"
        if line.what == "keep":
            again = self.final(slot) > line.version
            return f"e{slot}_{line.version} = t{slot}" + (".clone()" if again else "")
        return self._origin(slot)

    def final(self, slot: int) -> int:
        storage = self.tape.slots[slot].storage
        return sum(any(self.tape.slots[s].storage == storage for s in entry.writes) for entry in self.tape.entries)

    def _origin(self, slot: int) -> str:
        origin = self.tape.origins[slot]
        if origin.kind == "input":
            return f"t{slot} = inputs[{origin.name!r}]" + (".clone()" if self.final(slot) else "")
        if origin.kind == "constant":
            self.names[f"c{slot}"] = widened(origin.value)
            return f"t{slot} = c{slot}.clone()"
        self.names[f"a{slot}"] = self.arrays[origin.name]
        return f"t{slot} = a{slot}"

    def _call(self, number: int) -> str:
        entry = self.tape.entries[number]
        self.names[f"f{number}"] = entry.func
        words = [self._word(value) for value in entry.args]
        words += [f"{name}={self._word(value)}" for name, value in entry.kwargs.items()]
        targets = ", ".join("_" if slot is None else f"t{slot}" for slot in entry.outs)
        if not entry.single:
            targets = f"[{targets}]"
        call = f"f{number}({', '.join(words)})"
        text = f"{targets} = {call}" if entry.outs else call
        if number in self.draw:
            text = f"seed({self.draw[number]}); {text}"
            if entry.outs and entry.outs[0] is not None and is_single(entry.func, self.tape.slots[entry.outs[0]]):
                text += f"; {targets}.fill_({KEEPS_LAYERS})"
        if self.training and not entry.grad:
            text = f"set_grad(False); {text}; set_grad(True)"
        return text

    def _word(self, value: Any) -> str:
        if isinstance(value, Ref):
            return f"t{value.slot}"
        if isinstance(value, (list, tuple)) and any(isinstance(v, (Ref, list, tuple)) for v in value):
            inner = ", ".join(self._word(v) for v in value)
            return f"[{inner}]" if isinstance(value, list) else f"({inner},)"
        if value is None or type(value) in (bool, int):
            return repr(value)
        name = f"k{len(self.names)}"
        self.names[name] = widened(value)
        return name
