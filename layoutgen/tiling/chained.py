"""Two products in a row whose middle stays in registers: S = Q K^T, then O = P V with P made from S elementwise.

The accumulator of S is no operand of O: the instruction's tables put some row bits of S into registers and some key
bits into lanes. What is left over is exchanged; a lane bit that still tells keys apart, where O spends the same bit on
its columns, is gathered: each of the two lanes gets the other's keys as well. Both then hold all keys, each its own
first, so the lanes sum the keys in different orders and V's rows are fetched in the order of the lane's columns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from layoutgen.algebra import LinearLayout, Space, hardware_space
from layoutgen.algebra.operations import rename_bits
from layoutgen.errors import LayoutgenError
from layoutgen.tiling.relabelling import Product
from layoutgen.tiling.tile import Tiling, hardware_order


def rename_columns(tiling: Tiling, order: tuple[int, ...]) -> Tiling:
    """Return a tiling whose column bit i is called bit `order[i]`: the columns of a product may come in any order."""
    return replace(
        tiling,
        accumulator=rename_bits(tiling.accumulator, "dim1", order),
        fragment_b=rename_bits(tiling.fragment_b, "dim0", order),
    )


def vector_columns(tiling: Tiling, vector: int) -> Tiling:
    """Rename columns so that a thread fetches up to `vector` neighbouring ones of B at once.

    Registers that hold columns of one k come first: those of the atom, then as many repeats as the vector takes.
    """
    names = ["register", "lane", "warp"]
    order = _bit_names(tiling)
    bits = [name for dim in names for name in order[dim]]
    owner = {}
    for name, column in zip(bits, tiling.fragment_b.columns, strict=True):
        row = column >> tiling.fragment_b.codomain.bits_of("dim1")
        if row:
            owner[row.bit_length() - 1] = name
    registers = [bit for bit in sorted(owner) if owner[bit] in order["register"]]
    first = registers[: vector.bit_length() - 1]
    rest = [bit for bit in sorted(owner) if bit not in first]
    place = {bit: position for position, bit in enumerate([*first, *rest])}
    return rename_columns(tiling, tuple(place[bit] for bit in range(len(place))))


def _bit_names(tiling: Tiling) -> dict[str, list[str]]:
    return hardware_order(tiling.unit, tiling.block_m, tiling.block_n, tiling.warps)


def _positions(tiling: Tiling) -> dict[str, int]:
    """Return the position of each hardware bit in the domain of a tiling's layouts, by name."""
    order = _bit_names(tiling)
    names = [name for dim in ("register", "lane", "warp") for name in order[dim]]
    return {name: position for position, name in enumerate(names)}


@dataclass(frozen=True)
class Chain:
    """The second product of a chain: O = P V, with P from the accumulator of `first`.

    `weights` is P as it lies after the exchange, [block_m, keys]: rows where O's left operand wants them, keys in
    registers but for the `gathered` lane bits. `fragment_a` and `fragment_b` are what a thread hands to the instruction
    at one step: fragment_a with the keys of its own lane, [block_m, group], of which a step takes k; fragment_b is
    [columns, k]. Raises LayoutgenError when the atoms' tables leave more than this construction moves.

    >>> from layoutgen.atoms import atom
    >>> from layoutgen.tiling import derive
    >>> scores = derive(atom("m8n8k4"), 64, 32, (2, 1), "m2,n2")
    >>> Chain(scores, derive(atom("m8n8k4.row.row"), 64, 64, (2, 1), "m2,n3")).gathered
    ('q1', 8)
    """

    first: Tiling
    second: Tiling

    def __post_init__(self) -> None:
        _ = self.gathered, self.product.relabel_a

    @cached_property
    def _names(self) -> dict[str, int]:
        """Hardware bit -> its position in the domain of the first product's layouts."""
        return _positions(self.first)

    @cached_property
    def _second_names(self) -> dict[str, int]:
        return _positions(self.second)

    @cached_property
    def weights(self) -> LinearLayout:
        """P after the exchange: what O's left operand says of a hardware bit, else what the first product says."""
        source = self.first.accumulator
        k_bits = self.second.fragment_a.codomain.bits_of("dim1")
        keys = source.codomain.bits_of("dim1")
        columns = list(source.columns)
        for name, position in self._names.items():
            wanted = self.second.fragment_a.columns[self._second_names[name]] if name in self._second_names else 0
            if wanted and not name.startswith("nb"):
                row, k = wanted >> k_bits, wanted & (1 << k_bits) - 1
                columns[position] = row << keys | k
        found = LinearLayout(source.domain, source.codomain, tuple(columns))
        if not found.is_bijective:
            raise LayoutgenError(
                f"chain: {self.first.atom.alias} {self.first.unit.arrangement} into {self.second.atom.alias} "
                f"{self.second.unit.arrangement}: the left operand and the scores claim the same bits"
            )
        return found

    @cached_property
    def group_bits(self) -> tuple[str, ...]:
        """The register bits of P that count groups of keys, lowest key first."""
        keys = self.weights.codomain.bits_of("dim1")
        found = {self.weights.columns[self._names[name]]: name for name in _bit_names(self.first)["register"]}
        return tuple(found[column] for column in sorted(found) if self.group <= column < 1 << keys)

    @cached_property
    def group_weights(self) -> LinearLayout:
        """`weights` of one group of keys, without the registers that count the groups: [block_m, group]."""
        return self._group(self.weights)

    @cached_property
    def group_scores(self) -> LinearLayout:
        """The accumulator of the first product for one group of keys, like `group_weights`."""
        return self._group(self.first.accumulator)

    def _group(self, whole: LinearLayout) -> LinearLayout:
        counted = [self._names[name] for name in self.group_bits]
        codomain = Space.of_shape((self.first.block_m, self.group))
        kept = [column for bit, column in enumerate(whole.columns) if bit not in counted]
        columns = tuple(codomain.pack(whole.codomain.unpack(column)) for column in kept)
        bits = {dim: whole.domain.bits_of(dim) for dim in ("register", "lane", "warp")}
        bits["register"] -= len(counted)
        return LinearLayout(hardware_space(bits), codomain, columns)

    def all_weights(self, group_weights: LinearLayout) -> LinearLayout:
        """Return where all of P lies if each group lies as `group_weights` says."""
        whole = self.first.accumulator
        columns = [whole.codomain.pack(group_weights.codomain.unpack(column)) for column in group_weights.columns]
        for position in sorted(self._names[name] for name in self.group_bits):
            columns.insert(position, whole.columns[position])
        return LinearLayout(whole.domain, whole.codomain, tuple(columns))

    @property
    def k(self) -> int:
        """Keys a step takes."""
        return self.second.unit.shape[2]

    @cached_property
    def gathered(self) -> tuple[str, int]:
        """The lane bit that tells keys apart, which O spends on columns; and by how much its lane number counts."""
        lanes = list(self.first.atom.lane_names)
        keys = self.first.accumulator.codomain.bits_of("dim1")
        found = [name for name in lanes if self.weights.columns[self._names[name]] & (1 << keys) - 1]
        if len(found) != 1:
            raise LayoutgenError(
                f"chain: lane bits {' '.join(found) or 'none'} tell keys apart after the exchange; one can be gathered"
            )
        if self.weights.columns[self._names[found[0]]] != self.k:
            raise LayoutgenError(f"chain: lane bit {found[0]} must be the key bit above the {self.k} keys of a step")
        return found[0], 1 << lanes.index(found[0])

    @property
    def group(self) -> int:
        """Keys that a pair of steps takes: those of the lane itself, then those of its partner."""
        return 2 * self.k

    @cached_property
    def flip(self) -> tuple[int, int]:
        """(column bit, key bit): the key order is turned over in the key bit where the column bit is set."""
        column = self.second.accumulator.columns[self._second_names[self.gathered[0]]]
        return column.bit_length() - 1, self.k.bit_length() - 1

    @cached_property
    def fragment_a(self) -> LinearLayout:
        """The left operand of one step, told apart by the lane's own keys: [block_m, group]."""
        base = self.second.fragment_a
        wider = Space.of_shape((self.second.block_m, self.group))
        columns = [wider.pack(base.codomain.unpack(column)) for column in base.columns]
        columns[self._second_names[self.gathered[0]]] = wider.pack((0, self.k))
        return LinearLayout(base.domain, wider, tuple(columns))

    @property
    def fragment_b(self) -> LinearLayout:
        return self.second.fragment_b

    @property
    def fetched(self) -> LinearLayout:
        """The right operand as it is fetched from V's buffer: [k, columns]."""
        return self.fragment_b.permute((1, 0))

    @cached_property
    def product(self) -> Product:
        """O = P V of one step, cut between units of rows."""
        accumulator = self.second.accumulator
        unit_rows = self.second.unit.shape[0].bit_length() - 1
        cuts = frozenset({accumulator.codomain.bits_of("dim1") + unit_rows})
        return Product(accumulator, self.fragment_a, self.fragment_b, cuts)

    # ---- all steps at once, for the proof that both operands sum the same keys

    @cached_property
    def _step_domain(self) -> Space:
        base = self.second.accumulator.domain
        steps = (self.first.block_n // self.k).bit_length() - 1
        return hardware_space(
            {
                "register": base.bits_of("register") + steps,
                "lane": base.bits_of("lane"),
                "warp": base.bits_of("warp"),
            }
        )

    def _with_steps(self, columns: tuple[int, ...], steps: list[int], codomain: Space) -> LinearLayout:
        registers = self.second.accumulator.domain.bits_of("register")
        return LinearLayout(self._step_domain, codomain, (*columns[:registers], *steps, *columns[registers:]))

    def left(self, weights: LinearLayout) -> LinearLayout:
        """What a thread holds as left operand at every step, if P lies as `weights` says: [block_m, keys].

        The steps are the highest registers: own or partner's keys first, then the groups. The partner's keys are those
        that `weights` puts into the lane across the gathered bit.
        """
        name = self.gathered[0]
        own = {bit: weights.columns[self._names[bit]] for bit in self._names}
        taken = {bit for bit in self._second_names if self.fragment_a.columns[self._second_names[bit]]}
        columns = tuple(own[bit] if bit in taken and bit in own else 0 for bit in self._second_names)
        groups = [own[bit] for bit in _bit_names(self.first)["register"] if bit not in taken or bit.startswith("nb")]
        return self._with_steps(columns, [own[name], *groups], weights.codomain)

    def step_a(self, left: LinearLayout) -> LinearLayout:
        """The left operand of the first step as the atom's table has it: [block_m, k], whichever keys these are."""
        registers = self.second.accumulator.domain.bits_of("register")
        steps = range(registers, left.domain.bits_of("register"))
        codomain = Space.of_shape((self.second.block_m, self.k))
        coordinates = [left.codomain.unpack(c) for bit, c in enumerate(left.columns) if bit not in steps]
        columns = tuple(codomain.pack((row, key & self.k - 1)) for row, key in coordinates)
        return LinearLayout(self.second.accumulator.domain, codomain, columns)

    def right(self, fetched: LinearLayout) -> LinearLayout:
        """What a thread holds as right operand at every step, if it fetches as `fetched` says: [columns, keys].

        The buffer's row r holds, at column d, the key that differs from r in the flipped bit where d has its column
        bit.
        """
        keys = self.first.block_n
        codomain = Space.of_shape((self.second.block_n, keys))
        column_bit, key_bit = self.flip

        def turned(row: int, column: int) -> int:
            return codomain.pack((column, row ^ (column >> column_bit & 1) << key_bit))

        columns = tuple(turned(*fetched.codomain.unpack(column)) for column in fetched.columns)
        steps = [turned(self.k << bit, 0) for bit in range((keys // self.k).bit_length() - 1)]
        return self._with_steps(columns, steps, codomain)
