"""Scripts that start every unit of a deployment, and reading them.

One script is for all machines. Where there are several, ``MACHINE`` says which one it runs on, and ``HOST0``,
``HOST1``, … give the addresses that units need of each other.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator

from partita.exporters.cards import ORDER, card_lines
from partita.exporters.deployment_exporter import DeploymentExporter, longest_note, priced_for, share_notes
from partita.exporters.engine_arguments import EngineArguments, Node
from partita.exporters.exporter import lines
from partita.exporters.serve_flags import FlagError
from partita.exporters.unit_facts import UnitFacts, unlike
from partita.exporters.unit_places import PlacedUnit, placed_units
from partita.ground.errors import UnsupportedError
from partita.nouns.deployment import Deployment

#: Ports of units: where requests go, where the machines of a unit meet, where caches are asked for.
PORT, MEETING, HANDOVER = 8000, 29500, 5600


class ServeScript(DeploymentExporter):
    """A shell script of one engine: a line for each unit, and for each machine of a unit that is on several."""

    engine: EngineArguments
    program: tuple[str, ...]  #: What runs a unit.

    def supports(self, deployment: Deployment) -> list[str]:
        found = self.engine.supports(deployment)
        if found:
            return found
        try:
            units = placed_units(deployment)
        except UnsupportedError as error:
            return [str(error)]
        told = (reason for unit in units for reason in self.engine.node_reasons(unit.group, len(unit.cards)))
        return list(dict.fromkeys(told))

    def content(self, deployment: Deployment, model: str | None) -> bytes:
        units, several = placed_units(deployment), len(deployment.machines) > 1
        hosts = _hosts(deployment, units)
        head = [
            "#!/bin/sh",
            f"# {' '.join(deployment.name.split())}, as planned by partita; arguments of {self.engine.title}.",
            "# " + ("" if model else "Give the model, its name or folder. ") + "Further arguments go to every unit.",
        ]
        if several:
            env = "".join(f" HOST{number}=ADDRESS" for number in hosts)
            head.append(f"# Run it on every machine, with the machine's number: MACHINE=0{env} sh SCRIPT …")
        head += [
            "set -eu",
            f"model={shlex.quote(model)}" if model else "model=${1:?give the model, its name or folder}; shift",
        ]
        head += [f': "${{HOST{number}:?give the address of machine {number}}}"' for number in hosts]
        head += [f"export {ORDER}", "running=", "trap 'kill $running' INT TERM"]
        body: list[str] = []
        for machine in range(len(deployment.machines)):
            own = [line for unit in units for line in self._lines(deployment, unit, machine)]
            checks = card_lines(_wanted(deployment, units, machine)) if len(deployment.kinds) > 1 else []
            body += [f"{machine})", *checks, *own, ";;"] if several else [*checks, *own]
        if several:
            most = len(deployment.machines) - 1
            body = [f'case "${{MACHINE:?give the number of this machine, 0 to {most}}}" in', *body]
            body += [f'*) echo "MACHINE is $MACHINE, and there are 0 to {most}" >&2; exit 1 ;;', "esac"]
        return lines(*head, *body, "wait")

    def differences(self, deployment: Deployment, content: bytes) -> list[str]:
        meant = [self.engine.meant(unit.group, deployment.longest, unit.cards) for unit in placed_units(deployment)]
        return unlike(meant, self.said(content))

    def said(self, content: bytes) -> list[UnitFacts]:
        """The units that a script starts; ``FlagError`` if a line is none of the grammar."""
        cards: dict[int, list[tuple[int, tuple[int, ...]]]] = {}
        parts: dict[int, list[list[str]]] = {}
        machine = number = 0
        for line in content.decode().splitlines():
            if re.fullmatch(r"\d+\)", line):
                machine = int(line[:-1])
            elif line.startswith("# unit "):
                number = int(line.split()[2].rstrip(":"))
            elif line.endswith(' "$@" &'):
                visible, words = self._words(line)
                cards.setdefault(number, []).append((machine, visible))
                parts.setdefault(number, []).append(words)
        found: list[UnitFacts] = []
        for number, each in parts.items():
            facts = {self.engine.said(words, tuple(cards[number])) for words in each}
            if len(facts) > 1:
                raise FlagError(f"the machines of unit {number} are started differently")
            found += facts
        return found

    def notes(self, deployment: Deployment, model: str | None = None) -> Iterable[str]:
        yield from priced_for(deployment, self.engine.name)
        units = sum(group.count for group in deployment.units)
        if deployment.split:
            yield f"a router sends each request to a unit for prefill and one for decode: {self.router}"
        elif units > 1:
            yield f"a router sends each request to the one of {units} units with the fewest: {self.router}"
        yield from share_notes(deployment)
        yield longest_note(deployment)

    router: str  #: What does that for this engine.

    def _lines(self, deployment: Deployment, unit: PlacedUnit, machine: int) -> Iterator[str]:
        """What starts a machine's part of a unit."""
        ranks = [number for number, _ in unit.cards]
        if machine not in ranks:
            return
        rank, group = ranks.index(machine), unit.group
        own = dict(unit.cards)[machine]
        yield f"# unit {unit.number}: {group.role}, {group.label}"
        words = [*self.program, *([self.engine.model_flag] if self.engine.model_flag else []), '"$model"']
        words += [shlex.quote(word) for word in self.engine.arguments(group, deployment.longest)]
        if len(ranks) > 1:
            node = Node(rank, len(ranks), f'"$HOST{ranks[0]}"', MEETING + unit.number)
            words += self.engine.node_arguments(group, node)
        if rank == 0:
            words += ["--host", "0.0.0.0", "--port", str(PORT + unit.number), *self.listening(unit)]
        variables = [f"CUDA_VISIBLE_DEVICES={','.join(map(str, own))}", *self.variables(deployment, unit, machine)]
        yield " ".join([*variables, *words, '"$@" &'])
        yield 'running="$running $!"'

    def listening(self, unit: PlacedUnit) -> list[str]:
        """Arguments of the machine that takes requests."""
        return []

    def variables(self, deployment: Deployment, unit: PlacedUnit, machine: int) -> list[str]:
        """What a unit has in its environment beside its cards."""
        return []

    def _words(self, line: str) -> tuple[tuple[int, ...], list[str]]:
        """Of a line that starts a unit the cards, and the arguments behind the model that are the unit's own."""
        words = shlex.split(line)[:-2]
        program = words.index(self.program[0])
        lead = [*self.program, *([self.engine.model_flag] if self.engine.model_flag else []), "$model"]
        if words[program : program + len(lead)] != lead:
            raise FlagError(f"a line does not run {' '.join(lead)}")
        visible = next(word for word in words[:program] if word.startswith("CUDA_VISIBLE_DEVICES="))
        return tuple(map(int, visible.partition("=")[2].split(","))), words[program + len(lead) :]


def _wanted(deployment: Deployment, units: list[PlacedUnit], machine: int) -> dict[int, str]:
    """By number the kinds of the cards of a machine that are used."""
    kinds = {card: unit.group.kind for unit in units for number, own in unit.cards if number == machine for card in own}
    return dict(sorted(kinds.items()))


def _hosts(deployment: Deployment, units: list[PlacedUnit]) -> list[int]:
    """Machines whose addresses have to be known: first ones of units on several, all with caches that are handed on."""
    found = {unit.cards[0][0] for unit in units if len(unit.cards) > 1}
    if deployment.split and len(deployment.machines) > 1:
        found |= {unit.cards[0][0] for unit in units if unit.group.role != "both"}
    return sorted(found)
