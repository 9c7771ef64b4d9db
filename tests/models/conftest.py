# SPDX-License-Identifier: Apache-2.0
import keras
import pytest


@pytest.fixture
def float64():
    """Layers made in this test compute in float64, for finite differences."""
    keras.config.set_floatx("float64")
    keras.config.set_dtype_policy("float64")
    yield
    keras.config.set_floatx("float32")
    keras.config.set_dtype_policy("float32")


@pytest.fixture
def half_precision():
    """Layers made in this test compute in float16 and keep float32 weights."""
    keras.config.set_dtype_policy("mixed_float16")
    yield
    keras.config.set_dtype_policy("float32")
