"""What every exporter keeps: found in the list, described, and whole files or none."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from exporters.splits import changed, usual
from partita.documents.document import write_json
from partita.exporters import ALL_EXPORTERS, DEPLOYMENT_EXPORTERS, EXPORTERS, find_exporter
from partita.exporters.exporter import Exporter, FileExporter
from partita.exporters.refusals import refusals
from partita.ground.errors import InputError, UnsupportedError
from partita.nouns.catalogue.runtimes import RUNTIMES
from partita.nouns.split import Split
from running.command_line import Run, partita

__all__ = ["partita"]

exporters = pytest.mark.parametrize("exporter", list(ALL_EXPORTERS), ids=lambda exporter: exporter.name)
#: Those that need the model itself are run with it in tests/exporters.
alone = pytest.mark.parametrize(
    "exporter", [one for one in ALL_EXPORTERS if not one.needs_model], ids=lambda exporter: exporter.name
)


def result_file(path: Path, split: Split | None) -> Path:
    """A result file with a split and nothing else of interest."""
    write_json(path, {"format": "partita.result", "version": 1, "plan": {}, "split": split})
    return path


def test_every_runtime_has_one_exporter() -> None:
    assert [exporter.name for exporter in EXPORTERS] == [runtime.name for runtime in RUNTIMES]


@exporters
def test_it_is_described(exporter: Exporter) -> None:
    assert find_exporter(exporter.name) is exporter
    assert re.fullmatch(r"[a-z][a-z0-9.-]*", exporter.name)
    assert exporter.summary
    assert not exporter.summary.endswith(".")
    assert "\n" not in exporter.summary
    assert exporter.runtime.source
    assert exporter.limits.training or exporter.limits.inference


@exporters
def test_a_plan_is_accepted_and_another_refused(exporter: Exporter) -> None:
    """With reasons that are sentences, and without changing the plan."""
    split = usual(exporter.name)
    before = msgspec.json.encode(split)
    assert exporter.supports(split) == []
    reasons = exporter.supports(changed(split, 1, replicas=3))
    assert reasons
    assert all(isinstance(reason, str) and len(reason.split()) > 4 for reason in reasons)
    assert not any(reason.endswith(".") for reason in reasons)
    assert msgspec.json.encode(split) == before


@alone
def test_what_is_written_is_whole(exporter: Exporter, tmp_path: Path) -> None:
    """Every path that is named is there, nothing else is, and the same plan makes the same files."""
    split = usual(exporter.name)
    contents = []
    for name in ("first", "second"):
        written = exporter.export(split, tmp_path / name)
        found = [path for path in sorted(tmp_path.rglob("*")) if path.is_file()]
        assert set(written) == {str(path) for path in found if (tmp_path / name) in (path, *path.parents)}
        contents.append([Path(path).read_bytes() for path in written])
    assert contents[0] == contents[1]
    assert all(contents[0])


@alone
def test_where_nothing_can_be_written_nothing_is(exporter: Exporter, tmp_path: Path) -> None:
    """A folder with something in it, and a folder that is not there."""
    split = usual(exporter.name)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "kept").write_text("mine")
    for path in (tmp_path / "full", tmp_path / "none" / "out"):
        with pytest.raises(InputError, match=re.escape(str(path))):
            exporter.export(split, path)
    assert [str(path.relative_to(tmp_path)) for path in sorted(tmp_path.rglob("*"))] == ["full", "full/kept"]


@exporters
def test_refusals_on_the_command_line(exporter: Exporter, tmp_path: Path, partita: object) -> None:
    """Exit status 2, one line that names runtime and reason, no file."""
    path = result_file(tmp_path / "r.json", changed(usual(exporter.name), 1, replicas=3))
    run: Run = partita("export", path, "--to", exporter.name, "--output", tmp_path / "out")  # type: ignore[operator]
    assert run.code == 2
    assert run.out == ""
    assert run.err.startswith(f"partita: {exporter.name} cannot run this plan: ")
    within = not refusals(changed(usual(exporter.name), 1, replicas=3), exporter.name, exporter.limits)
    assert within or run.err.endswith(f"; plan with --runtime {exporter.name}\n")
    assert run.err.count("\n") == 1
    assert not (tmp_path / "out").exists()
    with pytest.raises(UnsupportedError):
        exporter.export(changed(usual(exporter.name), 1, replicas=3), tmp_path / "out")


def test_bad_input_on_the_command_line(tmp_path: Path, partita: object) -> None:
    """Every mistake is one message with exit status 2, and nothing is written."""
    good = result_file(tmp_path / "good.json", usual("vllm"))
    none = result_file(tmp_path / "none.json", None)
    broken = tmp_path / "broken.json"
    broken.write_text(good.read_text().replace('"stages"', '"stadges"', 1))
    other = tmp_path / "other.json"
    other.write_text('{"format": "else"}')
    out = tmp_path / "out"
    for arguments, message in (
        ((good, "--to", "caffe", "--output", out), "there is no exporter 'caffe'; known are accelerate, torch,"),
        ((none, "--to", "vllm", "--output", out), "does not say what of a model each stage has"),
        ((broken, "--to", "vllm", "--output", out), "split"),
        ((other, "--to", "vllm", "--output", out), "is not a partita.result file"),
        ((tmp_path / "absent.json", "--to", "vllm", "--output", out), "there is no such file"),
        ((good, "--to", "vllm", "--output", tmp_path / "no" / "out"), "the folder"),
        ((good, "--to", "vllm", "--model", "m.onnx", "--output", out), "takes the plan alone; leave --model out"),
        ((good, "--output", out), "--to"),
        ((good, "--to", "vllm"), "--output"),
    ):
        run: Run = partita("export", *arguments)  # type: ignore[operator]
        assert (run.code, run.out) == (2, ""), arguments
        assert message in run.err
        assert run.err.count("\n") == 1
        assert not out.exists()


@exporters
def test_a_file_goes_to_stdout(
    exporter: Exporter, tmp_path: Path, partita: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As ``--output -``, and nothing else; of several files, or beside --json, one message and no file called so."""
    path = result_file(tmp_path / "r.json", usual(exporter.name))
    monkeypatch.chdir(tmp_path)
    arguments = ("export", path, "--to", exporter.name, "--output", "-")
    run: Run = partita(*arguments, "--json")  # type: ignore[operator]
    assert (run.code, run.out) == (2, "")
    if not isinstance(exporter, FileExporter):
        assert "takes a folder of several files, which stdout is not" in run.err
        run = partita(*arguments)  # type: ignore[operator]
        assert (run.code, run.out) == (2, "")
    else:
        assert "both print on stdout" in run.err
        if not exporter.needs_model:
            run = partita(*arguments)  # type: ignore[operator]
            exporter.export(usual(exporter.name), tmp_path / "file")
            assert (run.code, run.out) == (0, (tmp_path / "file").read_text())
    assert not (tmp_path / "-").exists()
    run = partita(
        *arguments[:1], result_file(tmp_path / "b.json", changed(usual(exporter.name), 1, replicas=3)), *arguments[2:]
    )  # type: ignore[operator]
    assert (run.code, run.out) == (2, "")


def test_exporting_and_listing(tmp_path: Path, partita: object) -> None:
    good = result_file(tmp_path / "good.json", usual("vllm"))
    run: Run = partita("export", good, "--to", "vllm", "--output", tmp_path / "serve.sh")  # type: ignore[operator]
    assert (run.code, run.out, run.err) == (0, f"{tmp_path / 'serve.sh'}\n", "")
    run = partita("export", good, "--to", "vllm", "--output", tmp_path / "serve.sh", "--json")  # type: ignore[operator]
    assert run.document == {"runtime": "vllm", "written": [str(tmp_path / "serve.sh")]}
    listed = partita("exporters", "--json").document["exporters"]  # type: ignore[operator]
    assert [entry["name"] for entry in listed] == [one.name for one in (*ALL_EXPORTERS, *DEPLOYMENT_EXPORTERS)]
