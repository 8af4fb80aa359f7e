"""What kernels of serving reach, with the table of ``kernels.toml``: the same for every model and engine."""

from __future__ import annotations

import msgspec

from partita.ground.checks import check_fields, check_fraction
from partita.nouns.catalogue.files import shipped_tables

_SHARES = (
    "weight_share",
    "narrow_weight_share",
    "product_share",
    "narrow_product_share",
    "expert_weight_share",
    "expert_product_share",
    "cache_share",
    "prompt_share",
    "exchange_share",
    "host_exchange_share",
)


class KernelSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Shares of what a device could do, and fixed times. Memory shares are of a device whose own is 0.85."""

    name: str
    #: Of the memory bandwidth: products with few rows, of 16-bit weights and of narrower ones; those of experts.
    weight_share: float
    narrow_weight_share: float
    expert_weight_share: float
    #: Of the best rate of products: large ones of 16-bit numbers, of 8-bit and narrower ones; those of experts.
    product_share: float
    narrow_product_share: float
    expert_product_share: float
    #: Of the memory bandwidth: attention of decodes. Of the peak: attention of prompts.
    cache_share: float
    prompt_share: float
    #: How sharply the longer of memory and arithmetic takes the time: the exponent of the norm of both.
    blend: float
    #: A sum over devices at one switch: fixed time, time for every device, share of the link for what is sent.
    exchange_call_s: float
    exchange_hop_s: float
    exchange_share: float
    #: Likewise where devices are no peers and messages go through the host's memory.
    host_exchange_share: float
    expert_kernels: int  #: Kernels that choose experts, bring rows to them and back.
    #: How much of the spread of random routing between devices is waited for.
    imbalance: float
    reserved_bytes: int  #: Memory beside weights, activations and cache: context, workspaces, recorded graphs.
    source: str = ""

    def __post_init__(self) -> None:
        owner = f"kernels {self.name!r}"
        for field in _SHARES:
            check_fraction(owner, field, getattr(self, field))
        check_fields(owner, self, "exchange_call_s", "exchange_hop_s", "expert_kernels", "imbalance", "reserved_bytes")


KERNELS: KernelSpec = msgspec.convert(shipped_tables("kernels")[0], KernelSpec)
