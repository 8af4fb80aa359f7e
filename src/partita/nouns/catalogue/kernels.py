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
    #: Attention of decodes: share of the memory bandwidth, and time to fill and empty the device, for a layer.
    cache_share: float
    cache_call_s: float
    #: Of the peak: attention of prompts.
    prompt_share: float
    #: How sharply the longer of memory and arithmetic takes the time: the exponent of the norm of both.
    blend: float
    #: A sum over devices at one switch: fixed time, time for every device, share of the link for what is sent.
    exchange_call_s: float
    exchange_hop_s: float
    exchange_share: float
    #: Where devices are no peers and messages go through the host's memory: share of the link, and the most that small
    #: messages take longer because each number carries a flag.
    host_exchange_share: float
    host_exchange_switch_s: float
    expert_kernels: int  #: Kernels that choose experts, bring rows to them and back.
    #: How much of the spread of random routing between devices is waited for.
    imbalance: float
    reserved_bytes: int  #: Memory beside weights, activations and cache: context, workspaces, recorded graphs.
    source: str = ""

    def __post_init__(self) -> None:
        owner = f"kernels {self.name!r}"
        for field in _SHARES:
            check_fraction(owner, field, getattr(self, field))
        check_fields(owner, self, "cache_call_s", "exchange_call_s", "exchange_hop_s", "host_exchange_switch_s")
        check_fields(owner, self, "expert_kernels", "imbalance", "reserved_bytes")


KERNELS: KernelSpec = msgspec.convert(shipped_tables("kernels")[0], KernelSpec)
