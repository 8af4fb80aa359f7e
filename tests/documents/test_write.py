"""Files are written whole or not at all, with the rights of ordinary files."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from partita.documents.document import write_atomic
from partita.ground.errors import InputError


@pytest.mark.skipif(os.name != "posix", reason="about rights as POSIX has them")
@pytest.mark.parametrize("mask", [0o000, 0o022, 0o027, 0o077])
def test_the_rights_are_those_of_an_ordinary_file(mask: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the mask of the process, which other threads write under, is left alone."""
    before = os.umask(mask)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(os, "umask", lambda mask: pytest.fail("it changes the mask of the whole process"))
            write_atomic(tmp_path / "a.json", b"{}")
        (tmp_path / "b.json").write_bytes(b"{}")
    finally:
        os.umask(before)
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("a.json", "b.json")]
    assert modes == [0o666 & ~mask, 0o666 & ~mask]


def test_a_file_is_replaced_and_nothing_else_is_left(tmp_path: Path) -> None:
    for data in (b"old", b"new"):
        write_atomic(tmp_path / "a.json", data)
        assert (tmp_path / "a.json").read_bytes() == data
    assert os.listdir(tmp_path) == ["a.json"]


@pytest.mark.parametrize("at", ["write", "replace"])
def test_a_failure_leaves_the_old_content(at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    write_atomic(tmp_path / "a.json", b"old")
    monkeypatch.setattr(os, "fsync" if at == "write" else "replace", full)
    with pytest.raises(InputError, match=r"a\.json cannot be written: No space left on device"):
        write_atomic(tmp_path / "a.json", b"new")
    assert (tmp_path / "a.json").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.json"]


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InputError, match=r"x\.json cannot be written: No such file or directory"):
        write_atomic(tmp_path / "nowhere" / "x.json", b"")
    with pytest.raises(InputError, match=r"x\.json cannot be written: Not a directory"):
        write_atomic(tmp_path / "file" / "x.json", b"")
    with pytest.raises(InputError, match="is a folder"):
        write_atomic(tmp_path, b"")


@pytest.mark.skipif(os.name != "posix", reason="about links, pipes and devices as POSIX has them")
class TestOtherThanPlainFiles:
    """What a path leads to is written; what stands there is not replaced by a plain file."""

    def test_a_link_stays_a_link(self, tmp_path: Path) -> None:
        (tmp_path / "kept").mkdir()
        target = tmp_path / "kept" / "real.json"
        target.write_bytes(b"old")
        for name, leads_to in (("one.json", "kept/real.json"), ("two.json", "one.json")):
            (tmp_path / name).symlink_to(leads_to)
            write_atomic(tmp_path / name, name.encode())
            assert (tmp_path / name).is_symlink()
            assert target.read_bytes() == name.encode()
        assert sorted(os.listdir(tmp_path)) == ["kept", "one.json", "two.json"]
        assert os.listdir(tmp_path / "kept") == ["real.json"]

    def test_a_link_to_nothing_makes_its_target(self, tmp_path: Path) -> None:
        (tmp_path / "link.json").symlink_to("made.json")
        write_atomic(tmp_path / "link.json", b"{}")
        assert (tmp_path / "link.json").is_symlink()
        assert (tmp_path / "made.json").read_bytes() == b"{}"

    def test_links_in_a_circle_are_refused(self, tmp_path: Path) -> None:
        (tmp_path / "a").symlink_to("b")
        (tmp_path / "b").symlink_to("a")
        with pytest.raises(InputError, match="cannot be written"):
            write_atomic(tmp_path / "a", b"")
        assert (tmp_path / "a").is_symlink()

    def test_devices_stay(self) -> None:
        before = os.stat("/dev/null")
        write_atomic("/dev/null", b"{}")
        assert os.stat("/dev/null").st_rdev == before.st_rdev
        assert stat.S_ISCHR(os.stat("/dev/null").st_mode)

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
    def test_a_full_device_says_so(self) -> None:
        with pytest.raises(InputError, match="/dev/full cannot be written: No space left on device"):
            write_atomic("/dev/full", b"{}")

    def test_a_pipe_gets_the_data(self, tmp_path: Path) -> None:
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        received: list[bytes] = []
        reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()))
        reader.start()
        write_atomic(pipe, b"through")
        reader.join(timeout=30)
        assert received == [b"through"]
        assert pipe.is_fifo()


def test_a_file_system_without_nameless_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "O_TMPFILE", None, raising=False)
    write_atomic(tmp_path / "a.json", b"{}")
    assert (tmp_path / "a.json").read_bytes() == b"{}"
    assert os.listdir(tmp_path) == ["a.json"]


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="there are no nameless files")
@pytest.mark.parametrize("step", ["open", "link"])
def test_a_file_system_that_refuses_nameless_files(step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = os.open

    def refused(*arguments: object, **settings: object) -> None:
        raise OSError(95, "Operation not supported")

    def opened(path: Path, flags: int, mode: int = 0o777, **settings: int) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(95, "Operation not supported")
        return usual(path, flags, mode, **settings)

    monkeypatch.setattr(os, step, opened if step == "open" else refused)
    write_atomic(tmp_path / "a.json", b"{}")
    assert (tmp_path / "a.json").read_bytes() == b"{}"
    assert os.listdir(tmp_path) == ["a.json"]
