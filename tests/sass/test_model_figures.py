"""What docs/model.md claims, computed again. Takes about a minute."""

from pathlib import Path

import pytest

from tools.model_figures import ATTENTION, HELD_OUT, PAGE, main, misordered, outcome

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def outcomes():
    return [outcome(point) for point in ATTENTION]


@pytest.mark.sweep
def test_every_point_is_within_15_percent(outcomes):
    assert {one.point.label: one.error for one in outcomes if abs(one.error) > 0.15} == {}


@pytest.mark.sweep
def test_pairs_that_differ_are_in_the_right_order(outcomes):
    assert misordered(outcomes) == []


@pytest.mark.sweep
def test_no_more_is_fitted_than_there_are_points(outcomes):
    assert 0 < len(outcomes[0].found.model.fitted) < len(ATTENTION)


@pytest.mark.sweep
def test_the_point_that_was_held_out():
    assert abs(outcome(HELD_OUT[0]).error) < 0.15


@pytest.mark.sweep
def test_the_page_is_as_generated(monkeypatch):
    monkeypatch.chdir(ROOT)
    assert main(["--check", "-o", str(PAGE)]) == 0


def test_a_wrong_order_is_noticed():
    class Fake:
        def __init__(self, label, measured, predicted):
            self.point = type("P", (), {"label": label, "measured": measured})
            self.predict = lambda: type("Q", (), {"mean": predicted})

    good, bad = Fake("a", 40, 41), Fake("b", 30, 42)
    assert misordered([good, bad]) == [("a", "b")]
    assert misordered([good, Fake("b", 39, 42)]) == []
    assert misordered([good, Fake("b", 30, 31)]) == []
