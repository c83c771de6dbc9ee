"""Two commits side by side: the arithmetic, the verdict, the trees, the command line, and one small run."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks.against import servers
from benchmarks.against.command import Chosen, chosen, ended_by_sigterm, publish, rounds_of
from benchmarks.against.comparison import HERE, NO_WORSE, THERE, UNCLEAR, WORSE, Compared, Part, compared
from benchmarks.against.interval import coverage, interval, least_count
from benchmarks.against.printing import render
from benchmarks.against.run import Comparison, middle, order, run
from benchmarks.against.trees import PROGRAMS, Tree, check_imports, checked_out, commit_of, this_tree
from benchmarks.budget import Budget
from benchmarks.measure import Row, Size
from benchmarks.plan import of_trees
from benchmarks.processes import ROOT
from benchmarks.servers import OURS
from benchmarks.task import Outcome
from benchmarks.trouble import BenchmarkError
from benchmarks.verdicts import UNMEASURED

with_git = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
RATE = Part("value", "a rate", "/s", more_is_better=True)


# --- the interval


def test_the_level_of_order_statistics_is_binomial():
    assert coverage(9, 2) == pytest.approx(1 - 2 * (1 + 9) / 512)
    assert (coverage(1, 1), least_count(0.90), least_count(0.99)) == (0.0, 5, 8)


def test_the_interval_lies_between_two_order_statistics():
    low, high = interval([9, 1, 8, 2, 7, 3, 6, 4, 5])
    assert (low, high) == (pytest.approx(2.728), pytest.approx(7.272))


def test_the_interval_is_that_of_the_level_where_order_statistics_have_it():
    values = [float(number) for number in range(1, 10)]
    assert interval(values, coverage(9, 2)) == (2.0, 8.0)
    assert interval([1.0] * 7) == (1.0, 1.0)


@pytest.mark.parametrize("count", [5, 6, 9, 12, 25])
def test_the_interval_covers_the_median_as_often_as_it_says(count: int):
    chance = random.Random(count)
    inside = 0
    for _ in range(4000):
        low, high = interval([chance.gauss(1.0, 0.1) for _ in range(count)])
        inside += low <= 1.0 <= high
    assert inside / 4000 == pytest.approx(0.90, abs=0.015)


def test_too_few_values_have_no_interval():
    with pytest.raises(ValueError, match="4 values have no interval of 90%; it takes 5"):
        interval([1.0] * 4)


# --- the verdict


@pytest.mark.parametrize(
    ("ratios", "word"),
    [
        ([1.0] * 9, NO_WORSE),
        ([0.98] * 9, NO_WORSE),
        ([0.97] * 9, WORSE),
        ([0.90, 0.93, 0.94, 0.95, 0.95, 0.97, 0.99, 0.99, 1.0], NO_WORSE),
        ([0.90, 0.93, 0.94, 0.94, 0.94, 0.97, 0.99, 0.99, 1.0], UNCLEAR),
        ([0.90, 0.93, 0.94, 0.94, 0.94, 0.97, 0.97, 0.99, 1.0], WORSE),
        ([1.0] * 4, UNMEASURED),
        ([], UNMEASURED),
    ],
)
def test_no_worse_is_what_reaches_far_enough_with_a_median_that_is_high_enough(ratios: list[float], word: str):
    here = tuple(100.0 * ratio for ratio in ratios)
    assert Compared("x", RATE, here, (100.0,) * len(here)).word == word


def test_a_ratio_is_turned_where_less_is_better():
    cpu = Compared("x", Part("cpu", "CPU", "s", more_is_better=False), (2.0,) * 5, (1.0,) * 5)
    assert (cpu.ratio, cpu.interval, cpu.word) == (0.5, (0.5, 0.5), WORSE)


def samples(rows: dict[str, tuple[list[Outcome], list[Outcome]]]) -> dict[tuple[str, str], list[Outcome]]:
    return {(row, side): taken for row, both in rows.items() for side, taken in zip((HERE, THERE), both, strict=True)}


def test_ratios_are_of_rounds_that_both_sides_have():
    here = [Outcome(value, 1, round=number) for number, value in ((1, 10.0), (2, 20.0), (4, 90.0))]
    there = [Outcome(value, 1, round=number) for number, value in ((4, 100.0), (3, 7.0), (1, 5.0))]
    (found,) = compared([Row("x", "x", "/s")], samples({"x": (here, there)}))
    assert (found.here, found.there, found.ratios) == ((10.0, 90.0), (5.0, 100.0), [2.0, 0.9])


def test_cpu_and_memory_are_compared_where_samples_have_them():
    one = Outcome(10.0, 1, cpu=2.0, notes={"p50_us": 3.0, "peak_MB": 50.0}, round=1)
    rows = [Row("a", "a", "/s"), Row("b", "b", "ms"), Row("c", "c", "MB"), Row("gone", "gone", "/s")]
    taken = samples(
        {"a": ([one], [one]), "b": ([Outcome(5.0, 1, round=1)],) * 2, "c": ([Outcome(9.0, 1, round=1)],) * 2}
    )
    found = [(each.row, each.part.name, each.part.more_is_better) for each in compared(rows, taken)]
    assert found == [
        ("a", "value", True),
        ("a", "cpu", False),
        ("a", "peak_MB", False),
        ("b", "value", False),
        ("c", "value", False),
    ]


def test_each_side_is_first_in_every_other_round_and_for_every_other_row():
    assert [order(number, 0)[0] for number in (1, 2, 3)] == [HERE, THERE, HERE]
    assert [order(1, index)[0] for index in (0, 1, 2)] == [HERE, THERE, HERE]
    assert set(order(1, 0)) == {HERE, THERE}


def test_of_several_turns_the_middle_one_is_the_sample():
    assert middle([Outcome(value, 1) for value in (3.0, 9.0, 1.0)]).value == 3.0


def comparison(rounds: int = 9) -> Comparison:
    trees = {side: Tree(ROOT, f"tree {side}", side * 10) for side in (HERE, THERE)}
    found = Comparison(trees, rounds, [Row("x", "sends", "/s")], ["some servers"])
    for number in range(1, rounds + 1):
        found.add("x", HERE, Outcome(900.0, 1, cpu=1.0), number)
        found.add("x", THERE, Outcome(1000.0, 1, cpu=1.0), number)
    return found


def test_the_print_has_both_figures_ratio_interval_verdict_and_reasons():
    found = comparison()
    found.left_out = {"a": "it lacks them", "b": "it lacks them"}
    lines = {
        line.partition("  ")[0].strip() or line.split()[0]: line.split() for line in render(found).splitlines() if line
    }
    assert lines["sends"] == ["sends", "1,000/s", "900/s", "0.900", "0.900", "–", "0.900", "worse"]
    assert lines["CPU"] == ["CPU", "1.00", "s", "1.00", "s", "1.000", "1.000", "–", "1.000", "no", "worse"]
    text = render(found)
    assert "Left out, because it lacks them: a, b." in text
    assert text.endswith("Of 2 figures, 1 no worse, 1 worse.")
    assert "first look" not in text
    assert "first look and no verdict" in render(comparison(5))
    assert "– unmeasured" in " ".join(render(comparison(4)).split())


def test_json_has_every_ratio(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "all.json"
    assert publish(comparison(), command.arguments(["--against", "HEAD", "--json", str(file)])) == 0
    told = json.loads(file.read_text("utf-8"))
    assert told["figures"][0]["ratios"] == [0.9] * 9
    assert told["figures"][0]["interval"] == pytest.approx([0.9, 0.9])
    assert told["commits"] == {HERE: HERE * 10, THERE: THERE * 10}
    assert "sends" in capsys.readouterr().out


# --- the command line


def test_names_choose_what_is_compared():
    everything = chosen([])
    names = [row.name for row in everything.rows()]
    assert not everything.spark
    assert not everything.servers
    assert {"threads-64", "consume", "quickstart", "import", "start-blocking", "memory-asyncio", "decode"} <= set(names)
    assert not {"raw-one", "import-floor", "idle-rss", "java-64"} & set(names)
    assert chosen(["spark-sink"]) == Chosen([], set(), spark=True)
    few = chosen(["spark-df-sink", "raw-64", "import"])
    assert ([measure.rows[0].name for measure in few.clients], few.servers, few.spark) == (["import"], {"raw-64"}, True)
    assert [row.name for row in chosen(["raw-64"]).rows()] == ["raw-64"]
    assert {"raw-one", "raw-batch", "cold", "idle-rss", "stop"} <= {row.name for row in chosen(["servers"]).rows()}
    surfaces = {row.name for row in chosen(["surfaces"]).rows()}
    assert surfaces == {
        *("trio-one", "blocking-one", "aio-one", "trio-64", "aio-64", "send-soon-64", "threads-64", "threads-8")
    }


@pytest.mark.parametrize("name", ["import-floor", "store-append", "java-64", "warp"])
def test_what_is_the_same_for_every_tree_is_refused_by_name(name: str):
    with pytest.raises(
        BenchmarkError,
        match=rf"can be compared by {name}; they can by: trio-one.*surfaces, consumer, producer, servers, spark-sink",
    ):
        chosen([name])


def test_nine_rounds_are_taken_fewer_are_warned_of_and_too_few_refused(capsys: pytest.CaptureFixture[str]):
    assert (rounds_of(None), rounds_of(12)) == (9, 12)
    assert capsys.readouterr().err == ""
    assert rounds_of(5) == 5
    assert "fewer than 9 rounds are a first look" in capsys.readouterr().err
    with pytest.raises(BenchmarkError, match="4 rounds have no interval of 90 %: it takes 5, and 9 are a measurement"):
        rounds_of(4)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--against", "HEAD", "--plot", "x.png"], "leave --plot out"),
        (["--against", "HEAD", "--rounds", "2"], "2 rounds have no interval"),
        (["--against", "HEAD", "warp"], "compared by warp"),
    ],
)
def test_what_cannot_be_done_is_told(
    words: list[str], text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr("sys.argv", ["bench", *words])
    assert command.main() == 1
    assert text in capsys.readouterr().err


def test_the_command_lists_what_can_be_compared(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr("sys.argv", ["bench", "--against", "HEAD", "--list", "trio-one", "spark-sink"])
    assert command.main() == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [
        *("trio-one", "spark-df-sink", "spark-rdd-sink")
    ]


def test_sigterm_ends_a_run_as_ctrl_c_does():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), ended_by_sigterm():
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == before


# --- the trees


def git(at: Path, *words: str) -> str:
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    identity = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.org", "-c", "commit.gpgsign=false")
    return subprocess.run(
        ["git", *identity, *words], cwd=at, env=env, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Two commits: the older one says 1, and its program measures otherwise."""
    root = tmp_path / "repository"
    for name in ("rocketpy/__init__.py", f"{PROGRAMS}/worker.py"):
        (root / name).parent.mkdir(parents=True)
    git(root.parent, "init", "--quiet", str(root))
    for number in (1, 2):
        (root / "rocketpy" / "__init__.py").write_text(f"NUMBER = {number}\n")
        (root / PROGRAMS / "worker.py").write_text(f"# program {number}\n")
        git(root, "add", "--all")
        git(root, "commit", "--quiet", "--message", str(number))
    return root


@with_git
def test_the_tree_of_a_commit_has_its_package_and_our_programs_and_goes_again(repository: Path, tmp_path: Path):
    place = tmp_path / "place"
    with checked_out("HEAD~1", root=repository, place=place) as tree:
        assert (tree.path / "rocketpy" / "__init__.py").read_text() == "NUMBER = 1\n"
        assert (tree.path / PROGRAMS / "worker.py").read_text() == "# program 2\n"
        assert tree.title == f"HEAD~1 ({tree.commit[:10]})"
        assert tree.commit == git(repository, "rev-parse", "HEAD~1")
        check_imports(tree)
    assert [path.name for path in place.iterdir()] == ["lock"]
    assert len(git(repository, "worktree", "list").splitlines()) == 1
    assert git(repository, "status", "--porcelain") == ""


@with_git
def test_a_run_that_is_interrupted_leaves_no_tree(repository: Path, tmp_path: Path):
    with pytest.raises(KeyboardInterrupt), checked_out("HEAD", root=repository, place=tmp_path / "place"):
        raise KeyboardInterrupt
    assert len(git(repository, "worktree", "list").splitlines()) == 1
    assert not list((tmp_path / "place").glob("tree-*"))


@with_git
def test_what_a_killed_run_has_left_goes_with_the_next_one(repository: Path, tmp_path: Path):
    place = tmp_path / "place"
    place.mkdir()
    git(repository, "worktree", "add", "--quiet", "--detach", str(place / "tree-1"))
    (place / "tree-2").mkdir()
    with checked_out("HEAD", root=repository, place=place) as tree:
        assert list(place.glob("tree-*")) == [tree.path]
        assert len(git(repository, "worktree", "list").splitlines()) == 2
    assert len(git(repository, "worktree", "list").splitlines()) == 1


@with_git
def test_two_runs_at_a_time_are_refused(repository: Path, tmp_path: Path):
    with checked_out("HEAD", root=repository, place=tmp_path / "place") as tree:
        with pytest.raises(BenchmarkError, match="another --against runs in this tree"):
            with checked_out("HEAD", root=repository, place=tmp_path / "place"):
                pass
        assert tree.path.exists()


@with_git
@pytest.mark.parametrize("revision", ["nosuch", "--all", "HEAD:rocketpy", ""])
def test_what_is_no_commit_is_refused(repository: Path, tmp_path: Path, revision: str):
    with pytest.raises(BenchmarkError, match="there is no commit called"):
        with checked_out(revision, root=repository, place=tmp_path / "place"):
            pass
    assert not (tmp_path / "place").exists()


@with_git
def test_what_is_no_repository_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(BenchmarkError, match=r"git rev-parse failed: .*not a git repository"):
        commit_of("HEAD", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BenchmarkError, match="needs git, and there is none on PATH"):
        commit_of("HEAD", tmp_path)


@with_git
def test_changes_that_no_commit_holds_are_measured_on_demand_only(repository: Path):
    assert this_tree(root=repository).title == git(repository, "rev-parse", "HEAD")[:10]
    (repository / "notes.txt").write_text("of no matter")
    this_tree(root=repository)
    (repository / "rocketpy" / "new.py").write_text("")
    with pytest.raises(BenchmarkError, match=r"no commit holds \(rocketpy/new.py\): commit them, or .* --dirty"):
        this_tree(root=repository)
    assert this_tree(root=repository, dirty=True).title.endswith(" with changes")


def test_a_tree_without_the_package_is_not_measured_by_the_installed_one(tmp_path: Path):
    with pytest.raises(BenchmarkError, match=r"its programs import .*, which is of another tree"):
        check_imports(Tree(tmp_path, "empty", "0"))


# --- the run


@pytest.mark.slow
def test_both_trees_are_measured_by_the_same_programs_and_what_one_lacks_is_left_out(tmp_path: Path):
    for name in ("rocketpy", "rocketpy_broker_sim", PROGRAMS):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "rocketpy" / "aio" / "__init__.py").write_text("raise ImportError('not yet')\n")
    trees = {HERE: Tree(ROOT, "this one", "1"), THERE: Tree(tmp_path, "that one", "0")}
    found = Comparison(trees, rounds=1)
    size = Size(Budget(5.0, 20), filled=100, warm_seconds=40.0)
    run(found, of_trees(["blocking-one", "import-sync", "aio-one"], also=""), OURS, size)
    assert found.failures == []
    assert found.left_out == {"aio-one": "that one cannot do it (ImportError: not yet)"}
    assert [(each.row, each.part.name, len(each.ratios)) for each in found.compared()] == [
        ("blocking-one", "value", 1),
        ("blocking-one", "cpu", 1),
        ("import-sync", "value", 1),
    ]
    assert found.samples["blocking-one", THERE][0].messages == 20
    assert list((tmp_path / "rocketpy" / "sync" / "__pycache__").glob("*.pyc"))  # it was this package that ran


@pytest.mark.slow
def test_each_tree_is_measured_by_its_own_servers(tmp_path: Path):
    for name in ("rocketpy", "rocketpy_broker_sim"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    trees = {HERE: Tree(ROOT, "this one", "1"), THERE: Tree(tmp_path, "that one", "0")}
    found = Comparison(trees, rounds=1)
    size = Size(Budget(5.0, 20), filled=100, warm_seconds=40.0, idle_seconds=0.1)
    servers.run(found, {"raw-64", "stop"}, size)
    assert found.failures == []
    for name in ("raw-64", "cold", "stop"):
        assert all(found.samples[name, side][0].value > 0 for side in (HERE, THERE))
    assert {each.row for each in found.compared()} == {"raw-64", "cold", "idle-rss", "idle-cpu", "stop"}
    assert list((tmp_path / "rocketpy_broker_sim" / "cli" / "__pycache__").glob("broker*.pyc"))


@pytest.mark.slow
def test_what_this_tree_cannot_do_is_a_failure(tmp_path: Path):
    (tmp_path / "rocketpy").mkdir()
    (tmp_path / "rocketpy" / "__init__.py").write_text("raise ImportError('broken')\n")
    trees = {HERE: Tree(tmp_path, "this one", "1"), THERE: Tree(ROOT, "that one", "0")}
    found = Comparison(trees, rounds=1)
    run(found, of_trees(["blocking-one"], also=""), OURS, Size(Budget(5.0, 20), filled=100, warm_seconds=40.0))
    (failure,) = found.failures
    assert failure.startswith("blocking send, one in flight: this one: ")
    assert set(found.left_out) == {"blocking-one"}
