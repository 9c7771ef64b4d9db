# SPDX-License-Identifier: Apache-2.0
"""Draw test AUC against parameters, from the table that `ladder.py` printed.

python benchmarks/ladder_chart.py docs/benchmarks.md > docs/ladder.svg
"""

import math
import re
import sys
from pathlib import Path

from pipeline.charts import Scale, axes, fill, nice_ticks, svg, tag, text_at

ROW = re.compile(r"\| `\w+?_(\w+)` \|.*?\| ([\d,]+) \| (0\.\d+) ")
WIDTH, HEIGHT = 680, 420
NAME = (60, 12)
"""Width and height that a name takes."""


def chart(text: str) -> str:
    """Return the picture of a table's models."""
    found = [
        (kind, int(size.replace(",", "")), float(auc)) for kind, size, auc in ROW.findall(text)
    ]
    sizes = [math.log10(size) for _, size, _ in found]
    aucs = [auc for *_, auc in found]
    x = Scale(nice_ticks(min(sizes), max(sizes)), 68, WIDTH - 90)
    y = Scale(nice_ticks(min(aucs), max(aucs)), HEIGHT - 50, 20)
    parts = [axes(x, y, "parameters, power of 10", "test AUC")]
    names: list[tuple[float, float]] = []
    for (kind, _, auc), size in zip(found, sizes, strict=True):
        parts.append(tag("circle", cx=x(size), cy=y(auc), r=4, style=fill(0)))
        at, height = x(size) + 7, y(auc) + 4
        while any(abs(at - left) < NAME[0] and abs(height - top) < NAME[1] for left, top in names):
            height -= 1
        names.append((at, height))
        parts.append(text_at(kind, at, height))
    label = "test AUC against the number of parameters of each model"
    picture = svg(parts, label, WIDTH, HEIGHT)
    # on its own a picture needs its address and a page to stand on
    return picture.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1).replace(
        ">", '><rect width="100%" height="100%" fill="white"/>', 1
    )


if __name__ == "__main__":
    sys.stdout.write(chart(Path(sys.argv[1]).read_text(encoding="utf-8")))
