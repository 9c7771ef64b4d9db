import subprocess
import sys


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
