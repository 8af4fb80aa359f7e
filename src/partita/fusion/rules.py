"""Fusion rules: the tables that are there, and a user's from a file.

A file is TOML (or JSON with the same keys)::

    include = "common"                      # optional: a table that is there, whose rules come first
    rules = [["matmul", "add", "gelu"], ["conv", "bn?", "elementwise*"]]

    [types]                                 # optional: further types, by shell-style patterns of targets
    "mylib.rotary*" = "rotary"

Sources of the tables: Moirai (2023), Table I; for ``common`` what compilers and inference libraries document as one
kernel: epilogues of convolutions and matrix products (TensorRT and cuDNN), attention without its scores (Dao et al.,
"FlashAttention", 2022), elementwise chains and reductions with what is around them (XLA, TorchInductor).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import msgspec

from partita.fusion.patterns import PatternAutomaton
from partita.fusion.types import CATEGORIES, VOCABULARY, operator_type
from partita.ground.errors import FormatError, InputError
from partita.nouns.catalogue.files import check_keys, converted, read_document

_ELEMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*[?*+]?")

#: Elements of a rule, in the order of the data flow.
Rule = tuple[str, ...]

_MOIRAI: tuple[Rule, ...] = (("conv", "bn"), ("conv", "bn", "relu"), ("conv", "bn", "add", "relu"))
_COMMON: tuple[Rule, ...] = (
    *_MOIRAI,
    ("conv", "bn?", "elementwise*"),
    ("matmul", "elementwise*"),
    ("matmul", "elementwise*", "softmax", "elementwise*", "matmul"),
    ("elementwise*", "normalise", "elementwise*"),
    ("elementwise", "elementwise+"),
)


@dataclass(frozen=True)
class FusionRules:
    """Which chains of operators a runtime runs as one kernel.

    Raises ``InputError`` if there are no rules, one is empty, fuses nothing, or has an element that is no name with an
    optional suffix.
    """

    name: str  #: For notes: of the table or the file.
    #: Elements are types or categories, by themselves or with ``?`` (none or one), ``*`` (any number) or ``+`` (at
    #: least one).
    rules: tuple[Rule, ...]
    #: Types of targets that the package does not know, or knows otherwise, by shell-style patterns.
    types: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.rules:
            raise InputError(f"fusion rules {self.name!r} are none; give at least one")
        for number, rule in enumerate(self.rules, start=1):
            where = f"fusion rules {self.name!r}: rule {number} ({shown(rule)})"
            for element in rule:
                if not _ELEMENT.fullmatch(element):
                    raise InputError(f"{where} has element {element!r}; write a type, or one with ?, * or + at its end")
            if len(rule) < 2 and not any(element.endswith(("*", "+")) for element in rule):
                raise InputError(f"{where} fuses nothing; a rule has at least two operators")
        for pattern, kind in self.types.items():
            if not _ELEMENT.fullmatch(kind) or kind[-1] in "?*+" or kind in CATEGORIES:
                raise InputError(f"fusion rules {self.name!r}: type {kind!r} of {pattern!r} is no name of a type")

    @cached_property
    def patterns(self) -> PatternAutomaton:
        """The rules as an automaton."""
        return PatternAutomaton(self.rules, CATEGORIES)

    def type_of(self, target: str) -> str:
        """The type of a traced operator, empty for none."""
        return operator_type(target, self.types)

    def note(self, fused: Iterable[Iterable[str]], before: int, after: int, present: Iterable[str]) -> str:
        """One sentence: what was fused, most frequent first, and what the rules name that nothing is.

        ``fused`` holds the types of every group, ``present`` all types there are; before and after count operators.
        """
        counts = Counter(shown(kinds) for kinds in fused)
        most = ", ".join(f"{count} × {name}" for name, count in counts.most_common(5))
        text = f"Fusion by the rules {self.name!r} makes {after} operators of {before}"
        text += f": {most}{', …' if len(counts) > 5 else ''}." if counts else "."
        named = {element.rstrip("?*+") for rule in self.rules for element in rule}
        unknown = sorted(named - VOCABULARY - set(self.types.values()) - set(present))
        return text + (f" No operator is of type {', '.join(unknown)}." if unknown else "")


def shown(kinds: Iterable[str]) -> str:
    """Types of a row as people write them: ``conv∘bn∘relu``."""
    return "∘".join(kinds)


#: Tables by name, the one that is used unless stated first.
FUSION_RULES: dict[str, FusionRules] = {
    rules.name: rules for rules in (FusionRules("common", _COMMON), FusionRules("moirai", _MOIRAI))
}


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    rules: list[tuple[str, ...]] = []
    include: str | None = None
    types: dict[str, str] = {}


def fusion_rules(stated: FusionRules | str | Path | None = None) -> FusionRules:
    """Rules as they are, the table of a name, or those of a file; the ``common`` ones if None.

    Raises ``FormatError`` if the file is not of the form above; ``InputError`` if it cannot be read, or its rules are
    invalid.
    """
    if stated is None:
        return next(iter(FUSION_RULES.values()))
    if isinstance(stated, FusionRules):
        return stated
    if str(stated) in FUSION_RULES:
        return FUSION_RULES[str(stated)]
    path = Path(stated)
    if not path.exists():
        raise InputError(
            f"there are no fusion rules {str(stated)!r}: no file of that name, and no table; "
            f"tables are {', '.join(FUSION_RULES)}"
        )
    data = read_document(path)
    check_keys(f"{path}", data, [f.name for f in msgspec.structs.fields(_Document)])
    document = converted(f"{path}", data, _Document)
    included = None if document.include is None else FUSION_RULES.get(document.include)
    if document.include is not None and included is None:
        raise FormatError(f"{path}: include is {document.include!r}; tables are {', '.join(FUSION_RULES)}")
    rules = (*(included.rules if included else ()), *document.rules)
    return FusionRules(path.name, rules, document.types)
