"""The rules and dashboards in a real Prometheus that scrapes a real Handbill: every panel has data, and no alert fires."""

import json
import time
import unittest
import urllib.parse

from support import PATIENCE, expand, handbill, prometheus, request, use
from test_monitoring import panels

# Panels without data while nothing fails.
EMPTY_WHILE_WELL = {"Store failures and lost races", "Time since the last backup"}


def ask(server, expression):
    expression = expand(expression, "1m")
    status, body = request("GET", f"{server}/api/v1/query?{urllib.parse.urlencode({'query': expression})}")
    answer = json.loads(body)
    assert status == 200, answer
    # A quotient without data is NaN, which a panel does not show.
    return [sample for sample in answer["data"]["result"] if sample["value"][1] != "NaN"]


class Prometheus(unittest.TestCase):
    def test_every_panel_shows_something_and_no_alert_fires(self):
        wanted = {where: expression for where, expression in panels() if where not in EMPTY_WHILE_WELL}
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
            # The machine may be too slow for the objective. The rules are not at fault then.
            self.assertEqual(ask(server, 'ALERTS{alertstate="firing",alertname!="HandbillErrorBudgetBurn"}'), [])
            _, rules = request("GET", f"{server}/api/v1/rules")
            health = {rule["name"]: rule["health"] for group in json.loads(rules)["data"]["groups"] for rule in group["rules"]}
            self.assertEqual(set(health.values()), {"ok"}, health)
