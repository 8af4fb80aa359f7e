"""The public functions with a signature for every objective and problem, as files: ``python -m signatures``.

A function with settings (``partita.api.planning.plan`` …) takes those of any problem. What users call is the same with
overloads, one for each objective or problem, whose settings are a ``TypedDict``: it derives from classes that all
functions share (``signatures.shared``), and the docstring is made from these (``partita.api.listing``). These files
are in ``partita.api.typed``; a test holds them equal to what this writes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from partita.api import typed
from partita.api.tracing import Tracing
from partita.conductor.place import placing_facet
from partita.engines.search.result import PlanEvaluation
from partita.problems import PROBLEMS, find_kind
from partita.problems.kind import AnyKind, Stated
from signatures.keywords import WIDTH, Imports, Keyword
from signatures.shared import FUNCTIONS, MODULE, Function, SharedSettings, Use, as_keyword, class_text, settings_of
from signatures.written import Argument, import_lines, read_source, signature_text, types_of

#: Where the files are.
FOLDER = Path(typed.__path__[0])
#: How they are made again.
COMMAND = "make signatures"

#: Parameters that are of a model, and of a file that states a problem.
OF_MODEL = {"cluster", "objective", *(field.name for field in dataclasses.fields(Tracing))}
OF_FILE = {"format", "kind", "scale_communication"}


@dataclass(frozen=True)
class Overload:
    """One overload: its parameters, the ``TypedDict`` of the rest, and what it returns."""

    parameters: Sequence[Argument]
    settings: str  #: Empty for none.
    returns: str


class Writer:
    """One generated file."""

    def __init__(self, function: Function, shared: SharedSettings) -> None:
        self.function = function
        self.shared = shared
        self.imports = Imports()
        self.source = read_source(function.module, function.name, self.imports)
        self.explicit = {one.name for one in self.source.parameters}
        self.kinds = [find_kind(name) for name in PROBLEMS]
        self.classes: list[str] = []
        #: Classes of parameters, by the names of these.
        self.named: dict[frozenset[str], str] = {}
        self.variants: list[Overload] = []
        #: Titles in help, and the classes of what is below them.
        self.help: dict[str, str] = {}
        self.unions: dict[str, list[str]] = {}

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

    def add_class(
        self, name: str, bases: Sequence[str], about: str, entries: Mapping[str, Keyword] | None = None
    ) -> str:
        """A class of settings; its name."""
        self.classes.append(class_text(name, bases, about, entries or {}, said=True))
        return name

    def taken(self, use: Use, kind: AnyKind) -> list[str]:
        """The shared classes of what is taken for a kind of problem."""
        return [self.from_shared(name) for name in self.shared.taken(use, kind)]

    def from_shared(self, name: str) -> str:
        """A shared class as it is called in the file."""
        folder, _, home = MODULE.rpartition(".")
        return f"{self.imports.add(folder, home)}.{name}"

    def common(self, name: str, about: str, but: Iterable[str]) -> str:
        """A class of the parameters that are given by name, but for some; one that has them already."""
        left_out = set(but)
        kept = [one for one in self.source.parameters if one.named and one.name not in left_out]
        names = frozenset(one.name for one in kept)
        if names in self.named:
            return self.named[names]
        bases = [group for group, own in self.shared.groups.items() if own <= names]
        rest = names - {name for group in bases for name in self.shared.groups[group]}
        entries = {one.name: as_keyword(one) for one in kept if one.name in rest}
        bases = [*map(self.from_shared, bases)] or [self.imports.add("typing", "TypedDict")]
        self.classes.append(class_text(name, bases, about, entries, said=False))
        self.named[names] = name
        return name

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
            own = settings_of(function, self.explicit, kind, self.imports, model=False)
            about = f"What ``{function.name}`` takes."
            self.help["Settings"] = self.add_class(
                f"{title}Settings", [self.imports.add("typing", "TypedDict")], about, own
            )
            return
        model_type = self.imports.add("partita.api.arguments", "Model") if takes == "either" else ""
        of_model = {first: model_type} if model_type else {}
        no_file = OF_FILE if takes == "either" else set()
        if takes != "problem":
            common = self.common(f"{title}Keywords", "What it takes of any model.", {"objective", *no_file})
            for kind in modelled:
                about = f'Of a model that is planned with objective "{kind.objective}".'
                name = f"{kind.objective.title().replace('-', '')}{title}Settings"
                self.add_class(name, [common, *self.taken(Use(function, True), kind)], about)
                self.help[f"Settings with objective {kind.objective}"] = name
                objective = f'{self.imports.add("typing", "Literal")}["{kind.objective}"]'
                self.variant(name, self.returned(kind), **of_model, objective=objective)
        stated: list[tuple[AnyKind, str]] = []
        if takes != "model":
            common = self.common(f"{title}ProblemKeywords", "What it takes of any problem.", OF_MODEL | OF_FILE)
            for kind in self.kinds:
                name = f"{kind.name.title()}{'Problem' if takes == 'either' else ''}{title}Settings"
                self.add_class(name, [common, *self.taken(Use(function, False), kind)], f"Of {kind.name} problems.")
                self.help[f"Settings of {kind.name} problems"] = name
                stated.append((kind, name))
        parts = [*map(self.from_shared, self.shared.of_any[function])]
        self.add_class(f"Any{title}Settings", parts, "Of whatever it is.")
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
            self.imports.add("typing", "Unpack")
            self.fill()
        name = self.function.name
        overloads = [
            f"@overload\n{signature_text(name, one.parameters, one.settings, one.returns, ' ...')}"
            for one in self.variants
        ]
        if overloads:
            self.imports.add("typing", "overload")
        blocks = [*self.unions_text(), *self.classes, *overloads, self.body_text(plain=plain)]
        header = (
            f'"""``{name}`` with a signature for every problem: written by ``{COMMAND}``, not by hand."""\n\n'
            "from __future__ import annotations\n\n"
        )
        # An alias stands closer to the imports than a class.
        gap, body = "\n" if self.unions else "\n\n", "\n\n\n".join(blocks)
        return header + import_lines(self.imports.used_in(body)) + gap + body + "\n"

    def unions_text(self) -> Iterator[str]:
        """Aliases of what is returned for one of several kinds."""
        for name, parts in self.unions.items():
            short = f"{name}: TypeAlias = {' | '.join(parts)}"
            yield short if len(short) <= WIDTH else f"{name}: TypeAlias = (\n    " + "\n    | ".join(parts) + "\n)"

    def body_text(self, *, plain: bool) -> str:
        """The function behind the overloads, which calls the one that is written; without any with its parameters."""
        function, source = self.function, self.source
        folder, _, home = function.module.__name__.rpartition(".")
        written = f"{self.imports.add(folder, home)}.{function.name}"
        doc = source.doc.splitlines()
        docstring = ['    """' + doc[0], *(f"    {line}".rstrip() for line in doc[1:]), '    """']
        if plain:
            self.imports.add("partita.api.listing", "calling")
            decorator = [f"@calling({written})"]
        else:
            self.imports.add("partita.api.listing", "listed")
            shared = "Settings with every objective" if function.takes == "model" else "Settings of every problem"
            own = f"{function.title}Settings" if function.takes == "placing" else f"Any{function.title}Settings"
            titled = [f'        "{title}": {name},' for title, name in self.help.items()]
            decorator = ["@listed(", f"    {own},", "    {", *titled, "    },", f'    "{shared}",']
            decorator += [f"    written={written},", ")"]
        if self.variants:
            whole = f"def {function.name}(*given: object, **named: object) -> object:"
            return "\n".join([*decorator, whole, *docstring])
        returns = self.returned(find_kind(placing_facet().kind.name))
        whole = signature_text(function.name, source.parameters, f"{function.title}Settings", returns, "")
        given = [f"{one.name}={one.name}" if one.named else one.name for one in source.parameters]
        call = [f"    return {written}(", *(f"        {part}," for part in [*given, "**settings"]), "    )"]
        return "\n".join([*decorator[:-2], decorator[-1], whole, *docstring, *call])


def generated() -> dict[Path, str]:
    """Every file that is written, by its path."""
    shared = SharedSettings()
    files = {FOLDER / f"{function.name}.py": Writer(function, shared).text() for function in FUNCTIONS}
    return {FOLDER / f"{MODULE.rpartition('.')[2]}.py": shared.text(), **files}


def main() -> None:
    """Write them."""
    for path, text in generated().items():
        path.write_text(text)
        print(path)
