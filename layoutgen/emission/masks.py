"""Claim 6 for an emitted file as it stands: its loads and stores, held against the tensors of its request."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from layoutgen.emission.footprint import Access, Mask, Pointer, Walk
from layoutgen.emission.polynomial import Polynomial
from layoutgen.kernels import MatmulRequest, Request
from layoutgen.proofs import Obligation, Refutation, Verdict
from layoutgen.proofs.coverage import Axis, Footprint, Step, Tiles, covers

Dims = tuple[tuple[str, str, str | int], ...]
"""Per dim of a tensor: what it is called, the kernel's stride parameter, its length (the host's name, or a number)."""
ACCESS = "global accesses cover their tensors"


def tensors(request: Request) -> dict[str, Dims]:
    """Return the tensors of a request, by the name of the kernel's pointer, dims in the order of the array."""
    if isinstance(request, MatmulRequest):
        b = [("k", "stride_bk", "k"), ("column", "stride_bn", "n")]
        return {
            "a": (("batch", "stride_az", "batch"), ("row", "stride_am", "m"), ("k", "stride_ak", "k")),
            "b": (("batch", "stride_bz", "batch"), *(b if request.b_order == "kn" else reversed(b))),
            "c": (("batch", "stride_cz", "batch"), ("row", "stride_cm", "m"), ("column", "stride_cn", "n")),
        }

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
    if getattr(request, "bias", False):
        result["bias"] = (*heads("s", "heads"), ("query", "stride_sq", "t_q"), ("key", "stride_sk", "t_k"))
    return result


def prove_masks(source: str, request: Request) -> tuple[Verdict, ...]:
    """Discharge claim 6 for every tensor that the kernel of a file loads from or stores to."""
    tree = ast.parse(source)
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    kernel, host = functions.get(f"{request.family}_kernel"), functions.get("launch_arguments")
    if kernel is None or host is None:
        missing = f"{request.family}_kernel" if kernel is None else "launch_arguments"
        return (_unfollowed("the file", f"has no function {missing}"),)
    dims = tensors(request)
    wrong = _shapes(host, dims)
    if wrong is not None:
        return (wrong,)
    walk = Walk(functions, _grid(host), divisors=_divisors(host, kernel))
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


def _passed(host: ast.FunctionDef, kernel: ast.FunctionDef) -> dict[str, ast.expr]:
    """Return what the host passes for the kernel's last parameters: those after the strides."""
    for node in reversed(host.body):
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple) and len(node.value.elts) == 2:
            arguments = node.value.elts[1]
            values = arguments.elts if isinstance(arguments, ast.Tuple) else []
            plain: list[ast.expr] = []
            for value in reversed(values):
                if isinstance(value, ast.Starred):
                    break
                plain.append(value)
            parameters = [argument.arg for argument in kernel.args.args]
            return dict(zip(reversed(parameters), plain, strict=False))
    return {}


def _bound(host: ast.FunctionDef, kernel: ast.FunctionDef) -> dict[str, str]:
    """Return the host's name for each of the kernel's sizes."""
    return {name: value.id for name, value in _passed(host, kernel).items() if isinstance(value, ast.Name)}


def _divisors(host: ast.FunctionDef, kernel: ast.FunctionDef) -> dict[str, tuple[str, str]]:
    """Return the parameters that are a quotient whole // part, where the host refuses a remainder."""
    exact = {
        (node.left.id, node.right.id)
        for test in (inner.test for inner in ast.walk(host) if isinstance(inner, ast.If))
        for node in ast.walk(test)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod)
        if isinstance(node.left, ast.Name) and isinstance(node.right, ast.Name)
    }
    found = {}
    for name, value in _passed(host, kernel).items():
        match value:
            case ast.BinOp(left=ast.Name(id=whole), op=ast.FloorDiv(), right=ast.Name(id=part)) if (
                whole,
                part,
            ) in exact:
                found[name] = (whole, part)
    return found


def _shapes(host: ast.FunctionDef, dims: Mapping[str, Dims]) -> Refutation | None:
    """Check that the host takes each size from the dim that has it."""
    lengths = {length for tensor in dims.values() for _, _, length in tensor if isinstance(length, str)}
    for node in ast.walk(host):
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Tuple):
            continue
        tensor = _shape_of(node.value)
        names = [getattr(target, "id", "") for target in node.targets[0].elts]
        if tensor not in dims:
            continue
        expected: Sequence[str | int] = [length for _, _, length in dims[tensor]][-len(names) :]
        for name, length in zip(names, expected, strict=False):
            if name in lengths and name != length:
                return _unfollowed(f"line {node.lineno}", f"{name} is read from the dim of {tensor} that has {length}")
    return None


def _shape_of(node: ast.expr) -> str:
    """Return x of `x.shape` or `x.shape[-2:]`."""
    if isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Attribute) and node.attr == "shape" and isinstance(node.value, ast.Name):
        return node.value.id
    return ""
