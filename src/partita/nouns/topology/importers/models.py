"""Devices of the catalogue by what drivers call them."""

from __future__ import annotations

import re

#: Patterns of what is left of a driver's name without its vendor; the first that matches says the device.
_MODELS = tuple(
    (re.compile(pattern, re.IGNORECASE), device)
    for pattern, device in (
        (r"A100-SXM\d?-40GB", "A100-40GB"),
        (r"A100-SXM\d?-80GB", "A100-80GB"),
        (r"A100[- ](80GB[- ]PCIe|PCIe[- ]80GB)", "A100-80GB-PCIE"),
        (r"H100( 80GB HBM3|-SXM5-80GB)", "H100-80GB"),
        (r"H100 PCIe", "H100-PCIE"),
        (r"H200", "H200-141GB"),
        (r"B200", "B200"),
        (r"L4", "L4"),
        (r"L40S", "L40S"),
        (r"T4", "T4"),
        (r"V100-SXM\d-16GB", "V100-16GB"),
        (r"V100-SXM\d-32GB", "V100-32GB"),
        (r"A10", "A10"),
        (r"RTX A6000", "A6000"),
        (r"RTX 3090", "RTX3090"),
        (r"RTX 4090", "RTX4090"),
        (r"MI250X", "MI250X"),
        (r"MI300X( OAM)?", "MI300X"),
    )
)
_VENDOR = re.compile(r"^(NVIDIA|AMD|Tesla|GeForce|Instinct|\s)+", re.IGNORECASE)


def device_of_model(model: str) -> str | None:
    """The device a driver calls so; None if the catalogue has none of that name."""
    name = _VENDOR.sub("", model.strip())
    return next((device for pattern, device in _MODELS if pattern.fullmatch(name)), None)
