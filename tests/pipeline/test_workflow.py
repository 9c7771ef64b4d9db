import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from pipeline.errors import ConfigError
from pipeline.workflow import run
from tests.conftest import SMALL_CONFIG, Silent, write_config


def test_run_is_importable_from_the_package_again_and_again():
    script = (
        "from pipeline import run as first\n"
        "import pipeline.workflow\n"
        "from pipeline import run\n"
        "import pipeline\n"
        "assert first is run is pipeline.run is pipeline.workflow.run, pipeline.run\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "place", [{"date": "../../x"}, {"date": "tomorrow"}, {"run_id": "../x"}, {"run_id": "."}]
)
def test_a_run_cannot_leave_its_folder(place, tmp_path):
    with pytest.raises(ConfigError, match="expected"):
        run(tmp_path / "c.yaml", tmp_path, **place)
    assert list(tmp_path.iterdir()) == []


def test_the_written_config_keeps_the_order_of_features(small_run):
    _, result, _ = small_run
    with open(f"{result['run_dir']}/config.yaml", encoding="utf-8") as file:
        written = YAML(typ="safe").load(file)
    given = YAML(typ="safe").load(small_run[0].read_text(encoding="utf-8"))
    assert list(written["features"]) == list(given["features"])
    assert set(written["features"]) == set(SMALL_CONFIG["features"])


def test_folders_that_take_no_files_are_refused_before_any_work(small_log, tmp_path):
    file = tmp_path / "file"
    file.touch()
    config = write_config(tmp_path / "c.yaml", {"data.files": str(small_log)})
    with pytest.raises(ConfigError, match=r"--runs: .*file/small: cannot be written to"):
        run(config, file, progress=Silent())
    directory = f"export.directory={file}/models"
    with pytest.raises(ConfigError, match=r"export.directory: .*file/models: cannot be written to"):
        run(config, tmp_path / "runs", [directory], progress=Silent())
    assert not list(tmp_path.glob("runs/*/*/dataset"))


@pytest.mark.parametrize(
    ("report", "message"),
    [
        (None, "report.json: No such file or directory; expected the folder of a finished run"),
        ('{"metrics": {"te', "no report of a finished run; run it again"),
        ("[]", "no report of a finished run"),
        ('{"metrics": {"test": {}}}', "no report of a finished run"),
    ],
)
def test_a_run_to_compare_with_that_is_none_is_refused_before_any_work(
    report, message, small_log, tmp_path
):
    other = tmp_path / "other"
    if report is not None:
        other.mkdir()
        (other / "report.json").write_text(report)
    config = write_config(tmp_path / "c.yaml", {"data.files": str(small_log)})
    with pytest.raises(ConfigError, match=rf"--compare .*other: .*{message}"):
        run(config, tmp_path / "runs", compare=[other], progress=Silent())
    assert not (tmp_path / "runs").exists()


def test_the_report_shows_the_runs_to_compare_with_beside_its_own(small_run, tmp_path):
    config, result, _ = small_run
    finished = Path(result["run_dir"])
    first = json.loads((finished / "report.json").read_text(encoding="utf-8"))
    folder = shutil.copytree(finished, tmp_path / "runs" / "small" / "main")
    run(config, tmp_path / "runs", compare=[finished], until="evaluate", progress=Silent())
    shown = json.loads((folder / "report.json").read_text(encoding="utf-8"))["comparison"]
    assert [row["run"] for row in shown] == ["small/main", "small/main"]
    assert [row["auc"] for row in shown] == [first["metrics"]["test"]["auc"]] * 2
