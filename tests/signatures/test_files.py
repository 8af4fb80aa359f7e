"""What is written from the declarations is what they say, and everybody finds it."""

from __future__ import annotations

import inspect
import pydoc
import subprocess
import sys
import typing
from collections.abc import Callable
from typing import Any

import pytest

import partita
from partita.api import using
from partita.api.answer import Answer
from partita.problems import PROBLEMS, find_kind
from partita.problems.kind import AnyKind
from partita.problems.settings import settings_of
from signatures import files as writer
from signatures.files import COMMAND, FOLDER, generated
from signatures.keywords import Imports, axes_of, keywords_of
from signatures.shared import FUNCTIONS, Function

KINDS = [find_kind(name) for name in PROBLEMS]
MODELLED = [kind for kind in KINDS if kind.model is not None]
WITH_SETTINGS = [one for one in FUNCTIONS if one.takes not in ("plan", "file")]


def test_files_are_what_the_declarations_say() -> None:
    for path, text in generated().items():
        assert path.read_text() == text, f"{path} is not what the settings declare; run `{COMMAND}`"
    assert {path.name for path in FOLDER.glob("*.py")} == {"__init__.py", *(path.name for path in generated())}


def explicit(function: Function) -> set[str]:
    """Parameters that a function has beside its settings."""
    return inspect.signature(getattr(function.module, function.name)).parameters.keys() - {"settings"}


def settings_named(overloaded: Callable[..., Any], **annotations: str) -> type:
    """The settings of the overload whose parameters have some annotations."""
    (found,) = (
        each
        for each in typing.get_overloads(overloaded)
        if all(
            name in inspect.signature(each).parameters
            and inspect.signature(each).parameters[name].annotation == annotation
            for name, annotation in annotations.items()
        )
    )
    name = inspect.signature(found).parameters["settings"].annotation
    return vars(sys.modules[overloaded.__module__])[name.removeprefix("Unpack[").removesuffix("]")]


def declared(kind: AnyKind, *, model: bool, axes: bool, pricing_only: bool) -> set[str]:
    """Everything that may be asked for, by name."""
    parts = [kind.model.pricing if model and kind.model is not None else kind.changes, kind.changes]
    parts += [] if pricing_only else [kind.options]
    names = {name for part in parts for name in part.__struct_fields__}
    return names | ({axis.name for axis in kind.sweep.axes} if axes else set())


@pytest.mark.parametrize("function", [one for one in WITH_SETTINGS if one.takes in ("model", "either")])
@pytest.mark.parametrize("kind", MODELLED)
def test_an_objective_has_its_settings(function: Function, kind: AnyKind) -> None:
    public = getattr(partita, function.name)
    wanted = declared(kind, model=True, axes=function.axes, pricing_only=function.pricing_only)
    # Without an objective, price takes the first: two overloads have its settings.
    found = settings_named(public, objective=f"Literal['{kind.objective}']").__annotations__
    assert found.keys() >= wanted
    assert found.keys() - wanted <= explicit(function)


@pytest.mark.parametrize("function", [one for one in WITH_SETTINGS if one.takes in ("problem", "either")])
@pytest.mark.parametrize("kind", KINDS)
def test_a_problem_has_its_settings(function: Function, kind: AnyKind) -> None:
    public = getattr(partita, function.name)
    first = next(iter(inspect.signature(public).parameters))
    found = settings_named(public, **{first: kind.problem.__name__}).__annotations__
    wanted = declared(kind, model=False, axes=function.axes, pricing_only=False)
    assert found.keys() >= wanted
    assert found.keys() - wanted <= explicit(function)


@pytest.mark.parametrize("function", WITH_SETTINGS)
def test_help_names_every_setting(function: Function) -> None:
    """With what it means and its default; by ``help`` as in a notebook, which read the docstring."""
    public = getattr(partita, function.name)
    text = pydoc.render_doc(public, renderer=pydoc.plaintext)
    assert inspect.getdoc(public) is not None
    axes = {axis.name for kind in KINDS for axis in kind.sweep.axes} if function.axes else set()
    shown = " ".join(text.split())
    for kind in (
        MODELLED if function.takes == "model" else [find_kind("mapping")] if function.takes == "placing" else KINDS
    ):
        parts: list[type] = [] if function.pricing_only else [kind.options]
        if function.takes in ("model", "either") and kind.model is not None:
            parts.append(kind.model.pricing)
        parts.append(kind.changes)
        imports = Imports()
        found = keywords_of(parts, imports, kind, explicit(function) | axes)
        for entry in {**found, **(axes_of(kind, imports) if function.axes else {})}.values():
            assert f" {entry.name} : " in shown
            assert entry.meaning in shown
            assert f"{entry.default}]" in shown


@pytest.mark.parametrize("kind", KINDS)
def test_settings_say_what_they_mean_and_count(kind: AnyKind) -> None:
    """Numbers have a unit, sentences speak of keywords and not of flags, and nothing is left to be any type."""
    for declaration in kind.declarations:
        keywords = keywords_of([declaration], Imports(), kind, ("seed", "threads"))
        for name, entry in settings_of(declaration, python=True).items():
            found = keywords[name]
            if entry.item in (int, float):
                assert found.unit, f"{declaration.__name__}.{name} counts something: give it setting(…, unit=…)"
            assert "--" not in found.meaning, f"{declaration.__name__}.{name}: give it setting(…, meaning=…)"
            assert found.meaning.endswith(".")
            assert "Any" not in found.types, f"{declaration.__name__}.{name}: give it a hint"
    for axis in axes_of(kind, Imports()).values():
        assert axis.unit


def test_what_is_no_setting_is_refused() -> None:
    with pytest.raises(partita.InputError, match="seed is not declared as a setting"):
        keywords_of([KINDS[0].options], Imports(), KINDS[0], ())


@pytest.mark.parametrize(
    ("keywords", "method"), [(using.SimulationKeywords, Answer.simulate), (using.RunKeywords, Answer.run)]
)
def test_functions_of_answers_take_what_its_methods_take(keywords: type, method: Callable[..., Any]) -> None:
    taken = {one.name: one.annotation for one in inspect.signature(method).parameters.values() if one.name != "self"}
    assert {name: given.__forward_arg__.replace("'", '"') for name, given in keywords.__annotations__.items()} == {
        name: annotation.replace("'", '"') for name, annotation in taken.items()
    }


def test_asking_for_help_loads_no_heavy_library() -> None:
    """And the package itself nothing at all."""
    code = (
        "import sys, partita\n"
        "heavy = {'torch', 'numba', 'matplotlib', 'highspy', 'ortools', 'onnx', 'transformers', 'pandas'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
        "partita.plan.__doc__, partita.solve.__doc__, partita.sweep.__doc__\n"
        "print(sorted(heavy & set(sys.modules) - {'numba'}))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["[]", "[]"]


def test_the_command_writes_the_files(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "FOLDER", tmp_path)
    writer.main()
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        path.name: path.read_text() for path in FOLDER.glob("*.py") if path.name != "__init__.py"
    }


@pytest.mark.parametrize("function", WITH_SETTINGS)
def test_signatures_list_every_setting(function: Function) -> None:
    """For what completes keywords of a function that is there, as notebooks do."""
    public = getattr(partita, function.name)
    *given, rest = inspect.signature(public).parameters.values()
    assert rest.kind is inspect.Parameter.VAR_KEYWORD
    assert {one.name for one in given} > explicit(function)
    for each in typing.get_overloads(public):
        name = inspect.signature(each).parameters["settings"].annotation.removeprefix("Unpack[").removesuffix("]")
        assert {one.name for one in given} >= vars(sys.modules[public.__module__])[name].__annotations__.keys()
