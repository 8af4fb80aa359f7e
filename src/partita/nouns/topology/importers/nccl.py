"""NCCL's topology XML, as ``NCCL_TOPO_DUMP_FILE`` writes it and cloud images ship it for ``NCCL_TOPO_FILE``."""

from __future__ import annotations

import re

from partita.nouns.catalogue.loader import load_catalogue
from partita.nouns.topology.importers.importer import TopologyImporter, looks_like
from partita.nouns.topology.importers.machine import (
    LANES,
    MACHINE_OPTIONS,
    NETWORK_EFFICIENCY,
    PCIE_EFFICIENCY,
    SOCKETS,
    OneMachine,
    Rates,
    of_one_machine,
    widest,
)
from partita.nouns.topology.importers.text import Element, TextFile, read_xml, whole
from partita.nouns.topology.topology import Link

#: PCI classes of GPUs, of NVSwitches, and of network cards.
_GPU, _NVSWITCH = ("0x0300", "0x0302"), "0x0680"
_NETWORK = "0x02"
_SPEED = re.compile(r"\s*(\d+(?:\.\d+)?)\s*GT/s.*")


class _Machine:
    """What is collected while the tree of a file is walked; ends of links are bus ids until all devices are known."""

    def __init__(self, source: TextFile, rates: Rates) -> None:
        self.source, self.rates = source, rates
        self.gpus: list[Element] = []  #: PCI elements.
        self.switches: list[str] = []
        self.links: list[tuple[str, str, float]] = []
        self.speeds: list[float] = []  #: Of network cards, bytes per second.
        self.silent_cards = 0  #: Network cards whose speed is not in the file.

    def add_sockets(self, root: Element) -> None:
        """Sockets, joined by what NCCL assumes of them, with what is below."""
        sockets = [child for child in root.children if child.tag == "cpu"]
        hosts = {cpu.attributes.get("host_hash", "") for cpu in sockets}
        if len(hosts) > 1:
            raise self.source.error(
                f"it describes {len(hosts)} hosts; give the file of one, and their number as machines=…"
            )
        if not sockets:
            raise self.source.error("<system> has no <cpu>; it is empty or cut off", root.line)
        for number, cpu in enumerate(sockets):
            name = f"cpu{cpu.attributes.get('numaid', number)}"
            if name in self.switches:
                raise self.source.error(f"numaid {cpu.attributes['numaid']} is there twice", cpu.line)
            self.switches.append(name)
            if number:
                rate = self.rates.of_socket(SOCKETS.get(cpu.attributes.get("vendor", "")))
                self.links.append((self.switches[0], name, rate))
            self.below(cpu, name)

    def below(self, parent: Element, above: str) -> None:
        """Collect what is below an element whose vertex is ``above``."""
        for child in parent.children:
            if child.tag in ("nic", "net"):
                # In Mbit/s; a card without a cable has none.
                speeds = (whole(self.source, net, "speed") for net in child.walk() if net.tag == "net")
                self.speeds += [speed * 1e6 / 8 for speed in speeds if speed]
            if child.tag != "pci":
                continue
            bus, kind = self.bus(child), child.attributes.get("class", "")
            if not kind:
                raise self.source.error(f"<pci> {bus} has no class", child.line)
            rate = self.pcie(child)
            inner = [grandchild.tag for grandchild in child.children]
            if kind.startswith(_GPU) or "gpu" in inner:
                self.gpus.append(child)
                self.links.append((bus, above, rate))
            elif kind.startswith(_NETWORK) or "nic" in inner:
                self.silent_cards += not child.all("net")
                self.below(child, above)
            elif "pci" in inner:
                self.switches.append(bus)
                self.links.append((bus, above, rate))
                self.below(child, bus)

    def bus(self, element: Element) -> str:
        bus = element.attributes.get("busid", "").lower()
        if not bus:
            raise self.source.error("<pci> has no busid", element.line)
        return bus

    def pcie(self, element: Element) -> float:
        """What a PCIe link achieves; virtual machines write no speed, or no lanes."""
        text, width = element.attributes.get("link_speed", ""), whole(self.source, element, "link_width", default=0)
        match = _SPEED.fullmatch(text)
        if match is None and text and "unknown" not in text.lower():
            raise self.source.error(f"link_speed {text!r} is not a number of GT/s", element.line)
        if match is None or not width:
            return self.rates.of_pcie()
        rate = LANES.get(float(match[1]))
        if rate is None:
            raise self.source.error(f"link_speed {text!r} is of no PCIe generation", element.line)
        return rate * 1e9 * width * PCIE_EFFICIENCY

    def sort_gpus(self, root: Element) -> None:
        """GPUs in the order of their numbers; those that a job did not use are left out."""
        used = [pci for pci in self.gpus if any(child.tag == "gpu" for child in pci.children)]
        if used:
            self.gpus = sorted(used, key=lambda pci: whole(self.source, pci.all("gpu")[0], "dev"))
        if not self.gpus:
            raise self.source.error("there is no GPU: no <gpu>, and no <pci> of class 0x0302", root.line)
        seen: dict[str, int] = {}
        for pci in self.gpus:
            bus = self.bus(pci)
            if bus in seen:
                raise self.source.error(f"GPU {bus} is there twice, first in line {seen[bus]}", pci.line)
            seen[bus] = pci.line

    def add_nvlinks(self) -> None:
        """NVLinks between GPUs, each of which lists its own, and to NVSwitches, which are taken together."""
        known = {self.bus(pci) for pci in self.gpus}
        pairs: dict[tuple[str, str], tuple[int, float, int]] = {}
        for pci in self.gpus:
            bus, switched = self.bus(pci), 0
            for gpu in pci.all("gpu")[:1]:
                each = self.rates.of_nvlink(whole(self.source, gpu, "sm")) if gpu.all("nvlink") else 0.0
                for link in gpu.all("nvlink"):
                    target, count = link.attributes.get("target", "").lower(), whole(self.source, link, "count", 1)
                    if not target:
                        raise self.source.error("<nvlink> has no target", link.line)
                    if link.attributes.get("tclass", "").startswith(_NVSWITCH):
                        switched += count
                    elif target in known:
                        pairs[bus, target] = count, each, link.line
                if switched:
                    self.links.append((bus, "NVSwitch", switched * each))
        if any(end == "NVSwitch" for _, end, _ in self.links):
            self.switches.append("NVSwitch")
        for (bus, target), (count, each, line) in pairs.items():
            back = pairs.get((target, bus))
            if back is None or back[0] != count:
                other = "none" if back is None else str(back[0])
                raise self.source.error(f"{bus} has {count} NVLinks to {target}, which has {other} to it", line)
            if bus < target:
                self.links.append((bus, target, count * each))

    def add_own_nvlinks(self) -> None:
        """What a file for NCCL to fill in leaves out: NVLinks, if the device has them in the catalogue."""
        rates, catalogue = self.rates, load_catalogue()
        link = None if rates.device is None else catalogue.device(rates.device).link
        missing = "The file has no NVLinks, which NCCL finds out at run time:"
        if link is None or not link.startswith("nvlink"):
            rates.notes.append(
                f"{missing} GPUs are taken to reach each other over PCIe; state device=… for those of a device."
            )
            return
        rate = rates.nvlink or catalogue.link(link).achievable_bytes_per_s
        self.switches.append("NVSwitch")
        self.links += [(pci.attributes["busid"].lower(), "NVSwitch", rate) for pci in self.gpus]
        rates.notes.append(
            f"{missing} those of {rates.device} are taken, all GPUs at an NVSwitch with {rate / 1e9:.4g} GB/s each."
        )


def read(source: TextFile, rates: Rates) -> OneMachine:
    """The machine of a file: PCIe with its speeds, NVLinks, and the widest way between every two GPUs."""
    root = read_xml(source, "system")
    found = _Machine(source, rates)
    found.add_sockets(root)
    found.sort_gpus(root)
    found.add_nvlinks()
    if not any(pci.all("gpu") for pci in found.gpus):
        found.add_own_nvlinks()
    names = [found.bus(pci) for pci in found.gpus]
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
    recognises=looks_like(r"<system[\s>]", within=2000),
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
