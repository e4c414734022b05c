"""Time the algebra beside triton.tools.LinearLayout, and the derivation and proof of a grid of tilings.

python tools/bench_algebra.py
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from itertools import product

from layoutgen.algebra import LinearLayout, Space, classify, hardware_space
from layoutgen.atoms import CATALOGUE, Atom
from layoutgen.errors import LayoutgenError
from layoutgen.proofs import prove, require
from layoutgen.tiling import arrange, derive

CALLS = 1000


def random_layout(bits: int, generator: random.Random) -> LinearLayout:
    """A random bijection: bits of a tensor dealt out to registers, lanes and warps, some of them swizzled."""
    columns = [1 << bit for bit in generator.sample(range(bits), bits)]
    for _ in range(bits // 3):
        target, source = generator.sample(range(bits), 2)
        columns[target] ^= columns[source]
    domain = hardware_space({"register": bits - 8, "lane": 5, "warp": 3})
    return LinearLayout(domain, Space.of_shape((1 << bits // 2, 1 << bits - bits // 2)), tuple(columns))


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def bench_algebra() -> None:
    generator = random.Random(0)
    pairs = []
    for _ in range(CALLS):
        bits = generator.randint(13, 15)
        pairs.append((random_layout(bits, generator), random_layout(bits, generator)))
    inverses = [layout.invert() for layout, _ in pairs]
    # Fresh values, so that nothing cached above is timed.
    pairs = [tuple(LinearLayout(x.domain, x.codomain, x.columns) for x in pair) for pair in pairs]  # type: ignore[misc]
    ours = {
        "compose": seconds(lambda: [inverse.compose(b) for inverse, (_, b) in zip(inverses, pairs, strict=True)]),
        "invert": seconds(lambda: [a.invert() for a, _ in pairs]),
        "classify": seconds(lambda: [classify(a, b) for a, b in pairs]),
    }
    theirs = bench_triton(pairs, inverses)
    print(f"{CALLS} calls each on random layouts of 13 to 15 bits")
    for name, value in ours.items():
        other = theirs.get(name)
        call = "invert_and_compose" if name == "classify" else name
        beside = f"   Triton's {call:<18}{1e3 * other:7.1f} ms   ratio {value / other:.2f}" if other else ""
        print(f"  {name:<9}{1e3 * value:8.1f} ms{beside}")
    print(f"  together {1e3 * sum(ours.values()):8.1f} ms")


def bench_triton(pairs: list[tuple[LinearLayout, LinearLayout]], inverses: list[LinearLayout]) -> dict[str, float]:
    try:
        from triton.tools import LinearLayout as Theirs
    except ImportError:
        return {}

    def convert(layout: LinearLayout) -> Theirs:
        bases = []
        for name, bits in reversed(layout.domain.dims):
            start = layout.domain.offsets[name]
            columns = (layout.codomain.unpack(column) for column in layout.columns[start : start + bits])
            bases.append((name, [list(reversed(column)) for column in columns]))
        outs = list(reversed(layout.codomain.dims))
        return Theirs.from_bases(bases, [name for name, _ in outs], [1 << bits for _, bits in outs], False)

    firsts, seconds_ = [convert(a) for a, _ in pairs], [convert(b) for _, b in pairs]
    back = [convert(inverse) for inverse in inverses]
    return {
        "compose": seconds(lambda: [b.compose(inverse) for b, inverse in zip(seconds_, back, strict=True)]),
        "invert": seconds(lambda: [a.invert() for a in firsts]),
        "classify": seconds(lambda: [b.invert_and_compose(a) for a, b in zip(firsts, seconds_, strict=True)]),
    }


def arrangements(atom: Atom) -> list[str]:
    """Return every legal way to spend the free lane bits of an atom."""
    found = []
    for places in product([f"{axis}{bit}" for axis in "mnk" for bit in range(6)], repeat=len(atom.free_lane_bits)):
        try:
            found.append(arrange(atom, ",".join(places), partial_sums=True).arrangement)
        except LayoutgenError:
            continue
    return found


def bench_grid() -> None:
    cases = [
        (atom, places, mb, nb)
        for atom in CATALOGUE
        for places in arrangements(atom)
        for mb in (1, 2, 4)
        for nb in (1, 2)
    ]

    def run() -> None:
        for atom, places, mb, nb in cases:
            m, n, _ = arrange(atom, places, partial_sums=True).shape
            require(prove(derive(atom, m * mb, n * nb, (min(mb, 2), 1), places)))

    took = seconds(run)
    print(f"{len(cases)} cases of atom x arrangement x block derived and proved in {took:.1f} s, one process")


if __name__ == "__main__":
    bench_algebra()
    bench_grid()
