"""Models of the transformers library whose configurations leave something open, and models of sound."""

# ruff: noqa: E402 -- the imports follow the check that torch is there
from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the PyTorch frontend needs torch")
pytest.importorskip("transformers", reason="hf: models need transformers")

from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from frontends.helpers import targets, tensor
from partita.frontends import torch as frontend
from partita.frontends.building import on_meta
from partita.frontends.hf.build import RunOfParts, _fill_tables, build, model_classes
from partita.frontends.hf.configuration import (
    fill,
    merged,
    read_configuration,
    settled_configuration,
    usual_fields,
    usual_note,
)
from partita.frontends.hf.load import build_transformers
from partita.frontends.models import load_model, load_module
from partita.frontends.options import Asked
from partita.ground.errors import InputError, TraceError
from partita.inside.torchvision_inside import declare_where_missing

# Classes of transformers import torchvision where it is there.
declare_where_missing()

LLAMA = {
    "num_hidden_layers": 2,
    "hidden_size": 32,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "vocab_size": 99,
}


def small(name: str, fields: dict, length: int | None = 8, **options):
    """The graph of a type with small sizes."""
    said = {field: json.dumps(value) for field, value in fields.items()}
    return load_model(f"hf:{name}", sequence_length=length, set_fields=said, **options)


def class_of(name: str) -> str:
    return next(cls.__name__ for _, cls in model_classes(read_configuration(name, {}), None))


def test_sizes_that_follow_from_others_are_filled_in_and_said() -> None:
    graph = small("nemotron", {**LLAMA, "head_dim": 8, "num_key_value_heads": None})
    (note,) = (note for note in graph.notes if "leaves open" in note)
    assert "num_key_value_heads = 4" in note
    keys = [p for p in graph.parameters if p.name.endswith("k_proj.weight")]
    assert [p.shape for p in keys] == [(32, 32)] * 2
    given = small("nemotron", {**LLAMA, "head_dim": 8, "num_key_value_heads": 2})
    assert not [note for note in given.notes if "leaves open" in note]
    assert [p.shape for p in given.parameters if p.name.endswith("k_proj.weight")] == [(16, 32)] * 2


def test_what_is_filled_in_depends_on_what_is_wrong() -> None:
    config = CONFIG_MAPPING["llama"](num_hidden_layers=2, hidden_size=32, num_attention_heads=4)
    assert fill(config, ValueError("something else")) == []
    config.head_dim = None
    assert fill(config, TypeError("unsupported operand")) == ["head_dim = 8"]
    assert config.head_dim == 8
    assert fill(config, AttributeError("'LlamaConfig' object has no attribute 'dropout_rate'")) == [
        "dropout_rate = 0.0"
    ]
    assert fill(config, AttributeError("'OtherConfig' object has no attribute 'dropout_rate'")) == []


def test_rotary_positions_are_given_to_every_kind_of_layer() -> None:
    config = CONFIG_MAPPING["llama"](num_hidden_layers=2, rope_parameters={"rope_type": "default", "rope_theta": 5.0})
    config.layer_types = ["full_attention", "sliding_attention"]
    assert fill(config, KeyError("sliding_attention"))
    assert config.rope_parameters["sliding_attention"] == {"rope_type": "default", "rope_theta": 5.0}


def test_usual_parts_stand_behind_what_is_given() -> None:
    usual = {"encoder": {"model_type": "donut-swin", "depths": [1]}, "prediction_length": 24}
    assert merged(usual, {"encoder": {"depths": [2]}, "x": 1}) == {
        "encoder": {"model_type": "donut-swin", "depths": [2]},
        "prediction_length": 24,
        "x": 1,
    }
    assert merged(usual, {"encoder": {"model_type": "vit"}})["encoder"] == {"model_type": "vit"}
    (note,) = usual_note("some", usual, {"prediction_length": 3})
    assert "encoder.depths = [1]" in note
    assert "prediction_length" not in note
    assert usual_note("some", usual, usual) == ()


def test_a_default_that_is_whole_is_left_as_it_is() -> None:
    config, notes = settled_configuration("bert", {})
    assert notes == ()
    assert config.to_dict() == CONFIG_MAPPING["bert"]().to_dict()
    assert usual_fields(CONFIG_MAPPING["informer"], {"prediction_length": 7}) == {}
    assert usual_fields(CONFIG_MAPPING["informer"], {}) == {"prediction_length": 24}


def test_a_type_without_a_class_is_what_stands_for_it() -> None:
    config, notes = settled_configuration("nougat", {"decoder.decoder_layers": "2"})
    assert (config.encoder.model_type, config.decoder.model_type) == ("donut-swin", "mbart")
    assert (config.decoder.decoder_layers, config.decoder.add_cross_attention) == (2, True)
    assert "transformers builds 'nougat' as 'vision-encoder-decoder'." in notes


def test_a_part_of_another_type_says_of_which() -> None:
    with pytest.raises(InputError, match=r"'sam_prompt_encoder'.*a part of others; name hf:sam,"):
        load_model("hf:sam_prompt_encoder")


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("vitpose_backbone", "VitPoseBackbone"),
        ("blip_text_model", "BlipTextModel"),
        ("slanet", "SLANetForTableRecognition"),
        ("musicgen", "MusicgenForConditionalGeneration"),
        ("rt_detr_resnet", "RTDetrResNetBackbone"),
        ("whisper", "WhisperForConditionalGeneration"),
        ("clip_vision_model", "CLIPVisionModel"),
    ],
)
def test_a_type_is_its_whole_model_and_no_layer_of_it(kind: str, name: str) -> None:
    assert class_of(kind) == name


def test_a_missing_package_is_named() -> None:
    config = read_configuration("bert", {})

    class NeedsPackage(torch.nn.Module):
        def __init__(self, config: object) -> None:
            raise ImportError("Dinat requires the natten library but it was not found in your environment.")

    with pytest.raises(TraceError, match=r"'some': it needs the package natten, which is not installed$"):
        build(NeedsPackage, config, torch.float32, "some", on_meta)


def test_a_broken_package_beside_transformers_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "torchvision").mkdir()
    (tmp_path / "torchvision" / "__init__.py").write_text("raise RuntimeError('its compiled part does not load')")
    (tmp_path / "torchvision-9.9.dist-info").mkdir()
    (tmp_path / "torchvision-9.9.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: torchvision\nVersion: 9.9\n"
    )
    paths = [str(tmp_path), *(path for path in sys.path if path)]
    done = subprocess.run(
        [sys.executable, "-m", "partita", "plan", "hf:bert", "--cluster", "2xL4"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "its compiled part does not load" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_codec_without_a_forward_is_its_encoder() -> None:
    sizes = {"base_channels": 32, "channel_multiplier": [1, 2], "num_res_blocks": 1, "resolution": 32, "embed_dim": 32}
    graph = small("chameleon_vqgan", {**sizes, "latent_channels": 32, "num_embeddings": 64}, None)
    assert any("no forward of its own; this is its method encode" in note for note in graph.notes)
    assert targets(graph).count("convolution") > 5


def test_a_model_of_parts_is_one_run_of_each() -> None:
    tiny = {"hidden_size": 32, "num_layers": 1, "num_heads": 4, "block_size": 64}
    parts = ("semantic_config", "coarse_acoustics_config", "fine_acoustics_config")
    fields = {f"{part}.{name}": value for part in parts for name, value in tiny.items()}
    graph = small("bark", {**fields, "codec_config.num_filters": 4, "codec_config.upsampling_ratios": [8, 5]}, 16)
    assert any("one run of each of semantic, coarse_acoustics, fine_acoustics, codec_model" in n for n in graph.notes)
    modules = {op.module.partition(".")[0] for op in graph.operators}
    assert {"semantic", "coarse_acoustics", "fine_acoustics", "codec_model"} <= modules


def test_arguments_of_parts_go_to_their_part() -> None:
    both = RunOfParts({"a": lambda x: x + 1, "b": lambda y, z: y * z})
    assert both(**{"a.x": 1, "b.y": 3, "b.z": 4}) == {"a": 2, "b": 12}


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the models that were run."""
    seen: list[str] = []
    trace = frontend.trace

    def counted(*args, name, **kwargs):
        seen.append(name)
        return trace(*args, name=name, **kwargs)

    monkeypatch.setattr(frontend, "trace", counted)
    return seen


GPT2 = {"n_layer": "1", "n_embd": "32", "n_head": "4", "vocab_size": "99"}


def test_a_model_runs_once_for_its_graph(runs: list[str]) -> None:
    graph = load_model("hf:gpt2", sequence_length=8, set_fields=GPT2)
    assert runs == ["gpt2"]
    model = load_module(graph.source)
    again = model.trace()
    assert runs == ["gpt2"] * 2
    assert again.operators == graph.operators


def test_a_model_with_weights_is_chosen_without(runs: list[str]) -> None:
    asked = Asked(1, 8, None, GPT2, None, False)
    torch.manual_seed(0)
    model = build_transformers("gpt2", asked, real=True)
    assert runs == ["gpt2"]
    assert {p.device.type for p in model.module.parameters()} == {"cpu"}
    assert float(model.module.transformer.wte.weight.detach().std()) > 0
    assert model.trace().operators == load_model("hf:gpt2", sequence_length=8, set_fields=GPT2).operators


WAV2VEC = {
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "intermediate_size": 32,
    "output_hidden_size": 32,
}


def test_spectrograms_have_the_bins_of_the_configuration() -> None:
    sizes = {"encoder_layers": 1, "decoder_layers": 1, "d_model": 32, "encoder_attention_heads": 4}
    sizes |= {"decoder_attention_heads": 4, "max_source_positions": 50, "vocab_size": 99, "pad_token_id": 0}
    graph = small("whisper", {**sizes, "num_mel_bins": 128})
    assert tensor(graph, "input_features").shape == (1, 128, 100)


def test_frames_come_before_bins_where_the_extractor_says_so() -> None:
    parts = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 32}
    graph = small("parakeet_ctc", {f"encoder_config.{name}": value for name, value in parts.items()}, None)
    assert tensor(graph, "input_features").shape == (1, 3001, 80)


def test_a_ctc_head_without_a_vocabulary_gets_a_small_one() -> None:
    graph = small("wav2vec2-bert", {**WAV2VEC, "add_adapter": False}, None)
    assert any("vocab_size = 32" in note for note in graph.notes)
    assert tensor(graph, "input_features").shape[2] == 160


def test_codes_of_sound_have_a_side_for_their_codebooks() -> None:
    sizes = {
        "hidden_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "head_dim": 16,
        "intermediate_size": 32,
    }
    fields = {f"encoder_config.{name}": value for name, value in sizes.items()}
    fields |= {f"decoder_config.{name}": value for name, value in {**sizes, "num_key_value_heads": 2}.items()}
    fields |= {"encoder_config.num_key_value_heads": 2, "decoder_config.cross_hidden_size": 32}
    fields |= {"decoder_config.cross_num_attention_heads": 2, "decoder_config.cross_num_key_value_heads": 2}
    graph = small("dia", {**fields, "decoder_config.cross_head_dim": 16}, 16)
    assert tensor(graph, "decoder_input_ids").shape == (1, 16, 9)


def test_how_long_tokens_are_spoken_is_presumed_and_said() -> None:
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "ffn_dim": 32, "flow_size": 32}
    sizes |= {
        "spectrogram_bins": 17,
        "upsample_initial_channel": 32,
        "upsample_rates": [4, 4],
        "duration_predictor_filter_channels": 32,
        "prior_encoder_num_flows": 2,
        "prior_encoder_num_wavenet_layers": 1,
    }
    graph = small("vits", {**sizes, "upsample_kernel_sizes": [8, 8]}, 16)
    assert "How long tokens last is predicted: the plan presumes 5 frames a token." in graph.notes
    assert (1, 1, 16 * 5 * 4 * 4) in [t.shape for t in graph.tensors]


def test_a_decoder_of_the_codes_of_a_moment_takes_one_a_codebook() -> None:
    sizes = {"hidden_size": 32, "input_size": 48, "num_hidden_layers": 1, "num_attention_heads": 4, "ffn_dim": 32}
    graph = small("moshi_depth", {**sizes, "num_key_value_heads": 4, "head_dim": 8, "vocab_size": 40}, None)
    assert tensor(graph, "input_ids").shape == (1, 8)
    assert tensor(graph, "last_hidden_state").shape == (1, 8, 48)


def test_residual_networks_of_a_missing_package_are_the_library_s_own() -> None:
    config = CONFIG_MAPPING["detr"]()
    assert config.backbone_config.model_type == "timm_backbone"
    said = fill(config, ImportError("TimmBackbone requires the timm library but it was not found"))
    assert said == ["backbone_config = the library's own ResNet, as timm is not installed"]
    backbone = config.backbone_config
    assert (backbone.model_type, backbone.depths, backbone.out_indices) == ("resnet", [3, 4, 6, 3], [1, 2, 3, 4])
    assert fill(CONFIG_MAPPING["detr"](), ImportError("it requires the natten library")) == []


class Words:
    """A table that is filled when it is asked for."""

    @functools.cached_property
    def table(self) -> list[int]:
        return [1, 2]

    @functools.cached_property
    def broken(self) -> list[int]:
        raise KeyError("<image>")


class Reader(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = Words()


def test_tables_are_filled_before_the_trace() -> None:
    reader = Reader()
    _fill_tables(torch.nn.Sequential(reader))
    assert vars(reader.words) == {"table": [1, 2]}


def test_what_an_owner_settles_of_a_part_is_not_open() -> None:
    assert usual_fields(CONFIG_MAPPING["timm_backbone"], {}) == {"backbone": "resnet50"}
    assert usual_fields(CONFIG_MAPPING["detr"], {}) == {}
