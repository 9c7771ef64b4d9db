# SPDX-License-Identifier: Apache-2.0
"""Planted tasks: what they hold, and that the models they name learn them and others do not."""

import json
import re
from itertools import combinations
from pathlib import Path

import keras
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
import typer
from pydantic import ValidationError
from sklearn.metrics import log_loss, roc_auc_score

from features.schema import Categorical, FeatureSchema, Table
from models.optimizers import RowAdam
from models.registry import build, entry
from pipeline import planted_fields
from pipeline.checks import validate_file
from pipeline.cli import app
from pipeline.errors import ConfigError
from pipeline.planted import TASKS, generate_log
from pipeline.planted_task import write_task
from pipeline.train_step import TrainStep
from pipeline.trained_model import count_parameters

FIELD_TASKS = ("pairs", "field_aware", "few_pairs")
every_task = pytest.mark.parametrize("name", TASKS)
field_task = pytest.mark.parametrize("name", FIELD_TASKS)


def small(name: str, **options):
    return TASKS[name](impressions=2_000, **options)


def tables(task) -> tuple[pa.Table, pa.Table]:
    events, truth = (pa.concat_tables(part) for part in zip(*task.blocks(), strict=True))
    return events, truth


def codes(task, events: pa.Table) -> np.ndarray:
    """Numbers of the values, (rows, fields)."""
    texts = [events[name].to_pylist() for name in task.field_names]
    return np.array([[int(text[1:]) for text in column] for column in texts]).T


class Trained:
    """A model after a few epochs on the first rows of a log, judged on the last quarter.

    Attributes:
        way: Share of the way from AUC 0.5 to that of the true probabilities.
    """

    def __init__(self, task, kind: str, epochs: int, learning_rate: float = 0.01, **options):
        keras.utils.set_random_seed(0)
        events, truth = tables(task)
        self.ids, self.clicks = codes(task, events), events["click"].to_numpy()
        self.names = task.field_names
        tables_ = tuple(Table(name=name, rows=task.values + 3) for name in self.names)
        features = tuple(Categorical(name=name, table=name) for name in self.names)
        rows = RowAdam(learning_rate)
        self.model = build(
            kind,
            FeatureSchema(tables=tables_, features=features),
            entry(kind).config(**options),
            rows.slot_values,
        )
        train, test = np.split(np.arange(len(self.ids)), [len(self.ids) * 3 // 4])
        self.model.build_from(self.batch(train[:2]))
        step = TrainStep(self.model, rows, keras.optimizers.Adam(learning_rate))
        orders = [np.random.default_rng(epoch).permutation(train) for epoch in range(epochs)]
        for number, start in enumerate(range(0, epochs * len(train) - 511, 512), 1):
            step(self.batch(np.concatenate(orders)[start : start + 512]), number)
        self.test = self.batch(test)
        scores = self.model(self.test).numpy()
        best = roc_auc_score(self.clicks[test], truth["probability"].to_numpy()[test])
        self.way = (roc_auc_score(self.clicks[test], scores) - 0.5) / (best - 0.5)

    def batch(self, rows: np.ndarray) -> dict[str, tf.Tensor]:
        ids = {name: self.ids[rows, i] + 3 for i, name in enumerate(self.names)}
        batch = {name: tf.constant(column, tf.int32) for name, column in ids.items()}
        labels = tf.constant(self.clicks[rows], tf.int32)
        return batch | {"label": labels, "weight": tf.ones(len(rows))}


@every_task
@pytest.mark.parametrize("event_format", ["csv", "csv.gz", "jsonl", "parquet"])
def test_same_seed_gives_the_same_bytes_and_another_seed_others(tmp_path, name, event_format):
    for task, folder in [(small(name), "a"), (small(name), "b"), (small(name, seed=8), "c")]:
        write_task(task, tmp_path / folder, event_format)
    for file in (f"events.{event_format}", "truth.parquet", "truth.json"):
        one, two, other = ((tmp_path / folder / file).read_bytes() for folder in "abc")
        assert one == two
        assert one != other


@every_task
def test_result_is_what_scikit_learn_computes_from_the_files(tmp_path, name):
    result = write_task(small(name), tmp_path, "parquet")
    events = pq.read_table(tmp_path / result.events)
    truth = pq.read_table(tmp_path / "truth.parquet")
    assert events["impression_id"].equals(truth["impression_id"])
    clicks, probability = events["click"].to_numpy(), truth["probability"].to_numpy()
    impressions = truth["probability"].is_valid()
    clicks, probability = clicks[impressions], probability[impressions]
    assert result.impressions == len(clicks) == 2_000
    assert result.best_auc == roc_auc_score(clicks, probability)
    assert result.best_log_loss == log_loss(clicks, probability)
    written = json.loads((tmp_path / "truth.json").read_text(encoding="utf-8"))
    assert written["task"] == name
    assert written["config"]["impressions"] == 2_000


@field_task
def test_log_does_not_change_the_factors(name):
    longer = TASKS[name](impressions=3_000)
    short, long = small(name).factors_of_pairs(), longer.factors_of_pairs()
    for pair, (a, b) in short.items():
        np.testing.assert_array_equal(a, long[pair][0])
        np.testing.assert_array_equal(b, long[pair][1])


@field_task
def test_clicks_follow_the_documented_equation(name):
    task = TASKS[name](impressions=30_000)
    events, truth = tables(task)
    values, probability = codes(task, events), truth["probability"].to_numpy()
    logits = np.zeros(len(values))
    for (i, j), (a, b) in task.factors_of_pairs().items():
        logits += [a[x] @ b[y] for x, y in values[:, [i, j]]]
    np.testing.assert_allclose(probability, 1 / (1 + np.exp(-logits)), rtol=1e-9)
    for rows in np.array_split(np.argsort(probability), 20):
        error = np.sqrt(np.sum(probability[rows] * (1 - probability[rows]))) / len(rows)
        assert abs(events["click"].to_numpy()[rows].mean() - probability[rows].mean()) < 4 * error


@field_task
def test_a_value_alone_tells_nothing_and_the_logit_has_the_strength_that_was_asked_for(name):
    """Over all combinations of two fields' values: means are 0, variances of pairs add up."""
    task = TASKS[name](strength=1.5)
    variance = 0.0
    for a, b in task.factors_of_pairs().values():
        products = a @ b.T
        np.testing.assert_allclose(products.mean(axis=0), 0, atol=1e-12)
        np.testing.assert_allclose(products.mean(axis=1), 0, atol=1e-12)
        variance += np.mean(products**2)
    assert np.sqrt(variance) == pytest.approx(1.5)


def test_pairs_give_a_value_one_vector_and_field_aware_one_for_each_field():
    for name, alike in [("pairs", True), ("field_aware", False)]:
        factors = TASKS[name]().factors_of_pairs()
        assert set(factors) == set(combinations(range(TASKS[name]().fields), 2))
        assert np.array_equal(factors[0, 1][0], factors[0, 2][0]) is alike
        assert np.array_equal(factors[0, 1][1], factors[1, 2][0]) is alike


def test_few_pairs_share_no_field_and_matter_alike():
    task = TASKS["few_pairs"]()
    factors = task.factors_of_pairs()
    assert len({field for pair in factors for field in pair}) == 2 * len(factors) == 6
    variances = [np.mean((a @ b.T) ** 2) for a, b in factors.values()]
    np.testing.assert_allclose(variances, task.strength**2 / 3)
    named = [[f"field_{i + 1}", f"field_{j + 1}"] for i, j in factors]
    assert task.planted() == {"pairs": named}


def test_ids_ascend_across_blocks(monkeypatch):
    monkeypatch.setattr(planted_fields, "BLOCK_ROWS", 300)
    blocks = [events for events, _ in TASKS["pairs"](impressions=1_000).blocks()]
    assert [len(block) for block in blocks] == [300, 300, 300, 100]
    ids = pa.concat_tables(blocks)["impression_id"].to_numpy()
    np.testing.assert_array_equal(ids, np.arange(1_000))


@pytest.mark.parametrize("options", [{"pairs": 5}, {"fields": 5}], ids=str)
def test_pairs_that_do_not_fit_are_refused(options):
    with pytest.raises(ValidationError, match=r"pairs that share no field need \d+ fields"):
        TASKS["few_pairs"](**options)


def test_fm_learns_pairs_and_lr_does_not():
    task = TASKS["pairs"]()
    assert Trained(task, "fm", epochs=3, embedding_dim=8).way > 0.9
    assert abs(Trained(task, "lr", epochs=2).way) < 0.06  # of AUC: 0.02


def test_ffm_learns_field_aware_and_fm_with_as_many_weights_does_not():
    task = TASKS["field_aware"]()
    ffm = Trained(task, "ffm", epochs=4, embedding_dim=2, initial_stddev=0.1)
    fm = Trained(task, "fm", epochs=4, embedding_dim=12, initial_stddev=0.1)
    assert count_parameters(ffm.model) == count_parameters(fm.model)
    assert ffm.way > 0.9
    assert fm.way < 0.8


@pytest.mark.parametrize("seed", [7, pytest.param(8, marks=pytest.mark.slow)])
def test_the_largest_weights_of_afm_are_the_few_pairs(seed):
    task = TASKS["few_pairs"](seed=seed)
    afm = Trained(task, "afm", 2, 0.02, embedding_dim=8, initial_stddev=0.1)
    assert afm.way > 0.8
    weights = afm.model.pair_weights(afm.test).numpy().mean(axis=0)
    names = afm.model.field_names
    by_weight = sorted(combinations(range(len(names)), 2), key=lambda pair: -weights[pair])
    found = [[names[i], names[j]] for i, j in by_weight[:3]]
    assert sorted(found) == task.planted()["pairs"]
    assert weights[by_weight[2]] > 2 * weights[by_weight[3]]


@every_task
def test_the_config_beside_the_log_fits_it(tmp_path, name):
    generate_log(tmp_path, name, 500)
    problems, notes = validate_file(tmp_path / "config.yaml")
    # a task may declare a history for its learner and another for its foil
    assert not [*problems, *(note for note in notes if "model.features leaves it out" not in note)]
    foil = f"model={TASKS[name].foil}"
    assert foil in (tmp_path / "config.yaml").read_text(encoding="utf-8")
    assert not validate_file(tmp_path / "config.yaml", [foil])[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"impressions": -5}, "--impressions -5: expected a whole number of at least 1"),
        ({"seed": -1}, "--seed -1: expected a whole number of at least 0"),
        ({"task": "pair"}, "--task pair: no such task: did you mean 'pairs'?"),
        (
            {"task": "zzz"},
            "--task zzz: no such task: expected one of clicks, drift, few_pairs, field_aware",
        ),
        ({"file_format": "xml"}, "event format is 'xml'; expected one of csv, csv.gz"),
    ],
    ids=str,
)
@pytest.mark.parametrize("task", ["clicks", "pairs"])
def test_what_cannot_be_generated_is_said_plainly(tmp_path, task, options, message):
    with pytest.raises(ConfigError) as caught:
        generate_log(tmp_path / "absent", **({"task": task} | options))
    assert str(caught.value).startswith(message)
    assert not (tmp_path / "absent").exists()


def test_the_help_names_every_task():
    help_ = {option.name: option for option in typer.main.get_command(app).commands["synth"].params}
    named = re.findall(r"\w+", help_["task"].help.partition(":")[2].replace(" or ", " "))
    assert named == ["clicks", *TASKS]


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="file: cannot be written to: File exists"):
        generate_log(tmp_path / "file", "pairs", 10)


def test_fewest_impressions_make_a_log(tmp_path):
    for task in ("clicks", *TASKS):
        assert generate_log(tmp_path, task, 1)["best_auc"] is None
