# SPDX-License-Identifier: Apache-2.0
"""The part of a config that says how the model is fitted."""

from typing import Annotated, Literal, Self

from pydantic import Field, NonNegativeFloat, model_validator

from pipeline.config_data import Section

Share = Annotated[float, Field(ge=0, lt=1)]


class Adam(Section):
    """Adam; of tables, only the rows that a batch holds change."""

    kind: Literal["adam"] = "adam"
    beta_1: Share = Field(0.9, description="Decay of the mean of gradients.")
    beta_2: Share = Field(0.999, description="Decay of the mean of squared gradients.")
    epsilon: float = Field(1e-8, gt=0, description="Added to the root of that mean.")


class Adagrad(Section):
    """Adagrad: the more a weight has moved, the less it moves."""

    kind: Literal["adagrad"]
    initial_accumulator: float = Field(
        0.1, gt=0, description="Where the sum of squared gradients starts."
    )


class FTRL(Section):
    """FTRL-proximal (McMahan et al. 2013), which sets weights that matter little to 0."""

    kind: Literal["ftrl"]
    beta: float = Field(1.0, ge=0, description="Smooths the first learning rates.")
    l1: float = Field(0.0, ge=0, description="λ₁: the larger, the more weights reach 0 and stay.")
    l2: float = Field(0.0, ge=0, description="λ₂: pulls weights towards 0.")


class SGD(Section):
    """Gradient descent with or without momentum."""

    kind: Literal["sgd"]
    momentum: Share = Field(0.0, description="Share of the last step that the next one keeps.")


class AdamW(Section):
    """Adam with weight decay apart from the gradient."""

    kind: Literal["adamw"]
    weight_decay: float = Field(0.004, ge=0, description="Share of a weight lost per step, × rate.")
    beta_1: Share = Field(0.9, description="Decay of the mean of gradients.")
    beta_2: Share = Field(0.999, description="Decay of the mean of squared gradients.")
    epsilon: float = Field(1e-8, gt=0, description="Added to the root of that mean.")


TableOptimizer = Annotated[Adam | Adagrad | FTRL | SGD, Field(discriminator="kind")]
DenseOptimizer = Annotated[Adam | AdamW | Adagrad | SGD, Field(discriminator="kind")]


class Constant(Section):
    """The learning rates stay as they are."""

    kind: Literal["constant"] = "constant"


class Plateau(Section):
    """The learning rates drop when the validation metric no longer gets better."""

    kind: Literal["plateau"]
    factor: float = Field(0.1, gt=0, lt=1, description="What each drop multiplies them by.")
    patience: int = Field(
        1, ge=1, description="Evaluations without a better metric before each drop."
    )
    min_factor: float = Field(1e-3, gt=0, lt=1, description="They drop no further than to this.")


class Cosine(Section):
    """The learning rates follow half a cosine from all to little over the planned steps."""

    kind: Literal["cosine"]
    final_factor: float = Field(0.0, ge=0, le=1, description="Their share after the last step.")


Schedule = Annotated[Constant | Plateau | Cosine, Field(discriminator="kind")]


class TrainConfig(Section):
    """How the model is fitted."""

    epochs: int = Field(3, ge=1, description="Passes over the training rows, at most.")
    batch_size: int = Field(4096, ge=1, le=1_000_000, description="Rows per step.")
    learning_rate: float = Field(1e-3, gt=0, description="Of the dense weights.")
    table_learning_rate: float = Field(
        5e-3,
        gt=0,
        description="Of the embedding tables. A row moves only in the steps whose batch holds it, "
        "so that it needs longer steps than a dense weight.",
    )
    dense_optimizer: DenseOptimizer = Field(Adam(), description="Fits the dense weights.")
    table_optimizer: TableOptimizer = Field(
        Adam(), description="Fits the rows of embedding tables that a batch holds."
    )
    schedule: Schedule = Field(
        Constant(), description="How the learning rates change in the course of training."
    )
    warmup_steps: int = Field(
        0, ge=0, description="First steps, in which the learning rates rise from near 0."
    )
    table_l2: NonNegativeFloat | dict[str, NonNegativeFloat] = Field(
        0.0,
        description="λ of the penalty λ/2·|w|² on the embedding rows of a batch: one for all "
        "tables, or by table (the feature that owns it).",
    )
    table_l2_by_count: bool = Field(
        False,
        description="Whether λ of a row is divided by the number of training rows that hold its "
        "id, so that frequent ids are not pulled more often than rare ones (Zhou et al. 2018, "
        "Eq. 6).",
    )
    clip_norm: float | None = Field(
        None, gt=0, description="Largest global norm of all gradients, embedding rows included."
    )
    monitor: Literal["auc", "gauc", "log_loss"] = Field(
        "auc", description="Validation metric that picks the best state."
    )
    evaluations_per_epoch: int = Field(4, ge=1, description="Validations within one epoch.")
    patience: int = Field(
        4, ge=1, description="Evaluations without a better metric before training stops."
    )
    checkpoint_steps: int = Field(500, ge=1, description="Steps between two checkpoints.")
    xla: bool = Field(True, description="Compile the dense part with XLA.")

    @model_validator(mode="after")
    def _rates_can_drop(self) -> Self:
        if isinstance(self.schedule, Plateau) and self.schedule.patience >= self.patience:
            raise ValueError(
                f"training stops after {self.patience} evaluations without a better metric, before "
                f"the schedule drops the rates, after {self.schedule.patience}: set patience higher"
            )
        return self

    @model_validator(mode="after")
    def _has_what_is_divided_by_counts(self) -> Self:
        penalties = self.table_l2.values() if isinstance(self.table_l2, dict) else [self.table_l2]
        if self.table_l2_by_count and not any(penalties):
            raise ValueError(
                "table_l2_by_count divides table_l2 by counts, which is 0 here: set table_l2, or "
                "leave table_l2_by_count out"
            )
        return self
