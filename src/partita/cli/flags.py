"""Command-line flags, in groups; those of problems are made from their declarations of settings.

What the problem at hand does not know, or has no meaning, raises ``InputError``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import click
import msgspec

from partita.ground.errors import InputError
from partita.problems import kinds
from partita.problems.kind import MOST_SEED, AnyKind
from partita.problems.settings import Setting, flags_of

Command = TypeVar("Command", bound=Callable[..., Any])
Declarations = Iterable[type[msgspec.Struct]]

#: Titles of the groups on a help page, in order; a problem's own group comes before the last one.
GROUPS = {
    "model": "Model",
    "machine": "Machine",
    "training": "Training",
    "problem": "Problem",
    "schedule": "Schedule",
    "grid": "Grid",
    "search": "Search",
    "output": "Output",
}

#: What parameters made from settings begin with, so that they are no other parameter's.
PREFIX = "setting_"


class Positive(click.ParamType[float]):
    """A finite number above zero."""

    name = "number"

    def __init__(self, *, allow_zero: bool = False) -> None:
        self.allow_zero = allow_zero

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read the number."""
        try:
            number = float(value)
        except ValueError:
            self.fail(f"{value!r} is not a number", param, ctx)
        if not (0 < number < float("inf") or (self.allow_zero and number == 0)):
            self.fail(f"{value} is out of range; give a {'' if self.allow_zero else 'positive '}number", param, ctx)
        return number


class Whole(click.IntRange):
    """A whole number, in a range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read the number."""
        try:
            number = int(value)
        except ValueError:
            self.fail(f"{value!r} is not a whole number", param, ctx)
        limits = {"of at least": self.min, "at most": self.max}
        low = self.min is not None and number < self.min
        if low or (self.max is not None and number > self.max):
            wanted = " and ".join(f"{words} {limit}" for words, limit in limits.items() if limit is not None)
            self.fail(f"{value} is out of range; give a whole number {wanted}", param, ctx)
        return number


class _GroupedOption(click.Option):
    def __init__(self, *arguments: Any, group: str = "", **details: Any) -> None:
        self.group = group
        super().__init__(*arguments, **details)


class GroupedCommand(click.Command):
    """A command whose help page lists options in groups."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write every group that has options."""
        rows: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
            if record is not None:
                rows.setdefault(getattr(parameter, "group", ""), []).append(record)
        general = rows.pop("", [])
        output = rows.pop("output", [])
        for group in sorted(rows, key=lambda name: list(GROUPS).index(name) if name in GROUPS else len(GROUPS)):
            with formatter.section(GROUPS.get(group, group)):
                formatter.write_dl(rows[group])
        with formatter.section(GROUPS["output"]):
            formatter.write_dl([*output, *general])


def option(group: str, *names: str, **details: Any) -> Callable[[Command], Command]:
    """An option in a group of the help page, which says its default; details are those of ``click.option``."""
    return click.option(*names, cls=_GroupedOption, group=group, **{"show_default": "default" in details, **details})


def subcommand(
    *options: Callable[[Any], Any], **details: Any
) -> Callable[[Callable[..., Any]], Callable[[], click.Command]]:
    """What makes a command of a function and its options; details, such as a name, are those of ``click.command``.

    Options are made with the command, when that is asked for: there may be more problems by then.
    """

    def wrap(run: Callable[..., Any]) -> Callable[[], click.Command]:
        return lambda: click.command(cls=GroupedCommand, **{"name": run.__name__, **details})(together(*options)(run))

    return wrap


def together(*options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Several options as one decorator, in the order of the help page."""

    def add(command: Command) -> Command:
        for entry in reversed(options):
            command = entry(command)
        return command

    return add


seed_type = Whole(0, MOST_SEED)
time_limit_option = option("search", "--time-limit", "time_limit_s", type=Positive(), default=60.0, help="Seconds.")
problem_option = option(
    "problem",
    "--problem",
    "problem_file",
    type=click.Path(),
    metavar="P.json",
    help="The problem that the result is of, if the result file does not hold it.",
)

json_option = option("output", "--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")


def path_option(*names: str, metavar: str, help: str, required: bool = False) -> Callable[[Command], Command]:
    """The path of a file to write."""
    return option("output", *names, type=click.Path(), metavar=metavar, help=help, required=required)


def setting_flags(
    declarations: Iterable[tuple[AnyKind, Declarations]], but: Collection[str] = (), *, stated: bool = True
) -> Callable[[Command], Command]:
    """A flag for every setting of some problems, given with their declarations, but for some that the command has.

    A flag that several problems have is listed once. Without ``stated`` the command takes no stated problems, and
    flags that are for these only are left out.
    """
    found: dict[str, dict[str, Setting]] = {}
    for kind, structures in declarations:
        for flag, entry in flags_of(structures).items():
            if flag not in but and (stated or not entry.stated):
                found.setdefault(flag, {})[kind.name] = entry
    return together(*(_flag(flag, entries) for flag, entries in found.items()))


def _flag(flag: str, entries: Mapping[str, Setting], group: str = "") -> Callable[[Command], Command]:
    """A flag, from the setting that it is of each problem; problems that mean different things by it are told apart."""
    owner, first = next(iter(entries.items()))
    meanings: dict[tuple[str, str], list[str]] = {}
    for whose, entry in entries.items():
        values = entry.metavar or (f"[{'|'.join(entry.choices)}]" if entry.choices else "VALUE")
        default = "" if entry.is_switch or entry.default in (None, ()) else f"  [default: {entry.default}]"
        meanings.setdefault((values, entry.help + default), []).append(whose)
    metavars = {values for values, _ in meanings}
    said = [text for _, text in meanings]
    if len(said) > 1:
        several = len(metavars) > 1
        said = [
            f"{', '.join(whose).capitalize()} problems{f' ({values})' if several else ''}: {text}"
            for (values, text), whose in meanings.items()
        ]
    details: dict[str, Any] = {"help": " ".join(said)}
    if first.is_switch:
        details |= {"is_flag": True, "default": False}
    else:
        details |= {"type": str, "default": None, "metavar": metavars.pop() if len(metavars) == 1 else "VALUE"}
    return option(
        group or first.group or f"{owner.capitalize()} problems",
        flag,
        PREFIX + flag.lstrip("-").replace("-", "_"),
        **details,
    )


def axis_settings() -> dict[str, Setting]:
    """By flag, every axis along which some problem can be swept."""
    return {axis.setting.flag: axis.setting for kind in kinds() for axis in kind.sweep.axes}


def axis_flags(command: Command) -> Command:
    """A flag for every axis."""
    return together(*(_flag(flag, {"": entry}, "grid") for flag, entry in axis_settings().items()))(command)


def take_axes(parameters: dict[str, Any]) -> dict[str, Any]:
    """Take the axes that were given out of a command's parameters: values by flag."""
    known = axis_settings()
    return {flag: known[flag].parse(text) for flag, text in take_flags(parameters, known).items()}


def axes_of(kind: AnyKind, given: Mapping[str, Any]) -> dict[str, Any]:
    """A problem's values by axis, from those by flag."""
    axes = {axis.setting.flag: axis.name for axis in kind.sweep.axes}
    for flag in given:
        if flag not in axes:
            raise InputError(f"{kind.name} problems cannot be swept along {flag}, but along {', '.join(axes)}")
    return {name: given[flag] for flag, name in axes.items() if flag in given}


def take_flags(parameters: dict[str, Any], only: Collection[str] | None = None) -> dict[str, Any]:
    """Take settings that were given out of a command's parameters: texts, or True for switches, by flag."""
    flags = {name: "--" + name.removeprefix(PREFIX).replace("_", "-") for name in parameters if name.startswith(PREFIX)}
    values = {flag: parameters.pop(name) for name, flag in flags.items() if only is None or flag in only}
    return {flag: value for flag, value in values.items() if value not in (None, False)}


def read_flags(
    given: Mapping[str, Any],
    declarations: Sequence[type[msgspec.Struct]],
    what: str,
    *,
    others: Mapping[str, Declarations] | None = None,
) -> list[dict[str, Any]]:
    """The values of flags, as ``take_flags`` returns them, by declaration: the first that has a flag gets it.

    ``what`` the flags are for stands in messages: ``a plan with objective step``. Of a model, ``others`` has the
    declarations of other problems by what to say instead (``--objective NAME``), and flags that only a stated problem
    has are refused.
    """
    found: list[dict[str, Any]] = [{} for _ in declarations]
    known = [flags_of([declaration]) for declaration in declarations]
    for flag, text in given.items():
        place = next((place for place, flags in enumerate(known) if flag in flags), None)
        if place is None:
            # What a stated problem means by it goes before what its pricing does.
            elsewhere = [flags_of(reversed(kind.declarations)) for kind in kinds()]
            if any(flag in flags and text == str(flags[flag].default) for flags in elsewhere):
                # What is so anyway where the flag means something.
                continue
            knows = [instead for instead, structures in (others or {}).items() if flag in flags_of(structures)]
            hint = f"add {' or '.join(knows)}, or leave it out" if knows else "leave it out"
            raise InputError(f"{flag} means nothing for {what}; {hint}")
        entry = known[place][flag]
        if others is not None and entry.stated:
            raise InputError(f"{flag} changes a stated problem, and {what} is made from a model; leave it out")
        found[place][entry.name] = (not entry.inverted) if entry.is_switch else entry.parse(str(text))
    return found


class FlagSettings:
    """Flags as ``take_flags`` returns them, which are read once it is known whose settings they are.

    It is a ``partita.api.given.Given``.
    """

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.given = given

    def value(self, name: str) -> Any:
        """The text of a flag; None if it was not given."""
        return self.given.get("--" + name.replace("_", "-"))

    def of_model(self, kind: AnyKind) -> Sequence[dict[str, Any]]:
        """For a model that is planned as a problem: of its search, of its pricing, and changes of the priced one."""
        declarations = {each.objective: each.declarations for each in kinds() if each.model is not None}
        own = declarations.pop(kind.objective)
        others = {f"--objective {name}": structures for name, structures in declarations.items()}
        return read_flags(self.given, own, f"a plan with objective {kind.objective}", others=others)

    def of_stated(self, kind: AnyKind, what: str) -> Sequence[dict[str, Any]]:
        """For a stated problem, which messages call ``what``: of its search, and changes of it."""
        return read_flags(self.given, (kind.options, kind.changes), what)

    def training(self, kind: AnyKind) -> str | None:
        """The first that says nothing of inference, None for none."""
        known = flags_of(kind.declarations)
        return next((flag for flag, entry in known.items() if entry.training and flag in self.given), None)
