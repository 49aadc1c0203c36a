"""Draws how cost grows: ``python growth_plot.py OUT.png``, with the curves as JSON on standard input."""

import json
import sys

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

ACROSS = 3


def main() -> None:
    """One panel for each curve, with a linear one beside it."""
    curves = json.load(sys.stdin)
    down = -(-len(curves) // ACROSS)
    figure, axes = plt.subplots(down, ACROSS, figsize=(4 * ACROSS, 3.2 * down), squeeze=False)
    for panel in axes.flat[len(curves) :]:
        panel.remove()
    for panel, curve in zip(axes.flat, curves, strict=False):
        sizes, cost = curve["sizes"], [1000 * seconds for seconds in curve["seconds"]]
        panel.loglog(sizes, cost, marker="o", color="#1f6feb", label="measured")
        linear = [cost[-1] * size / sizes[-1] for size in sizes]
        panel.loglog(sizes, linear, linestyle=":", color="#8c959f", label="linear")
        panel.set_title(curve["name"], fontsize=10)
        panel.set_xlabel(curve["unit"], fontsize=9)
        panel.set_ylabel("ms", fontsize=9)
        panel.tick_params(labelsize=8)
        panel.grid(True, which="major", color="#d0d7de", linewidth=0.5)
        panel.legend(fontsize=8, frameon=False)
    figure.tight_layout()
    # Without the version of the library, so that the same figures give the same file.
    figure.savefig(sys.argv[1], dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    main()
