"""Command-line flags, in groups; those of problems are made from their declarations of settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import click
import msgspec

from partita.errors import InputError
from partita.problems import kinds
from partita.problems.kind import AnyKind
from partita.problems.settings import Setting, flags_of, settings_of

Command = TypeVar("Command", bound=Callable[..., Any])

#: Titles of the groups on a help page, in order; a problem's own group comes before the last one.
GROUPS = {
    "model": "Model",
    "machine": "Machine",
    "training": "Training",
    "problem": "Problem",
    "grid": "Grid",
    "search": "Search",
    "output": "Output",
}

#: What parameters made from settings begin with, so that they are no other parameter's.
PREFIX, AXIS = "setting_", "axis_"


class Positive(click.ParamType[float]):
    """A number above zero; ``inf`` only where it is allowed."""

    name = "number"

    def __init__(self, *, allow_inf: bool = False, allow_zero: bool = False) -> None:
        self.allow_inf = allow_inf
        self.allow_zero = allow_zero

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read the number."""
        try:
            number = float(value)
        except ValueError:
            self.fail(f"{value!r} is not a number", param, ctx)
        low_enough = number > 0 or (self.allow_zero and number == 0)
        if not low_enough or (number == float("inf") and not self.allow_inf):
            self.fail(f"{value} is out of range; give a {'' if self.allow_zero else 'positive '}number", param, ctx)
        return number


positive = Positive()


class _GroupedOption(click.Option):
    """An option that says which group of the help page it is in."""

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


def grouped(group: str, *options: tuple[tuple[str, ...], dict[str, Any]]) -> Callable[[Command], Command]:
    """Options of one group: the names of each, and the details that ``click.option`` takes."""

    def add(command: Command) -> Command:
        for names, details in reversed(options):
            command = click.option(*names, cls=_GroupedOption, group=group, **details)(command)
        return command

    return add


def setting_flags(
    declarations: Iterable[tuple[str, Iterable[type[msgspec.Struct]]]],
    but: Collection[str] = (),
    *,
    stated: bool = True,
) -> Callable[[Command], Command]:
    """A flag for every setting of some problems.

    Parameters
    ----------
    declarations
        (Title of the problem's own group, its declarations) for each problem. A flag that several have is listed once,
        with what it means for each.
    but
        Flags that the command has for something else.
    stated
        Whether the command takes stated problems: otherwise flags that are for these only are left out.
    """
    found: dict[str, tuple[Setting, str]] = {}
    for title, structures in declarations:
        for flag, entry in flags_of(structures).items():
            if flag in but or (entry.stated and not stated):
                continue
            first, group = found.setdefault(flag, (entry, entry.group or title))
            if entry.help not in first.help:
                found[flag] = dataclasses.replace(first, help=f"{first.help} {title}: {entry.help}"), group

    def add(command: Command) -> Command:
        for flag, (entry, group) in reversed(found.items()):
            command = _option(flag, entry, group)(command)
        return command

    return add


def _option(flag: str, entry: Setting, group: str, prefix: str = PREFIX) -> Callable[[Command], Command]:
    details: dict[str, Any] = {"is_flag": True, "default": False} if entry.is_switch else {"default": None, "type": str}
    text = entry.help
    if not entry.is_switch:
        details["metavar"] = entry.metavar or (f"[{'|'.join(entry.choices)}]" if entry.choices else "VALUE")
        if entry.default not in (None, ()):
            text += f"  [default: {entry.default}]"
    name = prefix + flag.lstrip("-").replace("-", "_")
    return click.option(flag, name, cls=_GroupedOption, group=group, help=text, **details)


def axis_settings() -> dict[str, Setting]:
    """By flag, every axis along which some problem can be swept."""
    return {axis.setting.flag: axis.setting for kind in kinds() for axis in kind.sweep.axes}


def sweep_flags(command: Command) -> Command:
    """A flag for every axis."""
    for flag, entry in reversed(axis_settings().items()):
        command = _option(flag, entry, "grid", AXIS)(command)
    return command


def take_axes(parameters: dict[str, Any]) -> dict[str, Any]:
    """Take the axes that were given out of a command's parameters: values by flag.

    Raises
    ------
    InputError
        If a value has no meaning.
    """
    known = axis_settings()
    texts = {_flag(name, AXIS): parameters.pop(name) for name in list(parameters) if name.startswith(AXIS)}
    return {flag: known[flag].parse(text) for flag, text in texts.items() if text is not None}


def axes_of(kind: AnyKind, given: Mapping[str, Any]) -> dict[str, Any]:
    """A problem's values by axis, from those by flag.

    Raises
    ------
    InputError
        If it cannot be swept along one of them.
    """
    axes = {axis.setting.flag: axis.name for axis in kind.sweep.axes}
    for flag in given:
        if flag not in axes:
            raise InputError(f"{kind.name} problems cannot be swept along {flag}, but along {', '.join(axes)}")
    return {name: given[flag] for flag, name in axes.items() if flag in given}


def _flag(name: str, prefix: str) -> str:
    return "--" + name.removeprefix(prefix).replace("_", "-")


def take_flags(parameters: dict[str, Any], only: Collection[str] | None = None) -> dict[str, Any]:
    """Take settings that were given out of a command's parameters: texts, or True for switches, by flag."""
    names = [name for name in parameters if name.startswith(PREFIX) and (only is None or _flag(name, PREFIX) in only)]
    values = {_flag(name, PREFIX): parameters.pop(name) for name in names}
    return {flag: value for flag, value in values.items() if value not in (None, False)}


def read_flags(
    kind: AnyKind,
    given: Mapping[str, Any],
    declarations: Sequence[type[msgspec.Struct]],
    others: Mapping[str, Iterable[type[msgspec.Struct]]],
    *,
    what: str,
    model: bool,
) -> list[dict[str, Any]]:
    """The values of flags, by declaration: the first that has a flag gets it.

    Parameters
    ----------
    kind
        The problem.
    given
        What ``take_flags`` returns.
    declarations
        Of this problem.
    others
        By what to say instead (``--objective throughput``), the declarations of other problems.
    what
        What the flags are for, in a message: ``a plan with objective hybrid``.
    model
        Whether a model is planned: flags that only a stated problem has are refused.

    Raises
    ------
    InputError
        If the problem does not know a flag, or its value has no meaning.
    """
    found: list[dict[str, Any]] = [{} for _ in declarations]
    for flag, text in given.items():
        place, entry = next(
            (
                (place, entry)
                for place, declaration in enumerate(declarations)
                for entry in settings_of(declaration).values()
                if entry.flag == flag
            ),
            (0, None),
        )
        if entry is None:
            if any(text == str(foreign.default) for foreign in _everywhere(flag)):
                # What is so anyway where the flag means something.
                continue
            knows = [instead for instead, known in others.items() if flag in flags_of(known)]
            hint = f"add {' or '.join(knows)}, or leave it out" if knows else "leave it out"
            raise InputError(f"{flag} means nothing for {what}; {hint}")
        if model and entry.stated:
            raise InputError(f"{flag} changes a stated problem, and {what} is made from a model; leave it out")
        found[place][entry.name] = (not entry.inverted) if entry.is_switch else entry.parse(str(text))
    return found


def _everywhere(flag: str) -> list[Setting]:
    """The settings of all problems that have a flag."""
    declarations = [[kind.options, kind.changes, *([kind.model.pricing] if kind.model else [])] for kind in kinds()]
    return [found[flag] for found in map(flags_of, declarations) if flag in found]
