"""Settings as classes that the public functions share, so that each setting of a kind of problem is written once."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal, TypeAlias

import msgspec

from partita.api import comparing, judging, planning, solving, sweeping
from partita.api.search import Search
from partita.api.tracing import Tracing
from partita.problems import PROBLEMS, find_kind, importers
from partita.problems.kind import AnyKind
from signatures.keywords import Imports, Keyword, annotated, attribute_doc, axes_of, keywords_of, merged
from signatures.written import Argument, SourceSignature, call_text, import_lines, read_source

#: Where the shared classes are.
MODULE = "partita.api.typed.settings"

#: Parameters that several functions name themselves: the class of each group, what has them as fields, what they say.
GROUPS: Mapping[str, tuple[type[Any], str]] = {
    "SearchKeywords": (Search, "How everything is searched."),
    "TracingKeywords": (Tracing, "What a model is traced for."),
}


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

    @property
    def of_models(self) -> bool:
        """Whether it takes a model."""
        return self.takes in ("model", "either")

    @property
    def of_problems(self) -> bool:
        """Whether it takes any problem."""
        return self.takes in ("problem", "either")


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


def settings_of(
    function: Function, explicit: Iterable[str], kind: AnyKind, imports: Imports, *, model: bool
) -> dict[str, Keyword]:
    """The settings of a function for a kind of problem, as keywords, but for those that it names itself."""
    declarations: list[type[msgspec.Struct]] = [] if function.pricing_only else [kind.options]
    if model and kind.model is not None:
        declarations.append(kind.model.pricing)
    axes = axes_of(kind, imports) if function.axes else {}
    all_axes = {axis.name for name in PROBLEMS for axis in find_kind(name).sweep.axes} if function.axes else ()
    # What a search is asked for beside its settings has a parameter of its own, or is no matter of pricing.
    return axes | keywords_of([*declarations, kind.changes], imports, kind, {*explicit, *all_axes})


@dataclass(frozen=True)
class Use:
    """Where settings are taken: by a function, of a model or of a problem."""

    function: Function
    model: bool


#: One setting of a kind of problem, or of any kind (no name).
_Entry: TypeAlias = tuple[str, Keyword]


def _role(uses: Iterable[Use]) -> tuple[str, str]:
    """What settings are that are taken in some places: as part of a name, and in a sentence."""
    functions = {use.function for use in uses}
    models = {use.model for use in uses}
    swept = any(one.axes for one in functions)
    if swept and len(functions) == 1:
        return "Axes", "Along what {} problems are swept."
    if models == {True}:
        name, about = "Pricing", "Of a model that is priced as a {} problem."
    elif models == {False}:
        name, about = "Stated", "Of a stated {} problem."
    elif any(one.pricing_only for one in functions):
        name, about = "Changes", "What may be changed of {} problems."
    else:
        name, about = "Search", "Of a search for plans of {} problems."
    return (name, about) if swept else (f"{name}Value", f"{about[:-1]}: one value of what a sweep takes several of.")


class SharedSettings:
    """The shared classes: settings of a kind of problem that are taken in the same places make one of them."""

    def __init__(self) -> None:
        self.imports = Imports()
        self.imports.add("typing", "TypedDict")
        self.classes: dict[str, str] = {}
        kinds = [find_kind(name) for name in PROBLEMS]
        self.own: dict[tuple[Use, str], dict[str, Keyword]] = {}
        functions = [one for one in FUNCTIONS if one.of_models or one.of_problems]
        #: Names of the parameters of each group.
        self.groups: dict[str, set[str]] = {}
        for function in functions:
            homes = Imports()
            source = read_source(function.module, function.name, homes)
            self._of_parameters(source, homes)
            explicit = {one.name for one in source.parameters}
            for model in (True, False):
                if not (function.of_models if model else function.of_problems):
                    continue
                for kind in kinds:
                    if kind.model is not None or not model:
                        own = settings_of(function, explicit, kind, self.imports, model=model)
                        self.own[Use(function, model), kind.name] = own
        self._of_kinds(kinds)
        self._of_any(functions)

    def _of_parameters(self, source: SourceSignature, homes: Imports) -> None:
        """A class for each group of parameters that a function has, if there is none yet."""
        for name, (declared, about) in GROUPS.items():
            fields = {field.name for field in dataclasses.fields(declared)}
            own = [one for one in source.parameters if one.named and one.name in fields]
            if own and name not in self.groups:
                self.groups[name] = {one.name for one in own}
                self._add(name, about, {one.name: as_keyword(one) for one in own}, said=False)
                self.imports.homes |= homes.used_in(" ".join(one.type for one in own)).homes

    def _of_kinds(self, kinds: Sequence[AnyKind]) -> None:
        uses: dict[str, dict[Keyword, list[Use]]] = {kind.name: {} for kind in kinds}
        for (use, kind_name), own in self.own.items():
            for entry in own.values():
                uses[kind_name].setdefault(entry, []).append(use)
        modelled = [uses[kind.name] for kind in kinds if kind.model is not None]
        every = [entry for entry in modelled[0] if all(one.get(entry) == modelled[0][entry] for one in modelled)]
        #: The class of a setting of a kind of problem.
        self.of: dict[_Entry, str] = {}
        common = self._add("ModelPricingKeywords", "Of any model that is priced.", {one.name: one for one in every})
        #: Kinds by role and settings of a class: those that say the same share it.
        alike: dict[tuple[str, str, tuple[Keyword, ...]], list[AnyKind]] = {}
        for kind in kinds:
            grouped: dict[tuple[Use, ...], dict[str, Keyword]] = {}
            for entry, places in uses[kind.name].items():
                if entry in every and kind.model is not None:
                    self.of[kind.name, entry] = common
                else:
                    grouped.setdefault(tuple(places), {})[entry.name] = entry
            for taken, entries in grouped.items():
                alike.setdefault((*_role(taken), tuple(entries.values())), []).append(kind)
        for (role, about, held), sharing in alike.items():
            title, noun = sharing[0].name.title().replace("_", ""), sharing[0].name
            if len(sharing) > 1:
                title, noun = "Common", "several sorts of"
            name = self._add(f"{title}{role}Keywords", about.format(noun), {one.name: one for one in held})
            self.of |= {(kind.name, entry): name for kind in sharing for entry in held}

    def _of_any(self, functions: Sequence[Function]) -> None:
        uses: dict[tuple[str, str], tuple[Keyword, list[Function]]] = {}
        for function in functions:
            every = merged(own for (use, _), own in self.own.items() if use.function is function)
            for entry in every.values():
                uses.setdefault((entry.name, entry.type), (entry, []))[1].append(function)
        grouped: dict[tuple[Function, ...], dict[str, Keyword]] = {}
        for entry, users in uses.values():
            grouped.setdefault(tuple(users), {})[entry.name] = entry
        #: The classes of what functions take of whatever it is.
        self.of_any: dict[Function, list[str]] = {function: [] for function in functions}
        for taking, entries in grouped.items():
            about = f"What {' and '.join(one.name for one in taking)} take of whatever it is."
            if len(taking) == 1:
                about = about.replace(" take ", " alone takes ")
            name = self._add(f"AnyOf{''.join(one.title for one in taking)}", about, entries, said=False)
            for function in taking:
                self.of_any[function].append(name)

    def _add(self, name: str, about: str, entries: Mapping[str, Keyword], *, said: bool = True) -> str:
        assert name not in self.classes, f"two classes of settings are {name}"
        self.classes[name] = class_text(name, ["TypedDict"], about, entries, said=said)
        return name

    def taken(self, use: Use, kind: AnyKind) -> list[str]:
        """The classes that have the settings of a kind of problem, together."""
        return list(dict.fromkeys(self.of[kind.name, entry] for entry in self.own[use, kind.name].values()))

    def text(self) -> str:
        """The file that has them."""
        header = '"""Settings that the public functions share: written by ``make signatures``, not by hand."""\n\n'
        imports = f"from __future__ import annotations\n\n{import_lines(self.imports)}"
        return header + imports + "\n\n" + "\n\n\n".join(self.classes.values()) + "\n"


def as_keyword(parameter: Argument) -> Keyword:
    """A parameter as a keyword that says nothing of itself."""
    return Keyword(parameter.name, tuple(parameter.type.split(" | ")), "", "", "")


def class_text(name: str, bases: Sequence[str], about: str, entries: Mapping[str, Keyword], *, said: bool) -> str:
    """A class of settings."""
    lines = [call_text(f"class {name}(", [*bases, "total=False"], "):"), f'    """{about}"""']
    if entries:
        lines.append("")
    for entry in entries.values():
        lines += annotated(entry.name, entry.types)
        if said:
            lines += attribute_doc(entry.sentence)
    return "\n".join(lines)
