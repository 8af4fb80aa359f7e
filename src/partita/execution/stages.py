"""One process of a run: its actions in order, its messages, and its part of the gradients."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from partita.engines.processes.forks import COMPUTING, WAITING
from partita.execution.draws import seeder
from partita.execution.job import RunJob
from partita.execution.model import Ready
from partita.execution.orders import Process
from partita.execution.pieces import HandedTensor, PlanPiece
from partita.execution.program import CompiledPiece, compile_piece
from partita.execution.reference import Results
from partita.execution.wire import TensorLayout, Wire
from partita.frontends.tape import Tape
from partita.simulator.schedules.protocol import Action
from partita.simulator.timeline import BACKWARD, COPY_IN, COPY_OUT, FORWARD, INPUT, SYNC, UPDATE, WEIGHT

#: How many actions ahead room is made for what they receive.
AHEAD = 3

_SORTS = {"F": FORWARD, "B": BACKWARD, "I": INPUT, "W": WEIGHT}


class Slice(NamedTuple):
    """Something that took time: its sort on the time line, seconds, and what it was about (−1 for nothing)."""

    sort: int
    start: float
    end: float
    stage: int = -1
    microbatch: int = -1


class PieceEdge(NamedTuple):
    """A tensor from one piece to another."""

    source: int
    target: int
    tensor: HandedTensor


def edges_of(pieces: Sequence[PlanPiece]) -> dict[PieceEdge, int]:
    """All edges with their numbers, the same in every process."""
    found: dict[PieceEdge, int] = {}
    for target, piece in enumerate(pieces):
        for source, tensors in sorted(piece.receives.items()):
            for tensor in tensors:
                found.setdefault(PieceEdge(source, target, tensor), len(found))
    return found


def differentiable(tape: Tape) -> set[int]:
    """Storages that gradients may reach."""
    found = {tape.slots[slot].storage for slot, origin in tape.origins.items() if origin.trainable}
    for entry in tape.entries:
        if entry.grad and any(tape.slots[slot].storage in found for slot in entry.reads):
            for slot in (*entry.outs, *entry.writes):
                if slot is not None and tape.slots[slot].dtype.is_floating_point:
                    found.add(tape.slots[slot].storage)
    return found


@dataclass
class _Running:
    """What a stage keeps of a microbatch between its forward and its backward part."""

    received: list[tuple[PieceEdge, Any]]
    kept: list[tuple[HandedTensor, Any]]
    loss: Any
    gradients: list[Any] = field(default_factory=list)


class StageRunner:
    """What one process does; ``beat`` are numbers that whoever watches reads: calls made, and what it is doing."""

    def __init__(self, process: Process, job: RunJob, ready: Ready, beat: Any) -> None:
        tape, pieces, arrays, training = ready.tape, ready.pieces, ready.arrays, job.split.training
        self.process, self.orders, self.pieces = process, ready.orders, pieces
        self.inputs, self.training, self.microbatches = ready.inputs, training, job.microbatches
        self.seed, self.beat = job.seed, beat
        self.edges = edges_of(pieces)
        self.mine = sorted({action.stage for action in process.actions})
        reached = differentiable(tape) if training else set()
        self.forms = {edge: TensorLayout(tape.slots[edge.tensor.slot]) for edge in self.edges}
        self.reached = {edge for edge in self.edges if tape.slots[edge.tensor.slot].storage in reached}
        self.reached = {edge for edge in self.reached if self.forms[edge].dtype.is_floating_point}
        self.wire = Wire()
        self.slices: list[Slice] = []
        self.data: dict[int, dict[str, Any]] = {}
        self.record: Results | None = None
        self.step = 0
        self.programs: dict[int, CompiledPiece] = {
            stage: compile_piece(tape, pieces[stage], arrays, training=training) for stage in self.mine
        }
        self.reads = {
            stage: [
                PieceEdge(source, stage, pieces[stage].receives[source][place])
                for source, place in self.programs[stage].receives
            ]
            for stage in self.mine
        }
        self.writes = {stage: [edge for edge in self.edges if edge.source == stage] for stage in self.mine}
        # Of stages that hand something to another one of this process, the last of these.
        self.last = {
            edge.source: edge.target for edge in sorted(self.edges) if {edge.source, edge.target} <= {*self.mine}
        }
        names = dict.fromkeys(name for stage in self.mine for name in pieces[stage].arrays)
        self.parameters = {n: arrays[n] for n in names if isinstance(arrays[n], torch.nn.Parameter)}
        self.buffers = {n: arrays[n] for n in names if n not in self.parameters}
        self.weights = {
            stage: [self.parameters[n] for n in pieces[stage].arrays if n in self.parameters] for stage in self.mine
        }
        self.groups = self._groups() if training else []

    def _groups(self) -> list[tuple[Any, list[Any]]]:
        """Parameters that several processes hold, with these processes: replicas, and stages that share weights."""
        holders: dict[str, set[int]] = {}
        for other in self.orders.processes:
            for stage in {action.stage for action in other.actions}:
                for name in self.pieces[stage].arrays:
                    holders.setdefault(name, set()).add(other.number)
        sets: dict[tuple[int, ...], list[str]] = {}
        for name in sorted(holders):
            if len(holders[name]) > 1:
                sets.setdefault(tuple(sorted(holders[name])), []).append(name)
        found = []
        for members, names in sorted(sets.items()):
            # Everybody has to make every group.
            group = dist.new_group(list(members))
            shared = [self.parameters[n] for n in names if n in self.parameters and self.parameters[n].requires_grad]
            if self.process.number in members and shared:
                found.append((group, shared))
        return found

    # -- one batch ------------------------------------------------------------------------------------------------

    def run_batch(self) -> None:
        """All actions, and in training the sums of gradients over whoever shares them."""
        running: dict[tuple[int, int], _Running] = {}
        actions = self.process.actions
        for action in actions[:AHEAD]:
            self._post(action)
        with nullcontext() if self.training else torch.inference_mode():
            for place, action in enumerate(actions):
                if place + AHEAD < len(actions):
                    self._post(actions[place + AHEAD])
                if action.letter == "F":
                    self._forward(action, running)
                else:
                    self._backward(action, running)
            self._timed(COPY_OUT, self.wire.release)
        if self.groups:
            self._timed(SYNC, self._sum_gradients)

    def _timed(self, sort: int, work: Callable[..., Any], *args: Any) -> Any:
        self.beat[1] = WAITING
        start = time.perf_counter()
        found = work(*args)
        self.slices.append(Slice(sort, start, time.perf_counter()))
        self.beat[1] = COMPUTING
        self.beat[0] += 1
        return found

    def _tag(self, edge: PieceEdge, microbatch: int, back: bool) -> int:
        return 2 * (microbatch * len(self.edges) + self.edges[edge]) + back

    def _post(self, action: Action) -> None:
        stage, letter, microbatch = action
        me = self.process.number
        if letter == "F":
            for edge in self.reads[stage]:
                source = self.orders.holder(edge.source, microbatch)
                if source != me:
                    self.wire.post(self._tag(edge, microbatch, False), source, self.forms[edge])
        elif letter in "BI":
            for edge in self.writes[stage]:
                target = self.orders.holder(edge.target, microbatch)
                if edge in self.reached and target != me:
                    self.wire.post(self._tag(edge, microbatch, True), target, self.forms[edge])

    def _forward(self, action: Action, running: dict[tuple[int, int], _Running]) -> None:
        stage, _, microbatch = action
        me, piece = self.process.number, self.pieces[stage]
        self.beat[1] = WAITING
        start = time.perf_counter()
        received: list[tuple[PieceEdge, Any]] = []
        for edge in self.reads[stage]:
            if self.orders.holder(edge.source, microbatch) == me:
                tensor = dict(running[edge.source, microbatch].kept)[edge.tensor].detach()
            else:
                tensor = self.wire.take(self._tag(edge, microbatch, False))
            received.append((edge, tensor.requires_grad_() if edge in self.reached else tensor))
        begun = time.perf_counter()
        self.beat[1] = COMPUTING
        if microbatch not in self.data:
            self.data[microbatch] = self.inputs.of(microbatch)
        kept, outputs, loss = self.programs[stage].run(
            [tensor for _, tensor in received],
            self.data[microbatch],
            seeder(self.seed + self.step, microbatch),
            self.beat,
        )
        done = time.perf_counter()
        named = list(zip(piece.kept, kept, strict=True))
        by_name = dict(named)
        for edge in self.writes[stage]:
            target = self.orders.holder(edge.target, microbatch)
            if target != me:
                tag = self._tag(edge, microbatch, False)
                answered = 2 * microbatch if edge in self.reached else -1
                self.wire.send(tag, target, self.forms[edge], by_name[edge.tensor], answered)
        self._note(received, Slice(COPY_IN, start, begun, stage, microbatch), FORWARD, begun, done)
        if self.training or stage in self.last:
            running[stage, microbatch] = _Running(received, named, loss)
        if not self.training:
            for source in [s for s, last in self.last.items() if last == stage]:
                running.pop((source, microbatch), None)
        if self.record is not None:
            if self.step == 0:
                for place, tensor in outputs.items():
                    self.record.outputs[microbatch, place] = tensor.detach().clone()
            if loss is not None:
                self.record.losses[self.step, microbatch] = float(loss.detach())

    def _note(self, received: Sequence[Any], wait: Slice, sort: int, begun: float, done: float) -> None:
        if received:
            self.slices.append(wait)
        self.slices.append(Slice(sort, begun, done, wait.stage, wait.microbatch))

    def _backward(self, action: Action, running: dict[tuple[int, int], _Running]) -> None:
        stage, letter, microbatch = action
        state = running[stage, microbatch]
        start = begun = time.perf_counter()
        if letter in "BI":
            self.beat[1] = WAITING
            state.gradients = self._incoming(stage, microbatch, state, running)
            begun = time.perf_counter()
            self.beat[1] = COMPUTING
        outs = [tensor for tensor, _ in state.gradients]
        seeds = [gradient for _, gradient in state.gradients]
        leaves = [tensor for edge, tensor in state.received if edge in self.reached]
        if outs and letter == "B":
            torch.autograd.backward(outs, seeds)
        elif outs and letter == "I" and leaves:
            found = torch.autograd.grad(outs, leaves, seeds, retain_graph=True, allow_unused=True)
            for leaf, gradient in zip(leaves, found, strict=True):
                leaf.grad = gradient
        elif outs and letter == "W" and self.weights[stage]:
            torch.autograd.backward(outs, seeds, inputs=[w for w in self.weights[stage] if w.requires_grad])
        done = time.perf_counter()
        self.beat[0] += 1
        if letter in "BI":
            self._hand_back(stage, microbatch, state)
        wait = Slice(COPY_IN, start, begun, stage, microbatch)
        expects = letter in "BI" and any(edge in self.reached for edge in self.writes[stage])
        self._note([0] if expects else [], wait, _SORTS[letter], begun, done)
        if letter in "BW":
            state.kept, state.gradients, state.loss = [], [], None
            # Whoever answered has the messages of this microbatch.
            self.wire.release(2 * microbatch)
        if letter == "B" or (letter == "I" and not self.weights[stage]):
            state.received = [(edge, tensor) for edge, tensor in state.received if edge in self.reached]

    def _incoming(
        self, stage: int, microbatch: int, state: _Running, running: dict[tuple[int, int], _Running]
    ) -> list[tuple[Any, Any]]:
        """What is differentiated, with the gradients that come from where it went."""
        me = self.process.number
        sums: dict[HandedTensor, Any] = {}
        for edge in self.writes[stage]:
            if edge not in self.reached:
                continue
            if self.orders.holder(edge.target, microbatch) == me:
                other = running[edge.target, microbatch].received
                gradient = next(tensor.grad for found, tensor in other if found == edge)
            else:
                gradient = self.wire.take(self._tag(edge, microbatch, True))
            if gradient is not None:
                known = sums.get(edge.tensor)
                sums[edge.tensor] = gradient if known is None else known + gradient
        found = [(tensor, sums[name]) for name, tensor in state.kept if name in sums and tensor.requires_grad]
        if state.loss is not None and state.loss.requires_grad:
            found.append((state.loss, torch.full_like(state.loss, 1 / self.microbatches)))
        return found

    def _hand_back(self, stage: int, microbatch: int, state: _Running) -> None:
        me = self.process.number
        for edge, tensor in state.received:
            source = self.orders.holder(edge.source, microbatch)
            if edge in self.reached and source != me:
                gradient = torch.zeros_like(tensor) if tensor.grad is None else tensor.grad
                self.wire.send(
                    self._tag(edge, microbatch, True), source, self.forms[edge], gradient, 2 * microbatch + 1
                )

    def _sum_gradients(self) -> None:
        for group, shared in self.groups:
            for parameter in shared:
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
            flat = torch.cat([parameter.grad.reshape(-1) for parameter in shared])
            dist.all_reduce(flat, group=group)
            place = 0
            for parameter in shared:
                count = parameter.numel()
                parameter.grad.copy_(flat[place : place + count].view_as(parameter))
                place += count

    def update(self, optimizer: Any) -> None:
        """The optimizer's step, after which gradients begin anew."""
        start = time.perf_counter()
        optimizer.step()
        self.slices.append(Slice(UPDATE, start, time.perf_counter()))
        optimizer.zero_grad()
