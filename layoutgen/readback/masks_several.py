"""Claim 6 for a file whose call launches several kernels: two-part operands and a split K of the fast matmul."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from layoutgen.kernels import FastMatmulRequest
from layoutgen.kernels.matmul_workspace import PRODUCTS
from layoutgen.proofs import Verdict
from layoutgen.readback.accesses import Walk
from layoutgen.readback.arithmetic import Arithmetic
from layoutgen.readback.indices import Formula, Symbols
from layoutgen.readback.launches import Host, Launch
from layoutgen.readback.masks_kernel import kernel_verdicts, not_followed, sizes_of
from layoutgen.readback.places import Dims
from layoutgen.readback.polynomial import Polynomial


@dataclass(frozen=True)
class Launched:
    """One launch of the host function: the kernel's name, and the expressions of its grid and its last arguments."""

    kernel: str
    grid: tuple[ast.expr, ...]
    arguments: tuple[ast.expr, ...]
    bound: Mapping[str, ast.expr]
    """What the host's names are bound to by then."""


def tensors_of(kernel: str, request: FastMatmulRequest, own: Mapping[str, Dims]) -> dict[str, Dims]:
    """Return the tensors of one of the kernels; `own` are those of a call without a workspace."""
    exponents: dict[str, Dims] = {}
    if request.operand_dtype is not None:
        exponents = {
            "a_exponents": (("batch", "m", "batch"), ("row", "1", "m")),
            "b_exponents": (("batch", "n", "batch"), ("column", "1", "n")),
        }
    around = {name: dims for name, dims in own.items() if name not in "ab"} | exponents
    split = request.split_k
    partials: Dims = (
        ("share", "stride_pz", f"{split} * batch"),
        ("row", "stride_pm", "m"),
        ("column", "stride_pn", "n"),
    )
    if kernel == "finish_kernel":
        return {"partials": partials, **around}
    if kernel == "matmul_kernel":
        return {"a": own["a"], "b": own["b"]} | (around if split == 1 else {"partials": partials})
    name = kernel.removeprefix("split_").removesuffix("_kernel")
    axis, size = ("row", "m") if name == "a" else ("column", "n")
    parts: Dims = (
        ("batch", f"{PRODUCTS} * k_padded * {size}_padded", "batch"),
        (axis, f"{PRODUCTS} * k_padded", f"{size}_padded"),
        ("k", "1", f"{PRODUCTS} * k_padded"),
    )
    if request.along(name) != "k":
        across, along = (axis, "1", f"{size}_padded"), ("k", f"{size}_padded", f"{PRODUCTS} * k_padded")
        parts = (parts[0], along, across)
    return {
        name: (("batch", "stride_z", "batch"), (axis, f"stride_{size}", size), ("k", "stride_k", "k")),
        f"{name}_parts": parts,
        f"{name}_exponents": (("batch", size, "batch"), (axis, "1", size)),
    }


def prove_launches(source: str, request: FastMatmulRequest, own: Mapping[str, Dims]) -> tuple[Verdict, ...]:
    """Discharge claim 6 for each kernel that the host function `launches` of a file launches.

    Sizes and strides are those that the kernel is given; that they describe what one kernel hands to the next is a
    matter of the host function, which `prove_checks` compares.
    """
    tree = ast.parse(source)
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    host = functions.get("launches")
    found = {} if host is None else {launched.kernel: launched for launched in _launched(host)}
    verdicts: list[Verdict] = []
    for name in request.kernels:
        launched, kernel = found.get(name), functions.get(name)
        if launched is None or kernel is None:
            verdicts.append(not_followed("launches", f"{name} is not launched"))
            continue
        dims = tensors_of(name, request, own)
        symbols = Symbols(sizes_of(dims), even=True)
        launch = _launch(launched, kernel, symbols)
        for verdict in kernel_verdicts(functions, kernel, launch, dims, symbols, request):
            obligation = replace(verdict.obligation, name=f"{name}: {verdict.obligation.name}")
            verdicts.append(replace(verdict, obligation=obligation))
    return tuple(verdicts)


def _launched(host: ast.FunctionDef) -> Iterator[Launched]:
    """Yield what is appended to the list of launches, with the names that are bound by then put in."""
    bound: dict[str, ast.expr] = {}

    def elements(node: ast.expr) -> tuple[ast.expr, ...]:
        node = bound.get(node.id, node) if isinstance(node, ast.Name) else node
        inner = node.elts if isinstance(node, ast.Tuple) else []
        found: list[ast.expr] = []
        for element in inner:
            tuples = elements(element.value) if isinstance(element, ast.Starred) else ()
            found += tuples or (element,)
        return tuple(found)

    for node in host.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                bound[name] = value
            case ast.Expr(
                value=ast.Call(
                    func=ast.Attribute(attr="append"), args=[ast.Tuple(elts=[ast.Name(id=kernel), grid, arguments])]
                )
            ):
                yield Launched(kernel, elements(grid), elements(arguments), dict(bound))


def _launch(launched: Launched, kernel: ast.FunctionDef, symbols: Symbols) -> Launch:
    """Return a launch in the kernel's own names: the host's are those of the parameters that it passes them for."""
    last: list[ast.expr] = []
    for argument in reversed(launched.arguments):
        if isinstance(argument, ast.Starred):
            break
        last.append(argument)
    parameters = [argument.arg for argument in kernel.args.args]
    given = dict(zip(reversed(parameters), last, strict=False))
    names = Host()
    for name, value in given.items():
        # Sizes come last; what is a stride as well is named by them.
        if isinstance(value, ast.Name):
            names.setdefault(value.id, Polynomial.symbol(name))
    arithmetic = Arithmetic(symbols, to_zero=False)
    walk = Walk({}, (), arithmetic)
    grid = tuple(arithmetic.plain(walk.value(element, names)) for element in launched.grid)
    flags: dict[str, Formula | None] = {}
    facts = Formula.true()
    for parameter in kernel.args.args:
        name = parameter.arg
        if name not in given:
            continue
        node = given[name]
        condition = launched.bound.get(node.id, node) if isinstance(node, ast.Name) else node
        says = walk.value(condition, names)
        if parameter.annotation is not None:
            flags[name] = says if isinstance(says, Formula) else None
        elif condition is not node:
            # The name is computed: k_padded from k, for example.
            computed = arithmetic.plain(says)
            if computed is not None and name not in computed.symbols:
                gap = Polynomial.symbol(name) - computed
                facts &= Formula.at_least_0(gap, -gap)
    return Launch(grid, {}, flags, {}, facts)
