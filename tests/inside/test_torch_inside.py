"""Every private part of torch means what the package takes it for."""

# ruff: noqa: E402 -- the imports follow the check that torch is there
from __future__ import annotations

import logging
import sys
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the PyTorch frontend needs torch")

from torch import nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from partita.inside import torch_inside as inside

aten = torch.ops.aten


class Calls(inside.DispatchMode):
    """Writes down what is dispatched, and what autograd says meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.newest: list[int] = []
        self.running: list[int | None] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(inside.packet_name(func))
        self.newest.append(inside.newest_node())
        self.running.append(inside.running_node())
        return func(*args, **(kwargs or {}))


class Functions(TorchFunctionMode):  # type: ignore[misc]
    """Writes down what is called above autograd."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(getattr(func, "__name__", ""))
        return func(*args, **(kwargs or {}))


def test_stand_ins_have_shapes_and_no_values() -> None:
    with inside.FakeTensorMode(allow_non_fake_inputs=True):
        made = torch.ones(2, 3) @ torch.ones(3, 4)
        assert isinstance(made, inside.FakeTensor)
        assert made.shape == (2, 4)
        with pytest.raises(inside.DataDependentOutputException):
            made.sum().item()
        with pytest.raises(inside.DynamicOutputShapeException):
            made.nonzero()


def test_literals_of_one_number_are_kept_as_constants() -> None:
    with inside.FakeTensorMode():
        made = torch.tensor(2)
    with inside.undispatched():
        assert made.constant.item() == 2


def test_an_operator_without_a_rule_is_told() -> None:
    library = torch.library.Library("partita_inside_test", "DEF")
    library.define("ruleless(Tensor x) -> Tensor")
    library.impl("ruleless", lambda x: x.clone(), "CPU")
    mode = inside.FakeTensorMode()
    with mode, pytest.raises(inside.UnsupportedOperatorException):
        torch.ops.partita_inside_test.ruleless(torch.ones(2))


def test_a_dispatch_mode_sees_calls_and_brings_no_compiler() -> None:
    with Calls() as calls:
        torch.ones(2) + 1
    assert calls.names == ["aten.ones", "aten.add"]
    assert not Calls._should_skip_dynamo()


def test_undispatched_reads_values_beside_a_trace() -> None:
    mode = inside.FakeTensorMode(allow_non_fake_inputs=True)
    real = torch.full((2,), 3.0)
    with mode, Calls() as calls:
        with inside.undispatched():
            assert real.sum().item() == 6.0
            assert type(torch.ones(2)) is torch.Tensor
        assert isinstance(torch.ones(2), inside.FakeTensor)
    assert calls.names == ["aten.ones"]


def test_without_modes_and_back() -> None:
    with Calls() as calls:
        with inside.without_modes():
            torch.ones(2)
        torch.zeros(2)
    assert calls.names == ["aten.zeros"]


def test_without_function_modes_and_back_in_their_order() -> None:
    with Functions() as outer, Functions() as inner:
        with inside.without_function_modes():
            torch.ones(2)
        assert (outer.names, inner.names) == ([], [])
        with pytest.raises(KeyError), inside.without_function_modes():
            raise KeyError
        torch.zeros(2)
    assert outer.names == inner.names == ["zeros"]


def test_switching_gradients() -> None:
    before = torch.is_grad_enabled()
    try:
        for on in (False, True):
            inside.switch_gradients(on)
            assert torch.is_grad_enabled() is on
    finally:
        inside.switch_gradients(before)


def test_keeping_a_gpu_busy_takes_cycles() -> None:
    if not torch.cuda.is_available():
        assert callable(inside.keep_gpu_busy)
        return
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    inside.keep_gpu_busy(100_000_000)
    end.record()
    torch.cuda.synchronize()
    assert start.elapsed_time(end) > 10


def test_quiet_stand_ins() -> None:
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    before = logger.level
    with inside.quiet_stand_ins():
        assert not logger.isEnabledFor(logging.ERROR)
    assert logger.level == before
    with pytest.raises(KeyError), inside.quiet_stand_ins():
        raise KeyError
    assert logger.level == before


def test_without_compiler_compiled_code_runs_as_it_is() -> None:
    def function(x: Any) -> Any:
        return x + 1

    with inside.without_compiler():
        assert torch.compile(function)(torch.ones(1)).item() == 2.0


def test_storages_are_told_apart() -> None:
    base = torch.zeros(4)
    for device in ("cpu", "meta"):
        base = torch.zeros(4, device=device)
        assert inside.storage_id(base) == inside.storage_id(base[1:]) == inside.storage_id(base.detach())
        assert inside.storage_id(base) != inside.storage_id(base.clone())


def test_names_of_operators() -> None:
    assert inside.packet_of(aten.add.Tensor) is aten.add
    assert inside.packet_name(aten.add.Tensor) == "aten.add"
    assert inside.packet_name(len) == ""


def test_a_recipe_without_a_kernel_is_composite() -> None:
    assert inside.composite(aten.matmul.default)
    assert not inside.composite(aten.mm.default)


def test_what_operators_write_and_return() -> None:
    assert inside.written_arguments(aten.add_.Tensor) == ((0, "self"),)
    assert inside.written_arguments(aten.add.Tensor) == ()
    assert inside.written_arguments(aten.add.out) == ((3, "out"),)
    assert inside.returns_view(aten.view.default)
    assert not inside.returns_view(aten.add_.Tensor)
    assert not inside.returns_view(aten.add.Tensor)


@pytest.mark.parametrize("name", ["cond", "scan", "associative_scan", "while_loop"])
def test_where_control_flow_is_held(name: str) -> None:
    function, homes = inside.homes_of(name)
    assert callable(function)
    assert function.__name__ == name
    assert all(home[name] is function for home in homes[:2])
    if hasattr(torch, name):
        assert homes[2][name] is function


def test_no_such_control_flow() -> None:
    assert inside.homes_of("no_such_loop") == (None, [])


def test_flexible_attention_is_a_higher_order_operator() -> None:
    from torch.nn.attention import flex_attention

    assert isinstance(sys.modules["torch._higher_order_ops.flex_attention"].flex_attention, inside.HigherOrderOperator)
    query = torch.zeros(1, 1, 16, 16)
    with inside.attention_without_checks():
        assert flex_attention._validate_device(None, None, None) is None
        assert flex_attention.flex_attention(query, query, query).shape == query.shape
    with pytest.raises(AttributeError):
        flex_attention._validate_device(None, None, None)


def test_nodes_of_autograd_are_numbered_before_their_kernels_run() -> None:
    x = torch.ones(3, requires_grad=True)
    with Calls() as calls:
        y = x.exp()
        z = y.sin()
        made = inside.newest_node()
        (found,) = inside.gradients(z.sum(), (x,))
    forward = [calls.newest[calls.names.index(name)] for name in ("aten.exp", "aten.sin")]
    assert forward == [made - 1, made]
    assert forward == [y.grad_fn._sequence_nr(), z.grad_fn._sequence_nr()]
    backward = {number: name for name, number in zip(calls.names, calls.running, strict=True) if number is not None}
    assert backward[forward[0]] == "aten.mul"
    assert set(forward) <= set(backward)
    assert torch.allclose(found, x.exp().cos() * x.exp())
    assert inside.running_node() is None


def test_gradients_are_none_for_what_is_unused_and_seen_by_modes() -> None:
    x, other = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    with Functions() as functions:
        found, unused = inside.gradients((2 * x).sum(), (x, other))
    assert found.tolist() == [2.0, 2.0]
    assert unused is None
    assert x.grad is None
    assert "grad" not in functions.names


def test_trees() -> None:
    tree = {"a": [1, (2, torch.zeros(1))], "b": None}
    leaves, spec = inside.tree_flatten(tree)
    assert leaves[:2] == [1, 2]
    assert isinstance(spec, inside.TreeSpec)
    assert spec.num_leaves == len(leaves) == len(inside.tree_leaves(tree))
    assert inside.tree_unflatten(leaves, spec)["a"][1][0] == 2
    assert inside.tree_map(lambda leaf: leaf, [1, [2]]) == [1, [2]]
    assert inside.tree_map_only(int, lambda leaf: leaf + 1, [1, ["x"]]) == [2, ["x"]]
    (path, _), *_ = inside.tree_flatten_with_path((({"k": 1},),))[0]
    assert [str(getattr(entry, "idx", getattr(entry, "key", entry))) for entry in path] == ["0", "0", "k"]


def test_tensors_made_of_others() -> None:
    assert not inside.is_traceable_wrapper_subclass(torch.zeros(1))
    from torch.testing._internal.two_tensor import TwoTensor

    assert inside.is_traceable_wrapper_subclass(TwoTensor(torch.zeros(1), torch.zeros(1)))


def test_packed_sequences_are_called_by_their_names() -> None:
    with Functions() as functions:
        packed = nn.utils.rnn.pack_padded_sequence(torch.zeros(2, 3, 1), torch.tensor([3, 2]), batch_first=True)
        nn.utils.rnn.pad_packed_sequence(packed)
    assert {inside.PACK_SEQUENCE, inside.PAD_SEQUENCE} <= set(functions.names)


def test_tables_of_modules() -> None:
    module = nn.BatchNorm1d(2)
    module.child = nn.Linear(1, 1)
    parameters, buffers = inside.tables_of(module)
    assert sorted(parameters) == ["bias", "weight"]
    assert sorted(buffers) == ["num_batches_tracked", "running_mean", "running_var"]
    held = inside.contents_of(module)
    assert held[:2] == (parameters, buffers)
    assert held[2]["training"] is True
    assert held[3]["child"] is module.child
    parameters["weight"] = other = nn.Parameter(torch.zeros(2))
    assert module.weight is other


def test_what_was_compiled() -> None:
    module = nn.Linear(1, 1)
    assert inside.uncompiled(torch.compile(module)) is module
    assert inside.uncompiled(module) is module


def test_modules_without_a_call() -> None:
    class Silent(nn.Module):
        pass

    for what in (Silent, Silent()):
        assert not inside.has_forward(what)
    for what in (nn.Linear, nn.Linear(1, 1)):
        assert inside.has_forward(what)


def test_conversions_come_by() -> None:
    seen: list[Any] = []

    def convert(module: Any, fn: Any, recurse: bool) -> Any:
        seen.append((module, fn(torch.zeros(1)).dtype, recurse))
        return module

    module, before = nn.Linear(1, 1), nn.Module._apply
    with inside.converted_by(convert):
        assert module.half() is module
        assert module.to(torch.float64) is module
    assert seen == [(module, torch.float16, True), (module, torch.float64, True)]
    assert module.weight.dtype is torch.float32
    assert nn.Module._apply is before


def test_attention_is_one_function_by_both_its_names() -> None:
    """What stands for attention in a trace is recognised by the function itself."""
    with Functions() as functions:
        functional.scaled_dot_product_attention(*[torch.zeros(1, 2, 2)] * 3)
    assert functions.names[-1] == "scaled_dot_product_attention"
