"""Profiles choose the unit; what they declare is checked against the instruction."""

import copy

import pytest
import yaml

import layoutgen as lg
from layoutgen.errors import LayoutgenError
from layoutgen.profiles import load_profile, profile_names
from layoutgen.profiles.model import load_model
from layoutgen.profiles.profile import FOLDER, parse_profile, read_profile

VOLTA = yaml.safe_load((FOLDER / "nvidia" / "volta.yml").read_text())


def edited(path, value):
    data = copy.deepcopy(VOLTA)
    target = data
    for key in path[:-1]:
        target = target[key]
    if value is None:
        del target[path[-1]]
    else:
        target[path[-1]] = value
    return data


def test_volta_declares_its_unit():
    unit = lg.matrix_unit("volta")
    assert unit.atom.alias == "m8n8k4"
    tile = lg.matrix_unit_flash_tile("volta", 96)
    assert (tile.block_m, tile.block_n) == (64, 32)
    assert lg.matrix_unit_flash_tile("volta", 257) is None
    assert [(t.block_m, t.block_n, t.block_k, t.warps) for t in unit.matmul] == [(128, 128, 32, (2, 2))]


def test_a_card_without_a_unit_keeps_its_own_kernels():
    assert lg.matrix_unit("pascal") is None
    assert lg.matrix_unit_flash_tile("pascal", 64) is None


@pytest.mark.parametrize("name", profile_names())
def test_every_shipped_profile_is_well_formed(name):
    profile = load_profile(name)
    assert profile.name == name
    assert profile.limits.shared_bytes_per_block <= profile.limits.shared_bytes_per_sm
    if profile.unit:
        head_dims = [tile.head_dim_le for tile in profile.unit.flash]
        assert head_dims == sorted(set(head_dims))
        for head_dim in (16, *head_dims):
            lg.attention(head_dim=head_dim, profile=name)
        lg.matmul(profile=name)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("matrix_unit", "operand_dtype"), "bfloat16", "operand_dtype is bfloat16; m8n8k4 computes in float16"),
        (("matrix_unit", "accumulator_dtype"), "float16", "accumulator_dtype is float16; m8n8k4 computes in float32"),
        (("matrix_unit", "shape"), "m1n1k1", "atom m1n1k1: not in the catalogue"),
        (("matrix_unit", "shape"), None, "has no shape"),
        (("limits", "sms"), None, "limits: must be exactly"),
        (("limits", "sms"), 0, "sms is 0; a positive integer is needed"),
        (("limits",), None, "has no limits"),
        (("arch",), None, "has no arch"),
        (("matrix_unit", "flash_fast_short", 0, "row_blocks"), 0, "row_blocks is 0; a positive integer is needed"),
        (("memory_gb_per_s",), 0, "memory_gb_per_s is 0; a positive integer is needed"),
        (("matrix_unit", "flash", 0, "block_m"), "many", "block_m is 'many'; a positive integer is needed"),
        (("matrix_unit", "matmul", 0, "warps"), "four", "warps 'four': must be written WMxWN"),
        (("matrix_unit", "matmul_fast", 0, "accumulate"), ["unit"], r"accumulate is \['unit'\]; it is one of"),
        (("memory_gb_per_sec",), 900, "profile volta: knows no memory_gb_per_sec; is memory_gb_per_s meant?"),
        (("clocks_mhz", "refrence"), 1290, "clocks_mhz: knows no refrence; is reference meant?"),
        (("matrix_unit", "flash_fst"), [], "matrix_unit: knows no flash_fst; is flash_fast meant?"),
        (("arch",), ["sm_70"], r"arch is \['sm_70'\]; a text is needed"),
    ],
)
def test_what_is_refused(path, value, message):
    with pytest.raises(LayoutgenError, match=message):
        parse_profile(edited(path, value), "volta")


def test_a_profile_from_a_file(tmp_path):
    path = tmp_path / "card.yml"
    path.write_text(yaml.safe_dump(edited(("matrix_unit", "flash", 0, "block_m"), 128)))
    assert lg.attention(head_dim=64, profile=str(path)).request.block_m == 128


@pytest.mark.parametrize(("text", "message"), [("a: [", "not YAML"), ("- a", "must be a mapping")])
def test_a_file_that_is_no_profile(tmp_path, text, message):
    path = tmp_path / "card.yml"
    path.write_text(text)
    with pytest.raises(LayoutgenError, match=message):
        load_profile(str(path))


@pytest.mark.parametrize("read", [load_profile, load_model, read_profile])
def test_a_file_that_is_missing(tmp_path, read):
    with pytest.raises(LayoutgenError, match="no such file"):
        read(str(tmp_path / "card.yml"))
    with pytest.raises(LayoutgenError, match=r"unknown; known are .*, or the path of a \.yml file"):
        read("vega")


def test_the_clock_of_a_prediction():
    card = load_profile("volta")
    assert (card.clock(), card.clock(1500)) == (1290, 1500)
    assert parse_profile(edited(("clocks_mhz", "reference"), None), "volta").clock() == 1530
    without = parse_profile(edited(("clocks_mhz",), None), "volta")
    assert without.clock(1500) == 1500
    with pytest.raises(LayoutgenError, match="profile volta: has no clock to predict for; choose one"):
        without.clock()


def test_tiles_with_a_bias_are_the_plain_ones_unless_a_profile_says_otherwise():
    tile = {"head_dim_le": 512, "block_m": 32, "block_n": 16}
    own = parse_profile(edited(("matrix_unit", "flash_fast_bias"), [tile]), "volta")
    for head_dim in (64, 128, 256):
        plain = lg.matrix_unit_flash_tile("volta", head_dim, "fast")
        assert lg.matrix_unit_flash_tile("volta", head_dim, "fast", bias=True) == plain
        assert lg.matrix_unit_flash_tile(own, head_dim, "fast", bias=True).block_m == 32
        assert lg.matrix_unit_flash_tile(own, head_dim, "fast") == plain
