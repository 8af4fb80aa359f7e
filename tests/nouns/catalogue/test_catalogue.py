"""The shipped catalogue: its numbers, its names, and that each says where it comes from."""

from __future__ import annotations

import pytest

from partita.ground.errors import InputError
from partita.nouns.catalogue.loader import load_catalogue
from partita.nouns.catalogue.specs import DeviceSpec, LinkSpec

DEVICES = load_catalogue().devices
LINKS = load_catalogue().links

#: dense peaks as the data sheets print them
PEAKS = [
    ("A100-40GB", "bfloat16", 312e12),
    ("A100-80GB", "bfloat16", 312e12),
    ("A100-80GB", "float32", 19.5e12),
    ("A100-80GB", "tf32", 156e12),
    ("H100-80GB", "bfloat16", 989e12),
    ("H100-80GB", "float8", 1979e12),
    ("H100-PCIE", "float16", 756e12),
    ("H200-141GB", "float16", 989e12),
    ("B200", "bfloat16", 2250e12),
    ("L4", "float16", 121e12),
    ("L40S", "float16", 362e12),
    ("T4", "float16", 65e12),
    ("V100-16GB", "float16", 125e12),
    ("V100-32GB", "float16", 125e12),
    ("RTX4090", "float16", 165e12),
    ("RTX3090", "float16", 71e12),
    ("A10", "float16", 125e12),
    ("A6000", "float16", 155e12),
    ("MI300X", "float16", 1307e12),
    ("MI250X", "float16", 191.5e12),
    ("Orin-64GB", "int8", 85e12),
    ("Orin-Nano-8GB", "int8", 20e12),
]


@pytest.mark.parametrize(("device", "dtype", "peak"), PEAKS)
def test_peaks_are_dense(device: str, dtype: str, peak: float) -> None:
    assert DEVICES[device].peak(dtype) == pytest.approx(peak, rel=2e-3)


@pytest.mark.parametrize(
    ("device", "bandwidth", "gib"),
    [
        ("A100-40GB", 1555e9, 40),
        ("A100-80GB", 2039e9, 80),
        ("H100-80GB", 3350e9, 79.6),
        ("H200-141GB", 4800e9, 140.4),
        ("L4", 300e9, 22.5),
        ("L40S", 864e9, 45),
        ("T4", 320e9, 15),
        ("V100-16GB", 900e9, 15.8),
        ("RTX4090", 1008e9, 24),
    ],
)
def test_memory(device: str, bandwidth: float, gib: float) -> None:
    spec = DEVICES[device]
    assert spec.memory_bandwidth_bytes_per_s == bandwidth
    assert spec.memory_bytes / 1024**3 == pytest.approx(gib, rel=5e-3)
    # A twentieth stays free, and 1 GiB of small devices.
    assert spec.usable_bytes == spec.memory_bytes - max(1024**3, spec.memory_bytes // 20)


@pytest.mark.parametrize("spec", DEVICES.values(), ids=lambda spec: spec.name)
def test_every_device_is_plausible(spec: DeviceSpec) -> None:
    assert spec.source
    assert {spec.link, spec.to_host} <= LINKS.keys()
    assert spec.memory_bytes % 2**20 == 0
    assert 0.4 <= spec.compute_efficiency <= 0.9
    assert 0.6 <= spec.memory_efficiency <= 0.9
    for dtype in ("float64", "float32", "float16", "bfloat16", "tf32", "int8", "int64", "float8_e4m3fn", "complex64"):
        assert spec.peak(dtype) > 0
    assert spec.peak("float64") <= spec.peak("float32") <= spec.peak("float16")
    # No dense half-precision rate is more than 32 times the float32 rate: one that is has sparsity counted in.
    assert spec.peak("float16") <= 32 * spec.peak("float32")


@pytest.mark.parametrize("spec", LINKS.values(), ids=lambda spec: spec.name)
def test_every_link_is_plausible(spec: LinkSpec) -> None:
    assert spec.source
    assert 0.1e9 < spec.bandwidth_bytes_per_s < 1e12
    assert 0 < spec.latency_s < 1e-3


def test_formats_without_hardware_run_as_what_they_are_computed_in() -> None:
    t4 = DEVICES["T4"]
    assert t4.peak("bfloat16") == t4.peak("float32") == 8.1e12
    assert t4.peak("tf32") == 8.1e12
    # 8-bit floats are computed in bfloat16 where there is no faster way, and a T4 does that in float32.
    assert t4.peak("float8_e5m2") == 8.1e12
    assert DEVICES["A100-80GB"].peak("float8_e4m3fn") == 312e12


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(InputError, match=r"states no FLOP/s for quint4.*it knows bfloat16"):
        DEVICES["T4"].peak("quint4")


def test_names_are_looked_up_leniently_but_never_guessed() -> None:
    catalogue = load_catalogue()
    assert catalogue.device("l40s").name == "L40S"
    assert catalogue.device("A100_80GB").name == "A100-80GB"
    assert catalogue.device("A10").name == "A10"
    assert catalogue.link("PCIe4").name == "pcie4"
    assert catalogue.link("NDR").name == "infiniband-ndr"
    with pytest.raises(InputError, match="A100-40GB or A100-80GB"):
        catalogue.device("a100")
    with pytest.raises(InputError, match="ambiguous"):
        catalogue.link("ethernet")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"peak_flops": {"float16": 1.0}}, "no float32"),
        ({"peak_flops": {"float32": 0.0}}, "peak_flops.float32 is 0"),
        ({"memory_bandwidth_bytes_per_s": float("nan")}, "memory_bandwidth_bytes_per_s is nan"),
        ({"compute_efficiency": 1.5}, "above 0 and at most 1"),
        ({"memory_efficiency": 0.0}, "above 0 and at most 1"),
        ({"launch_overhead_s": -1.0}, "must be finite and not negative"),
        ({"memory_bytes": 1024**3}, "leaves nothing"),
    ],
)
def test_an_impossible_device_is_refused(change: dict[str, object], message: str) -> None:
    values: dict[str, object] = {
        "name": "X",
        "peak_flops": {"float32": 1.0},
        "memory_bandwidth_bytes_per_s": 1.0,
        "memory_bytes": 2 * 1024**3,
        "link": "pcie4",
    }
    with pytest.raises(InputError) as caught:
        DeviceSpec(**{**values, **change})  # type: ignore[arg-type]
    assert message in str(caught.value)
