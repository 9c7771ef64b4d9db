# SPDX-License-Identifier: Apache-2.0
"""Numbers and buckets, against values by hand and NumPy."""

import math
from decimal import Decimal, getcontext

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from features.numeric import (
    LOWEST_BUCKET,
    BucketFit,
    NumericFit,
    bucket_statistics,
    encode_buckets,
    encode_numeric,
    fit_buckets,
    fit_numeric,
    numeric_statistics,
)
from features.specs import BucketedSpec, NumericSpec

FLOAT32_MAX = float(np.finfo(np.float32).max)
a_few_tables = settings(deadline=None, max_examples=20)

any_float32 = st.floats(width=32, allow_nan=False, allow_infinity=False, allow_subnormal=False)


def spec_of(**options):
    return NumericSpec(kind="numeric", **options)


def bucketed(**options):
    return BucketedSpec(kind="bucketed", **options)


@pytest.fixture(scope="session")
def aggregate(connection, make_table):
    """Compute the statistics of a column, given as Python numbers and None."""

    def compute(statistics, numbers, spec):
        table = make_table({"x": pa.array(numbers, pa.float32())})
        expressions = statistics(table.x, spec)
        if not expressions:
            return {}
        return connection.to_pyarrow(table.aggregate(**expressions)).to_pylist()[0]

    return compute


@pytest.fixture(scope="session")
def encode(connection, make_table):
    """Apply an encoder to a column: a list of numbers."""

    def apply(encoder, numbers, *options):
        table = make_table({"row": range(len(numbers)), "x": pa.array(numbers, pa.float32())})
        found = connection.to_pyarrow(table.select("row", y=encoder(table.x, *options)))
        return found.sort_by("row")["y"]

    return apply


@pytest.fixture(scope="session")
def fit_and_encode(aggregate, encode):
    def apply(spec, training, rows):
        fit = fit_numeric(spec, aggregate(numeric_statistics, training, spec))
        encoded = encode(encode_numeric, rows, spec, fit)
        assert encoded.type == pa.float32()
        assert encoded.null_count == 0
        return fit, encoded.to_pylist()

    return apply


def test_missing_is_filled_with_the_mean(fit_and_encode):
    # ING-01: 2 and a missing value have mean 2
    fit, encoded = fit_and_encode(spec_of(scale="none"), [2.0, None], [2.0, None])
    assert (fit.mean, fit.missing, fit.rows) == (2.0, 1, 2)
    assert encoded == [2.0, 2.0]


def test_standard_scale_by_hand(fit_and_encode):
    # 1, 3, 3, 5 have mean 3 and variance ((-2)² + 0 + 0 + 2²) / 4 = 2
    fit, encoded = fit_and_encode(spec_of(), [1, 3, 3, 5, None], [1, 3, 5, None, 7])
    assert fit.mean == 3.0
    assert fit.std == pytest.approx(math.sqrt(2), rel=1e-6)
    expected = [-math.sqrt(2), 0.0, math.sqrt(2), 0.0, 2 * math.sqrt(2)]
    assert encoded == pytest.approx(expected, rel=1e-6)


def test_min_max_scale_by_hand(fit_and_encode):
    spec = spec_of(scale="min_max", fill="zero")
    _, encoded = fit_and_encode(spec, [2, 4, 6], [2, 4, 6, 8, None])
    assert encoded == [0.0, 0.5, 1.0, 1.5, -0.5]


def test_min_max_meets_0_and_1_exactly(fit_and_encode):
    training = [0.1, 123456.789, -98765.4321]
    _, encoded = fit_and_encode(spec_of(scale="min_max"), training, training)
    assert (min(encoded), max(encoded)) == (0.0, 1.0)


def test_clip_then_log_then_scale(fit_and_encode):
    spec = spec_of(clip=(-1.0, 9.0), log=True, scale="none", fill=100)
    _, encoded = fit_and_encode(spec, [0.0], [-50, -0.5, 0, 9, 1000, None])
    expected = [-math.log(2), -math.log(1.5), 0, math.log(10), math.log(10), math.log(10)]
    assert encoded == pytest.approx(expected, rel=1e-6)


def test_a_number_to_fill_is_in_the_unit_of_the_column(fit_and_encode):
    spec = spec_of(log=True, fill=math.e - 1)
    fit, encoded = fit_and_encode(spec, [0, math.e**2 - 1], [None])
    # ln(1 + x) is 0 and 2: mean 1, deviation 1, and the filled value's logarithm is 1
    assert encoded == pytest.approx([0.0], abs=1e-6)
    assert fit.fill == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("scale", ["standard", "min_max", "none"])
@pytest.mark.parametrize("value", [0.1, 0.0, -3.0, 1_700_000_123.0, FLOAT32_MAX])
def test_a_constant_column_encodes_to_small_numbers(fit_and_encode, scale, value):
    training = [value] * 10_001
    _, encoded = fit_and_encode(spec_of(scale=scale), training, [value, None])
    if scale == "none":
        limit = NumericFit.limit(spec_of(scale="none"))
        expected = min(value, limit)
        assert encoded == pytest.approx([expected, expected], rel=1e-6)
    else:
        assert encoded[0] == 0.0
        assert abs(encoded[1]) <= abs(value) * 1e-6


@pytest.mark.parametrize("scale", ["standard", "min_max", "none"])
def test_an_empty_column_encodes_to_what_is_filled(fit_and_encode, scale):
    fit, encoded = fit_and_encode(spec_of(scale=scale, fill=2.5), [None, None], [None, 1.5])
    assert encoded == [2.5, 1.5]
    assert (fit.mean, fit.std, fit.min, fit.max, fit.missing) == (None, None, None, None, 2)


def test_encoded_numbers_stay_finite_when_multiplied(fit_and_encode):
    huge = [FLOAT32_MAX, -FLOAT32_MAX, None]
    _, standard = fit_and_encode(spec_of(fill=1e300), [0.0, 1e-30], huge)
    assert standard == [1e6, -1e6, 1e6]
    _, unscaled = fit_and_encode(spec_of(scale="none", fill=-1e300), [0.0], huge)
    assert unscaled == pytest.approx([1e15, -1e15, -1e15], rel=1e-6)
    assert np.isfinite(np.float32(unscaled[0]) * np.float32(unscaled[1]))


@given(
    st.lists(st.none() | any_float32, min_size=1, max_size=30),
    st.lists(st.none() | any_float32, min_size=1, max_size=30),
    st.booleans(),
    st.none() | st.tuples(st.integers(-5, 0), st.integers(1, 1000)),
    st.sampled_from(["standard", "min_max", "none"]),
    st.sampled_from(["mean", "zero", -7.5]),
)
@a_few_tables
def test_numbers_agree_with_numpy(fit_and_encode, training, rows, log, clip, scale, fill):
    spec = spec_of(log=log, clip=clip, scale=scale, fill=fill)
    fit, encoded = fit_and_encode(spec, training, rows)

    def transformed(numbers):
        y = np.array(numbers, np.float32).astype(np.float64)
        y = np.clip(y, *clip) if clip else y
        return np.sign(y) * np.log1p(np.abs(y)) if log else y

    seen = transformed([number for number in training if number is not None])
    if seen.size:
        statistics = (seen.mean(), seen.std(), seen.min(), seen.max())
        # ln(1 + x) of a tiny x keeps the last bit of 1
        allowed = 1e-12 * np.abs(seen).max() + 2.3e-16
        for found, expected in zip((fit.mean, fit.std, fit.min, fit.max), statistics, strict=True):
            assert found == pytest.approx(expected, rel=1e-6, abs=allowed)
    # the transform is checked with the fitted numbers, which are rounded on purpose
    limit = NumericFit.limit(spec)
    filled = (
        fit.mean or 0.0
        if fill == "mean"
        else float(transformed([0.0 if fill == "zero" else fill])[0])
    )
    y = np.array([filled if number is None else transformed([number])[0] for number in rows])
    with np.errstate(over="ignore"):
        expected = np.clip((y - fit.center) / fit.scale, -limit, limit)
    # the last bit of ln(1 + x), divided by a small scale
    last_bit = 1e-15 * (1 + np.abs(y).max()) / fit.scale
    np.testing.assert_allclose(encoded, expected, rtol=1e-6, atol=last_bit)


# buckets


def ids(encoded):
    assert encoded.type == pa.int32()
    return encoded.to_pylist()


def test_edges_by_hand(encode):
    spec = bucketed(edges=(0.0, 0.7, 10.0))
    fit = fit_buckets(spec, {})
    assert fit.rows == 6  # padding, missing and four buckets
    rows = [-0.1, 0.0, 0.5, 0.7, 9.99, 10.0, FLOAT32_MAX, -FLOAT32_MAX, None]
    assert ids(encode(encode_buckets, rows, spec, fit)) == [2, 3, 3, 4, 4, 5, 5, 2, 1]


@given(
    st.lists(any_float32, min_size=1, max_size=8, unique=True), st.lists(any_float32, max_size=30)
)
@example([0.1, 0.3], [0.1, 0.3])
@a_few_tables
def test_a_value_equal_to_an_edge_is_above_it(encode, edges, others):
    edges = sorted(edges)
    # edges as a user writes them in decimals: in double precision they are other numbers
    spec = bucketed(edges=tuple(float(str(np.float32(edge))) for edge in edges))
    fit = fit_buckets(spec, {})
    rows = [*edges, *others, None]
    expected = np.searchsorted(np.float32(edges), np.float32(rows[:-1]), side="right") + 2
    assert ids(encode(encode_buckets, rows, spec, fit)) == [*expected, 1]
    assert fit.rows == len(edges) + 3


def test_edges_beyond_float32_are_its_ends(encode):
    spec = bucketed(edges=(-1e300, 0.0, 1e300))
    fit = fit_buckets(spec, {})
    assert fit.edges == (-FLOAT32_MAX, 0.0, FLOAT32_MAX)
    assert ids(encode(encode_buckets, [-1.0, 1.0], spec, fit)) == [3, 4]


@given(
    st.lists(st.none() | st.integers(-50, 50), min_size=1, max_size=60),
    st.integers(2, 12),
)
@a_few_tables
def test_quantiles_agree_with_numpy(aggregate, encode, training, quantiles):
    spec = bucketed(quantiles=quantiles)
    fit = fit_buckets(spec, aggregate(bucket_statistics, training, spec))
    seen = [number for number in training if number is not None]
    shares = [i / quantiles for i in range(1, quantiles)]
    edges = sorted(set(np.float32(np.quantile(seen, shares)).tolist())) if seen else []
    assert fit.edges == pytest.approx(edges, rel=1e-6, abs=1e-6)
    rows = [-100, 100, None]
    assert ids(encode(encode_buckets, rows, spec, fit)) == [2, 2 + len(fit.edges), 1]


def test_quantiles_divide_rows_evenly(aggregate, encode):
    numbers = np.random.default_rng(0).permutation(1000).tolist()
    spec = bucketed(quantiles=8)
    fit = fit_buckets(spec, aggregate(bucket_statistics, numbers, spec))
    found = np.bincount(ids(encode(encode_buckets, numbers, spec, fit)))
    np.testing.assert_array_equal(found, [0, 0] + [125] * 8)


def test_a_column_without_values_has_one_bucket(aggregate, encode):
    for spec in (bucketed(quantiles=4), bucketed(log_squared=True)):
        fit = fit_buckets(spec, aggregate(bucket_statistics, [None, None], spec))
        assert fit == BucketFit()
        assert fit.rows == 3
        assert ids(encode(encode_buckets, [0.0, None], spec, fit)) == [2, 1]


def test_criteo_rule_by_hand(aggregate, encode):
    # ln²(3) = 1.207, ln²(8) = 4.32, ln²(1000) = 47.7
    training = [-2.0, 0, 1, 2, 3, 8, 1000, None]
    spec = bucketed(log_squared=True)
    fit = fit_buckets(spec, aggregate(bucket_statistics, training, spec))
    assert (fit.lowest, fit.highest, fit.rows) == (-2, 47, 52)
    rows = [*training, 2.5, 1.9, -0.5, -7.0, 1e9, FLOAT32_MAX, -FLOAT32_MAX]
    buckets = [-2, 0, 1, 2, 1, 4, 47, None, 0, 1, -1, -2, 47, 47, -2]
    expected = [1 if b is None else b + 2 + 2 for b in buckets]
    assert ids(encode(encode_buckets, rows, spec, fit)) == expected


def test_an_outlier_does_not_make_a_huge_table(aggregate):
    spec = bucketed(log_squared=True)
    fit = fit_buckets(spec, aggregate(bucket_statistics, [-FLOAT32_MAX, FLOAT32_MAX], spec))
    assert fit.lowest == LOWEST_BUCKET
    assert fit.highest == math.floor(math.log(FLOAT32_MAX) ** 2)


def test_criteo_rule_is_exact_at_every_border(encode):
    # the two float32 numbers around e^√k, for every k there is
    getcontext().prec = 40
    numbers, expected = [], []
    for k in range(1, math.floor(math.log(FLOAT32_MAX) ** 2) + 1):
        border = Decimal(k).sqrt().exp()
        below = np.float32(float(border))
        if Decimal(float(below)) >= border:
            below = np.nextafter(below, np.float32(0))
        for number in (below, np.nextafter(below, np.float32(np.inf))):
            if number > 2:
                numbers.append(float(number))
                expected.append(math.floor(Decimal(float(number)).ln() ** 2) + 2)
    fit = BucketFit(lowest=0, highest=10_000)
    assert ids(encode(encode_buckets, numbers, bucketed(log_squared=True), fit)) == expected


# specs


@pytest.mark.parametrize(
    "options",
    [
        {"clip": (math.nan, 1.0)}, {"clip": (0.0, math.inf)}, {"fill": math.nan}, {"clip": (2, 2)},
    ],
)  # fmt: skip
def test_options_that_are_no_numbers_are_refused(options):
    with pytest.raises(ValidationError, match=r"finite number|is not below"):
        spec_of(**options)


@pytest.mark.parametrize(
    "options",
    [
        {}, {"edges": ()}, {"edges": (1, 1)}, {"edges": (2, 1)}, {"edges": (math.nan,)},
        {"edges": (1,), "quantiles": 2}, {"quantiles": 1}, {"quantiles": 3, "log_squared": True},
    ],
)  # fmt: skip
def test_buckets_need_one_rule(options):
    with pytest.raises(ValidationError, match=r"exactly one|ascending|finite|greater than"):
        bucketed(**options)
