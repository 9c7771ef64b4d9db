"""What the command line says before it has worked."""

import subprocess
import sys

import pytest

from pipeline.runs import locked
from tests.end_to_end.command_line import CLI, clickloom

pytestmark = pytest.mark.end_to_end


def test_help_answers_without_tensorflow():
    code, out, _ = clickloom("--help")
    assert code == 0
    assert "predict" in out
    script = "import sys; from pipeline.cli import app; print('tensorflow' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


def test_a_config_with_problems_ends_with_code_2_and_a_missing_file_with_3(config, tmp_path):
    text = config.read_text().replace("embedding_dim", "embeding_dim")
    broken = tmp_path / "broken.yaml"
    broken.write_text(text)
    code, out, err = clickloom("run", broken, "--runs", tmp_path / "runs")
    assert code == 2
    assert "did you mean 'embedding_dim'" in err
    assert out == ""
    assert not (tmp_path / "runs").exists()
    code, _, err = clickloom(
        "run", config, "--runs", tmp_path / "runs", "--set", "data.files=no.csv"
    )
    assert code == 3
    assert "no.csv: no such file" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("arguments", [["bogus"], ["run"], ["run", "a.yaml", "--nope"], ["synth"]])
def test_a_wrong_command_line_ends_with_code_2(arguments):
    code, out, err = clickloom(*arguments)
    assert code == 2
    assert out == ""
    assert "bug" not in err
    assert "Traceback" not in err


def test_a_run_whose_name_another_process_has_ends_with_code_75(config, tmp_path):
    with locked(tmp_path / "runs" / "small"):
        code, _, err = clickloom("run", config, "--runs", tmp_path / "runs")
    assert code == 75
    assert "held by process" in err


@pytest.mark.parametrize("closed", ["2>&-", "0<&- 1>&- 2>&-"])
def test_a_job_whose_streams_are_closed_does_its_work(closed):
    """SIGTERM's thread and the import of TensorFlow both look after stderr."""
    command = ["sh", "-c", f'exec "$@" {closed}', "sh", *CLI, "models", "lr"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    assert done.returncode == 0
    assert (b"features: list of text" in done.stdout) == ("1>&-" not in closed)
