"""Runs one scenario with k6 and reads which thresholds were kept."""

import json
import os
import re
import subprocess
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[1]

class Run:
    """A run of a scenario that has ended."""

    def __init__(self, k6, scenario, environment, folder, further=()):
        script = SCRIPTS / f"{scenario}.js"
        environment = {**{name: os.environ[name] for name in ("RATE", "DURATION") if name in os.environ}, **environment}
        variables = [part for name, value in environment.items() for part in ("-e", f"{name}={value}")]
        summary = folder / f"{scenario}.json"
        # k6's own API gets no address, since every k6 on the machine would use the same port.
        quiet = ["--quiet", "--no-usage-report", "--address", "", "--summary-export", summary]
        with open(folder / f"{scenario}.k6", "wb") as log:
            command = [k6, "run", *quiet, *further, *variables, script]
            ended = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT)
        # 99 means that a threshold was missed.
        if ended.returncode not in (0, 99) or not summary.exists():
            raise SystemExit(f"k6 did not run {scenario}: {(folder / f'{scenario}.k6').read_text()[-3000:]}")
        self.metrics = json.loads(summary.read_text())["metrics"]

    def missed(self):
        """The thresholds that were missed, each with its metric and the measured value."""
        missed = []
        for name, metric in self.metrics.items():
            for threshold, crossed in metric.get("thresholds", {}).items():
                if crossed:
                    came_to = metric.get(re.match(r"[^<>=!]+", threshold).group(0), metric.get("value"))
                    missed.append(f"{name} {threshold}: {came_to}")
        return missed

    def durations(self, tag):
        """Milliseconds of requests with a tag, by percentile, and their `count`; `None` without such requests."""
        found = self.metrics.get(f"http_req_duration{{{tag}}}")
        return found if found and found.get("count") else None

    def count(self, metric):
        found = self.metrics.get(metric, {})
        return int(found.get("count", found.get("fails", 0)))

    def failed(self, kind):
        """Requests of a kind that were answered 5xx or not at all. k6 counts a value that is true as a pass of the rate."""
        return int(self.metrics.get(f"failed{{kind:{kind}}}", {}).get("passes", 0))

    def phases(self):
        """Names of the phases in their order, if there are any."""
        names = {re.match(r"done\{phase:(.*)\}$", name) for name in self.metrics}
        return sorted(name.group(1) for name in names if name)
