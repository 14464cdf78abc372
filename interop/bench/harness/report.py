"""From measured runs to tables: medians over the rounds, their spread, and ratios of runs of the same round."""

import statistics


class Figures:
    """The runs of one bench: for each scenario and contestant a list of measurements, one for each round."""

    def __init__(self, columns):
        self.columns = columns  # key, heading, decimals
        self.runs = {}
        self.reasons = {}

    def add(self, scenario, contestant, measured):
        self.runs.setdefault(scenario, {}).setdefault(contestant, []).append(measured)

    def explain(self, scenario, contestant, reason):
        """Why there are no figures of this contestant."""
        self.runs.setdefault(scenario, {})
        self.reasons.setdefault(scenario, {})[contestant] = reason

    def values(self, scenario, contestant, key):
        """One value for each round; None where that run failed."""
        return [run and run.get(key) for run in self.runs[scenario].get(contestant, [])]

    def ratios(self, scenario, one, other, key):
        """`one` over `other`, round by round: neighbours in time share the machine's mood."""
        pairs = zip(self.values(scenario, one, key), self.values(scenario, other, key))
        return [a / b for a, b in pairs if a and b]

    def summary(self, pairs):
        """Medians, spread and ratios as plain data, for JSON."""
        def spread(values):
            values = [v for v in values if v is not None]
            return values and {"median": statistics.median(values), "min": min(values), "max": max(values)}
        return {scenario: {
            "contestants": {name: {key: spread(self.values(scenario, name, key)) for key, *_ in self.columns}
                            for name in contestants},
            "ratios": {f"{a}/{b}": {key: spread(self.ratios(scenario, a, b, key)) for key, *_ in self.columns}
                       for a, b in pairs if a in contestants and b in contestants},
            "runs": contestants,
            "absent": self.reasons.get(scenario, {}),
        } for scenario, contestants in self.runs.items()}

    def table(self, pairs):
        """The same for people: `median (min-max)`."""
        rows = []
        for scenario, data in self.summary(pairs).items():
            rows.append([scenario] + [heading for _, heading, _ in self.columns])
            for name, figures in data["contestants"].items():
                rows.append(["  " + name] + [_cell(figures[key], decimals) for key, _, decimals in self.columns])
            rows += [[f"  {name}: {reason}"] for name, reason in data["absent"].items()]
            for name, figures in data["ratios"].items():
                rows.append(["  " + name] + [_cell(figures[key], 2, "x") for key, *_ in self.columns])
            rows.append([])
        widths = [max((len(row[i]) for row in rows if i < len(row)), default=0) for i in range(len(self.columns) + 1)]
        return "\n".join("  ".join([row[0].ljust(widths[0])] + [c.rjust(w) for c, w in zip(row[1:], widths[1:])])
                         if row else "" for row in rows)


def _cell(spread, decimals, unit=""):
    if not spread:
        return "-"
    median, low, high = (f"{spread[k]:,.{decimals}f}" for k in ("median", "min", "max"))
    return f"{median}{unit}" if low == high else f"{median}{unit} ({low}-{high})"


def rotated(items, by):
    """The items in an order that starts elsewhere each round, so that nobody always runs first."""
    items = list(items)
    by %= len(items) or 1
    return items[by:] + items[:by]
