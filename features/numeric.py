# SPDX-License-Identifier: Apache-2.0
"""Numbers: clip, log, scale, fill; and buckets. Computed in float64, stored in float32."""

import math
from typing import Any

import ibis
import numpy as np
from pydantic import BaseModel, ConfigDict

from features.raw import FLOAT32_MAX
from features.schema import FIRST_UNKNOWN, MISSING
from features.specs import BucketedSpec, NumericSpec

SIGNIFICANT_DIGITS = 7
"""Fitted sums are rounded to what a float32 holds: over threads they differ beyond it."""
LOWEST_BUCKET = -100
"""Numbers below share a bucket of Criteo's rule: one outlier must not make a table of millions."""


class NumericFit(BaseModel):
    """What a numeric feature learned from the training rows.

    encoded = (log(clip(x)) - center) / scale; `fill` is the encoded value of a missing cell.
    """

    model_config = ConfigDict(frozen=True)

    center: float
    scale: float
    fill: float
    mean: float | None
    std: float | None
    min: float | None
    max: float | None
    missing: int
    rows: int

    @staticmethod
    def limit(spec: NumericSpec) -> float:
        """Return the largest encoded magnitude: products of two must stay finite in float32."""
        return 1e15 if spec.scale == "none" else 1e6


class BucketFit(BaseModel):
    """Edges of a bucketed feature, or the lowest and highest bucket of Criteo's rule."""

    model_config = ConfigDict(frozen=True)

    edges: tuple[float, ...] = ()
    lowest: int = 0
    highest: int = 0

    @property
    def rows(self) -> int:
        """Rows of the bucket's embedding table."""
        return FIRST_UNKNOWN + (
            len(self.edges) + 1 if self.edges else self.highest - self.lowest + 1
        )


def clipped(x: Any, spec: NumericSpec) -> Any:
    """Return clip and log of a float32 column, float64."""
    x = x.cast("float64")
    if spec.clip:
        x = x.clip(*spec.clip)
    return x.sign() * (1 + x.abs()).ln() if spec.log else x


def numeric_statistics(x: Any, spec: NumericSpec) -> dict[str, Any]:
    """Return the aggregates that `fit_numeric` needs, by name."""
    y = clipped(x, spec)
    return {
        "mean": y.mean(),
        "std": y.std(how="pop"),
        "min": y.min(),
        "max": y.max(),
        "rows": x.isnull().count(),
        "missing": x.isnull().sum(),
    }


def fit_numeric(spec: NumericSpec, statistics: dict[str, Any]) -> NumericFit:
    """Turn training statistics into a transform; a constant or empty column gets scale 1."""
    mean, std = _rounded(statistics["mean"]), _rounded(statistics["std"])
    low, high = statistics["min"], statistics["max"]
    if spec.scale == "none" or low is None:
        center, scale = 0.0, 1.0
    elif low == high:  # the standard deviation of equal numbers need not be exactly 0
        center, scale = low, 1.0
    elif spec.scale == "standard":
        center, scale = mean or 0.0, std or 1.0
    else:
        center, scale = low, high - low
    filled = (mean or 0.0) if spec.fill == "mean" else _transformed(spec)
    limit = NumericFit.limit(spec)
    return NumericFit(
        center=center,
        scale=scale,
        fill=min(max((filled - center) / scale, -limit), limit),
        mean=mean,
        std=std,
        min=low,
        max=high,
        missing=int(statistics["missing"] or 0),
        rows=int(statistics["rows"]),
    )


def _transformed(spec: NumericSpec) -> float:
    value = 0.0 if spec.fill == "zero" else float(spec.fill)
    if spec.clip:
        value = min(max(value, spec.clip[0]), spec.clip[1])
    return math.copysign(math.log1p(abs(value)), value) if spec.log else value


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{SIGNIFICANT_DIGITS}g}")


def encode_numeric(x: Any, spec: NumericSpec, fit: NumericFit) -> Any:
    """Return the encoded float32 of a raw float32 column, never null."""
    y = ((clipped(x, spec) - fit.center) / fit.scale).clip(-fit.limit(spec), fit.limit(spec))
    return y.fill_null(fit.fill).cast("float32")


def log_squared(x: Any) -> Any:
    """Return Criteo's bucket ⌊ln²x⌋ for x > 2, else ⌊x⌋, int64 (3 Idiots' rule of 2014)."""
    x = x.cast("float64").clip(lower=LOWEST_BUCKET)
    logarithm = x.clip(lower=1.0).ln()
    return ibis.ifelse(x > 2, logarithm * logarithm, x).floor().cast("int64")


def bucket_statistics(x: Any, spec: BucketedSpec) -> dict[str, Any]:
    """Return the aggregates that `fit_buckets` needs, by name."""
    if spec.edges is not None:
        return {}
    if spec.log_squared:
        bucket = log_squared(x)
        return {"lowest": bucket.min(), "highest": bucket.max()}
    count = spec.quantiles or 2
    return {"edges": x.quantile([i / count for i in range(1, count)])}


def fit_buckets(spec: BucketedSpec, statistics: dict[str, Any]) -> BucketFit:
    """Turn training statistics into edges; equal quantiles make one edge."""
    if spec.log_squared:
        lowest, highest = statistics["lowest"], statistics["highest"]
        return BucketFit(lowest=lowest or 0, highest=highest or 0)
    edges = spec.edges if spec.edges is not None else statistics["edges"] or ()
    # an edge is compared with float32 values, so it must be one: 0.7 as float32 is below 0.7
    limited = (min(max(edge, -FLOAT32_MAX), FLOAT32_MAX) for edge in edges if edge is not None)
    return BucketFit(edges=tuple(sorted({float(np.float32(edge)) for edge in limited})))


def encode_buckets(x: Any, spec: BucketedSpec, fit: BucketFit) -> Any:
    """Return the id of a raw float32 column's bucket, int32; missing is 1."""
    if spec.log_squared:
        bucket = log_squared(x).clip(fit.lowest, fit.highest) - fit.lowest
    else:
        y = x.cast("float64")
        bucket = sum(((y >= edge).cast("int32") for edge in fit.edges), ibis.literal(0))
    return ibis.ifelse(x.isnull(), MISSING, FIRST_UNKNOWN + bucket).cast("int32")
