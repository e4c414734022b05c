"""Counts against the plan, prices, ports, and the command line."""

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from click.testing import CliRunner

import layoutgen as lg
from layoutgen import LayoutgenError
from layoutgen.cli import main
from layoutgen.profiles.model import load_model, parse_model
from layoutgen.sass.counts import count_tiles, loop_mma, wavefronts_of
from layoutgen.sass.inspection import inspect, profile_of
from layoutgen.sass.pricing import PIPE_OF, PIPES, PORT_OF, PORTS, price, width_words
from layoutgen.toolchain import compile_kernel, read_kernel

GENERATED = Path(__file__).parents[2] / "generated"


@pytest.fixture(scope="module")
def inspected(compiled):
    made = {}

    def get(name, arch="sm_70"):
        if (name, arch) not in made:
            made[name, arch] = inspect(*compiled(name, arch))
        return made[name, arch]

    return get


@pytest.mark.parametrize("name", ["matmul_64x64x32", "matmul_128x128x32", "attention_d64_64x32"])
@pytest.mark.parametrize("arch", ["sm_70", "sm_75"])
def test_executed_wavefronts_are_those_the_plan_derives(inspected, name, arch):
    """Two independent counts: banks of the executed addresses, and the plan's algebra."""
    found = inspected(name, arch)
    plan = found.request.plan
    loads = {i.address for i in found.loop.body if i.opcode == "LDS"}
    assert sum(w for address, w in found.wavefronts.items() if address in loads) == plan.wavefronts("fetch")
    assert sum(w for address, w in found.wavefronts.items() if address not in loads) == plan.wavefronts("stage")


def test_a_fragment_that_two_products_share_is_fetched_once(inspected):
    """D = 96 has two parts: the plan lists the fetch of P for each of them, the code has it once."""
    found = inspected("attention_d96_64x32")
    plan = found.request.plan
    once = next(m for m in plan.moves if m.kind == "fetch" and m.source == "weights_shared")
    everything = plan.wavefronts("fetch") + plan.wavefronts("stage")
    assert sum(found.wavefronts.values()) == everything - once.times * once.access.wavefronts


def test_the_loop_does_one_tile(compiled, inspected):
    found = inspected("attention_d96_64x32")
    assert loop_mma(found.loop) == found.request.plan.instructions == 96
    assert found.hmma == 4 * 96
    assert count_tiles(*compiled("attention_d96_64x32")).mma == 96
    assert found.flop == 4 * 64 * 32 * 96


def test_padding_is_no_useful_work(inspected):
    assert inspected("attention_d80_64x32").flop == pytest.approx(4 * 64 * 32 * 80)


def test_an_unrolled_loop_counts_its_tiles(compiled, inspected):
    file, found = compiled("matmul_64x64x32")
    loop = inspected("matmul_64x64x32").loop
    counts = count_tiles(file, found)
    once = wavefronts_of(loop, counts)
    far = 0x100000
    copy = tuple(replace(i, address=i.address + far) for i in loop.body)
    twice = wavefronts_of(replace(loop, body=loop.body + copy), counts)
    assert twice == once | {address + far: waves for address, waves in once.items()}


def test_accesses_that_were_moved_out_of_the_loop_take_their_part_along(compiled, inspected):
    counts, loop = count_tiles(*compiled("matmul_64x64x32")), inspected("matmul_64x64x32").loop
    everything = wavefronts_of(loop, counts)
    loads = [i for i in loop.body if i.opcode == "LDS"]
    gone = {i.address for i in loads[::2]}
    left = wavefronts_of(replace(loop, body=tuple(i for i in loop.body if i.address not in gone)), counts)
    assert left == {address: waves for address, waves in everything.items() if address not in gone}


def test_an_access_among_those_of_another_line_has_the_conflicts_of_its_opcode(compiled, inspected):
    """The line table gives an instruction that was moved the line of its neighbours, now and then."""
    counts, loop = count_tiles(*compiled("matmul_64x64x32")), inspected("matmul_64x64x32").loop
    everything = wavefronts_of(loop, counts)
    product = next(i.source for i in loop.body if i.opcode == "HMMA")
    stray = next(i for i in loop.body if i.opcode == "STS")
    moved = tuple(replace(i, source=product) if i is stray else i for i in loop.body)
    assert wavefronts_of(replace(loop, body=moved), counts) == everything


def test_counts_of_another_kernel_are_refused(compiled, inspected):
    counts = count_tiles(*compiled("matmul_64x64x32"))
    with pytest.raises(LayoutgenError, match="none were executed there"):
        wavefronts_of(inspected("attention_d64_64x32").loop, counts)
    with pytest.raises(LayoutgenError, match="no mma per tile"):
        wavefronts_of(inspected("matmul_64x64x32").loop, replace(counts, mma=Fraction(0)))


def test_every_opcode_has_one_pipe_and_every_port_exists():
    listed = [opcode for opcodes in PIPES.values() for opcode in opcodes.split()]
    assert len(listed) == len(set(listed)) == len(PIPE_OF)
    assert set(PORT_OF.values()) <= set(PORTS)
    assert set(PORT_OF) <= set(PIPES)


def test_an_unknown_opcode_has_no_price_and_stops_the_prediction(inspected):
    found = inspected("matmul_64x64x32")
    model = load_model("volta")
    first = found.loop.body[0]
    assert price(first, model) is not None
    odd = replace(first, opcode="FROB")
    assert price(odd, model) is None
    loop = replace(found.loop, body=(odd, *found.loop.body[1:]))
    from layoutgen.sass.inspection import price_loop

    priced, unpriced = price_loop(loop, model, found.wavefronts)
    assert unpriced == ("FROB",)
    broken = replace(found, loop=loop, priced=priced, unpriced=unpriced)
    assert broken.as_dict()["prediction"] is None
    assert broken.as_dict()["unpriced"] == ["FROB"]
    with pytest.raises(LayoutgenError, match="no price for FROB"):
        broken.predict()


def test_a_shared_access_is_priced_by_its_count_alone(inspected):
    found = inspected("matmul_64x64x32")
    load = next(i for i in found.loop.body if i.opcode == "LDS")
    model = replace(load_model("volta"), shared_efficiency=0.5)
    assert price(load, model) is None
    assert price(load, model, 3).cycles == 6
    assert width_words(load) == 2


def test_an_hmma_without_steps_has_no_price(inspected):
    hmma = next(i for i in inspected("matmul_64x64x32").loop.body if i.opcode == "HMMA")
    assert price(hmma, load_model("volta")).cycles == 2
    assert price(replace(hmma, modifiers=("1688", "F32")), load_model("volta")) is None


def test_ports_add_up(inspected):
    found = inspected("attention_d96_64x32")
    ports, waves = found.ports, sum(found.wavefronts.values())
    others = sum(width_words(i) for i in found.loop.body if i.opcode in ("LDG", "STG", "LDL", "STL", "SHFL"))
    assert ports.per_warp["lsu"] == pytest.approx(waves + others)
    assert ports.per_warp["tensor"] == 2 * found.hmma
    assert sum(found.pipes.values()) == len(found.loop.body)
    assert found.pipes["shared"] == found.loop.count("LDS") + found.loop.count("STS")
    assert ports.per_warp["issue"] == len(found.loop.body)
    assert ports.busy["lsu"] == pytest.approx(ports.per_warp["lsu"] * found.occupied.warps)
    assert ports.busy["tensor"] == ports.per_warp["tensor"] * found.occupied.warps / 4
    assert ports.bound == max(ports.busy.values()) == ports.busy[ports.limiter]


@pytest.mark.parametrize("name", ["attention_d96_64x32", "matmul_64x64x32", "matmul_128x128x32"])
def test_a_prediction_lies_below_bound_and_ceiling(inspected, name):
    found = inspected(name).predict(1290)
    assert found.low <= found.mean <= found.high <= found.bound_tflops <= found.ceiling_tflops + 1e-9
    assert found.ceiling_tflops == pytest.approx(105.7, abs=0.05)
    assert found.low > 0.3 * found.bound_tflops


def test_a_short_last_wave_costs(inspected):
    found = inspected("matmul_128x128x32")
    wave = found.occupied.blocks * 80
    assert found.waves(3 * wave) == 1
    assert 0.5 < found.waves(wave + 1) < found.waves(20 * wave + 1) < 1


def test_models_are_checked_when_they_are_read():
    good = {name: getattr(load_model("volta"), name) for name in load_model("volta").__dataclass_fields__}
    assert parse_model(good, "mine") == load_model("volta")
    for change, words in (
        ({"shared_efficiency": 1.5}, "it lies in"),
        ({"cycles": {"tensor": 2}}, "cycles must be exactly"),
        ({"latency": {**good["latency"], "xu": -1}}, "whole numbers"),
        ({"fitted": ["warp_drive"]}, "which is no parameter"),
        ({"extra": 1}, "must be exactly"),
    ):
        with pytest.raises(LayoutgenError, match=words):
            parse_model({**good, **change}, "mine")
    with pytest.raises(LayoutgenError, match="has no model section"):
        load_model("pascal")


def test_profiles_are_found_by_architecture():
    assert (profile_of("sm_70"), profile_of("sm_75")) == ("volta", "turing")
    with pytest.raises(LayoutgenError, match="no profile is for sm_90"):
        profile_of("sm_90")


def test_code_for_another_card_is_refused(compiled):
    file, _ = compiled("matmul_64x64x32")
    with pytest.raises(LayoutgenError, match="compiled for sm_80, but profile volta is for sm_70"):
        inspect(file, compile_kernel(file, "sm_80"), "volta")


def run(*words, code=0):
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exit_code == code, result.output
    return result


def test_the_command_prints_ports_and_claims_no_measurement():
    text = run("inspect", GENERATED / "matmul_64x64x32.py", "--clock", 1530).stdout
    assert "nothing here was measured" in text
    assert "Predicted at 1530 MHz" in text
    assert "B of shared loads" in text


def test_the_command_writes_json():
    found = json.loads(run("inspect", GENERATED / "matmul_64x64x32.py", "--json", "--instructions").stdout)
    assert found["prediction"]["kind"] == "model, not a measurement"
    assert found["loop"]["instructions"] == len(found["instructions"])
    assert found["bound"]["cycles"] == max(port["busy"] for port in found["ports"].values())
    shared = [i for i in found["instructions"] if i["wavefronts"] is not None]
    assert sum(i["wavefronts"] for i in shared) == found["loop"]["wavefronts"]


def test_each_instruction_has_its_line(inspected):
    text = run("inspect", GENERATED / "matmul_64x64x32.py", "--instructions").stdout
    rows = [line for line in text.splitlines() if "matmul_64x64x32.py:" in line and ":S" in line]
    assert len(rows) == len(inspected("matmul_64x64x32").loop.body)


def test_two_kernels_side_by_side():
    one, other = GENERATED / "matmul_64x64x32.py", GENERATED / "matmul_128x128x32.py"
    text = run("inspect", one, "--vs", other).stdout
    assert "matmul_64x64x32" in text
    assert "matmul_128x128x32" in text
    assert "predicted TFLOP/s" in text
    assert [entry["kernel"] for entry in json.loads(run("inspect", one, "--vs", other, "--json").stdout)] == [
        one.stem,
        other.stem,
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("inspect", "missing.py"), "no such file"),
        (("inspect", GENERATED / "matmul_64x64x32.py", "--arch", "sm_99"), "unknown"),
        (("inspect", GENERATED / "matmul_64x64x32.py", "--profile", "pascal"), "has no model"),
        (("inspect", GENERATED / "matmul_64x64x32.py", "--vs", "x.py", "--instructions"), "ask for one"),
    ],
)
def test_bad_requests_cost_one_line(words, message):
    result = run(*words, code=2)
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_spilling_kernel_is_still_read(tmp_path):
    file = read_kernel(lg.attention(head_dim=96, block_m=32, block_n=64).write(tmp_path / "k.py"))
    found = inspect(file, compile_kernel(file, "sm_70"))
    assert found.loop.count("LDL") > 0
    assert found.unpriced == ()
