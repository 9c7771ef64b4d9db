# SPDX-License-Identifier: Apache-2.0
"""The optimisers and the schedule that a config asks for."""

import math

import keras

from models import optimizers as rows
from pipeline.config_train import (
    FTRL,
    SGD,
    Adagrad,
    Adam,
    AdamW,
    Cosine,
    TrainConfig,
)


def table_optimizer(config: TrainConfig) -> rows.RowOptimizer:
    """Return the optimiser of embedding rows."""
    rate = config.table_learning_rate
    match config.table_optimizer:
        case Adam() as adam:
            return rows.RowAdam(rate, adam.beta_1, adam.beta_2, adam.epsilon)
        case Adagrad() as adagrad:
            return rows.RowAdagrad(rate, adagrad.initial_accumulator)
        case FTRL() as ftrl:
            return rows.RowFTRL(rate, ftrl.beta, ftrl.l1, ftrl.l2)
        case SGD() as sgd:
            return rows.RowSGD(rate, sgd.momentum)


def dense_optimizer(config: TrainConfig) -> keras.optimizers.Optimizer:
    """Return the Keras optimiser of everything but embedding rows."""
    rate = config.learning_rate
    match config.dense_optimizer:
        case Adam() as adam:
            return keras.optimizers.Adam(rate, adam.beta_1, adam.beta_2, adam.epsilon)
        case AdamW() as adamw:
            return keras.optimizers.AdamW(
                rate, adamw.weight_decay, adamw.beta_1, adamw.beta_2, adamw.epsilon
            )
        case Adagrad() as adagrad:
            return keras.optimizers.Adagrad(rate, adagrad.initial_accumulator)
        case SGD() as sgd:
            return keras.optimizers.SGD(rate, sgd.momentum)


def rate_factor(config: TrainConfig, step: int, steps: int, plateau_factor: float) -> float:
    """Return what both learning rates are multiplied by in a step.

    Args:
        config: Says how they warm up and how they fall.
        step: Number of the step, from 1.
        steps: Number of planned steps.
        plateau_factor: What plateaus have left of them so far; 1 without such a schedule.
    """
    factor = plateau_factor
    if isinstance(config.schedule, Cosine):
        final = config.schedule.final_factor
        factor = final + (1 - final) * (1 + math.cos(math.pi * (step - 1) / steps)) / 2
    return factor * min(1.0, step / (config.warmup_steps + 1))
