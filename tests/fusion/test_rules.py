"""Rules from tables and files, and what is wrong with them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from partita.fusion.rules import FUSION_RULES, FusionRules, fusion_rules
from partita.fusion.types import CATEGORIES, VOCABULARY, operator_type
from partita.ground.errors import FormatError, InputError


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        ("aten.convolution.default", "conv"),
        ("aten.native_batch_norm.default", "bn"),
        ("aten.relu_.default", "relu"),
        ("aten.add_.Tensor", "add"),
        ("aten.addmm.default", "matmul"),
        ("aten._softmax.default", "softmax"),
        ("aten._to_copy.default", "cast"),
        ("aten.sort.default", ""),
        ("other.add.default", ""),
        ("add", ""),
    ],
)
def test_types_of_targets(target: str, kind: str) -> None:
    assert operator_type(target) == kind


def test_categories_hold_types() -> None:
    assert not set().union(*CATEGORIES.values()) - VOCABULARY
    assert not any(kinds & set(CATEGORIES) for kinds in CATEGORIES.values())


def test_tables_and_the_usual_one() -> None:
    """The published rules are a table, and part of the usual one."""
    assert fusion_rules() is FUSION_RULES["common"] is fusion_rules("common")
    assert fusion_rules("moirai").rules == (("conv", "bn"), ("conv", "bn", "relu"), ("conv", "bn", "add", "relu"))
    assert set(fusion_rules("moirai").rules) < set(fusion_rules("common").rules)
    for rules in FUSION_RULES.values():
        assert {element.rstrip("?*+") for rule in rules.rules for element in rule} <= VOCABULARY


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(
        'include = "moirai"\nrules = [["rotary", "add?"], ["add", "add+"]]\n[types]\n"mine.rot*" = "rotary"\n'
    )
    rules = fusion_rules(path)
    assert rules.rules == (*FUSION_RULES["moirai"].rules, ("rotary", "add?"), ("add", "add+"))
    assert (rules.type_of("mine.rotate.default"), rules.type_of("aten.mm.default")) == ("rotary", "matmul")
    path = tmp_path / "rules.json"
    path.write_text(json.dumps({"rules": [["matmul", "gelu"]], "types": {"aten.mm.*": "product"}}))
    rules = fusion_rules(str(path))
    assert rules.rules == (("matmul", "gelu"),)
    assert rules.type_of("aten.mm.default") == "product"


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("rules = []", InputError, "are none; give at least one"),
        ('rules = [["conv"]]', InputError, r"rule 1 \(conv\) fuses nothing; a rule has at least two operators"),
        ("rules = [[]]", InputError, "fuses nothing"),
        ('rules = [["a", "b"], ["conv", "b n"]]', InputError, r"rule 2 \(conv∘b n\) has element 'b n'; write a type"),
        ('rules = [["conv", "bn??"]]', InputError, r"has element 'bn\?\?'"),
        ('rules = [["conv", 3]]', FormatError, "Expected `str`, got `int`"),
        ('rules = "conv"', FormatError, "Expected `array`"),
        ('rule = [["conv", "bn"]]', FormatError, "unknown key 'rule'; valid keys are rules, include, types"),
        ('include = "best"', FormatError, "include is 'best'; tables are common, moirai"),
        ('rules = [["a", "b"]]\n[types]\n"x" = "a b"', InputError, "type 'a b' of 'x' is no name of a type"),
        ('rules = [["a", "b"]]\n[types]\n"x" = "elementwise"', InputError, "type 'elementwise' of 'x' is no name"),
        ("rules = [[", FormatError, "is not valid TOML"),
    ],
)
def test_what_is_wrong_with_a_file(tmp_path: Path, text: str, error: type[Exception], says: str) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(text)
    with pytest.raises(error, match=says) as caught:
        fusion_rules(path)
    assert "rules.toml" in str(caught.value)


def test_neither_a_table_nor_a_file() -> None:
    with pytest.raises(InputError, match="no fusion rules 'comon': no file of that name, and no table; tables are"):
        fusion_rules("comon")


def test_a_note_counts_and_names_what_is_unknown() -> None:
    rules = FusionRules("mine", (("conv", "bnn"), ("conv", "own")))
    note = rules.note([["conv", "bn"], ["conv", "bn"], ["a", "b"]], 9, 6, ["conv", "own"])
    assert (
        note == "Fusion by the rules 'mine' makes 6 operators of 9: 2 × conv∘bn, 1 × a∘b. No operator is of type bnn."
    )
