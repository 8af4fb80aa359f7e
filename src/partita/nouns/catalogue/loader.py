"""The catalogue: named devices and links, the shipped ones and those of the user."""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import msgspec

from partita.ground.errors import FormatError, InputError
from partita.ground.registry import Added, Shelf
from partita.ground.units import parse_bytes
from partita.nouns.catalogue.files import check_keys, converted, shipped_tables
from partita.nouns.catalogue.specs import DeviceSpec, LinkSpec

#: A device or a link.
S = TypeVar("S", bound=DeviceSpec | LinkSpec)


@dataclass(frozen=True)
class Catalogue:
    """Devices and links by their own name, and further names for them."""

    devices: dict[str, DeviceSpec]
    links: dict[str, LinkSpec]
    aliases: dict[str, str]  #: Normalised further name to own name, devices and links together.

    def device(self, name: str) -> DeviceSpec:
        """The device with a name; case, hyphens and underscores do not matter.

        A name that none has, or several do (``A100`` has two sizes), is an ``InputError``.
        """
        return self.devices[_resolve(name, self.devices, self.aliases, "device")]

    def link(self, name: str) -> LinkSpec:
        """The link with a name, found as devices are."""
        return self.links[_resolve(name, self.links, self.aliases, "link")]

    def extend(self, devices: Mapping[str, Any], links: Mapping[str, Any], where: str) -> Catalogue:
        """The catalogue with a user's tables, by name, added to its entries or overriding them.

        A table may be partial if it has ``base``, or if its name is in the catalogue, which then is its base. ``where``
        is the file, for messages.
        """
        own_links = dict(self.links)
        for name, table in links.items():
            own_links[name] = _merge(LinkSpec, name, table, self.link, own_links, f"{where}: links.{name}")
        extended = replace(self, links=own_links)
        own_devices = dict(self.devices)
        for name, table in devices.items():
            place = f"{where}: devices.{name}"
            spec = _merge(DeviceSpec, name, table, self.device, own_devices, place)
            # Links are named as people like; inside, a spec refers to them by their own name.
            own_devices[name] = msgspec.structs.replace(
                spec,
                link=_found(extended.link, spec.link, place),
                host_link=None if spec.host_link is None else _found(extended.link, spec.host_link, place),
            )
        return replace(extended, devices=own_devices)


@functools.cache
def _shipped() -> Catalogue:
    """The shipped catalogue, read once."""
    aliases: dict[str, str] = {}
    devices = {entry.name: entry for entry in _entries("devices", DeviceSpec, aliases)}
    links = {entry.name: entry for entry in _entries("links", LinkSpec, aliases)}
    return Catalogue(devices=devices, links=links, aliases=aliases)


def _entries(kind: str, spec: type[Any], aliases: dict[str, str]) -> list[Any]:
    result = []
    for table in shipped_tables(kind):
        for alias in table.pop("aliases", ()):
            aliases[_normal(alias)] = table["name"]
        result.append(msgspec.convert(table, spec, strict=False))
    return result


class _Specs(Shelf[S]):
    """Devices or links, which the short form of a cluster names."""

    def named(self, component: S) -> Iterable[str]:
        return [_normal(component.name)]

    def refusal(self, one: Added, before: Iterable[S] = ()) -> str:
        name = self.of(one).name
        if not re.fullmatch(r"(?!\d+[x×*])[\w.-]+", name, re.IGNORECASE):
            return f"{name!r} cannot be written in a cluster; use letters, digits, hyphens and dots"
        if _normal(name) in _shipped().aliases:
            return f"there already is a {self.sort} of that name, {_shipped().aliases[_normal(name)]}; use another"
        return super().refusal(one, before)


class _Devices(_Specs[DeviceSpec]):
    """Devices, whose links have to be there."""

    def unfit(self, component: DeviceSpec) -> str:
        known = replace(_shipped(), links={**_shipped().links, **{link.name: link for link in LINKS.added()}})
        for name in (component.link, component.to_host):
            try:
                if known.link(name).name != name:
                    return f"its link {name!r} is called {known.link(name).name!r} in the catalogue; write it so"
            except InputError as error:
                return f"{error}; register the link first"
        return ""


#: Those of the tables and those that were added.
LINKS = _Specs("link", LinkSpec, lambda: _shipped().links.values(), ("name",))
DEVICES = _Devices("device", DeviceSpec, lambda: _shipped().devices.values(), ("name",))


#: What was added when the catalogue was put together last, and that catalogue: it is asked for often.
_together: tuple[Any, Any, Catalogue] | None = None


def load_catalogue() -> Catalogue:
    """The shipped catalogue, and what was added to it."""
    global _together
    devices, links = DEVICES.added(), LINKS.added()
    if not devices and not links:
        return _shipped()
    kept = _together
    if kept is None or kept[0] is not devices or kept[1] is not links:
        found = _shipped()
        own = {**found.devices, **{spec.name: spec for spec in devices}}
        kept = devices, links, replace(found, devices=own, links={**found.links, **{spec.name: spec for spec in links}})
        _together = kept
    return kept[2]


def _found(look_up: Callable[[str], Any], name: str, where: str) -> str:
    try:
        return str(look_up(name).name)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _merge(
    spec: type[Any], name: str, table: Any, look_up: Callable[[str], Any], known: Mapping[str, Any], where: str
) -> Any:
    if not isinstance(table, Mapping):
        raise FormatError(f"{where} must be a table of values, not {type(table).__name__}")
    fields = [field.name for field in msgspec.structs.fields(spec) if field.name != "name"]
    check_keys(where, table, ["base", *fields])
    base = look_up(_found(look_up, str(table["base"]), where)) if "base" in table else known.get(name)
    values: dict[str, Any] = {} if base is None else {f: getattr(base, f) for f in fields}
    values.update((key, _bytes(f"{where}: {key}", key, value)) for key, value in table.items() if key != "base")
    if base is not None and "peak_flops" in table and isinstance(table["peak_flops"], Mapping):
        values["peak_flops"] = {**base.peak_flops, **table["peak_flops"]}
    if base is not None and "source" not in table:
        values["source"] = f"{base.name} with changes" if table.keys() - {"base"} else base.source
    missing = [f.name for f in msgspec.structs.fields(spec) if f.required and f.name not in values and f.name != "name"]
    if missing:
        raise InputError(f"{where}: {', '.join(missing)} missing; state them, or name a catalogue entry as base")
    return converted(where, {**values, "name": name}, spec, strict=False)


def _bytes(where: str, key: str, value: Any) -> Any:
    """The value of a key, of which texts such as ``80GiB`` are read where it is a number of bytes."""
    if not (isinstance(value, str) and key in ("memory_bytes", "reserved_bytes")):
        return value
    try:
        return int(parse_bytes(value))
    except (ValueError, OverflowError):
        raise FormatError(f"{where} {value!r} is no number of bytes; write for example 80GB, 80GiB or 80e9") from None


def _normal(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "").replace(" ", "")


def _resolve(name: str, known: Iterable[str], aliases: Mapping[str, str], kind: str) -> str:
    names = list(known)
    # A user's own entry may differ from another only in what normalisation drops: the exact name wins.
    if name in names:
        return name
    wanted = _normal(name)
    exact = [n for n in names if _normal(n) == wanted]
    if len(exact) == 1:
        return exact[0]
    if not exact and aliases.get(wanted) in names:
        return aliases[wanted]
    parts = name.lower().split("-")
    matches = exact or [n for n in names if n.lower().split("-")[: len(parts)] == parts]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise InputError(f"{kind} {name!r} is ambiguous: write {' or '.join(matches)}")
    close = difflib.get_close_matches(wanted, [_normal(n) for n in names], n=3, cutoff=0.5)
    near = [n for n in names if _normal(n) in close]
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    raise InputError(f"there is no {kind} {name!r}; {hint}known {kind}s: {', '.join(names)}")
