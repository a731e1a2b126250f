"""The Compose profile `observe`, as far as it can be checked without Docker: the files it mounts and the names it uses exist."""

import json
import socket
import time
import unittest
import urllib.parse

import yaml

from support import DASHBOARDS, PATIENCE, ROOT, RULES, expand, handbill, prometheus, request, succeed

DEPLOY = ROOT / "deploy"
# The only metric that has exemplars.
TRACED = "http_server_request_duration_seconds_bucket"


def load(path):
    return yaml.safe_load((DEPLOY / path).read_text())


def traced_panels():
    """The panels that show how long requests take."""
    for path in DASHBOARDS:
        for panel in json.loads(path.read_text())["panels"]:
            targets = panel.get("targets", [])
            if any(TRACED in target["expr"] for target in targets) and panel["type"] == "timeseries":
                yield panel


class Observe(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.compose = load("compose.yaml")
        services = cls.compose["services"]
        cls.services = {name: service for name, service in services.items() if "observe" in service.get("profiles", [])}

    def test_it_brings_all_four(self):
        self.assertEqual(set(self.services), {"collector", "prometheus", "grafana", "jaeger"})

    def test_everything_that_is_mounted_is_there(self):
        mounted = set()
        for name, service in self.compose["services"].items():
            for volume in service.get("volumes", []):
                source = volume.split(":")[0]
                if source.startswith("."):
                    mounted.add((DEPLOY / source).resolve())
                    self.assertTrue((DEPLOY / source).exists(), f"{name}: {source}")
                else:
                    self.assertIn(source, self.compose["volumes"], name)
        self.assertTrue({path.parent for path in [*RULES, *DASHBOARDS]} <= mounted)

    def test_nothing_is_published_beyond_this_machine(self):
        for name, service in self.compose["services"].items():
            for port in service.get("ports", []):
                self.assertTrue(port.startswith("127.0.0.1:"), f"{name}: {port}")

    def test_prometheus_reads_its_settings_and_finds_every_replica_under_the_name_that_rules_look_for(self):
        succeed("promtool", "check", "config", "--syntax-only", DEPLOY / "observe/prometheus.yaml")
        (job,) = load("observe/prometheus.yaml")["scrape_configs"]
        self.assertEqual(job["job_name"], "handbill")
        replicas = {name for name in self.compose["services"] if name == "handbill" or name.startswith("handbill-")}
        self.assertEqual(set(job["dns_sd_configs"][0]["names"]), replicas)

    def test_prometheus_keeps_exemplars_and_where_it_keeps_everything(self):
        # A command replaces the image's own, which consists of the first two options.
        command = ["--config.file=/etc/prometheus/prometheus.yml", "--storage.tsdb.path=/prometheus", "--enable-feature=exemplar-storage"]
        self.assertEqual(self.services["prometheus"]["command"], command)
        mounted = {volume.split(":")[1] for volume in self.services["prometheus"]["volumes"]}
        self.assertLessEqual({option.split("=")[1] for option in command[:2]}, mounted)

    def test_a_point_among_the_durations_leads_to_a_trace(self):
        label = self.link()["name"]
        features = [option for option in self.services["prometheus"]["command"] if option.startswith("--enable-feature=")]
        asked = [target["expr"] for panel in traced_panels() for target in panel["targets"] if target["exemplar"]]
        expression = next(expression for expression in asked if "GET|HEAD" in expression)
        expression = expand(expression, "1m")
        trace = "4bf92f3577b34da6a3ce929d0e0e4736"
        # A collector that takes connections and never answers. Exemplars do not need an answer.
        with socket.create_server(("127.0.0.1", 0)) as collector:
            # Handbill continues only the traces of trusted proxies.
            options = ["--otlp-endpoint=http://127.0.0.1:%d" % collector.getsockname()[1], "--drain-timeout=0s"]
            options += ["--trusted-proxies=127.0.0.0/8"]
            with handbill(*options) as (public, admin), prometheus(admin, *features) as server:
                end, found = time.monotonic() + PATIENCE, set()
                while trace not in found:
                    self.assertLess(time.monotonic(), end, f"exemplars have no such {label}: {found}")
                    request("GET", f"{public}/api/pages/nothing-22222222", traceparent=f"00-{trace}-00f067aa0ba902b7-01")
                    query = urllib.parse.urlencode({"query": expression, "start": 0, "end": time.time() + PATIENCE})
                    _, answer = request("GET", f"{server}/api/v1/query_exemplars?{query}")
                    series = json.loads(answer)["data"]
                    found = {exemplar["labels"].get(label) for each in series for exemplar in each["exemplars"]}
                    time.sleep(0.2)

    def test_every_panel_of_how_long_requests_take_asks_for_exemplars_once(self):
        # One query of each panel asks for exemplars, since every query of a panel would return the same ones.
        panels = list(traced_panels())
        self.assertGreaterEqual(len(panels), 3)
        for panel in panels:
            asks = [target.get("exemplar") for target in panel["targets"]]
            self.assertEqual((asks.count(True), asks.count(False)), (1, len(asks) - 1), panel["title"])

    def test_grafana_looks_for_the_traces_of_exemplars_where_traces_are(self):
        sources = {source["uid"]: source["type"] for source in load("observe/grafana/datasources.yaml")["datasources"]}
        self.assertEqual(sources[self.link()["datasourceUid"]], "jaeger")

    def link(self):
        """The link from an exemplar to its trace, of the one data source with exemplars."""
        sources = load("observe/grafana/datasources.yaml")["datasources"]
        (source,) = [source for source in sources if source["type"] == "prometheus"]
        (link,) = source["jsonData"]["exemplarTraceIdDestinations"]
        return link

    def test_the_collector_names_what_it_has(self):
        collector = load("observe/collector.yaml")
        for pipeline in collector["service"]["pipelines"].values():
            for part, names in pipeline.items():
                self.assertEqual(set(names) - set(collector[part]), set())
        self.assertIn(collector["exporters"]["otlp/jaeger"]["endpoint"].split(":")[0], self.services)

    def test_grafana_has_the_kind_of_source_that_dashboards_ask_for(self):
        kinds = {source["type"] for source in load("observe/grafana/datasources.yaml")["datasources"]}
        for path in DASHBOARDS:
            variables = json.loads(path.read_text())["templating"]["list"]
            self.assertIn(next(v["query"] for v in variables if v["type"] == "datasource"), kinds)
        (provider,) = load("observe/grafana/dashboards.yaml")["providers"]
        self.assertTrue(any(provider["options"]["path"] in volume for volume in self.services["grafana"]["volumes"]))
