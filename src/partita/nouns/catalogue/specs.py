"""DeviceSpec and LinkSpec: what one device and one link can do. A number out of range is an ``InputError``."""

from __future__ import annotations

import msgspec

from partita.ground.checks import check_at_least, check_fields, check_fraction, check_positive
from partita.ground.errors import InputError
from partita.ground.units import GIB

#: What attention kernels reach of the rate of products where a device does not say.
ATTENTION_SHARE = 0.7

#: Likewise of products whose rows are not aligned.
UNALIGNED_SHARE = 1 / 3

_INTEGERS = frozenset({"int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"})


class LinkSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One kind of link."""

    name: str  #: For example ``pcie4``.
    #: Nominal bandwidth in one direction: of one device, or of one network card of a machine.
    bandwidth_bytes_per_s: float
    latency_s: float = 0.0  #: Fixed time of one message from device to device, or of one call of a group of devices.
    #: Time that every further hop of a call's messages takes; None where it is ``latency_s``.
    hop_time_s: float | None = None
    #: Whether any two ends reach each other directly, so that sums take the hops of a tree; otherwise those of a ring.
    switched: bool = False
    #: Whether every two ends have a link of their own of this bandwidth, all of which an end can use at once.
    pairwise: bool = False
    efficiency: float = 1.0  #: Share of the bandwidth that large messages reach, above 0 and at most 1.
    source: str = ""  #: Where the numbers come from.

    def __post_init__(self) -> None:
        owner = f"link {self.name!r}"
        check_positive(owner, "bandwidth_bytes_per_s", self.bandwidth_bytes_per_s)
        check_fields(owner, self, "latency_s", "hop_time_s")
        check_fraction(owner, "efficiency", self.efficiency)

    @property
    def achievable_bytes_per_s(self) -> float:
        """Bandwidth that large messages reach: nominal bandwidth times efficiency."""
        return self.bandwidth_bytes_per_s * self.efficiency

    @property
    def per_hop_s(self) -> float:
        """Time of every further hop of a call."""
        return self.latency_s if self.hop_time_s is None else self.hop_time_s


class DeviceSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One kind of device."""

    name: str  #: For example ``A100-80GB``.
    #: FLOP/s by number format (``float32``, ``bfloat16``, …), dense: never the figure with sparsity. ``tf32`` is the
    #: rate of float32 products that may be rounded to TensorFloat-32.
    peak_flops: dict[str, float]
    memory_bandwidth_bytes_per_s: float  #: Nominal bandwidth of its memory.
    memory_bytes: int  #: Physical memory, as the driver reports it.
    link: str  #: Name of the link to other devices of the same machine.
    #: Memory that no plan may use: the driver's context, communication buffers, what the allocator loses. Unless
    #: stated, 5 % of the memory and at least 1 GiB.
    reserved_bytes: int | None = None
    #: Share of the peak that products of the best shape reach, and of the memory bandwidth that large kernels reach,
    #: above 0 and at most 1.
    compute_efficiency: float = 1.0
    memory_efficiency: float = 1.0
    #: The first of the two by number format, for formats whose products reach another share of their peak;
    #: ``float8_mx``
    #: and ``float8_block`` are 8-bit numbers with a scale for a few of them.
    format_efficiency: dict[str, float] = {}
    #: The first of the two for products of 16-bit numbers in kernels written for the device, where the usual ones were
    #: older ones; None for that.
    tuned_efficiency: float | None = None
    #: Part of the rate of other products that those of experts reach, which each have weights of their own.
    grouped_share: float = 1.0
    #: Share of the peak that the best products reach in short runs, before clocks fall; None for a ninth more than
    #: ``compute_efficiency``.
    best_efficiency: float | None = None
    #: The share for products of 16-bit and 8-bit numbers whose rows in memory do not begin at multiples of 16 bytes;
    #: None for a third of ``compute_efficiency``, on a CPU for all of it.
    unaligned_efficiency: float | None = None
    #: Share of the peak that fused attention kernels reach; None for seven tenths of ``compute_efficiency``.
    attention_efficiency: float | None = None
    #: The same of kernels written for the device where the usual ones are older (FlashAttention-3 on Hopper); None for
    #: ``attention_efficiency``.
    tuned_attention_efficiency: float | None = None
    #: Parts of the device that each make one tile of a product at a time; None where shapes do not matter.
    multiprocessors: int | None = None
    #: Time to issue an operator. An accelerator works meanwhile, so that an operator takes this at least; on a CPU it
    #: takes so much longer.
    launch_overhead_s: float = 0.0
    #: Name of the link to the host, and through it to the network; None where it is ``link``.
    host_link: str | None = None
    accelerator: bool = True  #: False for CPUs.
    source: str = ""  #: Where the numbers come from.

    def __post_init__(self) -> None:
        owner = f"device {self.name!r}"
        if "float32" not in self.peak_flops:
            raise InputError(f"{owner}: peak_flops has no float32; state at least that rate")
        for dtype, rate in self.peak_flops.items():
            check_positive(owner, f"peak_flops.{dtype}", rate)
        for field in ("memory_bandwidth_bytes_per_s", "memory_bytes"):
            check_positive(owner, field, getattr(self, field))
        check_fields(owner, self, "reserved_bytes", "launch_overhead_s")
        for field in (
            "compute_efficiency",
            "memory_efficiency",
            "best_efficiency",
            "unaligned_efficiency",
            "attention_efficiency",
            "tuned_attention_efficiency",
            "tuned_efficiency",
            "grouped_share",
        ):
            if getattr(self, field) is not None:
                check_fraction(owner, field, getattr(self, field))
        for dtype, share in self.format_efficiency.items():
            if dtype.partition("_")[0] not in self.peak_flops:
                raise InputError(f"{owner}: format_efficiency names {dtype}, whose rate peak_flops does not state")
            check_fraction(owner, f"format_efficiency.{dtype}", share)
        if self.multiprocessors is not None:
            check_at_least(f"{owner}: multiprocessors", self.multiprocessors)
        if self.reserve_bytes >= self.memory_bytes:
            raise InputError(
                f"{owner}: reserved_bytes {self.reserve_bytes} leaves nothing of memory_bytes {self.memory_bytes}"
            )

    @property
    def reserve_bytes(self) -> int:
        """Memory that no plan may use."""
        return max(GIB, self.memory_bytes // 20) if self.reserved_bytes is None else self.reserved_bytes

    @property
    def usable_bytes(self) -> int:
        """Memory a plan may use: physical memory without the reserve."""
        return self.memory_bytes - self.reserve_bytes

    def of_products(self, dtype: str, *, tuned: bool = False) -> float:
        """Share of the peak of a number format that products of the best shape reach in long runs.

        ``tuned`` says whether kernels are those written for the device.
        """
        stated, usual = self.format_efficiency, self.compute_efficiency
        if tuned and self.tuned_efficiency is not None and dtype in ("bfloat16", "float16"):
            usual = self.tuned_efficiency
        return stated.get(dtype, stated.get(dtype.partition("_")[0], usual))

    @property
    def of_best(self) -> float:
        """Share of the peak that the best products reach in short runs."""
        return min(1.0, self.compute_efficiency / 0.9) if self.best_efficiency is None else self.best_efficiency

    @property
    def of_unaligned(self) -> float:
        """Share of the peak that products reach whose rows are not aligned."""
        share = UNALIGNED_SHARE if self.accelerator else 1.0
        return self.compute_efficiency * share if self.unaligned_efficiency is None else self.unaligned_efficiency

    @property
    def of_attention(self) -> float:
        """Share of the peak that fused attention kernels reach."""
        stated = self.attention_efficiency
        return ATTENTION_SHARE * self.compute_efficiency if stated is None else stated

    @property
    def of_tuned_attention(self) -> float:
        """Share of the peak that attention kernels written for the device reach."""
        stated = self.tuned_attention_efficiency
        return self.of_attention if stated is None else stated

    @property
    def to_host(self) -> str:
        """Name of the link to the host."""
        return self.link if self.host_link is None else self.host_link

    def peak(self, dtype: str) -> float:
        """FLOP/s for a number format.

        A format without an entry runs at the rate of the format it has to be computed in: 8-bit floats in bfloat16 or
        float16, the 16-bit floats, integers and TensorFloat-32 in float32, complex numbers at the rate of their parts.

        Raises ``InputError`` if the format is unknown, or the device does not state what is needed (float64).
        """
        asked = dtype
        if dtype.startswith("float8"):
            dtype = next((d for d in ("float8", "bfloat16", "float16") if d in self.peak_flops), "float32")
        elif dtype.startswith("complex"):
            dtype = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}.get(dtype, dtype)
        if dtype not in self.peak_flops and (dtype in _INTEGERS or dtype in ("float16", "bfloat16", "tf32", "int8")):
            dtype = "float32"
        rate = self.peak_flops.get(dtype)
        if rate is None:
            known = ", ".join(sorted(self.peak_flops))
            raise InputError(
                f"device {self.name!r} states no FLOP/s for {asked}; it knows {known}; add it to peak_flops"
            )
        return rate
