# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import tensorflow as tf

from features.schema import Categorical, CategoricalList, FeatureSchema, Numeric, Table
from models.ffm import FFM, FFMConfig
from models.fm import FM, FMConfig
from tests.models.against_reference import assert_equals_reference, field_rows
from tests.models.examples import SCHEMA, WITHOUT_HISTORIES, make, random_batch, randomise
from tests.reference.ffm import ffm_logit

NUMBERS = FeatureSchema(tables=(), features=tuple(Numeric(name=name) for name in "abc"))
ROWS = [  # v towards a | v towards b | v towards c | w
    [9.0, 9.0, 1.0, 2.0, 0.5, 1.0, 0.2],
    [3.0, -1.0, 9.0, 9.0, 2.0, 0.0, 0.3],
    [1.0, 1.0, -1.0, 4.0, 9.0, 9.0, -0.4],
]
BATCH = {"a": tf.constant([1.0]), "b": tf.constant([2.0]), "c": tf.constant([0.5])}


def by_numbers(**options):
    model = FFM(NUMBERS, FFMConfig(embedding_dim=2, **options))
    model.bias.assign(0.1)
    model.fields.numeric_rows.assign(ROWS)
    return model


def test_ffm_to_the_digit():
    # linear: 0.1 + 0.2·1 + 0.3·2 - 0.4·0.5 = 0.7
    # a, b: <(1, 2), (3, -1)>·1·2 = 2;  a, c: <(0.5, 1), (1, 1)>·1·0.5 = 0.75
    # b, c: <(2, 0), (-1, 4)>·2·0.5 = -2
    np.testing.assert_allclose(by_numbers()(BATCH), [0.7 + 2 + 0.75 - 2], rtol=1e-6)


def test_scaling_divides_the_pairs_and_not_the_linear_part():
    logit = by_numbers(scale_instances=True)(BATCH)
    np.testing.assert_allclose(logit, [0.7 + 0.75 / (1 + 4 + 0.25)], rtol=1e-6)


def test_scaling_a_row_of_zeros_gives_its_bias():
    zeros = {name: tf.constant([0.0]) for name in BATCH}
    np.testing.assert_allclose(by_numbers(scale_instances=True)(zeros), [0.1], rtol=1e-6)


@pytest.mark.parametrize("list_pooling", ["sum", "mean"])
def test_items_of_a_list_count_in_the_scale_by_what_they_weigh(list_pooling):
    model = make("ffm", list_pooling=list_pooling)
    batch = {
        "user": tf.constant([5, 5]),
        "item": tf.constant([5, 5]),
        "category": tf.constant([5, 5]),
        "tags": tf.constant([[3, 4, 0], [0, 0, 0]]),
        "tags_length": tf.constant([2, 0]),
        "topics": tf.constant([[3, 4, 5, 0], [0, 0, 0, 0]]),
        "topics_length": tf.constant([2, 0]),
        "topics_weight": tf.constant([[0.5, 1.5, 7.0, 0.0], [0.0] * 4]),
        "price": tf.constant([3.0, 0.0]),
        "age": tf.constant([0.0, -2.0]),
    }
    lists = [2.0, 2.5] if list_pooling == "sum" else [0.5, 2.5 / 4]
    expected = [[1, 1, 1, *lists, 9, 0], [1, 1, 1, 0, 0, 0, 4]]
    np.testing.assert_allclose(model.fields.squared_values(batch, tf.float32), expected)


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("list_pooling", ["sum", "mean"])
def test_ffm_equals_the_reference(list_pooling, scale, float64):
    model = make("ffm", embedding_dim=3, list_pooling=list_pooling, scale_instances=scale)
    randomise(model)
    batch = random_batch(5)

    def reference(row):
        values, rows = field_rows(model, model.fields, batch, row, list_pooling)
        vectors = rows[:, :-1].reshape(len(values), len(values), 3)
        squares = model.fields.squared_values(batch, tf.float64).numpy()[row] if scale else None
        return ffm_logit(float(model.bias), rows[:, -1], vectors, values, squares)

    assert_equals_reference(model, batch, reference)


@pytest.mark.parametrize("numeric_input", ["dense", "none"])
def test_numbers_that_are_no_fields_form_no_pairs(numeric_input):
    model = make("ffm", numeric_input=numeric_input)
    randomise(model)
    batch = random_batch(4)
    logits = model(batch)
    model.bias.assign(0.0)
    without = model(batch | {"price": tf.zeros(4), "age": tf.zeros(4)})
    if numeric_input == "none":
        np.testing.assert_array_equal(model(batch), without)
    else:
        numbers = np.stack([batch["price"], batch["age"]], axis=1)
        linear = numbers @ model.dense_weights.numpy()[:, 0]
        np.testing.assert_allclose(model(batch), without + linear, rtol=1e-4, atol=1e-5)
    assert not np.allclose(logits, without)


def test_with_equal_vectors_for_all_fields_ffm_is_fm():
    ffm = FFM(WITHOUT_HISTORIES, FFMConfig(embedding_dim=3))
    fm = FM(WITHOUT_HISTORIES, FMConfig(embedding_dim=3))
    batch = random_batch(6)
    for model in (ffm, fm):
        model.build_from(batch)
    randomise(fm)

    def repeated(rows):
        return np.concatenate([np.tile(rows[:, :-1], 7), rows[:, -1:]], axis=1)

    ffm.bias.assign(fm.fields.bias)
    ffm.embeddings.packed.assign(repeated(fm.embeddings.packed.numpy()))
    ffm.fields.numeric_rows.assign(repeated(fm.fields.rows.numeric_rows.numpy()))
    np.testing.assert_allclose(ffm(batch), fm(batch), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("numeric_input", ["fields", "none"])
@pytest.mark.parametrize("dim", [2, 40])  # 40: rows wide enough for the product of matrices
def test_fields_that_share_a_table_train_as_they_score(numeric_input, dim):
    tables = (Table(name="url", rows=9), Table(name="site", rows=7))
    fields = [("from", "url"), ("site", "site"), ("to", "url"), ("via", "url")]
    schema = FeatureSchema(
        tables=tables,
        features=(
            *(Categorical(name=name, table=table) for name, table in fields),
            CategoricalList(name="seen", table="site", max_items=3),
            Numeric(name="x"),
            Numeric(name="y"),
        ),
    )
    model = FFM(schema, FFMConfig(embedding_dim=dim, numeric_input=numeric_input))
    randomise(model)
    random = np.random.default_rng(0)
    batch = {name: tf.constant(random.integers(0, 7, 12), tf.int32) for name, _ in fields}
    batch["seen"] = tf.constant(random.integers(0, 7, (12, 3)), tf.int32)
    batch["seen_length"] = tf.constant(random.integers(0, 4, 12), tf.int32)
    batch |= {name: tf.constant(random.normal(size=12), tf.float32) for name in "xy"}
    tables, factors = model.embeddings, tf.range(12.0)
    ids, places = tf.unique(tables.row_ids(batch))
    rows, embedded = tables.gather(ids), tables(batch)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch((rows, embedded))
        taken = model.take(model.prepare(rows, ids), tables.by_column(places, batch))
        logits, expected = (
            model.logits(given, batch, training=True) for given in (taken, embedded)
        )
        ours, theirs = tf.reduce_sum(factors * logits), tf.reduce_sum(factors * expected)
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-4)
    by_row = np.zeros(rows.shape, np.float32)
    slopes = tape.gradient(theirs, embedded)
    for key, column in tables.by_column(places, batch).items():
        np.add.at(by_row, column.numpy(), slopes[key].numpy())
    np.testing.assert_allclose(tape.gradient(ours, rows), by_row, rtol=1e-4, atol=1e-3)


def test_a_row_holds_a_vector_for_every_field_and_a_weight():
    model = make("ffm", embedding_dim=4)
    assert model.embeddings.width == 7 * 4 + 1
    assert model.fields.names == ("user", "item", "category", "tags", "topics", "price", "age")


def test_histories_are_refused_in_plain_words():
    with pytest.raises(ValueError, match="ffm takes no history feature: `clicks`; leave it out"):
        FFM(SCHEMA, FFMConfig())
