"""The Compose profile `observe`, as far as it can be checked without Docker: what it mounts is there, what it names exists."""

import json
import unittest

import yaml

from support import DASHBOARDS, ROOT, RULES, succeed

DEPLOY = ROOT / "deploy"


def load(path):
    return yaml.safe_load((DEPLOY / path).read_text())


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
