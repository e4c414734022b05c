"""Values of a wrong type, and requests that an emitted file cannot carry, are refused with a message of their own."""

import pytest

import layoutgen as lg
from layoutgen.cli.options import integers
from layoutgen.errors import LayoutgenError
from layoutgen.kernels import request_from_dict
from layoutgen.kernels.request import check_shape
from tests.kernels.launching import SMALL, emitted

PRODUCT = {"design": "fast", **SMALL}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"block_m": 32.0}, r"block_m = 32.0: is a float; it must be int"),
        ({"block_m": "32"}, "block_m = '32': is a str; it must be int"),
        ({"block_k": True}, "block_k = True: is a bool; it must be int"),
        ({"warps": 1}, r"warps = 1: is a int; it must be str or tuple\[int, int\] or None"),
        ({"warps": (1,)}, r"warps = \(1,\): is a tuple"),
        ({"warps": ("1", "1")}, r"warps = \('1', '1'\): is a tuple"),
        ({"split_k": 2.5}, "split_k = 2.5: is a float"),
        ({"group_m": None}, "group_m = None: is a NoneType; it must be int"),
        ({"epilogue": b"x"}, "epilogue = b'x': is a bytes; it must be str"),
        ({"scale": "no"}, "scale = 'no': is a str; it must be bool"),
        ({"a_order": ["mk"]}, r"a_order = \['mk'\]: is a list; it must be str"),
        ({"arrangement": 5}, "arrangement = 5: is a int; it must be str or None"),
        ({"atom": 5}, "atom = 5"),
        ({"design": "simple", "out_dtype": []}, r"out_dtype = \[\]: is a list"),
        ({"design": []}, r"design = \[\]: is a list; it must be str"),
        ({"profile": 3}, "profile = 3: is a int; it must be str"),
        ({"shape": (1, 2, 3, 4), "split_k": "2"}, "split_k = '2': is a str; it must be int"),
    ],
)
def test_types_of_a_product(fields, message):
    with pytest.raises(LayoutgenError, match=message):
        lg.matmul(**{**PRODUCT, **fields})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"head_dim": 64.0}, "head_dim = 64.0: is a float"),
        ({"head_dim": "64"}, "head_dim = '64': is a str; it must be int"),
        ({"head_dim": True}, "head_dim = True: is a bool"),
        ({"block_m": None, "design": "fast", "v_head_dim": "8"}, "v_head_dim = '8': is a str; it must be int or None"),
        ({"max_queries": "8"}, "max_queries = '8': is a str"),
        ({"split": 64}, "split = 64: is a int; it must be a sequence of int or None"),
        ({"split": (32.0, 32)}, r"split = \(32.0, 32\): is a tuple"),
        ({"bias": 1}, "bias = 1: is a int; it must be bool"),
        ({"design": "fast", "softcap": "30"}, "softcap = '30': is a str; it must be float or None"),
        ({"design": "fast", "window": (128, None)}, r"window = \(128, None\)"),
    ],
)
def test_types_of_attention(fields, message):
    with pytest.raises(LayoutgenError, match=message):
        lg.attention(**{"head_dim": 64, "block_m": 64, "block_n": 32, **fields})


def test_types_of_a_tiling():
    with pytest.raises(LayoutgenError, match="block_m = '64': is a str; it must be int or None"):
        lg.derive(block_m="64", block_n=64)
    with pytest.raises(LayoutgenError, match="atom = 3: is a int; it must be str or Atom or None"):
        lg.derive(atom=3)


def test_what_stands_for_a_type_is_taken():
    assert lg.matmul(**{**PRODUCT, "warps": [1, 1]}) == lg.matmul(**PRODUCT)
    assert lg.attention(head_dim=64, design="fast", softcap=30).request.softcap == 30


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (5, "shape 5: must be Z,M,N,K, a sequence of 4 sizes"),
        ("1,2,3,4", "shape '1,2,3,4': must be Z,M,N,K, a sequence"),
        ((1, 2, 3, 4.5), "K = 4.5: must be a whole number"),
        ((1, None, 3, 4), "M = None: must be a whole number"),
        ((1, 2**63, 3, 4), r"M = 9223372036854775808: must be a whole number from 0 to 2\^63 - 1"),
    ],
)
def test_shapes(shape, message):
    with pytest.raises(LayoutgenError, match=message):
        check_shape(shape, "Z,M,N,K")
    with pytest.raises(LayoutgenError, match="shape"):
        lg.matmul(design="fast", shape=shape)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"design": "faster"}, "design 'faster': must be one of simple, fast"),
        ({"design": None}, "design None: must be one of simple, fast"),
        ({"swizzle": 4}, "matmul, design fast: takes no swizzle"),
        ({"kernel": "conv"}, "kernel 'conv' is unknown; known are attention, matmul"),
        ({"split_k": 2.5}, "split_k = 2.5: is a float"),
    ],
)
def test_what_a_file_says_is_not_guessed_at(change, message):
    data = lg.matmul(**PRODUCT).request.as_dict()
    with pytest.raises(LayoutgenError, match=message):
        request_from_dict({**data, **change})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: lg.attention(head_dim=64, casual=True), "takes no casual; what is near it is called causal$"),
        (
            lambda: lg.attention(head_dim=64, design="fast", sink=True),
            "takes no sink; what is near it is called sinks$",
        ),
        (lambda: lg.matmul(b_orders="nk"), "takes no b_orders; what is near it is called b_order or a_order$"),
        (lambda: lg.matmul(frobnicate=1), "takes no frobnicate$"),
    ],
)
def test_a_mistyped_feature_is_told_its_neighbours(make, message):
    with pytest.raises(LayoutgenError, match=message):
        make()


def test_a_feature_of_the_other_design_is_refused():
    data = lg.matmul(**PRODUCT, split_k=2).request.as_dict()
    del data["design"]
    with pytest.raises(LayoutgenError, match="matmul, design simple: takes no a_order; fast does"):
        request_from_dict(data)


@pytest.mark.parametrize("text", ["1,-1,2,3", "1,1e9,2,3", "1,2,3,\u0663", "1,,2,3", "", "1," + "9" * 5000])
def test_lists_of_the_command_line(text):
    with pytest.raises(LayoutgenError, match="integers, none negative and of fewer than 19 digits") as caught:
        integers(text, "shape")
    assert len(str(caught.value)) < 200


def test_what_is_no_tiling_no_layout_and_no_number():
    with pytest.raises(LayoutgenError, match="prove: None is a NoneType; it must be a Tiling"):
        lg.prove(None)
    with pytest.raises(LayoutgenError, match="layout 3: is a int; it must be a text"):
        lg.read_layout(3)
    with pytest.raises(LayoutgenError, match="layout 'x': is a str; it must be a LinearLayout"):
        lg.write_layout("x", "json")
    file = emitted(lg.matmul(**PRODUCT, scale=True))
    arrays = file.request.arrays((1, 32, 32, 32))
    for wrong in ("x", None, [1], 1j):
        with pytest.raises((TypeError, ValueError)):
            file.load().launch_arguments(**arrays, alpha=wrong)
