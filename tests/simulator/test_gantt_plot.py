"""Pictures of time lines: their pixels, read back from the file, have the colours of what runs on the right rows."""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from instances.timelines import Slice, crowded, timeline, two_devices
from partita.ground.errors import InputError, MissingExtraError
from partita.simulator.gantt_plot import draw_gantt, draw_memory, write_gantt
from partita.simulator.timeline import BACKWARD, FORWARD, SORTS, TRANSFER, UPDATE, Lane, Timeline

DPI = 150

WHITE = (255, 255, 255)


def colour(sort: int) -> tuple[int, int, int]:
    """Of a sort, as bytes."""
    text = SORTS[sort].colour
    return int(text[1:3], 16), int(text[3:5], 16), int(text[5:7], 16)


class Picture:
    """A PNG file that was written, and where its pixels are in time and rows."""

    def __init__(self, path: Path, value: Timeline) -> None:
        image = pytest.importorskip("matplotlib.image", reason="matplotlib is not installed (extra plot)")
        write_gantt(path, value, memory=False)
        self.pixels = np.round(image.imread(path)[:, :, :3] * 255).astype(int)
        # The same picture drawn once more, to ask it where things are.
        self.axes = draw_gantt(value)
        self.axes.figure.savefig(path.with_suffix(".again.png"), dpi=DPI)
        again = np.round(image.imread(path.with_suffix(".again.png"))[:, :, :3] * 255).astype(int)
        assert np.array_equal(self.pixels, again)

    def at(self, time: float, row: float) -> tuple[int, ...]:
        """The colour at a time and a row."""
        x, y = self.axes.transData.transform((time, row))
        return tuple(self.pixels[len(self.pixels) - 1 - int(y), int(x)].tolist())


def test_colours_are_those_of_what_runs(tmp_path: Path) -> None:
    """A little above the middle of each row, where no number is written; the lane of copies is not shown."""
    value = two_devices()
    picture = Picture(tmp_path / "gantt.png", value)
    row_of_lane = {0: 0, 2: 1, 3: 2}
    busy: dict[int, list[tuple[float, float]]] = {0: [], 1: [], 2: []}
    for k in range(value.count):
        row = row_of_lane[int(value.lane[k])]
        start, end = float(value.start[k]), float(value.end[k])
        busy[row].append((start, end))
        expected = colour(int(value.sort[k]))
        if row == 2:
            # Half transparent, because transfers may overlap.
            expected = tuple(round((part + 255) / 2) for part in expected)
        for share in (0.2, 0.5, 0.8):
            found = picture.at(start + share * (end - start), row - 0.3)
            assert np.abs(np.subtract(found, expected)).max() <= 1, (k, share)
    for row, spans in busy.items():
        for time in np.arange(0.25, 10.5, 0.5):
            if not any(start <= time <= end for start, end in spans):
                assert picture.at(time, row) == WHITE


def test_labels_and_legend() -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed (extra plot)")
    axes = draw_gantt(two_devices("ms"))
    assert [label.get_text() for label in axes.get_yticklabels()] == ["gpu0 compute", "gpu1 compute", "machine 0 link"]
    heights = [axes.transData.transform((0, row))[1] for row in range(3)]
    assert heights == sorted(heights, reverse=True)
    assert axes.get_title() == "two stages"
    assert axes.get_xlabel() == "time (ms)"
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["forward", "backward", "update", "transfer"]


def test_draws_where_it_is_told() -> None:
    figure = pytest.importorskip("matplotlib.figure", reason="matplotlib is not installed (extra plot)").Figure()
    axes = figure.add_subplot()
    assert draw_gantt(two_devices(), axes) is axes
    assert axes.collections


def test_an_svg_has_the_labels_of_the_rows(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed (extra plot)")
    write_gantt(tmp_path / "gantt.svg", two_devices())
    text = (tmp_path / "gantt.svg").read_text()
    for word in ("gpu0 compute", "gpu1 compute", "machine 0 link", "two stages", "forward", "memory (GiB)"):
        assert f">{word}</text>" in text
    for sort in (FORWARD, BACKWARD, UPDATE, TRANSFER):
        assert SORTS[sort].colour in text


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_equal_time_lines_give_equal_bytes(ending: str, tmp_path: Path) -> None:
    matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed (extra plot)")
    before = dict(matplotlib.rcParams)
    for name in ("first", "second"):
        write_gantt(tmp_path / f"{name}.{ending}", two_devices())
    assert (tmp_path / f"first.{ending}").read_bytes() == (tmp_path / f"second.{ending}").read_bytes()
    assert len(list(tmp_path.iterdir())) == 2
    assert dict(matplotlib.rcParams) == before


def test_memory_is_drawn_as_it_is_held() -> None:
    figure = pytest.importorskip("matplotlib.figure", reason="matplotlib is not installed (extra plot)").Figure()
    axes = figure.add_subplot()
    draw_memory(two_devices(), axes)
    first, second, limit = axes.get_lines()
    assert first.get_xdata().tolist() == [0.0, 1.0, 7.0, 10.0, 10.5]
    assert first.get_ydata().tolist() == [1.25, 1.5, 1.25, 1.0, 1.0]
    assert second.get_ydata().tolist() == [0.5, 0.875, 0.625, 0.625]
    assert set(limit.get_ydata()) == {2.0}
    assert first.get_drawstyle() == "steps-post"


def test_a_second_panel_if_the_memory_is_known(tmp_path: Path) -> None:
    image = pytest.importorskip("matplotlib.image", reason="matplotlib is not installed (extra plot)")
    heights = []
    for name, value, memory in (
        ("with", two_devices(), True),
        ("without", two_devices(), False),
        ("none", crowded(), True),
        ("too", crowded(), False),
    ):
        write_gantt(tmp_path / f"{name}.png", value, memory=memory)
        heights.append(image.imread(tmp_path / f"{name}.png").shape[0])
    assert heights[0] > heights[1]
    assert heights[2] == heights[3]


def dense(count: int) -> Timeline:
    """Two devices with many slices: one only F, one F and B in turn, of which F takes more until 0.5 and B then."""
    edges = np.linspace(0.0, 1.0, count + 1).tolist()
    slices = []
    for start, end in pairwise(edges):
        part = start + (end - start) * (0.7 if start < 0.5 else 0.3)
        slices += [Slice(0, FORWARD, start, end), Slice(1, FORWARD, start, part), Slice(1, BACKWARD, part, end)]
    return timeline(slices, [Lane(0, "gpu0", "compute"), Lane(1, "gpu1", "compute")])


def test_very_many_slices_are_few_bars_of_what_takes_most(tmp_path: Path) -> None:
    value = dense(20_000)
    picture = Picture(tmp_path / "gantt.png", value)
    bars = [len(collection.get_paths()) for collection in picture.axes.collections]
    assert bars == [1, 2]
    for time in (0.1, 0.3, 0.49, 0.51, 0.9):
        assert picture.at(time, 0) == colour(FORWARD)
        assert picture.at(time, 1) == colour(FORWARD if time < 0.5 else BACKWARD)


def test_merging_keeps_gaps_and_sorts(tmp_path: Path) -> None:
    """A thousand short slices, a gap, one more of them, and backwards among which a forward is wide enough to show."""
    edges = np.linspace(0.0, 0.4, 1001).tolist()
    slices = [Slice(0, FORWARD, start, end) for start, end in pairwise(edges)]
    slices += [
        Slice(0, FORWARD, 0.5, 0.52),
        Slice(0, BACKWARD, 0.52, 0.6),
        Slice(0, FORWARD, 0.6, 0.61),
        Slice(0, BACKWARD, 0.61, 1.0),
    ]
    picture = Picture(tmp_path / "gantt.png", timeline(slices, [Lane(0, "gpu0", "compute")]))
    assert len(picture.axes.collections[0].get_paths()) == 5
    assert picture.at(0.2, 0) == colour(FORWARD)
    assert picture.at(0.45, 0) == WHITE
    assert picture.at(0.55, 0) == colour(BACKWARD)
    assert picture.at(0.605, 0) == colour(FORWARD)
    assert picture.at(0.8, 0) == colour(BACKWARD)


def test_nothing_runs(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed (extra plot)")
    for name, slices in (("empty", []), ("instant", [Slice(0, FORWARD, 0.0, 0.0)])):
        write_gantt(tmp_path / f"{name}.png", timeline(slices, [Lane(0, "gpu0", "compute")]))
        assert (tmp_path / f"{name}.png").stat().st_size > 0


@pytest.mark.parametrize("name", ["gantt.pdf", "gantt", "gantt.png.txt"])
def test_other_endings_are_refused(name: str, tmp_path: Path) -> None:
    """Whether or not matplotlib is there."""
    with pytest.raises(InputError, match=r"ends in \.png or \.svg"):
        write_gantt(tmp_path / name, two_devices())
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed (extra plot)")
    with pytest.raises(InputError, match="cannot be written"):
        write_gantt(tmp_path / "none" / "gantt.png", two_devices())


def test_without_matplotlib_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    loaded: Any = [name for name in sys.modules if name.split(".")[0] == "matplotlib"]
    for name in {*loaded, "matplotlib", "matplotlib.figure", "matplotlib.patches"}:
        monkeypatch.setitem(sys.modules, name, None)
    for call in (lambda: write_gantt(tmp_path / "gantt.png", two_devices()), lambda: draw_gantt(two_devices())):
        with pytest.raises(MissingExtraError, match=r"pip install 'partita\[plot\]'"):
            call()
    assert list(tmp_path.iterdir()) == []
