"""Checks the chart with Helm and the schemas of Kubernetes, and that repeated text agrees."""

import concurrent.futures
import functools
import json
import re
import tempfile
import unittest
from pathlib import Path

import jsonschema
import kubernetes_validate
import yaml

from support import BINARY, CHART, EXAMPLES, ROOT, TOOLS, certificate, render, run, succeed

KUBERNETES = "1.36"
# Settings that the chart makes of values of its own.
OWN = set(
    "listen admin-listen admin-socket base-url mcp-base-url store data-dir trusted-proxies blocklist-file "
    "scylla-nodes scylla-keyspace scylla-datacenter scylla-consistency scylla-username scylla-password-file scylla-ca-file "
    "scylla-client-cert-file redis-url redis-username redis-password-file redis-ca-file".split()
)


def closed(schema):
    """The schema of a custom resource, closed to fields that it does not name."""
    schema = dict(schema)
    if "properties" in schema:
        schema["properties"] = {name: closed(field) for name, field in schema["properties"].items()}
        schema.setdefault("additionalProperties", bool(schema.get("x-kubernetes-preserve-unknown-fields")))
    elif isinstance(schema.get("additionalProperties"), dict):
        schema["additionalProperties"] = closed(schema["additionalProperties"])
    if "items" in schema:
        schema["items"] = closed(schema["items"])
    return schema


@functools.cache
def custom_resource(kind, version):
    """The schema of a kind that the Gateway API or the Prometheus operator defines."""
    # YAML 1.1 gives a lone "=" a special meaning. Here it is plain text.
    yaml.CSafeLoader.add_constructor("tag:yaml.org,2002:value", lambda loader, node: node.value)
    texts = [path.read_text() for path in (TOOLS / "resources").glob("*.yaml")]
    (text,) = [text for text in texts if f"\n    kind: {kind}\n" in text]
    spec = yaml.load(text, yaml.CSafeLoader)["spec"]
    return next(closed(each["schema"]["openAPIV3Schema"]) for each in spec["versions"] if f"{spec['group']}/{each['name']}" == version)


def validate(manifest):
    """Raises an error at a field or a value that Kubernetes would not accept."""
    try:
        kubernetes_validate.validate(manifest, KUBERNETES, strict=True)
    except kubernetes_validate.SchemaNotFoundError:
        # This checks no schema, since some have regular expressions of Go.
        jsonschema.Draft202012Validator(custom_resource(manifest["kind"], manifest["apiVersion"])).validate(manifest)
        # All resources share these fields.
        kubernetes_validate.validate({"apiVersion": "v1", "kind": "ConfigMap", "metadata": manifest["metadata"]}, KUBERNETES, strict=True)


def objects(example):
    return read(render(example))


def read(manifests):
    return list(filter(None, yaml.safe_load_all(manifests)))


def pod(manifest):
    spec = manifest.get("spec", {})
    spec = spec.get("jobTemplate", {}).get("spec", spec)
    return spec.get("template", {}).get("spec") or (spec if manifest["kind"] == "Pod" else None)


def check(manifests, folder):
    """Runs the chart's check as its Job would, with files of its own in place of Secrets and ConfigMaps."""
    folder = Path(folder)
    if not (folder / "tls.key").exists():
        certificate(folder)
        (folder / "ca.crt").write_text((folder / "tls.crt").read_text())
        (folder / "blocklist").write_text("spam.example\n")
        (folder / "password").write_text("secret")
    (job,) = [item for item in read(manifests) if item["metadata"]["name"].endswith("-check")]
    (container,) = pod(job)["containers"]
    environment = {each["name"]: re.sub(r"/etc/handbill/[a-z-]+", str(folder), each.get("value", "name")) for each in container["env"]}
    return run(BINARY, *container["args"], env=environment)


def settings(command):
    return set(re.findall(r"\[env: (HANDBILL_[A-Z_]+)", succeed(BINARY, command, "--help")))


class Chart(unittest.TestCase):
    def test_helm_and_kubernetes_accept_every_example(self):
        for example in EXAMPLES:
            succeed("helm", "lint", "--strict", "--quiet", CHART, "-f", example)
            for manifest in objects(example):
                with self.subTest(example.name, kind=manifest["kind"]):
                    validate(manifest)

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
                with self.assertRaises(jsonschema.ValidationError):
                    list(map(validate, read(good.replace(there, wrong))))

    def test_every_pod_is_restricted_and_no_manifest_has_a_password(self):
        for example in EXAMPLES:
            for manifest in objects(example):
                if (spec := pod(manifest)) is None:
                    continue
                with self.subTest(example.name, kind=manifest["kind"]):
                    self.assertIs(spec["enableServiceLinks"], False)
                    self.assertIs(spec["automountServiceAccountToken"], False)
                    self.assertEqual(spec["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"})
                    ours = [each for each in spec.get("initContainers", []) + spec["containers"] if "handbill:" in each["image"]]
                    self.assertEqual(len(ours), 1)
                    self.assertIs(ours[0]["securityContext"]["allowPrivilegeEscalation"], False)
                    self.assertIn("memory", ours[0]["resources"]["limits"])
                    passwords = [each["name"] for each in ours[0].get("env", []) if "PASSWORD" in each["name"]]
                    self.assertEqual([name for name in passwords if not name.endswith("_FILE")], [])

    def test_settings_are_those_of_the_program(self):
        schema = json.loads((CHART / "values.schema.json").read_text())
        listed = list(schema["properties"]["settings"]["properties"])
        known = {name.removeprefix("HANDBILL_").lower().replace("_", "-") for name in settings("serve")}
        wanted = sorted(known - OWN)
        self.assertEqual(listed, wanted, f"put into values.schema.json:\n{json.dumps(wanted)}")

    def test_variables_are_those_of_the_program(self):
        known = settings("serve") | settings("migrate")
        given = {each["name"] for example in EXAMPLES for item in objects(example) if pod(item) for each in pod(item)["containers"][0].get("env", [])}
        self.assertEqual(given - known, {"POD"})

    def test_the_check_accepts_every_example(self):
        with tempfile.TemporaryDirectory() as folder:
            for example in EXAMPLES:
                done = check(render(example), folder)
                self.assertEqual(done.returncode, 0, f"{example.name}: {done.stderr}")

    def test_a_setting_that_the_program_refuses_is_refused_before_a_pod(self):
        wrong = (
            "abuse-contact=nobody,allowed-hosts=a b,cache-size=lots,create-limit=many,create-limit=100001,edge-max-age=1h,edit-limit=-1,"
            "limit-networks=10.0.0.0/8,log=a=b=c,log-format=xml,max-connections=0,noindex-all=perhaps,otlp-endpoint=collector,"
            "rate-window=0s,redis-mode=x,redis-sentinel-master=one,redis-timeout=1h,site-links=privacy,token-limit=1.5,drain-delay=soon,drain-timeout=1h"
        ).split(",")
        with tempfile.TemporaryDirectory() as folder:
            for setting in wrong:
                with self.subTest(setting):
                    rendered = run("helm", "template", "handbill", CHART, "-f", CHART / "ci/sqlite-values.yaml", "--set-string", f"settings.{setting}")
                    name = setting.partition("=")[0]
                    if rendered.returncode == 0:
                        done = check(rendered.stdout, folder)
                        self.assertEqual(done.returncode, 2, done.stderr)
                        self.assertIn(f"--{name}", done.stderr)
                    else:
                        self.assertIn(f"'/settings/{name}'", rendered.stderr)

    def test_a_key_without_a_value_crashes_no_template(self):
        def keys(values, above=""):
            for name, value in values.items():
                yield above + name
                if isinstance(value, dict):
                    yield from keys(value, f"{above}{name}.")

        def fault(case):
            example, key = case
            done = run("helm", "template", "handbill", CHART, "-f", CHART / f"ci/{example}-values.yaml", "--set", f"{key}=null")
            clean = done.returncode == 0 or re.search("do not fit together|meet the specifications", done.stderr)
            return None if clean else f"{example}: {key}: {done.stderr}"

        names = list(keys(yaml.safe_load((CHART / "values.yaml").read_text())))
        cases = [(example, name) for example in ("sqlite", "everything") for name in names]
        with concurrent.futures.ThreadPoolExecutor() as pool:
            self.assertEqual([found for found in pool.map(fault, cases) if found], [])

    def test_the_schema_is_closed_and_has_the_names_of_the_values(self):
        def walk(schema, values, path):
            if "properties" in schema:
                self.assertIs(schema["additionalProperties"], False, path)
                # `settings` has those that operators change often.
                listed = set(schema["properties"]) - {"global"}
                self.assertEqual(listed & set(values) if path == "values.settings" else listed, set(values), path)
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
