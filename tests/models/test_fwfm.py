# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from models.fm import FM, FMConfig
from models.fwfm import FwFM, FwFMConfig
from tests.models.against_reference import assert_equals_reference, parts
from tests.models.examples import WITHOUT_HISTORIES, make, random_batch, randomise
from tests.reference.fwfm import fwfm_pairs


@pytest.mark.parametrize("numeric_input", ["fields", "dense"])
@pytest.mark.parametrize("linear_term", ["field_vectors", "weights"])
def test_fwfm_equals_the_reference(linear_term, numeric_input, float64):
    model = make("fwfm", embedding_dim=3, linear_term=linear_term, numeric_input=numeric_input)
    randomise(model)
    batch = random_batch(4)

    def reference(index):
        row = parts(model, batch, index)
        return row.linear + fwfm_pairs(row.vectors, model.strengths.numpy())

    assert_equals_reference(model, batch, reference)


def test_with_strengths_of_one_fwfm_is_fm():
    fwfm = FwFM(WITHOUT_HISTORIES, FwFMConfig(embedding_dim=3, linear_term="weights"))
    fm = FM(WITHOUT_HISTORIES, FMConfig(embedding_dim=3))
    batch = random_batch(6)
    for model in (fwfm, fm):
        model.build_from(batch)
    randomise(fm)
    fwfm.embeddings.packed.assign(fm.embeddings.packed)
    fwfm.fields.rows.numeric_rows.assign(fm.fields.rows.numeric_rows)
    fwfm.fields.bias.assign(fm.fields.bias)
    np.testing.assert_allclose(fwfm(batch), fm(batch), rtol=1e-5, atol=1e-5)


def test_field_vectors_need_no_weight_per_value():
    assert make("fwfm").embeddings.width == 16
    assert make("fwfm", linear_term="weights").embeddings.width == 17
