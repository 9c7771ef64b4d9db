import keras
import numpy as np
import pytest
import tensorflow as tf

from features.schema import Categorical, CategoricalList, FeatureSchema, Numeric, Table
from models.lr import LR, LRConfig
from models.optimizers import RowAdam
from models.registry import MODELS, build
from pipeline.train_step import TrainStep, stacked, weighted_log_loss
from tests.reference.optimizers import lazy_adam

SCHEMA = FeatureSchema(
    tables=(Table(name="a", rows=6), Table(name="b", rows=5)),
    features=(
        Categorical(name="a", table="a"),
        Categorical(name="b", table="b"),
        Numeric(name="x"),
    ),
)


def batch_of(a, b, x, label, weight=None):
    weight = np.ones(len(a)) if weight is None else weight
    return {
        "a": np.array(a, np.int32),
        "b": np.array(b, np.int32),
        "x": np.array(x, np.float32),
        "label": np.array(label, np.int8),
        "weight": np.array(weight, np.float32),
    }


class Sgd:
    """Row optimiser w - g, which shows the gradient that reaches a row."""

    slot_values = ()

    def update(self, rows, gradients, step, rate_factor):
        del step, rate_factor
        return rows - gradients


def linear_model(slots=()):
    model = LR(SCHEMA, LRConfig(), slots)
    model.build_from(batch_of([2], [2], [0.0], [0]))
    return model


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


@pytest.mark.parametrize("xla", [False, True])
def test_steps_of_logistic_regression_equal_numpy(xla):
    model = linear_model(RowAdam().slot_values)
    step = TrainStep(model, RowAdam(0.1), keras.optimizers.SGD(0.5), xla=xla)
    batches = [
        batch_of([2, 2, 3], [4, 3, 4], [1.0, -2.0, 0.5], [1, 0, 1], [1, 2, 0.5]),
        batch_of([2, 0, 5], [1, 3, 3], [0.0, 1.0, 1.0], [0, 1, 1]),
    ]
    # 11 stacked rows: table a at 0, table b at 6
    weights, numeric, bias = np.zeros(11), 0.0, 0.0
    steps, losses = [], []
    for batch in batches:
        rows = np.stack([batch["a"], batch["b"] + 6])
        z = weights[rows].sum(0) + numeric * batch["x"] + bias
        y, w = batch["label"], batch["weight"]
        losses.append(
            -(w * (y * np.log(sigmoid(z)) + (1 - y) * np.log(1 - sigmoid(z)))).sum() / w.sum()
        )
        error = w * (sigmoid(z) - y) / w.sum()
        gradients = {}
        for i in range(len(y)):
            for row in rows[:, i]:
                if row not in (0, 6):  # padding
                    gradients[row] = gradients.get(row, 0.0) + error[i]
        steps.append({row: np.array([g]) for row, g in gradients.items()})
        numeric -= 0.5 * (error * batch["x"]).sum()
        bias -= 0.5 * error.sum()
        weights = lazy_adam(np.zeros((11, 1)), steps, rate=0.1)[0][:, 0]
    found = [float(step(batch, i + 1)) for i, batch in enumerate(batches)]
    np.testing.assert_allclose(found, losses, rtol=1e-5)
    np.testing.assert_allclose(model.embeddings.packed.numpy()[:, 0], weights, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(float(model.bias), bias, rtol=1e-5)


def test_rows_outside_the_batch_keep_every_bit_of_weights_and_slots():
    # OPT-01
    model = build("fm", SCHEMA, MODELS["fm"].config(embedding_dim=3), RowAdam().slot_values)
    model.build_from(batch_of([2], [2], [0.0], [0]))
    step = TrainStep(model, RowAdam(0.1), keras.optimizers.Adam(0.1), xla=False)
    for i in range(3):
        step(batch_of([2, 3, 4, 5], [1, 2, 3, 4], [1, 2, 3, 4], [0, 1, 0, 1]), i + 1)
    before = model.embeddings.packed.numpy()
    step(batch_of([2, 2], [3, 3], [1, 1], [1, 0]), 4)
    after = model.embeddings.packed.numpy()
    touched = [2, 6 + 3]
    others = [row for row in range(11) if row not in touched]
    np.testing.assert_array_equal(after[others], before[others])
    assert (after[touched] != before[touched]).any(axis=1).all()


def test_padding_rows_stay_zero():
    model = linear_model(RowAdam().slot_values)
    step = TrainStep(model, RowAdam(0.1), keras.optimizers.Adam(0.1), xla=False)
    step(batch_of([0, 2], [0, 0], [1, 1], [1, 0]), 1)
    packed = model.embeddings.packed.numpy()
    np.testing.assert_array_equal(packed[[0, 6]], 0)
    assert packed[2, 0] != 0


@pytest.mark.parametrize("kind", ["lr", "fm", "ffm"])
@pytest.mark.parametrize("features", [("x", "y"), ("tags", "x")])
@pytest.mark.parametrize("clip_norm", [None, 1.0])
def test_a_model_without_categorical_fields_trains(kind, features, clip_norm):
    schema = FeatureSchema(
        tables=(Table(name="tag", rows=6),),
        features=(
            CategoricalList(name="tags", table="tag", max_items=2),
            Numeric(name="x"),
            Numeric(name="y"),
        ),
    ).select(features)
    batch = batch_of([0] * 4, [0] * 4, [1, 2, -1, -2], [1, 1, 0, 0])
    batch |= {
        "y": batch["x"] ** 2,
        "tags": np.array([[2, 3], [3, 0], [4, 5], [5, 4]], np.int32),
        "tags_length": np.array([2, 1, 2, 2], np.int32),
    }
    model = build(kind, schema, MODELS[kind].config(), RowAdam().slot_values)
    model.build_from(batch)
    step = TrainStep(model, RowAdam(0.1), keras.optimizers.Adam(0.1), clip_norm=clip_norm)
    losses = [float(step(batch, i + 1)) for i in range(20)]
    assert losses[-1] < losses[0] / 2


def forced_gradients(step, by_column, dense):
    """Replace the dense part by given gradients, so that clipping can be seen alone."""
    columns = {key: tf.constant(value, tf.float32) for key, value in by_column.items()}
    step._gradients = lambda embedded, batch: (tf.constant(0.0), columns, dense)


def two_dim_model():
    schema = FeatureSchema(
        tables=(Table(name="a", rows=12),), features=(Categorical(name="a", table="a"),)
    )
    model = build("deepfm", schema, MODELS["deepfm"].config(embedding_dim=1, hidden_units=(1,)))
    model.build_from(batch_of([5], [0], [0], [0]))
    model.embeddings.packed.assign(np.zeros((12, 2), np.float32))
    return model


def clipped_rows(gradients, ids, clip_norm, dense=None):
    model = two_dim_model()
    step = TrainStep(model, Sgd(), keras.optimizers.SGD(1.0), clip_norm=clip_norm, xla=False)
    zeros = [tf.zeros_like(v.value) for v in model.trainable_variables]
    if dense is not None:
        zeros[0] = zeros[0] + dense
    forced_gradients(step, {"a": gradients}, zeros)
    batch = batch_of(ids, [0] * len(ids), [0] * len(ids), [0] * len(ids))
    step({k: v for k, v in batch.items() if k in ("a", "label", "weight")}, 1)
    return -model.embeddings.packed.numpy()


def test_global_norm_clips_rows_together():
    # OPT-03
    rows = clipped_rows([[3.0, 0.0], [0.0, 4.0]], [5, 9], clip_norm=1.0)
    np.testing.assert_allclose(rows[[5, 9]], [[0.6, 0.0], [0.0, 0.8]], rtol=1e-6)


def test_global_norm_is_of_summed_rows():
    # OPT-03, its second part
    # +3 and -3 for one id sum to 0; the norm of the pieces, 4.24, must not be used
    rows = clipped_rows([[3.0, 0.0], [-3.0, 0.0], [0.5, 0.0]], [5, 5, 9], clip_norm=1.0)
    np.testing.assert_allclose(rows[[5, 9]], [[0.0, 0.0], [0.5, 0.0]], rtol=1e-6)


def test_dense_weights_join_the_global_norm():
    rows = clipped_rows([[3.0, 0.0]], [5], clip_norm=1.0, dense=4.0)
    np.testing.assert_allclose(rows[5], [3 / 5, 0.0], rtol=1e-6)


def test_l2_pulls_each_distinct_row_of_its_table_once():
    model = linear_model()
    model.embeddings.packed.assign(np.full((11, 1), 2.0, np.float32))
    penalties = {"a": 0.1, "b": 0.3}
    step = TrainStep(model, Sgd(), keras.optimizers.SGD(0.0), table_l2=penalties, xla=False)
    step(batch_of([2, 2, 2], [3, 3, 3], [0, 0, 0], [0, 1, 0], [0, 0, 0]), 1)  # weight 0: no loss
    found = model.embeddings.packed.numpy()[:, 0]
    np.testing.assert_allclose(found[[2, 9]], [1.8, 1.4], rtol=1e-6)
    np.testing.assert_array_equal(np.delete(found, [2, 9]), 2.0)


def test_l2_by_row_is_that_of_the_row():
    model = linear_model()
    model.embeddings.packed.assign(np.full((11, 1), 2.0, np.float32))
    counts = np.array([1, 1, 4, 5, 2, 1])
    step = TrainStep(model, Sgd(), keras.optimizers.SGD(0.0), {"a": 0.8 / counts, "b": 0.3})
    step(batch_of([2, 2, 3], [3, 3, 3], [0, 0, 0], [0, 1, 0], [0, 0, 0]), 1)
    found = model.embeddings.packed.numpy()[:, 0]
    np.testing.assert_allclose(found[[2, 3, 9]], [2 - 0.4, 2 - 0.32, 2 - 0.6], rtol=1e-6)
    np.testing.assert_array_equal(np.delete(found, [2, 3, 9]), 2.0)


def test_loss_is_the_weighted_mean():
    loss = weighted_log_loss(
        tf.constant([1.0, 0.0]), tf.constant([0.0, 2.0]), tf.constant([3.0, 1.0])
    )
    expected = (3 * np.log(2) + np.log(1 + np.exp(2))) / 4
    assert float(loss) == pytest.approx(expected, rel=1e-6)


def test_columns_go_over_together_and_stay_what_they_are():
    batch = {
        "user": np.array([1, 2], np.int32),
        "price": np.array([0.5, np.nan], np.float32),
        "clicks": np.array([[3, 4], [5, 0]], np.int32),
        "clicks_places": np.array([0, 1, 2], np.int32),
        "item": np.array([7, 8], np.int32),
    }
    stacks = stacked(batch)
    assert [*stacks] == [("user", "item"), ("price",), ("clicks",), ("clicks_places",)]
    for names, stack in stacks.items():
        for name, array in zip(names, stack, strict=True):
            assert array.dtype == batch[name].dtype
            np.testing.assert_array_equal(array, batch[name])


def test_no_step_reads_the_whole_table():
    """A dense read copies all rows, so that a step's cost would grow with the table."""
    # OPT-01
    model = build("fm", SCHEMA, MODELS["fm"].config(embedding_dim=3), RowAdam().slot_values)
    batch = batch_of([2, 3], [1, 2], [1, 2], [0, 1])
    model.build_from(batch)
    step = TrainStep(model, RowAdam(), keras.optimizers.Adam(0.1), xla=False)
    one = tf.constant(1.0)
    graph = step._step.get_concrete_function(stacked(batch), one, one).graph
    packed = next(
        inner for outer, inner in graph.captures if outer is model.embeddings.packed.value.handle
    )
    readers = {
        op.type for op in graph.get_operations() if any(packed is given for given in op.inputs)
    }
    assert readers == {"ResourceGather", "ResourceScatterUpdate"}
