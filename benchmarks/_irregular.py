"""User models with many branches: a detector like Mask R-CNN, U-Nets, and Stable Diffusion XL's where diffusers is."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

Built = tuple[nn.Module, tuple[Any, ...], dict[str, Any]]


class Bottleneck(nn.Module):
    """Three convolutions with a way around them."""

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        after, sizes = 4 * width, ((before, width, 1, 1), (width, width, 3, stride), (width, 4 * width, 1, 1))
        self.steps = nn.ModuleList(nn.Conv2d(i, o, k, s, k // 2, bias=False) for i, o, k, s in sizes)
        self.norms = nn.ModuleList(nn.BatchNorm2d(o) for _, o, _, _ in sizes)
        self.around = nn.Identity() if (before, stride) == (after, 1) else nn.Conv2d(before, after, 1, stride)

    def forward(self, x: Any) -> Any:
        out = x
        for place, (step, norm) in enumerate(zip(self.steps, self.norms, strict=True)):
            out = norm(step(out))
            out = out if place == 2 else functional.relu(out)
        return functional.relu(out + self.around(x))


class Backbone(nn.Module):
    """A residual network; what comes out of every stage."""

    def __init__(self, depths: tuple[int, ...], width: int) -> None:
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
        before, stages = width, []
        for number, depth in enumerate(depths):
            blocks = []
            for place in range(depth):
                blocks.append(Bottleneck(before, width << number, 2 if number and not place else 1))
                before = 4 * width << number
            stages.append(nn.Sequential(*blocks))
        self.stages = nn.ModuleList(stages)

    def forward(self, images: Any) -> list[Any]:
        x = functional.max_pool2d(functional.relu(self.norm(self.stem(images))), 3, 2, 1)
        found = []
        for stage in self.stages:
            x = stage(x)
            found.append(x)
        return found


class Pyramid(nn.Module):
    """Features of all sizes, each with what the coarser ones say."""

    def __init__(self, channels: list[int], width: int) -> None:
        super().__init__()
        self.inner = nn.ModuleList(nn.Conv2d(c, width, 1) for c in channels)
        self.outer = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in channels)

    def forward(self, features: list[Any]) -> list[Any]:
        x = self.inner[-1](features[-1])
        found = [self.outer[-1](x)]
        for place in range(len(features) - 2, -1, -1):
            side = self.inner[place](features[place])
            x = side + functional.interpolate(x, size=side.shape[-2:], mode="nearest")
            found.insert(0, self.outer[place](x))
        return [*found, functional.max_pool2d(found[-1], 1, 2)]


class Detector(nn.Module):
    """As Mask R-CNN: proposals on five levels, then boxes, classes and masks of regions sampled from four of them."""

    def __init__(self, depths: tuple[int, ...] = (3, 4, 6, 3), width: int = 64, classes: int = 91) -> None:
        super().__init__()
        inside, hidden = 4 * width, 16 * width
        self.inside = inside
        self.backbone = Backbone(depths, width)
        self.pyramid = Pyramid([4 * width << number for number in range(len(depths))], inside)
        self.propose = nn.Conv2d(inside, inside, 3, padding=1)
        self.objectness, self.deltas = nn.Conv2d(inside, 3, 1), nn.Conv2d(inside, 12, 1)
        self.first, self.second = nn.Linear(49 * inside, hidden), nn.Linear(hidden, hidden)
        self.classes, self.boxes = nn.Linear(hidden, classes), nn.Linear(hidden, 4 * classes)
        self.masks = nn.ModuleList(nn.Conv2d(inside, inside, 3, padding=1) for _ in range(4))
        self.larger, self.mask = nn.ConvTranspose2d(inside, inside, 2, 2), nn.Conv2d(inside, classes, 1)

    def sample(self, features: list[Any], grids: list[Any]) -> Any:
        """Regions of every level, (regions, channels, side, side), at the points of the grids."""
        found = []
        for x, grid in zip(features, grids, strict=False):
            regions, side = grid.shape[0], grid.shape[1]
            at = functional.grid_sample(x, grid.reshape(1, -1, side, 2), align_corners=False)
            found.append(at.reshape(self.inside, regions, side, side).transpose(0, 1))
        return torch.cat(found)

    def forward(self, images: Any, box_grids: list[Any], mask_grids: list[Any]) -> Any:
        features = self.pyramid(self.backbone(images))
        proposals = [functional.relu(self.propose(x)) for x in features]
        scores = torch.cat([self.objectness(x).flatten(1) for x in proposals], 1)
        deltas = torch.cat([self.deltas(x).flatten(1) for x in proposals], 1)
        x = self.sample(features, box_grids).flatten(1)
        x = functional.relu(self.second(functional.relu(self.first(x))))
        mask = self.sample(features, mask_grids)
        for step in self.masks:
            mask = functional.relu(step(mask))
        mask = self.mask(functional.relu(self.larger(mask)))
        parts = (scores, deltas, self.classes(x), self.boxes(x), mask)
        return {"loss": sum(part.float().mean() for part in parts)}


def detector() -> Built:
    """Mask R-CNN with ResNet-50: one image of 800 × 1216, 512 regions for boxes and 128 for masks."""
    return _detector((3, 4, 6, 3), 64, (800, 1216), 128, 32)


def _detector(depths: tuple[int, ...], width: int, size: tuple[int, int], boxes: int, masks: int) -> Built:
    with torch.device("meta"):
        model = Detector(depths, width)
        grids = [[torch.empty(count, side, side, 2) for _ in depths] for count, side in ((boxes, 7), (masks, 14))]
        return model, (torch.empty(1, 3, *size), *grids), {}


class Residual(nn.Module):
    """Two convolutions with a step's embedding added between, and a way around them."""

    def __init__(self, before: int, after: int, embedded: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.GroupNorm(8, before), nn.GroupNorm(8, after)])
        self.first, self.second = nn.Conv2d(before, after, 3, padding=1), nn.Conv2d(after, after, 3, padding=1)
        self.step, self.around = nn.Linear(embedded, after), nn.Conv2d(before, after, 1)

    def forward(self, x: Any, step: Any) -> Any:
        out = self.first(functional.silu(self.norms[0](x))) + self.step(step)[:, :, None, None]
        return self.around(x) + self.second(functional.silu(self.norms[1](out)))


class Attending(nn.Module):
    """Attention over the image, and from it to a text."""

    def __init__(self, width: int, text: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(8, width)
        self.own, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.query, self.read, self.into = nn.Linear(width, width), nn.Linear(text, 2 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, image: Any, text: Any) -> Any:
        x = self.norm(image).flatten(2).transpose(1, 2)
        query, key, value = (part.unsqueeze(1) for part in self.own(x).chunk(3, -1))
        x = x + self.out(functional.scaled_dot_product_attention(query, key, value).squeeze(1))
        key, value = (part.unsqueeze(1) for part in self.read(text).chunk(2, -1))
        other = functional.scaled_dot_product_attention(self.query(x).unsqueeze(1), key, value)
        x = x + self.into(other.squeeze(1))
        x = x + self.down(functional.gelu(self.up(x)))
        return image + x.transpose(1, 2).reshape(image.shape)


class Diffusion(nn.Module):
    """A U-Net: halves of the image on the way down, joined on the way up with what was kept on the way down."""

    def __init__(self, widths: tuple[int, ...], text: int, deep: int = 1) -> None:
        super().__init__()
        first, embedded = widths[0], 4 * widths[0]
        self.step = nn.Sequential(nn.Linear(first, embedded), nn.SiLU(), nn.Linear(embedded, embedded))
        self.into, self.out = nn.Conv2d(4, first, 3, padding=1), nn.Conv2d(first, 4, 3, padding=1)
        self.downs, self.ups, self.smaller = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        kept, before = [first], first
        for place, width in enumerate(widths):
            for _ in range(2):
                self.downs.append(self._block(before, width, embedded, text, deep if place else 0))
                before = width
                kept.append(width)
            if place < len(widths) - 1:
                self.smaller.append(nn.Conv2d(width, width, 3, 2, 1))
                kept.append(width)
        self.middle = self._block(before, before, embedded, text, deep)
        for place, width in reversed(list(enumerate(widths))):
            for _ in range(3):
                self.ups.append(self._block(before + kept.pop(), width, embedded, text, deep if place else 0))
                before = width

    @staticmethod
    def _block(before: int, after: int, embedded: int, text: int, deep: int) -> nn.ModuleList:
        return nn.ModuleList([Residual(before, after, embedded), *(Attending(after, text) for _ in range(deep))])

    @staticmethod
    def _through(block: Any, x: Any, step: Any, text: Any) -> Any:
        x = block[0](x, step)
        for attending in block[1:]:
            x = attending(x, text)
        return x

    def forward(self, image: Any, step: Any, text: Any) -> Any:
        step, x = functional.silu(self.step(step)), self.into(image)
        kept = [x]
        for place, block in enumerate(self.downs):
            x = self._through(block, x, step, text)
            kept.append(x)
            if place % 2 and place // 2 < len(self.smaller):
                x = self.smaller[place // 2](x)
                kept.append(x)
        x = self._through(self.middle, x, step, text)
        for place, block in enumerate(self.ups):
            side = kept.pop()
            if place % 3 == 0 and place:
                x = functional.interpolate(x, size=side.shape[-2:], mode="nearest")
            x = self._through(block, torch.cat([x, side], 1), step, text)
        return {"loss": self.out(x).float().mean()}


def unet() -> Built:
    """A U-Net of the kind of Stable Diffusion, on 64 × 64."""
    return _unet((320, 640, 1280), 768, 64, 2)


def _unet(widths: tuple[int, ...], text: int, side: int, deep: int) -> Built:
    with torch.device("meta"):
        model = Diffusion(widths, text, deep).bfloat16()
        sizes = (1, 4, side, side), (1, widths[0]), (1, 77, text)
        return model, tuple(torch.empty(*size, dtype=torch.bfloat16) for size in sizes), {}


def sdxl() -> Built:
    """The U-Net of Stable Diffusion XL; raises ImportError without diffusers."""
    from diffusers import UNet2DConditionModel

    with torch.device("meta"):
        model = UNet2DConditionModel(
            sample_size=128,
            down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
            up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
            block_out_channels=(320, 640, 1280),
            attention_head_dim=[5, 10, 20],
            cross_attention_dim=2048,
            transformer_layers_per_block=[1, 2, 10],
            use_linear_projection=True,
            addition_embed_type="text_time",
            addition_time_embed_dim=256,
            projection_class_embeddings_input_dim=2816,
        ).to(torch.bfloat16)
        image, text = (torch.empty(1, *size, dtype=torch.bfloat16) for size in ((4, 128, 128), (77, 2048)))
        added = {"text_embeds": torch.empty(1, 1280).bfloat16(), "time_ids": torch.empty(1, 6).bfloat16()}
        step = torch.empty((), dtype=torch.int64)
        return model, (image, step, text), {"added_cond_kwargs": added, "return_dict": False}
