"""The rules and dashboards: Prometheus can read them, the metrics and labels they use exist, and with a real Handbill every panel has data."""

import json
import pathlib
import re
import tempfile
import time
import unittest
import urllib.parse

import yaml

import promql
from support import CHART, DASHBOARD, PATIENCE, ROOT, RULES, handbill, prometheus, render, request, run, scrape, succeed, use

# Metrics of Prometheus itself.
FOREIGN = {"up"}
# Labels that Prometheus or its operator adds to every series.
TARGET_LABELS = {"cluster", "job", "namespace", "service", "instance"}
# Labels with values that all appear after light use. Values of other labels, such as statuses, appear only after failures.
SERVED = {"http_route", "http_request_method", "le", "tool"}

# Panels without data while nothing fails.
EMPTY_WHILE_WELL = {"Store failures and lost races", "Time since the last backup"}


def groups():
    return yaml.safe_load(RULES.read_text())["groups"]


def rules():
    return [rule for group in groups() for rule in group["rules"]]


def panels():
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"].replace("$__rate_interval", "1m")


def expressions():
    yield from ((rule.get("record") or rule["alert"], rule["expr"]) for rule in rules())
    yield from panels()


def ask(server, expression):
    # Grafana's variables as they are without a choice.
    expression = re.sub(r"\$(cluster|namespace|release|instance)\b", ".*", expression)
    status, body = request("GET", f"{server}/api/v1/query?{urllib.parse.urlencode({'query': expression})}")
    answer = json.loads(body)
    assert status == 200, answer
    # A quotient without data is NaN, which a panel does not show.
    return [sample for sample in answer["data"]["result"] if sample["value"][1] != "NaN"]


class Rules(unittest.TestCase):
    def test_a_window_that_counts_errors_knows_their_interval(self):
        # sum_over_time(… per second …) * 30 is a number of errors only if the rate is recorded every 30 s.
        counted = {"handbill:errors:rate5m", "handbill:requests:rate5m"}
        intervals = {group["interval"] for group in groups() if any(rule.get("record") in counted for rule in group["rules"])}
        self.assertEqual(intervals, {"30s"})

    def test_every_alert_says_who_acts_and_is_in_the_runbook(self):
        headings = re.findall(r"^## (\w+)$", (ROOT / "docs/runbook.md").read_text(), re.MULTILINE)
        alerts = [rule for rule in rules() if "alert" in rule]
        self.assertEqual(sorted(headings), sorted({rule["alert"] for rule in alerts}))
        for rule in alerts:
            self.assertIn(rule["labels"]["severity"], {"page", "ticket"})
            self.assertEqual(rule["annotations"]["runbook_url"], f"docs/runbook.md#{rule['alert'].lower()}")
            self.assertTrue(rule["annotations"]["summary"])

    def test_every_grouping_keeps_the_cluster(self):
        # A grouping without the label would add up the same namespace of several clusters, and alerts would not say which.
        for rule in rules():
            for inside in re.findall(r"\b(?:by|on)\s*\(([^()]*)\)", rule["expr"]):
                labels = [label.strip() for label in inside.split(",")]
                self.assertIn("cluster", labels, rule.get("record") or rule["alert"])

    def test_the_chart_installs_them_with_links_to_the_runbook(self):
        options = ["--set", "prometheusRule.runbookUrl=https://wiki.example/runbook"]
        made = yaml.safe_load_all(render(CHART / "ci/everything-values.yaml", *options))
        (rule,) = [manifest for manifest in made if manifest and manifest["kind"] == "PrometheusRule"]
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            yaml.safe_dump(rule["spec"], file)
            file.flush()
            succeed("promtool", "check", "rules", file.name)
        links = [each["annotations"]["runbook_url"] for group in rule["spec"]["groups"] for each in group["rules"] if "alert" in each]
        self.assertEqual({link.split("#")[0] for link in links}, {"https://wiki.example/runbook"})


class Dashboards(unittest.TestCase):
    def test_every_expression_can_be_narrowed_to_a_release(self):
        for where, expression in panels():
            for name, matchers in promql.selectors(expression):
                for label, variable in (("cluster", "cluster"), ("namespace", "namespace"), ("service", "release")):
                    self.assertIn((label, "=~", f"${variable}"), matchers, f"{where}: {name}")
        names = [variable["name"] for variable in json.loads(DASHBOARD.read_text())["templating"]["list"]]
        self.assertEqual(names, ["datasource", "cluster", "namespace", "release", "instance"])

    def test_panels_have_their_own_place_and_say_what_they_show(self):
        taken = set()
        for panel in json.loads(DASHBOARD.read_text())["panels"]:
            where = panel["gridPos"]
            cells = {(x, y) for x in range(where["x"], where["x"] + where["w"]) for y in range(where["y"], where["y"] + where["h"])}
            self.assertFalse(taken & cells, panel["title"])
            taken |= cells
            self.assertTrue(panel["type"] == "row" or panel["description"], panel["title"])


class Metrics(unittest.TestCase):
    """Every metric and label that rules and dashboards use exists in a scrape."""

    @classmethod
    def setUpClass(cls):
        cls.series = promql.series(scrape())
        cls.labels = {}
        for name, labels in cls.series:
            cls.labels.setdefault(name, set()).update(labels)
        cls.recorded = {rule["record"] for rule in rules() if "record" in rule}

    def test_promtool_reads_both_forms(self):
        with handbill() as (public, admin), tempfile.TemporaryDirectory() as folder:
            use(public)
            _, text = request("GET", f"{admin[0]}/metrics", Accept="*/*")
            _, openmetrics = request("GET", f"{admin[0]}/metrics", Accept="application/openmetrics-text")
            # `check metrics` reads text 0.0.4 alone. Its reader of OpenMetrics wants a time with each sample.
            timed = re.sub(r"(?m)^([^#\n{ ]+(?:\{.*\})? \S+)$", r"\1 1700000000", openmetrics)
            pathlib.Path(f"{folder}/scrape").write_text(timed)
            succeed("promtool", "tsdb", "create-blocks-from", "openmetrics", f"{folder}/scrape", folder)
        done = run("promtool", "check", "metrics", input=text)
        # 3 is for advice on names, which the stability of the names forbids to follow.
        self.assertIn(done.returncode, (0, 3), done.stdout + done.stderr)
        self.assertNotIn("error while linting", done.stderr)

    def test_every_metric_exists(self):
        self.assertGreater(len(self.series), 100)
        asked = {name for _, expression in expressions() for name in promql.metrics(expression)}
        self.assertEqual(asked - set(self.labels) - self.recorded - FOREIGN, set())

    def test_every_label_exists(self):
        for where, expression in expressions():
            for name, matchers in promql.selectors(expression):
                if name in self.labels:
                    asked = {label for label, _, _ in matchers} - TARGET_LABELS
                    self.assertEqual(asked - self.labels[name], set(), f"{where}: {name}")
            names = promql.metrics(expression)
            if names <= set(self.labels):
                known = set().union(*(self.labels[name] for name in names)) | TARGET_LABELS
                self.assertEqual(promql.grouping_labels(expression) - known, set(), where)

    def test_the_objectives_count_what_is_served(self):
        # The rules would not count a renamed route, and so its objective could never be missed.
        for where, expression in ((rule["record"], rule["expr"]) for rule in rules() if "record" in rule):
            for name, matchers in promql.selectors(expression):
                if name not in self.labels:
                    continue
                matchers = [matcher for matcher in matchers if matcher[0] in SERVED]
                for label, operator, value in matchers:
                    for alternative in value.split("|") if operator == "=~" else [value]:
                        hit = any(
                            promql.matches(labels, [(label, operator, alternative)])
                            for series, labels in self.series
                            if series == name
                        )
                        self.assertTrue(hit, f"{where}: nothing has {label}={alternative}")
                hit = any(series == name and promql.matches(labels, matchers) for series, labels in self.series)
                self.assertTrue(hit, f"{where}: {matchers}")


class Prometheus(unittest.TestCase):
    def test_every_panel_shows_something_and_no_alert_fires(self):
        wanted = {where: expression for where, expression in panels() if where not in EMPTY_WHILE_WELL}
        empty = [expression for where, expression in panels() if where in EMPTY_WHILE_WELL]
        self.assertGreater(len(wanted), 10)
        # The limit on edits is low, so that some are refused. The limit on creates is higher than this test needs.
        with handbill("--edit-limit=20", "--create-limit=10000") as (public, admin), prometheus(admin) as server:
            # A rate needs two scrapes with a change between them, so the use goes on until every panel has data.
            end = time.monotonic() + PATIENCE
            while wanted:
                self.assertLess(time.monotonic(), end, f"panels without data: {sorted(wanted)}")
                use(public)
                wanted = {where: expression for where, expression in wanted.items() if not ask(server, expression)}
                time.sleep(0.2)
            for expression in empty:
                ask(server, expression)
            # The machine may be too slow for the objective. The rules are not at fault then.
            self.assertEqual(ask(server, 'ALERTS{alertstate="firing",alertname!="HandbillErrorBudgetBurn"}'), [])
            _, rules = request("GET", f"{server}/api/v1/rules")
            health = {rule["name"]: rule["health"] for group in json.loads(rules)["data"]["groups"] for rule in group["rules"]}
            self.assertEqual(set(health.values()), {"ok"}, health)
