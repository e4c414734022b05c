"""What a chain of two products rests on: the exchange, and that both operands of the second one sum the same keys."""

from __future__ import annotations

from layoutgen.algebra import LinearLayout, classify, gf2
from layoutgen.proofs.claims import bases, bijective, hardware, relabelled, replicated
from layoutgen.proofs.fragments import holds_fragment
from layoutgen.proofs.obligation import Certificate, Obligation, Refutation, Verdict
from layoutgen.tiling.chained import Chain


def exchanged(name: str, source: LinearLayout, target: LinearLayout, element_bytes: int) -> Verdict:
    """Check that the scores become a left operand by shuffles alone, and say how many; both must be bijections."""
    obligation = Obligation(f"{name} stays within the warp", 3, "registers and lanes trade bits; nothing is stored")
    for layout in (source, target):
        if not layout.is_bijective:
            witness = f"of {layout.codomain.size} elements only {1 << layout.rank} have an owner"
            return Refutation(obligation, "rank", "scores" if layout is source else "weights", witness)
    conversion = classify(source, target)
    if not conversion.swaps or conversion.shuffles(element_bytes) == 0:
        return Refutation(obligation, "rank", target.domain.bit_name(conversion.telling_bit), conversion.witness)
    pairs = ", ".join(f"{lane} with {register}" for lane, register in conversion.swaps)
    return Certificate(obligation, "rank", (pairs, f"{conversion.shuffles(element_bytes)} shuffles a warp"))


def cut_into_steps(name: str, fetched: LinearLayout, fragment: LinearLayout, k: int) -> Verdict:
    """Check that a fetched vector is `fragment` at consecutive k-steps: the highest registers count the steps."""
    obligation = Obligation(f"a fetched vector of {name} is whole k-steps", 3, f"register by register, {k} k a step")
    registers = fragment.domain.bits_of("register")
    steps = fetched.domain.bits_of("register") - registers
    wanted = [fetched.codomain.pack(fragment.codomain.unpack(column)) for column in fragment.columns]
    wanted[registers:registers] = [fetched.codomain.pack((0, k << bit)) for bit in range(steps)]
    for bit, (have, want) in enumerate(zip(fetched.columns, wanted, strict=True)):
        if have != want:
            return Refutation(
                obligation,
                "rank",
                fetched.domain.bit_name(bit),
                f"{hardware(fetched, 1 << bit)} holds {fetched.codomain.unpack(have)}; "
                f"wanted is {fetched.codomain.unpack(want)}",
            )
    return Certificate(obligation, "rank", (f"{1 << steps} steps, {len(wanted)} of {len(wanted)} bases equal",))


def sums_keys(name: str, chain: Chain, left: LinearLayout, right: LinearLayout) -> Verdict:
    """Check that at every step both operands of an instruction hold the same keys, and that each key is summed once.

    `left` and `right` are [rows, keys] and [columns, keys] over (register with steps, lane, warp). The instruction
    reads key number k of a product from the registers and lanes that its tables name; which key that is may depend on
    the step and on the free lane bits, but not on the operand, the row or the column.
    """
    atom = chain.second.atom
    obligation = Obligation(f"{name} sums every key once", 4, "both operands hold the same key at every step")
    domain = left.domain
    registers = domain.bits_of("register")
    keys = left.codomain.bits_of("dim1")
    mask = (1 << keys) - 1
    repeats = chain.second.accumulator.domain.bits_of("register")
    # The key that each k bit, step and free lane bit adds, as the left operand has it.
    position = {name: bit for bit, name in enumerate(atom.accumulator.register_names)}
    position |= {name: registers + bit for bit, name in enumerate(atom.lane_names)}

    def places(operand: str) -> dict[int, str]:
        fragment = atom.fragment(operand)
        alias = dict(zip(fragment.register_names, atom.accumulator.register_names, strict=False))
        return {position[alias.get(terms[0], terms[0])]: f"k{bit}" for bit, terms in enumerate(fragment.formula("k"))}

    k_left, k_right = places("a"), places("b")
    free = {position[lane]: lane for lane in atom.free_lane_bits}
    steps = {bit: f"step{bit - repeats}" for bit in range(repeats, registers)}
    order = {label: left.columns[bit] & mask for bit, label in (k_left | free | steps).items()}
    for side, layout, named in (("left", left, k_left), ("right", right, k_right)):
        labels = named | free | steps
        for bit, column in enumerate(layout.columns):
            have, want = column & mask, order.get(labels.get(bit, ""), 0)
            if have != want:
                return Refutation(
                    obligation,
                    "rank",
                    bases(layout, 1 << bit),
                    f"the {side} operand of {hardware(layout, 1 << bit)} holds key {have}; the other has {want} there",
                )
    summed = [order[label] for label in (*k_left.values(), *steps.values())]
    if gf2.rank(summed) != keys or len(summed) != keys:
        return Refutation(obligation, "rank", "steps", f"{1 << gf2.rank(summed)} of {1 << keys} keys are summed")
    return Certificate(
        obligation, "rank", (f"{len(left.columns)} bases of each operand", f"{1 << keys} keys, each once")
    )


def prove_chain(
    chain: Chain,
    accumulator: LinearLayout,
    weights: LinearLayout,
    fetched: LinearLayout,
    names: tuple[str, str, str],
    element_bytes: int,
) -> tuple[Verdict, ...]:
    """Discharge claims 1 to 4 for the second product, for layouts that may have been read from a file.

    `names` are what the verdicts call the accumulator, the weights and the fetched fragment of V.
    """
    name, name_p, name_v = names
    unit = chain.second.unit
    grouped = accumulator.reshape(chain.product.shape)
    fragment_b = fetched.permute((1, 0))
    left, right = chain.left(weights), chain.right(fetched)
    return (
        bijective(name, accumulator),
        bijective(name_p, weights),
        exchanged(f"the exchange into {name_p}", chain.first.accumulator, weights, element_bytes),
        replicated(name_v, fragment_b),
        relabelled(name_p, chain.product.relabel_a.apply(chain.fragment_a), grouped),
        relabelled(name_v, chain.product.relabel_b.apply(fragment_b), grouped),
        holds_fragment(f"{name_p} at a step", unit, "a", accumulator, chain.step_a(left)),
        holds_fragment(name_v, unit, "b", accumulator, fragment_b),
        sums_keys(f"{name_p} with {name_v}", chain, left, right),
    )
