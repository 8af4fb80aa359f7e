"""Models of the transformers library: FLOPs, weights, options; small configurations, and the real ones marked slow."""

# ruff: noqa: E402 -- the imports follow the check that torch is there
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the PyTorch frontend needs torch")
pytest.importorskip("transformers", reason="hf: models need transformers")

from benchmarks._flops import one_sequence_a_row
from torch.utils._pytree import tree_map_only
from transformers import AutoConfig, AutoModelForCausalLM

from frontends.helpers import (
    check_parameters,
    check_training,
    eager_flops,
    targets,
    tensor,
)
from partita.frontends.building import on_meta
from partita.frontends.hf.build import build as build_class
from partita.frontends.hf.build import model_classes
from partita.frontends.hf.configuration import read_configuration
from partita.frontends.hf.inputs import input_sets
from partita.frontends.hf.load import _simplify
from partita.frontends.hf.rules import Example
from partita.frontends.models import load_model
from partita.frontends.options import Asked
from partita.frontends.torch import trace
from partita.ground.errors import InputError, TraceError

SMALL = {
    "gpt2": {"n_layer": 2, "n_embd": 32, "n_head": 4, "vocab_size": 99},
    "llama": {
        "num_hidden_layers": 2,
        "hidden_size": 32,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 48,
        "vocab_size": 99,
    },
    "bert": {
        "num_hidden_layers": 2,
        "hidden_size": 32,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "vocab_size": 99,
    },
    "t5": {"num_layers": 2, "d_model": 32, "d_ff": 64, "num_heads": 4, "d_kv": 8, "vocab_size": 99},
    "swin": {"depths": [2, 2], "num_heads": [2, 4], "embed_dim": 16, "image_size": 56},
    "resnet": {"depths": [1, 1, 2, 1], "hidden_sizes": [16, 32, 32, 64], "embedding_size": 8},
    "mixtral": {
        "num_hidden_layers": 2,
        "hidden_size": 32,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 48,
        "vocab_size": 99,
        "num_local_experts": 4,
    },
    "vit": {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64},
    "whisper": {
        "encoder_layers": 1,
        "decoder_layers": 1,
        "d_model": 32,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "max_source_positions": 50,
        "vocab_size": 99,
        "pad_token_id": 0,
    },
}


def text(fields: dict) -> dict[str, str]:
    return {name: json.dumps(value) for name, value in fields.items()}


def build(name: str, fields: dict, training: bool, length: int | None = None, dtype=torch.bfloat16):
    """The module and the inputs that load_model would trace."""
    config = read_configuration(name, text(fields))
    task, cls = next(model_classes(config, None))
    _simplify(config, training)
    model, _ = build_class(cls, config, dtype, name, on_meta)
    inputs = input_sets(Example(model, task, dtype, Asked(2, length, None, {}, None, training)))[0]
    return model, tree_map_only(torch.Tensor, lambda tensor: tensor.to("meta"), inputs)


def check(name: str, fields: dict, training: bool, length: int | None) -> None:
    model, inputs = build(name, fields, training, length)
    graph = trace(model, (), inputs, training=training)
    check_parameters(graph, model)
    if training:
        check_training(graph)
    if hasattr(model.config, "num_local_experts"):
        # torch does not count the grouped products, but does the same arithmetic done one token at a time.
        model.config._experts_implementation = "batched_mm"
    with one_sequence_a_row():
        counted = eager_flops(model, (), inputs, training)
    assert graph.flops == pytest.approx(counted, rel=0.01)
    assert counted > 0


@pytest.mark.parametrize("training", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("name", SMALL)
def test_flops_and_weights_of_small_models(name: str, training: bool) -> None:
    check(name, SMALL[name], training, 16)


@pytest.mark.parametrize("training", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("name", SMALL)
@pytest.mark.slow
def test_flops_and_weights_of_default_models(name: str, training: bool) -> None:
    check(name, {"num_hidden_layers": 2} if name == "mixtral" else {}, training, None)


def test_gpt2_small_graph() -> None:
    graph = load_model("hf:gpt2", sequence_length=16, batch_size=2, set_fields=text(SMALL["gpt2"]), training=True)
    check_training(graph)
    head = next(p for p in graph.parameters if p.aliases)
    assert (head.name, head.aliases) == ("transformer.wte.weight", ("lm_head.weight",))
    assert len(head.users) == 3
    # Query, key and value of the joint product are three tensors of 2·16·32 numbers of 2 bytes.
    product = next(i for i, op in enumerate(graph.operators) if op.module == "transformer.h.1.attn.c_attn")
    assert [t.bytes for t in graph.tensors if t.producer == product] == [2048] * 3
    assert graph.name == "gpt2"
    assert targets(graph).count("scaled_dot_product_attention") == 2
    assert tensor(graph, "input_ids").bytes == 2 * 16 * 8


def test_modules_are_listed_parents_first() -> None:
    graph = load_model("hf:llama", sequence_length=8, set_fields=text(SMALL["llama"]))
    names = list(graph.modules)
    assert names[0] == ""
    assert graph.modules["model.layers.1.self_attn.q_proj"] == "Linear"
    assert all(name.rpartition(".")[0] in names[: names.index(name)] for name in names[1:])
    assert {op.module for op in graph.operators} <= set(names)
    # No mask of 8 × 8 and no repeated keys: grouped queries stay grouped.
    assert "clone" not in targets(graph)


def test_tracing_a_model_directly_turns_its_cache_off_and_on_again() -> None:
    model, inputs = build("gpt2", SMALL["gpt2"], False, 16)
    plain = trace(model, (), inputs)
    model.config.use_cache = True
    del inputs["use_cache"]
    assert trace(model, (), inputs) == plain
    assert model.config.use_cache is True


def test_layers_repeat_exactly() -> None:
    graph = load_model("hf:llama", sequence_length=8, set_fields=text({**SMALL["llama"], "num_hidden_layers": 3}))
    layers = [[], [], []]
    for op in graph.operators:
        parts = op.module.split(".")
        if parts[:2] == ["model", "layers"]:
            layers[int(parts[2])].append((op.target, op.flops, op.bytes_read, op.bytes_written))
    assert layers[0] == layers[1] == layers[2]


def test_number_formats_and_configuration_files(tmp_path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"model_type": "llama", "dtype": "float16", **SMALL["llama"]}))
    graph = load_model(f"hf:{path}", sequence_length=8)
    assert graph.name == "mine"
    assert {p.dtype for p in graph.parameters if not p.buffer} == {"float16"}
    single = load_model(f"hf:{path}", sequence_length=8, dtype="fp32")
    assert single.parameter_bytes == 2 * graph.parameter_bytes
    deeper = load_model(f"hf:{path}", sequence_length=8, set_fields={"num_hidden_layers": "4"})
    assert "model.layers.3" in deeper.modules
    default = load_model("hf:llama", sequence_length=8, set_fields=text(SMALL["llama"]))
    assert default.operators[0].dtype == "bfloat16"


def test_derived_fields_follow_what_is_set() -> None:
    # The default head size is 4096 / 32; with 32 / 4 it must become 8, so that four heads read 32 features.
    graph = load_model("hf:llama", sequence_length=8, set_fields=text(SMALL["llama"]))
    weight = next(p for p in graph.parameters if p.name.endswith("layers.0.self_attn.q_proj.weight"))
    assert weight.shape == (32, 32)


def test_general_names_reach_the_types_own_fields() -> None:
    graph = load_model("hf:gpt2", sequence_length=8, set_fields={**text(SMALL["gpt2"]), "num_hidden_layers": "1"})
    assert "transformer.h.0" in graph.modules
    assert "transformer.h.1" not in graph.modules


def test_tasks_pick_the_head() -> None:
    fields = {**text(SMALL["bert"]), "num_labels": "5"}
    labels = load_model("hf:bert", sequence_length=8, set_fields=fields, task="sequence-classification")
    assert labels.modules[""] == "BertForSequenceClassification"
    assert next(p.shape for p in labels.parameters if p.name == "classifier.weight") == (5, 32)
    base = load_model("hf:bert", sequence_length=8, set_fields=text(SMALL["bert"]), task="base")
    assert base.modules[""] == "BertModel"
    masked = load_model("hf:bert", sequence_length=8, set_fields=text(SMALL["bert"]))
    assert masked.modules[""] == "BertForMaskedLM"


def test_experts_are_grouped_and_noted() -> None:
    graph = load_model("hf:mixtral", sequence_length=16, set_fields=text(SMALL["mixtral"]))
    assert any("experts" in note for note in graph.notes)
    products = [op for op in graph.operators if "grouped_mm" in op.target]
    # Sixteen tokens times two chosen experts, up and gate of 48 each: 2·32·32·96; down: 2·32·48·32.
    assert [op.flops for op in products] == [196608, 98304] * 2


@pytest.mark.parametrize(("samples", "share"), [(1, 2 / 8), (3, 1 - (6 / 8) ** 3), (64, 1.0)])
def test_a_decoded_token_reads_the_experts_that_it_chooses(samples: int, share: float) -> None:
    fields = {**SMALL["mixtral"], "num_local_experts": 8, "num_experts_per_tok": 2}
    graph = load_model("hf:mixtral", decode=8, batch_size=samples, set_fields=text(fields))
    products = [v for v, op in enumerate(graph.operators) if "grouped_mm" in op.target]
    assert len(products) == 4
    for v in products:
        weight = sum(p.bytes for p in graph.parameters if v in p.users)
        rows = sum(t.bytes for t in graph.tensors if v in t.consumers)
        assert graph.operators[v].bytes_read == pytest.approx(weight * share + rows, rel=0.01)


@pytest.mark.parametrize(
    ("spec", "options", "message"),
    [
        ("hf:gtp2", {}, r"no model type 'gtp2'; did you mean .*'gpt2'"),
        ("hf:nowhere/config.json", {}, r"no configuration file 'nowhere/config\.json'"),
        ("hf:gpt2", {"set_fields": {"n_layers": "3"}}, r"no field 'n_layers'; did you mean 'n_layer'"),
        (
            "hf:gpt2",
            {"set_fields": {"n_layer": "many"}},
            r"'n_layer' .* is 12 by default; 'many' is not of its type int",
        ),
        ("hf:gpt2", {"set_fields": {"n_layer": "true"}}, "not of its type int"),
        ("hf:gpt2", {"set_fields": {"n_layer.x": "3"}}, "no fields of its own"),
        ("hf:gpt2", {"task": "causal"}, r"task 'causal' is not known; did you mean 'causal-lm'"),
        ("hf:gpt2", {"task": "image-classification"}, r"no head for 'image-classification'; it has causal-lm"),
        ("hf:gpt2", {"dtype": "int8"}, r"dtype 'int8' is not known; use one of"),
        ("hf:gpt2", {"sequence_length": 2048}, r"sequence length 2048 exceeds the 1024 positions"),
        ("hf:gpt2", {"sequence_length": 0}, "sequence length is 0; it must be at least 1"),
        ("hf:gpt2", {"batch_size": 0}, "batch size is 0; it must be at least 1"),
        ("model.pt", {}, r"'hf:TYPE_OR_FILE', 'path/to/file\.py:callable' or 'path/to/model\.onnx'"),
    ],
)
def test_wrong_options_name_the_remedy(spec: str, options: dict, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        load_model(spec, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", ["not json", "[]", '{"hidden_size": 3}'])
def test_files_that_are_no_configuration(tmp_path, content: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(content)
    with pytest.raises(InputError, match=r"is not a JSON file|has no model_type"):
        load_model(f"hf:{path}")


def test_an_impossible_configuration_is_one_line() -> None:
    with pytest.raises(TraceError, match="cannot build the transformers model 'gpt2'") as caught:
        load_model("hf:gpt2", set_fields={"n_embd": "30", "n_head": "4"})
    assert "\n" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "infers"),
    [
        ("opt", True),
        ("gpt_neox", True),
        ("qwen2", True),
        ("gemma2", True),
        ("phi3", True),
        ("distilbert", True),
        ("roberta", True),
        ("clip", True),
        ("convnext", True),
        ("deberta-v2", True),
        ("swinv2", True),
        ("bart", True),
        ("segformer", True),
        ("wav2vec2", True),
        ("yolos", True),
        ("xlnet", True),
        ("gpt_oss", True),
        ("longformer", True),
    ],
)
def test_other_types(name: str, infers: bool) -> None:
    fields = {"num_hidden_layers": "2"} if name in {"gpt_oss", "gpt_neox", "qwen2", "gemma2", "phi3"} else {}
    if not infers:
        with pytest.raises(TraceError, match="depend on data"):
            load_model(f"hf:{name}", set_fields=fields)
        return
    assert load_model(f"hf:{name}", set_fields=fields).flops > 0
    check_training(load_model(f"hf:{name}", set_fields=fields, training=True))


@pytest.mark.slow
def test_seventy_billion_parameters_without_weights() -> None:
    config = AutoConfig.for_model(
        "llama",
        num_hidden_layers=80,
        hidden_size=8192,
        num_attention_heads=64,
        num_key_value_heads=8,
        intermediate_size=28672,
        use_cache=False,
    )
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    ids = torch.empty((1, 1024), dtype=torch.long, device="meta")
    graph = trace(model, (), {"input_ids": ids, "labels": ids}, training=True)
    check_parameters(graph, model)
    check_training(graph)


@pytest.mark.parametrize(
    ("stored", "shown"),
    [({"quant_method": "fp8"}, "(fp8)"), ({"quant_method": "gptq", "bits": 4}, "(gptq, 4 bits)")],
)
def test_a_format_of_stored_weights_that_is_not_applied_is_said(
    tmp_path: Path, stored: dict[str, Any], shown: str
) -> None:
    config = {"model_type": "llama", **SMALL["llama"], "quantization_config": stored}
    (tmp_path / "config.json").write_text(json.dumps(config))
    plain = load_model("hf:llama", sequence_length=8, set_fields=text(SMALL["llama"]))
    graph = load_model(f"hf:{tmp_path / 'config.json'}", sequence_length=8)
    assert [note for note in graph.notes if f"quantization_config {shown} is not applied" in note]
    assert not any("quantization_config" in note for note in plain.notes)
    assert graph.parameter_bytes == plain.parameter_bytes
