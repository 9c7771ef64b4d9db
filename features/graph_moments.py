# SPDX-License-Identifier: Apache-2.0
"""Moments in a TensorFlow graph: texts and counts to seconds, seconds to parts (UTC)."""

import tensorflow as tf

from features.moments import DEFAULTS, ISO_PATTERN, TimeLayout
from features.raw import LARGEST_MOMENT, MICROSECONDS
from features.specs import DatetimePart, TimeUnit


def seconds_of_count(values: tf.Tensor, unit: TimeUnit) -> tuple[tf.Tensor, tf.Tensor]:
    """Return seconds since 1970 of counts in a unit, int64, and whether each is a moment."""
    limit = LARGEST_MOMENT // MICROSECONDS.get(unit, 1)
    known = (values >= -limit) & (values <= limit)
    per_second = 1_000_000_000 if unit == "ns" else 1_000_000 // MICROSECONDS[unit]
    return tf.math.floordiv(tf.where(known, values, 0), per_second), known


def seconds_of_text(texts: tf.Tensor, time_format: str | None) -> tuple[tf.Tensor, tf.Tensor]:
    """Return seconds since 1970 and whether each text is a moment."""
    texts = tf.strings.strip(texts)
    if time_format is None:
        known = tf.strings.regex_full_match(texts, ISO_PATTERN)
        texts, offset = _local_and_offset(tf.where(known, texts, "1970-01-01"))
        layout = TimeLayout.of("%Y-%m-%d %H:%M:%S")
    else:
        layout = TimeLayout.of(time_format)
        known = tf.strings.regex_full_match(texts, layout.pattern)
        offset = tf.zeros_like(texts, tf.int64)
    fields = {letter: _digits(texts, known, layout, letter) for letter in "YymdHMS"}
    short = fields["y"] + tf.where(fields["y"] >= 69, tf.constant(1900, tf.int64), 2000)
    year = fields["Y"] if "Y" in layout.fields else short
    days = _days_from_civil(year, fields["m"], fields["d"])
    known &= _is_in_month(fields["d"], fields["m"], year)
    clock = (fields["H"] * 60 + fields["M"]) * 60 + fields["S"]
    return days * 86_400 + clock - offset, known


def _local_and_offset(texts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return ISO moments as date, space and time to the second, and their zone in seconds."""
    local = tf.strings.regex_replace(texts, ISO_PATTERN, r"\1")
    length = tf.strings.length(local)
    clock = tf.where(length == 10, " 00:00:00", tf.where(length == 16, ":00", ""))
    zone = tf.strings.regex_replace(texts, ISO_PATTERN, r"\2")
    digits = tf.strings.regex_replace(zone, r"[^0-9]", "")
    number = tf.strings.to_number(tf.strings.substr(digits + "0000", 0, 4), tf.int64)
    size = (number // 100 * 60 + number % 100) * 60
    return local + clock, tf.where(tf.strings.regex_full_match(zone, "-.*"), -size, size)


def _digits(texts: tf.Tensor, known: tf.Tensor, layout: TimeLayout, letter: str) -> tf.Tensor:
    if letter not in layout.fields:
        default = int(DEFAULTS.get(letter, "0"))
        return tf.fill(tf.shape(texts), tf.constant(default, tf.int64))
    start, width = layout.fields[letter]
    safe = tf.where(known, texts, "0" * (start + width))
    digits = tf.strings.substr(safe, start, width, unit="UTF8_CHAR")
    return tf.strings.to_number(digits, tf.int64)


def _is_in_month(day: tf.Tensor, month: tf.Tensor, year: tf.Tensor) -> tf.Tensor:
    """Return whether months are as long as the day says; texts that match have no other flaw."""
    lengths = tf.constant([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31], tf.int64)
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    last = tf.gather(lengths, tf.clip_by_value(month - 1, 0, 11))
    return day <= last + tf.cast(leap & (month == 2), tf.int64)


def _days_from_civil(year: tf.Tensor, month: tf.Tensor, day: tf.Tensor) -> tf.Tensor:
    """Return days since 1970-01-01: whole years counted from March, so that a leap day is last."""
    year = year - tf.cast(month <= 2, tf.int64)
    since_march = tf.where(month > 2, month - 3, month + 9)
    day_of_year = (153 * since_march + 2) // 5 + day - 1
    leap_days = year // 4 - year // 100 + year // 400
    return 365 * year + leap_days + day_of_year - 719_468


def _civil_from_days(days: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return month and day of the month of days since 1970-01-01 (Gregorian)."""
    shifted = days + 719_468
    day_of_era = tf.math.floormod(shifted, 146_097)
    year = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year + year // 4 - year // 100)
    since_march = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * since_march + 2) // 5 + 1
    return tf.where(since_march < 10, since_march + 3, since_march - 9), day


def part_of(seconds: tf.Tensor, part: DatetimePart) -> tf.Tensor:
    """Return a part (`features.specs.DatetimePart`) of seconds since 1970, int64."""
    days = tf.math.floordiv(seconds, 86_400)
    hour = tf.math.floordiv(tf.math.floormod(seconds, 86_400), 3_600)
    weekday = tf.math.floormod(days + 3, 7)  # 1970-01-01 was a Thursday
    match part:
        case "hour":
            return hour
        case "weekday":
            return weekday
        case "hour_of_week":
            return weekday * 24 + hour
        case "month":
            return _civil_from_days(days)[0]
        case "day":
            return _civil_from_days(days)[1]
