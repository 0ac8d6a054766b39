"""Alternating runs of two or more sides, and their statistics: medians, ratios, spread, goals."""

import math
import statistics
from typing import Callable, NamedTuple

from .programs import Sample

UNITS = {"gb_per_s": "GB/s", "messages_per_s": "msg/s", "ns_per_request": "ns/request", "p50_ns": "ns p50",
         "p99_ns": "ns p99", "gb_per_s_64_mib": "GB/s of 64 MiB", "gb_per_s_256_mib": "GB/s of 256 MiB"}


class Goal(NamedTuple):
    sign: str
    bound: float

    def is_met_by(self, value: float) -> bool:
        return value >= self.bound if self.sign == ">=" else value <= self.bound

    def judge(self, value: float) -> str:
        return f"goal {self.sign} {self.bound:g}  {'met' if self.is_met_by(value) else 'missed'}"

    def judge_pairs(self, values: list[float]) -> str:
        """Judges the median, and says whether pairs of the same kind could have told the opposite."""
        ends = interval(values)
        if ends is None:
            doubt = ", too few pairs to be sure"
        elif self.is_met_by(ends[0]) == self.is_met_by(ends[1]):
            doubt = ""
        else:
            doubt = f", within noise (95 % interval {number(ends[0])}..{number(ends[1])})"
        return self.judge(statistics.median(values)) + doubt


def at_least(bound: float) -> Goal:
    return Goal(">=", bound)


def at_most(bound: float) -> Goal:
    return Goal("<=", bound)


class Side(NamedTuple):
    name: str
    measure: Callable[[], Sample]


class Row(NamedTuple):
    """One printed line: a metric that every sample of both sides has."""

    metric: str
    goal: Goal | None
    # Subtract the second side's number instead of dividing by it.
    is_difference: bool = False


def take_turns(pairs: int, sides: list[Side]) -> list[list[Sample]]:
    """One run of each side per pair; the order of the sides alternates."""
    samples: list[list[Sample]] = [[] for _ in sides]
    for turn in range(pairs):
        order = list(zip(sides, samples))
        for side, taken in order if turn % 2 == 0 else order[::-1]:
            taken.append(side.measure())
    return samples


def compare(pairs: int, label: str, ours: Side, theirs: Side, *rows: Row) -> None:
    mine, other = take_turns(pairs, [ours, theirs])
    for row in rows:
        print_row(label, (ours.name, mine), (theirs.name, other), row)


def print_row(label: str, ours: tuple[str, list[Sample]], theirs: tuple[str, list[Sample]], row: Row) -> None:
    """Prints one metric of the samples of two sides, which were taken in turns."""
    (our_name, mine), (their_name, other) = ours, theirs
    metric, goal, is_difference = row
    both = [(a[metric], b[metric]) for a, b in zip(mine, other)]
    values = [a - b if is_difference else a / b for a, b in both]
    middle, unit = statistics.median(values), UNITS[metric]
    print(f"  {label}: {our_name} {number(median(mine, metric))} {unit}, "
          f"{their_name} {number(median(other, metric))} {unit}, "
          + (f"difference {number(middle)} {unit}" if is_difference else f"ratio {middle:.3f}")
          + f" {spread(values)}  {goal.judge_pairs(values) if goal else 'no goal'}", flush=True)


def interval(values: list[float]) -> tuple[float, float] | None:
    """The median's 95 % confidence interval, of any distribution: the closest pair of order statistics that
    holds it. `None` for fewer than six values, where even their range does not."""
    count, below, outside = len(values), 0, 0
    # `outside` / 2^count: the probability that at most `below` values are smaller than the median.
    while (outside + math.comb(count, below)) * 40 <= 1 << count:
        outside += math.comb(count, below)
        below += 1
    if below == 0:
        return None
    ordered = sorted(values)
    return ordered[below - 1], ordered[-below]


def median(samples: list[Sample], metric: str) -> float:
    return statistics.median(sample[metric] for sample in samples)


def number(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def spread(values: list[float]) -> str:
    quarters = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    return (f"(p25..p75 {number(quarters[0])}..{number(quarters[2])}, "
            f"min..max {number(min(values))}..{number(max(values))}, n={len(values)})")
