"""Private parts of torch that a trace needs: stand-ins, dispatch, autograd's numbering, a module's tables.

torch has no public way to run a module without data and see every call, forward and backward; these parts are what
``torch.export``, ``torch.compile`` and the FLOP counter are made of, and have kept their meaning since torch 2.1.
"""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch._C import _current_autograd_node

# What torch's own loops and flexible attention are to modes that catch calls.
from torch._ops import HigherOrderOperator as HigherOrderOperator

# Stand-ins without data, and what they raise where code asks for a value, a shape that depends on one, or an operator
# without a rule for shapes.
from torch._subclasses.fake_tensor import DataDependentOutputException as DataDependentOutputException
from torch._subclasses.fake_tensor import DynamicOutputShapeException as DynamicOutputShapeException
from torch._subclasses.fake_tensor import FakeTensor as FakeTensor
from torch._subclasses.fake_tensor import FakeTensorMode as FakeTensorMode
from torch._subclasses.fake_tensor import UnsupportedOperatorException as UnsupportedOperatorException
from torch.overrides import _len_torch_function_stack, _pop_mode, _push_mode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

# Whether a tensor is made of others: quantised and distributed ones are.
from torch.utils._python_dispatch import is_traceable_wrapper_subclass as is_traceable_wrapper_subclass

# Nested arguments and results; ``torch.utils._pytree`` is what every part of torch itself flattens them with.
from torch.utils._pytree import TreeSpec as TreeSpec
from torch.utils._pytree import tree_flatten as tree_flatten
from torch.utils._pytree import tree_flatten_with_path as tree_flatten_with_path
from torch.utils._pytree import tree_leaves as tree_leaves
from torch.utils._pytree import tree_map as tree_map
from torch.utils._pytree import tree_map_only as tree_map_only
from torch.utils._pytree import tree_unflatten as tree_unflatten

from partita.inside.replacing import replaced

#: Within, calls go to the kernels of the tensors at hand, past stand-ins' own rules: how real tensors are computed
#: beside a trace. ``torch.utils._mode_utils.no_dispatch`` is the same behind a generator, which costs more.
undispatched = torch._C._DisableTorchDispatch

#: Within, no dispatch mode of those around sees a call.
without_modes = _disable_current_modes

#: Turns the recording of gradients on or off; ``torch.set_grad_enabled`` makes an object at each call.
switch_gradients = torch._C._set_grad_enabled

#: Keeps the GPU waiting for so many cycles, so that what follows is there before it begins.
keep_gpu_busy = torch.cuda._sleep

#: Names of the two calls by which rows of padded arrays are packed, and put back.
PACK_SEQUENCE, PAD_SEQUENCE = "_pack_padded_sequence", "_pad_packed_sequence"


class DispatchMode(TorchDispatchMode):  # type: ignore[misc]
    """What sees every call below autograd while it is active; its class defines ``__torch_dispatch__``."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Only tracers that compile need it, and it costs the import of dynamo.
        return False


@contextmanager
def without_function_modes() -> Iterator[None]:
    """Within, no mode above autograd sees a call; they are there again afterwards, in their order."""
    modes = [_pop_mode() for _ in range(_len_torch_function_stack())]
    try:
        yield
    finally:
        for mode in reversed(modes):
            _push_mode(mode)


@contextmanager
def quiet_stand_ins() -> Iterator[None]:
    """Within, what stand-ins raise is not logged, too, with a traceback."""
    logger = logging.getLogger(torch._subclasses.fake_tensor.__name__)
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


@contextmanager
def without_compiler() -> Iterator[None]:
    """Within, what was given to ``torch.compile`` runs as it is; its compiler is not imported for that."""
    loaded = "torch._dynamo" in sys.modules
    with torch.compiler.set_stance("force_eager") if loaded else nullcontext():
        yield


# -- tensors ------------------------------------------------------------------------------------------------------


def storage_id(tensor: Any) -> int:
    """What tensors that share their data have in common, and no others while these live.

    Stand-ins have no data pointer, which is what would be asked of real tensors.
    """
    number: int = tensor.untyped_storage()._cdata
    return number


def place_in_memory(tensor: Any) -> tuple[Any, ...]:
    """Equal for tensors that are the same array, whatever format they are read in."""
    return storage_id(tensor), tensor.storage_offset(), tuple(tensor.shape), tuple(tensor.stride())


# -- operators ----------------------------------------------------------------------------------------------------


def packet_of(func: Any) -> Any:
    """An operator without its overload, as tables of operators name it."""
    return func._overloadpacket


def packet_name(func: Any) -> str:
    """The name of an operator without its overload, such as ``aten.add``; empty for what is no operator."""
    packet = getattr(func, "_overloadpacket", None)
    return "" if packet is None else _name(packet)


#: Writing an operator's name takes longer than many calls.
_name = functools.cache(str)


def composite(func: Any) -> bool:
    """Whether an operator is a recipe of others with no kernel of its own."""
    # Many calls have both: the kernel is what devices run.
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    return bool(has_kernel(func.name(), "CompositeImplicitAutograd")) and not has_kernel(func.name(), "CPU")


@functools.cache
def written_arguments(func: Any) -> tuple[tuple[int, str], ...]:
    """Place and name of each argument that an operator writes in place."""
    return tuple(
        (place, argument.name)
        for place, argument in enumerate(func._schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    )


def returns_view(func: Any) -> bool:
    """Whether an operator returns a view of an argument."""
    returned = [result.alias_info for result in func._schema.returns]
    return any(alias is not None and not alias.is_write for alias in returned)


def homes_of(name: str) -> tuple[Any, list[dict[str, Any]]]:
    """One of torch's own control-flow functions, and the modules that have it, as tables; None where there is none."""
    home = sys.modules.get(f"torch._higher_order_ops.{name}")
    function = getattr(home, name, None)
    if function is None:
        return None, []
    return function, [vars(home), vars(sys.modules["torch._higher_order_ops"]), vars(torch)]


# -- autograd -----------------------------------------------------------------------------------------------------


def newest_node() -> int:
    """The number of the autograd node made last in this thread.

    Inside a dispatch mode that is the node of the call at hand, if it makes one: nodes are made just before kernels
    run.
    """
    return int(torch._C._autograd._get_sequence_nr()) - 1


def running_node() -> int | None:
    """The number of the autograd node whose backward runs in this thread; None outside of any."""
    node = _current_autograd_node()
    return None if node is None else int(node._sequence_nr())


def gradients(loss: Any, tensors: tuple[Any, ...]) -> tuple[Any, ...]:
    """What ``torch.autograd.grad`` returns, None for what is unused.

    That function is handled by the modes that catch calls, so they would be off while checkpointed parts run again.
    """
    run = torch.autograd.Variable._execution_engine.run_backward
    start = torch.ones_like(loss, memory_format=torch.preserve_format)
    return tuple(run((loss,), (start,), False, False, tensors, allow_unreachable=True, accumulate_grad=False))


# -- modules ------------------------------------------------------------------------------------------------------


def tables_of(module: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """A module's own parameters and buffers, as the tables that it looks them up in."""
    return module._parameters, module._buffers


def contents_of(module: Any) -> tuple[dict[str, Any], ...]:
    """All that a module itself holds, by name: parameters, buffers, attributes, and modules."""
    return *tables_of(module), vars(module), module._modules


def uncompiled(module: Any) -> Any:
    """The module that was given to ``torch.compile``, or the one at hand."""
    return getattr(module, "_orig_mod", module)


def has_forward(module: Any) -> bool:
    """Whether a module, or a class of modules, says what a call of it does."""
    return bool(module.forward.__name__ != "_forward_unimplemented")


def converted_by(convert: Callable[[Any, Callable[[Any], Any], bool], Any]) -> AbstractContextManager[None]:
    """Within, ``module.to``, ``module.half`` and their like hand a module, a function for its arrays, and whether its
    children are meant, to ``convert``, which returns the module.
    """

    def apply(self: Any, fn: Callable[[Any], Any], recurse: bool = True) -> Any:
        return convert(self, fn, recurse)

    return replaced((torch.nn.Module, "_apply", apply))


def attention_without_checks() -> AbstractContextManager[None]:
    """Within, flexible attention asks neither for a GPU nor for a compiler; as far as its module is loaded."""
    module = sys.modules.get("torch.nn.attention.flex_attention")
    changed = {"_validate_device": lambda query, key, value: None, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG": True}
    return replaced(*((module, name, value) for name, value in changed.items() if hasattr(module, name)))
