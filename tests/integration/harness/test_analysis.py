from __future__ import annotations

import sys
from pathlib import Path

import pytest

import harness.report
from harness.commands import main as cli
from harness.runs import analysis
from harness.runs.analysis import analyze
from harness.runs.checkers_process import AnalysisFailed, Where
from harness.runs.into import filled
from harness.runs.store import RunStore, read_json
from tests.integration.harness.checkers_stand_in import WRITE


@pytest.mark.parametrize(("verdict", "code"), [("valid", 0), ("invalid", 1), ("unknown", 2)])
def test_analyze_exit_code_is_that_of_the_verdict(store: RunStore, checkers: object, verdict: str, code: int) -> None:
    checkers(WRITE.format(verdict=verdict, code=code))  # type: ignore[operator]
    judged = analyze(store, 30)
    assert (judged.verdict, judged.exit_code, judged.sentence) == (verdict, code, f"It is {verdict}.")
    assert store.junit.is_file()


def test_analyze_without_junitparser_is_a_verdict_all_the_same(
    store: RunStore, checkers: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkers(WRITE.format(verdict="invalid", code=1))  # type: ignore[operator]
    monkeypatch.delitem(sys.modules, "harness.runs.junit", raising=False)
    monkeypatch.setitem(sys.modules, "junitparser", None)
    said: list[str] = []
    assert analyze(store, 30, say=said.append).exit_code == 1
    (told,) = [text for text in said if "junit.xml" in text]
    assert "junitparser" in told
    assert told.endswith("install highwater[lab]")


def test_analyze_without_jinja2_is_a_verdict_without_a_report(
    store: RunStore, checkers: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkers(WRITE.format(verdict="valid", code=0))  # type: ignore[operator]
    monkeypatch.delitem(sys.modules, "harness.report.pages", raising=False)
    monkeypatch.delattr(harness.report, "pages", raising=False)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    judged = analyze(store, 30)
    assert (judged.exit_code, judged.report) == (0, None)
    assert judged.report_problem is not None
    assert judged.report_problem.startswith("the report needs a package that is missing (")
    assert judged.report_problem.endswith("install highwater[lab]")


def test_analyze_hands_on_the_spark_master(store: RunStore, checkers: object) -> None:
    checkers(WRITE.format(verdict="valid", code=0))  # type: ignore[operator]
    analyze(store, 30, where=Where(spark_master="local[1]"))
    arguments = read_json(store.results)["argv"]
    assert isinstance(arguments, list)
    assert (arguments[0], arguments[-2:]) == (str(store.path), ["--spark-master", "local[1]"])


def test_analyze_hands_on_settings_of_spark(
    store: RunStore, checkers: object, capsys: pytest.CaptureFixture[str]
) -> None:
    checkers(WRITE.format(verdict="valid", code=0))  # type: ignore[operator]
    settings = ["spark.executor.memory=8g", "spark.cores.max=4"]
    options = [word for setting in settings for word in ("--spark-conf", setting)]
    assert cli.main(["analyze", store.path.as_uri(), *options]) == 0
    capsys.readouterr()
    arguments = read_json(store.results)["argv"]
    assert isinstance(arguments, list)
    assert (arguments[0], arguments[-4:]) == (str(store.path), options)


ELSEWHERE = """
into = sys.argv[sys.argv.index("--into") + 1]
run_json = {"schema": 1, "name": "far", "nodes": [], "topic": {}, "workload": {}, "system": {}}
json.dump(run_json, open(into + "/run.json", "w"))
run = into
"""


ALONE = """
into = sys.argv[sys.argv.index("--into") + 1]
assert sorted(os.listdir(into)) == ["analysis.log", "scratch", "unfinished-analysis"]
"""


def test_run_elsewhere_is_judged_by_its_uri_and_its_results_are_here(
    checkers: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkers(ELSEWHERE + WRITE.format(verdict="invalid", code=1))  # type: ignore[operator]
    assert cli.main(["analyze", "s3a://bucket/runs/far/", "--into", "new/here"]) == 1
    assert capsys.readouterr().out.startswith("It is invalid.\n")
    here = tmp_path / "new" / "here"
    arguments = read_json(here / "results.json")["argv"]
    assert isinstance(arguments, list)
    assert (arguments[0], arguments[-2:]) == ("s3a://bucket/runs/far/", ["--into", str(here)])
    assert (here / "junit.xml").is_file()
    checkers("sys.exit(255)")  # type: ignore[operator]
    assert cli.main(["analyze", "s3a://bucket/runs/other"]) == 255
    assert (tmp_path / "other" / "analysis.log").is_file(), "by default the folder has the run's name"


def test_analysis_elsewhere_that_failed_is_begun_anew_in_the_same_folder(
    checkers: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    half = """
os.makedirs(into + "/evidence/n1")
for name in ("evidence/n1/file", "results.json", "results.tmp", "series.json.part"):
    open(into + "/" + name, "w").write("half")
"""
    again = ["analyze", "s3a://bucket/runs/far", "--into", "new"]
    checkers(ELSEWHERE + half + "sys.exit(255)")  # type: ignore[operator]
    assert cli.main(again) == 255
    assert "goes on" in capsys.readouterr().err
    mine = tmp_path / "new" / "notes"
    mine.touch()
    assert cli.main(again) == 254
    assert "and notes, which is of none" in capsys.readouterr().err
    mine.unlink()
    # `python -m checkers` takes no folder that holds a run.
    checkers(ALONE + ELSEWHERE + WRITE.format(verdict="valid", code=0))  # type: ignore[operator]
    assert cli.main(again) == 0
    assert not (tmp_path / "new" / "unfinished-analysis").exists()
    assert not (tmp_path / "new" / "evidence").exists()
    assert cli.main(again) == 254, "what was finished is kept"


def test_folder_that_another_analysis_fills_is_left_to_it(
    checkers: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkers(ELSEWHERE + WRITE.format(verdict="valid", code=0))  # type: ignore[operator]
    with filled(tmp_path / "new", "s3a://bucket/runs/far") as store:
        store.results.write_text("{}")
        assert cli.main(["analyze", "s3a://bucket/runs/far", "--into", "new"]) == 254
        assert "another analysis is writing there" in capsys.readouterr().err
        assert store.results.read_text() == "{}"


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["s3a://b/r", "--into", "taken"], "taken is there, and not empty; should be a new folder"),
        (["s3a://b/r", "--into", "taken/file"], "taken/file is no folder; should be a new one"),
        (["s3a://b/r", "--into", "taken/file/below"], "Not a directory; should be a new folder"),
        (["s3a://b/r", "--diff"], "--diff: goes with a folder of this machine; s3a://b/r is elsewhere"),
        (["taken", "--into", "new"], "--into: goes with a URI; taken is a folder, in which results are written"),
        (["file://host/r"], "file://host/r: a file URI names no host, but a whole path: file:///srv/runs/demo"),
        (["s3a://b/r", "--time-limit", "0"], "--time-limit: 0 is not a number from 1 to 86400"),
    ],
)
def test_folder_that_is_named_wrongly_is_refused(
    argv: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    assert cli.main(["analyze", *argv]) == 254
    assert said in capsys.readouterr().err


def test_analyze_crash_is_no_verdict_and_shows_the_end_of_the_log(store: RunStore, checkers: object) -> None:
    store.results.write_text('{"verdict": "valid"}')
    checkers('raise RuntimeError("no Java here")')  # type: ignore[operator]
    with pytest.raises(AnalysisFailed, match=r"(?s)exit code 1.*no Java here|without results.*analysis\.log"):
        analyze(store, 30)
    assert not store.results.exists()


def test_analyze_without_results_is_no_verdict(store: RunStore, checkers: object) -> None:
    checkers("sys.exit(0)")  # type: ignore[operator]
    with pytest.raises(AnalysisFailed, match="without results"):
        analyze(store, 30)


def test_analyze_unknown_word_as_verdict_is_refused(store: RunStore, checkers: object) -> None:
    checkers(WRITE.format(verdict="fine", code=0))  # type: ignore[operator]
    with pytest.raises(AnalysisFailed, match="verdict 'fine' is not one of valid, invalid, unknown"):
        analyze(store, 30)


def test_analyze_exit_code_that_does_not_fit_the_results_is_a_crash(store: RunStore, checkers: object) -> None:
    checkers(WRITE.format(verdict="valid", code=1))  # type: ignore[operator]
    with pytest.raises(AnalysisFailed, match="wrote valid, but ended with exit code 1"):
        analyze(store, 30)


def test_analyze_history_with_a_gap_is_refused(store: RunStore) -> None:
    store.history.write_text('{"index":0}\n{"index":5}\n')
    with pytest.raises(AnalysisFailed, match="index 5 where 1 was due"):
        analyze(store, 30)


def test_cli_analyze_of_a_killed_run_says_so_and_judges_it(
    store: RunStore, checkers: object, capsys: pytest.CaptureFixture[str]
) -> None:
    checkers(WRITE.format(verdict="unknown", code=2))  # type: ignore[operator]
    store.update_run(finished=False)
    with store.history.open("a") as file:
        file.write('{"type":"ok","ind')
    assert cli.main(["analyze", str(store.path)]) == 2
    said = capsys.readouterr().out
    assert "the harness ended without closing the history" in said
    assert "1 operations without an outcome" in said
    assert "It is unknown." in said
    assert store.read_run()["aborted"] == "the harness ended without closing the history"


def test_cli_analyze_diff_says_what_another_judgement_changed(
    store: RunStore, checkers: object, capsys: pytest.CaptureFixture[str]
) -> None:
    checkers(WRITE.format(verdict="unknown", code=2))  # type: ignore[operator]
    assert cli.main(["analyze", str(store.path), "--diff"]) == 2
    assert "no judgement before this one to compare with" in capsys.readouterr().out
    assert cli.main(["analyze", str(store.path), "--diff"]) == 2
    assert "nothing changed since the last judgement" in capsys.readouterr().out
    checkers(WRITE.format(verdict="invalid", code=1))  # type: ignore[operator]
    assert cli.main(["analyze", str(store.path), "--diff"]) == 1
    assert "changed since the last judgement:\n  verdict: unknown, now invalid\n" in capsys.readouterr().out


def test_cli_analyze_crash_is_255(store: RunStore, checkers: object, capsys: pytest.CaptureFixture[str]) -> None:
    checkers("sys.exit(9)")  # type: ignore[operator]
    assert cli.main(["analyze", str(store.path)]) == 255
    assert "crashed with exit code 9" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["--spark-master", "sprak://h:7077"],
            "--spark-master: 'sprak://h:7077' is not a master of Spark's: local[N], ",
        ),
        (
            ["--spark-conf", "executor.memory=8g"],
            "--spark-conf: 'executor.memory=8g' is no setting of Spark's; one is ",
        ),
    ],
)
def test_what_spark_would_refuse_is_usage_and_costs_no_verdict(
    store: RunStore, checkers: object, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    checkers(WRITE.format(verdict="valid", code=0))  # type: ignore[operator]
    assert cli.main(["analyze", str(store.path)]) == 0
    capsys.readouterr()
    assert cli.main(["analyze", str(store.path), *words]) == 254
    assert capsys.readouterr().err.startswith(f"highwater: {said}")
    assert read_json(store.results)["verdict"] == "valid"


def test_run_for_a_master_that_spark_would_refuse_does_not_begin(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "x.toml"
    file.write_text('name = "x"\n')
    assert cli.main(["test", str(file), "--store", str(tmp_path / "store"), "--spark-master", "foo"]) == 254
    assert "--spark-master: 'foo' is not a master of Spark's" in capsys.readouterr().err
    assert not (tmp_path / "store").exists()


def test_run_that_is_not_judged_cannot_be_explained_and_who_judges_it_is_named(
    store: RunStore, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["explain", str(store.path)]) == 254
    assert capsys.readouterr().err == (
        f"highwater: {store.path}: not judged, there is no results.json: `highwater analyze {store.path}` judges it\n"
    )


def test_results_that_no_checker_wrote_are_named(store: RunStore, capsys: pytest.CaptureFixture[str]) -> None:
    store.results.write_text('{"verdict": "valid", "checkers": [1]}')
    assert cli.main(["explain", str(store.path)]) == 254
    assert capsys.readouterr().err.startswith(f"highwater: {store.results}: not what checkers write: AttributeError: ")


@pytest.mark.parametrize("command", ["analyze", "explain"])
def test_run_whose_brackets_have_no_end_is_named(
    store: RunStore, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    store.results.write_text("{}")
    store.run_json.write_text("[" * 100_000)
    assert cli.main([command, str(store.path)]) == 254
    said = capsys.readouterr().err
    assert f"{store.run_json}: cannot be read: brackets are nested too deeply" in said
    assert "an error of its own" not in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["topic"], "'topic' is not one of test, analyze, "),
        (["topic"], " nor, for running clusters, of topics, configs, groups, "),
        (["topic"], "(did you mean topics?)"),
        (["analyse", "x"], "(did you mean analyze?)"),
        (["test", "x.toml", "--seed", "1_0"], "argument --seed: '1_0' is not a whole number"),
        (["nightly", "x.toml", "--seeds", "\uff11"], "argument --seeds: '\uff11' is not a whole number"),
        (["explain", "x", "--most", "0"], "argument --most: '0' is not a whole number from 1 on"),
    ],
)
def test_word_that_cannot_be_is_named_with_what_would_be_right(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 254
    assert said in capsys.readouterr().err


def test_cli_analyze_of_a_folder_that_is_no_run_is_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["analyze", str(tmp_path)]) == 254
    assert "holds no history.jsonl" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [[], ["nonsense"], ["test"], ["nightly", "x", "--seeds", "y"], ["test", "x.toml", "--rate", "y"]]
)
def test_cli_usage_errors_are_254(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 254
    assert "usage: highwater" in capsys.readouterr().err


def test_cli_test_with_a_wrong_run_file_is_254_and_makes_no_store(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "x.toml"
    file.write_text('name = "x"\n[workload]\nacks = 2\n')
    assert cli.main(["test", str(file), "--store", str(tmp_path / "store")]) == 254
    assert "x.toml:3: workload.acks: 2 is not one of all, 1, 0" in capsys.readouterr().err
    assert not (tmp_path / "store").exists()


def test_cli_test_with_a_wrong_script_verb_is_254(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "x.toml"
    file.write_text('name = "x"\n[[script]]\ndo = "explode"\n')
    assert cli.main(["test", str(file), "--store", str(tmp_path / "store")]) == 254
    assert "'explode' is not a verb" in capsys.readouterr().err


def test_exit_codes_are_the_documented_ones() -> None:
    codes = (analysis.VALID, analysis.INVALID, analysis.UNKNOWN, analysis.USAGE, analysis.CRASH)
    assert codes == (0, 1, 2, 254, 255)
