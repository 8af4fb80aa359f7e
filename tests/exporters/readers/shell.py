"""Shell scripts: what they run in which environment, by running them with programs that say so."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


def run(script: Path, program: str, cards: list[str], *arguments: str) -> tuple[dict[str, str], list[str], str]:
    """The variables and arguments that a program gets from a script on a host with these cards; else what was said."""
    bin_folder = script.parent / "bin"
    bin_folder.mkdir(exist_ok=True)
    listed = "".join(f'{number}) echo "{name}" ;; ' for number, name in enumerate(cards))
    tools = {
        "nvidia-smi": f'for w; do n="${{w#--id=}}"; done\ncase "$n" in {listed}*) exit 9 ;; esac',
        program: 'printf "%s\\n" "$CUDA_DEVICE_ORDER" "$CUDA_VISIBLE_DEVICES" "$VLLM_PP_LAYER_PARTITION" "$@"',
    }
    for name, text in tools.items():
        path = bin_folder / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
    environment = {"PATH": f"{bin_folder}{os.pathsep}/usr/bin{os.pathsep}/bin"}
    done = subprocess.run(
        ["sh", str(script), *arguments], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    if done.returncode:
        return {}, [], done.stderr
    order, visible, partition, *rest = done.stdout.splitlines()
    return {"order": order, "visible": visible, "partition": partition}, rest, done.stderr


def flags(words: list[str]) -> dict[str, str]:
    """Arguments by name, each with one value."""
    return dict(zip(words[::2], words[1::2], strict=True))
