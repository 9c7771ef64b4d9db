"""Data sets that come divided: which file trains, validates and tests."""

import re

import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError
from ruamel.yaml import YAML

from pipeline import run
from pipeline.checks import validate_file
from pipeline.config import FilesSplit
from pipeline.errors import InputRejected
from tests.conftest import Silent

PARTS = {"train": range(100), "valid": range(100, 130), "test": range(130, 170)}


@pytest.fixture
def make(tmp_path):
    """Return a function that writes the parts as files, and a config that reads them."""

    def make_config(split, names=None, file_format="csv", **data):
        names = names or {part: f"{part}.{file_format}" for part in PARTS}
        for part, numbers in PARTS.items():
            path = tmp_path / "data" / names[part]
            path.parent.mkdir(exist_ok=True)
            if file_format == "csv":
                lines = ["id,a,label", *(f"{i},{i % 7},{i % 2}" for i in numbers)]
            else:
                lines = [f"{i % 2} {i}:1 {i % 7}:1" for i in numbers]
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        document = {
            "name": "x",
            "data": {"files": [str(tmp_path / "data" / name) for name in names.values()], **data},
            "label": "label",
            "keys": "id",
            "split": {"kind": "files", **split},
            "features": {"a": {"kind": "categorical"}},
            "model": "fm",
            "export": {"parity_rows": 20},
        }
        config = tmp_path / "config.yaml"
        YAML(typ="safe", pure=True).dump(document, config)
        return config

    return make_config


def ids(config):
    """Ingest; return the ids of each part's rows."""
    result = run(config, config.parent / "runs", until="ingest", progress=Silent())
    dataset = config.parent / "runs" / "x" / "main" / "dataset"
    found = {part: pq.read_table(dataset / part)["key:id"].to_pylist() for part in PARTS}
    return result, {part: sorted(map(int, texts)) for part, texts in found.items()}


BY_NAME = {"train": "train.*", "valid": "valid.*", "test": "test.*"}


@pytest.mark.parametrize("file_format", ["csv", "libfm"])
def test_files_are_the_parts(make, file_format):
    fields = {"fields": ["id", "a"]} if file_format == "libfm" else {}
    config = make(BY_NAME, file_format=file_format, **fields)
    assert validate_file(config)[0] == []
    assert ids(config)[1] == {part: list(numbers) for part, numbers in PARTS.items()}


def test_rows_of_the_training_files_may_validate(make):
    split = {"train": ["train.*", "valid.*"], "test": "test.*", "valid_share": 0.2}
    _, found = ids(make(split))
    assert found["test"] == list(PARTS["test"])
    assert sorted(found["train"] + found["valid"]) == list(range(130))
    assert 10 < len(found["valid"]) < 45
    assert ids(make(split))[1] == found


def test_patterns_mean_names_or_the_ends_of_paths(make, tmp_path, monkeypatch):
    monkeypatch.setenv("WHERE", str(tmp_path))
    split = {"train": "${WHERE}/data/train.csv", "valid": "data/v*.csv", "test": "test.csv"}
    assert ids(make(split))[1] == {part: list(numbers) for part, numbers in PARTS.items()}


def test_other_parts_or_other_names_build_the_data_set_anew(make, tmp_path):
    ids(make(BY_NAME))
    swapped = {"train": "train.*", "valid": "test.*", "test": "valid.*"}
    assert ids(make(swapped))[1]["test"] == list(PARTS["valid"])
    # the same contents in the same order under names that say other parts
    renamed = {"train": "1.csv", "valid": "2.csv", "test": "3.csv"}
    files = make({"train": "1*", "valid": "2*", "test": "3*"}, renamed)
    assert ids(files)[1]["test"] == list(PARTS["test"])
    again = {"train": "1.csv", "valid": "3.csv", "test": "4.csv"}
    files = make({"train": "1*", "valid": ["4*"], "test": "3*"}, again)
    assert ids(files)[1]["test"] == list(PARTS["valid"])


@pytest.mark.parametrize(
    ("split", "message"),
    [
        (
            BY_NAME | {"valid": "v*.tsv"},
            r"split.valid: 'v\*.tsv' means none of the data's files: t",
        ),
        (BY_NAME | {"valid": "v*.tsv"}, r"valid.csv: is in no part of the split by files"),
        (BY_NAME | {"train": "t*"}, r"test.csv: is in several parts: train, test"),
    ],
)
def test_files_in_no_part_or_several_are_refused_when_validated_and_when_run(make, split, message):
    config = make(split)
    problems, _ = validate_file(config)
    assert any(re.search(message, problem) for problem in problems)
    assert all("split: " in problem for problem in problems)
    with pytest.raises(InputRejected, match=message):
        ids(config)


@pytest.mark.parametrize("more", [{}, {"valid": ["b"], "valid_share": 0.1}])
def test_validation_is_either_files_or_a_share(more):
    with pytest.raises(ValidationError, match="give either valid, the files for"):
        FilesSplit.model_validate({"kind": "files", "train": ["a"], "test": ["c"], **more})
