"""Writes the public functions with a signature for every objective and problem: ``python -m partita.api.generate``.

A function with settings (``partita.api.planning.plan`` …) takes those of any problem. What users call is the same with
overloads, one for each objective or problem, whose settings are a ``TypedDict`` made from the declarations, and with
all of them in its docstring. These files are in ``partita.api.typed``; a test holds them equal to what this writes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Literal

import msgspec

from partita.api import comparing, judging, planning, solving, sweeping
from partita.api.keywords import (
    WIDTH,
    Imports,
    Keyword,
    annotated,
    attribute_doc,
    axes_of,
    keywords_of,
    merged,
    sections,
)
from partita.api.signatures import Argument, import_lines, read_source, signature_text, types_of
from partita.api.tracing import Tracing
from partita.conductor.place import placing_facet
from partita.engines.search.result import PlanEvaluation
from partita.problems import PROBLEMS, find_kind, importers
from partita.problems.kind import AnyKind, Stated

#: Where the files are.
FOLDER = Path(__file__).parent / "typed"
#: How they are made again.
COMMAND = "make signatures"

#: Parameters that are of a model, and of a file that states a problem.
OF_MODEL = {"cluster", "objective", *(field.name for field in dataclasses.fields(Tracing))}
OF_FILE = {"format", "kind", "scale_communication"}


@dataclass(frozen=True)
class Function:
    """A public function with settings: where it is, what it plans, and what of a problem its settings are of."""

    name: str
    module: ModuleType
    takes: Literal["model", "problem", "either", "placing", "plan", "file"]
    pricing_only: bool = False  #: Whether nothing is searched.
    axes: bool = False  #: Whether it takes lists of values.

    @property
    def title(self) -> str:
        """In names of classes."""
        return self.name.title().replace("_", "")


FUNCTIONS = (
    Function("plan", planning, "model"),
    Function("price", planning, "model", pricing_only=True),
    Function("solve", solving, "problem"),
    Function("map_stages", solving, "placing"),
    Function("compare", comparing, "either"),
    Function("sweep", sweeping, "either", axes=True),
    Function("evaluate", judging, "plan"),
    Function("read_problem", importers, "file"),
)


@dataclass(frozen=True)
class Overload:
    """One overload: its parameters, the ``TypedDict`` of the rest, and what it returns."""

    parameters: Sequence[Argument]
    settings: str  #: Empty for none.
    returns: str


class Writer:
    """One generated file."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.imports = Imports()
        self.source = read_source(function.module, function.name, self.imports)
        self.explicit = {one.name for one in self.source.parameters}
        self.kinds = [find_kind(name) for name in PROBLEMS]
        self.classes: list[str] = []
        self.variants: list[Overload] = []
        self.help: list[tuple[str, Mapping[str, Keyword]]] = []
        self.unions: dict[str, list[str]] = {}

    def settings_of(self, kind: AnyKind, *, model: bool) -> dict[str, Keyword]:
        """The settings of a function for a kind of problem, as keywords."""
        declarations: list[type[msgspec.Struct]] = [] if self.function.pricing_only else [kind.options]
        if model and kind.model is not None:
            declarations.append(kind.model.pricing)
        axes = axes_of(kind, self.imports) if self.function.axes else {}
        all_axes = {axis.name for one in self.kinds for axis in one.sweep.axes} if self.function.axes else ()
        # What a search is asked for beside its settings has a parameter of its own, or is no matter of pricing.
        but = {*self.explicit, *all_axes}
        return axes | keywords_of([*declarations, kind.changes], self.imports, kind, but)

    def returned(self, kind: AnyKind | None) -> str:
        """What is returned for a kind of problem, None for any; and what all return, for the union of these."""
        if self.source.returns:
            return self.source.returns
        if self.function.pricing_only:
            return self.imports.add_type(Stated if kind is None else kind.problem)
        parts = ["Stated", "object", "PlanEvaluation"] if kind is None else types_of(kind, self.imports)
        if kind is None:
            self.imports.add_type(Stated)
            self.imports.add_type(PlanEvaluation)
        return f"{self.imports.add('partita.api.answer', 'Answer')}[{', '.join(parts)}]"

    def union(self, kinds: Sequence[AnyKind]) -> str:
        """What is returned for one of some kinds of problems."""
        if self.source.returns:
            return self.source.returns
        self.imports.add("typing", "TypeAlias")
        name = f"{self.function.title}Returned"
        self.unions[name] = list(dict.fromkeys(self.returned(kind) for kind in kinds))
        return name

    def typed_dict(self, name: str, base: str, about: str, keywords: Mapping[str, Keyword], *, said: bool) -> str:
        """A class of settings; its name."""
        lines = [f"class {name}({base}, total=False):", f'    """{about}"""', ""]
        for entry in keywords.values():
            lines += annotated(entry.name, entry.types)
            if said:
                lines += attribute_doc(entry.sentence)
        self.classes.append("\n".join(lines))
        return name

    def common(self, name: str, about: str, but: Iterable[str]) -> str:
        """A class of the parameters that are given by name, but for some."""
        left_out = set(but)
        kept = [one for one in self.source.parameters if one.named and one.name not in left_out]
        entries = {one.name: Keyword(one.name, tuple(one.type.split(" | ")), "", "", "") for one in kept}
        return self.typed_dict(name, "TypedDict", about, entries, said=False)

    def variant(self, settings: str, returns: str, but: Iterable[str] = (), **types: str) -> None:
        """One more overload: the parameters that are given by place, and those of some types."""
        kept = [one for one in self.source.taking(but, **types) if not one.named or one.name in types]
        self.variants.append(Overload(kept, settings, returns))

    def fill_plain(self) -> None:
        """Overloads of what has no settings: by problem and plan, or by the name of the problem that a file states."""
        (first, *_), stated = self.source.parameters, self.imports.add_type(Stated)
        for kind in self.kinds:
            problem = self.imports.add_type(kind.problem)
            if self.function.takes == "file":
                literal = f'{self.imports.add("typing", "Literal")}["{kind.name}"]'
                parts = [
                    dataclasses.replace(one, type=literal, default="", named=True) if one.name == "problem" else one
                    for one in self.source.parameters
                ]
                self.variants.append(Overload(parts, "", problem))
                continue
            _, plan, evaluation = types_of(kind, self.imports)
            result = self.imports.add("partita.engines.search.result", "Result")
            of_plan = f"{plan} | {result}[{problem}, {plan}, {evaluation}] | str | Path"
            self.variants.append(Overload(self.source.taking(**{first.name: problem, "plan": of_plan}), "", evaluation))
        if self.function.takes == "file":
            self.variants.append(Overload(self.source.parameters, "", stated))
        else:
            self.variants.append(Overload(self.source.parameters, "", self.imports.add_type(PlanEvaluation)))

    def fill(self) -> None:
        """Classes and overloads."""
        function, takes, first = self.function, self.function.takes, self.source.parameters[0].name
        title = function.title
        modelled = [kind for kind in self.kinds if kind.model is not None]
        if takes == "placing":
            kind = find_kind(placing_facet().kind.name)
            own = self.settings_of(kind, model=False)
            self.help.append(("Settings", own))
            self.typed_dict(f"{title}Settings", "TypedDict", f"What ``{self.function.name}`` takes.", own, said=True)
            return
        every: list[Mapping[str, Keyword]] = []
        model_type = self.imports.add("partita.api.arguments", "Model") if takes == "either" else ""
        of_model = {first: model_type} if model_type else {}
        no_file = OF_FILE if takes == "either" else set()
        if takes != "problem":
            common = self.common(f"{title}Keywords", "What it takes of any model.", {"objective", *no_file})
            for kind in modelled:
                own = self.settings_of(kind, model=True)
                every.append(own)
                about = f'Of a model that is planned with objective "{kind.objective}".'
                self.help.append((f"Settings with objective {kind.objective}", own))
                name = self.typed_dict(
                    f"{kind.objective.title().replace('-', '')}{title}Settings", common, about, own, said=True
                )
                objective = f'{self.imports.add("typing", "Literal")}["{kind.objective}"]'
                self.variant(name, self.returned(kind), **of_model, objective=objective)
        stated: list[tuple[AnyKind, str]] = []
        if takes != "model":
            common = self.common(f"{title}ProblemKeywords", "What it takes of any problem.", OF_MODEL | OF_FILE)
            for kind in self.kinds:
                own = self.settings_of(kind, model=False)
                every.append(own)
                self.help.append((f"Settings of {kind.name} problems", own))
                name = f"{kind.name.title()}{'Problem' if takes == 'either' else ''}{title}Settings"
                stated.append((kind, self.typed_dict(name, common, f"Of {kind.name} problems.", own, said=True)))
        own = merged(every)
        self.typed_dict(f"Any{title}Settings", "TypedDict", "Of whatever it is.", own, said=False)
        keywords = self.common(f"{title}AnyKeywords", "What it takes of whatever it is.", {"objective"})
        anything = f"{title}Settings"
        self.classes.append(
            f"class {anything}({keywords}, Any{title}Settings, total=False):\n"
            f'    """Of what is known when it is read: a {"file" if takes == "problem" else "model"}."""'
        )
        if function.pricing_only:
            # Without an objective, it is the first of the list.
            first_of_all = self.variants[0]
            self.variant(first_of_all.settings, first_of_all.returns, objective="None")
        elif takes != "problem":
            union = self.union(self.kinds if takes != "model" else modelled)
            self.variant(anything, union, **of_model, objective="None")
        for kind, name in stated:
            problem = self.imports.add_type(kind.problem)
            self.variant(name, self.returned(kind), OF_MODEL, **{first: problem})
        if takes == "problem":
            path = self.imports.add("pathlib", "Path")
            self.variant(anything, self.union(self.kinds), **{first: f"str | {path}"})
        # Problems from elsewhere, by name or by value, whose settings are not known here.
        if takes != "problem":
            self.variant(keywords, self.returned(None), **of_model, objective="str")
        if takes != "model":
            self.variant(common, self.returned(None), OF_MODEL, **{first: self.imports.add_type(Stated)})

    def text(self) -> str:
        """The whole file."""
        plain = self.function.takes in ("plan", "file")
        if plain:
            self.fill_plain()
        else:
            self.imports.add("typing", "TypedDict")
            self.imports.add("typing", "Unpack")
            self.fill()
        function, source = self.function, self.source
        own = f"{function.title}Settings" if function.takes == "placing" else f"Any{function.title}Settings"
        if plain:
            returns, own = self.variants[-1].returns, ""
        else:
            self.imports.add("partita.api.listing", "listed")
            returns = self.returned(find_kind(placing_facet().kind.name) if function.takes == "placing" else None)
        whole = signature_text(function.name, source.parameters, own, returns, "")
        if self.variants:
            self.imports.add("typing", "overload")
        overloads = [
            "\n".join(["@overload", signature_text(function.name, one.parameters, one.settings, one.returns, " ...")])
            for one in self.variants
        ]
        doc = [*source.doc.splitlines(), *self.help_lines()]
        body = "\n".join(['    """' + doc[0], *(f"    {line}".rstrip() for line in doc[1:]), '    """'])
        home = function.module.__name__
        self.imports.add(home.rpartition(".")[0], home.rpartition(".")[2])
        given = [f"{one.name}={one.name}" if one.named else one.name for one in source.parameters]
        stored = function.takes == "file"
        call = [f"    {f'found: {returns} =' if stored else 'return'} {home.rpartition('.')[2]}.{function.name}("]
        call += [f"        {part}," for part in [*given, *([] if plain else ["**settings"])]]
        blocks = [
            *self.unions_text(),
            *self.classes,
            *overloads,
            "\n".join(
                [
                    *([f"@listed({own})"] if own else []),
                    whole,
                    body,
                    *call,
                    "    )",
                    *(["    return found"] if stored else []),
                ]
            ),
        ]
        header = (
            f'"""``{function.name}`` with a signature for every problem: written by ``{COMMAND}``, not by hand."""\n\n'
            "from __future__ import annotations\n\n"
        )
        # An alias stands closer to the imports than a class.
        gap = "\n" if self.unions else "\n\n"
        return header + import_lines(self.imports) + gap + "\n\n\n".join(blocks) + "\n"

    def unions_text(self) -> Iterator[str]:
        """Aliases of what is returned for one of several kinds."""
        for name, parts in self.unions.items():
            short = f"{name}: TypeAlias = {' | '.join(parts)}"
            yield short if len(short) <= WIDTH else f"{name}: TypeAlias = (\n    " + "\n    | ".join(parts) + "\n)"

    def help_lines(self) -> list[str]:
        """All settings, with meaning, unit and default, for the docstring."""
        if not self.help:
            return []
        shared = "Settings with every objective" if self.function.takes == "model" else "Settings of every problem"
        return [line for section in sections(self.help, shared) for line in section.lines()]


def generated() -> dict[Path, str]:
    """Every file that is written, by its path."""
    return {FOLDER / f"{function.name}.py": Writer(function).text() for function in FUNCTIONS}


def main() -> None:
    """Write them."""
    for path, text in generated().items():
        path.write_text(text)
        print(path)


if __name__ == "__main__":
    main()
