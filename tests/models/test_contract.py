# SPDX-License-Identifier: Apache-2.0
"""What every model of the registry owes its callers."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from models.registry import MODELS, build, check, entry
from tests.models import examples
from tests.models.examples import (
    SCHEMA,
    joined,
    padded,
    random_batch,
    randomise,
    rows_of,
    unknown,
)

pytestmark = pytest.mark.parametrize("kind", MODELS)
CLOSE = {"rtol": 1e-5, "atol": 1e-6}


def make(kind, **options):
    """A small model of that kind, where it has such options; a contract holds at any size.

    The same one for the same arguments, with the weights that it was born with: building takes most
    of the time of a test.
    """
    dtype = keras.config.dtype_policy().name
    return restored(kind, tuple(options.items()), dtype)


def small(kind, **options):
    """A new model of that kind."""
    narrow = {
        "hidden_units": (16, 8),
        "second_hidden_units": (12, 8),
        "gate_hidden_units": (6,),
        "num_heads": 2,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "num_hops": 2,
        "num_episodes": 2,
    }
    fields = entry(kind).config.model_fields
    narrow = {name: value for name, value in narrow.items() if name in fields}
    if kind == "autoint":
        del narrow["hidden_units"]  # none by default, which is another model
    return examples.make(kind, **(narrow | options))


@functools.cache
def born(kind, options, dtype):
    """A model and the values of all its variables; `dtype` is what layers made now compute in."""
    model = small(kind, **dict(options))
    variables = [*model.variables, model.embeddings.packed]
    return model, [(variable, variable.numpy()) for variable in variables]


def restored(*arguments):
    model, values = born(*arguments)
    for variable, value in values:
        variable.assign(value)
    return model


def log_loss(model, embedded, batch, labels, training=True):
    logits = model.logits(embedded, batch, training=training)
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels, logits))


def gradients(model, batch, labels, training=True):
    """Gradients by weight name and by id column."""
    embedded = model.embeddings(batch)
    variables = {variable.path: variable.value for variable in model.trainable_variables}
    with tf.GradientTape() as tape:
        tape.watch(embedded)
        loss = log_loss(model, embedded, batch, labels, training)
    by_column, by_weight = tape.gradient(loss, (embedded, variables))
    return by_column, by_weight


def labels_of(rows, dtype=tf.float32):
    return tf.cast(tf.range(rows) % 2, dtype)


def fit(model, batch, labels, steps, learning_rate=0.03):
    """Plain Adam on all weights, tables included; returns the last loss."""
    packed = model.embeddings.packed
    optimizer = keras.optimizers.Adam(learning_rate)
    optimizer.build([*model.trainable_variables, packed])

    def step():
        variables = [variable.value for variable in (*model.trainable_variables, packed)]
        with tf.GradientTape() as tape:
            tape.watch(variables)
            loss = log_loss(model, model.embeddings(batch), batch, labels)
        slopes = [tf.convert_to_tensor(slope) for slope in tape.gradient(loss, variables)]
        slopes[-1] *= tf.cast(~model.embeddings.is_padding(tf.range(packed.shape[0])), tf.float32)[
            :, tf.newaxis
        ]
        optimizer.apply(slopes, [*model.trainable_variables, packed])
        return loss

    run = tf.function(step) if steps > 20 else step  # a graph takes longer to make than to run
    for _ in range(steps):
        loss = run()
    return loss


def test_logits_are_one_finite_number_per_row(kind):
    logits = make(kind)(random_batch(13))
    assert logits.shape == (13,)
    assert logits.dtype == tf.float32
    assert np.isfinite(logits).all()


@pytest.mark.parametrize("longest", [1, 50])
def test_rows_without_history_and_with_unknown_ids_work(kind, longest):
    # SEQ-06
    model = make(kind)
    empty = unknown(random_batch(4, longest=longest, lengths=0))
    mixed = joined(empty, random_batch(4, longest=longest))
    np.testing.assert_allclose(model(empty), model(padded(empty, 49)), **CLOSE)
    for batch in (empty, mixed):
        rows = batch["user"].shape[0]
        for slope in tf.nest.flatten(gradients(model, batch, labels_of(rows))):
            assert np.isfinite(slope).all()
        fit(model, batch, labels_of(rows), steps=1)
        assert np.isfinite(model(batch)).all()


def test_half_precision_is_finite_and_near_full(kind, half_precision):
    model = make(kind)
    batch = joined(random_batch(4, lengths=0), random_batch(4))
    for slope in tf.nest.flatten(gradients(model, batch, labels_of(8))):
        assert np.isfinite(slope).all()
    logits = model(batch)
    assert logits.dtype == tf.float32
    keras.config.set_dtype_policy("float32")
    full = make(kind)
    for ours, theirs in zip(full.weights, model.weights, strict=True):
        ours.assign(theirs)
    np.testing.assert_allclose(logits, full(batch), atol=5e-3)  # half has 11 bits


def test_every_weight_and_every_looked_up_row_gets_a_gradient(kind):
    model = make(kind)
    randomise(model)
    batch = random_batch(16, lengths=5)
    by_column, by_weight = gradients(model, batch, labels_of(16))
    for name, slope in by_weight.items():
        assert np.any(slope), name
    for key, slope in by_column.items():
        real = np.asarray(batch[key]) > 0
        assert np.any(slope, axis=-1)[real].all(), key


@pytest.mark.parametrize("training", [False, True])
def test_gradients_agree_with_finite_differences(kind, training, float64):
    model = make(kind)
    randomise(model)
    batch = random_batch(7)
    labels = labels_of(7, tf.float64)
    embedded = {key: rows + 0.0 for key, rows in model.embeddings(batch).items()}
    by_column, by_weight = gradients(model, batch, labels, training)
    loss = tf.function(lambda rows: log_loss(model, rows, batch, labels, training), autograph=False)
    random = np.random.default_rng(0)
    step = 1e-6
    for key, slope in by_column.items():
        way = random.normal(size=slope.shape)
        plus, minus = (loss(embedded | {key: embedded[key] + s * way}) for s in (step, -step))
        expected = (plus - minus) / (2 * step)
        np.testing.assert_allclose(tf.reduce_sum(slope * way), expected, rtol=1e-5, atol=1e-8)
    for variable in model.trainable_variables:
        before = variable.numpy()
        way = random.normal(size=before.shape)
        losses = []
        for sign in (step, -step):
            variable.assign(before + sign * way)
            losses.append(loss(embedded))
        variable.assign(before)
        slope = np.sum(by_weight[variable.path] * way)
        expected = (losses[0] - losses[1]) / (2 * step)
        np.testing.assert_allclose(slope, expected, rtol=1e-5, atol=1e-8, err_msg=variable.path)


def test_distinct_rows_give_the_logits_and_gradients_of_all_rows(kind):
    model = make(kind)
    randomise(model)
    batch, labels = random_batch(16), labels_of(16)
    tables = model.embeddings
    ids, places = tf.unique(tables.row_ids(batch))
    rows = tables.gather(ids)[:, : tables.width]
    by_column, by_weight = gradients(model, batch, labels, training=False)
    expected = np.zeros(rows.shape)
    for key, column in tables.by_column(places, batch).items():
        np.add.at(expected, column.numpy(), by_column[key].numpy())
    variables = {variable.path: variable.value for variable in model.trainable_variables}
    with tf.GradientTape() as tape:
        tape.watch(rows)
        prepared = model.prepare(rows, tables.table_of(ids))
        embedded = model.take(prepared, tables.by_column(places, batch))
        loss = log_loss(model, embedded, batch, labels, training=False)
    np.testing.assert_allclose(loss, log_loss(model, tables(batch), batch, labels, False), **CLOSE)
    by_row, others = tape.gradient(loss, (rows, variables))
    np.testing.assert_allclose(by_row, expected, rtol=1e-4, atol=1e-5)  # sums in another order
    for name, slope in others.items():
        np.testing.assert_allclose(slope, by_weight[name], rtol=1e-4, atol=1e-5, err_msg=name)


def test_longer_padding_changes_nothing(kind):
    # SEQ-01
    model = make(kind)
    randomise(model)
    batch = random_batch(9)
    np.testing.assert_allclose(model(padded(batch)), model(batch), **CLOSE)
    # nor in training, where padding could enter batch statistics
    embedded, wider = model.embeddings(batch), model.embeddings(padded(batch))
    keras.utils.set_random_seed(0)
    expected = model.logits(embedded, batch, training=True)
    logits = model.logits(wider, padded(batch), training=True)
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-4)  # logits reach 80 here


def test_a_score_does_not_depend_on_its_neighbours(kind):
    # TRN-03
    model = make(kind)
    fit(model, random_batch(32), labels_of(32), steps=5)
    row = random_batch(1, lengths=2)
    extreme = random_batch(255, lengths=5)
    extreme |= {"price": tf.fill([255], 1e6), "age": tf.fill([255], -1e6)}
    alone = float(model(row)[0])
    copies = model(rows_of(row, [0] * 256))
    # 1e-6 of a score, which moves by at most a quarter of its logit; large ones: a few last places
    close = {"rel": 5e-7, "abs": 4e-6}
    assert list(copies.numpy()) == pytest.approx([alone] * 256, **close)
    for place in (0, 255):
        others = [rows_of(extreme, range(place)), row, rows_of(extreme, range(place, 255))]
        assert float(model(joined(*others))[place]) == pytest.approx(alone, **close)


def test_dropout_is_off_in_inference(kind):
    if "dropout_rate" not in entry(kind).config.model_fields:
        pytest.skip("has no dropout")
    model = make(kind, dropout_rate=0.5)
    batch = random_batch(8)
    np.testing.assert_array_equal(model(batch), model(batch))
    first, second = (model.logits(model.embeddings(batch), batch, training=True) for _ in range(2))
    assert not np.allclose(first, second)


def test_compiled_step_equals_plain_one(kind):
    model = make(kind)
    randomise(model)
    batch, labels = random_batch(6), labels_of(6)
    embedded = model.embeddings(batch)

    def step(embedded, batch):
        with tf.GradientTape() as tape:
            tape.watch(embedded)
            loss = log_loss(model, embedded, batch, labels)
        return loss, tape.gradient(loss, embedded)

    compiled = tf.function(step, jit_compile=True)(embedded, batch)
    plain = step(embedded, batch)
    for ours, theirs in zip(tf.nest.flatten(compiled), tf.nest.flatten(plain), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)  # sums in another order


# Keras 3.15 reads a TensorFlow variable into NumPy 2.4 by the old protocol
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
def test_saved_weights_come_back(kind, tmp_path):
    model, other = make(kind, seed=1), make(kind, seed=2)
    fit(model, random_batch(8), labels_of(8), steps=1)
    model.save_weights(tmp_path / "model.weights.h5")
    other.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_array_equal(other(random_batch(8)), model(random_batch(8)))


def test_saved_model_equals_the_live_one_at_another_batch_size(kind, tmp_path):
    model = make(kind)
    randomise(model)
    batch = random_batch(3)
    signature = {
        key: tf.TensorSpec([None] * value.shape.rank, value.dtype, name=key)
        for key, value in batch.items()
    }
    module = tf.Module()
    module.weights = [variable.value for variable in model.variables]
    module.score = tf.function(model.__call__, input_signature=[signature])
    tf.saved_model.save(module, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    for rows in (1, 8):
        batch = random_batch(rows, longest=6)
        np.testing.assert_allclose(loaded.score(batch), model(batch), **CLOSE)


def test_same_seed_gives_the_same_numbers(kind):
    def trained(seed):
        model = small(kind, seed=seed)
        fit(model, random_batch(8), labels_of(8), steps=2)
        return [variable.numpy() for variable in model.weights]

    for first, second in zip(trained(7), trained(7), strict=True):
        np.testing.assert_array_equal(first, second)


def test_learns_32_rows_by_heart(kind):
    model = make(kind)
    batch = random_batch(32) | {"user": tf.range(1, 33)}
    assert fit(model, batch, labels_of(32), steps=150, learning_rate=0.05) < 0.05


def test_config_survives_json_and_refuses_other_keys(kind):
    config = entry(kind).config
    assert config.model_validate_json(config().model_dump_json()) == config()
    with pytest.raises(ValueError, match="colour"):
        config(colour="red")
    for name, field in config.model_fields.items():
        assert field.description, name


def test_model_uses_the_features_that_its_config_names(kind):
    names = tuple(feature.name for feature in make(kind).schema.features if feature.name != "user")
    model = build(kind, SCHEMA, entry(kind).config(features=names))
    assert tuple(feature.name for feature in model.schema.features) == names
    assert "user" not in {table.name for table in model.embeddings.tables}


def test_a_model_without_features_is_refused(kind):
    with pytest.raises(ValueError, match=r"has no field|there is no feature|there is none"):
        build(kind, SCHEMA, entry(kind).config(features=()))


def test_constructor_refuses_what_check_lists(kind):
    problems = check(kind, SCHEMA, entry(kind).config(features=("item", "nonsense")))
    assert problems == [
        "`features:` names `nonsense`, which is not declared; declared are user, item, category, "
        "tags, topics, price, age, clicks, buys"
    ]
    for schema in (SCHEMA, SCHEMA.select(("user", "clicks"))):
        config = entry(kind).config()
        if problems := check(kind, schema, config):
            with pytest.raises(ValueError, match="`clicks`") as caught:
                build(kind, schema, config)
            assert str(caught.value) == "; ".join(problems)
