"""Claim 6 for one kernel, its tiles skipped, reordered, clamped or not masked at all."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from itertools import product

from layoutgen.kernels import FastAttentionRequest, Request
from layoutgen.proofs import Certificate, Obligation, Refutation, Verdict
from layoutgen.proofs.integers import UndecidedError
from layoutgen.readback.accesses import Access, Walk
from layoutgen.readback.arithmetic import Arithmetic, Pointer
from layoutgen.readback.attended import Load, attended_fault
from layoutgen.readback.hidden import hidden_fault
from layoutgen.readback.indices import Formula, NotLinearError, Symbols
from layoutgen.readback.launches import Launch, read_launch, shape_faults
from layoutgen.readback.places import Dims, Fault, Place, element, length_of, placed
from layoutgen.readback.polynomial import Polynomial
from layoutgen.readback.reach import Reach

SCORES = "masks of the scores cover what is seen"
PER_SCORE = ("bias", "mask")
"""Tensors that have an element per query and key."""
WITH_KEYS = ("k", "v", *PER_SCORE)
"""Tensors of which a block needs what its queries see."""


def prove_kernel(source: str, request: Request, dims: Mapping[str, Dims]) -> tuple[Verdict, ...]:
    """Discharge claim 6 for every tensor of a file's one kernel, in every way in which a launch can specialise it."""
    tree = ast.parse(source)
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    kernel, host = functions.get(f"{request.family}_kernel"), functions.get("launch_arguments")
    if kernel is None or host is None:
        missing = f"{request.family}_kernel" if kernel is None else "launch_arguments"
        return (not_followed("the file", f"has no function {missing}"),)
    wrong = [not_followed(f"line {line}", text) for line, text in shape_faults(host, dims)]
    if wrong:
        return tuple(wrong)
    symbols = Symbols(sizes_of(dims))
    return kernel_verdicts(functions, kernel, read_launch(host, kernel, symbols), dims, symbols, request)


def kernel_verdicts(
    functions: Mapping[str, ast.FunctionDef],
    kernel: ast.FunctionDef,
    launch: Launch,
    dims: Mapping[str, Dims],
    symbols: Symbols,
    request: Request,
) -> tuple[Verdict, ...]:
    """Discharge claim 6 for the tensors of one kernel, which are its parameters of these names."""
    faults: dict[str, Fault | None] = {}
    found: dict[str, list[Place]] = {tensor: [] for tensor in dims}
    done: set[object] = set()
    for choice in product((True, False), repeat=len(launch.flags)):
        flags = dict(zip(launch.flags, choice, strict=True))
        given = launch.facts
        for name, chosen in flags.items():
            says = launch.flags[name]
            if says is not None:
                given &= says if chosen else ~says
        if given.value is False:
            continue
        own = Symbols(symbols.sizes, dict(symbols.definitions), even=symbols.even)
        names: dict[str, object] = {}
        for argument in kernel.args.args:
            name, plain = argument.arg, Polynomial.symbol(argument.arg)
            names[name] = Pointer(name, Polynomial.constant(0)) if name in dims else launch.passed.get(name, plain)
            if name in flags:
                names[name] = Formula.true() if flags[name] else Formula(())
        walk = Walk(functions, launch.grid, Arithmetic(own, exact=launch.exact), watched=frozenset({"attend"}))
        walk.everything(kernel, names)
        for access in walk.accesses:
            if access.address is None:
                return (not_followed(f"line {access.line}", f"the address of this {access.kind} cannot be followed"),)
        here = _places(walk.accesses, dims)
        key = (given, tuple((t, p if isinstance(p, Fault) else tuple(p)) for t, p in here.items()))
        if key in done:
            continue  # the flag changes no index: it chooses the width of the offsets, for example
        done.add(key)
        if isinstance(request, FastAttentionRequest):
            faults.setdefault(SCORES, _scores(request, dims, here, walk))
            if faults[SCORES] is None:
                del faults[SCORES]
        for tensor, places in here.items():
            fault = faults.get(tensor) or (
                places if isinstance(places, Fault) else _fault(tensor, request, dims, here, own, given)
            )
            if fault is not None:
                faults[tensor] = fault
            if not isinstance(places, Fault):
                found[tensor] += places
    verdicts = [_verdict(tensor, dims[tensor], request, found[tensor], faults.get(tensor)) for tensor in dims]
    if isinstance(request, FastAttentionRequest):
        verdicts.append(_scores_verdict(request, faults.get(SCORES)))
    return tuple(verdicts)


def _scores(
    request: FastAttentionRequest, dims: Mapping[str, Dims], places: Mapping[str, list[Place] | Fault], walk: Walk
) -> Fault | None:
    """Return why the calls of `attend` do not weigh exactly what is seen."""
    stored = places["lse"]
    if isinstance(stored, Fault):
        return stored
    coordinate = stored[0].coordinates[[name for name, _, _ in dims["lse"]].index("query")]
    lanes = [name for name in coordinate.symbols if name.startswith("lane")]
    if len(lanes) != 1:
        return Fault("lse", f"the queries {coordinate} of a block cannot be followed", False)

    def keys(accesses: Iterable[Access]) -> list[Load]:
        """Return all loads of what has keys, with these."""
        strides = {"k": "stride_kt", "v": "stride_vt", "mask": "stride_mk", "bias": "stride_sk"}
        pointers = [access.address for access in accesses if access.address is not None]
        return [(p.tensor, p.offset.by(strides[p.tensor])) for p in pointers if p.tensor in strides]

    inside = {access for call in walk.calls for access in call.accesses}
    calls = [(call, keys(call.accesses)) for call in walk.calls]
    first = [key for _, key in keys(access for access in walk.accesses if access not in inside)]
    block = request.block_m, request.block_n
    try:
        first_query = coordinate - Polynomial.symbol(lanes[0])
        return hidden_fault(walk.functions, request) or attended_fault(
            calls, first_query, first, sees(request), block, walk.symbols
        )
    except (NotLinearError, UndecidedError) as error:
        return Fault("attend", f"is not decided: {error}", False)


def _scores_verdict(request: FastAttentionRequest, fault: Fault | None) -> Verdict:
    attended = " and its mask attends" if request.mask else ""
    beside = "; which of them a bias of -inf hides is not looked at" if request.bias else ""
    own = "what is loaded for a tile is its own" if request.bias or request.mask else "K and V of a tile are its own"
    obligation = Obligation(
        SCORES,
        6,
        f"each query weighs every key that it sees{attended}, once, and no other{beside}; {own}; for all lengths",
    )
    if fault is not None:
        return fault.refutation(obligation)
    return Certificate(obligation, "symbolic", ("all tiles of all loops taken together",))


def sizes_of(dims: Mapping[str, Dims]) -> frozenset[str]:
    """Return the names that lengths are made of."""
    lengths = [length_of(length) for tensor in dims.values() for _, _, length in tensor]
    return frozenset(name for length in lengths for name in length.symbols)


def _places(accesses: Sequence[Access], dims: Mapping[str, Dims]) -> dict[str, list[Place] | Fault]:
    result: dict[str, list[Place] | Fault] = {}
    for tensor, tensor_dims in dims.items():
        places: list[Place] = []
        fault = None
        for access in accesses:
            if access.address is not None and access.address.tensor == tensor:
                place = placed(access, tensor_dims)
                if isinstance(place, Fault):
                    fault = fault or place
                else:
                    places.append(place)
        result[tensor] = fault or places or Fault(tensor, "no load or store of it is found")
    return result


def _fault(
    tensor: str,
    request: Request,
    dims: Mapping[str, Dims],
    places: Mapping[str, list[Place] | Fault],
    symbols: Symbols,
    given: Formula,
) -> Fault | None:
    own = places[tensor]
    assert not isinstance(own, Fault)
    reach = Reach(symbols, dims[tensor], tuple(own), given)
    try:
        fault = reach.outside()
        if fault is not None:
            return fault
        needed: list[Formula] = []
        others: set[str] = set()
        if isinstance(request, FastAttentionRequest) and tensor in WITH_KEYS:
            stored = places["lse"]
            if isinstance(stored, Fault):
                what = f"which queries a block has is read off its stores of lse: {stored.witness}"
                return Fault(stored.place, what, False)
            needed, others = seen(tensor, request, stored, dims["lse"])
        for kind in sorted({place.kind for place in own}):
            of_kind = Reach(symbols, dims[tensor], tuple(p for p in own if p.kind == kind), given)
            fault = fault or of_kind.missed(needed, others)
        return fault
    except (NotLinearError, UndecidedError) as error:
        return Fault(tensor, f"is not decided: {error}", False)


def seen(
    tensor: str, request: FastAttentionRequest, stored: Sequence[Place], dims: Dims
) -> tuple[list[Formula], set[str]]:
    """Return which elements a block must touch: of what has keys, those that one of its queries sees."""
    formulas: list[Formula] = []
    others: set[str] = set()
    query = element("query")
    if tensor not in PER_SCORE:
        # Of K and V: some query that this block stores sees the key.
        (place,) = stored[:1]
        coordinate = place.coordinates[[name for name, _, _ in dims].index("query")]
        formulas += [Formula.at_least_0(coordinate - query, query - coordinate), place.condition]
        others = coordinate.symbols
    return formulas + sees(request), others


def sees(request: FastAttentionRequest) -> list[Formula]:
    """Return what holds of the query and the key of an element if the one sees the other."""
    own, key = element("query"), element("key")
    if request.alignment == "bottom-right":
        own += Polynomial.symbol("t_k") - Polynomial.symbol("t_q")
    formulas = []
    if request.right is not None:
        formulas.append(Formula.at_least_0(own + Polynomial.constant(request.right) - key))
    if request.left is not None:
        formulas.append(Formula.at_least_0(key - own + Polynomial.constant(request.left)))
    return formulas


def _verdict(tensor: str, dims: Dims, request: Request, places: Sequence[Place], fault: Fault | None) -> Verdict:
    kinds = sorted({f"{place.kind}s" for place in places}) or ["accesses"]
    shape = ", ".join(str(length) for _, _, length in dims)
    hidden = isinstance(request, FastAttentionRequest) and (request.left is not None or request.right is not None)
    inside = "that a block's queries see " if hidden and tensor in WITH_KEYS else ""
    obligation = Obligation(
        f"{' and '.join(kinds)} of {tensor} cover it",
        6,
        f"of [{shape}], for all lengths, nothing outside is touched and nothing inside {inside}is missed",
    )
    if fault is not None:
        return fault.refutation(obligation)
    lines = ", ".join(str(line) for line in sorted({place.line for place in places}))
    return Certificate(obligation, "symbolic", (f"lines {lines}: no integers make one of them go wrong",))


def not_followed(place: str, witness: str) -> Refutation:
    obligation = Obligation("global accesses cover their tensors", 6, "every load and store can be followed")
    return Refutation(obligation, "symbolic", place, witness)
