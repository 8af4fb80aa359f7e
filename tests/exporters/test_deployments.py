"""Deployments for engines that serve: what is written reads back as the plan; what an engine cannot do is refused."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from exporters.random_deployments import random_deployment
from exporters.readers.serve import Read, calls, read_sglang, read_vllm
from partita.exporters import find_deployment_exporter, find_exporter
from partita.exporters.serve_flags import SGLANG, VLLM, FlagError, read_flags
from partita.exporters.unit_places import placed_units
from partita.ground.errors import InputError, UnsupportedError
from partita.nouns.deployment import DeployedUnits, Deployment

SEEDS = 300
#: Of these at least so many are taken.
TAKEN = {"vllm-serve": 60, "sglang": 60, "dynamo": 40}
READERS = {"vllm-serve": read_vllm, "sglang": read_sglang}

USUAL = DeployedUnits(
    kind="L4",
    count=1,
    tensor=2,
    requests=256,
    tokens=8192,
    block_tokens=16,
    engine="vllm",
    weights="bf16",
    cache="bf16",
)


def deployed(*units: DeployedUnits, machines: Sequence[int] = (4,), **how: Any) -> Deployment:
    """Units on machines with so many L4 each."""
    return Deployment(name="a model", units=units, machines=tuple((("L4", n),) for n in machines), longest=4500, **how)


def changed(**how: Any) -> DeployedUnits:
    return msgspec.structs.replace(USUAL, **how)


def is_of(group: DeployedUnits, read: Read, longest: int) -> bool:
    """Whether a unit that was read can be one of a group."""
    known = group.weights is not None
    return (
        (read.role, read.tensor, read.pipeline, read.attention_data)
        == (group.role, group.tensor, group.pipeline, group.attention_data)
        and read.expert == (group.expert or 1)
        and (read.requests, read.tokens, read.block_tokens) == (group.requests, group.tokens, group.block_tokens)
        and (read.chunked, read.mixed, read.longest) == (group.chunked, group.mixed, longest)
        and read.memory_share == group.memory_share
        and (not known or (group.weights in (read.weights or ()) and read.cache == group.cache))
        and (not known or group.expert is None or group.of_experts in (read.experts or ()))
    )


def check_units(deployment: Deployment, found: Sequence[Read]) -> None:
    """The units are those of the plan, each group as often as it says."""
    left = [group for group in deployment.units for _ in range(group.count)]
    for read in found:
        match = next((group for group in left if is_of(group, read, deployment.longest)), None)
        assert match is not None, (read, left)
        left.remove(match)
    assert not left


def check_script(name: str, deployment: Deployment, script: Path) -> None:
    """Run on every machine, with programs that say what they got: units, cards, ports and addresses."""
    machines = len(deployment.machines)
    used: set[tuple[int, int]] = set()
    ports: set[tuple[int, int]] = set()
    parts: dict[Any, list[tuple[int, int, Read, int]]] = defaultdict(list)
    for machine, cards in enumerate(deployment.machines):
        kinds = [kind for kind, count in cards for _ in range(count)]
        names = [{"H100-80GB": "NVIDIA H100 80GB HBM3"}.get(kind, f"NVIDIA {kind.replace('-', ' ')}") for kind in kinds]
        for order, visible, handover, host, *words in calls(script, machine, machines, "model", "--extra", cards=names):
            lead = (
                ["vllm", "serve"] if name == "vllm-serve" else ["python3", "-m", "sglang.launch_server", "--model-path"]
            )
            assert words[: len(lead) + 1] == [*lead, "model"]
            assert words[-1] == "--extra"
            read, given = READERS[name](words[len(lead) + 1 : -1])
            assert order == "PCI_BUS_ID"
            own = [int(number) for number in visible.split(",")]
            assert len({kinds[number] for number in own}) == 1
            assert not used & {(machine, number) for number in own}
            used |= {(machine, number) for number in own}
            rank, meeting = given["node_rank"] or 0, given.get("dist_init_addr")
            if name == "vllm-serve":
                assert (handover != "") == (read.role != "both")
                assert host == (f"host{machine}" if handover and machines > 1 else "")
                if given["nnodes"]:
                    meeting = f"{given['master_addr']}:{given['master_port']}"
                elif given["data_parallel_address"]:
                    meeting = f"{given['data_parallel_address']}:{given['data_parallel_rpc_port']}"
                    rank = (given["data_parallel_start_rank"] or 0) // given["data_parallel_size_local"]
                assert bool(given["headless"]) == (rank > 0)
            for taken in {given["port"], *([int(handover)] if handover else [])} - {None}:
                assert (machine, taken) not in ports
                ports.add((machine, taken))
            assert (given["port"] is None) == (rank > 0)
            parts[meeting or (machine, given["port"])].append((rank, machine, read, len(own)))
    for meeting, each in parts.items():
        ranks, places, reads, counts = zip(*sorted(each), strict=True)
        assert ranks == tuple(range(len(each)))
        assert len(set(reads)) == len(set(counts)) == 1
        assert sum(counts) == reads[0].tensor * reads[0].pipeline * reads[0].attention_data
        if isinstance(meeting, str):
            assert len(each) > 1
            assert meeting.startswith(f"host{places[0]}:")
    check_units(deployment, [each[0][2] for each in parts.values()])


def check_graph(deployment: Deployment, path: Path) -> None:
    """A DynamoGraphDeployment of v1beta1: components with types, replicas, nodes and cards."""
    document = yaml.safe_load(path.read_text())
    assert set(document) == {"apiVersion", "kind", "metadata", "spec"}
    assert (document["apiVersion"], document["kind"]) == ("nvidia.com/v1beta1", "DynamoGraphDeployment")
    spec = document["spec"]
    assert spec["env"] == [{"name": "MODEL", "value": "org/model"}]
    engine = spec["backendFramework"]
    front, *workers = spec["components"]
    assert (front["type"], front["replicas"]) == ("frontend", 1)
    assert len({component["name"].lower() for component in spec["components"]}) == len(spec["components"]) <= 25
    found = []
    for component, group in zip(workers, deployment.units, strict=True):
        assert set(component) <= {"name", "type", "replicas", "podTemplate", "multinode"}
        (main,) = component["podTemplate"]["spec"]["containers"]
        assert main["command"] == ["python3", "-m", f"dynamo.{engine}"]
        assert main["image"].startswith(f"nvcr.io/nvidia/ai-dynamo/{engine}-runtime:")
        words = main["args"]
        assert words[:2] == ["--model" if engine == "vllm" else "--model-path", "$(MODEL)"]
        assert all(isinstance(word, str) for word in words)
        rest = words[2:]
        if engine == "vllm" and group.role != "both":
            assert rest[:2] == ["--disaggregation-mode", component["type"]]
            rest = rest[2:]
        read, _ = (read_vllm if engine == "vllm" else read_sglang)(rest)
        assert component["type"] == {"both": "worker"}.get(read.role, read.role)
        nodes = component.get("multinode", {"nodeCount": 1})["nodeCount"]
        assert nodes >= 2 or "multinode" not in component
        assert nodes * int(main["resources"]["limits"]["nvidia.com/gpu"]) == group.devices
        assert ("nodeSelector" in component["podTemplate"]["spec"]) == (len(deployment.kinds) > 1)
        found += [read] * component["replicas"]
    check_units(deployment, found)


@pytest.mark.parametrize("name", list(TAKEN))
def test_what_is_exported_reads_back_as_the_plan(name: str, tmp_path: Path) -> None:
    """Random groups, roles, degrees, formats and machines; what was taken is not only the simplest."""
    exporter, found, refusals = find_deployment_exporter(name), Counter[str](), list[str]()
    for seed in range(SEEDS):
        deployment, out = random_deployment(seed), tmp_path / f"{seed}.out"
        try:
            exporter.export(deployment, out, "org/model" if name == "dynamo" else None)
        except UnsupportedError as error:
            refusals.append(str(error))
            assert not out.exists()
            continue
        check_graph(deployment, out) if name == "dynamo" else check_script(name, deployment, out)
        found["taken"] += 1
        found["split"] += deployment.split
        found["several kinds"] += len(deployment.kinds) > 1
        found["experts"] += any((group.expert or 1) > 1 for group in deployment.units)
        found["groups"] += any(group.attention_data > 1 for group in deployment.units)
        found["spaced"] += any(group.interval > 1 for group in deployment.units)
        found["apart"] += any(group.attention_data > 1 and group.apart for group in deployment.units)
        if name != "dynamo":
            found["several machines"] += any(len(unit.cards) > 1 for unit in placed_units(deployment))
    assert all(text.startswith(f"{name} cannot run this plan: ") for text in refusals)
    found["refused"] = len(refusals)
    print(name, dict(found))
    assert found["taken"] >= TAKEN[name], found
    for what in ("refused", "split", "several kinds", "experts", "groups", "apart"):
        assert found[what] >= 5, (what, found)
    assert name == "dynamo" or found["several machines"] >= 5


@pytest.mark.parametrize(
    ("name", "deployment", "reason"),
    [
        (
            "vllm",
            deployed(changed(mixed=False)),
            "vllm mixes prompts and decodes, and the plan's units run prompts alone",
        ),
        ("vllm", deployed(changed(reserves=True)), "vllm keeps no room for outputs"),
        (
            "vllm",
            deployed(changed(requests=512, tokens=256)),
            "at least a token in a step for each request; the plan 256",
        ),
        (
            "vllm",
            deployed(changed(tensor=4, expert=2, expert_tensor=2)),
            "whole over all 4 devices of a stage, or cuts each into 4 parts, and the plan has expert degree 2",
        ),
        ("vllm", deployed(changed(weights="mxfp4")), "vllm has no quantization for weights in mxfp4"),
        ("vllm", deployed(changed(cache="mxfp4")), "vllm has no cache in mxfp4, only in bf16, fp16"),
        (
            "vllm",
            deployed(changed(expert=1, expert_tensor=2, expert_weights="int4")),
            "one quantization, and the plan has weights in bf16 and experts in int4",
        ),
        (
            "vllm",
            deployed(changed(chunked=False, tokens=4096)),
            "steps of 4096 tokens are too small for requests of 4500",
        ),
        ("vllm", deployed(changed(role="prefill")), "units for prefill and none for decode"),
        (
            "vllm",
            deployed(changed(role="prefill"), changed(role="decode", cache="fp8")),
            "hands caches on as they are, and units for prefill and decode have them in bf16 and in fp8",
        ),
        (
            "vllm",
            deployed(changed(role="prefill"), changed(role="decode", weights="fp16")),
            "hands caches on within one dtype, and the units have bfloat16 and float16",
        ),
        (
            "vllm",
            deployed(changed(role="prefill"), changed(role="decode", tensor=1, pipeline=2)),
            "NixlConnector fills units of one stage only, and those for decode have 2",
        ),
        (
            "vllm",
            deployed(changed(tensor=2, attention_data=3, expert=6, expert_tensor=1), machines=(3, 3)),
            "vllm has whole data-parallel ranks on each machine",
        ),
        (
            "vllm",
            deployed(changed(count=3)),
            r"unit 2 \(tensor 2 on L4\) needs 2 cards .*, and the 0 that other units leave",
        ),
        ("vllm", deployed(changed(tensor=4), machines=(3, 1)), "needs 4 cards in equal shares of machines, and the 4"),
        (
            "sglang",
            deployed(changed(chunked=False)),
            "mixes prompts and decodes only where it cuts prompts into chunks",
        ),
        ("sglang", deployed(changed(cache="int8")), "sglang has no cache in int8"),
        ("sglang", deployed(changed(interval=4)), "sglang counts steps from the last one with prompts"),
        (
            "vllm",
            deployed(changed(interval=4)),
            "vllm spaces prompts of data-parallel ranks that step together only, and tensor 2 on L4 has none",
        ),
        (
            "sglang",
            deployed(changed(attention_data=2, apart=True), machines=(2, 2)),
            r"sglang has replicas \(--dp-size 2\) on one machine",
        ),
        (
            "sglang",
            deployed(changed(tensor=2, pipeline=3), machines=(3, 3)),
            "sglang has equally many stages on each machine",
        ),
        (
            "dynamo",
            deployed(changed(engine="trtllm")),
            "dynamo runs one of vllm and sglang here, and the plan is of trtllm",
        ),
        (
            "dynamo",
            deployed(changed(tensor=1), changed(tensor=1, role="prefill"), changed(tensor=1, role="decode")),
            "sends every prompt of a model to its units for prefill where there are any",
        ),
        (
            "dynamo",
            deployed(*[changed(tensor=1)] * 25, machines=(25,)),
            "at most 25 components in a graph, .* needs 26",
        ),
        (
            "dynamo",
            Deployment(name="m", units=(changed(kind="mine"),), machines=((("mine", 4), ("L4", 1)),), longest=9),
            "what nodes with mine are labelled with is not known",
        ),
        (
            "dynamo",
            Deployment(name="m", units=(changed(kind="MI300X"),), machines=((("MI300X", 4),),), longest=9),
            "images are for NVIDIA's cards",
        ),
    ],
)
def test_what_an_engine_cannot_do_is_a_reason(name: str, deployment: Deployment, reason: str, tmp_path: Path) -> None:
    exporter = find_deployment_exporter(name)
    assert all(len(text.split()) > 4 and not text.endswith(".") for text in exporter.supports(deployment))
    with pytest.raises(UnsupportedError, match=f"{exporter.name} cannot run this plan: .*{reason}"):
        exporter.export(deployment, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
    assert exporter.supports(deployed(USUAL)) == []


@pytest.mark.parametrize("name", list(TAKEN))
def test_a_form_that_reads_back_as_another_plan_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if an exporter forgot a degree, and as if it had an argument that its engine does not have."""
    exporter, deployment = find_deployment_exporter(name), deployed(USUAL)
    right = exporter.content(deployment, "m")
    tensor = b"--tp-size" if name == "sglang" else b"--tensor-parallel-size"
    size = b" 2 " if name != "dynamo" else b"\n          - '2'\n"
    assert right.count(tensor + size) == 1
    wrong = right.replace(tensor + size, tensor + size.replace(b"2", b"4"))
    monkeypatch.setattr(exporter, "content", lambda deployment, model: wrong)
    with pytest.raises(
        UnsupportedError, match=r"does not read back as the plan is refused: .*tensor of a unit is 4 in the"
    ):
        exporter.export(deployment, tmp_path / "out")
    wrong = right.replace(tensor, b"--tensors")
    with pytest.raises(UnsupportedError, match="there is no argument --tensors"):
        exporter.export(deployment, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("grammar", [VLLM, SGLANG])
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--port", "lacks its value"),
        ("--port x", "'x', which is no value"),
        ("--port 0", "at least 1 is wanted"),
        ("--port 1 --port 2", "twice"),
        ("--dtype int3", "'int3', and there are auto"),
        ("--gpus 2", "there is no argument --gpus"),
    ],
)
def test_arguments_are_those_of_the_grammar(grammar: Any, words: str, said: str) -> None:
    with pytest.raises(FlagError, match=said):
        read_flags(words.split(), grammar)
    assert read_flags(["--port", "1", "--nnodes", "2"], grammar) == {"--port": 1, "--nnodes": 2}


def test_units_are_placed_largest_first_and_whole() -> None:
    """Small units do not take what a large one needs; one larger than a machine has whole stages on each."""
    small, large = changed(tensor=1), changed(tensor=4)
    first, second = placed_units(deployed(small, large, machines=(4, 2)))
    assert (first.cards, second.cards) == (((1, (0,)),), ((0, (0, 1, 2, 3)),))
    (wide,) = placed_units(deployed(changed(tensor=2, pipeline=3), machines=(2, 4, 2, 2)))
    assert wide.cards == ((0, (0, 1)), (1, (0, 1)), (2, (0, 1)))
    # Two stages of four: not four machines with half a stage each.
    (deep,) = placed_units(deployed(changed(tensor=2, attention_data=2, pipeline=2), machines=(2, 2, 4, 4)))
    assert deep.cards == ((2, (0, 1, 2, 3)), (3, (0, 1, 2, 3)))


def test_cards_are_looked_at_where_kinds_differ(tmp_path: Path) -> None:
    """A script stops where the driver calls a card something else."""
    kinds = (("T4", 2), ("L4", 2))
    deployment = Deployment(name="m", units=(USUAL,), machines=(kinds,), longest=9)
    for name in ("vllm", "sglang"):
        out = tmp_path / name
        find_deployment_exporter(name).export(deployment, out, "org/model")
        good = ["Tesla T4", "Tesla T4", "NVIDIA L4", "NVIDIA L4"]
        ((_, visible, *_),) = calls(out, 0, 1, cards=good)
        assert visible == "2,3"
        other = tmp_path / f"{name}-other"
        other.write_bytes(out.read_bytes())
        ((said,),) = calls(other, 0, 1, cards=good[::-1])
        assert "card 2 is Tesla T4, and the plan was made for L4 there" in said


def test_scripts_say_what_they_lack(tmp_path: Path) -> None:
    out = tmp_path / "serve.sh"
    find_deployment_exporter("vllm").export(deployed(changed(tensor=4, pipeline=2), machines=(4, 4)), out)
    ((said,),) = calls(out, 0, 1, "model")
    assert "give the address of machine 0" in said
    ((said,),) = calls(out, 5, 9, "model")
    assert "MACHINE is 5, and there are 0 to 1" in said
    again = tmp_path / "again.sh"
    again.write_bytes(out.read_bytes())
    ((said,),) = calls(again, 0, 2)
    assert "give the model, its name or folder" in said


def test_notes_say_what_files_cannot() -> None:
    split = deployed(changed(role="prefill"), changed(role="decode"))
    vllm, sglang, dynamo = (find_deployment_exporter(name) for name in TAKEN)
    assert any("one for decode" in note for note in vllm.notes(split))
    assert any("the one of 2 units with the fewest" in note for note in sglang.notes(deployed(changed(count=2))))
    assert any("priced as those of vllm; --engine sglang plans" in note for note in sglang.notes(deployed(USUAL)))
    assert any("MODEL in spec.env" in note for note in dynamo.notes(deployed(USUAL)))
    shared = deployed(changed(shares=(0.25, 1.0)), changed(shares=(0.75, 0.0)))
    said = "group 0 of units (both, tensor 2 on L4) takes of the classes of requests 25%, 100%"
    assert all(said in list(one.notes(shared)) for one in (vllm, sglang, dynamo))
    assert not any("MODEL" in note for note in dynamo.notes(deployed(USUAL), "org/model"))


def test_plans_of_other_kinds_are_told_apart() -> None:
    with pytest.raises(InputError, match="no exporter 'megatron' of plans of engines that serve; known are vllm"):
        find_deployment_exporter("megatron")
    with pytest.raises(InputError, match="sglang takes plans of engines that serve, and this is one of a model"):
        find_exporter("sglang")
