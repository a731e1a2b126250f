"""Checks the chart with Helm and the schemas of Kubernetes, and that repeated text agrees."""

import json
import re
import unittest

import yaml

from support import BINARY, CHART, EXAMPLES, ROOT, TOOLS, render, run, succeed

KUBERNETES = "1.36.3"
# Settings that the chart makes of values of its own.
OWN = set(
    "listen admin-listen admin-socket base-url mcp-base-url store data-dir trusted-proxies drain-delay blocklist-file "
    "scylla-nodes scylla-keyspace scylla-datacenter scylla-consistency scylla-username scylla-password-file scylla-ca-file "
    "scylla-client-cert-file redis-url redis-username redis-password-file redis-ca-file".split()
)


def validate(manifests):
    schemas = f"{TOOLS}/schemas/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"
    return run("kubeconform", "-strict", "-summary", "-kubernetes-version", KUBERNETES, "-schema-location", schemas, "-", input=manifests)


def objects(example):
    return list(filter(None, yaml.safe_load_all(render(example))))


def pod(manifest):
    spec = manifest.get("spec", {})
    return spec.get("template", {}).get("spec") or (spec if manifest["kind"] == "Pod" else None)


def settings(command):
    return set(re.findall(r"\[env: (HANDBILL_[A-Z_]+)", succeed(BINARY, command, "--help")))


class Chart(unittest.TestCase):
    def test_helm_and_kubernetes_accept_every_example(self):
        for example in EXAMPLES:
            with self.subTest(example.name):
                succeed("helm", "lint", "--strict", "--quiet", CHART, "-f", example)
                done = validate(render(example))
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertIn("Skipped: 0", done.stdout)

    def test_a_field_that_kubernetes_does_not_know_is_found(self):
        good = render(CHART / "ci/everything-values.yaml")
        for there, wrong in (
            ("minReadySeconds: 5", "minReadySecond: 5"),
            ("averageUtilization: 70", 'averageUtilization: "70"'),
            ("sectionName: https", "section: https"),
            ('interval: "15s"', 'intervall: "15s"'),
        ):
            with self.subTest(wrong):
                self.assertIn(there, good)
                self.assertNotEqual(validate(good.replace(there, wrong)).returncode, 0)

    def test_every_pod_is_restricted_and_no_manifest_has_a_password(self):
        for example in EXAMPLES:
            for manifest in objects(example):
                if (spec := pod(manifest)) is None:
                    continue
                with self.subTest(example.name, kind=manifest["kind"]):
                    self.assertIs(spec["enableServiceLinks"], False)
                    self.assertIs(spec["automountServiceAccountToken"], False)
                    self.assertEqual(spec["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"})
                    container = next(each for each in spec["containers"] if "handbill:" in each["image"])
                    self.assertIs(container["securityContext"]["allowPrivilegeEscalation"], False)
                    self.assertIn("memory", container["resources"]["limits"])
                    passwords = [each["name"] for each in container.get("env", []) if "PASSWORD" in each["name"]]
                    self.assertEqual([name for name in passwords if not name.endswith("_FILE")], [])

    def test_settings_are_those_of_the_program(self):
        schema = json.loads((CHART / "values.schema.json").read_text())
        listed = schema["properties"]["settings"]["propertyNames"]["enum"]
        known = {name.removeprefix("HANDBILL_").lower().replace("_", "-") for name in settings("serve")}
        wanted = sorted(known - OWN)
        self.assertEqual(listed, wanted, f"put into values.schema.json:\n{json.dumps(wanted)}")

    def test_variables_are_those_of_the_program(self):
        known = settings("serve") | settings("migrate")
        given = {each["name"] for example in EXAMPLES for item in objects(example) if pod(item) for each in pod(item)["containers"][0].get("env", [])}
        self.assertEqual(given - known, set())

    def test_the_program_accepts_what_the_smallest_installations_give_it(self):
        for store in ("sqlite", "scylla"):
            (workload,) = [item for item in objects(CHART / f"ci/{store}-values.yaml") if item["kind"] in ("Deployment", "StatefulSet")]
            environment = {each["name"]: each["value"] for each in pod(workload)["containers"][0]["env"]}
            done = run(BINARY, "serve", "--check-config", env=environment)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_schema_is_closed_and_has_the_names_of_the_values(self):
        def walk(schema, values, path):
            if "properties" in schema:
                self.assertIs(schema["additionalProperties"], False, path)
                self.assertEqual(set(schema["properties"]) - {"global"}, set(values), path)
                for name, value in values.items():
                    walk(schema["properties"][name], value, f"{path}.{name}")

        walk(json.loads((CHART / "values.schema.json").read_text()), yaml.safe_load((CHART / "values.yaml").read_text()), "values")

    def test_the_program_the_chart_and_the_image_are_of_one_version(self):
        chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
        program = re.search(r'(?m)^version = "(.*)"$', (ROOT / "Cargo.toml").read_text())[1]
        image = re.search(r"(?m)^ARG VERSION=(.*)$", (ROOT / "deploy/Dockerfile").read_text())[1]
        newest = re.search(r"(?m)^## (\S+)", (ROOT / "CHANGELOG.md").read_text())[1]
        self.assertEqual([program] * 4, [chart["version"], chart["appVersion"], image, newest])

    def test_the_image_is_described_as_hadolint_advises(self):
        succeed("hadolint", "--no-color", ROOT / "deploy/Dockerfile")
