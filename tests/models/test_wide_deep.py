# SPDX-License-Identifier: Apache-2.0
import pytest

from models.wide_deep import WideDeep, WideDeepConfig
from tests.models.against_reference import assert_equals_reference, parts
from tests.models.examples import WITHOUT_HISTORIES, make, random_batch, randomise, reference_layers
from tests.reference.wide_deep import wide_deep_logit


@pytest.mark.parametrize("numeric_input", ["fields", "dense", "none"])
def test_wide_deep_equals_the_reference(numeric_input, float64):
    model = make("wide_deep", embedding_dim=3, hidden_units=(5,), numeric_input=numeric_input)
    randomise(model)
    batch = random_batch(4)

    def reference(index):
        row = parts(model, batch, index)
        return wide_deep_logit(row.linear, row.vectors, row.numbers, reference_layers(model.mlp))

    assert_equals_reference(model, batch, reference)


def test_dense_numbers_alone_are_enough():
    model = WideDeep(WITHOUT_HISTORIES.select(("price", "age")), WideDeepConfig())
    assert model(random_batch(3)).shape == (3,)
