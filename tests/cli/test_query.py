"""The queries and explanations on the command line."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from layoutgen.cli import main


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


P = ("accumulator", "operand_a", "--block-m", 16, "--block-n", 32)


def test_where_as_text_json_csv_and_markdown() -> None:
    query = ("where", "--operand", "accumulator", "--element", "3,9")
    assert run(*query).output == "accumulator[3, 9] in lane 9, register 3\n"
    assert json.loads(run(*query, "--json").output) == [{"element": [3, 9], "register": 3, "lane": 9}]
    assert run(*query, "--csv").output == "register,lane,m,n\n3,9,3,9\n"
    assert run(*query, "--markdown").output == (
        "| register | lane | m | n |\n| --- | --- | --- | --- |\n| 3 | 9 | 3 | 9 |\n"
    )


def test_a_larger_block_has_the_element_that_was_refused() -> None:
    for operand, element, size in (("accumulator", "16,0", "m"), ("accumulator", "0,16", "n"), ("b", "0,4", "k")):
        query = ("where", "--operand", operand, "--element", element)
        assert run(*query).exit_code == 2
        assert run(*query, f"--block-{size}", 32).exit_code == 0


def test_what() -> None:
    assert run("what", "--operand", "b", "--lane", 0, "--register", 1, "--csv").output == "register,lane,n,k\n1,0,0,1\n"
    assert run("what", "--operand", "a", "--lane", 5, "--register", 2).output == "a[9, 2] in lane 5, register 2\n"
    assert len(run("what", "--operand", "b", "--lane", 5).output.splitlines()) == 4
    warps = run("what", "--operand", "a", "--block-m", 32, "--block-n", 16, "--warps", "2x1", "--warp", 1, "--lane", 0)
    assert warps.output.splitlines()[0] == "a[16, 0] in warp 1, lane 0, register 0"


def test_explain_p() -> None:
    result = run("explain", *P)
    assert result.exit_code == 0
    assert result.output.startswith("exchange within a warp: not trivial\n  at best 0.5 of a thread's values stay")
    assert "exchanges lane1 with register1, lane3 with register3" in result.output
    data = json.loads(run("explain", *P, "--json").output)
    assert (data["class"], data["trivial"], data["shuffles"], data["kept_in_lane"]) == ("warp", False, 12, 0.5)
    assert data["verdict"]["holds"] is False
    assert run("explain", *P, "--latex", "--method", "symbolic").output.startswith(r"\paragraph{Claim 3: converting")


def test_explain_reads_every_notation(tmp_path: Path) -> None:
    texts = [
        '{"register": [[0, 1]], "lane": [[1, 0], [2, 0]], "shape": [4, 2]}',
        "gl.DistributedLinearLayout([[0, 1]], [[1, 0], [2, 0]], [], [], [4, 2])",
        "#ttg.linear<{register = [[0, 1]], lane = [[1, 0], [2, 0]], warp = [], block = []}>",
        "((4),(2)):((1),(4))",
    ]
    path = tmp_path / "layout.json"
    path.write_text(texts[0])
    for text in (*texts, path):
        result = run("explain", texts[0], text, "--shape", "4,2")
        assert result.output.startswith("identical: no instruction"), text
        assert result.exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("explain", "x + y", "accumulator"), "layout 'x + y': cannot be read; it must be a JSON object"),
        (
            ("explain", "acumulator", "operand_a"),
            "layout 'acumulator': not a derived one; these are accumulator, grouped",
        ),
        (("explain", "nowhere.json", "accumulator"), "explain: nowhere.json: no such file or directory"),
        (("explain", *P, "--method", "magic"), "method 'magic': must be one of rank, symbolic, exhaustive"),
        (("explain", "accumulator", "fragment_a", "--block-m", 16, "--block-n", 32), "they must be one tensor"),
        (
            ("where", "--operand", "a", "--element", "16,0"),
            "element 16,0: m must lie in 0..15, or --block-m be larger than 16",
        ),
        (
            ("where", "--operand", "b", "--element", "0,4"),
            "element 0,4: k must lie in 0..3, or --block-k be larger than 4",
        ),
        (("where", "--operand", "b", "--element", "3"), "element 3: must be n,k of b"),
        (("explain", *P, "--json", "--latex"), "explain: name one of --json and --latex"),
        (("where", "--operand", "a", "--element", "x"), "element 'x': must be a comma-separated list"),
        (("what", "--operand", "a", "--json", "--csv"), "query: name one of --json, --csv and --markdown"),
    ],
)
def test_bad_requests(arguments: tuple[object, ...], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.output
    assert len(result.output.splitlines()) == 1


def test_what_a_conversion_costs_is_an_answer() -> None:
    for words in (P, ("accumulator", "accumulator", *P[2:])):
        result = run("explain", *words)
        assert result.exit_code == 0
        assert ("REFUTED" in result.output) == (words is P)
