# SPDX-License-Identifier: Apache-2.0
import keras
import pytest

from models import optimizers as rows
from pipeline.config_train import TrainConfig
from pipeline.optimizers import dense_optimizer, rate_factor, table_optimizer


def config(**options):
    return TrainConfig.model_validate(
        {"learning_rate": 0.02, "table_learning_rate": 0.3, **options}
    )


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, rows.RowAdam(0.3)),
        ({"table_optimizer": {"kind": "adam", "beta_1": 0.8}}, rows.RowAdam(0.3, 0.8)),
        (
            {"table_optimizer": {"kind": "adagrad", "initial_accumulator": 1}},
            rows.RowAdagrad(0.3, 1.0),
        ),
        (
            {"table_optimizer": {"kind": "ftrl", "beta": 2, "l1": 3, "l2": 4}},
            rows.RowFTRL(0.3, 2.0, 3.0, 4.0),
        ),
        ({"table_optimizer": {"kind": "sgd", "momentum": 0.9}}, rows.RowSGD(0.3, 0.9)),
    ],
)
def test_tables_get_the_optimiser_of_the_config(options, expected):
    assert table_optimizer(config(**options)) == expected


@pytest.mark.parametrize(
    ("options", "cls", "expected"),
    [
        ({"kind": "adam", "epsilon": 1e-4}, keras.optimizers.Adam, {"epsilon": 1e-4}),
        ({"kind": "adamw", "weight_decay": 0.1}, keras.optimizers.AdamW, {"weight_decay": 0.1}),
        (
            {"kind": "adagrad", "initial_accumulator": 1},
            keras.optimizers.Adagrad,
            {"initial_accumulator_value": 1.0},
        ),
        ({"kind": "sgd", "momentum": 0.9}, keras.optimizers.SGD, {"momentum": 0.9}),
    ],
)
def test_dense_weights_get_the_optimiser_of_the_config(options, cls, expected):
    found = dense_optimizer(config(dense_optimizer=options))
    assert type(found) is cls
    assert found.get_config()["learning_rate"] == pytest.approx(0.02)
    assert {key: found.get_config()[key] for key in expected} == expected


def test_warmup_rises_evenly_and_cosine_falls_to_its_end():
    warm = config(warmup_steps=3)
    assert [rate_factor(warm, step, 9, 1.0) for step in range(1, 6)] == [0.25, 0.5, 0.75, 1, 1]
    cosine = config(schedule={"kind": "cosine", "final_factor": 0.2})
    # halfway the cosine is 0: 0.2 + 0.8 / 2
    assert [rate_factor(cosine, step, 8, 1.0) for step in (1, 5)] == pytest.approx([1.0, 0.6])
    assert rate_factor(cosine, 800, 800, 1.0) == pytest.approx(0.2, abs=1e-4)


def test_a_plateau_s_factor_multiplies_warmup():
    assert rate_factor(config(warmup_steps=1), 1, 10, 0.1) == pytest.approx(0.05)
