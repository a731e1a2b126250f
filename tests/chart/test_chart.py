"""Checks the chart with Helm and the schemas of Kubernetes, and checks that generated and repeated text agrees."""

import base64
import json
import re
import shutil
import tempfile
import unittest
from pathlib import Path

import yaml

from support import BINARY, CHART, EXAMPLES, ROOT, TOOLS, handbill, render, run, succeed

KUBERNETES = "1.36.3"
# Kinds of the databases' operators, whose schemas no package registry has. Only ci/operators-values.yaml has them.
OF_OPERATORS = ["CassandraDatacenter", "RedisReplication", "RedisSentinel"]


def validate(manifests):
    schemas = f"{TOOLS}/schemas/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"
    options = ["-strict", "-summary", "-kubernetes-version", KUBERNETES, "-skip", ",".join(OF_OPERATORS), "-schema-location", schemas, "-"]
    return run("kubeconform", *options, input=manifests)


class Chart(unittest.TestCase):
    def test_helm_finds_nothing_to_say_about_any_example(self):
        for example in EXAMPLES:
            with self.subTest(example.name):
                succeed("helm", "lint", "--strict", "--quiet", CHART, "-f", example)

    def test_kubernetes_knows_every_field_of_every_example(self):
        for example in EXAMPLES:
            for options in ([], ["--is-upgrade"]):
                with self.subTest(example.name, options=options):
                    done = validate(render(example, *options))
                    self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                    # No other kind may be skipped. A kind without a schema is an error.
                    skipped = len(OF_OPERATORS) if example.name == "operators-values.yaml" else 0
                    self.assertIn(f"Skipped: {skipped}", done.stdout)

    def test_the_secrets_and_services_that_operators_make_are_those_that_the_pods_use(self):
        def objects(example):
            return [item for item in yaml.safe_load_all(render(CHART / f"ci/{example}-values.yaml")) if item]

        def secrets_of_pods(made):
            pods = [item["spec"]["template"]["spec"] for item in made if item["kind"] in ("Deployment", "Job")]
            mounted = {volume["secret"]["secretName"] for pod in pods for volume in pod["volumes"] if "secret" in volume}
            variables = [variable for pod in pods for variable in pod["containers"][0]["env"] if "valueFrom" in variable]
            return mounted | {each["valueFrom"]["secretKeyRef"]["name"] for each in variables if "secretKeyRef" in each["valueFrom"]}

        made = objects("external-secrets")
        self.assertEqual(secrets_of_pods(made), {item["spec"]["target"]["name"] for item in made if item["kind"] == "ExternalSecret"})
        made = objects("operators")
        found = {kind: next(item for item in made if item["kind"] == kind) for kind in OF_OPERATORS}
        cassandra, sentinels = found["CassandraDatacenter"], found["RedisSentinel"]
        cluster, datacenter = cassandra["spec"]["clusterName"], cassandra["metadata"]["name"]
        self.assertEqual(secrets_of_pods(made), {f"{cluster}-superuser"})
        deployment = next(item for item in made if item["kind"] == "Deployment")
        given = {each["name"]: each.get("value") for each in deployment["spec"]["template"]["spec"]["containers"][0]["env"]}
        self.assertEqual(given["HANDBILL_SCYLLA_NODES"], f"{cluster}-{datacenter}-service:9042")
        self.assertEqual(given["HANDBILL_SCYLLA_DATACENTER"], datacenter)
        self.assertEqual(given["HANDBILL_REDIS_URL"], f"redis://{sentinels['metadata']['name']}-sentinel:26379")
        replicated = sentinels["spec"]["redisSentinelConfig"]["redisReplicationName"]
        self.assertEqual(replicated, found["RedisReplication"]["metadata"]["name"])

    def test_the_chart_has_what_artifact_hub_shows(self):
        chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
        values = yaml.safe_load((CHART / "values.yaml").read_text())
        icon = (ROOT / "src/web/site/assets/favicon.svg").read_bytes()
        self.assertEqual(chart["icon"], "data:image/svg+xml;base64," + base64.b64encode(icon).decode())
        self.assertTrue(chart["keywords"] and chart["maintainers"] and chart["description"])
        cargo = (ROOT / "Cargo.toml").read_text()
        self.assertEqual(chart["annotations"]["artifacthub.io/license"], re.search(r'(?m)^license = "(.*)"$', cargo)[1])
        shown = [each["image"] for each in yaml.safe_load(chart["annotations"]["artifacthub.io/images"])]
        image = values["tests"]["image"]
        self.assertEqual(shown, [f"{image['repository']}:{image['tag']}"])

    def test_a_field_that_kubernetes_does_not_know_is_found(self):
        good = render(CHART / "ci/external-values.yaml")
        for there, wrong in (
            ("revisionHistoryLimit: 3", "revisionHistoryLimits: 3"),
            ("averageUtilization: 70", 'averageUtilization: "70"'),
            ("type: PathPrefix", "type: Prefix"),
            ('interval: "15s"', 'intervall: "15s"'),
        ):
            with self.subTest(wrong):
                manifests = good if there in good else render(CHART / "ci/external-sentinel-values.yaml")
                self.assertIn(there, manifests)
                self.assertNotEqual(validate(manifests.replace(there, wrong)).returncode, 0)

    def test_the_readme_is_made_of_the_values(self):
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "handbill"
            shutil.copytree(CHART, copy, ignore=shutil.ignore_patterns("README.md"))
            succeed("helm-docs", "--chart-search-root", copy, "--sort-values-order", "file")
            made = (copy / "README.md").read_text()
        self.assertNotRegex(made, r"(?m)^\| .*\|\s*\|$", "a value without a comment")
        self.assertEqual(
            (CHART / "README.md").read_text(), made, "make it again: helm-docs -c helm/handbill -s file (of tests/chart/install)"
        )

    def test_no_secret_stands_in_a_manifest_and_every_pod_is_held_to_the_same(self):
        for example in EXAMPLES:
            for manifest in filter(None, yaml.safe_load_all(render(example))):
                spec = manifest.get("spec", {})
                pod = spec.get("template", {}).get("spec") or (spec if manifest["kind"] == "Pod" else None)
                if pod is None:
                    continue
                with self.subTest(example.name, kind=manifest["kind"], name=manifest["metadata"]["name"]):
                    self.assertIs(pod["enableServiceLinks"], False)
                    self.assertIs(pod["automountServiceAccountToken"], False)
                    self.assertEqual(pod["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"})
                    for container in pod["containers"]:
                        self.assertIs(container["securityContext"]["allowPrivilegeEscalation"], False)
                        self.assertIn("memory", container["resources"]["limits"])
                        for variable in container.get("env", []):
                            if "PASSWORD" in variable["name"]:
                                self.assertTrue(variable["name"].endswith("_FILE"))

    def test_common_labels_and_annotations_are_on_every_object_and_every_pod(self):
        made = 0
        for options in ([], ["--is-upgrade"], ["--set", "mode=embedded,autoscaling.enabled=false,scylla.nodes=null,redis.urls=null"]):
            for manifest in filter(None, yaml.safe_load_all(render(CHART / "ci/everything-values.yaml", *options))):
                name = f"{manifest['kind']} {manifest['metadata']['name']}"
                if manifest["kind"] == "ConfigMap" and "dashboard" not in name:
                    continue
                made += 1
                pods = [manifest["spec"]["template"]["metadata"]] if "template" in manifest.get("spec", {}) else []
                for metadata in [manifest["metadata"], *pods]:
                    with self.subTest(name, options=options):
                        self.assertEqual(metadata["labels"]["team"], "publishing")
                        self.assertEqual(metadata["annotations"]["example.com/owner"], "publishing")
                        self.assertEqual(metadata["labels"]["app.kubernetes.io/instance"], "handbill")
                        self.assertTrue(manifest["metadata"]["name"].startswith("web-pages"))
        self.assertGreater(made, 40)

    def test_every_setting_that_the_chart_gives_is_one_of_the_program(self):
        # A keyspace is made by the command that migrates it.
        help_texts = succeed(BINARY, "serve", "--help") + succeed(BINARY, "migrate", "--help")
        known = set(re.findall(r"\[env: (HANDBILL_[A-Z_]+)", help_texts))
        self.assertGreater(len(known), 20)
        given = set()
        for example in EXAMPLES:
            # The pod of `helm test` is left out.
            objects = [item for item in yaml.safe_load_all(render(example)) if item and item["kind"] in ("Deployment", "Job")]
            given |= set(re.findall(r"\bHANDBILL_[A-Z_]+", json.dumps(objects)))
        self.assertEqual(given - known, set())

    def started_with(self, *options):
        """The refusal of the program, or an empty text, with the settings of a rendered Deployment; `None` if Helm refused the
        values."""
        done = run("helm", "template", "handbill", CHART, "-f", CHART / "ci/cluster-values.yaml", *options)
        if done.returncode:
            return None
        for manifest in yaml.safe_load_all(done.stdout):
            if manifest and manifest["kind"] == "Deployment":
                variables = manifest["spec"]["template"]["spec"]["containers"][0]["env"]
                environment = {variable["name"]: variable["value"] for variable in variables if "value" in variable}
                checked = run(BINARY, "serve", "--check-config", env=environment)
                self.assertIn(checked.returncode, (0, 2), checked.stderr)
                return checked.stderr
        self.fail("there is no Deployment")

    def test_values_that_render_start(self):
        embedded = ["--set", "mode=embedded,scylla.nodes=null,redis.urls=null"]
        for good in ([], embedded, [*embedded, "-f", CHART / "ci/embedded-existing-claim-values.yaml"]):
            with self.subTest(good):
                self.assertEqual(self.started_with(*good), "")
        for value in (
            "limits.window=32d", "limits.window=0s", "limits.window=1500ms", "limits.window=744h", "limits.window=1d2h3m4s", "limits.create=1000001",
            "memory=127MiB", "memory=128MiB", "memory=512", "memory=10XB", "memory=1025GiB",
            "log.filter=handbill=loud", "log.filter=info,handbill=debug", "log.filter=warn,tower_http[request]=trace", "log.filter=off",
            "allowedHosts={*}", "allowedHosts={a.example:8080}", "allowedHosts={https://a.example/path}", "allowedHosts={https://a.example}",
            "otlpEndpoint=collector:4318",
            "otlpEndpoint=http://user:secret@collector", "otlpEndpoint=http://collector:4318?a=b", "otlpEndpoint=https://collector/otlp",
            "otlpSampling=1.5", "otlpSampling=0.25", "trustedProxies={10.0.0.0/33}", "trustedProxies={fd00::/64,192.0.2.1}",
            "baseUrl=ftp://pages.example", "baseUrl=https://pages.example/blog", "baseUrl=http://[fd00::1]:8080", "baseUrl=https://pages.example:0",
            "drain.timeoutSeconds=3600", "listenHost=[::]", "limits.networks={10.0.0.0/8=16,2001:db8::/48=4096}", "limits.networks={none}",
            "limits.networks={10.0.0.0/40=2}", "limits.networks={10.0.0.0/8=0}", "limits.networks={10.0.0.0/8}", "limits.networks={2001:db8::/65=2}",
            "limits.networks={10.0.0.0/8=5000}",
            "moderation.abuseContact=abuse@pages.example",
            "moderation.abuseContact=nobody", "moderation.abuseContact=ftp://pages.example",
            "moderation.noindexAll=true",
            "redis.timeout=50ms", "redis.timeout=90s",
            "edge.maxAge=1m", "edge.maxAge=5m", "edge.maxAge=301s", "edge.maxAge=500ms",
        ):  # fmt: skip
            with self.subTest(value):
                # Commas separate values for Helm, except within braces.
                escaped = value if "{" in value else value.replace(",", "\\,")
                self.assertIn(self.started_with(*embedded, "--set", escaped), (None, ""))
        for value in (
            "nodes={db-1}", "nodes={db-1:0}", "nodes={db-1:65536}", "nodes={[fd00::1]:9042}", "keyspace=2nd", "keyspace=ok_2",
            "replicationFactor=0", "replicationFactor=33", "replicationFactor=5",
        ):  # fmt: skip
            own = ["--set", "scylla.nodes={db-1:9042}", "--set", f"scylla.{value}"]
            with self.subTest(value):
                self.assertIn(self.started_with(*own), (None, ""))

    def test_a_migration_has_a_name_of_its_own_for_whatever_it_runs(self):
        # The pod of a Job cannot be changed, and tools that only render the chart always see revision 1.
        def name(*options):
            for manifest in yaml.safe_load_all(render(CHART / "ci/external-values.yaml", *options)):
                if manifest and manifest["kind"] == "Job":
                    return manifest["metadata"]["name"]

        plain = name()
        for option in (
            "image.tag=9.9.9",
            "image.pullPolicy=Always",
            "imagePullSecrets[0].name=other",
            "nodeSelector.disk=fast",
            "tolerations[0].key=other",
            "serviceAccount.name=other",
            "podLabels.team=other",
            "extraEnv[0].value=full",
            "scylla.keyspace=other",
            "scylla.tls.caKey=other",
            "migrate.resources.limits.memory=1Gi",
        ):
            with self.subTest(option):
                self.assertNotEqual(name("--set-string", option), plain)
        with tempfile.TemporaryDirectory() as folder:
            copy = shutil.copytree(CHART, Path(folder) / "handbill")
            chart = copy / "Chart.yaml"
            chart.write_text(re.sub(r"(?m)^version: .*$", "version: 9.9.9", chart.read_text()))
            values = CHART / "ci/external-values.yaml"
            self.assertNotIn(f"name: {plain}", succeed("helm", "template", "handbill", copy, "-f", values))
        for option in ("migrate.backoffLimit=3", "limits.create=20", "deployment.labels.team=other"):
            with self.subTest(option):
                self.assertEqual(name("--set", option), plain)

    def test_the_program_the_chart_and_the_image_are_of_one_version(self):
        chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
        program = re.search(r'(?m)^version = "(.*)"$', (ROOT / "Cargo.toml").read_text())[1]
        image = re.search(r"(?m)^ARG VERSION=(.*)$", (ROOT / "deploy/Dockerfile").read_text())[1]
        newest = re.search(r"(?m)^## (\S+)", (ROOT / "CHANGELOG.md").read_text())[1]
        self.assertEqual([program] * 4, [chart["version"], chart["appVersion"], image, newest])
        documents = "".join(path.read_text() for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
        tags = re.findall(r"\bhandbill:([0-9]+\.[0-9]+\.[0-9]+)\b", documents)
        self.assertEqual(set(tags), {program}, "documents name an image of another version")

    def test_the_image_is_described_as_hadolint_advises(self):
        succeed("hadolint", "--no-color", ROOT / "deploy/Dockerfile")

    def test_the_image_can_build_the_libraries_before_it_has_any_other_source(self):
        with tempfile.TemporaryDirectory() as folder:
            copied = re.findall(r"(?m)^COPY (\S*Cargo\.toml) ", (ROOT / "deploy/Dockerfile").read_text())
            shutil.copy(ROOT / "Cargo.lock", folder)
            for manifest in set(copied):
                sources = Path(folder, manifest).parent / "src"
                sources.mkdir(parents=True)
                shutil.copy(ROOT / manifest, sources.parent)
                (sources / "lib.rs").touch()
            (Path(folder) / "src/main.rs").touch()
            # Cargo reads the whole manifest before it looks for the program, so nothing is compiled.
            done = run("cargo", "build", "--locked", "--offline", "--bin", "absent", cwd=folder)
            self.assertIn("no bin target named `absent`", done.stderr)


class Schema(unittest.TestCase):
    """values.schema.json and values.yaml have the same names, so that no value and no refusal is missing."""

    def setUp(self):
        self.schema = json.loads((CHART / "values.schema.json").read_text())
        self.values = yaml.safe_load((CHART / "values.yaml").read_text())

    def resolve(self, schema):
        if "$ref" in schema:
            return self.schema["definitions"][schema["$ref"].removeprefix("#/definitions/")]
        return schema

    def test_it_is_closed_at_every_level(self):
        # A schema of a Kubernetes object is open, since Kubernetes checks it. Its description says so.
        def walk(schema, path):
            if isinstance(schema, list):
                for item in schema:
                    walk(item, path)
            elif isinstance(schema, dict):
                is_left_open = "description" in schema and path != "$"
                if schema.get("type") == "object" and not is_left_open:
                    self.assertIn("additionalProperties", schema, path)
                for name, inner in schema.items():
                    walk(inner, f"{path}.{name}")

        walk(self.schema, "$")

    def test_it_names_every_value_and_nothing_else(self):
        def walk(schema, values, path):
            schema = self.resolve(schema)
            if not isinstance(values, dict) or "properties" not in schema:
                return
            named = set(schema["properties"])
            # A value that is left out on purpose, such as a CPU limit, can still be set.
            optional = named if path.endswith((".requests", ".limits", "resources", "Probe", ".timeouts", ".alerts")) else set(values)
            self.assertEqual(named, set(values) | (named & optional), path or "at the top")
            for name, value in values.items():
                walk(schema["properties"][name], value, f"{path}.{name}")

        walk(self.schema, self.values, "")
