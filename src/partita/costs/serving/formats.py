"""Number formats of weights and caches in serving: bytes of a number, and the format products run in."""

from __future__ import annotations

from dataclasses import dataclass

from partita.ground.errors import InputError
from partita.nouns.catalogue.specs import DeviceSpec


@dataclass(frozen=True)
class Format:
    """A format of stored numbers."""

    name: str
    bytes: float  #: Of a number, scales of its block included.
    #: Formats that products of such weights run in, the first that the device has a rate for: activations are brought
    #: into it; ``bfloat16`` where weights are unpacked first.
    products: tuple[str, ...] = ("bfloat16",)


#: A block of 128 × 128 shares a float32 scale in ``fp8_block`` (DeepSeek-AI, "DeepSeek-V3", 2024, section 3.3); 32
#: numbers share one byte in ``mxfp4`` (OCP Microscaling Formats 1.0), 16 in ``nvfp4`` (NVIDIA, "Introducing NVFP4",
#: 2025), 128 a 16-bit scale in ``int4`` (Lin et al., "AWQ", 2024).
FORMATS = {
    form.name: form
    for form in (
        Format("fp32", 4.0, ("float32",)),
        Format("bf16", 2.0),
        Format("fp16", 2.0, ("float16",)),
        Format("fp8", 1.0, ("float8", "bfloat16")),
        Format("fp8_block", 1.0 + 4 / 128**2, ("float8", "bfloat16")),
        Format("int8", 1.0, ("int8",)),
        Format("int4", 0.5 + 2 / 128, ("bfloat16",)),
        Format("fp4", 0.5 + 1 / 16, ("float4", "bfloat16")),
        Format("nvfp4", 0.5 + 1 / 16, ("float4", "bfloat16")),
        Format("mxfp4", 0.5 + 1 / 32, ("float4", "bfloat16")),
    )
}

_OTHER_NAMES = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "float32": "fp32",
    "float8": "fp8",
    "float8_e4m3fn": "fp8",
    "fp8_e4m3": "fp8",
    "fp8_e5m2": "fp8",
    "float8_e5m2": "fp8",
    "auto": "bf16",
}


def find_format(name: str) -> Format:
    """The format of a name; an unknown one is an ``InputError``."""
    found = FORMATS.get(_OTHER_NAMES.get(name.lower(), name.lower()))
    if found is None:
        raise InputError(f"there is no number format {name!r} to serve in; known are {', '.join(FORMATS)}")
    return found


def product_rate(form: Format, device: DeviceSpec) -> float:
    """FLOP/s of a device for products of weights of a format, before efficiencies."""
    for name in form.products:
        if name in device.peak_flops:
            return device.peak_flops[name]
    return device.peak("bfloat16")
