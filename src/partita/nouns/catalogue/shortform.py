"""The short form of clusters: syntax only, names are looked up by the caller.

::

    CLUSTER  = MACHINES { "+" MACHINES } [ ":" LINK ]         machines joined by a network, and its link
    MACHINES = [ N "x" ] ( DEVICE | "(" DEVICES ")" ) [ "@" LINK ]
    DEVICES  = [ N "x" ] DEVICE { "+" [ N "x" ] DEVICE } [ "@" LINK ]

``8xA100-80GB`` is one machine of eight, ``2x(4xL4)`` two machines of four, ``2xA100-40GB+4xT4`` two machines,
``(2xA100-80GB+1xCPU)`` one machine with both.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import accumulate

from partita.ground.errors import InputError

#: More devices than this are taken for a slip of the keyboard.
MAX_DEVICES = 131_072

_COUNTED = re.compile(r"(\d+)[x×*](.+)", re.IGNORECASE)


@dataclass(frozen=True)
class MachineForm:
    """``count`` machines alike: their devices as (name, number) pairs, the link and the network cards if stated."""

    count: int
    devices: tuple[tuple[str, int], ...]
    link: str | None
    nics: int | None = None


def parse_short_form(text: str) -> tuple[tuple[MachineForm, ...], str | None]:
    """Read a cluster's short form: its machines, and the network's link if one is stated."""
    compact = "".join(text.split())
    if not compact:
        raise InputError('the cluster is empty; write for example "4xA100-80GB"')
    _check_parentheses(text, compact)
    body, colon, network = compact.partition(":")
    if colon and not network:
        raise InputError(f'cluster {text!r}: a link is missing after ":"; write for example ":ethernet-100g"')
    if ":" in network or "(" in network or "+" in network or "@" in network:
        raise InputError(f"cluster {text!r}: {network!r} is not a link; the network comes last, after all machines")
    machines = tuple(_machine(text, part) for part in _split(body))
    check_size(text, machines)
    return machines, network or None


def check_size(where: str, machines: tuple[MachineForm, ...]) -> None:
    """Refuse more than ``MAX_DEVICES`` devices, before memory is taken for them."""
    total = sum(machine.count * sum(n for _, n in machine.devices) for machine in machines)
    if total > MAX_DEVICES:
        raise InputError(f"cluster {where!r} has {total} devices; at most {MAX_DEVICES} are supported")


def parse_devices(text: str, where: str) -> tuple[tuple[tuple[str, int], ...], str | None]:
    """Read the devices of one machine, ``2xA100-80GB+1xCPU``: (name, number) pairs and the link if one is stated."""
    devices = []
    found: set[str] = set()
    for part in _split("".join(text.split())):
        if "(" in part or ")" in part:
            raise InputError(f"cluster {where!r}: {part!r} is inside a machine; a machine cannot hold machines")
        if ":" in part:
            raise InputError(f"cluster {where!r}: {part!r} is inside a machine; the network belongs to the cluster")
        item, link = _cut_link(where, part)
        count, name = _counted(where, item)
        devices.append((name, count))
        if link is not None:
            found.add(link)
    if len(found) > 1:
        raise InputError(f"cluster {where!r}: one machine has one link, not {' and '.join(sorted(found))}")
    return tuple(devices), next(iter(found), None)


def _check_parentheses(text: str, compact: str) -> None:
    depths = list(accumulate({"(": 1, ")": -1}.get(character, 0) for character in compact))
    if min(depths) < 0:
        raise InputError(f'cluster {text!r}: there is a ")" without a "("')
    if depths[-1]:
        raise InputError(f'cluster {text!r}: a "(" is never closed')


def _split(text: str) -> list[str]:
    """Parts between the "+" outside parentheses."""
    parts, depth = [""], 0
    for character in text:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "+" and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def _cut_link(text: str, part: str) -> tuple[str, str | None]:
    item, at, link = part.partition("@")
    if at and not link:
        raise InputError(f'cluster {text!r}: a link is missing after "@" in {part!r}')
    if "@" in link:
        raise InputError(f"cluster {text!r}: {part!r} states two links")
    return item, link if at else None


def _counted(text: str, item: str) -> tuple[int, str]:
    match = _COUNTED.fullmatch(item)
    if not match:
        if not item:
            raise InputError(f'cluster {text!r}: a device is missing beside a "+"')
        if item.isdigit() or re.fullmatch(r"\d+[x×*]", item, re.IGNORECASE):
            raise InputError(f"cluster {text!r}: {item!r} names no device; write for example {item.rstrip('x×*')}xL4")
        if re.match(r"-\d|[x×*]", item, re.IGNORECASE):
            raise InputError(f"cluster {text!r}: {item!r} does not begin with a count of at least 1")
        return 1, item
    if re.match(r"\d+[x×*]", match[2], re.IGNORECASE):
        raise InputError(f"cluster {text!r}: {item!r} has two counts; {match[1]} machines are {match[1]}x({match[2]})")
    return _count(text, item, match[1]), match[2]


def _count(text: str, item: str, digits: str) -> int:
    count = int(digits[:12])
    if count < 1:
        raise InputError(f"cluster {text!r}: {item!r} has count 0; a count is at least 1")
    return count


def _machine(text: str, part: str) -> MachineForm:
    opening = part.find("(")
    if opening < 0:
        item, link = _cut_link(text, part)
        count, name = _counted(text, item)
        return MachineForm(count=1, devices=((name, count),), link=link)
    closing = part.rfind(")")
    head, inner, tail = part[:opening], part[opening + 1 : closing], part[closing + 1 :]
    count = 1
    if head:
        if not re.fullmatch(r"\d+[x×*]", head, re.IGNORECASE):
            raise InputError(f'cluster {text!r}: {head!r} before "(" is not a count such as "2x"')
        count = _count(text, f"{head}(…)", head[:-1])
    if tail and not tail.startswith("@"):
        raise InputError(f'cluster {text!r}: {tail!r} after ")" is not understood; join machines with "+"')
    if not inner:
        raise InputError(f"cluster {text!r}: there is nothing between the parentheses")
    devices, link = parse_devices(inner, text)
    _, outer = _cut_link(text, tail)
    if link is not None and outer is not None and link != outer:
        raise InputError(f"cluster {text!r}: one machine has one link, not {link} and {outer}")
    return MachineForm(count=count, devices=devices, link=outer if outer is not None else link)
