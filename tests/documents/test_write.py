"""Files are written whole or not at all, with the rights of ordinary files."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from partita.documents.document import write_atomic
from partita.errors import InputError


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
