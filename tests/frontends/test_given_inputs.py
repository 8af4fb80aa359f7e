"""Inputs that a user gives: for transformers models, files of one's own and ONNX files."""

# ruff: noqa: E402 -- the imports follow the check that torch is there
from __future__ import annotations

import json
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the PyTorch frontend needs torch")

from frontends.helpers import targets
from partita.documents.stated import read_graph
from partita.frontends.fill import made
from partita.frontends.given import read_file, read_inputs, read_short
from partita.frontends.models import load_model, load_module
from partita.ground.errors import InputError, TraceError
from partita.nouns.graph import Graph, Source
from running.command_line import Run

GPT2 = {"n_layer": "1", "n_embd": "64", "n_head": "2", "vocab_size": "1000"}
VIT = {"num_hidden_layers": "1", "hidden_size": "64", "num_attention_heads": "2", "intermediate_size": "128"}

SOURCE = """
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.narrow, self.wide = nn.Embedding(100, 32), nn.Linear(32, 16), nn.Linear(32, 64)

        def forward(self, ids, scale=None, parts=None):
            x = self.table(ids)
            if parts is not None:
                x = x + parts["shift"][0]
            if scale is not None:
                x = x * scale
            return self.wide(x) if bool((ids > 50).any()) else self.narrow(x)

    def build():
        return Net(), (torch.zeros(1, 8, dtype=torch.long),)

    def nested():
        return Net(), (torch.zeros(1, 8, dtype=torch.long),), {"parts": {"shift": [torch.zeros(1, 1, 32)]}}

    def sequence():
        return nn.Sequential(nn.Linear(32, 16)), (torch.zeros(2, 32),)

    class Any(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(32, 16)

        def forward(self, *arrays, **others):
            return sum(self.linear(a) for a in (*arrays, *others.values()))

    def anything():
        return Any(), (torch.zeros(2, 32),)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "nets.py"
    path.write_text(textwrap.dedent(SOURCE))
    return path


def shapes(graph: Graph) -> dict[str, tuple[tuple[int, ...], str]]:
    """Shapes and formats of the inputs."""
    return {t.name: (t.shape, t.dtype) for t in graph.tensors if t.producer is None}


class TestForms:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("1x3x224x224:float32", {"shape": [1, 3, 224, 224], "dtype": "float32"}),
            ("7:bf16", {"shape": [7], "dtype": "bfloat16"}),
            ("2x5:long:0..99", {"shape": [2, 5], "dtype": "int64", "low": 0, "high": 99}),
            ("2:int8:-3..-1", {"shape": [2], "dtype": "int8", "low": -3, "high": -1}),
            ("2:torch.float64:-0.5..1e-3", {"shape": [2], "dtype": "float64", "low": -0.5, "high": 1e-3}),
            ("scalar:complex64", {"shape": [], "dtype": "complex64"}),
            ("[[3, 5]]:int32", {"values": [[3, 5]], "dtype": "int32"}),
            ("true", True),
            ("none", None),
            ("3", 3),
            ("[1, 2.5]", [1, 2.5]),
            ('["4:int64", {"a": "x"}]', [{"shape": [4], "dtype": "int64"}, {"a": "x"}]),
            ("cuda:0", "cuda:0"),
            ('"4:int64"', "4:int64"),
        ],
    )
    def test_short_forms(self, text: str, expected: Any) -> None:
        assert read_short((f"x={text}",)) == {"x": expected}

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("2x16", r"without a number format; write 2x16:float32"),
            ("1,3,8", r"without a number format; write 1x3x8:float32"),
            ("2x16:int9", r"dtype 'int9' is not known; did you mean"),
            ("2y16:int64", r"'2y16' is no shape; write 1x3x224x224"),
            ("2:int64:9..3", r"low 9 is above high 3"),
            ("2:int64:9", r"write SHAPE:DTYPE\[:LOW..HIGH\]"),
            ("2:int64:..3", r"no LOW..HIGH; write 0..99"),
            ("2:int64:0.5..3", r"give whole numbers as low and high"),
            ("2:uint8:0..300", r"0..300 is not within 0..255, as uint8 is"),
            ("2:bool:0..1", r"is bool, which has no range"),
            ("[1]:int64:0..3", r"states its values; leave low and high out"),
            ("[1:int64", r"\[1 is no list of numbers"),
            ('{"shape": [2]}', r"states no dtype"),
            ('{"dtype": "int64"}', r"states none of shape and values"),
            ('{"shape": [2], "dtype": "int64", "lo": 2}', r"unknown key 'lo'"),
            ('{"shape": [-2], "dtype": "int64"}', r"sides cannot be negative"),
            ('{"shape": "2x3", "dtype": "int64"}', r"Expected `array \| null`, got `str`"),
            ('{"shape": [2], "dtype": "int64", "low": 1}', r"needs both low and high"),
        ],
    )
    def test_what_is_wrong(self, text: str, message: str) -> None:
        with pytest.raises(InputError, match=message) as caught:
            read_short((f"x={text}",))
        assert "'x'" in str(caught.value)

    def test_entries_that_are_no_inputs(self) -> None:
        with pytest.raises(InputError, match="--input 'pixels' is not of the form NAME="):
            read_short(("pixels",))
        with pytest.raises(InputError, match="'x' is given twice"):
            read_short(("x=1", "x=2"))
        with pytest.raises(InputError, match="is given as complex"):
            read_inputs({"x": 1j})

    def test_values_are_within_their_range_and_the_same_again(self) -> None:
        for dtype, low, high in (
            ("int64", 3, 9),
            ("uint8", 0, 255),
            ("int64", -(2**62), 2**62),
            ("float32", -0.5, 0.5),
        ):
            (given,) = read_inputs({"x": {"shape": [4000], "dtype": dtype, "low": low, "high": high}}).values()
            first, second, other = made(given, "x", None), made(given, "x", None), made(given, "y", None)
            assert torch.equal(first, second)
            assert not torch.equal(first, other)
            assert first.min() >= low
            assert first.max() <= high
            # All of the range is drawn from.
            assert float(first.max()) - float(first.min()) > 0.8 * (high - low)
        assert set(made(read_inputs({"x": "999:int8:3..5"})["x"], "x", None).tolist()) == {3, 4, 5}

    def test_what_has_no_data(self) -> None:
        def of(text: str) -> Any:
            return made(read_inputs({"x": text})["x"], "x", torch.float16)

        assert of("3x4:float32").is_meta
        assert of("3x4:float").dtype == torch.float16
        assert of("99999x99999:int64:0..3").is_meta
        assert of("2x2:int64").tolist() == [[1, 1], [1, 1]]
        assert of("2:bool").tolist() == [True, True]
        assert of("scalar:int64:5..5").item() == 5
        with pytest.raises(InputError, match="input 'x': its values are no array of int64"):
            of("[[1], [2, 3]]:int64")


class TestFiles:
    @pytest.mark.parametrize("suffix", ["json", "toml"])
    def test_both_kinds(self, tmp_path: Path, suffix: str) -> None:
        path = tmp_path / f"inputs.{suffix}"
        text = {
            "json": '{"x": "2x3:int64", "y": {"shape": [4], "dtype": "half"}, "flag": true}',
            "toml": 'x = "2x3:int64"\nflag = true\n[y]\nshape = [4]\ndtype = "half"\n',
        }
        path.write_text(text[suffix])
        assert read_file(str(path)) == {
            "x": {"shape": [2, 3], "dtype": "int64"},
            "y": {"shape": [4], "dtype": "float16"},
            "flag": True,
        }

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ('{"x": "2x3"}', r"inputs\.json: input 'x' is given as 2x3"),
            ("[1]", r"inputs\.json must hold a table"),
            ("{", r"inputs\.json is not valid JSON"),
            (None, r"inputs\.json: there is no such file"),
        ],
    )
    def test_damaged_ones(self, tmp_path: Path, text: str | None, message: str) -> None:
        path = tmp_path / "inputs.json"
        if text is not None:
            path.write_text(text)
        with pytest.raises(InputError, match=message) as caught:
            read_file(str(path))
        assert str(caught.value).count("inputs.json") == 1


class TestUserFiles:
    def test_values_decide_the_branch(self, file: Path) -> None:
        graphs = [load_model(f"{file}:build", inputs={"ids": f"2x16:int64:{r}"}) for r in ("0..50", "60..99")]
        assert [g.operators[-1].flops for g in graphs] == [2 * 32 * 32 * 16, 2 * 32 * 32 * 64]
        for graph in graphs:
            assert shapes(graph) == {"input0": ((2, 16), "int64")}
            assert any("'input0': this plan holds for inputs that" in note for note in graph.notes)

    def test_values_of_the_files_own_arguments_decide(self, file: Path) -> None:
        other = file.with_name("other.py")
        more = "def high():\n    return Net(), (torch.full((1, 8), 99),)\n"
        other.write_text(textwrap.dedent(SOURCE) + more)
        graphs = [load_model(f"{other}:{name}") for name in ("build", "high")]
        assert [g.operators[-1].flops for g in graphs] == [2 * 8 * 32 * 16, 2 * 8 * 32 * 64]
        for graph in graphs:
            assert any("'input0': this plan holds for inputs that" in note for note in graph.notes)

    def test_arguments_by_place_by_name_and_inside_others(self, file: Path) -> None:
        by_place = load_model(f"{file}:build", inputs={"input0": "[[1, 2, 99]]:int64", "scale": "32:float"})
        assert shapes(by_place) == {"input0": ((1, 3), "int64"), "scale": ((32,), "float32")}
        assert targets(by_place) == ["embedding", "mul", "addmm"]
        inside = load_model(f"{file}:nested", inputs={"parts.shift.0": "1x8x32:float64"})
        assert shapes(inside)["parts.shift.0"] == ((1, 8, 32), "float64")
        whole = load_model(f"{file}:nested", inputs={"parts": {"shift": ["1x8x32:float32"]}})
        assert shapes(whole)["parts.shift.0"] == ((1, 8, 32), "float32")
        assert list(shapes(load_model(f"{file}:nested", inputs={"parts": None}))) == ["input0"]
        assert shapes(load_model(f"{file}:sequence", inputs={"input": "5x32:float32"})) == {
            "input0": ((5, 32), "float32")
        }
        more = load_model(f"{file}:anything", inputs={"other": "1x32:float32"})
        assert shapes(more) == {"input0": ((2, 32), "float32"), "other": ((1, 32), "float32")}

    def test_what_nothing_reads_is_said(self, file: Path) -> None:
        swallows = file.with_name("swallows.py")
        swallows.write_text(
            "import torch\nclass Net(torch.nn.Linear):\n"
            "    def forward(self, x, **others):\n        return super().forward(x)\n"
            "def build():\n    return Net(4, 4), (torch.zeros(1, 4),)\n"
        )
        graph = load_model(f"{swallows}:build", inputs={"mask": "4:float", "x": "2x4:float"})
        assert graph.notes == ("No operator reads input 'mask', which was given.",)

    @pytest.mark.parametrize(
        ("name", "inputs", "message"),
        [
            ("build", {"idz": "1x8:int64"}, r"takes no input 'idz'; did you mean 'ids'\?"),
            (
                "nested",
                {"parts.shifted.0": "1:int64"},
                r"'parts.shifted.0' has no place: 'shifted' is no entry of a dict",
            ),
            ("sequence", {"x": "2x32:float32"}, r"takes no input 'x'"),
        ],
    )
    def test_unknown_names(self, file: Path, name: str, inputs: dict[str, Any], message: str) -> None:
        with pytest.raises(InputError, match=message):
            load_model(f"{file}:{name}", inputs=inputs)

    def test_failures_say_what_it_ran_on_and_how_to_give_it(self, file: Path) -> None:
        with pytest.raises(TraceError, match=r"it ran on ids 2x16:float32; give inputs with --input NAME=SHAPE:DTYPE"):
            load_model(f"{file}:build", inputs={"ids": "2x16:float32"})
        with pytest.raises(TraceError, match=r"it ran without ids, scale, parts; give inputs with --input"):
            load_model(f"{file}:build", inputs={"ids": "none"})
        lonely = file.with_name("lonely.py")
        lonely.write_text(
            "import torch\nclass Net(torch.nn.Linear):\n"
            "    def forward(self, x, mask):\n        return super().forward(x) * mask\n"
            "def build():\n    return Net(4, 4), (torch.zeros(1, 4),)\n"
        )
        with pytest.raises(TraceError, match=r"'mask'; there was no mask; give it with --input mask=SHAPE:DTYPE"):
            load_model(f"{lonely}:build")
        assert targets(load_model(f"{lonely}:build", inputs={"mask": "4:float"})) == ["addmm", "mul"]

    def test_the_graph_records_them(self, file: Path) -> None:
        graph = load_model(f"{file}:build", inputs={"ids": "2x16:int64:60..99", "scale": "32:float"})
        source = msgspec.json.decode(msgspec.json.encode(graph.source), type=Source)
        assert source == graph.source
        for seed in (None, 1):
            again = load_module(source, seed=seed)
            assert again.trace().operators == graph.operators
            assert again.args[0].min() >= 60

    def test_settings_that_are_no_inputs(self, file: Path) -> None:
        with pytest.raises(InputError, match="setting 'inputs' that is unknown"):
            load_module(Source(model=f"{file}:build", settings={"inputs": 3}))
        with pytest.raises(InputError, match="input 'ids': dtype 'int9'"):
            load_module(Source(model=f"{file}:build", settings={"inputs": {"ids": {"shape": [1], "dtype": "int9"}}}))


class TestTransformers:
    @pytest.fixture(autouse=True)
    def _library(self) -> None:
        pytest.importorskip("transformers")

    def test_text_settles_the_sizes_of_what_is_made(self) -> None:
        graph = load_model("hf:gpt2", set_fields=GPT2, inputs={"input_ids": "3x77:int64:0..99"}, training=True)
        assert shapes(graph)["input_ids"] == ((3, 77), "int64")
        assert shapes(graph)["labels"] == ((3, 77), "int64")
        assert graph.source is not None
        assert graph.source.settings["batch_size"] == 3
        assert load_module(graph.source).trace().operators == graph.operators

    def test_a_step_of_decoding_has_one_token(self) -> None:
        graph = load_model("hf:gpt2", set_fields=GPT2, decode=64, inputs={"input_ids": "1x1:int64:7..7"})
        assert shapes(graph)["input_ids"] == ((1, 1), "int64")
        with pytest.raises(InputError, match=r"one token, and the given text is of the shape \[1, 8\]; leave it out"):
            load_model("hf:gpt2", set_fields=GPT2, decode=64, inputs={"input_ids": "1x8:int64"})

    def test_one_instead_of_another(self) -> None:
        inputs = {"inputs_embeds": "2x77x64:float", "input_ids": "none"}
        graph = load_model("hf:gpt2", set_fields=GPT2, inputs=inputs)
        assert shapes(graph) == {"inputs_embeds": ((2, 77, 64), "bfloat16")}

    def test_sizes_and_plain_values(self) -> None:
        inputs = {"pixel_values": "4x3x96x96:float", "interpolate_pos_encoding": "true"}
        graph = load_model("hf:vit", set_fields=VIT, inputs=inputs)
        assert shapes(graph) == {"pixel_values": ((4, 3, 96, 96), "bfloat16")}
        assert any("upsample_bicubic2d" in op.target for op in graph.operators)

    @pytest.mark.parametrize("name", ["input_idz", "nothing_like_it"])
    def test_unknown_names(self, name: str) -> None:
        message = rf"GPT2LMHeadModel of model type 'gpt2' takes no input '{name}'"
        with pytest.raises(InputError, match=message):
            load_model("hf:gpt2", set_fields=GPT2, inputs={name: "1x8:int64"})

    def test_given_sizes_are_not_made_to_fit(self) -> None:
        with pytest.raises(TraceError, match=r"it ran on pixel_values 4x5x224x224:bfloat16; give inputs with --input"):
            load_model("hf:vit", set_fields=VIT, inputs={"pixel_values": "4x5x224x224:float"})

    def test_models_without_sequences_take_no_length(self) -> None:
        with pytest.raises(InputError, match=r"model type 'vit' takes no sequence .*leave the sequence length out"):
            load_model("hf:vit", set_fields=VIT, sequence_length=77)

    def test_failures_name_what_is_missing(self) -> None:
        with pytest.raises(TraceError, match=r"there was no input_ids; give it with --input input_ids=SHAPE:DTYPE"):
            load_model("hf:gpt2", set_fields=GPT2, inputs={"input_ids": None})

    def test_what_the_library_stumbles_over_is_one_line(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from partita.frontends.hf import load

        def broken(*_: Any) -> Any:
            raise RuntimeError("operator torchvision::nms does not exist")

        monkeypatch.setattr(load, "model_classes", broken)
        for trace in (load_model, lambda spec: load_module(Source(model=spec))):
            with pytest.raises(TraceError, match=r"cannot load hf:gpt2: RuntimeError: operator torchvision.*install"):
                trace("hf:gpt2")


class TestOnnx:
    @pytest.fixture(autouse=True)
    def _library(self) -> None:
        pytest.importorskip("onnx")

    @pytest.fixture
    def path(self, tmp_path: Path) -> str:
        """Rows of ``x`` whose number an input says, times a weight."""
        from onnx import TensorProto, helper, numpy_helper

        nodes = [
            helper.make_node("Reshape", ["x", "form"], ["rows"]),
            helper.make_node("MatMul", ["rows", "w"], ["y"]),
        ]
        inputs = [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "length", 8]),
            helper.make_tensor_value_info("form", TensorProto.INT64, [3]),
        ]
        outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
        weight = numpy_helper.from_array(np.ones((8, 16), np.float32), "w")
        graph = helper.make_graph(nodes, "made", inputs, outputs, [weight])
        path = tmp_path / "made.onnx"
        made = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 18)])
        path.write_bytes(made.SerializeToString())
        return str(path)

    def test_shapes_settle_open_sizes_and_values_what_follows(self, path: str) -> None:
        graph = load_model(path, inputs={"x": "2x6x8:float32", "form": "[3, 4, 8]"})
        assert graph.operators[-1].flops == 2 * 12 * 8 * 16
        assert shapes(graph) == {"x": ((2, 6, 8), "float32")}
        assert [t.shape for t in graph.tensors if t.producer == len(graph.operators) - 1] == [(3, 4, 16)]
        assert "This plan holds for the values of input 'form' that are given." in graph.notes
        assert graph.source is not None
        assert graph.source.settings["inputs"]["form"] == [3, 4, 8]

    @pytest.mark.parametrize(
        ("inputs", "options", "message"),
        [
            ({"z": "2:float32"}, {}, r"has no input 'z'; there is form, x"),
            ({"x": "2x6x9:float32"}, {}, r"input 'x' has size 8 at axis 2, not 9"),
            ({"x": "2x6:float32"}, {}, r"input 'x' has 3 dimensions; \[2, 6\] has 2"),
            ({"x": "2x6x8:float16"}, {}, r"input 'x' is float32, not float16; write float32, or convert the file"),
            ({"x": None}, {}, r"input 'x' is an array, and not left out"),
            (
                {"x": "2x6x8:float32"},
                {"set_fields": {"batch": "3"}},
                r"'batch' .* is 2 in a given input and 3 by --set",
            ),
            ({"form": "[[1], [2, 3]]:int64"}, {}, r"values of input 'form' are no array of int64"),
        ],
    )
    def test_what_does_not_fit(self, path: str, inputs: Any, options: Any, message: str) -> None:
        with pytest.raises(InputError, match=message):
            load_model(path, inputs=inputs, **options)


class TestCommandLine:
    def test_inputs_reach_the_model(self, file: Path, partita: Callable[..., Run], tmp_path: Path) -> None:
        graph, given = tmp_path / "g.json", tmp_path / "inputs.json"
        given.write_text(json.dumps({"scale": "32:float32"}))
        model = (f"{file}:build", "--cluster", "2xL4", "--input", "ids=2x16:int64:60..99", "--inputs", given)
        ran = partita("plan", *model, "--graph-output", graph, "--json")
        assert ran.code == 0, ran.err
        assert shapes(read_graph(graph)) == {
            "input0": ((2, 16), "int64"),
            "scale": ((32,), "float32"),
        }
        twice = partita("plan", *model, "--input", "scale=32:float32")
        assert twice.code == 2
        assert "input 'scale' is given by --input and in" in twice.err

    def test_traced_graphs_and_problem_files_take_none(
        self, file: Path, partita: Callable[..., Run], tmp_path: Path
    ) -> None:
        graph = tmp_path / "g.json"
        assert partita("plan", f"{file}:build", "--cluster", "2xL4", "--graph-output", graph).code == 0
        refused = partita("plan", graph, "--cluster", "2xL4", "--input", "ids=1x8:int64")
        assert refused.code == 2
        assert "is a traced graph, which --input cannot change" in refused.err
