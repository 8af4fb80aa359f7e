"""Mappings around a loop: the heaviest ring, laid so that it turns in the plane of a grid, with the rest beside it.

A ring of R replicas whose links are all between neighbours is a closed loop of R devices in a grid, and the other
replicas of every column have to be near. Loops that are near everything are hard to come by in swaps, since nothing
short of the whole loop is better than none. So they are laid: the grid is cut into blocks of S × S devices, a
Hamiltonian cycle leads through all blocks, and S devices of each follow it through the middle: straight on, or around a
corner. The devices of a block that are left go to the columns of its S devices, stages by what they exchange with those
placed.

*Grids* are devices numbered row by row whose links to those beside and below are the fastest that there are. In grids
of three dimensions, two are laid out as one, there and back.

Source: own.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from partita.engines.kernels.arrays import Ints
from partita.problems.mapping.instance import MappingInstance
from partita.problems.mapping.orders import by_exchanges

#: Row and column of a block, or of a device.
_Place = tuple[int, int]


def looped(instance: MappingInstance) -> Iterator[Ints]:
    """Mappings around loops in the grids that the devices are, if blocks fill them."""
    side = instance.stages
    if not instance.even or instance.devices != instance.count or min(side, instance.replicas) < 3:
        return
    spine = int(np.argmax(instance.ring))
    if instance.ring[spine] == 0.0:
        return
    for grid in grids(instance):
        rows, columns = grid.shape
        if rows % side == 0 and columns % side == 0:
            blocks = hamiltonian_cycle(rows // side, columns // side)
            if blocks:
                yield _around(instance, grid, blocks, spine)


def grids(instance: MappingInstance) -> Iterator[Ints]:
    """Devices by row and column, with links between neighbours as fast as any."""
    count, inverse = instance.devices, instance.arrays.inverse
    fast = inverse[~np.eye(count, dtype=bool)].min(initial=np.inf) * (1 + 1e-9)
    found: dict[tuple[int, ...], Ints] = {}
    numbers = np.arange(count, dtype=np.int32)
    for rows in (n for n in range(1, count // 2 + 1) if count % n == 0):
        for inner in (n for n in range(2, count // rows + 1) if count // rows % n == 0):
            cube = numbers.reshape(rows, -1, inner)
            wide, high = cube.copy(), cube.copy()
            wide[:, 1::2], high[1::2] = wide[:, 1::2, ::-1], high[1::2, ::-1]
            for grid in (wide.reshape(rows, -1), high.reshape(-1, inner)):
                links = inverse[grid[:, 1:], grid[:, :-1]], inverse[grid[1:], grid[:-1]]
                if min(grid.shape) > 1 and all((link <= fast).all() for link in links):
                    found.setdefault(grid.shape, np.ascontiguousarray(grid))
    yield from found.values()


def hamiltonian_cycle(rows: int, columns: int) -> list[_Place]:
    """The cells of a grid in the order of a cycle through all of them; none if there is no such cycle.

    Down the first column, and back through the others in turns.
    """
    if rows % 2 and columns % 2 == 0:
        return [(i, j) for j, i in hamiltonian_cycle(columns, rows)]
    if rows % 2 or min(rows, columns) < 2:
        return []
    path = [(i, 0) for i in range(rows)]
    for turn, i in enumerate(reversed(range(rows))):
        path += [(i, j) for j in (range(1, columns) if turn % 2 == 0 else range(columns - 1, 0, -1))]
    return path


def loop_through(blocks: list[_Place], side: int) -> list[_Place]:
    """A loop of as many devices of every block as it is wide, each beside the next, in turns of a cycle of blocks.

    It keeps so many devices on its left; behind a corner as many on its right, so that corners take as many devices as
    straight ways do. A cycle has an even number of corners.
    """
    left, found = (side - 1) // 2, []
    for place, (i, j) in enumerate(blocks):
        before, after = blocks[place - 1], blocks[(place + 1) % len(blocks)]
        way, on = (i - before[0], j - before[1]), (after[0] - i, after[1] - j)
        cells = [_step(way, t, left, side) for t in range(side)]
        if way != on:
            left = side - 1 - left
            leaving = [_step(on, t, left, side) for t in range(side)]
            (corner,) = set(cells) & set(leaving)
            cells = cells[: cells.index(corner)] + leaving[leaving.index(corner) :]
        found += [(i * side + row, j * side + column) for row, column in cells]
    return found


def _step(way: _Place, step: int, left: int, side: int) -> _Place:
    """The device of a block so many steps on the way, with so many on its left."""
    down, right = way
    if right:
        return (left, step) if right > 0 else (side - 1 - left, side - 1 - step)
    return (step, side - 1 - left) if down > 0 else (side - 1 - step, left)


def _around(instance: MappingInstance, grid: Ints, blocks: list[_Place], spine: int) -> Ints:
    """The loop for one stage, and of every block the other devices for the rest of its columns."""
    side = instance.stages
    loop = loop_through(blocks, side)
    found = np.full((instance.stages, instance.replicas), -1, dtype=np.int32)
    found[spine] = [grid[place] for place in loop]
    order, exchanges, inverse = by_exchanges(instance, spine), instance.exchanges_of, instance.arrays.inverse
    for number, (i, j) in enumerate(blocks):
        replicas = range(number * side, (number + 1) * side)
        block = grid[i * side : (i + 1) * side, j * side : (j + 1) * side].ravel()
        free = [d for d in block.tolist() if d not in found[spine]]
        for s in order[1:]:
            placed = [(t, moved) for t, moved in exchanges[s] if found[t, replicas[0]] >= 0] or [(spine, 1.0)]
            cost = {
                (r, d): sum(moved * float(inverse[d, found[t, r]]) for t, moved in placed)
                for r in replicas
                for d in free
            }
            left = set(replicas)
            for r, d in sorted(cost, key=cost.__getitem__):
                if r in left and d in free:
                    found[s, r] = d
                    left.remove(r)
                    free.remove(d)
    return np.ascontiguousarray(found.ravel())
