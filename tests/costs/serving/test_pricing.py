"""Prices of steps: properties that hold whatever the constants are, and some numbers made by hand."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import msgspec
import numpy as np
import pytest

from partita.costs.serving.decoder import CachedAttention, Decoder, DecoderBlock, ExpertProduct, WeightProduct
from partita.costs.serving.formats import find_format, product_rate
from partita.costs.serving.kernel_times import Fabric, KernelTimes
from partita.costs.serving.layout import ServingLayout
from partita.costs.serving.prices import StepPrices, on_grid, pairs_within
from partita.costs.serving.pricing import GRID, price_steps, touched_experts
from partita.ground.errors import InputError
from partita.nouns.catalogue.engines import ENGINES, find_engine
from partita.nouns.catalogue.kernels import KERNELS
from partita.nouns.catalogue.loader import load_catalogue

CATALOGUE = load_catalogue()
H100 = CATALOGUE.device("H100-80GB")
NVLINK = Fabric(CATALOGUE.link("nvlink4"), CATALOGUE.link("infiniband-ndr"))
VLLM = find_engine("vllm")

#: A layer of 32 heads, 8 of them with keys, and a feed-forward part.
LAYER = DecoderBlock(
    products=(
        WeightProduct(4096, 4096, "dense"),
        WeightProduct(2048, 4096, "keys"),
        WeightProduct(4096, 4096, "dense"),
        WeightProduct(28672, 4096, "dense"),
        WeightProduct(4096, 14336, "dense"),
    ),
    experts=(),
    attention=CachedAttention(0, 32, 8, 2048, 16384, 16384),
    chains=5,
    chain_bytes=180_000,
    other_weights=8192,
    reductions=2,
)
SLIDING = dataclasses.replace(LAYER, attention=CachedAttention(128, 32, 8, 2048, 16384, 16384))
MIXTURE = dataclasses.replace(
    LAYER,
    products=(*LAYER.products[:3], WeightProduct(64, 4096, "router")),
    experts=(ExpertProduct(64, 4, 3072, 4096), ExpertProduct(64, 4, 4096, 1536)),
)
FIRST = DecoderBlock((), (), None, 1, 64, 32000 * 4096, 1)
LAST = DecoderBlock((WeightProduct(32000, 4096, "head"),), (), None, 1, 8192, 4096, 0)


def model(*layers: DecoderBlock) -> Decoder:
    return Decoder("toy", 4096, (FIRST, *layers, LAST))


DENSE, EXPERTS = model(*[LAYER] * 8), model(*[MIXTURE] * 8)


def prices(decoder: Decoder = DENSE, engine: str = "vllm", **layout: Any) -> StepPrices:
    return price_steps(decoder, ServingLayout(**layout), H100, NVLINK, find_engine(engine))


@pytest.mark.parametrize("decoder", [DENSE, EXPERTS], ids=["dense", "experts"])
@pytest.mark.parametrize("engine", [engine.name for engine in ENGINES])
@pytest.mark.parametrize("tensor", [1, 4])
def test_more_tokens_are_never_cheaper(decoder: Decoder, engine: str, tensor: int) -> None:
    found = prices(decoder, engine, tensor=tensor)
    for table in (found.dense_s[0], found.dense_mixed_s[0]):
        assert list(table) == sorted(table)
        assert table[-1] > 10 * table[0]
    assert all(m >= d for m, d in zip(found.dense_mixed_s[0], found.dense_s[0], strict=True))


def test_a_token_reads_all_weights_once() -> None:
    found = prices()
    share = KERNELS.weight_share * H100.memory_efficiency / 0.85
    dense = sum(p.columns * p.inner for p in LAYER.products) * 8 + 32000 * 4096
    assert found.weights_s[0][0] == pytest.approx(2 * dense / (3350e9 * share))
    # The table of embeddings and the norms are held, not read.
    assert found.weight_bytes[0] == pytest.approx(2 * (dense + 32000 * 4096 + 8 * 8192 + 4096), rel=1e-6)


def test_a_tensor_group_divides_weights_cache_and_work() -> None:
    one, four = prices(), prices(tensor=4)
    assert four.weights_s[0][0] == pytest.approx(one.weights_s[0][0] / 4)
    assert four.cache_bytes_per_token[0][0] == one.cache_bytes_per_token[0][0] / 4
    assert four.prompt_s[0][0] == pytest.approx(one.prompt_s[0][0] / 4)
    assert four.exchange_s[0][0] > 0 == one.exchange_s[0][0]
    assert four.dense_s[0][0] > one.dense_s[0][0] / 4


def test_keys_of_few_heads_are_copied_to_more_devices() -> None:
    eight, sixteen = prices(tensor=8), prices(tensor=16)
    assert sixteen.cache_bytes_per_token == eight.cache_bytes_per_token
    assert sixteen.cache_bytes_per_token[0][0] == 8 * 2048 * 2 / 8


def test_experts_that_tokens_touch() -> None:
    # One token touches its four; two touch 4 + 4 · 60/64 on average.
    found = touched_experts(64, 4, np.array([1.0, 2.0, 1e6]))
    assert found == pytest.approx([4, 4 + 4 * 60 / 64, 64])
    alone, many = (prices(EXPERTS).weights_s[0][GRID.index(n)] for n in (1, 1024))
    attention = sum(p.columns * p.inner for p in MIXTURE.products) * 8 + 32000 * 4096
    one = (3072 * 4096 + 4096 * 1536) * 8
    bandwidth = 3350e9 * H100.memory_efficiency / 0.85
    assert alone == pytest.approx(
        2 * (attention / (bandwidth * KERNELS.weight_share) + 4 * one / (bandwidth * KERNELS.expert_weight_share)),
        rel=1e-3,
    )
    assert many - alone == pytest.approx(2 * 60 * one / (bandwidth * KERNELS.expert_weight_share), rel=1e-3)


def test_groups_share_out_experts_and_requests() -> None:
    whole = prices(EXPERTS, tensor=4)
    spread = prices(EXPERTS, tensor=4, expert=4)
    groups = prices(EXPERTS, attention_data=4, expert=4)
    assert spread.weight_bytes == whole.weight_bytes
    # Each group has all of attention, and a cache of its own.
    assert groups.cache_bytes_per_token[0][0] == 4 * whole.cache_bytes_per_token[0][0]
    assert groups.decode_s[0][0] == pytest.approx(whole.decode_s[0][0])
    assert groups.weight_bytes[0] > whole.weight_bytes[0]
    assert groups.attention_data == 4


def test_groups_wait_for_the_one_with_most_tokens_but_share_out_experts() -> None:
    groups = prices(EXPERTS, attention_data=4, expert=4)
    table = groups.dense_mixed_s[0]
    for own in (600, 2048, 5000):
        alone, even = groups.uneven_s(0, own, own), groups.uneven_s(0, own, 4 * own)
        assert even == pytest.approx(on_grid(GRID, table, 4 * own))
        # One prompt costs more than its tokens over all groups, and less than as many in each of them.
        assert on_grid(GRID, table, own) < alone < even
    sharing = groups.together_s[0][-1] / table[-1]
    assert 0.1 < sharing < 0.9
    assert groups.padded_tokens == find_engine("vllm").padded_tokens == 512
    assert not prices(EXPERTS, tensor=4).uneven
    assert not prices(EXPERTS, "eager", attention_data=4, expert=4).uneven
    with pytest.raises(InputError, match="must not fall"):
        msgspec.structs.replace(groups, apart_s=(tuple(reversed(groups.apart_s[0])),))
    with pytest.raises(InputError, match="or neither"):
        msgspec.structs.replace(groups, apart_s=())


def test_windows_bound_the_cache_and_attention() -> None:
    found = prices(model(*[LAYER, SLIDING] * 4))
    assert found.windows == (0, 128)
    assert found.cache_bytes(0, 1000) == 4 * 2048 * 2 * (1000 + 128)
    step = found.step_time_s(0, [], [1000])
    assert found.step_time_s(0, [], [2000]) - step == pytest.approx(1000 * found.decode_s[0][0])
    assert found.moved_bytes_per_token == (4 * 2048 * 2, 4 * 2048 * 2)


def test_narrow_formats_hold_and_read_less() -> None:
    held = {form: prices(weights=form).weight_bytes[0] for form in ("bf16", "fp8", "int4")}
    assert held["bf16"] > held["fp8"] > held["int4"]
    assert prices(cache="fp8").cache_bytes_per_token[0][0] == prices().cache_bytes_per_token[0][0] / 2
    assert prices(cache="fp8").cache_tokens(1000) == pytest.approx(2 * prices().cache_tokens(1000), rel=0.01)
    mixed = prices(EXPERTS, weights="bf16", expert_weights="mxfp4")
    assert prices(EXPERTS).weight_bytes[0] > mixed.weight_bytes[0] > prices(EXPERTS, weights="mxfp4").weight_bytes[0]
    # Hopper has no 4-bit units: such weights are unpacked.
    assert product_rate(find_format("nvfp4"), H100) == H100.peak("bfloat16")
    assert product_rate(find_format("nvfp4"), CATALOGUE.device("B200")) == 9000e12


def test_stages_hold_even_runs_of_layers() -> None:
    one, two = prices(), prices(pipeline=2)
    assert two.stages == 2
    assert sum(two.weight_bytes) == pytest.approx(one.weight_bytes[0], rel=1e-9)
    assert sum(row[0] for row in two.cache_bytes_per_token) == one.cache_bytes_per_token[0][0]
    assert two.hand_on_s > 0 == one.hand_on_s
    assert two.hand_on_s_per_token == pytest.approx(4096 * 2 / (450e9 * 0.8))


def test_tied_weights_are_held_once() -> None:
    tied = dataclasses.replace(DENSE, tied=32000 * 4096)
    assert prices(DENSE).weight_bytes[0] - prices(tied).weight_bytes[0] == 2 * 32000 * 4096
    assert sum(prices(tied, pipeline=2).weight_bytes) == sum(prices(DENSE, pipeline=2).weight_bytes)


def test_recorded_graphs_have_no_launches() -> None:
    slow = msgspec.structs.replace(VLLM, launch_s=1e-3)
    found = price_steps(DENSE, ServingLayout(), H100, NVLINK, slow)
    fast = price_steps(DENSE, ServingLayout(), H100, NVLINK, VLLM)
    below = GRID.index(512) + 1
    assert found.dense_s[0][:below] == fast.dense_s[0][:below]
    kernels = 8 * (4 + 5 + 2) + 1
    assert found.dense_mixed_s[0][0] == pytest.approx(kernels * 1e-3)


def test_sums_over_devices() -> None:
    sizes = np.array([0.0, 1e9])
    small, large = NVLINK.sum_s(sizes, 8, KERNELS)
    assert small == pytest.approx(KERNELS.exchange_call_s + 8 * KERNELS.exchange_hop_s)
    assert large - small == pytest.approx(2 * 7 / 8 * 1e9 / (450e9 * KERNELS.exchange_share))
    # Two machines: not faster than the network lets an eighth pass.
    assert NVLINK.sum_s(sizes, 16, KERNELS)[1] > 1e9 / 8 / (50e9 * 0.9)
    # Where every two have a link of their own, all of them are used at once.
    mesh = Fabric(CATALOGUE.link("infinity-fabric-mi300x")).sum_s(sizes, 8, KERNELS)
    assert mesh[1] - mesh[0] == pytest.approx(2 * 1e9 / 8 / (64e9 * KERNELS.exchange_share))
    assert (NVLINK.sum_s(sizes, 1, KERNELS) == 0).all()


def test_small_sums_through_the_host_carry_flags() -> None:
    link = CATALOGUE.link("pcie5")
    rate = link.bandwidth_bytes_per_s * KERNELS.host_exchange_share
    sizes = np.array([0.0, 1e5, 1e8])
    nothing, small, large = Fabric(link).sum_s(sizes, 2, KERNELS)
    assert small - nothing == pytest.approx(2 * 1e5 / rate)
    assert large - nothing == pytest.approx(1e8 / rate + KERNELS.host_exchange_switch_s)


def test_attention_of_a_decode_takes_a_fixed_time_for_a_layer_and_its_bytes() -> None:
    slower = msgspec.structs.replace(KERNELS, cache_call_s=KERNELS.cache_call_s + 1e-5)
    found = price_steps(DENSE, ServingLayout(), H100, NVLINK, VLLM)
    other = price_steps(DENSE, ServingLayout(), H100, NVLINK, VLLM, slower)
    assert other.step_time_s(0, [], [100]) - found.step_time_s(0, [], [100]) == pytest.approx(8 * 1e-5)
    key = 8 * 2048 * 2 / (H100.memory_bandwidth_bytes_per_s * KERNELS.cache_share)
    assert found.step_time_s(0, [], [1100]) - found.step_time_s(0, [], [100]) == pytest.approx(1000 * key)


def test_few_rows_take_the_time_of_their_weights() -> None:
    times = KernelTimes(H100, KERNELS, 0.0)
    took = times.product(np.array([1.0, 8192.0]), 8192, 8192, find_format("bf16"))
    assert took.total[0] == pytest.approx(took.weights[0], rel=0.01)
    assert took.total[1] == pytest.approx(took.arithmetic[1], rel=0.05)
    rate = 2 * 8192**3 / took.arithmetic[1]
    assert 0.5 * H100.peak("bfloat16") < rate < 0.8 * H100.peak("bfloat16")


@pytest.mark.parametrize(
    ("count", "before", "window"), [(5, 0, 0), (5, 7, 0), (5, 0, 3), (5, 7, 3), (5, 2, 4), (1, 9, 10)]
)
def test_pairs_of_queries_and_keys(count: int, before: int, window: int) -> None:
    seen = [before + k + 1 for k in range(count)]
    assert pairs_within(count, before, window) == sum(min(s, window) if window else s for s in seen)


def test_lines_between_grid_points() -> None:
    assert on_grid((1, 2, 4), (1.0, 3.0, 4.0), 3) == 3.5
    assert on_grid((1, 2, 4), (1.0, 3.0, 4.0), 8) == 6.0
    assert on_grid((1, 2, 4), (1.0, 3.0, 4.0), 0) == 0.0


@functools.cache
def _toy(form: str) -> StepPrices:
    return prices(weights=form)


def test_a_step_is_the_sum_of_its_parts() -> None:
    found = _toy("bf16")
    step = found.step_time_s(0, [(100, 50)], [200, 300])
    parts = on_grid(found.tokens, found.dense_mixed_s[0], 102) + found.prompt_s[0][0] * (100 * 50 + 5050)
    parts += found.decode_s[0][0] * 500 + found.chunk_s[0] + 2 * found.request_s[0] + found.mixed_step_s[0]
    assert step == pytest.approx(parts)
    bounded = msgspec.structs.replace(found, host_s=1.0, host_request_s=0.5)
    assert bounded.step_time_s(0, [(100, 50)], [200, 300]) == 2.5


@pytest.mark.parametrize(
    ("decoder", "layout", "message"),
    [
        (DENSE, {"tensor": 64}, "tensor 64 does not divide the 32 heads"),
        (DENSE, {"tensor": 3}, "tensor 3 does not divide the 32 heads of attention of toy"),
        (DENSE, {"pipeline": 9}, "pipeline 9 is more than the 8 layers"),
        (DENSE, {"expert": 2}, "needs experts, and toy has none"),
        (EXPERTS, {"tensor": 4, "expert": 8}, "must be tensor 4"),
        (EXPERTS, {"tensor": 4, "expert": 128}, "more than the 64 experts"),
        (DENSE, {"weights": "fp5"}, "no number format 'fp5'.*fp8_block"),
        (DENSE, {"tensor": 0}, "tensor"),
    ],
)
def test_layouts_that_do_not_go_together_are_refused(decoder: Decoder, layout: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        prices(decoder, **layout)


def test_an_unknown_engine_is_refused() -> None:
    with pytest.raises(InputError, match="no engine 'x'; known are vllm, trtllm, sglang"):
        find_engine("x")


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.name)
def test_every_engine_is_plausible(engine: Any) -> None:
    assert engine.source
    assert 0 < engine.kernel_s < engine.launch_s < 1e-4
    assert 0.5 < engine.memory_share < 1
    assert set(engine.launch_on) <= set(CATALOGUE.devices)


def test_what_kernels_reach_is_plausible() -> None:
    assert KERNELS.source
    for field in msgspec.structs.fields(KERNELS):
        if field.name.endswith("_share"):
            assert 0.25 <= getattr(KERNELS, field.name) <= 0.95
