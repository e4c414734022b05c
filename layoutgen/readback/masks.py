"""Claim 6 for an emitted file as it stands: its loads and stores, held against the tensors of its request."""

from __future__ import annotations

import ast

from layoutgen.kernels import FastAttentionRequest, FastMatmulRequest, MatmulRequest, Request
from layoutgen.proofs import Obligation, Refutation, Verdict
from layoutgen.proofs.coverage import Axis, Footprint, Step, Tiles, covers
from layoutgen.readback.footprint import Access, Mask, Pointer, Walk
from layoutgen.readback.launches import divisors, passed, shape_faults
from layoutgen.readback.masks_fast import prove_fast_masks
from layoutgen.readback.masks_several import prove_launches
from layoutgen.readback.places import Dims
from layoutgen.readback.polynomial import Polynomial

ACCESS = "global accesses cover their tensors"


def tensors(request: Request) -> dict[str, Dims]:
    """Return the tensors of a request, by the name of the kernel's pointer, dims in the order of the array."""
    if isinstance(request, MatmulRequest | FastMatmulRequest):
        a = [("row", "stride_am", "m"), ("k", "stride_ak", "k")]
        b = [("k", "stride_bk", "k"), ("column", "stride_bn", "n")]
        dims: dict[str, Dims] = {
            "a": (("batch", "stride_az", "batch"), *(a if getattr(request, "a_order", "mk") == "mk" else reversed(a))),
            "b": (("batch", "stride_bz", "batch"), *(b if request.b_order == "kn" else reversed(b))),
        }
        # What is added to C has its shape, by strides of 0 where it is broadcast.
        for name, letter in (("c", "c"), ("bias", "s"), ("residual", "r")):
            if name == "c" or getattr(request, name, False):
                rows, columns = ("row", f"stride_{letter}m", "m"), ("column", f"stride_{letter}n", "n")
                dims[name] = (("batch", f"stride_{letter}z", "batch"), rows, columns)
        return dims

    def heads(letter: str, count: str) -> Dims:
        return ("batch", f"stride_{letter}b", "batch"), ("head", f"stride_{letter}h", count)

    size = request.head_dim
    value = getattr(request, "value_dim", size)
    result: dict[str, Dims] = {
        "q": (*heads("q", "heads"), ("query", "stride_qt", "t_q"), ("head dim", "stride_qd", size)),
        "k": (*heads("k", "kv_heads"), ("key", "stride_kt", "t_k"), ("head dim", "stride_kd", size)),
        "v": (*heads("v", "kv_heads"), ("key", "stride_vt", "t_k"), ("head dim", "stride_vd", value)),
        "out": (*heads("o", "heads"), ("query", "stride_ot", "t_q"), ("head dim", "stride_od", value)),
        "lse": (*heads("l", "heads"), ("query", "stride_lt", "t_q")),
    }
    if getattr(request, "sinks", False):
        result["sinks"] = (("head", "stride_sink_h", "heads"),)
    if getattr(request, "mask", False):
        result["mask"] = (*heads("m", "heads"), ("query", "stride_mq", "t_q"), ("key", "stride_mk", "t_k"))
    if getattr(request, "bias", False):
        result["bias"] = (*heads("s", "heads"), ("query", "stride_sq", "t_q"), ("key", "stride_sk", "t_k"))
    return result


def prove_masks(source: str, request: Request) -> tuple[Verdict, ...]:
    """Discharge claim 6 for every tensor that the kernel of a file loads from or stores to."""
    if isinstance(request, FastAttentionRequest | FastMatmulRequest):
        if isinstance(request, FastMatmulRequest) and len(request.kernels) > 1:
            return prove_launches(source, request, tensors(request))
        return prove_fast_masks(source, request, tensors(request))
    tree = ast.parse(source)
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    kernel, host = functions.get(f"{request.family}_kernel"), functions.get("launch_arguments")
    if kernel is None or host is None:
        missing = f"{request.family}_kernel" if kernel is None else "launch_arguments"
        return (_unfollowed("the file", f"has no function {missing}"),)
    dims = tensors(request)
    wrong = tuple(_unfollowed(f"line {line}", text) for line, text in shape_faults(host, dims))
    if wrong:
        return wrong
    walk = Walk(functions, _grid(host), divisors=divisors(host, kernel))
    bound = _bound(host, kernel)
    names: dict[str, object] = {}
    for argument in kernel.args.args:
        name = argument.arg
        zero = Polynomial.constant(0)
        names[name] = Pointer(name, zero) if name in dims else Polynomial.symbol(bound.get(name, name))
    walk.block(kernel.body, names)
    verdicts: list[Verdict] = []
    for tensor, tensor_dims in dims.items():
        verdicts.append(_tensor(tensor, tensor_dims, walk))
    for access in walk.accesses:
        if not isinstance(access.address, Pointer):
            verdicts.append(_unfollowed(f"line {access.line}", f"the address of this {access.kind} cannot be followed"))
    return tuple(verdicts)


def _unfollowed(place: str, witness: str) -> Refutation:
    return Refutation(Obligation(ACCESS, 6, "every load and store can be followed"), "symbolic", place, witness)


def _tensor(tensor: str, dims: Dims, walk: Walk) -> Verdict:
    footprints = []
    for access in walk.accesses:
        if isinstance(access.address, Pointer) and access.address.tensor == tensor:
            footprint = _footprint(access, access.address, dims, walk)
            if isinstance(footprint, Refutation):
                return footprint
            footprints.append(footprint)
    if not footprints:
        return _unfollowed(tensor, "no load or store of it is found")
    return covers(tensor, [name for name, _, _ in dims], footprints)


def _footprint(access: Access, address: Pointer, dims: Dims, walk: Walk) -> Footprint | Refutation:
    """Read coordinates off the strides of an address, and match each bound of the mask with one of them."""
    place = f"line {access.line}"
    if access.mask is not None and not isinstance(access.mask, Mask):
        return _unfollowed(place, f"the mask of this {access.kind} cannot be followed")
    coordinates = {stride: address.offset.by(stride) for _, stride, _ in dims}
    rest = address.offset
    for stride, coordinate in coordinates.items():
        rest -= coordinate * Polynomial.symbol(stride)
    if rest != Polynomial.constant(0):
        return _unfollowed(place, f"its address has {rest}, which is no coordinate times a stride of {address.tensor}")
    bounds = list(access.mask.positive) if access.mask is not None else []
    axes = []
    for name, stride, length in dims:
        coordinate = coordinates[stride]
        size = Polynomial.symbol(length) if isinstance(length, str) else Polynomial.constant(length)
        exact = size - coordinate
        masked = exact in bounds
        bounds = [bound for bound in bounds if bound != exact]
        axis = _axis(coordinate, length, masked, walk)
        if axis is None:
            return _unfollowed(place, f"the {name} {coordinate} cannot be followed")
        axes.append(axis)
    if bounds:
        return _unfollowed(place, f"its mask demands {bounds[0]} > 0, which is no bound of {address.tensor}")
    return Footprint(address.tensor, access.kind, access.line, tuple(axes))


def _axis(coordinate: Polynomial, length: str | int, masked: bool, walk: Walk) -> Axis | None:
    start, steps, base = 0, [], []
    for monomial, coefficient in coordinate.terms:
        if not monomial:
            start = coefficient
            continue
        if len(monomial) == 1 and monomial[0] in walk.counts:
            base.append((coefficient, walk.counts[monomial[0]]))
            continue
        extent = walk.extents.get(monomial[0]) if len(monomial) == 1 else None
        if extent is None or coefficient < 1:
            return None
        steps.append(Step(coefficient, extent))
    return Axis(length, start, tuple(steps), masked, tuple(base)) if start >= 0 else None


# ---- the host function


def _grid(host: ast.FunctionDef) -> tuple[Tiles | None, ...]:
    """Return what each program index counts: a size of the host's, or tiles of it."""
    for node in host.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "grid":
            elements = node.value.elts if isinstance(node.value, ast.Tuple) else []
            return tuple(_counted(element) for element in elements)
    return ()


def _counted(node: ast.expr) -> Tiles | None:
    """Read `name` or `-(-name // size)`."""
    if isinstance(node, ast.Name):
        return Tiles(node.id, 1)
    match node:
        case ast.UnaryOp(
            op=ast.USub(),
            operand=ast.BinOp(
                left=ast.UnaryOp(op=ast.USub(), operand=ast.Name(id=name)),
                op=ast.FloorDiv(),
                right=ast.Constant(value=int(size)),
            ),
        ) if size > 0:
            return Tiles(name, size)
    return None


def _bound(host: ast.FunctionDef, kernel: ast.FunctionDef) -> dict[str, str]:
    """Return the host's name for each of the kernel's sizes."""
    return {name: value.id for name, value in passed(host, kernel).items() if isinstance(value, ast.Name)}
