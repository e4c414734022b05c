"""The layouts of the fast design of matmul: how a tile of each operand gets from memory to the instruction."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product

from layoutgen.algebra import LinearLayout, Space, hardware_space
from layoutgen.algebra.operations import without_copies
from layoutgen.atoms import DTYPE_BYTES, Atom
from layoutgen.errors import LayoutgenError
from layoutgen.kernels.request import float_atom
from layoutgen.plan.rows import RowStaging, stage_rows
from layoutgen.plan.staging import VECTOR_BYTES
from layoutgen.tiling import arrange, derive
from layoutgen.tiling.words import AXIS, Words, deepened, gather_neighbours, oriented, paired


@dataclass(frozen=True)
class Key:
    """What the layouts depend on, but for the arrangement; `along_a` and `along_b` are what is contiguous in memory.

    `summed_by_part`: a part sums some k from zero before the next part begins.
    """

    atom: str
    block_m: int
    block_n: int
    block_k: int
    warps: tuple[int, int]
    along_a: str
    along_b: str
    summed_by_part: bool = False

    @property
    def oriented(self) -> Atom:
        """The form of the atom whose operands run along what is contiguous."""
        return oriented(float_atom(self.atom), self.along_a, self.along_b)


@dataclass(frozen=True)
class Operand:
    """One operand's way from memory to the instruction.

    `shape` is that of a tile as it lies in memory. `staging` takes it through its buffer; a fetch reads `steps` k-steps
    of one part at once: `fetch` is what a thread gets, in the coordinates of the tile, and `words` one k-step of it.
    """

    name: str
    along_k: bool
    shape: tuple[int, int]
    steps: int
    parts: int
    fetch: LinearLayout
    words: LinearLayout
    staging: RowStaging

    @property
    def group(self) -> int:
        """Rows of the tile that stand beside each other in the buffer."""
        columns = self.staging.buffer.columns
        first = self.vector.bit_length() - 1
        low = self.shape[1]
        return 1 << next((i for i, column in enumerate(columns[first:]) if column < low), len(columns) - first)

    @property
    def vector(self) -> int:
        """Elements of a row that stay together."""
        return VECTOR_BYTES // self.staging.element_bytes

    @property
    def buffer(self) -> tuple[int, int, int, int]:
        """The buffer's shape: groups of rows, vectors of a row, rows of a group, elements of a vector."""
        rows, columns = self.shape
        return rows // self.group, columns // self.vector, self.group, self.vector

    @property
    def fetch_words(self) -> LinearLayout:
        """A fetch as it is written down: words, in the coordinates of the part of the buffer that it reads."""
        rows, columns = self.fetch.shape
        cut = self.fetch.reshape((rows // self.group, self.group, columns // self.vector, self.vector))
        return without_copies(paired(cut.permute((0, 2, 1, 3))))

    @property
    def portions(self) -> tuple[tuple[int, int], ...]:
        """Row and column at which each portion of the tile begins, when it is loaded one vector a thread at a time.

        Registers beside those of a vector hold the same places of boxes of the tile, which are these portions.
        """
        return self._portions[1]

    @property
    def portion(self) -> LinearLayout:
        """Who loads what of a portion, in its own coordinates."""
        shape, begins = self._portions
        domain, columns = self.staging.loaded.domain, self.staging.loaded.columns
        registers = domain.bits_of("register")
        kept = registers - (len(begins).bit_length() - 1)
        place, tile = Space.of_shape(shape), self.staging.loaded.codomain
        columns = tuple(place.pack(tile.unpack(c)) for c in (*columns[:kept], *columns[registers:]))
        sizes = {name: kept if name == "register" else bits for name, bits in domain.dims}
        return LinearLayout(hardware_space(sizes), place, columns)

    @property
    def whole(self) -> LinearLayout:
        """Who loads what of the tile, by what its portions say."""
        loaded, portion = self.staging.loaded, self.portion
        kept = portion.domain.bits_of("register")
        embedded = self.embedded(portion).columns
        steps = [loaded.codomain.pack(self.portions[1 << bit]) for bit in range(len(self.portions).bit_length() - 1)]
        return LinearLayout(loaded.domain, loaded.codomain, (*embedded[:kept], *steps, *embedded[kept:]))

    @property
    def sliced(self) -> LinearLayout:
        """Which place of the buffer each hardware index fills, when every portion goes into its slice of the buffer."""
        whole, buffer = self.whole, Space.of_shape(self.buffer)
        columns = []
        for row, column in map(whole.codomain.unpack, whole.columns):
            place = (row // self.group, column // self.vector, row % self.group, column % self.vector)
            columns.append(buffer.pack(place))
        return LinearLayout(whole.domain, self.staging.stored.codomain, tuple(columns))

    @cached_property
    def _portions(self) -> tuple[tuple[int, int], tuple[tuple[int, int], ...]]:
        """The shape of a portion, and where each begins."""
        (rows, columns), steps = self.shape, list[tuple[int, int]]()
        registers = [tuple(basis) for basis in self.staging.loaded.bases["register"]]
        while registers:
            last = registers.pop()
            if last == (rows // 2, 0) and rows // 2 >= self.group:
                rows //= 2
            elif last == (0, columns // 2) and columns // 2 >= self.vector:
                columns //= 2
            else:
                break
            steps.insert(0, (last[0], last[1]))
        begins = [(0, 0)]
        for row, column in steps:
            begins += [(begin[0] + row, begin[1] + column) for begin in begins]
        return (rows, columns), tuple(begins)

    @property
    def wanted(self) -> LinearLayout:
        """What the instruction takes of the first part at the first `steps` k-steps, in the coordinates of the tile."""
        return self.embedded(self.fetch)

    def embedded(self, layout: LinearLayout) -> LinearLayout:
        """Return a layout of the first rows and columns of the tile as one of the whole tile."""
        tile = Space.of_shape(self.shape)
        columns = tuple(tile.pack(layout.codomain.unpack(column)) for column in layout.columns)
        return LinearLayout(layout.domain, tile, columns)


def part_shape(key: Key, arrangement: str | None) -> tuple[int, int]:
    """Return the rows and columns of a part of the accumulator.

    It has all columns, and two units of rows for every warp, or as many as a vector of A's rows takes: the fragments of
    A for the next part arrive while this one is multiplied, and are few. With one unit, an instruction would often wait
    for the one before.

    When parts are summed in turn, a part has two units a warp along rows and along columns: four sums of which none
    waits for another, and all that a vector along rows or columns takes.
    """
    unit = arrange(key.oriented, arrangement)
    vector = VECTOR_BYTES // DTYPE_BYTES[unit.atom.operand_dtype]
    neighbours = 1 if key.along_a == "k" else vector // unit.atom.a.elements
    if key.summed_by_part:
        rows, columns = (2 * size * warps for size, warps in zip(unit.shape[:2], key.warps, strict=True))
        return min(key.block_m, rows), min(key.block_n, columns)
    return min(key.block_m, unit.shape[0] * key.warps[0] * max(neighbours, 2)), key.block_n


@cache
def tile_words(key: Key, arrangement: str | None) -> Words:
    """Derive the tiling of a part of a block whose operands are contiguous along the given coordinates."""
    atom = key.oriented
    tiling = derive(atom, *part_shape(key, arrangement), key.warps, arrangement)
    vector = VECTOR_BYTES // DTYPE_BYTES[atom.operand_dtype]
    for operand_name, along in (("a", key.along_a), ("b", key.along_b)):
        if along == AXIS[operand_name]:
            tiling = gather_neighbours(tiling, operand_name, vector)
    return Words(tiling)


def operand(words: Words, name: str, key: Key) -> Operand:
    """Derive how an operand is staged and fetched."""
    tiling = words.tiling
    element_bytes = DTYPE_BYTES[tiling.atom.operand_dtype]
    fragment = without_copies(tiling.fragment_a if name == "a" else tiling.fragment_b)
    rows, k = fragment.shape
    block = key.block_m if name == "a" else key.block_n
    along_k = words.fragment(name).shape[1] < k
    vector = VECTOR_BYTES // element_bytes
    if along_k:
        shape, steps = (block, key.block_k), vector // k
        fetch = _k_first(deepened(fragment, steps))
    else:
        shape, steps = (key.block_k, block), 1
        fetch = fragment.permute((1, 0))
    staging = stage_rows(shape, fetch, element_bytes, tiling.num_warps)
    way = Operand(name, along_k, shape, steps, block // rows, fetch, without_copies(words.fragment(name)), staging)
    if not along_k and way.group != k:
        raise LayoutgenError(f"matmul: {name} is staged in groups of {way.group} rows; a k-step has {k}")
    return way


def _k_first(fetched: LinearLayout) -> LinearLayout:
    """Return a fetch with its registers in another order: those along k, neighbours in memory, are the low ones."""
    bases = fetched.bases
    registers = sorted(bases["register"], key=lambda basis: not basis[1])
    return LinearLayout.from_bases({**bases, "register": registers}, fetched.shape)


def word_arrangements(atom: Atom) -> tuple[str, ...]:
    """Return where the free lane bits can go: right above those bits of a coordinate that are in a thread's registers.

    >>> from layoutgen.atoms import atom
    >>> word_arrangements(atom("m8n8k4"))
    ('n2,m2', 'm2,n2', 'n2,n3', 'm2,m3')
    """
    below = len(atom.a.register_names)
    choices = product("nm", repeat=len(atom.free_lane_bits))
    return tuple(
        ",".join(f"{axis}{below + coordinates[:i].count(axis)}" for i, axis in enumerate(coordinates))
        for coordinates in sorted(choices, key=lambda choice: abs(choice.count("m") - choice.count("n")))
    )


@cache
def best_arrangement(key: Key) -> str:
    """Return the arrangement with the fewest wavefronts per K tile.

    Free lane bits go right above the bits that are in a thread's registers, so that the lanes of one phase of a fetch
    read rows that are neighbours. Of two that are as good the first is taken, but the one that begins with m when parts
    take turns, or a single warp has vectors of A along m: there the code that ptxas makes for it spills less.
    """
    rows_first = key.summed_by_part or (key.warps == (1, 1) and key.along_a == "m")
    found: dict[str, int] = {}
    refused: list[LayoutgenError] = []
    for arrangement in word_arrangements(key.oriented):
        try:
            found[arrangement] = _wavefronts(key, arrangement)
        except LayoutgenError as error:
            refused.append(error)
    if not found:
        raise refused[0]
    return min(found, key=lambda arrangement: (found[arrangement], rows_first and arrangement[0] != "m"))


def streamed(parts: tuple[int, int]) -> str:
    """Return the operand that is fetched for every part, when parts take turns; the other's fragments are held.

    Held are those of a row of parts, or of a column where fewer columns than rows leave fewer fetches.

    >>> streamed((1, 4)), streamed((4, 1))
    ('b', 'a')
    """
    return "b" if parts[0] <= parts[1] else "a"


def _wavefronts(key: Key, arrangement: str) -> int:
    words = tile_words(key, arrangement)
    rows, columns = part_shape(key, arrangement)
    parts = key.block_m // rows, key.block_n // columns
    total = 0
    for name in "ab":
        way = operand(words, name, key)
        often = parts[0] * parts[1] if key.summed_by_part and name == streamed(parts) else way.parts
        fetches = key.block_k // words.tiling.unit.shape[2] // way.steps * often
        total += way.staging.stored_access.wavefronts + fetches * way.staging.fetched_access(way.fetch).wavefronts
    return total
