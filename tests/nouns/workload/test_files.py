"""Files of requests, in each of their forms."""

from __future__ import annotations

from pathlib import Path

import pytest

from partita.ground.errors import FormatError, InputError
from partita.nouns.workload.files import read_requests
from partita.nouns.workload.workload import LengthShare, RequestTrace


def written(folder: Path, text: str) -> Path:
    path = folder / "requests.csv"
    path.write_text(text)
    return path


def test_a_trace_of_production(tmp_path: Path) -> None:
    rows = "2023-11-16 18:17:03.9799600,4808,10\n2023-11-16 18:17:04.4799600,3180,8\n"
    found = read_requests(written(tmp_path, "TIMESTAMP,ContextTokens,GeneratedTokens\n" + rows))
    assert isinstance(found, RequestTrace)
    assert found.arrival_s == (0.0, pytest.approx(0.5))
    assert (found.prompt_tokens, found.output_tokens) == ((4808, 3180), (10, 8))


def test_a_trace_in_seconds_with_other_columns(tmp_path: Path) -> None:
    text = "output_tokens,arrival_s,prompt_tokens,first_token_s\n5,0.25,10,1\n6,0.25,11,2\n"
    found = read_requests(written(tmp_path, text))
    assert found == RequestTrace(arrival_s=(0.25, 0.25), prompt_tokens=(10, 11), output_tokens=(5, 6))


def test_a_histogram(tmp_path: Path) -> None:
    found = read_requests(written(tmp_path, "prompt_tokens,output_tokens,share\n10,5,0.5\n"))
    assert found == (LengthShare(prompt_tokens=10, output_tokens=5, share=0.5),)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "its columns are none"),
        ("a,b\n1,2\n", "its columns are a, b; known are TIMESTAMP"),
        ("arrival_s,prompt_tokens\n1,2\n", "is no file of requests"),
        ("arrival_s,prompt_tokens,output_tokens\n", "has no requests"),
        ("arrival_s,prompt_tokens,output_tokens\n2,1,1\n1,1,1\n", "line 3: a request arrives before the one above"),
        ("arrival_s,prompt_tokens,output_tokens\n0,-1,1\n", "line 2: prompt_tokens is '-1'"),
        ("arrival_s,prompt_tokens,output_tokens\n0,1,0\n", "line 2: output_tokens is '0'"),
        ("arrival_s,prompt_tokens,output_tokens\n0,1.5,1\n", "prompt_tokens is '1.5'"),
        ("arrival_s,prompt_tokens,output_tokens\n0,1\n", "output_tokens is None"),
        ("arrival_s,prompt_tokens,output_tokens\nnan,1,1\n", "arrival_s is 'nan'; it must be finite"),
        ("arrival_s,prompt_tokens,output_tokens\nsoon,1,1\n", "it must be a number"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\nnoon,1,1\n", "it must be a date with a time"),
    ],
)
def test_what_is_wrong_is_said(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        read_requests(written(tmp_path, text))


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such file"):
        read_requests(tmp_path / "nothing.csv")
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FormatError, match="not text in UTF-8"):
        read_requests(tmp_path / "bytes.csv")
