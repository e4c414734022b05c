"""The search: candidates, cache, workers that die, pruning, interruption, the profile that is written."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
import yaml
from click.testing import CliRunner

import layoutgen as lg
from layoutgen import LayoutgenError
from layoutgen.cli import main
from layoutgen.kernels import AttentionRequest
from layoutgen.profiles import load_profile
from layoutgen.profiles.feasibility import feasibility
from layoutgen.tuning import Cache, candidates, tune
from layoutgen.tuning import search as search_module
from layoutgen.tuning.cache import OTHER_ROOMS, code_digest
from layoutgen.tuning.candidates import arrangements, candidate, splits
from layoutgen.tuning.evaluate import evaluate
from layoutgen.tuning.fragment import tuned_profile
from layoutgen.tuning.pool import run_all

VOLTA = load_profile("volta")
SMALL = {"block_m": 64, "block_n": 64, "block_k": 32, "b_order": "kn"}


@pytest.fixture
def cache(tmp_path):
    return Cache(tmp_path / "cache", "volta", "sm_70", 1290)


# Candidates


def test_arrangements_are_all_units_there_are():
    atom = lg.atom("m8n8k4")
    assert arrangements(atom) == ("m3,n3", "m3,m4", "n3,m3", "n3,n4")
    for arrangement in arrangements(atom):
        lg.derive(atom=atom, block_m=32, block_n=32, arrangement=arrangement)


def test_splits_cover():
    for head_dim in range(16, 257):
        for split in splits(head_dim):
            AttentionRequest(head_dim=head_dim, atom="m8n8k4", block_m=64, block_n=32, split=split)


def test_candidates_fit_and_come_best_bound_first():
    found, refused = candidates("attention", "volta", {"head_dim": 96}, 1290)
    assert len(found) > 100
    assert [c.bound for c in found] == sorted((c.bound for c in found), reverse=True)
    assert all(feasibility(c.request, VOLTA.limits).feasible for c in found)
    assert len({c.request for c in found}) == len(found)
    assert all(r.reason for r in refused)
    assert any("shared memory" in r.reason for r in refused)


def test_fixed_options_are_kept():
    found, _ = candidates("matmul", "volta", {"block_k": 64, "warps": (2, 2), "b_order": "nk"}, 1290)
    assert {(c.request.block_k, c.request.warps, c.request.b_order) for c in found} == {(64, (2, 2), "nk")}


def test_candidates_are_the_same_from_the_cache(cache, monkeypatch):
    fixed = {**SMALL, "warps": (2, 2)}
    first = cache.candidates("matmul", fixed)
    assert first[0] == candidates("matmul", "volta", fixed, 1290)[0]
    monkeypatch.setattr("layoutgen.tuning.cache.candidates", None)  # not asked again
    again = cache.candidates("matmul", fixed)
    assert again[0] == first[0]
    assert [entry.reason for entry in again[1]] == [entry.reason for entry in first[1]]


def test_an_unknown_design_is_named():
    with pytest.raises(LayoutgenError, match="design 'fancy': must be one of simple, fast"):
        candidates("attention", "volta", {"head_dim": 64, "design": "fancy"}, 1290)


def test_nothing_to_try_says_why():
    with pytest.raises(LayoutgenError, match=r"no candidate can run on volta.*shared memory"):
        candidates("attention", "volta", {"head_dim": 256, "block_m": 256, "block_n": 128}, 1290)
    with pytest.raises(LayoutgenError, match="has no matrix unit"):
        candidates("attention", "pascal", {"head_dim": 64}, 1290)
    with pytest.raises(LayoutgenError, match="--head-dim is needed"):
        candidates("attention", "volta", {}, 1290)


@pytest.mark.parametrize("name", ["attention", "matmul"])
def test_no_prediction_exceeds_the_plans_bound(name):
    kernel = lg.attention(head_dim=80, block_m=64, block_n=32) if name == "attention" else lg.matmul(**SMALL)
    one = candidate(kernel.request, VOLTA, "volta", 1290)
    result = evaluate(kernel.request.as_dict(), "sm_70", "volta", 1290)
    assert result["status"] == "predicted"
    assert result["tflops"] <= result["high"] <= result["bound_tflops"] <= one.bound * 1.0001


# The pool


def double(value):
    if value == "die":
        os.abort()
    if value == "raise":
        raise ValueError("on purpose")
    return 2 * value


def test_a_dying_worker_costs_its_own_job_only():
    jobs = [(1,), ("die",), (2,), ("raise",), ("die",), (3,)]
    done = {number: (returned, answer) for number, returned, answer in run_all(double, jobs, 2)}
    assert {n: done[n] for n in (0, 2, 5)} == {0: (True, 2), 2: (True, 4), 5: (True, 6)}
    assert done[1] == done[4] == (False, "the process died (SIGABRT)")
    assert done[3] == (False, "ValueError: on purpose")


def test_skipped_jobs_do_not_run():
    assert {number for number, _, _ in run_all(double, [(n,) for n in range(5)], 1, lambda n: n % 2 == 1)} == {0, 2, 4}
    assert list(run_all(double, [], 2)) == []


# Cache and search


def test_an_entry_is_found_again_by_everything_that_matters(cache, monkeypatch):
    request = lg.matmul(**SMALL).request
    assert cache.get(request) is None
    cache.put(request, {"status": "predicted", "tflops": 1.0})
    assert cache.get(request) == {"status": "predicted", "tflops": 1.0}
    assert cache.get(replace(request, block_k=16)) is None
    for other in (
        replace(cache, arch="sm_75"),
        replace(cache, clock_mhz=1530),
        replace(cache, profile="turing"),
    ):
        assert other.get(request) is None
    monkeypatch.setattr("layoutgen.tuning.cache.version", lambda _: "0.0")
    assert cache.get(request) is None
    monkeypatch.undo()
    monkeypatch.setattr("layoutgen.tuning.cache.code_digest", lambda: "other")
    assert cache.get(request) is None


def test_what_is_left_out_of_the_digest_is_there():
    package = Path(lg.__file__).parent
    assert all((package / room).is_dir() for room in OTHER_ROOMS)
    assert len({code_digest(()), code_digest(), code_digest((*OTHER_ROOMS, "profiles"))}) == 3


@pytest.mark.parametrize(
    "text", ['{"status"', "[]", '{"status": "predicted"}', '{"data": {"status": 5}, "digest": ""}']
)
def test_a_damaged_entry_is_none(cache, text):
    request = lg.matmul(**SMALL).request
    cache.put(request, {"status": "predicted", "tflops": 5.5})
    path = cache.folder / f"{cache.key(request)}.json"
    assert cache.get(request) == {"status": "predicted", "tflops": 5.5}
    path.write_text(path.read_text().replace("5.5", "6.5"))
    assert cache.get(request) is None
    path.write_text(text)
    assert cache.get(request) is None


def test_damaged_candidates_are_looked_for_again(cache):
    fixed = {"block_m": 64, "block_n": 64, "block_k": 32, "warps": (2, 2), "b_order": "kn"}
    first = cache.candidates("matmul", fixed)
    (path,) = cache.folder.glob("candidates-*.json")
    for text in ('{"found": [], "refused": []}', '{"found": [{"request": {}}], "refused": []}'):
        path.write_text(text)
        assert cache.candidates("matmul", fixed) == first


def fake_runner(tflops, calls):
    """A runner that predicts what a table says, and notes what it was asked."""

    def run(_function, jobs, _workers, skip):
        for number, job in enumerate(jobs):
            if not skip(number):
                calls.append(job[0]["block_n"])
                yield number, True, {"status": "predicted", "request": job[0], "tflops": tflops[job[0]["block_n"]]}

    return run


def three():
    requests = [lg.attention(head_dim=64, block_m=64, block_n=n).request for n in (16, 32, 64)]
    return [replace(candidate(r, VOLTA, "volta", 1290), bound=b) for r, b in zip(requests, (60, 50, 40), strict=True)]


def test_what_cannot_win_is_pruned(cache, monkeypatch):
    calls = []
    monkeypatch.setattr(search_module, "run_all", fake_runner({16: 45.0, 32: 44.0, 64: 39.0}, calls))
    found = tune(three(), cache, keep=1)
    assert calls == [16, 32]  # 64 is bounded by 40, below 45
    assert [o.status for o in found.outcomes] == ["predicted", "predicted", "pruned"]
    assert found.best[0].tflops == 45.0


def test_an_interrupted_search_goes_on(cache, monkeypatch):
    calls = []
    whole = fake_runner({16: 30.0, 32: 31.0, 64: 32.0}, calls)

    def interrupted(*arguments):
        yield next(whole(*arguments))
        raise KeyboardInterrupt

    monkeypatch.setattr(search_module, "run_all", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tune(three(), cache)
    monkeypatch.setattr(search_module, "run_all", whole)
    seen = []
    found = tune(three(), cache, report=lambda outcome, done, total: seen.append((outcome.cached, done, total)))
    assert calls == [16, 32, 64]
    assert seen == [(True, 1, 3), (False, 2, 3), (False, 3, 3)]
    assert [o.tflops for o in found.best] == [32.0, 31.0, 30.0]


def test_a_failure_is_a_result(cache, monkeypatch):
    def run(_function, jobs, _workers, _skip):
        yield from ((number, False, "the process died (SIGABRT)") for number in range(len(jobs)))

    monkeypatch.setattr(search_module, "run_all", run)
    found = tune(three(), cache)
    assert found.best == ()
    assert found.count("failed") == 3
    assert cache.get(three()[0].request)["reason"] == "the process died (SIGABRT)"


# The command


def words(tmp_path, *more):
    tile = ["--block-m", "64", "--block-n", "64", "--block-k", "32", "--warps", "2x2", "--design", "simple"]
    return ["tune", "matmul", *tile, "--jobs", "2", "--cache", str(tmp_path / "cache"), *more]


def test_the_command_writes_a_profile_that_emit_uses(tmp_path, monkeypatch):
    monkeypatch.setattr("layoutgen.tuning.cache.code_digest", lambda: "fixed")
    target = tmp_path / "tuned.yml"
    result = CliRunner().invoke(main, words(tmp_path, "-o", str(target)))
    assert result.exit_code == 0, result.output
    assert "nothing here was measured" in result.stdout
    data = yaml.safe_load(target.read_text())
    assert data["matrix_unit"]["matmul"][0] == {"block_m": 64, "block_n": 64, "block_k": 32, "warps": "2x2"}
    assert data["tuned"][0]["predicted"]["tflops"] > 10
    made = CliRunner().invoke(main, ["emit", "matmul", "--profile", str(target), "--json"])
    assert made.exit_code == 0, made.output
    assert json.loads(made.stdout)["request"]["block_m"] == 64
    again = CliRunner().invoke(main, words(tmp_path, "--json"))
    assert again.stderr.count(", known") == 4  # one per arrangement
    best = json.loads(again.stdout)["best"]
    assert [entry["tflops"] for entry in best] == sorted((entry["tflops"] for entry in best), reverse=True)


def fast_outcome(rates, spilled=0, **fields):
    request = lg.matmul(design="fast", **fields).request
    figures = dict.fromkeys(("low", "high", "registers", "spill_bytes", "shared_bytes", "blocks_per_sm"), 1.0)
    figures["spill_bytes"] = spilled
    result = {"status": "predicted", "request": request.as_dict(), "tflops": rates[-1], "rates": rates, **figures}
    return search_module.Outcome(candidate(request, VOLTA, "volta", 1290), "predicted", result)


def test_a_fast_tile_takes_its_place_in_the_table(tmp_path):
    """One tile for a size and a way of summing, the fastest first; and a shape then finds it."""
    large = fast_outcome([70.04, 200.0], block_m=128, block_n=64, block_k=32, warps="2x1")
    text, chosen = tuned_profile("volta", [large], "tune")
    assert chosen is large
    table = yaml.safe_load(text)["matrix_unit"]["matmul_fast"]
    wanted = {
        "block_m": 128,
        "block_n": 64,
        "block_k": 32,
        "warps": "2x1",
        "accumulate": "unit",
        "tflops": [70.0, 200.0],
    }
    assert table[0] == wanted
    assert sum((t["block_m"], t["block_n"], t["accumulate"]) == (128, 64, "unit") for t in table) == 1
    assert len(table) == len(VOLTA.unit.matmul_fast)
    path = tmp_path / "tuned.yml"
    path.write_text(text)
    made = lg.matmul(design="fast", shape=(1, 8192, 8192, 8192), profile=str(path)).request
    assert (made.block_n, made.block_k, made.warps) == (64, 32, (2, 1))
    for rates, more in (([50.0], 1), ([100.0], 0)):
        apart = fast_outcome(rates, block_m=128, block_n=64, block_k=32, warps="2x2", accumulate="tile")
        again = yaml.safe_load(tuned_profile(str(path), [apart], "tune")[0])["matrix_unit"]["matmul_fast"]
        assert len(again) == len(table) + more
        assert [t for t in again if "warps_km" in t] == [t for t in table if "warps_km" in t]


def test_a_tile_that_is_faster_with_few_blocks_stays():
    """Of a size the profile has one tile for many blocks and one for few; a new one takes the place of the slower."""
    size = (64, 64, "unit")
    tiles = [t for t in VOLTA.unit.matmul_fast if (t.block_m, t.block_n, t.accumulate) == size]
    kept = [(t.block_k, t.warps) for t in tiles]
    assert len(kept) == 2
    for rates, left in (([19.0, 38.0, 57.0, 200.0], kept), ([100.0, 200.0], kept[:1])):
        made = fast_outcome(rates, block_m=64, block_n=64, block_k=16, warps="1x1")
        table = yaml.safe_load(tuned_profile("volta", [made], "tune")[0])["matrix_unit"]["matmul_fast"]
        found = [t for t in table if (t["block_m"], t["block_n"], t["accumulate"]) == size]
        assert [(t["block_k"], tuple(map(int, t["warps"].split("x")))) for t in found] == left
        assert found[0]["tflops"] == rates


def test_a_tile_that_spills_is_the_last_choice():
    spilled = fast_outcome([99.0], 8, block_m=64, block_n=64, block_k=32, warps="1x1")
    whole = fast_outcome([80.0], 0, block_m=64, block_n=64, block_k=32, warps="1x2")
    text, chosen = tuned_profile("volta", [spilled, whole], "tune", top=1)
    assert chosen is whole
    assert [entry["request"]["warps"] for entry in yaml.safe_load(text)["tuned"]] == ["1x1"]
    assert tuned_profile("volta", [spilled], "tune")[1] is spilled


def test_the_search_knows_the_fast_designs_own_choices():
    fixed = {"design": "fast", "block_m": 64, "block_n": 64, "block_k": 32, "a_order": "km", "accumulate": "tile"}
    found, _ = candidates("matmul", "volta", fixed, 1290)
    assert {c.request.a_order for c in found} == {"km"}
    assert {c.request.accumulate for c in found} == {"tile"}
    assert {c.request.arrangement for c in found} >= {"n2,m2", "m2,n2"}
    assert {c.request.warps for c in found} >= {(1, 1), (1, 2), (2, 1)}
    _, refused = candidates("matmul", "volta", {"block_k": 32, "warps": (2, 2), "a_order": "mk"}, 1290)
    assert any("matmul, design simple: takes no a_order" in entry.reason for entry in refused)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tune", "attention"], "--head-dim is needed"),
        (["tune", "matmul", "--head-dim", "64"], "takes no --head-dim"),
        (["tune", "attention", "--head-dim", "64", "--profile", "pascal"], "no matrix unit"),
        (["tune", "attention", "--head-dim", "64", "-o", "x.txt"], "ends in .yml"),
        (["tune", "attention", "--head-dim", "3000"], "16..256"),
    ],
)
def test_bad_requests_cost_one_line(arguments, message):
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


KILLED = """
import sys
from layoutgen.cli import main
from layoutgen.tuning import cache
if __name__ == "__main__":
    cache.code_digest = lambda: "fixed"
    main(sys.argv[1:])
"""


def test_a_killed_search_loses_nothing_that_was_done(tmp_path, monkeypatch):
    script = tmp_path / "killed.py"
    script.write_text(KILLED)  # the code must not change between the two searches, whoever edits it meanwhile
    monkeypatch.setattr("layoutgen.tuning.cache.code_digest", lambda: "fixed")
    process = subprocess.Popen([sys.executable, script, *words(tmp_path)], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("[1/"):
            break
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stderr.close()
    time.sleep(0.1)
    again = CliRunner().invoke(main, words(tmp_path))
    assert again.exit_code == 0, again.output
    assert ", known" in again.stderr


def test_a_scheduler_that_is_not_there_is_named(cache):
    pytest.importorskip("distributed", reason="needs layoutgen[dask]")
    with pytest.raises(LayoutgenError, match="--scheduler nonsense: no Dask scheduler answers there"):
        tune(three(), cache, scheduler="nonsense")


def test_without_dask_the_extra_is_named(cache, monkeypatch):
    monkeypatch.setattr(search_module, "import_module", Mock(side_effect=ImportError))
    with pytest.raises(LayoutgenError, match=r"install layoutgen\[dask\]"):
        tune(three(), cache, scheduler="tcp://127.0.0.1:1")


def test_dask_does_the_same_jobs(tmp_path, cache):
    distributed = pytest.importorskip("distributed", reason="needs layoutgen[dask]")
    found = candidates("matmul", "volta", {**SMALL, "warps": (2, 2)}, 1290)[0][:3]
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, local_directory=str(tmp_path)
    ) as cluster:
        by_dask = tune(found, cache, scheduler=cluster.scheduler_address)
    assert by_dask.count("predicted") == len(found)
    here = evaluate(found[0].request.as_dict(), "sm_70", "volta", 1290)
    assert cache.get(found[0].request) == here
