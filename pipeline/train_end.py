# SPDX-License-Identifier: Apache-2.0
"""How training ended, in words."""

from dataclasses import dataclass

from pipeline.config_train import TrainConfig

_FEW_STEPS = 100
"""In fewer steps a model hardly moves from where it started."""


@dataclass(frozen=True)
class End:
    """Where training ended: after its last epoch, or where patience did.

    Attributes:
        step: The last step that was made.
        best_step: The step whose state has the best validation metric, which is kept.
        total_steps: Steps of all epochs.
        patience_ended: Whether evaluations without a better metric ended it.
    """

    step: int
    best_step: int
    total_steps: int
    patience_ended: bool

    def text(self, config: TrainConfig) -> str:
        """Return why training ended, which state is kept, and what to try if it is the last."""
        if self.patience_ended:
            return (
                f"Stopped at step {self.step} of {self.total_steps}: {config.patience} "
                f"evaluations without a better validation {config.monitor}. The state of step "
                f"{self.best_step} is kept."
            )
        kept = (
            f"Ran all {self.step} steps; the state of step {self.best_step} has the best "
            f"validation {config.monitor} and is kept."
        )
        if not self._last_is_best:
            return kept
        return f"{kept} It is the last, so more training may help: {self._advice(config)}."

    def warning(self, config: TrainConfig) -> str | None:
        """Return what to say of training that was over before it led anywhere, or None."""
        if not self._last_is_best or self.step >= _FEW_STEPS:
            return None
        return (
            f"training is over after {self.step} steps while it still gets better: "
            f"{self._advice(config)}"
        )

    @property
    def _last_is_best(self) -> bool:
        return not self.patience_ended and self.best_step == self.step

    def _advice(self, config: TrainConfig) -> str:
        advice = f"raise train.epochs ({config.epochs})"
        steps_per_epoch = self.total_steps // config.epochs
        if steps_per_epoch >= _FEW_STEPS:
            return advice
        steps = f"{steps_per_epoch} step{'s' if steps_per_epoch > 1 else ''} an epoch"
        return f"{advice} or lower train.batch_size ({config.batch_size} rows: {steps})"
