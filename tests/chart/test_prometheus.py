"""The rules and dashboards in a real Prometheus that scrapes a real Handbill: every panel shows something, no alert fires."""

import json
import os
import time
import unittest
import urllib.parse

from support import PATIENCE, handbill, prometheus, request, use
from test_monitoring import panels

# Empty as long as all is well.
EMPTY_WHILE_WELL = {"5xx by route", "Failed calls", "Lost races"}
# Empty where pages are in a database of many nodes, as those of one that runs already may be.
OF_THE_EMBEDDED_STORE = {"Writes in one commit"}


def ask(server, expression):
    expression = expression.replace("$__rate_interval", "1m").replace("$namespace", ".*").replace("$instance", ".*")
    status, body = request("GET", f"{server}/api/v1/query?{urllib.parse.urlencode({'query': expression})}")
    answer = json.loads(body)
    assert status == 200, answer
    # A rate of nothing is no number, and nothing to see.
    return [sample for sample in answer["data"]["result"] if sample["value"][1] != "NaN"]


class Prometheus(unittest.TestCase):
    def test_every_panel_shows_something_and_no_alert_fires(self):
        empty = EMPTY_WHILE_WELL | (OF_THE_EMBEDDED_STORE if "HANDBILL_RUNNING" in os.environ else set())
        wanted = {
            where: expression
            for where, expression in panels()
            if where.split(": ")[1] not in empty
        }
        self.assertGreater(len(wanted), 20)
        # So few edits that some are refused, and more creates than this takes.
        with handbill("--edit-limit=20", "--create-limit=10000") as (public, admin), prometheus(admin) as server:
            # Counts begin with a first scrape and show with a second, so what is used must go on being used.
            end = time.monotonic() + PATIENCE
            while wanted:
                self.assertLess(time.monotonic(), end, f"they stay empty: {sorted(wanted)}")
                use(public)
                wanted = {where: expression for where, expression in wanted.items() if not ask(server, expression)}
                time.sleep(0.2)
            # A machine may be too slow for the objectives of latency; that is no fault of the rules.
            self.assertEqual(ask(server, 'ALERTS{alertstate="firing",slo!~".*-latency"}'), [])
            _, rules = request("GET", f"{server}/api/v1/rules")
            health = {rule["name"]: rule["health"] for group in json.loads(rules)["data"]["groups"] for rule in group["rules"]}
            self.assertEqual(set(health.values()), {"ok"}, health)
