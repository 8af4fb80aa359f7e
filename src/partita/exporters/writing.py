"""Writing what runtimes take: files, and folders of files, whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from partita.ground.errors import InputError

#: What a file holds, or what writes it.
Content = bytes | Callable[[Path], None]


def write_folder(path: str | Path, files: Mapping[str, Content]) -> list[str]:
    """Write a folder of files, by name either their content or what writes them; the paths that were written.

    A crash leaves no folder of that name, or the whole one.

    Raises
    ------
    InputError
        If there is something at the path that is not an empty folder, or it cannot be written.
    """
    folder = Path(path)
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise InputError(f"{path} exists, and several files are written in a folder of their own; name a new folder")
    draft = folder.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        draft.mkdir()
        for name, content in files.items():
            if callable(content):
                content(draft / name)
            else:
                (draft / name).write_bytes(content)
        # An empty folder gives way to one that takes its name.
        os.replace(draft, folder)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}") from None
    finally:
        with contextlib.suppress(OSError):
            shutil.rmtree(draft)
    return [str(folder / name) for name in files]
