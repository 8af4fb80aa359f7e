"""hwloc's XML, as ``lstopo --of xml`` writes it, versions 1 to 3: PCIe with its speeds, NVLinks as NVML knows them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from partita.nouns.topology.importers.importer import TopologyImporter, looks_like
from partita.nouns.topology.importers.machine import (
    MACHINE_OPTIONS,
    NVLINK_EFFICIENCY,
    PCIE_EFFICIENCY,
    SOCKETS,
    OneMachine,
    Rates,
    device_of_model,
    of_one_machine,
    widest,
)
from partita.nouns.topology.importers.text import Element, TextFile, read_xml, whole
from partita.nouns.topology.topology import Link

#: Class and vendor of a PCI device's type: displays, 3-d controllers and accelerators of NVIDIA and AMD.
_GPU = re.compile(r"(0300|0302|0380|1200) \[(10de|1002):.*", re.IGNORECASE)

#: Objects that PCIe hangs at, each joined to the next one above; sockets are called otherwise in version 1.
_SOCKETS = ("Package", "Socket", "NUMANode")
_PARTS = ("Machine", "Group", "Die")

#: Matrices of links between GPUs: NVIDIA's and AMD's.
_MATRICES = ("NVLinkBandwidth", "XGMIBandwidth")

#: Bytes per second of what is no limit: inside a socket, and from it to a host bridge.
_NO_LIMIT = 1e15


class _Walk:
    """What is collected while the tree of a file is walked."""

    def __init__(self, source: TextFile, rates: Rates) -> None:
        self.source = source
        self.rates = rates
        self.gpus: list[Element] = []
        self.switches: list[str] = []
        self.links: list[tuple[int, int, float]] = []
        """Ends are GPUs as −1, −2, … and switches as 0, 1, …"""

    def below(self, parent: Element, above: int | None, vendor: str) -> None:
        """Collect the objects below one whose vertex is ``above``."""
        objects = [entry for entry in parent.children if entry.tag == "object"]
        with_gpus = [child for child in objects if any(_is_gpu(entry) for entry in child.walk())]
        for child in with_gpus:
            kind, vertex = child.attributes.get("type"), above
            if kind is None:
                raise self.source.error("<object> has no type", child.line)
            if kind in (*_SOCKETS, *_PARTS, "Bridge") or above is None:
                vendor = next((value for name, value in _infos(child) if name == "CPUVendor"), vendor)
                vertex = len(self.switches)
                self.switches.append(f"{kind} {child.attributes.get('pci_busid', vertex)}")
                if above is not None:
                    # With one socket in use nothing passes between sockets.
                    rate = _NO_LIMIT if len(with_gpus) == 1 and kind != "Bridge" else self._rate(child, kind, vendor)
                    self.links.append((vertex, above, rate))
            if _is_gpu(child):
                if above is None:
                    raise self.source.error("a PCI device is at the top of the file, outside of a machine", child.line)
                self.gpus.append(child)
                self.links.append((-len(self.gpus), above, self._pcie(child)))
            else:
                self.below(child, vertex, vendor)

    def _rate(self, element: Element, kind: str, vendor: str) -> float:
        """Of the link to the object above."""
        if kind in _SOCKETS:
            return self.rates.of_socket(SOCKETS.get(vendor))
        inside = kind != "Bridge" or element.attributes.get("bridge_type", "").startswith("0")
        return _NO_LIMIT if inside else self._pcie(element)

    def _pcie(self, element: Element) -> float:
        """What the link of a PCI object achieves."""
        text = element.attributes.get("pci_link_speed", "0")
        try:
            speed = float(text)
        except ValueError:
            raise self.source.error(f"pci_link_speed is {text!r}; it must be a number of GB/s", element.line) from None
        if not 0 <= speed < 1e6:
            raise self.source.error(f"pci_link_speed {text} is out of range", element.line)
        return speed * 1e9 * PCIE_EFFICIENCY if speed else self.rates.of_pcie()


def read(source: TextFile, rates: Rates) -> OneMachine:
    """The machine of a file, its GPUs in the order of their buses."""
    root = read_xml(source, "topology")
    walk = _Walk(source, rates)
    walk.below(root, None, "")
    if not walk.gpus:
        raise source.error(
            "there is no GPU among its PCI devices; run lstopo with --of xml on the machine itself, with its devices",
            root.line,
        )
    count = len(walk.gpus)
    links = [Link(_vertex(a, count), _vertex(b, count), rate) for a, b, rate in walk.links]
    nvlinks = _nvlinks(source, root, walk.gpus, count + len(walk.switches))
    if not nvlinks:
        rates.notes.append(
            "The file has no links between GPUs, such as NVLinks; hwloc writes them only with the vendor's library."
        )
    rates.notes.append("PCIe is as fast as the machine reported it; idle GPUs report a slower link than they use.")
    if any(link.target == count + len(walk.switches) for link in nvlinks):
        walk.switches.append("NVSwitch")
    models = [[value for name, value in _infos(gpu) if name == "GPUModel"] for gpu in walk.gpus]
    return OneMachine(
        names=[f"gpu{i}" for i in range(count)],
        matrix=widest(count, len(walk.switches), [*links, *nvlinks]),
        kinds=[device_of_model(names[0]) if names else None for names in models],
        links=[*links, *nvlinks],
        switches=walk.switches,
    )


def _vertex(end: int, count: int) -> int:
    """The number of a GPU, −1, −2, …, or of a switch, 0, 1, …, among all vertices."""
    return -1 - end if end < 0 else count + end


def _is_gpu(element: Element) -> bool:
    return element.attributes.get("type") == "PCIDev" and _GPU.match(element.attributes.get("pci_type", "")) is not None


def _infos(element: Element) -> Iterable[tuple[str, str]]:
    return [(e.attributes.get("name", ""), e.attributes.get("value", "")) for e in element.walk() if e.tag == "info"]


def _nvlinks(source: TextFile, root: Element, gpus: list[Element], switch: int) -> list[Link]:
    """The matrix of links between GPUs, MB/s between objects: between GPUs, and of GPUs to the ports of switches.

    All ports together are one vertex, whose number is ``switch``.
    """
    ports = [entry for entry in root.walk() if entry.attributes.get("subtype") == "NVSwitch"]
    owner = {
        entry.attributes["gp_index"]: number
        for number, gpu in [*enumerate(gpus), *((switch, port) for port in ports)]
        for entry in gpu.walk()
        if "gp_index" in entry.attributes
    }
    rates: dict[tuple[int, int], float] = {}
    for matrix in root.children:
        name = matrix.attributes.get("name", "")
        if not matrix.tag.startswith("distances2") or name not in _MATRICES:
            continue
        size = whole(source, matrix, "nbobjs", 1)
        indexes = [word.rpartition(":")[2] for entry in matrix.all("indexes") for word in entry.text.split()]
        values = [word for entry in matrix.all("u64values") for word in entry.text.split()]
        if len(indexes) != size or len(values) != size * size:
            raise source.error(
                f"{name} has {len(indexes)} indexes and {len(values)} values for {size} objects", matrix.line
            )
        wrong = next((value for value in values if not value.isdigit()), None)
        if wrong is not None:
            raise source.error(f"{name} has the value {wrong!r}; it must be a whole number", matrix.line)
        for i in range(size):
            for j in range(size):
                a, b = owner.get(indexes[i]), owner.get(indexes[j])
                if a is not None and b is not None and a < b:
                    rates[a, b] = rates.get((a, b), 0.0) + int(values[i * size + j]) * 1e6 * NVLINK_EFFICIENCY
    return [Link(a, b, rate) for (a, b), rate in rates.items() if rate]


HWLOC = TopologyImporter(
    name="hwloc",
    summary="hwloc's XML: lstopo --of xml",
    recognises=looks_like(r"<topology[\s>]", within=2000),
    read=of_one_machine(read),
    example="""<topology version="2.0">
  <object type="Machine" os_index="0" gp_index="1">
    <object type="Package" os_index="0" gp_index="2"><info name="CPUVendor" value="AuthenticAMD"/>
      <object type="Bridge" gp_index="3" bridge_type="0-1" depth="0" bridge_pci="0000:[00-03]">
        <object type="PCIDev" gp_index="4" pci_busid="0000:01:00.0" pci_type="0302 [10de:20b0]" pci_link_speed="31.5"/>
        <object type="PCIDev" gp_index="5" pci_busid="0000:02:00.0" pci_type="0302 [10de:20b0]" pci_link_speed="31.5"/>
      </object>
    </object>
  </object>
</topology>
""",
    options=MACHINE_OPTIONS,
)
