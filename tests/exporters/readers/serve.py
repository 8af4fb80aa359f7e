"""Commands that start serving engines, by running their script with programs that say what they got.

What arguments mean is written here from the engines' documentation: vLLM's and SGLang's pages of server arguments, of
data parallelism, of expert parallelism and of disaggregated prefill.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

#: Formats of weights and of the cache that values of arguments stand for.
QUANTIZED = {
    "fp8": {"fp8", "fp8_block"},
    "compressed-tensors": {"int8"},
    "w8a8_int8": {"int8"},
    "awq_marlin": {"int4"},
    "modelopt_fp4": {"nvfp4", "fp4"},
}
PLAIN = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
CACHES = {
    "bfloat16": "bf16",
    "bf16": "bf16",
    "float16": "fp16",
    "fp8": "fp8",
    "fp8_e4m3": "fp8",
    "nvfp4": "nvfp4",
    "int8_per_token_head": "int8",
    "int4_per_token_head": "int4",
}


class Read(NamedTuple):
    """A unit as its commands say it."""

    role: str
    tensor: int
    pipeline: int
    attention_data: int
    expert: int
    requests: int
    tokens: int
    block_tokens: int
    chunked: bool
    mixed: bool
    longest: int
    memory_share: float | None
    weights: frozenset[str] | None  #: Formats that dense weights may be in.
    experts: frozenset[str] | None
    cache: str | None


def _parser(sizes: str, texts: str, switches: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(exit_on_error=False, allow_abbrev=False)
    for name in sizes.split():
        parser.add_argument(f"--{name}", type=int)
    for name in texts.split():
        parser.add_argument(f"--{name}")
    for name in switches.split():
        parser.add_argument(f"--{name}", action=argparse.BooleanOptionalAction)
    return parser


_VLLM = _parser(
    "port max-model-len block-size tensor-parallel-size pipeline-parallel-size data-parallel-size nnodes node-rank "
    "data-parallel-size-local data-parallel-start-rank data-parallel-rpc-port max-num-seqs max-num-batched-tokens "
    "prefill-schedule-interval master-port",
    "host dtype quantization kv-cache-dtype gpu-memory-utilization data-parallel-address master-addr "
    "kv-transfer-config",
    "enable-expert-parallel enable-chunked-prefill headless",
)
_SGLANG = _parser(
    "port context-length page-size tp-size pp-size dp-size ep-size max-running-requests chunked-prefill-size "
    "max-prefill-tokens disaggregation-bootstrap-port nnodes node-rank",
    "host dtype quantization kv-cache-dtype mem-fraction-static disaggregation-mode disaggregation-transfer-backend "
    "dist-init-addr",
    "enable-dp-attention enable-mixed-chunk",
)


def _weights(quantization: str | None, dtype: str | None) -> tuple[frozenset[str] | None, frozenset[str] | None]:
    if dtype is None:
        return None, None
    if quantization == "mxfp4":
        return frozenset({"bf16"}), frozenset({"mxfp4"})
    found = frozenset({PLAIN[dtype]}) if quantization is None else frozenset(QUANTIZED[quantization])
    return found, found


def _cache(value: str | None, dtype: str | None) -> str | None:
    return PLAIN[dtype] if value == "auto" and dtype is not None else None if value is None else CACHES[value]


def read_vllm(words: Sequence[str]) -> tuple[Read, dict[str, Any]]:
    """What ``vllm serve MODEL`` gets behind the model, and its arguments."""
    given = vars(_VLLM.parse_args(words))
    tensor, data = given["tensor_parallel_size"] or 1, given["data_parallel_size"] or 1
    transfer = json.loads(given["kv_transfer_config"] or "{}")
    assert transfer.get("kv_connector", "NixlConnector") == "NixlConnector"
    weights, experts = _weights(given["quantization"], given["dtype"])
    share = given["gpu_memory_utilization"]
    read = Read(
        {None: "both", "kv_producer": "prefill", "kv_consumer": "decode"}[transfer.get("kv_role")],
        *(tensor, given["pipeline_parallel_size"] or 1, data, tensor * data if given["enable_expert_parallel"] else 1),
        *(given["max_num_seqs"], given["max_num_batched_tokens"], given["block_size"]),
        *(given["enable_chunked_prefill"] is not False, True, given["max_model_len"]),
        *(None if share is None else float(share), weights, experts, _cache(given["kv_cache_dtype"], given["dtype"])),
    )
    return read, given


def read_sglang(words: Sequence[str]) -> tuple[Read, dict[str, Any]]:
    """What ``sglang.launch_server --model-path MODEL`` gets behind that, and its arguments."""
    given = vars(_SGLANG.parse_args(words))
    data, together = given["dp_size"] or 1, bool(given["enable_dp_attention"])
    # Groups that share out attention are inside the tensor-parallel size, and share out requests and tokens.
    groups = data if together else 1
    chunk = given["chunked_prefill_size"]
    weights, experts = _weights(given["quantization"], given["dtype"])
    share = given["mem_fraction_static"]
    read = Read(
        given["disaggregation_mode"] or "both",
        *((given["tp_size"] or 1) // groups, given["pp_size"] or 1, data, given["ep_size"] or 1),
        *(given["max_running_requests"] // groups, given["max_prefill_tokens"], given["page_size"]),
        *(chunk != -1, bool(given["enable_mixed_chunk"]), given["context_length"]),
        *(None if share is None else float(share), weights, experts, _cache(given["kv_cache_dtype"], given["dtype"])),
    )
    assert chunk in (-1, read.tokens * groups)
    return read, given


#: Says what it got, one file for each call.
_PROGRAM = """#!/bin/sh
{{ printf '%s\\n' "$CUDA_DEVICE_ORDER" "$CUDA_VISIBLE_DEVICES" "${{VLLM_NIXL_SIDE_CHANNEL_PORT:-}}" \
"${{VLLM_NIXL_SIDE_CHANNEL_HOST:-}}" {name} "$@"; }} > "$CALLS/$$"
"""


def calls(script: Path, machine: int, machines: int, *arguments: str, cards: Sequence[str] = ()) -> list[list[str]]:
    """What programs were called with on a machine: order and numbers of cards, port and host of handovers, then words.

    ``cards`` are the names that the driver has for its cards. What fails is one call that says why.
    """
    folder = script.parent / f"{script.name}-{machine}"
    (folder / "bin").mkdir(parents=True)
    (folder / "calls").mkdir()
    listed = "".join(f'{number}) echo "{name}" ;; ' for number, name in enumerate(cards))
    programs = {name: _PROGRAM.format(name=name) for name in ("vllm", "python3")}
    programs["nvidia-smi"] = f'#!/bin/sh\nfor w; do n="${{w#--id=}}"; done\ncase "$n" in {listed}*) exit 9 ;; esac\n'
    for name, text in programs.items():
        path = folder / "bin" / name
        path.write_text(text)
        path.chmod(0o755)
    environment = {
        "PATH": f"{folder / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin",
        "CALLS": str(folder / "calls"),
        **({"MACHINE": str(machine)} if machines > 1 else {}),
        **({f"HOST{number}": f"host{number}" for number in range(machines)} if machines > 1 else {}),
    }
    done = subprocess.run(
        ["sh", str(script), *arguments], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    if done.returncode:
        return [[done.stderr]]
    return [path.read_text().splitlines() for path in sorted((folder / "calls").iterdir())]
