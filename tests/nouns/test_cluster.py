"""Clusters: short forms, files, links between devices, and the JSON round trip."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import numpy as np
import pytest

from partita.costs.strategies.machines import find_machines
from partita.ground.errors import FormatError, InputError
from partita.nouns.cluster import DEFAULT_NETWORK, Cluster, DeviceSpec, LinkSpec, Machine
from partita.nouns.topology.read import read_cluster, topology

#: text, devices in order as (name, number) runs by machine, link of the first machine, network
SPECS = [
    ("A100-80GB", [[("A100-80GB", 1)]], None, DEFAULT_NETWORK),
    ("4xA100-80GB", [[("A100-80GB", 4)]], None, DEFAULT_NETWORK),
    ("4 x a100-80gb", [[("A100-80GB", 4)]], None, DEFAULT_NETWORK),
    ("2x(4xL4)", [[("L4", 4)], [("L4", 4)]], None, DEFAULT_NETWORK),
    ("2xA100-40GB+4xT4", [[("A100-40GB", 2)], [("T4", 4)]], None, DEFAULT_NETWORK),
    ("(2xA100-40GB+1xCPU)", [[("A100-40GB", 2), ("CPU", 1)]], None, DEFAULT_NETWORK),
    ("2x(2xT4+CPU)", [[("T4", 2), ("CPU", 1)], [("T4", 2), ("CPU", 1)]], None, DEFAULT_NETWORK),
    (
        "2x(4xA100-80GB)+8xT4",
        [[("A100-80GB", 4)], [("A100-80GB", 4)], [("T4", 8)]],
        None,
        DEFAULT_NETWORK,
    ),
    ("8xA100-80GB@pcie4", [[("A100-80GB", 8)]], "pcie4", DEFAULT_NETWORK),
    ("2x(4xL4)@PCIE3", [[("L4", 4)], [("L4", 4)]], "pcie3", DEFAULT_NETWORK),
    ("2x(4xL4@pcie3):infiniband-ndr", [[("L4", 4)], [("L4", 4)]], "pcie3", "infiniband-ndr"),
    ("2x(4xL4):ethernet25", [[("L4", 4)], [("L4", 4)]], None, "ethernet-25g"),
    ("2xH200", [[("H200-141GB", 2)]], None, DEFAULT_NETWORK),
    ("2x4090", [[("RTX4090", 2)]], None, DEFAULT_NETWORK),
    ("rtx_4090", [[("RTX4090", 1)]], None, DEFAULT_NETWORK),
]

#: malformed text, and what its message must say
MALFORMED = [
    ("", "empty"),
    ("   ", "empty"),
    ("4x", "names no device"),
    ("4", "names no device"),
    ("x4", "does not begin with a count"),
    ("0xL4", "count 0"),
    ("0x(2xL4)", "count 0"),
    ("-1xL4", "does not begin with a count"),
    ("4xL4+", "missing beside"),
    ("+4xL4", "missing beside"),
    ("(4xL4", "never closed"),
    ("4xL4)", 'without a "("'),
    ("()", "nothing between"),
    ("2x()", "nothing between"),
    ("2x((4xL4))", "cannot hold machines"),
    ("2(4xL4)", "not a count"),
    ("2x(4xL4)8xT4", "join machines"),
    ("4xL4@", "link is missing"),
    ("4xL4@pcie3@pcie4", "two links"),
    ("(2xL4@pcie3+2xT4@pcie4)", "one link"),
    ("(2xL4@pcie3)@pcie4", "one link"),
    ("4xL4@token-ring", "no link 'token-ring'"),
    ("2x(4xL4):", "link is missing"),
    ("4xL4:pcie3+4xT4", "not a link"),
    ("4xA100", "A100-40GB or A100-80GB"),
    ("4xH100", "H100-80GB or H100-PCIE"),
    ("V100", "V100-16GB or V100-32GB"),
    ("4xA100-90GB", "did you mean A100-40GB or A100-80GB"),
    ("4xRTX4080", "RTX4090"),
    ("999999999999999xL4", "at most"),
    ("4,L4", "no device '4,L4'"),
]


@pytest.mark.parametrize(("text", "machines", "link", "network"), SPECS)
def test_a_short_form_is_read(text: str, machines: list[list[tuple[str, int]]], link: str | None, network: str) -> None:
    cluster = Cluster.from_spec(text)
    assert [list(machine.devices) for machine in cluster.machines] == machines
    assert cluster.machines[0].link == link
    assert cluster.network == network


@pytest.mark.parametrize(("text", "message"), MALFORMED)
def test_a_malformed_short_form_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        Cluster.from_spec(text)
    assert message in str(caught.value)


@pytest.mark.parametrize("text", [row[0] for row in SPECS])
def test_json_round_trip_needs_no_catalogue(text: str, tmp_path: Path) -> None:
    cluster = Cluster.from_spec(text)
    path = tmp_path / "cluster.json"
    path.write_text(cluster.to_json(), encoding="utf-8")
    document = json.loads(cluster.to_json())
    assert (document["format"], document["version"]) == ("partita.cluster", 1)
    assert Cluster.read(path) == cluster
    assert read_cluster(str(path)) == cluster


def test_devices_are_numbered_through_the_machines() -> None:
    cluster = Cluster.from_spec("2x(2xL4+CPU)+1xT4")
    assert cluster.device_names() == ["L4", "L4", "CPU", "L4", "L4", "CPU", "T4"]
    assert cluster.machine_of() == [0, 0, 0, 1, 1, 1, 2]
    assert cluster.device_count == 7
    assert [(g.spec.name, g.indices) for g in cluster.groups()] == [("L4", (0, 1, 3, 4)), ("CPU", (2, 5)), ("T4", (6,))]


def make_cluster(machines: tuple[Machine, ...], **changes: object) -> Cluster:
    """Accelerators A and B with links of 100 and 40 bytes/s and host links of 10 and 20, a CPU, a network of 15."""
    links = {
        name: LinkSpec(name=name, bandwidth_bytes_per_s=speed, latency_s=latency)
        for name, speed, latency in (
            ("fast", 100.0, 1.0),
            ("middle", 40.0, 2.0),
            ("ten", 10.0, 3.0),
            ("twenty", 20.0, 4.0),
            ("memory", 50.0, 0.5),
            ("net", 15.0, 9.0),
        )
    }
    devices = {
        name: DeviceSpec(
            name=name,
            peak_flops={"float32": 1.0},
            memory_bandwidth_bytes_per_s=1.0,
            memory_bytes=2 * 1024**3,
            link=link,
            host_link=host,
            accelerator=name != "CPU",
        )
        for name, link, host in (("A", "fast", "ten"), ("B", "middle", "twenty"), ("CPU", "memory", None))
    }
    values = {"name": "test", "machines": machines, "network": "net", "devices": devices, "links": links}
    return Cluster(**{**values, **changes})  # type: ignore[arg-type]


def test_bandwidth_is_the_smallest_on_the_way() -> None:
    cluster = make_cluster((Machine(devices=(("A", 2), ("B", 1), ("CPU", 1))), Machine(devices=(("B", 1),))))
    inf = np.inf
    expected = [
        # A0, A1: their own link; A, B: the slower of 100 and 40; A, CPU: the host link of A
        [inf, 100, 40, 10, 10],
        [100, inf, 40, 10, 10],
        # B, CPU: min(20, 50); B to B: host link 20, network 15, host link 20
        [40, 40, inf, 20, 15],
        [10, 10, 20, inf, 15],
        [10, 10, 15, 15, inf],
    ]
    assert cluster.bandwidth_bytes_per_s().tolist() == expected
    for i in range(5):
        for j in range(5):
            if i != j:
                assert cluster.path(i, j).bandwidth_bytes_per_s == expected[i][j]
    assert cluster.path(0, 4).link == "ten"
    assert cluster.path(0, 4).latency_s == 9.0


def test_a_machines_link_replaces_that_of_its_accelerators_only() -> None:
    cluster = make_cluster((Machine(devices=(("A", 2), ("CPU", 1)), link="middle"),))
    assert cluster.bandwidth_bytes_per_s()[0].tolist() == [np.inf, 40, 10]


def test_efficiency_lowers_bandwidth() -> None:
    cluster = make_cluster((Machine(devices=(("A", 2),)),))
    half = LinkSpec(name="fast", bandwidth_bytes_per_s=100.0, efficiency=0.5)
    cluster = make_cluster(cluster.machines, links={**cluster.links, "fast": half})
    assert cluster.bandwidth_bytes_per_s()[0, 1] == 50


def test_a_cpu_does_not_slow_accelerators_down() -> None:
    cluster = make_cluster((Machine(devices=(("A", 2), ("CPU", 1))),))
    accelerators, cpu = cluster.groups()
    slow = cluster.slowest_path(accelerators)
    assert slow is not None
    assert (slow.link, slow.bandwidth_bytes_per_s, slow.latency_s) == ("fast", 100, 1)
    slow = cluster.slowest_path(cpu)
    assert slow is not None
    assert (slow.link, slow.bandwidth_bytes_per_s, slow.latency_s) == ("ten", 10, 3)


def test_a_lone_accelerator_talks_to_the_cpu() -> None:
    cluster = make_cluster((Machine(devices=(("A", 1), ("CPU", 1))),))
    slow = cluster.slowest_path(cluster.groups()[0])
    assert slow is not None
    assert slow.bandwidth_bytes_per_s == 10


def test_a_single_device_talks_to_nobody() -> None:
    cluster = Cluster.from_spec("A100-80GB")
    assert cluster.slowest_path(cluster.groups()[0]) is None


@pytest.mark.parametrize("text", ["4xA100-80GB", "3x(2xL4+CPU)+2x(T4)", "2x(4xL4)@pcie3:ndr", "(A10+CPU)+(2xCPU)+8xT4"])
def test_the_slowest_path_is_the_smallest_entry_of_the_matrix(text: str) -> None:
    cluster = Cluster.from_spec(text)
    matrix, names = cluster.bandwidth_bytes_per_s(), cluster.device_names()
    accelerators = [i for i, name in enumerate(names) if cluster.devices[name].accelerator]
    for group in cluster.groups():
        peers = accelerators if group.spec.accelerator and len(accelerators) > 1 else list(range(len(names)))
        path = cluster.slowest_path(group)
        assert path is not None
        assert path.bandwidth_bytes_per_s == matrix[np.ix_(group.indices, peers)].min()


@pytest.mark.parametrize("text", ["4xA100-80GB", "3x(2xL4+CPU)+2x(T4)", "2x(4xL4)@pcie3:ndr", "(A10+CPU)+(2xCPU)+8xT4"])
def test_the_slowest_path_inside_is_the_smallest_entry_between_devices_of_a_machine(text: str) -> None:
    cluster = Cluster.from_spec(text)
    matrix, machine = cluster.bandwidth_bytes_per_s(), cluster.machine_of()
    accelerator = [cluster.devices[name].accelerator for name in cluster.device_names()]
    for group in cluster.groups():
        ends = []
        for device in group.indices:
            near = [i for i in range(len(machine)) if machine[i] == machine[device] and i != device]
            alike = [i for i in near if accelerator[i] and accelerator[device]]
            ends += [matrix[device, i] for i in alike or near]
        path = cluster.slowest_path(group, inside=True)
        assert (None if path is None else path.bandwidth_bytes_per_s) == min(ends, default=None)


def test_a_matrix_replaces_the_links() -> None:
    matrix = ((0.0, 7.0), (8.0, 0.0))
    cluster = make_cluster((Machine(devices=(("A", 2),)),), matrix_bytes_per_s=matrix)
    assert cluster.bandwidth_bytes_per_s().tolist() == [[np.inf, 7], [8, np.inf]]
    slow = cluster.slowest_path(cluster.groups()[0])
    assert slow is not None
    assert (slow.link, slow.bandwidth_bytes_per_s) == ("bandwidth matrix", 7)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"machines": ()}, "no devices"),
        ({"machines": (Machine(devices=(("A", 0),)),)}, "count 0"),
        ({"machines": (Machine(devices=(("C", 1),)),)}, "'C' is not among its devices"),
        ({"machines": (Machine(devices=(("A", 1),), link="x"),)}, "'x' is not among its links"),
        ({"machines": (Machine(devices=(("A", 999999),)),)}, "at most 131072"),
        ({"network": "x"}, "'x' is not among its links"),
        ({"matrix_bytes_per_s": ((0.0,),)}, "2 rows and columns"),
        ({"matrix_bytes_per_s": ((0.0, 1.0), (-1.0, 0.0))}, "from device 1 to 0 is -1.0"),
    ],
)
def test_an_inconsistent_cluster_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as caught:
        make_cluster(**{"machines": (Machine(devices=(("A", 2),)),), **changes})  # type: ignore[arg-type]
    assert message in str(caught.value)


def test_equal_specs_under_two_names_are_one_group() -> None:
    cluster = make_cluster((Machine(devices=(("A", 1), ("B", 1))),))
    twin = msgspec.structs.replace(cluster.devices["A"], name="A2", source="elsewhere")
    machines = (Machine(devices=(("A", 1), ("B", 1), ("A2", 1))),)
    cluster = make_cluster(machines, devices={**cluster.devices, "A2": twin})
    assert [(g.spec.name, g.indices) for g in cluster.groups()] == [("A", (0, 2)), ("B", (1,))]


TOML = """
name = "lab"
network = "cable"
[[machines]]
count = 2
devices = "4xBIG + 1xCPU"
link = "pcie4"
[[machines]]
devices = "2xT4"
[devices.BIG]
base = "a100-80gb"
reserved_bytes = 4294967296
peak_flops = { float32 = 1e13 }
[devices.T4]
memory_bytes = 1e10
[links.cable]
base = "ethernet-10g"
efficiency = 0.5
"""


def test_a_file_overrides_the_catalogue(tmp_path: Path) -> None:
    path = tmp_path / "lab.toml"
    path.write_text(TOML, encoding="utf-8")
    cluster = read_cluster(str(path))
    assert cluster.name == "lab"
    assert [m.devices for m in cluster.machines] == [(("BIG", 4), ("CPU", 1))] * 2 + [(("T4", 2),)]
    big = cluster.devices["BIG"]
    assert big.memory_bytes == 81920 * 1024**2
    assert big.usable_bytes == 81920 * 1024**2 - 4 * 1024**3
    assert (big.peak_flops["float32"], big.peak_flops["bfloat16"]) == (1e13, 312e12)
    assert cluster.devices["T4"].memory_bytes == 10**10
    # 10 Gbit/s are 1.25e9 bytes/s, half of which is reached.
    assert cluster.links[cluster.network].achievable_bytes_per_s == 0.625e9
    path = tmp_path / "again.json"
    path.write_text(cluster.to_json(), encoding="utf-8")
    assert Cluster.read(path) == cluster


def test_a_file_may_hold_a_short_form_and_a_matrix(tmp_path: Path) -> None:
    path = tmp_path / "pair.json"
    path.write_text(json.dumps({"cluster": "2xL4", "bandwidth_bytes_per_s": [[0, 1e9], [2e9, 0]]}), encoding="utf-8")
    cluster = Cluster.read(path)
    assert cluster.name == "pair"
    assert cluster.bandwidth_bytes_per_s()[0, 1] == 1e9


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("machine = 1", FormatError, "unknown key 'machine'; valid keys are name, cluster, machines"),
        ("name = 'x'", FormatError, "state either machines or cluster"),
        ("cluster = 'L4'\nmachines = []", FormatError, "state either machines or cluster"),
        ("cluster = 4", FormatError, "cluster must be text"),
        ("cluster = '4xL4'\nnetwork = 4", FormatError, "network must be text"),
        ("cluster = '4xL4:ndr'\nnetwork = 'hdr'", FormatError, "network is stated twice"),
        ("machines = []", FormatError, "at least one entry"),
        ("machines = ['L4']", FormatError, "must be a table"),
        ("machines = [{count = 2}]", FormatError, "no devices"),
        ("machines = [{devices = 'L4', count = 0}]", FormatError, "count of a machine is 0"),
        ("machines = [{devices = 'L4', speed = 1}]", FormatError, "unknown key 'speed'; valid keys are count"),
        ("machines = [{devices = 'L4@pcie3', link = 'pcie4'}]", FormatError, "stated twice"),
        ("machines = [{devices = '2xL4', count = 1000000000000}]", InputError, "at most 131072"),
        ("machines = [{devices = '2xL4:ndr'}]", InputError, "the network belongs to the cluster"),
        ("machines = [{devices = 'L5'}]", InputError, "there is no device 'L5'"),
        ("cluster = 'X'\n[devices.X]\nmemory_bytes = 1", InputError, "missing"),
        ("cluster = 'X'\n[devices.X]\nbase = 'L5'", InputError, "there is no device 'L5'"),
        ("cluster = 'X'\n[devices.X]\nbase = 'L4'\nflops = 1", FormatError, "unknown key 'flops'; valid keys are base"),
        ("cluster = 'X'\n[devices.X]\nbase = 'L4'\nmemory_bytes = 'big'", FormatError, "devices.X"),
        ("cluster = 'X'\n[devices.X]\nbase = 'L4'\nmemory_bytes = -1", InputError, "must be finite and positive"),
        ("cluster = 'X'\n[devices.X]\nbase = 'L4'\nlink = 'rope'", InputError, "there is no link 'rope'"),
        ("cluster = 'L4'\n[links.x]\nlatency_s = 1", InputError, "bandwidth_bytes_per_s missing"),
        ("cluster = 'L4'\n[devices]\nX = 3", FormatError, "must be a table of values"),
        ("cluster = '2xL4'\nbandwidth_bytes_per_s = [[1]]", InputError, "2 rows and columns"),
        ("cluster = '2xL4'\nbandwidth_bytes_per_s = ['a']", FormatError, "rows of numbers"),
        ("format = 'partita.graph'", FormatError, "format is 'partita.graph'"),
        ("format = 'partita.cluster'\nversion = 9", FormatError, "version is 9"),
        ("format = 'partita.cluster'\nversion = 1\nx = 1", FormatError, "unknown key 'x'; valid keys are format"),
        ("format = 'partita.cluster'\nversion = 1", FormatError, "missing required field"),
        ("cluster = ", FormatError, "not valid TOML"),
    ],
)
def test_a_wrong_file_is_refused(text: str, error: type[Exception], message: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(error) as caught:
        read_cluster(str(path))
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_an_unreadable_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such file"):
        read_cluster(str(tmp_path / "none.toml"))
    path = tmp_path / "list.json"
    path.write_text("[1]", encoding="utf-8")
    with pytest.raises(FormatError, match="must hold a table"):
        read_cluster(path)
    path.write_bytes(b"\xff")
    with pytest.raises(FormatError, match="UTF-8"):
        read_cluster(path)


CARDS = """
network = "infiniband-hdr"
{top}
[[machines]]
count = 2
devices = "8xA100-80GB"
{own}
"""


@pytest.mark.parametrize(
    ("top", "own", "cards"), [("", "", 8), ("nics = 4", "", 4), ("", "nics = 2", 2), ("nics = 4", "nics = 16", 16)]
)
def test_machines_share_their_network_cards(tmp_path: Path, top: str, own: str, cards: int) -> None:
    path = tmp_path / "cluster.toml"
    path.write_text(CARDS.format(top=top, own=own))
    cluster = Cluster.read(path)
    # 22.5 GB/s for each card of 200 Gbit/s; a device has its share of them, up to its own link of 25.2 GB/s.
    assert cluster.machine_network_bytes_per_s(0) == cards * 22.5e9
    assert cluster.path(0, 8).bandwidth_bytes_per_s == min(cards * 22.5e9 / 8, 25.2064e9)
    assert cluster.bandwidth_bytes_per_s()[0, 8] == cluster.path(0, 8).bandwidth_bytes_per_s
    assert cluster.path(0, 1).bandwidth_bytes_per_s == 240e9
    assert Cluster.from_document(json.loads(cluster.to_json()), where="copy") == cluster


@pytest.mark.parametrize("value", ["0", "-1", "true", "'two'"])
def test_network_cards_are_counted(tmp_path: Path, value: str) -> None:
    path = tmp_path / "cluster.toml"
    path.write_text(CARDS.format(top="", own=f"nics = {value}"))
    with pytest.raises(FormatError, match=r"nics of a machine is .* at least 1"):
        Cluster.read(path)


def test_a_machine_is_its_cards_and_its_host_links() -> None:
    def between(text: str) -> tuple[float | None, str]:
        found = find_machines(Cluster.from_spec(text))
        return found.machine_bandwidth_bytes_per_s, " ".join(found.notes)

    assert between("8x(8xA100-80GB):infiniband-hdr")[0] == 180e9
    # Cards of 45 GB/s behind host links of 25.2 GB/s: the plan says what limits them.
    rate, note = between("2x(8xA100-80GB):infiniband-ndr")
    assert rate == pytest.approx(8 * 25.2064e9)
    assert "8 network cards (infiniband-ndr) of 45 GB/s each, limited by its devices' links to the host" in note
    # CPUs have no cards of their own.
    assert between("2x(2xL4+CPU):ethernet-25g")[0] == 2 * 0.9 * 3.125e9


def test_memory_of_own_devices_with_a_unit(tmp_path: Path) -> None:
    path = tmp_path / "lab.toml"
    path.write_text(
        'cluster = "2xBIG"\n[devices.BIG]\nbase = "A100-80GB"\nmemory_bytes = "90GiB"\nreserved_bytes = "2GB"\n'
    )
    spec = Cluster.read(path).devices["BIG"]
    assert (spec.memory_bytes, spec.reserved_bytes) == (90 * 2**30, 2 * 10**9)
    path.write_text('cluster = "2xBIG"\n[devices.BIG]\nbase = "A100-80GB"\nmemory_bytes = "much"\n')
    with pytest.raises(FormatError, match="memory_bytes 'much' is no number of bytes; write for example 80GB"):
        Cluster.read(path)


@pytest.mark.parametrize(
    ("text", "count", "remedy"),
    [
        ("dgx1:300", 2400, "300x(8xH100-80GB)"),
        ("uniform:2049:device=L4", 2049, "257x(8xH100-80GB)"),
        ("(1000xL4+1000xCPU)+49x(L4+CPU)", 2098, "263x(8xH100-80GB)"),
    ],
)
def test_the_remedy_for_too_many_devices_is_one(text: str, count: int, remedy: str) -> None:
    """What is recommended has as many devices as were asked for, and can be planned for."""
    with pytest.raises(
        InputError, match="at most 2048: take a part of it, or a cluster of machines that are alike"
    ) as found:
        topology(text)
    assert f"{remedy}:infiniband-ndr" in str(found.value)
    assert 0 <= read_cluster(remedy).device_count - count < 8


def test_nothing_is_no_topology() -> None:
    for text in ("", "  ", ":1", ":device=L4"):
        with pytest.raises(InputError) as found:
            read_cluster(text)
        assert "flat" not in str(found.value).split("neither a file")[0]
