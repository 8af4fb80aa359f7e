"""Documents are read strictly, with messages that name file and place, and written whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest

from partita.documents.document import (
    decode,
    document_keys,
    read_bytes,
    read_tagged,
    sha256,
    tagged,
    write_atomic,
    write_json,
)
from partita.ground.errors import FormatError, InputError


class Point(msgspec.Struct, forbid_unknown_fields=True):
    """Two numbers."""

    x: int
    y: float = 0.5


def refusal(kind: type[InputError], call: Any, *arguments: Any) -> str:
    """The message with which a call is refused."""
    with pytest.raises(kind) as caught:
        call(*arguments)
    assert caught.value.__cause__ is None
    return str(caught.value)


class TestReading:
    """What a file holds, or why not."""

    def test_the_bytes_as_they_are(self, tmp_path: Path) -> None:
        path = tmp_path / "d.json"
        path.write_bytes(b' {"x": 1}\n')
        assert read_bytes(path) == b' {"x": 1}\n'
        assert read_bytes(str(path)) == b' {"x": 1}\n'

    def test_no_file(self, tmp_path: Path) -> None:
        assert refusal(InputError, read_bytes, tmp_path / "a.json") == f"{tmp_path}/a.json: there is no such file"

    def test_a_folder(self, tmp_path: Path) -> None:
        assert refusal(InputError, read_bytes, tmp_path) == f"{tmp_path} is a folder; name a file"

    def test_what_the_system_refuses(self, tmp_path: Path) -> None:
        path = tmp_path / ("n" * 300)
        assert refusal(InputError, read_bytes, path) == f"{path} cannot be read: File name too long"

    @pytest.mark.parametrize("content", [b"", b" \n\t"])
    def test_nothing_in_it(self, tmp_path: Path, content: bytes) -> None:
        path = tmp_path / "d.json"
        path.write_bytes(content)
        assert refusal(FormatError, read_bytes, path) == f"{path} is empty; it should hold a JSON object"


class TestDecoding:
    """JSON as a type."""

    def test_a_value(self) -> None:
        assert decode(b'{"x": 3}', Point, "p.json") == Point(3, 0.5)

    @pytest.mark.parametrize(
        ("data", "message"),
        [
            (b'{"x": 3, "z": 1}', "p.json: unknown key `z`"),
            (b"{}", "p.json: missing key `x`"),
            (b'{"x": "three"}', "p.json: expected `int`, got `str`, at `$.x`"),
            (b"[1, 2]", "p.json: expected `object`, got `array`"),
            (
                b'{"x": NaN}',
                "p.json is not valid JSON: it contains NaN, which JSON does not have; give a finite number",
            ),
            (
                b'{"x": 1, "y": -Infinity}',
                "p.json is not valid JSON: it contains -Infinity, which JSON does not have; give a finite number",
            ),
            (
                b'{"x": Infinity, "y": NaN}',
                "p.json is not valid JSON: it contains Infinity, which JSON does not have; give a finite number",
            ),
            (b'{"x": 1', "p.json is not valid JSON: it ends in the middle; the file was cut off"),
            (b'{"x": 1}}', "p.json is not valid JSON: trailing characters (byte 9)"),
        ],
    )
    def test_what_is_wrong(self, data: bytes, message: str) -> None:
        assert refusal(FormatError, decode, data, Point, "p.json").startswith(message)

    def test_unknown_and_missing_keys_name_their_place(self) -> None:
        found = refusal(FormatError, decode, b'[{"x": 1}, {"y": 2}]', list[Point], "p.json")
        assert found == "p.json: missing key `x`, at `$[1]`"

    def test_too_deep(self) -> None:
        deep = b"[" * 100_000 + b"]" * 100_000
        found = refusal(FormatError, decode, deep, Any, "p.json")
        assert found == "p.json is nested too deeply to be a partita document"

    def test_too_deep_and_broken(self) -> None:
        """The search for NaN gives up on it; the message stays the decoder's."""
        found = refusal(FormatError, decode, b"[" * 900 + b"x", Any, "p.json")
        assert found.startswith("p.json is not valid JSON: ")

    def test_no_text(self) -> None:
        found = refusal(FormatError, decode, b'"\xff"', str, "p.json")
        # Versions of msgspec say it in their own words.
        assert found.startswith("p.json is not valid JSON: ")
        assert "utf-8" in found.lower()

    def test_the_keys_of_an_object(self) -> None:
        keys = document_keys(b'{"a": {"b": 1}, "c": [2]}', "p.json")
        assert {key: bytes(value) for key, value in keys.items()} == {"a": b'{"b": 1}', "c": b"[2]"}
        assert "p.json: expected `object`" in refusal(FormatError, document_keys, b"3", "p.json")


class TestTagged:
    """Documents that begin with their format and version."""

    def test_there_and_back(self) -> None:
        document = tagged(Point(3, 1.5), "test.point", 2)
        assert list(document) == ["format", "version", "x", "y"]
        assert document == {"format": "test.point", "version": 2, "x": 3, "y": 1.5}
        assert read_tagged(msgspec.json.encode(document), Point, "test.point", 2, "p.json") == Point(3, 1.5)

    @pytest.mark.parametrize(
        ("document", "message"),
        [
            (
                {"version": 2, "x": 3},
                "p.json: missing key `format`; a test.point document starts with format and version",
            ),
            (
                {"format": "test.point", "x": 3},
                "p.json: missing key `version`; a test.point document starts with format and version",
            ),
            ({"format": "test.line", "version": 2, "x": 3}, "p.json: format is 'test.line', expected 'test.point'"),
            (
                {"format": "test.point", "version": 3, "x": 3},
                "p.json: version 3 of test.point is not known here; this program reads 2",
            ),
            ({"format": "test.point", "version": 2, "x": 3, "z": 1}, "p.json: unknown key `z`"),
            ({"format": "test.point", "version": 2}, "p.json: missing key `x`"),
        ],
    )
    def test_what_is_wrong(self, document: dict[str, Any], message: str) -> None:
        data = json.dumps(document).encode()
        assert refusal(FormatError, read_tagged, data, Point, "test.point", 2, "p.json") == message


def test_digests_do_not_depend_on_the_order_of_keys() -> None:
    """SHA-256 of compact JSON with sorted keys."""
    expected = hashlib.sha256(b'{"a":1,"b":[2.5]}').hexdigest()
    assert sha256({"b": [2.5], "a": 1}) == sha256({"a": 1, "b": [2.5]}) == expected
    assert sha256({"a": 2, "b": [2.5]}) != expected


class TestWriting:
    """The old content or the new, never half of it."""

    def test_new_and_again(self, tmp_path: Path) -> None:
        path = tmp_path / "r.json"
        write_atomic(path, b"one")
        assert path.read_bytes() == b"one"
        write_atomic(str(path), b"two")
        assert path.read_bytes() == b"two"
        assert os.listdir(tmp_path) == ["r.json"], "nothing else is left"

    def test_rights_are_those_of_an_ordinary_file(self, tmp_path: Path) -> None:
        ordinary, written = tmp_path / "ordinary", tmp_path / "written"
        ordinary.write_bytes(b"")
        write_atomic(written, b"")
        assert stat.S_IMODE(written.stat().st_mode) == stat.S_IMODE(ordinary.stat().st_mode)

    def test_rights_of_the_process_stay(self, tmp_path: Path) -> None:
        before = os.umask(0o027)
        try:
            write_atomic(tmp_path / "r.json", b"")
            assert os.umask(0o027) == 0o027
        finally:
            os.umask(before)
        assert stat.S_IMODE((tmp_path / "r.json").stat().st_mode) == 0o640

    def test_a_folder_is_not_a_file(self, tmp_path: Path) -> None:
        found = refusal(InputError, write_atomic, tmp_path, b"")
        assert found == f"{tmp_path} is a folder; name a file to write"

    def test_no_folder_to_write_in(self, tmp_path: Path) -> None:
        path = tmp_path / "missing" / "r.json"
        found = refusal(InputError, write_atomic, path, b"")
        assert found == f"{path} cannot be written: No such file or directory"

    def test_the_old_file_stays_if_the_new_one_fails(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "r.json"
        path.write_bytes(b"old")

        def fail(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "replace", fail)
        assert refusal(InputError, write_atomic, path, b"new") == f"{path} cannot be written: No space left on device"
        assert path.read_bytes() == b"old"
        assert os.listdir(tmp_path) == ["r.json"], "the new one is taken away"

    def test_data_reach_the_disk_before_the_name(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The file is next to the old one (a rename stays on one disk), complete and flushed before the rename."""
        seen: list[tuple[str, int]] = []
        synchronise, replace = os.fsync, os.replace

        def synchronised(descriptor: int) -> None:
            synchronise(descriptor)
            seen.append(("fsync", os.fstat(descriptor).st_size))

        def replaced(source: str, target: Path) -> None:
            assert Path(source).parent == tmp_path
            assert Path(source).name.startswith("."), "hidden"
            seen.append(("replace", Path(source).stat().st_size))
            replace(source, target)

        monkeypatch.setattr(os, "fsync", synchronised)
        monkeypatch.setattr(os, "replace", replaced)
        write_atomic(tmp_path / "r.json", b"content")
        assert seen == [("fsync", 7), ("replace", 7)]

    def test_json_is_indented_by_one(self, tmp_path: Path) -> None:
        write_json(tmp_path / "r.json", {"b": [1], "a": None})
        assert (tmp_path / "r.json").read_text() == '{\n "b": [\n  1\n ],\n "a": null\n}\n'


def test_keys_that_are_numbers_are_put_in_order_as_text() -> None:
    expected = hashlib.sha256(b'{"1":"a","2":"b"}').hexdigest()
    assert sha256({2: "b", 1: "a"}) == sha256({1: "a", 2: "b"}) == expected
