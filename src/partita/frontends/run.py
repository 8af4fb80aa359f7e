"""One captured run of a module: forward, and for training the loss and its backward."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import numpy
import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from partita.frontends.capture import Recorder
from partita.frontends.fakes import fake_arguments, fake_state
from partita.frontends.fused import FusedCalls
from partita.frontends.options import where as where_in_code
from partita.frontends.records import Capture, Stored
from partita.frontends.recurrent import Recurrences
from partita.frontends.scans import whole_scans
from partita.frontends.surroundings import (
    OnePlace,
    mixed_precision,
    no_branches,
    plain_checkpoints,
    plain_conversions,
    plain_literals,
)
from partita.frontends.tape import Tape
from partita.frontends.values import Values
from partita.ground.errors import TraceError
from partita.inside.messages import NESTED_SIZES, NUMPY
from partita.inside.replacing import alone
from partita.inside.torch_inside import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    UnsupportedOperatorException,
    attention_without_checks,
    gradients,
    quiet_stand_ins,
    tree_leaves,
    without_compiler,
)
from partita.inside.transformers_inside import unpacked, without_checks

_LOSS_NOTE = "The model returns no loss, so the sum of the means of its floating outputs stands in for one."


def run_module(
    module: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    training: bool,
    dtype: Any = None,
    tape: Tape | None = None,
    *,
    keep_events: bool = False,
) -> Capture:
    """Run a module once on fake tensors, floating ones in the given ``torch.dtype`` if any; forward also onto a tape.

    With ``keep_events`` everything that is dispatched is written down, too. What cannot be run, or followed because it
    depends on data, is a ``TraceError``.
    """
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    recorder = Recorder(fake, tape)
    recorder.keep_events = keep_events
    names = {id(child): name for name, child in module.named_modules()}
    recorder.capture.modules = {name: type(child).__name__ for name, child in module.named_modules()}

    def tell(running: list[Any]) -> None:
        recorder.module = next((names[id(m)] for m in reversed(running) if id(m) in names), "")

    with alone, _settings(module, recorder, training), fake_state(module, recorder, dtype) as parameters:
        fake_args, fake_kwargs = fake_arguments(args, kwargs, recorder, dtype)
        with running_modules(tell) as stack, whole_scans(module, recorder):
            try:
                with _caught(recorder, fake), torch.set_grad_enabled(training):
                    out = module(*fake_args, **fake_kwargs)
            except Exception as error:  # a model's own code
                where = names.get(id(stack[-1]), "") if stack else ""
                raise TraceError(_explain(where, recorder.capture.modules[where], error)) from error
            recorder.module = ""
            if tape is not None:
                tape.outputs = [tape.slot_of(t) for t in output_tensors(out)]
            if training:
                _run_backward(recorder, fake, out, parameters)
            else:
                recorder.capture.outputs = [recorder.read(t) for t in output_tensors(out)]
    return recorder.capture


def _run_backward(recorder: Recorder, fake: Any, out: Any, parameters: list[tuple[Stored, Any]]) -> None:
    wanted = [(stored, tensor) for stored, tensor in parameters if stored.trainable]
    if not wanted:
        raise TraceError("training needs a parameter that requires a gradient, but the model has none")
    with _caught(recorder, fake), torch.enable_grad():
        loss, note = loss_of(out)
        if not loss.requires_grad:
            raise TraceError("the loss does not depend on any trainable parameter, so there is no backward to trace")
        recorder.capture.outputs = [recorder.read(loss)]
        if recorder.tape is not None:
            recorder.tape.loss = recorder.tape.slot_of(loss)
        recorder.backward = True
        try:
            found = gradients(loss, tuple(tensor for _, tensor in wanted))
        except Exception as error:  # a model's own code
            where = recorder.module
            raise TraceError(_explain(where, recorder.capture.modules.get(where, ""), error, "backward of ")) from error
        for (stored, _), gradient in zip(wanted, found, strict=True):
            if gradient is not None:
                recorder.capture.gradients.append((stored, recorder.read(gradient)))
    if note:
        recorder.capture.notes.append(note)


def loss_of(out: Any) -> tuple[Any, str | None]:
    """The scalar to differentiate, and a note if it had to be made up."""
    if isinstance(out, torch.Tensor):
        given = out
    else:
        given = out.get("loss") if isinstance(out, Mapping) else getattr(out, "loss", None)
    if isinstance(given, torch.Tensor) and given.numel() == 1 and given.is_floating_point():
        return given.reshape(()), None
    floating = [t for t in output_tensors(out) if t.is_floating_point() and t.requires_grad]
    if not floating:
        raise TraceError("training needs a floating output that depends on the parameters; the model returns none")
    return sum(t.mean(dtype=torch.float32) for t in floating), _LOSS_NOTE


def output_tensors(out: Any) -> list[Any]:
    """The distinct tensors that a model returns."""
    if isinstance(out, torch.Tensor):
        return [out]
    if not isinstance(out, (Mapping, list, tuple)) and hasattr(out, "__dict__"):
        out = vars(out)
    found: list[Any] = []
    for leaf in tree_leaves(dict(out) if isinstance(out, Mapping) else out):
        if isinstance(leaf, torch.Tensor):
            found.append(leaf)
        elif isinstance(leaf, Mapping):
            found.extend(output_tensors(leaf))
    return list({id(t): t for t in found}.values())


@contextmanager
def _settings(module: Any, recorder: Recorder, training: bool) -> Iterator[None]:
    """What a run needs of its surroundings; put back afterwards."""
    with ExitStack() as after:
        # Where transformers is loaded it runs as on real tensors: constant positions were counted by the model itself.
        after.enter_context(without_checks())
        after.enter_context(unpacked(lambda positions: recorder.read(positions).value.constant))
        after.enter_context(quiet_stand_ins())
        # Python's own random draws, which some models drop layers by, are the same in every trace.
        after.callback(random.setstate, random.getstate())
        after.callback(numpy.random.set_state, numpy.random.get_state())
        random.seed(0)
        # Evaluation mode for inference, training mode for training (unless the caller already chose it).
        for child in module.modules():
            after.callback(setattr, child, "training", child.training)
            configuration: Any = getattr(child, "config", None)
            if getattr(configuration, "use_cache", None) is True:
                after.callback(setattr, configuration, "use_cache", True)
                configuration.use_cache = False
        if module.training != training:
            with suppress(NotImplementedError):
                # An exported program stays in the mode that it was exported in.
                module.train(training)
        yield


@contextmanager
def _caught(recorder: Recorder, fake: Any) -> Iterator[None]:
    """Run on fake tensors, with every call written down, and torch as it is on the machine that the model is for."""
    note = recorder.capture.note
    with ExitStack() as stack:
        # What the caller may have switched on around the trace.
        stack.enter_context(torch.inference_mode(False))
        if torch.get_default_device().type != "cpu":
            stack.enter_context(torch.device("cpu"))
        stack.enter_context(without_compiler())
        values = Values(settle=recorder.tape is None, recorder=recorder)
        for surrounding in (
            mixed_precision(),
            no_branches(note),
            plain_checkpoints(),
            plain_conversions(True),
            plain_literals(),
            attention_without_checks(),
            fake,
            recorder,
            values,
            FusedCalls(recorder),
            Recurrences(recorder),
            OnePlace(),
        ):
            stack.enter_context(surrounding)
        yield
    for text in sorted(values.presumed):
        note(f"The plan depends on data, and presumes that {text}.")
    for name in sorted(values.read):
        note(
            f"What runs depends on the values of input {name!r}: this plan holds for inputs that decide the same as "
            "the example."
        )


@contextmanager
def running_modules(tell: Callable[[list[Any]], None]) -> Iterator[list[Any]]:
    """The modules that run, innermost last, told at every change; after an error the last is the culprit."""
    stack: list[Any] = []

    def enter(child: Any, _: Any) -> None:
        stack.append(child)
        tell(stack)

    def leave(child: Any, _: Any, __: Any) -> None:
        while stack and stack.pop() is not child:
            pass
        tell(stack)

    with register_module_forward_pre_hook(enter), register_module_forward_hook(leave):
        yield stack


def _explain(name: str, kind: str, error: Exception, what: str = "") -> str:
    where = f"{what}module {name!r} ({kind})" if name else f"{what}the root module ({kind})"
    place = where_in_code(error)
    if isinstance(error, (DataDependentOutputException, DynamicOutputShapeException)):
        operator = str(error.func)
        return (
            f"cannot trace {where}: its control flow or shapes depend on data (through {operator}){place}; "
            "a static split needs the same operators for every input: take one way there, or make what decides an input"
        )
    nested = "nested tensors have sizes that depend on data; use padded ones with a mask"
    if isinstance(error, UnsupportedOperatorException):
        if "nested" in str(error.func):
            return f"cannot trace {where}: {nested}{place}"
        return f"cannot trace {where}: operator {error.func} has no shape rule{place}; register one with torch.library"
    cause = " ".join(str(error).split()) or "no message"
    if NESTED_SIZES in cause:
        cause = nested
    if NUMPY in cause:
        cause = "numpy reads the values of tensors that have none; compute with torch, or outside of forward"
    if len(cause) > 300:
        cause = cause[:297] + "..."
    return f"cannot trace {where}: {type(error).__name__}: {cause}{place}"
