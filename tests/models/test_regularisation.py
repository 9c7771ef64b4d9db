# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from tests.models.examples import make

SMALL = {"hidden_units": (6, 4)}


def kernels_of(model, words):
    """The matrices whose path has one of the words."""
    return [w for w in model.trainable_weights if any(word in w.path for word in words)]


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        ("deepfm", {"mlp_l2": 0.3}, ["mlp"]),
        ("base", {"mlp_l2": 0.3}, ["mlp"]),
        ("dcn", {"cross_l2": 0.3}, ["cross_layer"]),
        ("dcn", {"cross_l2": 0.3, "rank": 2}, ["low_rank_cross_layer"]),
        ("autoint", {"attention_l2": 0.3}, ["interacting_layer"]),
        ("xdeepfm", {"cin_l2": 0.3}, ["compressed_interaction"]),
    ],
)
def test_a_penalty_is_half_lambda_times_the_squares_of_the_matrices_of_its_layers(
    kind, options, words
):
    model = make(kind, **SMALL, **options)
    matrices = [w for w in kernels_of(model, words) if len(w.shape) > 1]
    assert matrices
    expected = sum(
        0.15 * np.sum(np.square(matrix.numpy(), dtype=np.float64)) for matrix in matrices
    )
    np.testing.assert_allclose(sum(model.losses), expected, rtol=1e-5)
    assert not make(kind, **SMALL).losses


def test_matrices_start_as_asked():
    # He: variance 2 / fan in; Glorot: 2 / (fan in + fan out)
    for initializer, variance in [("he_normal", 2 / 7), ("glorot_normal", 2 / 2007)]:
        model = make("nfm", embedding_dim=7, hidden_units=(2000,), kernel_initializer=initializer)
        first = model.mlp.hidden[0].kernel.numpy()
        np.testing.assert_allclose(first.var(), variance, rtol=0.05)
