# SPDX-License-Identifier: Apache-2.0
"""Scores are recomputed from nothing but the text that explains them."""

import json
import re
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyarrow import csv
from ruamel.yaml import YAML
from typer.testing import CliRunner

from pipeline.cli import app
from pipeline.errors import ConfigError
from pipeline.workflow import run
from tests.conftest import Silent, copy_stages, write_config

FIELDS = ("category", "city", "hour", "item_id", "price", "price_missing")  # as in the config file
NUMBERS = ("price", "price_missing")
MODELS = {
    "lr": {"features": FIELDS},
    "fm": {"embedding_dim": 4, "features": FIELDS},
    "ffm": {"embedding_dim": 3, "features": FIELDS},
    "afm": {"embedding_dim": 4, "attention_units": 3, "features": FIELDS},
    "fwfm": {"embedding_dim": 4, "linear_term": "weights", "features": FIELDS},
    "deepfm": {"embedding_dim": 4, "hidden_units": [8], "features": FIELDS},
}


@pytest.fixture(scope="module")
def trained(small_log, small_run, tmp_path_factory):
    """The folder of a run of a kind, trained up to the evaluation."""
    folder, made = tmp_path_factory.mktemp("explain"), {}

    def train(kind):
        if kind not in made:
            options = {"kind": kind, **MODELS[kind]}
            options["features"] = list(options["features"])
            config = write_config(folder / f"{kind}.yaml", {
                "data.files": str(small_log), "model": options, "train.epochs": 1,
                "train.learning_rate": 0.05, "name": kind,
            })  # fmt: skip
            copy_stages(small_run[1]["run_dir"], folder, kind, "dataset")
            made[kind] = run(config, folder, until="evaluate", progress=Silent())["run_dir"]
        return made[kind]

    return train


def rows_of(folder, split="test"):
    return pq.read_table(f"{folder}/evaluate/predictions/{split}.parquet")


def explain(folder, row, *arguments):
    result = CliRunner().invoke(app, ["explain", str(folder), "--row", str(row), *arguments])
    if result.exception:
        raise result.exception
    return result.output


class Text:
    """What a reader finds in an explanation: lines, and numbers after names."""

    def __init__(self, text):
        self.lines = [line.strip() for line in text.splitlines()]

    def after(self, start):
        """The rest of the first line that starts so."""
        line = next(line for line in self.lines if line.startswith(start))
        return line.removeprefix(start).strip()

    def numbers(self, start):
        return np.array([float(word) for word in self.after(start).split()])

    def fields(self):
        """x of each field and its row of the tables, as the text has them."""
        numeric = self.layer("numeric_rows")
        x, rows = [], []
        for name in FIELDS:
            if name in NUMBERS:
                x.append(float(self.after(f"{name}: x = ")))
                rows.append(numeric[NUMBERS.index(name)])
            else:
                table, place = re.match(r"(\w+) (\d+) ", self.after(f"{name}: ")).groups()
                x.append(1.0)
                rows.append(self.numbers(f"{table} {place}:"))
        return np.array(x), np.array(rows)

    def layer(self, name):
        """A weight outside the tables in its shape, by a pattern of its name."""
        (line,) = [line for line in self.lines if re.search(rf"{name} \(.*\): [-\d]", line)]
        shape, values = re.search(r"\(([\d×]+)\): (.*)$", line).groups()
        shape = tuple(map(int, shape.split("×")))
        return np.array([float(word) for word in values.split()]).reshape(shape)


def pairs(fields):
    return [(i, j) for i in range(fields) for j in range(i + 1, fields)]


def lr(text, x, rows):
    return 0.0


def fm(text, x, rows):
    v = rows[:, :-1] * x[:, None]
    return sum(v[i] @ v[j] for i, j in pairs(len(x)))


def ffm(text, x, rows):
    v = rows[:, :-1].reshape(len(x), len(x), -1) * x[:, None, None]
    named = re.search(r"pairs with the fields (.*), in this order", " ".join(text.lines))[1]
    place = [named.split(", ").index(field) for field in FIELDS]
    return sum(v[i, place[j]] @ v[j, place[i]] for i, j in pairs(len(x)))


def afm(text, x, rows):
    v = rows[:, :-1] * x[:, None]
    products = np.array([v[i] * v[j] for i, j in pairs(len(x)) if x[i] and x[j]])
    kernel, bias = text.layer("kernel"), text.layer("pair_attention.*/bias")
    scores = np.maximum(products @ kernel + bias, 0) @ text.layer("pair_attention.*/projection")
    shares = np.exp(scores - scores.max())
    shares /= shares.sum()
    return shares @ products @ text.layer("^projection")


def fwfm(text, x, rows):
    v, strengths = rows[:, :-1] * x[:, None], text.layer("strengths")
    return sum(strengths[i, j] * (v[i] @ v[j]) for i, j in pairs(len(x)))


@pytest.mark.parametrize("interactions", [lr, fm, ffm, afm, fwfm])
def test_a_score_can_be_recomputed_from_the_text(interactions, trained):
    folder = trained(interactions.__name__)
    table = rows_of(folder)
    for place in (0, 7):
        row = table["row_id"][place].as_py()
        text = Text(explain(folder, row, "--weights"))
        x, rows = text.fields()
        logit = text.layer("^bias") + rows[:, -1] @ x + interactions(text, x, rows)
        np.testing.assert_allclose(logit, text.numbers("logit "), rtol=2e-6, atol=2e-6)
        np.testing.assert_allclose(text.numbers("sum of terms"), logit, rtol=2e-6, atol=2e-6)
        score = 1 / (1 + np.exp(-logit))
        assert score == pytest.approx(table["score"][place].as_py(), abs=1e-6)
        assert text.numbers("stored score") == pytest.approx(score, abs=1e-6)


def test_terms_are_named_sorted_and_complete(trained):
    folder = trained("afm")
    row = rows_of(folder)["row_id"][3].as_py()
    found = json.loads(explain(folder, row, "--json"))
    assert [term["field"] for term in found["terms"]["linear"]] == list(FIELDS)
    terms = found["terms"]["pairs"]
    assert {frozenset(term["fields"]) for term in terms} == {
        frozenset((FIELDS[i], FIELDS[j])) for i, j in pairs(len(FIELDS))
    }
    sizes = [abs(term["value"]) for term in terms]
    assert sizes == sorted(sizes, reverse=True)
    assert sum(term["attention"] for term in terms) == pytest.approx(1, abs=1e-6)
    for term in terms:
        if term["attention"]:
            assert term["attention"] * term["product"] == pytest.approx(term["value"])
    assert found["sum"] == pytest.approx(found["logit"], abs=1e-6)
    assert "weights" not in found
    assert "is cut into" not in explain(folder, row, "--weights")
    assert found["options"]["list_pooling"] == "sum"  # a default, which a reader has to know
    deep = json.loads(explain(trained("deepfm"), row, "--json"))
    assert list(deep["terms"]) == ["bias", "linear", "pairs", "mlp"]
    assert deep["sum"] == pytest.approx(deep["logit"], abs=1e-6)


def test_values_are_those_of_the_log(small_log, trained):
    folder, log = trained("lr"), csv.read_csv(small_log)
    row = rows_of(folder)["row_id"][5].as_py()
    text = Text(explain(folder, row))
    for name in ("item_id", "category"):
        value = str(log[name][row].as_py())
        assert f"('{value}')" in text.after(f"{name}: ") or "(unknown)" in text.after(f"{name}: ")
    assert text.after("hour: ").endswith(f"({log['time'][row].as_py() // 3600 % 24})")
    assert text.after("label ") == str(log["click"][row].as_py())


def test_events_of_a_history_have_their_weights(small_run):
    _, result, _ = small_run
    table = rows_of(result["run_dir"])
    for row in table["row_id"].to_pylist()[:20]:
        found = json.loads(explain(result["run_dir"], row, "--json"))
        assert list(found["terms"]) == ["mlp"]
        assert found["sum"] == found["logit"]
        if found["histories"]["clicks"]["events"]:
            break
    history = found["histories"]["clicks"]
    assert history["lines"] == ["weight"]
    assert history["events"][0]["items"]["clicks_item_id"]["table"] == "item_id"
    weights = [event["weights"] for event in history["events"]]
    np.testing.assert_allclose(history["sums"], np.sum(weights, axis=0), rtol=1e-6)
    text = explain(result["run_dir"], row)
    assert "events of clicks, oldest first" in text
    assert f"    sum    weight {history['sums'][0]:.9g}" in text
    about = found["history_weights"]
    assert " ".join(f"{about['caption']} {about['note']}".split()) in " ".join(text.split())


def test_names_of_values_are_shown_and_missed_with_a_warning(small_run, tmp_path):
    _, result, _ = small_run
    folder = tmp_path / "run"
    shutil.copytree(result["run_dir"], folder)
    row = rows_of(folder)["row_id"][0].as_py()
    inputs = json.loads(explain(folder, row, "--json"))["inputs"]
    (item,) = next(found["items"] for found in inputs if found["feature"] == "item_id")
    assert "name" not in item
    names = tmp_path / "names.csv"
    names.write_text(f"item_id,title\n{item['value'][1:-1]},\x1b[31m red\n", encoding="utf-8")
    config = YAML().load(folder / "config.yaml")
    config["report"]["names"] = {
        "item_id": {"files": str(names), "key": "item_id", "name": "title"}
    }
    YAML().dump(config, folder / "config.yaml")
    assert f"({item['value']}, '\\x1b[31m red')" in explain(folder, row)
    names.unlink()
    assert f"({item['value']})" in explain(folder, row)


@pytest.mark.parametrize("split", ["test", "valid", "train"])
def test_a_row_is_found_in_whichever_split_has_it(trained, split):
    folder = trained("lr")
    row = pq.read_table(f"{folder}/dataset/{split}", columns=["row_id"])["row_id"][0].as_py()
    found = explain(folder, row)
    assert f"row_id {row} of {split}," in found
    assert explain(folder, row, "--split", split) == found


def test_what_cannot_be_explained_says_why(trained, small_run, tmp_path):
    folder = trained("lr")
    with pytest.raises(ConfigError, match=r"holds no run: there is no config\.yaml") as caught:
        explain(tmp_path, 1)
    assert caught.value.exit_code == 2
    row = rows_of(folder, "valid")["row_id"][0].as_py()
    with pytest.raises(ConfigError, match=f"no row_id {row}; it is in valid: give --split valid"):
        explain(folder, row, "--split", "test")
    ends = {}
    for split in ("test", "valid", "train"):
        ids = pq.read_table(f"{folder}/dataset/{split}", columns=["row_id"])["row_id"].to_pylist()
        ends[split] = f"among {min(ids)} to {max(ids)}"
    searched = ", ".join(f"{split} rows are {rows}" for split, rows in ends.items())
    with pytest.raises(
        ConfigError, match=f"--row 999999: no split of lr/main .* 999999: {searched};"
    ):
        explain(folder, 999_999)
    # no predictions are kept of training rows, which could list them
    theirs = f"no row_id 999999; theirs are {ends['train']}; column row_id of dataset/train lists"
    with pytest.raises(ConfigError, match=theirs):
        explain(folder, 999_999, "--split", "train")
    with pytest.raises(ConfigError, match="--split all: expected one of test, valid, train"):
        explain(folder, 1, "--split", "all")
    half = tmp_path / "half"
    half.mkdir()
    shutil.copy(f"{folder}/config.yaml", half)
    with pytest.raises(
        ConfigError, match="has no trained model, or a damaged one; clickloom run finishes"
    ):
        explain(half, 1)
