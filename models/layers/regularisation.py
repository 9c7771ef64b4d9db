# SPDX-License-Identifier: Apache-2.0
import keras


def l2_penalty(strength: float) -> keras.regularizers.Regularizer | None:
    """Return the penalty λ/2·|W|², whose gradient is λW, or None for λ = 0.

    Args:
        strength: λ, 0 or more.
    """
    return keras.regularizers.L2(strength / 2) if strength else None
