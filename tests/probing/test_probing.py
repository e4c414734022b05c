"""The probes on the CPU executor: the same code that runs on a card, with V100 arithmetic and all accesses watched."""

import datetime
import json
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

import layoutgen as lg
from layoutgen import LayoutgenError
from layoutgen.cli import main
from layoutgen.cpu import Tensor, launch, parse_ptx
from layoutgen.kernels import Array
from layoutgen.probing import Card, TorchDevice, probe_attention, probe_matmul, probe_tile
from layoutgen.probing.probes import exchange_register_bases
from layoutgen.probing.record import as_dict, cells, page, stem
from layoutgen.toolchain import build_kernel

CARD = Card("Test Card", "sm_90", "1.2", 1200, 1500, "3.9.0", "2.0")
TODAY = datetime.date(2026, 1, 2)


class CpuDevice:
    """The CPU executor in the place of a card; `spoil` changes what kernels wrote."""

    def __init__(self, card=CARD, spoil=lambda outputs: outputs):
        self._card, self._spoil, self.seconds = card, spoil, 0.001

    def card(self):
        return self._card

    def run(self, file, inputs, outputs):
        described = {}
        for name, array in {**inputs, **outputs}.items():
            strides = tuple(step // array.itemsize for step in array.strides)
            described[name] = Array(array.shape, strides, str(array.dtype))
        build = build_kernel(file, "sm_70", described)
        tensors = {name: Tensor.input(name, array) for name, array in inputs.items()}
        tensors |= {name: Tensor.output(name, array.shape, array.dtype) for name, array in outputs.items()}
        arguments = [tensors.get(name, value) for name, value in build.arguments]
        report = launch(parse_ptx(build.ptx), build.grid, build.num_warps, arguments, shared_bytes=build.shared_bytes)
        assert report.clean, report.findings
        return self._spoil({name: tensors[name].array.copy() for name in outputs})

    def time(self, *_):
        return self.seconds


def test_tile_is_exact_wrong_and_exact_again():
    seen = []
    found = probe_tile(CpuDevice(), seen.append)
    assert found.passed
    assert [row.max_error == 0 for row in found.rows] == [True, False, True]
    assert found.rows[1].max_error > 1
    assert tuple(seen) == found.rows


def test_a_card_that_computes_wrong_fails_the_tile():
    def spoil(outputs):
        outputs["c"][0, 3, 5] += 1
        return outputs

    found = probe_tile(CpuDevice(spoil=spoil))
    assert [row.passed for row in found.rows] == [False, True, False]


def test_a_probe_that_notices_nothing_fails():
    """If the wrong layouts gave the right result, the probe would prove nothing."""

    class Exact(CpuDevice):
        def run(self, _, inputs, *__):
            return {"c": (inputs["a"].astype(np.float64) @ inputs["b"].astype(np.float64)).astype(np.float32)}

    assert [row.passed for row in probe_tile(Exact()).rows] == [True, False, True]


def test_bases_are_exchanged_in_every_layout():
    source = lg.matmul(block_m=16, block_n=16, block_k=4, warps="1x1").source
    changed = exchange_register_bases(source)
    assert changed != source
    assert exchange_register_bases(changed) == source
    moved = sum(one != other for one, other in zip(source.splitlines(), changed.splitlines(), strict=True))
    assert moved == 2 * 4
    with pytest.raises(LayoutgenError, match="0 layouts"):
        exchange_register_bases("nothing")


def test_matmul_rows_have_error_speed_and_prediction():
    found = probe_matmul(CpuDevice(), (64, 64, 64), tiles=(((64, 64, 32), (2, 2)),))
    (row,) = found.rows
    assert found.passed
    assert 0 < row.max_error < 0.1
    assert row.tflops == pytest.approx(2 * 64**3 / 0.001 / 1e12)
    assert row.predicted_low <= row.predicted <= row.predicted_high
    assert found.predicted_for == "volta (sm_70) at 1290 MHz"


def test_on_the_card_itself_the_prediction_is_at_its_clock():
    card = replace(CARD, arch="sm_70", clock_mhz=1400)
    found = probe_matmul(CpuDevice(card), (64, 64, 64), tiles=(((64, 64, 32), (2, 2)),))
    assert found.predicted_for == "volta (sm_70) at 1400 MHz"
    assert not found.card.emulated


def test_attention_rows():
    found = probe_attention(CpuDevice(), (1, 2, 1, 70, 40, 64), tiles=((64, 32),))
    (row,) = found.rows
    assert found.passed, row
    assert row.max_error < 1e-3
    assert row.tflops == pytest.approx(4 * 2 * 70 * 40 * 64 / 0.001 / 1e12)


def test_a_wrong_lse_and_a_wrong_output_fail():
    def lse(outputs):
        outputs["lse"] += 0.01
        return outputs

    def out(outputs):
        outputs["out"] *= np.float16(1.5)
        return outputs

    def missing(outputs):
        outputs["out"][...] = np.nan
        return outputs

    for spoil in (lse, out, missing):
        found = probe_attention(CpuDevice(spoil=spoil), (1, 1, 1, 64, 32, 64), tiles=((64, 32),))
        assert not found.passed


def test_what_does_not_run_is_a_row():
    found = probe_attention(CpuDevice(), (1, 1, 1, 64, 32, 64), tiles=((64, 48), (64, 32)))
    assert [row.passed for row in found.rows] == [True, True]
    assert found.rows[0].note.startswith("refused: block_n = 48")
    assert found.rows[0].tflops is None


def test_the_record_says_what_it_is():
    found = probe_matmul(CpuDevice(), (64, 64, 64), tiles=(((64, 64, 32), (2, 2)),))
    text = page(found, TODAY, "layoutgen probe matmul")
    assert "**Emulated.** sm_90" in text
    assert "another card than this one" in text
    assert "1200 MHz while kernels ran" in text
    assert "| simple, 64x64x32, 2x2 warps |" in text
    native = replace(found, card=replace(CARD, arch="sm_70"))
    assert "Emulated" not in page(native, TODAY, "x")
    data = json.loads(json.dumps(as_dict(found, TODAY)))
    assert data["card"]["emulated"] is True
    assert data["rows"][0]["predicted"] == found.rows[0].predicted
    assert stem(found) == "probe_matmul_test_card"
    assert cells(found.rows[0])[-1] == "passed"


def test_without_torch_or_a_card_the_command_says_so(tmp_path, monkeypatch):
    class Blind:
        class cuda:
            @staticmethod
            def is_available():
                return False

    def absent(name):
        raise ImportError(name)

    for stand_in, message in ((absent, "needs torch"), (lambda _: Blind, "sees no CUDA card")):
        monkeypatch.setattr("layoutgen.probing.device.import_module", stand_in)
        result = CliRunner().invoke(main, ["probe", "tile", "-o", str(tmp_path)])
        assert result.exit_code == 2
        assert message in result.stderr
        assert result.stderr.count("\n") == 1
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["probe", "matmul", "--shape", "2,64,64,64", "-o", "-"], "it takes 1,M,N,K"),
        (["probe", "tile", "--shape", "16,16", "-o", "-"], "it takes no shape"),
        (["probe", "tile", "-o", "nowhere/at/all"], "is not a folder"),
    ],
)
def test_bad_requests(words, message):
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 2
    assert message in result.stderr


class FakeTensor:
    def __init__(self, array):
        self.array = array

    def cuda(self):
        return self

    def cpu(self):
        return self

    def numpy(self):
        return self.array


class FakeTorch:
    """As much of torch as a TorchDevice uses; launches take a millisecond by its clock."""

    __version__ = "0.0"
    clock = 0.0

    def from_numpy(self, array):
        return FakeTensor(array)

    class Event:
        def __init__(self, enable_timing):
            assert enable_timing
            self.at = None

        def record(self):
            self.at = FakeTorch.clock

        def synchronize(self):
            assert self.at is not None

        def elapsed_time(self, other):
            return (other.at - self.at) * 1000

    class cuda:
        @staticmethod
        def is_available():
            return True

        @staticmethod
        def synchronize():
            pass

        @staticmethod
        def get_device_capability():
            return 7, 0

        @staticmethod
        def get_device_name():
            return "Fake V100"


def test_a_torch_device_launches_times_and_reads_clocks(monkeypatch):
    class File:
        request = lg.matmul(block_m=64, block_n=64, block_k=32).request

        def load(self):
            class Module:
                @staticmethod
                def matmul(a, b, c):
                    FakeTorch.clock += 0.001
                    calls.append(np.isnan(c.array).all())
                    c.array[0, 0] = a.array[0, 0] * b.array[0, 0]

            return Module

    calls = []
    FakeTorch.cuda.Event = FakeTorch.Event
    monkeypatch.setattr("layoutgen.probing.device.import_module", lambda _: FakeTorch())
    monkeypatch.setattr(
        "layoutgen.probing.device._smi", lambda fields: ["535.1", "1530"] if "driver" in fields else ["1290"]
    )
    device = TorchDevice()
    inputs = {"a": np.full((1, 1), 3, np.float16), "b": np.full((1, 1), 5, np.float16)}
    outputs = {"c": np.zeros((1, 2), np.float16)}
    assert device.card().clock_mhz is None
    written = device.run(File(), inputs, outputs)["c"]
    assert written[0, 0] == 15
    assert np.isnan(written[0, 1])  # what nobody writes is noticed
    assert calls == [True]
    assert device.time(File(), inputs, outputs) == pytest.approx(0.001)
    assert len(calls) >= 1 + 3 + 250  # a quarter of a second at least
    card = device.card()
    assert (card.arch, card.emulated, card.clock_mhz, card.max_clock_mhz) == ("sm_70", False, 1290, 1530)
