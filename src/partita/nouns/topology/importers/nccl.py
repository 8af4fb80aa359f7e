"""NCCL's topology XML, as ``NCCL_TOPO_DUMP_FILE`` writes it and cloud images ship it for ``NCCL_TOPO_FILE``."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from partita.nouns.catalogue.loader import load_catalogue
from partita.nouns.topology.figures import NETWORK_EFFICIENCY, SOCKETS, lanes
from partita.nouns.topology.importers.importer import TextFile, TopologyImporter
from partita.nouns.topology.importers.machine import MACHINE_OPTIONS, OneMachine, Rates, of_one_machine
from partita.nouns.topology.importers.xml import Element, read_xml, whole
from partita.nouns.topology.routes import widest
from partita.nouns.topology.topology import Link

#: PCI classes of GPUs, of NVSwitches, and of network cards.
_GPU, _NVSWITCH = ("0x0300", "0x0302"), "0x0680"
_NETWORK = "0x02"
_SPEED = re.compile(r"\s*(\d+(?:\.\d+)?)\s*GT/s.*")


def recognises(source: TextFile) -> bool:
    """Whether the root element is NCCL's."""
    return re.search(r"<system[\s>]", source.text[:2000]) is not None


@dataclass
class _Machine:
    """What is collected while the tree of a file is walked; ends of links are bus ids until all devices are known."""

    gpus: list[Element] = field(default_factory=list)  #: PCI elements of GPUs.
    switches: list[str] = field(default_factory=list)
    links: list[tuple[str, str, float]] = field(default_factory=list)
    speeds: list[float] = field(default_factory=list)  #: Of network cards, bytes per second.
    silent_cards: int = 0  #: Network cards whose speed is not in the file.


def read(source: TextFile, rates: Rates) -> OneMachine:
    """The machine of a file: PCIe with its speeds, NVLinks, and sockets joined by what NCCL assumes of them."""
    root = read_xml(source, "system")
    found = _Machine()
    sockets = [child for child in root.children if child.tag == "cpu"]
    hosts = {cpu.attributes.get("host_hash", "") for cpu in sockets}
    if len(hosts) > 1:
        raise source.error(f"it describes {len(hosts)} hosts; give the file of one, and their number as machines=…")
    if not sockets:
        raise source.error("<system> has no <cpu>; it is empty or cut off", root.line)
    for number, cpu in enumerate(sockets):
        name = f"cpu{cpu.attributes.get('numaid', number)}"
        if name in found.switches:
            raise source.error(f"numaid {cpu.attributes['numaid']} is there twice", cpu.line)
        found.switches.append(name)
        for other in found.switches[:1] if number else []:
            rate = rates.of_socket(SOCKETS.get(cpu.attributes.get("vendor", "")))
            found.links.append((other, name, rate))
        _walk(source, cpu, name, found, rates)
    _order(source, found, root)
    _add_nvlinks(source, found, rates)
    _own_nvlinks(found, rates)
    return _one(source, found, rates)


def _walk(source: TextFile, parent: Element, above: str, found: _Machine, rates: Rates) -> None:
    """Collect what is below an element whose vertex is ``above``."""
    for child in parent.children:
        if child.tag in ("nic", "net"):
            _cards(source, child, found)
        if child.tag != "pci":
            continue
        bus = _bus(source, child)
        kind = child.attributes.get("class", "")
        if not kind:
            raise source.error(f"<pci> {bus} has no class", child.line)
        rate = _pcie(source, child, rates)
        inner = [grandchild.tag for grandchild in child.children]
        if kind.startswith(_GPU) or "gpu" in inner:
            found.gpus.append(child)
            found.links.append((bus, above, rate))
        elif kind.startswith(_NETWORK) or "nic" in inner:
            found.silent_cards += not child.all("net")
            _walk(source, child, above, found, rates)
        elif "pci" in inner:
            found.switches.append(bus)
            found.links.append((bus, above, rate))
            _walk(source, child, bus, found, rates)


def _cards(source: TextFile, element: Element, found: _Machine) -> None:
    for net in [element] if element.tag == "net" else element.all("net"):
        # In Mbit/s; a card without a cable has none.
        speed = whole(source, net, "speed")
        if speed:
            found.speeds.append(speed * 1e6 / 8)


def _bus(source: TextFile, element: Element) -> str:
    bus = element.attributes.get("busid", "").lower()
    if not bus:
        raise source.error("<pci> has no busid", element.line)
    return bus


def _pcie(source: TextFile, element: Element, rates: Rates) -> float:
    """What a PCIe link achieves; virtual machines write no speed, or no lanes."""
    text, width = element.attributes.get("link_speed", ""), whole(source, element, "link_width", default=0)
    match = _SPEED.fullmatch(text)
    if match is None and text and "unknown" not in text.lower():
        raise source.error(f"link_speed {text!r} is not a number of GT/s", element.line)
    if match is None or not width:
        return rates.of_pcie()
    rate = lanes(float(match[1]), width)
    if rate is None:
        raise source.error(f"link_speed {text!r} is of no PCIe generation", element.line)
    return rate


def _order(source: TextFile, found: _Machine, root: Element) -> None:
    """GPUs in the order of their numbers; those that a job did not use are left out."""
    used = [pci for pci in found.gpus if any(child.tag == "gpu" for child in pci.children)]
    if used:
        found.gpus = sorted(used, key=lambda pci: whole(source, pci.all("gpu")[0], "dev"))
    if not found.gpus:
        raise source.error("there is no GPU: no <gpu>, and no <pci> of class 0x0302", root.line)
    seen: dict[str, int] = {}
    for pci in found.gpus:
        bus = _bus(source, pci)
        if bus in seen:
            raise source.error(f"GPU {bus} is there twice, first in line {seen[bus]}", pci.line)
        seen[bus] = pci.line


def _add_nvlinks(source: TextFile, found: _Machine, rates: Rates) -> None:
    """NVLinks between GPUs, each of which lists its own, and to NVSwitches, which are taken together."""
    known = {_bus(source, pci) for pci in found.gpus}
    pairs: dict[tuple[str, str], tuple[int, float, int]] = {}
    for pci in found.gpus:
        bus, switched = _bus(source, pci), 0
        for gpu in pci.all("gpu")[:1]:
            each = rates.of_nvlink(whole(source, gpu, "sm")) if gpu.all("nvlink") else 0.0
            for link in gpu.all("nvlink"):
                target, count = link.attributes.get("target", "").lower(), whole(source, link, "count", 1)
                if not target:
                    raise source.error("<nvlink> has no target", link.line)
                if link.attributes.get("tclass", "").startswith(_NVSWITCH):
                    switched += count
                elif target in known:
                    pairs[bus, target] = count, each, link.line
            if switched:
                found.links.append((bus, "NVSwitch", switched * each))
    if any(end == "NVSwitch" for _, end, _ in found.links):
        found.switches.append("NVSwitch")
    for (bus, target), (count, each, line) in pairs.items():
        back = pairs.get((target, bus))
        if back is None or back[0] != count:
            other = "none" if back is None else str(back[0])
            raise source.error(f"{bus} has {count} NVLinks to {target}, which has {other} to it", line)
        if bus < target:
            found.links.append((bus, target, count * each))


def _own_nvlinks(found: _Machine, rates: Rates) -> None:
    """What a file for NCCL to fill in leaves out: NVLinks, if the device has them in the catalogue."""
    if any(pci.all("gpu") for pci in found.gpus):
        return
    link = None if rates.device is None else load_catalogue().device(rates.device).link
    if link is None or not link.startswith("nvlink"):
        rates.notes.append(
            "The file has no NVLinks, which NCCL finds out at run time: GPUs are taken to reach each other over PCIe; "
            "state device=… for those of a device."
        )
        return
    rate = rates.nvlink or load_catalogue().link(link).achievable_bytes_per_s
    found.switches.append("NVSwitch")
    found.links += [(pci.attributes["busid"].lower(), "NVSwitch", rate) for pci in found.gpus]
    rates.notes.append(
        f"The file has no NVLinks, which NCCL finds out at run time: those of {rates.device} are taken, all GPUs at an "
        f"NVSwitch with {rate / 1e9:.4g} GB/s each."
    )


def _one(source: TextFile, found: _Machine, rates: Rates) -> OneMachine:
    """The machine, with the widest way between every two GPUs."""
    names = [_bus(source, pci) for pci in found.gpus]
    number = {name: i for i, name in enumerate([*names, *found.switches])}
    # GPUs that no job used are no vertices.
    links = [Link(number[a], number[b], rate) for a, b, rate in found.links if a in number and b in number]
    fastest = max(found.speeds, default=0.0)
    uplink = None
    if fastest:
        share = fastest * min(1.0, found.speeds.count(fastest) / len(names)) * NETWORK_EFFICIENCY
        uplink = min(share, min(rate for a, _, rate in found.links if a in names))
    elif found.silent_cards:
        rates.notes.append(
            f"The machine has {found.silent_cards} network cards; the file does not say how fast they are."
        )
    return OneMachine(
        names=[f"gpu{i}" for i in range(len(names))],
        matrix=widest(len(names), len(found.switches), links),
        links=links,
        switches=found.switches,
        uplink=uplink,
    )


NCCL = TopologyImporter(
    name="nccl",
    summary="NCCL's topology XML: NCCL_TOPO_DUMP_FILE, or the file that a cloud's image ships",
    recognises=recognises,
    read=of_one_machine(read),
    example="""<system version="1">
  <cpu numaid="0" arch="x86_64" vendor="AuthenticAMD" familyid="23" modelid="49">
    <pci busid="0000:01:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">
      <pci busid="0000:02:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="80" rank="0" gdr="1"><nvlink target="0000:03:00.0" count="4" tclass="0x030200"/></gpu>
      </pci>
      <pci busid="0000:03:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
        <gpu dev="1" sm="80" rank="1" gdr="1"><nvlink target="0000:02:00.0" count="4" tclass="0x030200"/></gpu>
      </pci>
      <pci busid="0000:04:00.0" class="0x020700" link_speed="16.0 GT/s PCIe" link_width="16">
        <nic><net name="mlx5_0" dev="0" speed="200000" port="1" gdr="1"/></nic>
      </pci>
    </pci>
  </cpu>
</system>
""",
    options=MACHINE_OPTIONS,
)
