"""The canonical m8n8k4 layouts with quadpairs tiled 2x2, written out: rows and columns of units of 16x16.

m = 16 mb + mi and n = 16 nb + ni. Warps take the low bits of mb, then of nb; repeats take the rest.
"""

from __future__ import annotations

from dataclasses import dataclass

from layoutgen.algebra import LinearLayout


def log2(value: int) -> int:
    return value.bit_length() - 1


@dataclass(frozen=True)
class Canonical:
    mb: int
    nb: int
    wm: int
    wn: int

    @property
    def warp_rows(self) -> list[int]:
        return [16 << i for i in range(log2(self.wm))]

    @property
    def warp_columns(self) -> list[int]:
        return [16 << i for i in range(log2(self.wn))]

    @property
    def repeat_rows(self) -> list[int]:
        return [16 << i for i in range(log2(self.wm), log2(self.mb))]

    @property
    def repeat_columns(self) -> list[int]:
        return [16 << i for i in range(log2(self.wn), log2(self.nb))]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.mb, 2, 8, self.nb, 2, 2, 4

    @property
    def accumulator(self) -> LinearLayout:
        bases = {
            # ni0, mi1, ni2, then the NB repeats, then the MB repeats
            "register": [
                [0, 1],
                [2, 0],
                [0, 4],
                *([0, x] for x in self.repeat_columns),
                *([x, 0] for x in self.repeat_rows),
            ],
            # mi0, ni1, mi3, ni3, mi2
            "lane": [[1, 0], [0, 2], [8, 0], [0, 8], [4, 0]],
            "warp": [*([x, 0] for x in self.warp_rows), *([0, x] for x in self.warp_columns)],
        }
        return LinearLayout.from_bases(bases, (16 * self.mb, 16 * self.nb))

    @property
    def fragment_a(self) -> LinearLayout:
        bases = {
            "register": [
                [0, 1],
                [0, 2],
                [0, 0],
                *([0, 0] for _ in self.repeat_columns),
                *([x, 0] for x in self.repeat_rows),
            ],
            "lane": [[1, 0], [2, 0], [8, 0], [0, 0], [4, 0]],
            "warp": [*([x, 0] for x in self.warp_rows), *([0, 0] for _ in self.warp_columns)],
        }
        return LinearLayout.from_bases(bases, (16 * self.mb, 4))

    @property
    def fragment_b(self) -> LinearLayout:
        bases = {
            "register": [
                [0, 1],
                [0, 2],
                [0, 0],
                *([x, 0] for x in self.repeat_columns),
                *([0, 0] for _ in self.repeat_rows),
            ],
            "lane": [[1, 0], [2, 0], [0, 0], [8, 0], [4, 0]],
            "warp": [*([0, 0] for _ in self.warp_rows), *([x, 0] for x in self.warp_columns)],
        }
        return LinearLayout.from_bases(bases, (16 * self.nb, 4))


GRID = [
    Canonical(mb, nb, wm, wn)
    for mb in (1, 2, 4, 8)
    for nb in (1, 2, 4, 8)
    for wm in (1, 2, 4, 8)
    for wn in (1, 2, 4)
    if wm <= mb and wn <= nb
]
