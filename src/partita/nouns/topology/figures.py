"""Figures that files of topologies leave out, each with its source; what large messages reach, bytes per second."""

from __future__ import annotations

from partita.nouns.catalogue.loader import load_catalogue

#: Share of a link's nominal bandwidth that large messages reach, as in the catalogue.
NVLINK_EFFICIENCY = 0.80
PCIE_EFFICIENCY = 0.80
NETWORK_EFFICIENCY = 0.90

#: One NVLink in one direction by compute capability: P100, V100, A100, RTX 3090 and A6000 (112.5 GB/s both ways over
#: four), H100, B200 and B300. NVIDIA's data sheets of these.
NVLINKS = {60: 20e9, 70: 25e9, 80: 25e9, 86: 14.0625e9, 90: 25e9, 100: 50e9, 103: 50e9}

#: One NVLink where nothing says of which generation it is: so many have had this.
USUAL_NVLINK = 25e9

#: Compute capability by device of the catalogue, where it has NVLinks.
CAPABILITIES = {
    "V100": 70, "A100": 80, "A6000": 86, "RTX3090": 86, "H100": 90, "H200": 90, "B200": 100,
}  # fmt: skip

#: Between two sockets by vendor (NCCL, src/graph/topo.h: its bandwidths of Intel's and AMD's socket links).
SOCKETS = {"GenuineIntel": 10e9, "AuthenticAMD": 16e9}
USUAL_SOCKET = 10e9

#: GB/s of one lane by GT/s, without the coding (PCI Express Base Specification 1.0 to 6.0).
LANES = {2.5: 0.25, 5.0: 0.5, 8.0: 8 / 8 * 128 / 130, 16.0: 16 / 8 * 128 / 130, 32.0: 32 / 8 * 128 / 130, 64.0: 7.5625}


def nvlink_of(capability: int | None) -> float:
    """What one NVLink of a GPU achieves."""
    return NVLINKS.get(capability or 0, USUAL_NVLINK) * NVLINK_EFFICIENCY


def capability_of(device: str) -> int | None:
    """The compute capability of a device of the catalogue; None where no NVLinks of it are known."""
    return next((value for name, value in CAPABILITIES.items() if device.startswith(name)), None)


def pcie_of(device: str | None) -> float:
    """What a device's link to its host achieves; of the fourth generation where it is not known what the device is."""
    catalogue = load_catalogue()
    return catalogue.link("pcie4" if device is None else catalogue.device(device).to_host).achievable_bytes_per_s


def lanes(gigatransfers: float, width: int) -> float | None:
    """What a PCIe link achieves; None if no generation has that rate."""
    rate = LANES.get(gigatransfers)
    return None if rate is None else rate * 1e9 * width * PCIE_EFFICIENCY
