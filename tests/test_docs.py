"""What the documents say is what the code does."""

import re
from pathlib import Path

from pipeline.config_docs import configuration_markdown
from pipeline.config_file import load_config

ROOT = Path(__file__).parent.parent


def test_configuration_is_made_from_the_config_classes():
    written = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert written == configuration_markdown(), "run `make docs`"


def test_the_config_in_the_readme_is_valid(tmp_path):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```yaml\n(.*?)```", text, flags=re.DOTALL)
    assert blocks
    for block in blocks:
        path = tmp_path / "readme.yaml"
        path.write_text(block, encoding="utf-8")
        assert load_config(path).model["kind"] == "din"


def test_links_between_documents_lead_somewhere():
    for document in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text(encoding="utf-8")):
            assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_every_command_in_the_readme_exists():
    from pipeline.cli import app

    known = {info.name or info.callback.__name__ for info in app.registered_commands}
    for document in [ROOT / "README.md", ROOT / "docs" / "scheduling.md"]:
        used = re.findall(r"^clickloom (\w+)", document.read_text(encoding="utf-8"), flags=re.M)
        assert set(used) <= known


def test_targets_named_in_the_documents_are_in_the_makefile():
    made = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.M))
    for document in ("README.md", "CONTRIBUTING.md"):
        for target in re.findall(r"make ([a-z-]+)", (ROOT / document).read_text(encoding="utf-8")):
            assert target in made, f"{document}: make {target}"
