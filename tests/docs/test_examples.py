"""The worked examples of the documentation run and print what they say."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
WITH_EXAMPLES = [page for page in PAGES if ">>>" in page.read_text(encoding="utf-8")]


def test_pages_have_examples() -> None:
    assert len(WITH_EXAMPLES) >= 3


@pytest.mark.usefixtures("kept_graphs")
@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=lambda page: page.name)
def test_examples(page: Path) -> None:
    if "torch" in page.read_text(encoding="utf-8"):
        pytest.importorskip("torch")
        pytest.importorskip("transformers")
    result = doctest.testfile(
        str(page), module_relative=False, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    )
    assert result.attempted > 0
    assert result.failed == 0
