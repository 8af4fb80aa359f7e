"""What pages and cells say, without a browser."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from contracts.cases import all_kinds, families_of
from partita.api.solving import solve
from partita.conductor.documents import result_document
from partita.conductor.simulate import simulate_plan
from partita.documents.result_file import with_problem
from partita.ground.errors import FormatError, InputError, MissingExtraError
from partita.ground.units import format_time
from partita.problems.kind import AnyKind
from partita.report.pages import cell, page, write_page
from partita.report.pages.preview import picture
from partita.report.pages.sweep import axes_of, pareto
from report.documents import NAMES, PIPELINE, Documents, call
from report.large import pipeline
from running.command_line import Run
from toy.conftest import tasks as tasks
from toy.conftest import tasks_file as tasks_file
from toy.tasks import TASKS

#: What a cell may take.
LARGEST_CELL = 200_000

plotly = pytest.mark.skipif(find_spec("plotly") is None, reason="plotly is not installed (extra report)")


class Elements(HTMLParser):
    """Checks that elements are closed in order, and keeps what there is."""

    EMPTY = frozenset({"meta", "link", "input", "br", "img", "hr"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.EMPTY:
            assert self.open.pop() == tag


@pytest.mark.parametrize("name", NAMES)
def test_a_cell_is_small_static_and_says_the_objective(documents: Documents, name: str) -> None:
    document = documents.read(name)
    shown = cell(document)
    assert len(shown.encode()) < LARGEST_CELL
    tags = {tag for tag, _ in Elements(shown).seen}
    assert not tags & {"script", "iframe", "link", "img", "object"}
    assert not any(key.startswith("on") for _, attributes in Elements(shown).seen for key in attributes)
    if document.get("objective") is not None and name != "simulation":
        assert f'value="{document["objective"]!r}"' in shown
        assert format_time(document["objective"], document["unit"]) in shown


def test_a_cell_is_small_however_much_happens() -> None:
    """Every piece of time of every row is another sort than the one before it."""
    line = simulate_plan(*pipeline(24, 100)).simulation.timeline
    assert 20_000 < len(picture(line)) < LARGEST_CELL * 0.6
    Elements(picture(line))


def test_a_cell_needs_no_extra(documents: Documents, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "plotly", None)
    assert "<svg" in cell(documents.read("solved"))


def test_without_plotly_a_page_says_how_to_install_it(documents: Documents, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name, package=None: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'partita\[report\]'"):
        page(documents.read("solved"))


@plotly
@pytest.mark.parametrize("name", NAMES)
def test_a_page_is_one_whole_file(documents: Documents, name: str) -> None:
    """All elements are closed, every link stays on the page, and nothing outside of it is named."""
    text = page(documents.read(name))
    seen = Elements(text).seen
    ids = {attributes["id"] for _, attributes in seen if "id" in attributes}
    for tag, attributes in seen:
        assert "src" not in attributes
        if tag == "a":
            assert attributes["href"] is not None
            assert attributes["href"][1:] in ids
        if tag == "link":
            assert attributes["href"] == "data:,"
    assert "default-src 'none'" in text


@plotly
@pytest.mark.parametrize("kind", [kind for kind in all_kinds() if kind is not TASKS], ids=lambda kind: kind.name)
def test_every_problem_has_pages(kind: AnyKind) -> None:
    """Also those that come later: the typical problem of each family of samples is solved and shown."""
    for family in families_of(kind):
        result = solve(family.typical, time_limit_s=30.0)
        document = with_problem(result_document(result), result.problem)
        assert result.objective is not None
        assert f'value="{result.objective!r}"' in page(document)
        assert f'value="{result.objective!r}"' in cell(document)


@plotly
def test_a_result_without_its_problem_says_what_is_missing(documents: Documents) -> None:
    document = documents.read("solved")
    del document["problem"]["stated"]
    text = page(document)
    assert "There is no time line: the document does not hold its problem" in text
    assert f'value="{document["objective"]!r}"' in text


@plotly
def test_a_result_that_contradicts_itself_is_refused(documents: Documents) -> None:
    document = documents.read("solved")
    document["plan"]["devices"][0]["replicas"] = 7
    with pytest.raises(InputError, match=r"R\.json contradicts itself: plan\.devices\[0\]\.replicas is 7"):
        page(document, "R.json")


@plotly
@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"format": "partita.problem"}, "format is 'partita.problem'; give what --output"),
        ({"nodes": []}, "its keys are nodes; give what --output"),
        ({}, "its keys are none; give"),
    ],
)
def test_other_documents_are_refused(document: dict[str, Any], message: str) -> None:
    for show in (page, cell):
        with pytest.raises(InputError, match=re.escape(message)):
            show(document)


@pytest.mark.parametrize("name", ["R.json", "page.pdf"])
def test_pages_are_no_other_files(documents: Documents, tmp_path: Path, name: str) -> None:
    """The result that is shown is not written over."""
    with pytest.raises(InputError, match=rf"{name}: a report is a page of HTML"):
        write_page(tmp_path / name, documents.read("training"))
    assert not (tmp_path / name).exists()


@plotly
def test_how_a_plan_is_simulated_can_be_asked_for(documents: Documents) -> None:
    document = documents.read("training")
    assert "gpipe, 12 microbatches" in page(document, schedule="gpipe", microbatches=12)
    with pytest.raises(InputError, match="there is no schedule 'nonsense'"):
        page(document, schedule="nonsense")
    with pytest.raises(InputError, match="is a sweep, which is not simulated; leave schedule out"):
        page(documents.read("sweep"), "S.json", schedule="gpipe")


@plotly
def verdict_of(document: dict[str, Any]) -> str:
    """The verdict of a page, without its tags."""
    text = page(document)
    verdict = text[text.index('<section id="verdict"') :]
    return re.sub("<[^>]*>", "", verdict[: verdict.index("</section>")])


@plotly
def test_a_simulation_says_what_passes_through(documents: Documents) -> None:
    served = json.loads(call("simulate", documents.path("serving"), "--json"))
    said = verdict_of(served)
    assert f"{served['microbatches']} steps take" in said
    assert "microbatch" not in said
    trained = json.loads(call("simulate", documents.path("step"), "--json"))
    assert f"{trained['microbatches']} microbatches take" in verdict_of(trained)


def test_the_same_document_makes_the_same_page(documents: Documents, tmp_path: Path) -> None:
    first, second = tmp_path / "a.html", tmp_path / "b.html"
    for path in (first, second):
        write_page(path, documents.read("step"))
    assert first.read_bytes() == second.read_bytes()


@plotly
def test_the_command_writes_the_page_and_says_where(
    partita: Callable[..., Run], documents: Documents, tmp_path: Path
) -> None:
    source, output = documents.path("solved"), tmp_path / "page.html"
    run = partita("report", source, "--output", output)
    assert (run.code, run.out) == (0, "")
    assert str(output) in run.err
    assert output.read_text() == page(documents.read("solved"), str(source))
    piped = partita("report", source, "--output", "-")
    assert piped.out == output.read_text()
    beside = partita("report", source)
    assert beside.code == 0
    assert source.with_suffix(".html").read_text() == output.read_text()


@plotly
def test_the_command_takes_the_problem_from_another_file(
    partita: Callable[..., Run], documents: Documents, tmp_path: Path
) -> None:
    document = documents.read("mapping")
    document["problem"] = {"name": PIPELINE["name"]}
    alone = documents.written("alone.json", document)
    run = partita(
        "report", alone, "--problem", documents.written("pipeline.json", PIPELINE), "--output", tmp_path / "p"
    )
    assert run.code == 0, run.err
    assert "There is no time line" not in (tmp_path / "p").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("missing.json",), "missing.json: there is no such file"),
        (("{graph}",), "cannot be reported: its keys are"),
        (("{solved}", "--output", "/nowhere/x.html"), "the folder /nowhere does not exist"),
        (("{solved}", "--schedule", "nonsense"), "there is no schedule 'nonsense'"),
    ],
)
@plotly
def test_the_command_refuses_in_one_sentence(
    partita: Callable[..., Run], documents: Documents, arguments: tuple[str, ...], message: str
) -> None:
    files = {"{graph}": str(documents.instance()), "{solved}": str(documents.path("solved"))}
    run = partita("report", *(files.get(argument, argument) for argument in arguments))
    assert run.code == 2
    assert message in run.err
    assert run.err.count("\n") == 1


def test_documents_say_how_they_were_made(documents: Documents) -> None:
    made = documents.read("mapping")["made"]
    assert made["command"][:2] == ["partita", "map"]
    assert list(made["inputs"]) == [str(documents.folder / "pipeline.json")]
    assert all(len(digest) == 64 for digest in made["inputs"].values())
    assert made["libraries"]["numpy"]


def test_axes_and_the_front_of_a_sweep() -> None:
    rows = [
        {"devices": d, "memory_bytes": 1e9, "bandwidth": b, "objective": o, "bound": None}
        for d, b, o in ((1, 1.0, 9.0), (1, 2.0, 8.0), (2, 1.0, 8.5), (2, 2.0, 7.0), (4, 1.0, None), (4, 2.0, 7.0))
    ]
    assert axes_of(rows) == ["devices", "bandwidth"]
    assert [(row["devices"], row["objective"]) for row in pareto(rows, "devices")] == [(1, 8.0), (2, 7.0)]


def test_files_that_are_no_json_are_refused(partita: Callable[..., Run], tmp_path: Path) -> None:
    pytest.importorskip("plotly", reason="plotly is not installed (extra report)")
    path = tmp_path / "x.json"
    path.write_text("[1]")
    run = partita("report", path)
    assert (run.code, "expected `object`" in run.err) == (2, True)
    assert issubclass(FormatError, InputError)


def test_problems_of_others_are_shown_too(tasks_file: Path, partita: Callable[..., Run], tmp_path: Path) -> None:
    """A problem that is registered by a test has no parts, tables of its own, or time line."""
    pytest.importorskip("plotly", reason="plotly is not installed (extra report)")
    result = tmp_path / "r.json"
    assert partita("solve", tasks_file, "--output", result).code == 0
    assert partita("report", result, "--output", tmp_path / "r.html").code == 0
    text = (tmp_path / "r.html").read_text()
    assert 'value="6.0"' in text
    assert "have no time line" in text
