"""Which card a stage runs on: numbers of the cluster's accelerators, as whoever exports a plan has to write them.

A host's cards are counted in the cluster's order, which is that of ``CUDA_DEVICE_ORDER=PCI_BUS_ID`` and of nvidia-smi.
Without that variable CUDA counts the fastest card first, and stages would be on other cards wherever these differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

from partita.nouns.catalogue.loader import load_catalogue
from partita.nouns.split import Split

#: Sets the order in which cards are counted here.
ORDER = "CUDA_DEVICE_ORDER=PCI_BUS_ID"


@dataclass(frozen=True)
class Cards:
    """The accelerators of a split."""

    #: Kind and machine of each card of the cluster, by number.
    kinds: tuple[str, ...]
    machines: tuple[int, ...]
    #: By stage the numbers of its cards, replica after replica; none of a stage on the CPU.
    stages: tuple[tuple[int, ...], ...]

    @property
    def mixed(self) -> bool:
        """Whether the cards differ, so that their order matters and has to be checked."""
        return len(set(self.kinds)) > 1

    @property
    def used(self) -> tuple[int, ...]:
        """Cards that have a stage, ascending."""
        return tuple(sorted({number for stage in self.stages for number in stage}))

    def by_stage(self, split: Split) -> tuple[int, ...]:
        """Cards in the order of ranks where those of a stage follow each other; ranks with several stages once."""
        first = {stage.rank: numbers for stage, numbers in reversed(list(zip(split.stages, self.stages, strict=True)))}
        return tuple(number for rank in sorted(first) for number in first[rank])

    def by_replica(self, split: Split) -> tuple[int, ...]:
        """The same where each replica of the whole pipeline has ranks that follow each other."""
        first = {stage.rank: (stage, numbers) for stage, numbers in zip(split.stages, self.stages, strict=True)}
        found: list[int] = []
        for replica in range(split.stages[0].replicas):
            for rank in sorted(first):
                stage, numbers = first[rank]
                width = len(numbers) // stage.replicas
                found += numbers[replica * width : (replica + 1) * width]
        return tuple(found)

    def visible(self, order: Sequence[int], *, launched: bool = True) -> tuple[int, ...] | None:
        """What ``CUDA_VISIBLE_DEVICES`` has to say so that the n-th visible card is the n-th of the order.

        None where no variable is needed: all cards are alike and used in their own order. Processes that are
        ``launched`` on several machines fill these, and take no cards beyond their number.
        """
        several = launched and len(set(self.machines)) > 1
        own = tuple(range(len(order) if several else len(self.kinds)))
        return None if not self.mixed and tuple(order) == own else tuple(order)

    def wanted(self, order: Sequence[int]) -> dict[int, str]:
        """By place in an order the kind that has to be there, where cards differ and the catalogue knows the kind."""
        known = set(load_catalogue().devices)
        return {
            place: self.kinds[number]
            for place, number in enumerate(order)
            if self.mixed and self.kinds[number] in known
        }

    def sentence(self, order: Sequence[int]) -> str:
        """Which card has to be which, in words."""
        listed = ", ".join(f"{number} is {self.kinds[number]}" for number in order)
        return f"cards as CUDA counts them with {ORDER}: {listed}"


def rank_lines(cards: Cards, order: Sequence[int]) -> list[str]:
    """Lines that say which card each rank has to be on; none where rank n is on card n and all are alike."""
    if not cards.mixed and tuple(order) == tuple(range(len(order))):
        return []
    return [
        f"Rank by rank, {cards.sentence(order)}.",
        f"On one host: export {ORDER} CUDA_VISIBLE_DEVICES={','.join(map(str, order))}",
    ]


def cards_said(text: str, order: str = "cards_by_stage") -> dict[str, tuple[int, ...]]:
    """The fact that such lines, or those of a shell script, say: cards in an order; nothing where there are none."""
    found = re.search(r"CUDA_VISIBLE_DEVICES=([\d,]+)", text)
    return {} if found is None else {order: tuple(map(int, found[1].split(",")))}


def order_notes(split: Split, place: str, moment: str) -> Iterator[str]:
    """What a user has to see to where numbers of cards at a ``place`` are those of cards that differ.

    The variable takes effect if it is set before a ``moment``.
    """
    cards = cards_of_split(split)
    if cards.mixed and cards.used:
        yield (
            f"{place} counts {cards.sentence(range(len(cards.kinds)))}; export {ORDER} before {moment}, for CUDA "
            "counts the fastest card first otherwise"
        )


def cards_of_split(split: Split) -> Cards:
    """The cards of a split; where it does not say which, its devices in pipeline order (``card_refusals``)."""
    held: list[Sequence[int | str]]
    if split.cards and all(stage.places for stage in split.stages):
        accelerators = [place for place, card in enumerate(split.cards) if card.accelerator]
        kinds: dict[int | str, str] = {place: split.cards[place].kind for place in accelerators}
        machines = tuple(split.cards[place].machine for place in accelerators)
        held = [stage.places for stage in split.stages]
    else:
        kinds = {name: stage.kind for stage in split.stages if stage.accelerator for name in stage.devices}
        machines = (0,) * len(kinds)
        held = [stage.devices for stage in split.stages]
    number = {place: n for n, place in enumerate(kinds)}
    return Cards(
        kinds=tuple(kinds.values()),
        machines=machines,
        stages=tuple(
            tuple(number[place] for place in own) if stage.accelerator else ()
            for stage, own in zip(split.stages, held, strict=True)
        ),
    )


def card_refusals(split: Split) -> Iterator[str]:
    """Why the cards of a split cannot be numbered: they differ, and it does not say which is which."""
    known = split.cards and all(stage.places for stage in split.stages)
    if not known and len({stage.kind for stage in split.stages if stage.accelerator}) > 1:
        yield (
            "the plan is on cards that differ, and does not say which of the cluster's they are; plan again with a "
            "cluster that has as many devices as the plan"
        )


def check_source() -> str:
    """The functions of ``card_names``, for scripts that are written."""
    text = files(__package__).joinpath("card_names.py").read_text(encoding="utf-8")
    return text[text.index("import itertools") :].rstrip()


def shell_lines(cards: Cards, order: Sequence[int], *, launched: bool = True) -> list[str]:
    """Lines of a shell script that choose the cards, in this order, and stop where one is of another kind."""
    visible = cards.visible(order, launched=launched)
    if visible is None:
        return []
    if not visible:
        # What runs on the CPU must not find a card.
        return ["export CUDA_VISIBLE_DEVICES="] if cards.kinds else []
    lines = [
        f"export {ORDER}",
        f"export CUDA_VISIBLE_DEVICES={','.join(map(str, visible))}",
    ]
    wanted = cards.wanted(order)
    if wanted:
        lines += [f"# {cards.sentence(order)}.", *card_lines({order[place]: kind for place, kind in wanted.items()})]
    return lines


def card_lines(wanted: Mapping[int, str]) -> list[str]:
    """Lines that stop where a card, by number, is of another kind than wanted; kinds of users are taken as they are."""
    known = load_catalogue().devices
    checks = [f"card {number} {_words(kind)}" for number, kind in wanted.items() if kind in known]
    return [*_CHECK, *checks] if checks else []


#: Stops where the driver's name of card $1 lacks one of the other words; a size of memory only counts if it has one.
_CHECK = (
    "card() {",
    "    number=$1; shift",
    '    found=$(nvidia-smi --query-gpu=name --format=csv,noheader --id="$number") || exit 1',
    "    name=\" $(printf '%s' \"$found\" | tr a-z A-Z | tr -cs A-Z0-9 ' ') \"",
    "    for word; do",
    '        case "$word$name" in [0-9]*GB" "*[0-9]GB*) ;; [0-9]*GB" "*) continue ;; esac',
    '        case "$name" in *" $word "*) continue ;; esac',
    '        echo "card $number is $found, and the plan was made for $* there" >&2',
    "        exit 1",
    "    done",
    "}",
)


def _words(kind: str) -> str:
    """What a driver's name of such a card has in it: RTX 4090 of RTX4090."""
    return re.sub(r"RTX(\d)", r"RTX \1", re.sub(r"[^A-Z0-9]+", " ", kind.upper())).strip()
