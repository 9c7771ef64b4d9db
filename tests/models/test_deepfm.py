# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from models.deepfm import DeepFM, DeepFMConfig
from models.fm import FM, FMConfig
from tests.models.against_reference import assert_equals_reference, parts
from tests.models.examples import WITHOUT_HISTORIES, make, random_batch, randomise, reference_layers
from tests.reference.deepfm import deepfm_logit


@pytest.mark.parametrize("numeric_input", ["fields", "dense", "none"])
def test_deepfm_equals_the_reference(numeric_input, float64):
    model = make("deepfm", embedding_dim=3, hidden_units=(5, 2), numeric_input=numeric_input)
    randomise(model)
    batch = random_batch(4)

    def reference(index):
        row = parts(model, batch, index)
        return deepfm_logit(row.linear, row.vectors, row.numbers, reference_layers(model.mlp))

    assert_equals_reference(model, batch, reference)


def test_with_an_mlp_of_zeros_deepfm_is_fm():
    deepfm = DeepFM(WITHOUT_HISTORIES, DeepFMConfig(embedding_dim=3, hidden_units=(4,)))
    fm = FM(WITHOUT_HISTORIES, FMConfig(embedding_dim=3))
    batch = random_batch(6)
    for model in (deepfm, fm):
        model.build_from(batch)
    randomise(fm)
    deepfm.embeddings.packed.assign(fm.embeddings.packed)
    deepfm.fields.rows.numeric_rows.assign(fm.fields.rows.numeric_rows)
    deepfm.fields.bias.assign(fm.fields.bias)
    for variable in deepfm.mlp.trainable_variables:
        variable.assign(np.zeros(variable.shape))
    np.testing.assert_allclose(deepfm(batch), fm(batch), rtol=1e-5, atol=1e-5)


def test_dense_numbers_have_a_weight_each():
    model = make("deepfm", numeric_input="dense")
    assert model.fields.weights_of_numbers.shape == (2,)
    assert not model.fields.rows.weights
    with pytest.raises(ValueError, match=r"deepfm has no field: .* make numbers fields"):
        DeepFM(WITHOUT_HISTORIES.select(("price",)), DeepFMConfig(numeric_input="dense"))
