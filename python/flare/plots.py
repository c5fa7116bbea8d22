# SPDX-License-Identifier: Apache-2.0
"""A plot for each metric, with matplotlib."""
from __future__ import annotations

from collections import defaultdict

MS = 1e-6  # nanoseconds to milliseconds


def _lines(ax, table, column: str, scale: float, label: str) -> None:
    by_rank = defaultdict(lambda: ([], []))
    for rank, step, value in zip(table["rank"], table["step"], table[column]):
        by_rank[rank][0].append(int(step))
        by_rank[rank][1].append(float(value) * scale)
    for rank, (steps, values) in sorted(by_rank.items()):
        ax.plot(steps, values, marker="." if len(steps) < 50 else None, label=f"rank {rank}")
    ax.set_xlabel("step")
    ax.set_ylabel(label)
    if 1 < len(by_rank) <= 16:
        ax.legend()


def _shares(ax, table, column: str, label: str) -> None:
    total, span = defaultdict(float), defaultdict(float)
    for rank, value, whole in zip(table["rank"], table[column], table["span_ns"]):
        total[rank] += float(value)
        span[rank] += float(whole)
    ranks = sorted(rank for rank in total if span[rank] > 0)
    ax.bar([str(rank) for rank in ranks], [100 * total[r] / span[r] for r in ranks])
    ax.set_xlabel("rank")
    ax.set_ylabel(label)


def _waits(ax, diagnosis) -> None:
    table, caused = diagnosis.waits(), defaultdict(float)
    for rank, value in zip(table["rank"], table["caused_ns"]):
        caused[rank] += float(value) * MS
    ax.bar([str(rank) for rank in sorted(caused)], [caused[r] for r in sorted(caused)])
    ax.set_xlabel("rank")
    ax.set_ylabel("wait caused (ms)")


def _collectives(ax, diagnosis) -> None:
    table, by_rank = diagnosis.collectives(), defaultdict(list)
    for rank, value in zip(table["rank"], table["duration_us"]):
        by_rank[rank].append(float(value) * 1e-3)
    for rank, values in sorted(by_rank.items()):
        values.sort()
        ax.plot(values, [(i + 1) / len(values) for i in range(len(values))], label=f"rank {rank}")
    ax.set_xscale("log")
    ax.set_xlabel("duration of a collective (ms)")
    ax.set_ylabel("share at or below")
    if 1 < len(by_rank) <= 16:
        ax.legend()


def _classes(ax, diagnosis) -> None:
    table, total = diagnosis.kernels(), defaultdict(float)
    for kernel_class, value in zip(table["kernel_class"], table["total_ns"]):
        total[kernel_class] += float(value) * MS
    names = sorted(total, key=total.get)
    ax.barh(names, [total[name] for name in names])
    ax.set_xlabel("device time (ms)")


def _gemms(ax, diagnosis) -> None:
    table = diagnosis.gemms()
    ax.scatter([float(t) * MS for t in table["total_ns"]], table["tflops"])
    ax.set_xscale("log")
    ax.set_xlabel("device time of the shape in a step (ms)")
    ax.set_ylabel("TFLOP/s")


METRICS = {
    "step_time": lambda ax, d: _lines(ax, d.steps(), "duration_ns", MS, "step time (ms)"),
    "own_time": lambda ax, d: _lines(ax, d.steps(), "own_ns", MS, "own time (ms)"),
    "issue_latency": lambda ax, d: _lines(ax, d.steps(), "issue_latency_p50_ns", 1e-3,
                                          "issue latency, median (µs)"),
    "busy": lambda ax, d: _shares(ax, d.steps(), "busy_ns", "device busy (%)"),
    "overlap": lambda ax, d: _shares(ax, d.steps(), "overlap_ns",
                                     "communication beside compute (% of span)"),
    "wait_caused": _waits,
    "collectives": _collectives,
    "kernel_classes": _classes,
    "gemm_flops": _gemms,
}


def plot(diagnosis, metric: str, ax=None):
    if metric not in METRICS:
        raise ValueError(f"no plot {metric!r}; there are: {', '.join(METRICS)}")
    if ax is None:
        import matplotlib.pyplot
        _, ax = matplotlib.pyplot.subplots()
    METRICS[metric](ax, diagnosis)
    ax.set_title(diagnosis.report["job"]["name"])
    return ax
