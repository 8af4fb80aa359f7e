"""Arguments of serving engines that exports use: what each may be, and reading them as the engine's parser would."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

#: What an argument takes.
FlagType = Literal["int", "float", "text", "json", "nothing"]


@dataclass(frozen=True)
class Flag:
    """An argument: what it takes, the least number, and the values that there are."""

    takes: FlagType = "text"
    least: int = 1
    choices: tuple[str, ...] = ()


_SIZE, _NOTHING, _TEXT = Flag("int"), Flag("nothing"), Flag()
_NUMBER = Flag("int", least=0)
_DTYPES = Flag(choices=("auto", "half", "float16", "bfloat16", "float", "float32"))

#: ``vllm serve`` of vLLM 0.33.0 (``vllm/engine/arg_utils.py``, ``vllm/config``, ``entrypoints/common/cli_args.py``);
#: 0.31.0, which Dynamo 1.6.1 asks for, has the same. Of choices, those that exports know the meaning of.
VLLM: Mapping[str, Flag] = {
    "--host": _TEXT,
    "--port": _SIZE,
    "--dtype": _DTYPES,
    "--quantization": Flag(choices=("fp8", "compressed-tensors", "awq_marlin", "modelopt_fp4", "mxfp4")),
    "--kv-cache-dtype": Flag(
        choices=("auto", "float16", "bfloat16", "fp8", "int8_per_token_head", "int4_per_token_head", "nvfp4")
    ),
    "--max-model-len": _SIZE,
    "--block-size": _SIZE,
    "--gpu-memory-utilization": Flag("float", least=0),
    "--tensor-parallel-size": _SIZE,
    "--pipeline-parallel-size": _SIZE,
    "--data-parallel-size": _SIZE,
    "--data-parallel-size-local": _SIZE,
    "--data-parallel-start-rank": _NUMBER,
    "--data-parallel-address": _TEXT,
    "--data-parallel-rpc-port": _SIZE,
    "--enable-expert-parallel": _NOTHING,
    "--max-num-seqs": _SIZE,
    "--max-num-batched-tokens": _SIZE,
    "--enable-chunked-prefill": _NOTHING,
    "--no-enable-chunked-prefill": _NOTHING,
    "--prefill-schedule-interval": _SIZE,
    "--kv-transfer-config": Flag("json"),
    "--nnodes": _SIZE,
    "--node-rank": _NUMBER,
    "--master-addr": _TEXT,
    "--master-port": _SIZE,
    "--headless": _NOTHING,
}

#: ``python3 -m sglang.launch_server`` of SGLang 0.5.23 (``sglang/srt/arg_groups/fields``, ``choices.py``,
#: ``server_args.py``). ``--dp-size N --enable-dp-attention`` is what 0.5.21, which Dynamo 1.6.1 asks for, and releases
#: before it have for groups that share out attention; 0.5.23 takes it, too, and calls it ``--attn-dp-size N``.
SGLANG: Mapping[str, Flag] = {
    "--host": _TEXT,
    "--port": _SIZE,
    "--dtype": _DTYPES,
    "--quantization": Flag(choices=("fp8", "w8a8_int8", "awq_marlin", "modelopt_fp4", "mxfp4")),
    "--kv-cache-dtype": Flag(choices=("auto", "bf16", "fp8_e4m3", "nvfp4")),
    "--context-length": _SIZE,
    "--page-size": _SIZE,
    "--mem-fraction-static": Flag("float", least=0),
    "--tp-size": _SIZE,
    "--pp-size": _SIZE,
    "--dp-size": _SIZE,
    "--enable-dp-attention": _NOTHING,
    "--ep-size": _SIZE,
    "--max-running-requests": _SIZE,
    "--chunked-prefill-size": Flag("int", least=-1),
    "--max-prefill-tokens": _SIZE,
    "--enable-mixed-chunk": _NOTHING,
    "--disaggregation-mode": Flag(choices=("null", "prefill", "decode")),
    "--disaggregation-transfer-backend": Flag(choices=("mooncake", "nixl", "ascend", "fake", "mori", "mooncake_tcp")),
    "--disaggregation-bootstrap-port": _SIZE,
    "--nnodes": _SIZE,
    "--node-rank": _NUMBER,
    "--dist-init-addr": _TEXT,
}


class FlagError(ValueError):
    """Arguments that are not of an engine's grammar."""


def read_flags(words: Sequence[str], grammar: Mapping[str, Flag]) -> dict[str, Any]:
    """By name the values of arguments, each in its type; True of those that take nothing.

    Raises ``FlagError`` if a name is unknown or there twice, or a value is none of its type and choices.
    """
    found: dict[str, Any] = {}
    rest = list(words)
    while rest:
        name = rest.pop(0)
        flag = grammar.get(name)
        if flag is None:
            raise FlagError(f"there is no argument {name}")
        if name in found:
            raise FlagError(f"{name} is there twice")
        if flag.takes == "nothing":
            found[name] = True
        elif not rest:
            raise FlagError(f"{name} lacks its value")
        else:
            found[name] = _value(name, rest.pop(0), flag)
    return found


def _value(name: str, text: str, flag: Flag) -> Any:
    if flag.choices and text not in flag.choices:
        raise FlagError(f"{name} is {text!r}, and there are {', '.join(flag.choices)}")
    try:
        if flag.takes == "json":
            return json.loads(text)
        if flag.takes not in ("int", "float"):
            return text
        value = int(text) if flag.takes == "int" else float(text)
    except ValueError:
        raise FlagError(f"{name} is {text!r}, which is no value of it") from None
    if value < flag.least:
        raise FlagError(f"{name} is {text}, and at least {flag.least} is wanted")
    return value
