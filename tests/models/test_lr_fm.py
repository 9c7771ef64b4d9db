# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import tensorflow as tf

from features.schema import Categorical, CategoricalList, FeatureSchema, Numeric, Table
from models.fm import FM, FMConfig
from models.lr import LR, LRConfig
from tests.models.against_reference import field_rows
from tests.models.examples import SCHEMA, make, random_batch, randomise
from tests.reference.fm import fm_logit
from tests.reference.lr import lr_logit

# The worked example: w_0 = 0.1 and two features of values 1 and 2
ROWS = [[1.0, 2.0, 0.2], [3.0, -1.0, 0.3]]  # v | w
NUMBERS = FeatureSchema(tables=(), features=(Numeric(name="a"), Numeric(name="b")))
IDS = FeatureSchema(
    tables=(Table(name="a", rows=4), Table(name="b", rows=4)),
    features=(
        Categorical(name="a", table="a"),
        CategoricalList(name="b", table="b", max_items=2, weighted=True),
    ),
)


def by_numbers(rows=ROWS, schema=NUMBERS, **options):
    model = FM(schema, FMConfig(embedding_dim=2, **options))
    model.fields.bias.assign(0.1)
    model.fields.rows.numeric_rows.assign(rows)
    return model


def by_ids():
    model = FM(IDS, FMConfig(embedding_dim=2))
    model.fields.bias.assign(0.1)
    packed = np.zeros((8, 3), np.float32)
    packed[[3, 4 + 3]] = ROWS
    model.embeddings.packed.assign(packed)
    return model


BATCH_OF_NUMBERS = {"a": tf.constant([1.0]), "b": tf.constant([2.0])}
BATCH_OF_IDS = {
    "a": tf.constant([3]),
    "b": tf.constant([[3, 0]]),
    "b_weight": tf.constant([[2.0, 0.0]]),
    "b_length": tf.constant([1]),
}


@pytest.mark.parametrize(
    ("model", "batch"), [(by_numbers, BATCH_OF_NUMBERS), (by_ids, BATCH_OF_IDS)]
)
def test_fm_to_the_digit(model, batch):
    # TRN-04: 0.1 + 0.2·1 + 0.3·2 + <(1, 2), (3, -1)>·1·2
    logit = model()(batch)
    np.testing.assert_allclose(logit, [2.9], rtol=1e-6)
    np.testing.assert_allclose(tf.sigmoid(logit), [0.947846], atol=5e-7)


def test_a_single_feature_has_no_pair_term():
    model = by_numbers(ROWS[:1], NUMBERS.select(("a",)))
    np.testing.assert_allclose(model({"a": tf.constant([1.0])}), [0.3], rtol=1e-6)


def test_weights_written_as_text_give_the_same_logit():
    model = by_numbers()
    text = [[f"{weight:.9g}" for weight in row] for row in model.fields.rows.numeric_rows.numpy()]
    rows = np.array(text, dtype=float)
    expected = fm_logit(float(model.fields.bias), rows[:, 2], rows[:, :2], np.array([1.0, 2.0]))
    np.testing.assert_allclose(model(BATCH_OF_NUMBERS), [expected], rtol=1e-6)


def test_numbers_stay_out_when_asked():
    model = FM(IDS.select(("a",)), FMConfig(numeric_input="none"))
    assert [weight.name for weight in model.fields.weights] == ["bias"]
    with pytest.raises(ValueError, match="fm has no field"):
        FM(NUMBERS, FMConfig(numeric_input="none"))


@pytest.mark.parametrize(("model", "config"), [(LR, LRConfig), (FM, FMConfig)])
def test_models_of_fields_refuse_histories_in_plain_words(model, config):
    assert model.problems(IDS, config()) == []
    kind = model.__name__.lower()
    with pytest.raises(
        ValueError, match=f"{kind} takes no history feature: `clicks`; leave it out"
    ):
        model(SCHEMA, config())


@pytest.mark.parametrize("list_pooling", ["sum", "mean", "max"])
def test_fm_equals_the_reference(list_pooling):
    model = make("fm", embedding_dim=3, list_pooling=list_pooling)
    randomise(model)
    batch = random_batch(11)
    expected = []
    for row in range(11):
        values, rows = field_rows(model, model.fields.rows, batch, row, list_pooling)
        expected.append(fm_logit(float(model.fields.bias), rows[:, 3], rows[:, :3], values))
    np.testing.assert_allclose(model(batch), expected, rtol=1e-5, atol=1e-5)


def test_lr_equals_the_reference():
    model = make("lr")
    randomise(model)
    batch = random_batch(11)
    expected = []
    for row in range(11):
        values, rows = field_rows(model, model.fields, batch, row, "sum")
        expected.append(lr_logit(float(model.bias), rows[:, 0], values))
    np.testing.assert_allclose(model(batch), expected, rtol=1e-5, atol=1e-6)
