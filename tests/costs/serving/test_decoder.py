"""A decoder read off a traced step of decoding: weights, caches and experts against numbers made by hand."""

from __future__ import annotations

import functools

import pytest

from partita.costs.serving.decoder import CachedAttention, Decoder, decoder_of
from partita.frontends.models import load_model
from partita.ground.errors import InputError
from partita.nouns.graph import Graph

pytest.importorskip("transformers")

CONTEXT = 300

SMALL = {
    "llama": {
        "hidden_size": "64",
        "num_hidden_layers": "2",
        "num_attention_heads": "8",
        "num_key_value_heads": "2",
        "intermediate_size": "96",
        "vocab_size": "512",
    },
    "gpt_oss": {
        "hidden_size": "64",
        "num_hidden_layers": "2",
        "num_attention_heads": "8",
        "num_key_value_heads": "2",
        "head_dim": "16",
        "intermediate_size": "96",
        "vocab_size": "512",
        "num_local_experts": "16",
        "num_experts_per_tok": "4",
        "sliding_window": "128",
    },
    "deepseek_v3": {
        "hidden_size": "64",
        "num_hidden_layers": "2",
        "first_k_dense_replace": "1",
        "num_attention_heads": "8",
        "num_key_value_heads": "8",
        "intermediate_size": "96",
        "moe_intermediate_size": "48",
        "n_routed_experts": "16",
        "num_experts_per_tok": "4",
        "n_group": "1",
        "topk_group": "1",
        "vocab_size": "512",
        "q_lora_rank": "48",
        "kv_lora_rank": "32",
        "qk_rope_head_dim": "8",
        "qk_nope_head_dim": "16",
        "v_head_dim": "16",
    },
    "gpt2": {"n_embd": "64", "n_layer": "2", "n_head": "4", "vocab_size": "512", "n_positions": "512"},
}


@functools.cache
def traced(kind: str) -> Graph:
    return load_model(f"hf:{kind}", decode=CONTEXT, batch_size=8, set_fields=SMALL[kind])


@functools.cache
def decoder(kind: str) -> Decoder:
    return decoder_of(traced(kind))


def attentions(kind: str) -> list[CachedAttention]:
    return [block.attention for block in decoder(kind).blocks if block.attention is not None]


@pytest.mark.parametrize("kind", SMALL)
def test_all_weights_are_found_once(kind: str) -> None:
    assert decoder(kind).weights == traced(kind).parameter_count


def test_grouped_heads_keep_what_their_keys_and_values_are() -> None:
    # Two of eight heads, keys and values of eight numbers each; a query of each head scores and sums eight numbers.
    assert attentions("llama") == [CachedAttention(0, 8, 2, 2 * 2 * 8, 8 * 2 * (8 + 8), 8 * 2 * (8 + 8))] * 2


def test_windows_are_seen_in_the_cache() -> None:
    assert [attention.window for attention in attentions("gpt_oss")] == [128, 0]
    assert [attention.kept for attention in attentions("gpt_oss")] == [2 * 2 * 16] * 2


def test_latent_attention_keeps_its_latent() -> None:
    kept = attentions("deepseek_v3")[0]
    # 32 latent numbers and 8 of positions; prompts with keys of 24 and values of 16, decodes with the latent ones.
    assert (kept.kept, kept.key_heads, kept.heads) == (32 + 8, 1, 8)
    assert kept.prompt_flops == 8 * 2 * (24 + 16)
    assert kept.decode_flops == 8 * 2 * (32 + 8 + 32)


def test_experts_and_their_router() -> None:
    block = decoder("gpt_oss").blocks[1]
    assert [(e.experts, e.active, e.columns, e.inner) for e in block.experts] == [(16, 4, 192, 64), (16, 4, 64, 96)]
    assert [p.columns for p in block.products if p.kind == "router"] == [16]
    # The first layer of the other is dense, its second one has a shared expert besides.
    first, second = decoder("deepseek_v3").blocks[1:3]
    assert not first.experts
    assert len(second.experts) == 2
    assert {p.columns for p in second.products if p.inner == 48} == {8 * 24, 64}


def test_products_with_one_source_are_one() -> None:
    products = {(p.kind, p.columns, p.inner) for p in decoder("llama").blocks[1].products}
    assert products == {("dense", 64, 64), ("keys", 2 * 16, 64), ("dense", 2 * 96, 64), ("dense", 64, 96)}
    assert [p.columns for p in decoder("llama").blocks[-1].products if p.kind == "head"] == [512]


def test_tied_weights_count_once() -> None:
    assert decoder("gpt2").tied == 512 * 64
    assert decoder("llama").tied == 0


def test_a_layer_adds_up_twice() -> None:
    assert [block.reductions for block in decoder("llama").blocks] == [1, 2, 2, 0]


def test_a_graph_of_whole_samples_is_refused() -> None:
    graph = load_model("hf:llama", sequence_length=16, set_fields=SMALL["llama"])
    with pytest.raises(InputError, match=r"without a cache of keys and values.*decode="):
        decoder_of(graph)
