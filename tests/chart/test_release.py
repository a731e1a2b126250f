"""The parts of a release: the statement of provenance and the description of the Debian package."""

import json
import re
import subprocess
import tempfile
import tomllib
import unittest
from pathlib import Path

from support import ROOT

DIGEST = "ab" * 32


def provenance(root, image):
    return subprocess.run([root / "deploy/provenance", image], capture_output=True, text=True)


class Provenance(unittest.TestCase):
    def clone(self, folder):
        """A clean clone of what is committed, with the script as it is here."""
        clone = Path(folder, "clone")
        subprocess.run(["git", "clone", "-q", ROOT, clone], check=True)
        (clone / "deploy").mkdir(exist_ok=True)
        (clone / "deploy/provenance").write_bytes((ROOT / "deploy/provenance").read_bytes())
        (clone / "deploy/provenance").chmod(0o755)
        identity = ["-c", "user.name=test", "-c", "user.email=test@localhost"]
        subprocess.run(["git", "-C", clone, "add", "-A"], check=True)
        subprocess.run(["git", "-C", clone, *identity, "commit", "-q", "--allow-empty", "-m", "test"], check=True)
        return clone

    def test_it_names_the_image_the_commit_and_what_went_in(self):
        with tempfile.TemporaryDirectory() as folder:
            clone = self.clone(folder)
            made = provenance(clone, f"registry.example/handbill@sha256:{DIGEST}")
            self.assertEqual(made.returncode, 0, made.stderr)
            head = subprocess.run(["git", "-C", clone, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
        statement = json.loads(made.stdout)
        self.assertEqual(statement["_type"], "https://in-toto.io/Statement/v1")
        self.assertEqual(statement["predicateType"], "https://slsa.dev/provenance/v1")
        self.assertEqual(statement["subject"], [{"name": "registry.example/handbill", "digest": {"sha256": DIGEST}}])
        inputs = statement["predicate"]["buildDefinition"]["resolvedDependencies"]
        self.assertIn({"name": "source", "digest": {"gitCommit": head}}, inputs)
        names = {each["name"] for each in inputs}
        self.assertLessEqual({"Cargo.lock", "deploy/Dockerfile"}, names)
        self.assertTrue(any(name.startswith("rust:") for name in names), names)

    def test_a_base_image_that_is_pinned_is_named_with_its_digest(self):
        with tempfile.TemporaryDirectory() as folder:
            clone = self.clone(folder)
            dockerfile = clone / "deploy/Dockerfile"
            dockerfile.write_text(re.sub(r"(?m)^ARG RUST_IMAGE=[^@\n]*", rf"\g<0>@sha256:{DIGEST}", (ROOT / "deploy/Dockerfile").read_text()))
            subprocess.run(["git", "-C", clone, "-c", "user.name=test", "-c", "user.email=test@localhost", "commit", "-qam", "pin"], check=True)
            made = provenance(clone, f"registry.example/handbill@sha256:{DIGEST}")
            self.assertEqual(made.returncode, 0, made.stderr)
        inputs = json.loads(made.stdout)["predicate"]["buildDefinition"]["resolvedDependencies"]
        base = next(each for each in inputs if each["name"].startswith("rust:"))
        self.assertEqual(base["digest"], {"sha256": DIGEST})

    def test_it_refuses_an_image_without_a_digest_and_a_tree_that_no_commit_describes(self):
        with tempfile.TemporaryDirectory() as folder:
            clone = self.clone(folder)
            refused = provenance(clone, "registry.example/handbill:0.3.0")
            self.assertEqual((refused.returncode, refused.stdout), (1, ""))
            self.assertIn("has no digest", refused.stderr)
            (clone / "Cargo.lock").write_text("changed")
            refused = provenance(clone, f"registry.example/handbill@sha256:{DIGEST}")
            self.assertEqual((refused.returncode, refused.stdout), (1, ""))
            self.assertIn("uncommitted changes", refused.stderr)


class Package(unittest.TestCase):
    def test_every_file_of_the_debian_package_exists_or_is_made(self):
        package = tomllib.loads((ROOT / "Cargo.toml").read_text())["package"]["metadata"]["deb"]
        script = (ROOT / "deploy/package").read_text()
        for source, target, _ in package["assets"]:
            with self.subTest(source):
                if source.startswith("target/package/"):
                    kind = source.rsplit(".", 1)[1]
                    self.assertRegex(script, r"manpage .*\$made/man1" if kind == "1" else rf"for shell in [a-z ]*\b{kind}\b")
                elif not source.startswith("target/release/"):
                    self.assertTrue((ROOT / source).exists())
        targets = {target for _, target, _ in package["assets"]}
        self.assertIn(package["conf-files"][0].lstrip("/"), targets)
        unit = (ROOT / package["systemd-units"]["unit-scripts"] / "handbill.service").read_text()
        self.assertIn(f"EnvironmentFile=-{package['conf-files'][0]}", unit)
        self.assertIn("ExecStart=/usr/bin/handbill serve", unit)

    def test_the_debian_package_has_the_script_for_hosted_agents_and_a_timer_that_nothing_enables(self):
        package = tomllib.loads((ROOT / "Cargo.toml").read_text())["package"]["metadata"]["deb"]
        modes = {f"/{target}": mode for _, target, mode in package["assets"]}
        service = (ROOT / "deploy/hosted-networks.service").read_text()
        script = re.search(r"^ExecStart=(\S+)", service, re.MULTILINE)[1]
        self.assertEqual(modes[script], "755")
        for unit in ("hosted-networks.service", "hosted-networks.timer"):
            self.assertIn(f"/usr/lib/systemd/system/{unit}", modes)
        self.assertEqual(package["systemd-units"]["unit-name"], "handbill")
        document = (ROOT / "docs/hosted-agents.md").read_text()
        for path in (script, "/usr/share/handbill/hosted-agents.json"):
            self.assertIn(path, modes)
            self.assertIn(path, document)

    def test_the_image_and_the_downloads_have_a_bill_of_materials_by_the_same_version(self):
        image, script = ((ROOT / "deploy" / name).read_text() for name in ("Dockerfile", "package"))
        version = re.search(r"cargo-cyclonedx@(\S+)", image)[1]
        self.assertIn(f"CARGO_CYCLONEDX_VERSION={version}\n", script)

    def test_the_settings_that_are_shown_are_settings(self):
        shown = set(re.findall(r"^#(HANDBILL_[A-Z_]+)=", (ROOT / "deploy/handbill.env").read_text(), re.MULTILINE))
        document = (ROOT / "docs/settings.md").read_text()
        self.assertTrue(shown)
        for name in shown:
            self.assertIn(f"`{name}`", document)
