"""Run a pipeline that partita planned on torch.distributed.pipelining, and compare it with the model that is not split.

    torchrun --nproc-per-node PROCESSES run.py

There are as many processes as the plan has ranks times replicas. Beside this file are plan.json, what each stage has of
the model, and schedule.csv, what each rank does in which order. The model is built again with weights that follow from
--seed, and runs in evaluation mode, so that dropout and batch statistics do not blur the comparison. One JSON object
is printed; the exit status is 1 if outputs or gradients differ by more than --tolerance, relative to the largest.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

import msgspec
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.pipelining import pipeline
from torch.distributed.pipelining.microbatch import TensorChunkSpec

from partita.exporters.card_names import check_cards
from partita.exporters.cards import Cards, cards_of_split
from partita.exporters.module_inputs import more_data, wrapped_model
from partita.exporters.pipelining import split_policy
from partita.inside.pipelining_inside import ForwardSchedule, Replicate, TableSchedule, read_table
from partita.nouns.split import Split

FOLDER = Path(__file__).parent
#: Cards are counted in the cluster's order; CUDA counts the fastest first otherwise.
os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")

Tensors = tuple[torch.Tensor, ...]


def loss_of(output: Any, _target: Any = None) -> Any:
    """Something that every output has a gradient of; a model of your own has a loss of its own."""
    outputs = output if isinstance(output, (tuple, list)) else (output,)
    return sum(one.float().square().mean() for one in outputs if one.is_floating_point())


def microbatches_of(examples: Tensors, count: int, replica: int, seed: int) -> list[Tensors]:
    """Microbatches of a replica: the example inputs, and more of the same form."""
    generator = torch.Generator().manual_seed(seed + 1 + replica)
    return [tuple(more_data(tensor, generator) for tensor in examples) for _ in range(count)]


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--tolerance", type=float, default=1e-4)
    options.add_argument("--keep-dtype", action="store_true", help="do not compute in float32")
    asked = options.parse_args()
    split = msgspec.json.decode((FOLDER / "plan.json").read_bytes(), type=Split)
    order = (FOLDER / "schedule.csv").read_text().splitlines()
    count = 1 + max(int(cell.rpartition("F")[2]) for row in order for cell in row.split(",") if "F" in cell)
    replicas = split.stages[0].replicas
    cards = cards_of_split(split)
    ranked = cards.by_replica(split)
    if int(os.environ.get("WORLD_SIZE", "1")) != split.ranks * replicas:
        sys.exit(
            f"the plan has {split.ranks} ranks and {replicas} replicas; run torchrun --nproc-per-node "
            f"{split.ranks * replicas} {Path(__file__).name}"
        )

    kind = "cuda" if ranked and torch.cuda.is_available() else "cpu"
    device = torch.device(kind, own_card(cards, ranked)) if kind == "cuda" else torch.device("cpu")
    if kind == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if kind == "cuda" else "gloo")
    mesh = init_device_mesh(kind, (replicas, split.ranks), mesh_dim_names=("data", "pipeline"))
    replica, rank = mesh.get_local_rank("data"), mesh.get_local_rank("pipeline")

    def built() -> tuple[torch.nn.Module, Tensors]:
        model, examples = wrapped_model(split, asked.seed)
        if not asked.keep_dtype:
            model = model.float()
            examples = tuple(tensor.float() if tensor.is_floating_point() else tensor for tensor in examples)
        # What the plan leaves as it is stays frozen.
        model = model if split.training else model.requires_grad_(False)
        return model.to(device), tuple(tensor.to(device) for tensor in examples)

    model, examples = built()
    batch = microbatches_of(examples, count, replica, asked.seed)
    # Only what has the samples in its first dimension is cut into microbatches.
    samples = examples[0].shape[0]
    cut = [tensor.dim() > 0 and tensor.shape[0] == samples for tensor in examples]

    pipe = pipeline(model, examples, split_policy=split_policy(split))
    mine = [number for number, stage in enumerate(split.stages) if stage.rank == rank]
    stages = [pipe.build_stage(number, device, mesh.get_group("pipeline")) for number in mine]
    spec = tuple(TensorChunkSpec(0) if yes else Replicate() for yes in cut)
    if split.training:
        schedule = TableSchedule(stages, count, loss_fn=loss_of, args_chunk_spec=spec)
        read_table(schedule, FOLDER / "schedule.csv")
    else:
        # Tables of torch's have backward actions; its schedule without them runs one microbatch after the other.
        schedule = ForwardSchedule(stages[0], count, args_chunk_spec=spec)
    inputs: Tensors = ()
    if 0 in mine:
        whole = zip(cut, zip(*batch, strict=True), strict=True)
        inputs = tuple(torch.cat(parts) if yes else parts[0] for yes, parts in whole)
    last = len(split.stages) - 1 in mine
    losses: list[torch.Tensor] = []
    target = torch.zeros(count, device=device) if last and split.training else None
    output = schedule.step(*inputs, target=target, losses=losses if last and split.training else None)
    if split.training and replicas > 1:
        for stage in stages:
            for weight in stage.submod.parameters():
                if not weight.requires_grad:
                    continue
                if weight.grad is None:
                    weight.grad = torch.zeros_like(weight)
                dist.all_reduce(weight.grad, group=mesh.get_group("data"))
                weight.grad /= replicas

    # The same without a pipeline, of all replicas one after the other.
    model, _ = built()
    wanted = []
    for number in range(replicas):
        for inputs in microbatches_of(examples, count, number, asked.seed):
            found = model(*inputs)
            if split.training:
                (loss_of(found) / (count * replicas)).backward()
            if number == replica:
                wanted.append(found if isinstance(found, tuple) else (found,))
    errors = torch.zeros(2, device=device)
    if last:
        outputs = output if isinstance(output, (tuple, list)) else (output,)
        for one, parts in zip(outputs, zip(*wanted, strict=True), strict=True):
            if one.dim() and one.shape[0] == count * parts[0].shape[0]:
                errors[0] = max(errors[0], difference(one, torch.cat(parts)))
    if split.training:
        weights = dict(model.named_parameters())
        largest = max(weight.grad.abs().max() for weight in weights.values() if weight.grad is not None)
        for stage in stages:
            for name, weight in stage.submod.named_parameters():
                if weight.grad is not None and weights[name].grad is not None:
                    errors[1] = max(errors[1], (weight.grad - weights[name].grad).abs().max() / largest)
                elif (weight.grad is None) != (weights[name].grad is None):
                    errors[1] = float("inf")
    dist.all_reduce(errors, dist.ReduceOp.MAX)
    outputs, gradients = errors.tolist()
    verified = outputs <= asked.tolerance and gradients <= asked.tolerance
    if dist.get_rank() == 0:
        found = {"verified": verified, "worst_output_error": outputs}
        if split.training:
            found["worst_gradient_error"] = gradients
        print(json.dumps(found), flush=True)
    dist.destroy_process_group()
    return 0 if verified else 1


def own_card(cards: Cards, order: tuple[int, ...]) -> int:
    """The card of this process on its host: ranks are replica after replica, stage after stage."""
    rank = int(os.environ["RANK"])
    host = [number for number, machine in enumerate(cards.machines) if machine == cards.machines[order[rank]]]
    if os.environ.get("LOCAL_WORLD_SIZE") == os.environ["WORLD_SIZE"]:
        # One host has all cards, whatever the cluster calls a machine.
        host = list(range(len(cards.machines)))
    number = host.index(order[rank])
    names = {n: torch.cuda.get_device_name(n) for n in range(torch.cuda.device_count())}
    kind = cards.wanted(order).get(rank)
    if kind is not None:
        check_cards({number: kind}, names)
    elif number not in names:
        sys.exit(f"the plan has rank {rank} on card {number} of its host, which has {len(names)}")
    return number


def difference(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """The largest difference, relative to the largest value."""
    return (left - right).abs().max() / right.abs().max().clamp_min(1e-30)


if __name__ == "__main__":
    sys.exit(main())
