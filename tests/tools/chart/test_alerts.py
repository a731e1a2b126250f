"""Each alert fires when it should and not otherwise, by `promtool test rules`."""

import tempfile
import unittest
from typing import NamedTuple

import yaml

from support import RULES, succeed

WEB = {"job": "handbill", "namespace": "web", "service": "handbill-admin"}
STAGING, OTHER = WEB | {"namespace": "staging"}, WEB | {"namespace": "other"}
A, B, C, D = ({"instance": name} for name in "abcd")


class At(NamedTuple):
    """What is expected of an alert at a time: the labels of each time that it fires."""

    time: str
    alert: str
    fires: tuple = ()
    # Of rules with the same name, those of this severity. Without it, each of them fires.
    severity: str = ""
    # The number in its summary.
    value: str = ""


class Case(NamedTuple):
    name: str
    series: list
    expected: list
    interval: str = "1m"
    # The value of expressions: when, which, and how much.
    values: tuple = ()


def series(metric, values, labels=WEB, **more):
    inside = ",".join(f'{name}="{value}"' for name, value in (labels | more).items())
    return {"series": f"{metric}{{{inside}}}", "values": values}


def up(values, labels):
    return series("up", values, labels)


def store(operation, outcome, values, labels):
    return series("handbill_store_duration_seconds_count", values, labels, operation=operation, outcome=outcome)


def requests(method, route, status, values, labels=WEB):
    of = {"http_request_method": method, "http_route": route, "http_response_status_code": status}
    return series("http_server_request_duration_seconds_count", values, labels, **of)


def answers(method, route, status, values, in_time=None):
    """Requests, and how many of them were answered in time: all, if no number is given."""
    count = requests(method, route, status, values)
    return [count, {"series": count["series"].replace("_count{", '_bucket{le="0.25",'), "values": in_time or values}]


MINUTES = [
    Case(
        "a release with one of two replicas is not down",
        [up("1x10 0x20", WEB | A), up("1x30", WEB | B)],
        [At("20m", "HandbillDown")],
    ),
    Case(
        "no replica answers",
        [up("1x10 0x20", WEB | A)],
        # Two minutes without a replica may be a restart.
        [At("12m", "HandbillDown"), At("15m", "HandbillDown", (WEB,))],
    ),
    Case(
        "one release of two loses all its replicas",
        [
            # The release runs for 80 minutes, and then Prometheus finds none of its replicas.
            up("1x80 stale", WEB | A),
            up("1x200", STAGING | B),
            # A pod with another address replaces it, after half a minute without any pod.
            up("1x80 stale", OTHER | C),
            up("_x82 1x120", OTHER | D),
        ],
        [
            At("83m", "HandbillDown"),
            At("85m", "HandbillDown", (WEB,)),
            At("135m", "HandbillDown", (WEB,)),
            # The release may have been uninstalled on purpose, so the alert ends after an hour.
            At("145m", "HandbillDown"),
        ],
    ),
    Case("no replica was ever found", [up("1x30", {"job": "other"})], [At("10m", "HandbillDown", ({"job": "handbill"},))]),
    Case(
        "a store that is unreachable for two minutes, with requests",
        [
            series("handbill_store_available", "1x5 0x10", WEB | A),
            store("lookup", "active", "0+60x5 300x10", WEB | A),
            store("lookup", "unavailable", "0x5 0+60x10", WEB | A),
            series("handbill_store_available", "1x5 0 1x10", WEB | B),
        ],
        [At("7m", "HandbillStoreUnavailable"), At("10m", "HandbillStoreUnavailable", (WEB | A,))],
    ),
    Case(
        "a store that was never reached, so there are no requests",
        [series("handbill_store_available", "0x10", WEB | A)],
        [At("5m", "HandbillStoreUnavailable", (WEB | A,))],
    ),
    Case(
        "one call that failed before a quiet night",
        [
            series("handbill_store_available", "1x5 0x60", WEB | A),
            store("lookup", "active", "7x70", WEB | A),
            store("lookup", "unavailable", "0x5 1x60", WEB | A),
        ],
        [At("30m", "HandbillStoreUnavailable")],
    ),
    Case(
        "a full volume, which allows reads but no writes",
        [
            series("handbill_store_available", "1x60", WEB | A),
            store("lookup", "active", "0+60x60", WEB | A),
            store("insert_if_absent", "done", "0+2x10 20x50", WEB | A),
            store("insert_if_absent", "unavailable", "_x10 1+2x50", WEB | A),
        ],
        [At("15m", "HandbillStoreUnavailable"), At("50m", "HandbillStoreUnavailable", (WEB,))],
    ),
    Case(
        "some writes fail, and two failed before a quiet night",
        [
            store("compare_and_set", "unavailable", "0+2x40", WEB | A),
            # Another replica can write.
            store("compare_and_set", "done", "0+1x40", WEB | B),
            store("insert_if_absent", "unavailable", "0x5 2x40", STAGING | C),
            # Nothing is written here.
            store("lookup", "unavailable", "0+2x40", OTHER | D),
        ],
        [At("30m", "HandbillStoreUnavailable")],
    ),
    Case(
        "limits counted without Redis for half an hour, with a moment in between, where targets have no namespace",
        [
            series("handbill_rate_limit_fallback", "0x5 1x20 0 1x30", {"job": "handbill"} | A),
            series("handbill_rate_limit_fallback", "0x5 1x5 0x50", {"job": "handbill"} | B),
        ],
        [At("20m", "HandbillRateLimitFallback"), At("40m", "HandbillRateLimitFallback", ({"job": "handbill"} | A,))],
    ),
    Case(
        "a process that restarts again and again",
        [
            # The kernel kills this replica for its memory about every four minutes, and it restarts after 10, 20, 40, 80 and 160 s.
            # The address of its pod stays the same.
            series("process_start_time_seconds", "0x8 260x7 510x8 stale 795x7 stale stale 1110x7 stale _x4 1515x20", WEB | A),
            # A rollout: another pod with another address.
            series("process_start_time_seconds", "0x10 stale", WEB | B),
            series("process_start_time_seconds", "_x9 280x60", WEB | C),
            # Someone restarted it by hand.
            series("process_start_time_seconds", "0x10 stale 350x60", WEB | D),
        ],
        [At("10m", "HandbillRestarts"), At("20m", "HandbillRestarts", (WEB | A,), value="4")],
        # Two scrapes a minute. While nothing runs, scrapes fail and the series end.
        interval="30s",
    ),
    Case(
        "a record that cannot be read",
        # One damaged page that one reader met, and a replica whose counter never moves.
        [store("lookup", "unreadable", "0x30 1x120", WEB | A), store("lookup", "unreadable", "0x150", WEB | B)],
        [
            At("25m", "HandbillPageUnreadable"),
            At("40m", "HandbillPageUnreadable", (WEB | A,)),
            # The alert ends an hour after the last damaged record was read.
            At("120m", "HandbillPageUnreadable"),
        ],
    ),
    Case(
        "forwarding headers come from a proxy that is not trusted",
        [
            # This replica is behind a proxy that is not trusted.
            series("handbill_untrusted_forwarded_total", "0x30 0+60x60", WEB | A),
            requests("GET", "/{slug}", 200, "0+60x90", WEB | A),
            # This replica is without a proxy: a client sends the header now and then.
            series("handbill_untrusted_forwarded_total", "0+6x90", OTHER | B),
            requests("GET", "/{slug}", 200, "0+60x90", OTHER | B),
        ],
        [At("50m", "HandbillForwardedHeaderIgnored"), At("85m", "HandbillForwardedHeaderIgnored", (WEB,))],
    ),
    Case(
        "a blocklist that makes no sense, until it is corrected",
        [series("handbill_blocklist_stale", "0x10 1x20 0x10", WEB | A)],
        [
            At("14m", "HandbillBlocklistStale"),
            At("20m", "HandbillBlocklistStale", (WEB | A,)),
            At("35m", "HandbillBlocklistStale"),
        ],
    ),
    Case(
        "a backup two days ago, one an hour ago, and none",
        [
            series("handbill_last_backup_timestamp_seconds", "3600x60", WEB | A),
            series("handbill_last_backup_timestamp_seconds", "3600+3600x60", WEB | B),
            series("handbill_last_backup_timestamp_seconds", "0x60", WEB | C),
        ],
        [At("48h", "HandbillBackupMissing"), At("50h", "HandbillBackupMissing", (WEB | A,))],
        interval="1h",
    ),
    Case(
        "the same namespace in two clusters, of which one is down",
        [
            up("1x10 0x50", WEB | A | {"cluster": "east"}),
            up("1x60", WEB | B | {"cluster": "west"}),
            store("insert_if_absent", "unavailable", "0+2x60", WEB | A | {"cluster": "east"}),
            store("insert_if_absent", "done", "0+2x60", WEB | B | {"cluster": "west"}),
        ],
        [
            At("15m", "HandbillDown", (WEB | {"cluster": "east"},)),
            At("40m", "HandbillStoreUnavailable", (WEB | {"cluster": "east"},)),
        ],
    ),
    Case(
        "all requests are good, and refusals by contract and a pause are good",
        [
            *answers("GET", "/{slug}", 200, "0+100x120"),
            *answers("POST", "/api/pages", 429, "0+100x120"),
            *answers("POST", "/api/pages", 503, "0+50x120"),
            series("handbill_publishing_refusals_total", "0+50x120", reason="paused"),
        ],
        [At("90m", "HandbillErrorBudgetBurn")],
    ),
    # In the next three, nothing is older than the long windows, which therefore show the same as the short ones.
    Case(
        "one request of fifty fails, previews apart",
        [
            *answers("POST", "/", 201, "0+98x120"),
            *answers("POST", "/", 500, "0+2x120"),
            *answers("POST", "preview", 500, "0+100x120"),
        ],
        [At("90m", "HandbillErrorBudgetBurn", (WEB,))],
    ),
    Case(
        "one request of twenty is late",
        answers("GET", "/{slug}", 200, "0+100x120", in_time="0+95x120"),
        [At("90m", "HandbillErrorBudgetBurn", (WEB,))],
    ),
    Case(
        "calls of agents fail",
        [
            series("handbill_mcp_tool_calls_total", "0+95x120", tool="get_page", outcome="ok"),
            series("handbill_mcp_tool_calls_total", "0+5x120", tool="get_page", outcome="unavailable"),
        ],
        [At("90m", "HandbillErrorBudgetBurn", (WEB,))],
    ),
    Case(
        "one request fails in a quiet night",
        [*answers("GET", "/{slug}", 200, "0x30 1x10 2x80"), *answers("GET", "/{slug}", 500, "_x30 0x10 1x80")],
        [At("50m", "HandbillErrorBudgetBurn")],
    ),
]

# These are evaluated every five minutes, since every minute would take most of the work of all alerts.
DAYS = [
    Case(
        "creates stay paused for a day, and one replica restarts meanwhile",
        [series("handbill_paused", "1x100 0x2 1x300", WEB | A), series("handbill_paused", "1x400", WEB | B)],
        [At("23h", "HandbillPaused"), At("25h", "HandbillPaused", (WEB,))],
        interval="5m",
    ),
    Case(
        "one request of two hundred fails for days",
        [*answers("GET", "/{slug}", 200, "0+995x900"), *answers("GET", "/{slug}", 500, "0+5x900")],
        [At("72h", "HandbillErrorBudgetBurn", (WEB,), severity="ticket")],
        interval="5m",
        values=(("72h", "sum(round(handbill:errors:ratio30d, 0.001))", 0.005),),
    ),
]


def alerts(at):
    """What promtool expects, with the words of the rule and what Prometheus puts into them."""
    groups = yaml.safe_load(RULES.read_text())["groups"]
    for rule in (rule for group in groups for rule in group["rules"]):
        if rule.get("alert") == at.alert and at.severity in ("", rule["labels"]["severity"]):
            for labels in at.fires:
                filled = {"{{ $labels.instance }}": labels.get("instance", ""), "{{ $value }}": at.value}
                words = dict(rule["annotations"])
                for variable, value in filled.items():
                    words["summary"] = words["summary"].replace(variable, value)
                yield {"exp_labels": rule["labels"] | labels, "exp_annotations": words}


def tests(cases):
    for case in cases:
        yield {
            "name": case.name,
            "interval": case.interval,
            "input_series": case.series,
            "alert_rule_test": [{"eval_time": at.time, "alertname": at.alert, "exp_alerts": list(alerts(at))} for at in case.expected],
            "promql_expr_test": [
                {"eval_time": time, "expr": expression, "exp_samples": [{"labels": "{}", "value": value}]} for time, expression, value in case.values
            ],
        }


class Alerts(unittest.TestCase):
    def test_alerts_fire_when_they_should_and_not_otherwise(self):
        for interval, cases in (("1m", MINUTES), ("5m", DAYS)):
            # In the order of their dependencies. Otherwise chance decides which group is a step behind.
            order = ["handbill-slo", "handbill-slo-month", "handbill-alerts"]
            # The groups that are evaluated every 30 s would take twice the CPU time here.
            made = {"rule_files": [str(RULES)], "evaluation_interval": interval, "group_eval_order": order, "tests": list(tests(cases))}
            with self.subTest(interval), tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
                yaml.safe_dump(made, file)
                file.flush()
                succeed("promtool", "test", "rules", file.name)

    def test_every_alert_is_tested_both_ways(self):
        expected = [at for case in MINUTES + DAYS for at in case.expected]
        for group in yaml.safe_load(RULES.read_text())["groups"]:
            for rule in group["rules"]:
                if "alert" in rule:
                    fires = {bool(at.fires) for at in expected if at.alert == rule["alert"]}
                    self.assertEqual(fires, {True, False}, rule["alert"])
