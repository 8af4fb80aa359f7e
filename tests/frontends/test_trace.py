"""Tracing small modules for inference; sizes are worked out by hand in comments."""

# ruff: noqa: E402 -- the imports follow the check that torch is there
from __future__ import annotations

import msgspec
import pytest

torch = pytest.importorskip("torch", reason="the PyTorch frontend needs torch")

from torch import nn
from torch.nn import functional as F

from frontends.helpers import check_parameters, eager_flops, find, produced_by, targets, tensor
from partita.frontends.torch import trace
from partita.ground.errors import InputError, TraceError
from partita.nouns.graph import Graph


def traced(function, *modules, args, training=False):
    """Trace a function of (self, *args), where self.m is the list of modules."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.m = nn.ModuleList(modules)

        def forward(self, *inputs):
            return function(self, *inputs)

    return trace(Model(), args, training=training)


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(8, 32)
        self.down = nn.Linear(32, 8, bias=False)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


def test_a_small_network_operator_by_operator() -> None:
    graph = trace(Mlp(), (torch.zeros(4, 8),), name="mlp")
    assert targets(graph) == ["addmm", "relu", "mm", "add"]
    assert [op.module for op in graph.operators] == ["up", "", "down", ""]
    # addmm: 2·4·8·32 = 2048; mm: 2·4·32·8 = 2048.
    assert [op.flops for op in graph.operators] == [2048, 0, 2048, 0]
    # addmm reads x 4·8·4 = 128, weight 32·8·4 = 1024, bias 32·4 = 128; writes 4·32·4 = 512.
    assert graph.operators[0].bytes_read == 128 + 1024 + 128
    assert [op.bytes_written for op in graph.operators] == [512, 512, 128, 128]
    # The skip connection: one input tensor, read by the first and the last operator.
    x = tensor(graph, "input0")
    assert (x.producer, x.consumers, x.bytes, x.shape) == (None, (0, 3), 128, (4, 8))
    assert produced_by(graph, 3)[0].consumers == ()
    # The transposed weight folds: the product reads the parameter itself.
    assert [(p.name, p.users) for p in graph.parameters] == [
        ("up.weight", (0,)),
        ("up.bias", (0,)),
        ("down.weight", (2,)),
    ]
    assert graph.modules == {"": "Mlp", "up": "Linear", "down": "Linear"}
    assert (graph.name, graph.training, graph.parameter_count) == ("mlp", False, 32 * 8 + 32 + 8 * 32)


def test_the_module_is_left_as_it_was() -> None:
    module = Mlp()
    before = dict(module.named_parameters())
    trace(module, (torch.zeros(4, 8),), training=True)
    trace(module, (torch.zeros(4, 8),))
    after = dict(module.named_parameters())
    assert before.keys() == after.keys()
    assert all(before[name] is after[name] for name in before)
    assert module.training
    assert all(p.grad is None for p in module.parameters())


def test_meta_and_real_modules_give_one_graph() -> None:
    with torch.device("meta"):
        meta = Mlp()
    assert trace(meta, (torch.zeros(4, 8, device="meta"),)) == trace(Mlp(), (torch.zeros(4, 8),))


def test_shape_only_views_vanish() -> None:
    def forward(self, x):
        y = torch.relu(x).view(2, 6, 4).transpose(1, 2).unsqueeze(0).permute(0, 3, 1, 2).squeeze(0).detach()
        return torch.tanh(y)

    graph = traced(forward, args=(torch.zeros(12, 4),))
    assert targets(graph) == ["relu", "tanh"]
    assert tensor(graph, "relu").consumers == (1,)
    assert tensor(graph, "relu").bytes == 12 * 4 * 4


def test_a_broadcast_ships_the_small_base() -> None:
    graph = traced(lambda self, x: torch.tanh(torch.relu(x).expand(100, 8)), args=(torch.zeros(1, 8),))
    assert targets(graph) == ["relu", "tanh"]
    # Eight numbers go over, not eight hundred.
    assert tensor(graph, "relu").bytes == 32
    assert graph.operators[1].bytes_read == 32
    assert graph.operators[1].bytes_written == 3200


def test_a_split_without_overlap_becomes_several_outputs() -> None:
    def forward(self, x):
        q, k, v = self.m[0](x).split(8, dim=-1)
        return torch.relu(q) + torch.tanh(k), torch.sigmoid(v.view(2, 10, 2, 4).transpose(1, 2))

    graph = traced(forward, nn.Linear(4, 24), args=(torch.zeros(2, 10, 4),))
    assert targets(graph) == ["addmm", "relu", "tanh", "add", "sigmoid"]
    # Three pieces of 2·10·8·4 = 640 bytes; together the 1920 bytes of the product.
    pieces = produced_by(graph, 0)
    assert [(p.bytes, p.consumers) for p in pieces] == [(640, (1,)), (640, (2,)), (640, (4,))]
    assert graph.operators[0].bytes_written == 1920


def test_pieces_of_chained_views_fold_too() -> None:
    def forward(self, x):
        left, right = torch.relu(x).chunk(2, dim=1)
        return torch.tanh(left[0]), torch.sigmoid(left[1:]), torch.exp(right)

    graph = traced(forward, args=(torch.zeros(3, 8),))
    assert targets(graph) == ["relu", "tanh", "sigmoid", "exp"]
    # Left half: row 0 is 4 numbers, rows 1..2 are 8; right half is 12.
    assert [p.bytes for p in produced_by(graph, 0)] == [16, 32, 48]


def test_a_slice_beside_a_reader_of_the_whole_is_a_free_operator() -> None:
    def forward(self, x):
        y = torch.relu(x)
        return torch.tanh(y[:, :4]) + y.sum()

    graph = traced(forward, args=(torch.zeros(3, 8),))
    assert targets(graph) == ["relu", "slice", "tanh", "sum", "add"]
    index, cut = find(graph, "slice")
    assert (cut.free, cut.flops, cut.bytes_read, cut.bytes_written) == (True, 0, 0, 0)
    assert tensor(graph, "relu").consumers == (1, 3)
    assert produced_by(graph, index)[0].bytes == 3 * 4 * 4


def test_overlapping_slices_are_free_operators() -> None:
    def forward(self, x):
        y = torch.relu(x)
        return torch.tanh(y[:6]), torch.exp(y[2:])

    graph = traced(forward, args=(torch.zeros(8),))
    # 24 + 24 bytes would be more than the 32 of the whole.
    assert targets(graph) == ["relu", "slice", "tanh", "slice", "exp"]
    assert tensor(graph, "relu").consumers == (1, 3)


def test_one_slice_read_twice_is_one_tensor() -> None:
    def forward(self, x):
        y = torch.relu(x)
        return torch.tanh(y[:4]) + torch.exp(y[:4])

    graph = traced(forward, args=(torch.zeros(8),))
    assert [(p.bytes, p.consumers) for p in produced_by(graph, 0)] == [(16, (1, 2))]


def test_constants_vanish_and_random_draws_do_not() -> None:
    def forward(self, x):
        mask = torch.ones(4, 4).tril().log()
        positions = torch.arange(4).float()[:, None] * 2
        return x + mask + positions

    assert targets(traced(forward, args=(torch.zeros(4, 4),))) == ["add", "add"]
    noisy = traced(lambda self, x: x + torch.randn(4), args=(torch.zeros(4),))
    assert targets(noisy) == ["randn", "add"]


def test_dead_operators_vanish() -> None:
    def forward(self, x):
        self.m[0](x).sum()
        return torch.relu(x)

    graph = traced(forward, nn.Linear(4, 4), args=(torch.zeros(2, 4),))
    assert targets(graph) == ["relu"]
    assert [p.users for p in graph.parameters] == [(), ()]
    expected = "No operator reads 2 of the weights (80 B: m.0.weight, m.0.bias); they are stored on no device."
    assert graph.notes == (expected,)


def test_operators_with_several_results() -> None:
    def forward(self, x):
        values, places = x.topk(2)
        return torch.relu(values), places * 2

    graph = traced(forward, args=(torch.zeros(5, 9),))
    assert targets(graph) == ["topk", "relu", "mul"]
    assert [(t.name, t.dtype, t.bytes, t.consumers) for t in produced_by(graph, 0)] == [
        ("topk", "float32", 40, (1,)),
        ("topk.1", "int64", 80, (2,)),
    ]


def test_an_unused_result_is_no_tensor() -> None:
    graph = traced(lambda self, x: torch.relu(self.m[0](x)), nn.LayerNorm(8), args=(torch.zeros(5, 8),))
    # Mean and reciprocal deviation are written, but nobody reads them.
    assert [t.name for t in produced_by(graph, 0)] == ["native_layer_norm"]


def test_an_embedding_reads_the_rows_it_gathers() -> None:
    graph = traced(lambda self, i: self.m[0](i), nn.Embedding(1000, 16), args=(torch.zeros(2, 3, dtype=torch.long),))
    # Six rows of 16 numbers and six indices of 8 bytes; the table is 64,000 bytes.
    assert graph.operators[0].bytes_read == 6 * 64 + 6 * 8
    assert graph.parameters[0].bytes == 64000


def test_reading_part_of_a_parameter() -> None:
    def forward(self, x):
        return F.linear(x, self.m[0].weight[:2])

    graph = traced(forward, nn.Linear(4, 8, bias=False), args=(torch.zeros(3, 4),))
    assert targets(graph) == ["mm"]
    assert graph.parameters[0].users == (0,)
    # x: 3·4·4, two rows of the weight: 2·4·4.
    assert graph.operators[0].bytes_read == 48 + 32


def test_in_place_calls_are_new_values() -> None:
    def forward(self, x):
        y = torch.relu(x)
        y.add_(1)
        before = torch.tanh(y)
        y[:2] = 5 * x[:2]
        return before + y

    graph = traced(forward, args=(torch.zeros(4),))
    names = targets(graph)
    assert [n for n in names if n != "slice"] == ["relu", "add_", "tanh", "mul", "copy_", "add"]
    order = {name: index for index, name in enumerate(names)}
    assert tensor(graph, "relu").consumers == (order["add_"],)
    # tanh reads the value before the assignment, the assignment keeps its second half.
    assert set(tensor(graph, "add_").consumers) == {order["tanh"], order["copy_"]}
    assert tensor(graph, "copy_").consumers == (order["add"],)
    assert graph.operators[order["copy_"]].bytes_written == 8


def test_a_batch_norm_updates_its_buffers_without_breaking_the_graph() -> None:
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    graph = trace(module, (torch.zeros(2, 3, 8, 8),), training=True)
    buffers = {p.name: p for p in graph.parameters if p.buffer}
    assert set(buffers) == {"1.running_mean", "1.running_var", "1.num_batches_tracked"}
    # Normalising and its backward read the running mean.
    assert buffers["1.running_mean"].users == (1, 4)
    assert not any(p.trainable for p in buffers.values())
    assert float(module[1].running_mean.sum()) == 0


def test_a_buffer_only_chain_is_computed() -> None:
    class Rotary(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("frequency", torch.ones(4))

        def forward(self, x):
            return x * (torch.arange(6)[:, None] * self.frequency).cos()

    graph = trace(Rotary(), (torch.zeros(6, 4),))
    assert targets(graph) == ["mul", "cos", "mul"]
    assert (graph.parameters[0].users, graph.parameters[0].buffer) == ((0,), True)
    assert graph.parameter_count == 0


@pytest.mark.parametrize("how", ["object", "storage"])
def test_tied_parameters_are_one(how: str) -> None:
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(10, 4)
            self.head = nn.Linear(4, 10, bias=False)
            self.head.weight = self.embed.weight if how == "object" else nn.Parameter(self.embed.weight.detach())

        def forward(self, i):
            return self.head(torch.relu(self.embed(i)))

    graph = trace(Tied(), (torch.zeros(3, dtype=torch.long),))
    (weight,) = graph.parameters
    assert (weight.name, weight.aliases, weight.users, weight.bytes) == ("embed.weight", ("head.weight",), (0, 2), 160)


def test_a_module_used_twice_keeps_one_name_and_one_weight() -> None:
    graph = traced(lambda self, x: self.m[0](self.m[0](x)), nn.Linear(4, 4), args=(torch.zeros(2, 4),))
    assert [op.module for op in graph.operators] == ["m.0", "m.0"]
    assert graph.parameters[0].users == (0, 1)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_number_formats(dtype) -> None:
    name = str(dtype).removeprefix("torch.")
    graph = trace(Mlp().to(dtype), (torch.zeros(4, 8, dtype=dtype),))
    assert {op.dtype for op in graph.operators} == {name}
    assert {t.dtype for t in graph.tensors} == {name}
    assert graph.parameter_bytes == (32 * 8 + 32 + 8 * 32) * dtype.itemsize


def test_attention_is_one_operator_and_counts_two_products() -> None:
    def forward(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=0.1, enable_gqa=True)

    args = (torch.zeros(2, 8, 16, 4), torch.zeros(2, 2, 16, 4), torch.zeros(2, 2, 16, 6))
    graph = traced(forward, args=args)
    assert targets(graph) == ["scaled_dot_product_attention"]
    # Scores: 2·(2·8·16)·16·4; values: 2·(2·8·16)·16·6; masked halves are not subtracted.
    assert graph.operators[0].flops == 2 * 256 * 16 * (4 + 6)
    # The result is 2·8·16·6 numbers; the log-sum-exp is not needed here.
    assert [(t.shape, t.bytes) for t in produced_by(graph, 0)] == [((2, 8, 16, 6), 6144)]


def test_multi_head_attention_modules_stay_whole() -> None:
    module = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    for training in (False, True):
        graph = trace(module, (torch.zeros(2, 5, 16),), training=training)
        find(graph, "scaled_dot_product_attention")
        assert not [name for name in targets(graph) if "softmax" in name or name == "bernoulli_"]


@pytest.mark.parametrize(
    ("module", "shape"),
    [
        (nn.Conv2d(3, 8, 3, stride=2, groups=1), (2, 3, 16, 16)),
        (nn.ConvTranspose2d(3, 8, 3), (2, 3, 6, 6)),
        (nn.Conv1d(4, 8, 5), (2, 4, 20)),
        (nn.GRU(4, 8), (3, 2, 4)),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("training", [False, True])
def test_flops_agree_with_torch(module, shape, training) -> None:
    class First(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = module

        def forward(self, *x):
            out = self.inner(*x)
            return out[0] if isinstance(out, tuple) else out

    args = (torch.zeros(shape),)
    graph = trace(First(), args, training=training)
    check_parameters(graph, module)
    assert graph.flops == eager_flops(First(), args, training=training) > 0


@pytest.mark.parametrize("module", [nn.Conv1d(4, 8, 5, groups=2), nn.ConvTranspose1d(4, 8, 5, groups=4)])
def test_gradients_of_grouped_convolutions_are_as_many_products_as_the_result(module) -> None:
    # torch's own count takes every channel with every other for the gradient of the weight.
    args = (torch.zeros(2, 4, 20),)
    places = 16 if isinstance(module, nn.Conv1d) else 20
    forward = trace(module, args).flops
    assert forward == 2 * 2 * places * module.weight.numel()
    assert trace(module, args, training=True).flops == 2 * forward, "the source needs no gradient"
    first = nn.Conv1d(4, 4, 1)
    both = trace(nn.Sequential(first, module), args, training=True).flops
    assert both == 3 * forward + 2 * trace(first, args).flops


def test_a_fused_recurrent_layer_counts_its_products() -> None:
    graph = trace(nn.LSTM(16, 32), (torch.zeros(5, 2, 16),))
    # Ten steps of samples, each times the 4·32 × 16 and 4·32 × 32 weights.
    assert graph.flops == 2 * 10 * (128 * 16 + 128 * 32)


def test_graphs_survive_json_and_repeat_exactly() -> None:
    graph = trace(nn.TransformerEncoderLayer(16, 4, 32), (torch.zeros(2, 5, 16),), training=True)
    assert msgspec.json.decode(msgspec.json.encode(graph), type=Graph) == graph
    assert trace(nn.TransformerEncoderLayer(16, 4, 32), (torch.zeros(2, 5, 16),), training=True) == graph


def test_keyword_and_nested_arguments_are_named() -> None:
    class Model(nn.Module):
        def forward(self, pair, scale=None):
            return pair["a"] * pair["b"] + scale

    graph = trace(Model(), ({"a": torch.zeros(2), "b": torch.zeros(2)},), {"scale": torch.zeros(2)})
    assert {t.name: t.consumers for t in graph.tensors if t.producer is None} == {
        "input0.a": (0,),
        "input0.b": (0,),
        "scale": (1,),
    }


def test_python_may_branch_on_constants() -> None:
    def forward(self, x):
        rates = torch.linspace(0, 1, 5)
        for rate in rates:
            if rate.item() > 0.6:
                x = torch.relu(x)
        return torch.tanh(x) if torch.rand([]) < 0.1 else x

    assert targets(traced(forward, args=(torch.zeros(3),))) == ["relu", "relu"]


def test_control_flow_on_data_is_refused_with_the_module_named() -> None:
    class Picky(nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    with pytest.raises(
        TraceError, match=r"module 'm\.1' \(Picky\): its control flow or shapes depend on data"
    ) as caught:
        traced(lambda self, x: self.m[1](self.m[0](x)), nn.Linear(4, 4), Picky(), args=(torch.zeros(2, 4),))
    assert "\n" not in str(caught.value)


def test_shapes_that_depend_on_data_are_refused() -> None:
    with pytest.raises(TraceError, match=r"root module \(Model\): .* depend on data \(through aten\._local_scalar"):
        traced(lambda self, x: x[: int(x.sum())], args=(torch.zeros(4, device="meta"),))


def test_a_module_that_raises_is_named() -> None:
    class Broken(nn.Module):
        def forward(self, x):
            raise KeyError("no such expert")

    with pytest.raises(TraceError, match=r"module 'm\.0' \(Broken\): KeyError: 'no such expert'"):
        traced(lambda self, x: self.m[0](x), Broken(), args=(torch.zeros(4),))


def test_wrong_shapes_and_arguments_are_one_line() -> None:
    with pytest.raises(TraceError, match=r"module 'up' \(Linear\)") as caught:
        trace(Mlp(), (torch.zeros(4, 9),))
    assert "\n" not in str(caught.value)
    with pytest.raises(TraceError, match=r"root module \(Mlp\): TypeError"):
        trace(Mlp(), (torch.zeros(4, 8), torch.zeros(1)))


def test_a_failed_trace_restores_the_module() -> None:
    module = Mlp()
    weight = module.up.weight
    with pytest.raises(TraceError):
        trace(module, (torch.zeros(4, 9),))
    assert module.up.weight is weight


def test_things_that_are_no_model() -> None:
    with pytest.raises(InputError, match=r"needs a torch\.nn\.Module, not function"):
        trace(lambda x: x, (torch.zeros(1),))
    with pytest.raises(InputError, match=r"write \(x,\) for one"):
        trace(Mlp(), torch.zeros(4, 8))
    with pytest.raises(TraceError, match="computes nothing"):
        traced(lambda self, x: torch.ones(3), args=(torch.zeros(1),))


def test_what_the_caller_switched_on_does_not_matter() -> None:
    class Model(nn.Module):
        def forward(self, x):
            return torch.relu(x + torch.ones(3)) * torch.arange(3)

    plain = trace(Model(), (torch.zeros(3),))
    with torch.inference_mode():
        assert trace(Model(), (torch.zeros(3),)) == plain
    with torch.device("meta"):
        assert trace(Model(), (torch.zeros(3),)) == plain
    assert trace(torch.compile(Model()), (torch.zeros(3),)) == plain.replace(compiled=True)


def test_dtype_option() -> None:
    graph = trace(Mlp(), (torch.zeros(4, 8),), dtype="fp16")
    assert {op.dtype for op in graph.operators} == {"float16"}
    assert graph == trace(Mlp().half(), (torch.zeros(4, 8).half(),))
    with pytest.raises(InputError, match="dtype 'int4' is not known"):
        trace(Mlp(), (torch.zeros(4, 8),), dtype="int4")


def test_devices_named_in_the_code_do_not_matter() -> None:
    def forward(self, x):
        y = torch.relu(x).to("cuda:1")
        return torch.tanh(y) + torch.ones(3, device="cuda")

    graph = traced(forward, args=(torch.zeros(3),))
    assert targets(graph) == ["relu", "tanh", "add"]
    assert tensor(graph, "relu").consumers == (1,)


def test_empty_tensors_carry_nothing() -> None:
    graph = traced(lambda self, x: torch.cat([x[:0], torch.relu(x)]), args=(torch.zeros(3),))
    assert targets(graph) == ["relu", "cat"]
    assert tensor(graph, "input0").consumers == (0,)
