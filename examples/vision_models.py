"""Convolutional networks for dense prediction, as plain modules: ``partita plan examples/vision_models.py:unet …``.

No weights are made up beyond what a constructor does, and images are empty: planning reads shapes alone.

Sources: Ronneberger, Fischer and Brox, "U-Net" (MICCAI 2015), with padded convolutions; Kirillov et al., "Panoptic
Feature Pyramid Networks" (CVPR 2019), the semantic branch, over the ResNet-50 of transformers.
"""

from __future__ import annotations

import itertools
from typing import Any


def unet(batch_size: int = 1, side: int = 256, width: int = 64, levels: int = 4) -> tuple[Any, tuple[Any, ...]]:
    """U-Net: double convolutions, halved and doubled so often, with a skip connection at every level."""
    import torch
    from torch import nn

    def double(before: int, after: int) -> nn.Sequential:
        parts: list[nn.Module] = []
        for channels in (before, after):
            parts += [nn.Conv2d(channels, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU()]
        return nn.Sequential(*parts)

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            sizes = [width * 2**level for level in range(levels + 1)]
            pairs = list(itertools.pairwise(sizes))
            self.first = double(3, width)
            self.down = nn.ModuleList(double(a, b) for a, b in pairs)
            self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, stride=2) for a, b in reversed(pairs))
            self.merge = nn.ModuleList(double(2 * a, a) for a, _ in reversed(pairs))
            self.pool, self.last = nn.MaxPool2d(2), nn.Conv2d(width, 2, 1)

        def forward(self, image: Any) -> Any:
            x, skips = self.first(image), []
            for block in self.down:
                skips.append(x)
                x = block(self.pool(x))
            for grow, block in zip(self.up, self.merge, strict=True):
                x = block(torch.cat([skips.pop(), grow(x)], dim=1))
            return self.last(x)

    return UNet(), (torch.empty(batch_size, 3, side, side),)


def semantic_fpn(batch_size: int = 1, side: int = 512, classes: int = 150) -> tuple[Any, tuple[Any, ...]]:
    """Semantic FPN with a ResNet-50 backbone: a pyramid from the top down, and its levels summed at a quarter size."""
    import torch
    from torch import nn
    from transformers import ResNetConfig, ResNetModel

    class SemanticFPN(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            config = ResNetConfig()
            self.backbone = ResNetModel(config)
            self.lateral = nn.ModuleList(nn.Conv2d(size, 256, 1) for size in config.hidden_sizes)
            self.smooth = nn.ModuleList(nn.Conv2d(256, 256, 3, padding=1) for _ in config.hidden_sizes)
            self.head = nn.ModuleList(self._branch(level) for level in range(len(config.hidden_sizes)))
            self.grow = nn.Upsample(scale_factor=2, mode="nearest")
            self.last = nn.Conv2d(128, classes, 1)

        @staticmethod
        def _branch(level: int) -> nn.Sequential:
            parts: list[nn.Module] = []
            for number in range(max(1, level)):
                parts += [nn.Conv2d(128 if number else 256, 128, 3, padding=1), nn.GroupNorm(32, 128), nn.ReLU()]
                if level:
                    parts.append(nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False))
            return nn.Sequential(*parts)

        def forward(self, image: Any) -> Any:
            levels = self.backbone(image, output_hidden_states=True).hidden_states[1:]
            top, total = None, None
            for level in reversed(range(len(self.lateral))):
                side = self.lateral[level](levels[level])
                top = side if top is None else side + self.grow(top)
                part = self.head[level](self.smooth[level](top))
                total = part if total is None else total + part
            return self.last(total)

    return SemanticFPN(), (torch.empty(batch_size, 3, side, side),)
