# SPDX-License-Identifier: Apache-2.0
import keras
import numpy as np
import pytest
import tensorflow as tf

from features.schema import Categorical, CategoricalList, FeatureSchema, Numeric, Table
from models.afm import AFM, AFMConfig
from models.layers import pair_attention as pair_attention_module
from models.layers import parts as parts_module
from models.layers.pair_attention import PairAttention
from tests.models.against_reference import assert_equals_reference, parts
from tests.models.examples import make, random_batch, randomise, rows_of
from tests.reference.afm import pair_attention
from tests.reference.fm import pair_vector

NUMBERS = FeatureSchema(tables=(), features=tuple(Numeric(name=name) for name in "abc"))
ONES = {name: tf.constant([1.0]) for name in "abc"}


def worked_example(schema=NUMBERS, rows=(1.0, 2.0, 3.0), dropout_rate=0.0):
    """Vectors 1, 2, 3 of one number each, attention weights all zero, output vector 1."""
    config = AFMConfig(embedding_dim=1, attention_units=4, dropout_rate=dropout_rate)
    model = AFM(schema, config)
    model.build_from({name: ONES[name] for name in model.field_names})
    for variable in model.attention_layer.weights:
        variable.assign(tf.zeros_like(variable))
    model.projection.assign([1.0])
    model.fields.rows.numeric_rows.assign([[row, 0.0] for row in rows])
    return model


@pytest.mark.parametrize("copies", [1, 64])
def test_afm_to_the_digit(copies):
    # TRN-06: (1·2 + 1·3 + 2·3) / 3: a soft-max over pairs, whatever the number of rows
    batch = rows_of(ONES, [0] * copies)
    np.testing.assert_allclose(worked_example()(batch), [11 / 3] * copies, rtol=1e-6)
    thirds = [[0, 1 / 3, 1 / 3], [0, 0, 1 / 3], [0, 0, 0]]
    attention = worked_example().pair_weights(batch)
    np.testing.assert_allclose(attention, [thirds] * copies, rtol=1e-6)


def test_a_row_with_one_field_gives_no_pair_and_no_nan():
    alone = worked_example(NUMBERS.select(("a",)), rows=[5.0])
    np.testing.assert_array_equal(alone({"a": tf.constant([1.0])}), [0.0])
    np.testing.assert_array_equal(alone.pair_weights({"a": tf.constant([1.0])}), [[[0.0]]])
    batch = {"a": [1.0, 1.0, 0.0], "b": [0.0, 2.0, 0.0], "c": [0.0, 0.0, 0.0]}
    batch = {name: tf.constant(numbers) for name, numbers in batch.items()}
    model = worked_example()
    np.testing.assert_allclose(model(batch), [0.0, 4.0, 0.0])  # one pair takes all attention
    values = [variable.value for variable in model.trainable_variables]
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(batch))
    assert all(np.isfinite(slope).all() for slope in tape.gradient(loss, values))


def test_two_runs_from_one_seed_are_identical():
    first, second = (make("afm", seed=3)(random_batch(5)) for _ in range(2))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("numeric_input", ["fields", "dense"])
@pytest.mark.parametrize("drop", [(), ("user",)])  # odd and even numbers of fields
def test_afm_equals_the_reference(drop, numeric_input, float64):
    names = ("user", "item", "category", "tags", "topics", "price", "age")
    features = tuple(name for name in names if name not in drop)
    model = make(
        "afm", embedding_dim=3, attention_units=5, numeric_input=numeric_input, features=features
    )
    randomise(model)
    batch = random_batch(5)
    layer = model.attention_layer

    def reference(index):
        row = parts(model, batch, index)
        weights = [weight.numpy() for weight in (layer.kernel, layer.bias, layer.projection)]
        pooled, _ = pair_attention(row.vectors, *weights)
        return row.linear + np.dot(pooled, model.projection.numpy())

    assert_equals_reference(model, batch, reference)


def test_attention_is_that_of_the_reference():
    model = make("afm", embedding_dim=3)
    randomise(model)
    batch = random_batch(6)
    attention = model.pair_weights(batch).numpy()
    assert attention.shape == (6, 7, 7)
    layer = model.attention_layer
    weights = [weight.numpy() for weight in (layer.kernel, layer.bias, layer.projection)]
    for row in range(6):
        _, expected = pair_attention(parts(model, batch, row).vectors, *weights)
        np.testing.assert_allclose(attention[row], expected, rtol=1e-4, atol=1e-6)
    assert model.field_names == ("user", "item", "category", "tags", "topics", "price", "age")


@pytest.mark.parametrize("fields", [2, 5, 6])
def test_uniform_attention_gives_the_pair_sum_over_the_number_of_pairs(fields):
    vectors = np.random.default_rng(0).normal(size=(3, fields, 4)).astype(np.float32)
    layer = PairAttention(2)
    inputs = tf.unstack(tf.constant(vectors), axis=1)
    layer(inputs, tf.ones((3, fields), tf.bool))
    layer.projection.assign([0.0, 0.0])
    pooled = layer(inputs, tf.ones((3, fields), tf.bool))
    expected = [pair_vector(row) * 2 / (fields * (fields - 1)) for row in vectors]
    np.testing.assert_allclose(pooled, expected, rtol=1e-5, atol=1e-6)


def test_an_empty_list_takes_no_attention():
    schema = FeatureSchema(
        tables=(Table(name="t", rows=9),),
        features=(
            Categorical(name="a", table="t"),
            Categorical(name="b", table="t"),
            CategoricalList(name="c", table="t", max_items=2),
        ),
    )
    model = AFM(schema, AFMConfig(embedding_dim=3))
    batch = {
        "a": tf.constant([3, 3]),
        "b": tf.constant([4, 4]),
        "c": tf.constant([[0, 0], [5, 6]]),
        "c_length": tf.constant([0, 2]),
    }
    model.build_from(batch)
    attention = model.pair_weights(batch).numpy()
    np.testing.assert_allclose(attention[0], [[0, 1, 0], [0, 0, 0], [0, 0, 0]])
    assert (attention[1][np.triu_indices(3, 1)] > 0).all()


def test_rows_in_parts_give_the_same_logits_and_gradients(monkeypatch, float64):
    model = make("afm")
    randomise(model)
    batch = random_batch(48)
    outcomes = []
    for fewest in (8, 100):  # parts of 24 rows, and all rows at once
        monkeypatch.setattr(parts_module, "FEWEST_ROWS", fewest)
        values = [variable.value for variable in model.trainable_variables]
        embedded = model.embeddings(batch)
        with tf.GradientTape() as tape:
            tape.watch(embedded)
            logits = model.logits(embedded, batch, training=False)
            loss = tf.reduce_sum(tf.square(logits))
        outcomes.append((logits, tape.gradient(loss, (values, embedded))))
    for ours, theirs in zip(*map(tf.nest.flatten, outcomes), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


def test_the_penalty_is_on_the_attention_matrix_alone():
    model = make("afm", attention_l2=0.5)
    (penalty,) = model.losses
    kernel = model.attention_layer.kernel.numpy()
    np.testing.assert_allclose(penalty, 0.5 * np.sum(kernel**2), rtol=1e-5)
    assert not make("afm").losses


def test_the_penalty_reaches_the_gradient_in_a_compiled_step():
    model = make("afm", attention_l2=0.5)

    @tf.function(jit_compile=True)
    def slope():
        kernel = model.attention_layer.kernel.value
        with tf.GradientTape() as tape:
            loss = tf.add_n(model.losses)
        return tape.gradient(loss, kernel)

    np.testing.assert_allclose(slope(), model.attention_layer.kernel.numpy(), rtol=1e-6)


def test_coordinates_of_each_pair_are_dropped_in_training():
    keras.utils.set_random_seed(0)
    model = worked_example(dropout_rate=0.5)
    batch = rows_of(ONES, [0] * 512)
    logits = model.logits(model.embeddings(batch), batch, training=True).numpy()
    # each of 1·2, 1·3 and 2·3 is left out or doubled, on its own
    sums = {2 * (a + b + c) for a in (0, 2) for b in (0, 3) for c in (0, 6)}
    np.testing.assert_allclose(np.unique(logits.round(5)), sorted(s / 3 for s in sums), rtol=1e-4)
    assert logits.mean() == pytest.approx(11 / 3, rel=0.1)


@pytest.mark.parametrize("rate", [0.0, 0.4])
def test_gradients_with_dropout_are_those_of_a_tape(rate, float64):
    random = np.random.default_rng(0)
    fields = tf.constant(random.normal(size=(6, 5 * 3)))
    active = tf.constant(random.random((6, 5)) > 0.2)
    weights = [tf.constant(random.normal(size=shape)) for shape in [(3, 4), (4,), (4,)]]
    upstream = tf.constant(random.normal(size=(6, 3)))
    seeds = [tf.constant([[1, 2]] * 6)] if rate else []
    with tf.GradientTape() as tape:
        tape.watch([fields, *weights])
        pooled = pair_attention_module._pool(rate, fields, active, *seeds, *weights)
    expected = tape.gradient(pooled, [fields, *weights], upstream)
    found = pair_attention_module._gradients(rate, fields, active, *seeds, upstream, *weights)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)
