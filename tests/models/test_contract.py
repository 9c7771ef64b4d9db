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
ONE_HISTORY = tuple(feature.name for feature in SCHEMA.features if feature.name != "buys")


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
    config = entry(kind).config
    if kind not in ("base", "din") and not check(kind, SCHEMA, config()):
        narrow["features"] = ONE_HISTORY  # a second one doubles what takes the longest
    fields = config.model_fields
    narrow = {name: value for name, value in narrow.items() if name in fields}
    if kind == "autoint":
        del narrow["hidden_units"]  # none by default, which is another model
    return examples.make(kind, **(narrow | options))


@functools.cache
def born(kind, options, dtype):
    """A model and the values of all its variables; `dtype` is what layers made now compute in."""
    model = small(kind, **dict(options))
    return model, [(variable, variable.numpy()) for variable in model.variables]


def restored(*arguments):
    model, values = born(*arguments)
    for variable, value in values:
        variable.assign(value)
    return model


@functools.cache
def scorer(model):
    """The model as one graph for batches of any size, whose loops are fast."""
    signature = {
        key: tf.TensorSpec([None] * value.shape.rank, value.dtype)
        for key, value in random_batch(1).items()
    }
    return tf.function(model.__call__, input_signature=[signature], autograph=False)


def log_loss(model, embedded, batch, labels, training=True):
    logits = model.logits(embedded, batch, training=training)
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels, logits))


def labels_of(batch):
    """0, 1, 0, 1 and so on, in the precision of layers made now."""
    return tf.cast(tf.range(batch["user"].shape[0]) % 2, keras.config.floatx())


def gradients(model, batch, training=True):
    """Gradients by id column and by weight name."""
    embedded = model.embeddings(batch)
    variables = {variable.path: variable.value for variable in model.trainable_variables}
    with tf.GradientTape() as tape:
        tape.watch(embedded)
        loss = log_loss(model, embedded, batch, labels_of(batch), training)
    return tape.gradient(loss, (embedded, variables))


def slopes_of(model, batch):
    """Loss and gradients of all weights in training, the tables last; none of padding."""
    packed = model.embeddings.packed
    values = [variable.value for variable in (*model.trainable_variables, packed)]
    with tf.GradientTape() as tape:
        tape.watch(values)
        loss = log_loss(model, model.embeddings(batch), batch, labels_of(batch))
    slopes = [tf.convert_to_tensor(slope) for slope in tape.gradient(loss, values)]
    padding = model.embeddings.is_padding(tf.range(packed.shape[0]))
    return loss, [*slopes[:-1], tf.where(padding[:, tf.newaxis], 0.0, slopes[-1])]


@functools.cache
def slopes_graph(model):
    """`slopes_of` as a graph, which takes as long to make as tens of steps without."""
    return tf.function(lambda batch: slopes_of(model, batch), autograph=False)


def fit(model, batch, steps, learning_rate=0.03, enough=0.0):
    """Plain Adam on all weights, tables included; returns the last loss and its gradients.

    Ends before all steps when the loss is small `enough`.
    """
    variables = [*model.trainable_variables, model.embeddings.packed]
    moments = [np.zeros((2, *variable.shape)) for variable in variables]
    compute = slopes_graph(model) if steps > 2 else functools.partial(slopes_of, model)
    for step in range(1, steps + 1):
        loss, slopes = compute(batch)
        if loss < enough:
            break
        size = learning_rate * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
        for variable, slope, moment in zip(variables, slopes, moments, strict=True):
            moment[0] += 0.1 * (slope - moment[0])
            moment[1] += 0.001 * (np.square(slope) - moment[1])
            variable.assign_sub(size * moment[0] / (np.sqrt(moment[1]) + 1e-7))
    return loss, slopes


def test_logits_are_one_finite_number_per_row(kind):
    logits = make(kind)(random_batch(13))
    assert logits.shape == (13,)
    assert logits.dtype == tf.float32
    assert np.isfinite(logits).all()


@pytest.mark.parametrize("longest", [1, 50])
def test_rows_without_history_and_with_unknown_ids_work(kind, longest):
    # SEQ-06
    model = make(kind)
    score = scorer(model)
    empty = unknown(random_batch(4, longest=longest, lengths=0))
    mixed = joined(empty, random_batch(4, longest=longest))
    np.testing.assert_allclose(score(empty), score(padded(empty, 49)), **CLOSE)
    for batch in (empty, mixed):
        for slope in tf.nest.flatten((gradients(model, batch), fit(model, batch, steps=1))):
            assert np.isfinite(slope).all()
        assert np.isfinite(score(batch)).all()


@pytest.mark.parametrize("shapes", ["eager", "known", "free"])
def test_histories_of_width_0_are_empty_histories(kind, shapes):
    model = make(kind)
    empty = random_batch(4, lengths=0)
    narrow = dict(empty)
    for history in model.schema.histories:
        for channel in history.channels:
            narrow[channel.name] = empty[channel.name][:, :0]
    known = tf.function(model.__call__, autograph=False)
    score = {"eager": model, "known": known, "free": scorer(model)}[shapes]
    np.testing.assert_allclose(score(narrow), score(empty), **CLOSE)


def test_half_precision_is_finite_and_near_full(kind, half_precision):
    model = make(kind)
    batch = joined(random_batch(4, lengths=0), random_batch(4))
    for slope in tf.nest.flatten(gradients(model, batch)):
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
    by_column, by_weight = gradients(model, batch)
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
    labels = labels_of(batch)
    embedded = {key: rows + 0.0 for key, rows in model.embeddings(batch).items()}
    by_column, by_weight = gradients(model, batch, training)
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
    batch = random_batch(16)
    labels = labels_of(batch)
    tables = model.embeddings
    ids, places = tf.unique(tables.row_ids(batch))
    rows = tables.gather(ids)[:, : tables.width]
    by_column, by_weight = gradients(model, batch, training=False)
    expected = np.zeros(rows.shape)
    for key, column in tables.by_column(places, batch).items():
        np.add.at(expected, column.numpy(), by_column[key].numpy())
    variables = {variable.path: variable.value for variable in model.trainable_variables}
    with tf.GradientTape() as tape:
        tape.watch(rows)
        prepared = model.prepare(rows, ids)
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
    score = scorer(model)
    np.testing.assert_allclose(score(padded(batch)), score(batch), **CLOSE)
    # nor in training, where padding could enter batch statistics
    embedded, wider = model.embeddings(batch), model.embeddings(padded(batch))
    keras.utils.set_random_seed(0)
    expected = model.logits(embedded, batch, training=True)
    logits = model.logits(wider, padded(batch), training=True)
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-4)  # logits reach 80 here


def test_a_score_does_not_depend_on_its_neighbours(kind):
    # TRN-03
    model = make(kind)
    fit(model, random_batch(32), steps=5)
    score = scorer(model)
    row = random_batch(1, lengths=2)
    extreme = random_batch(255, lengths=5)
    extreme |= {"price": tf.fill([255], 1e6), "age": tf.fill([255], -1e6)}
    alone = float(score(row)[0])
    copies = score(rows_of(row, [0] * 256))
    # 1e-6 of a score, which moves by at most a quarter of its logit; large ones: a few last places
    close = {"rel": 5e-7, "abs": 4e-6}
    assert list(copies.numpy()) == pytest.approx([alone] * 256, **close)
    for place in (0, 255):
        others = [rows_of(extreme, range(place)), row, rows_of(extreme, range(place, 255))]
        assert float(score(joined(*others))[place]) == pytest.approx(alone, **close)


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
    batch = random_batch(6)
    labels = labels_of(batch)
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
    model, other = make(kind), make(kind, seed=2)
    fit(model, random_batch(8), steps=1)
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
    def trained():
        model = make(kind)
        before = [variable.numpy() for variable in model.weights]
        fit(model, random_batch(8), steps=2)
        return before, [variable.numpy() for variable in model.weights]

    before, after = trained()
    for first, second in zip(before, small(kind).weights, strict=True):
        np.testing.assert_array_equal(first, second)
    for first, second in zip(after, trained()[1], strict=True):
        np.testing.assert_array_equal(first, second)


def test_learns_32_rows_by_heart(kind):
    model = make(kind)
    batch = random_batch(32) | {"user": tf.range(1, 33)}
    loss, _ = fit(model, batch, steps=150, learning_rate=0.05, enough=0.05)
    assert loss < 0.05


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
        build(kind, SCHEMA.select(()), entry(kind).config())
    with pytest.raises(ValueError, match="at least 1 item"):
        entry(kind).config(features=())


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
