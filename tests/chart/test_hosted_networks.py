"""deploy/hosted-networks: published networks of hosted agents, in the form of `networks/`, become a file of tiers."""

import json
import os
import tempfile
import unittest
from pathlib import Path

from support import BINARY, CHART, ROOT, run

SCRIPT = ROOT / "deploy/hosted-networks"
LISTS = Path(__file__).parent / "networks"
SHARED = {"create": 1000, "edit": 6000}


class HostedNetworks(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.file = self.folder / "tiers.json"

    def tiers(self, *networks):
        """Writes a file of tiers: `openai` with these networks, and one of the operator's own."""
        own = {"name": "own", "networks": ["203.0.113.7", "23.98.128.0/17"], "shared": {"create": 0, "edit": 0}}
        openai = {"name": "openai", "networks": list(networks), "shared": SHARED, "subject": {"create": 10, "edit": 60}}
        self.file.write_text(json.dumps([own, openai]))

    def list_of(self, *networks):
        """A published list with these networks of IPv4."""
        path = self.folder / "list.json"
        path.write_text(json.dumps({"prefixes": [{"ipv4Prefix": network} for network in networks]}))
        return path

    def networks(self):
        return next(tier["networks"] for tier in json.loads(self.file.read_text()) if tier["name"] == "openai")

    def update(self, *sources):
        return run(SCRIPT, self.file, *(f"openai={source}" for source in sources))

    def assert_refused(self, source, reason):
        before = self.file.read_bytes()
        done = self.update(source)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn(reason, done.stderr)
        self.assertEqual(self.file.read_bytes(), before)
        self.assertEqual([path.name for path in self.folder.iterdir() if path.name.startswith(".")], [])

    def test_a_published_list_becomes_the_networks_of_its_tier_and_nothing_else_changes(self):
        self.tiers()
        os.chmod(self.file, 0o640)
        done = self.update(LISTS / "ipv4.json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        # The last two networks are neighbours, so they are one.
        expected = ["20.194.1.208/28", "23.98.142.176/28", "40.84.221.208/28", "104.210.139.192/27"]
        self.assertEqual(self.networks(), expected)
        own, openai = json.loads(self.file.read_text())
        self.assertEqual((own["name"], own["networks"]), ("own", ["203.0.113.7", "23.98.128.0/17"]))
        self.assertEqual((openai["shared"], openai["subject"]), (SHARED, {"create": 10, "edit": 60}))
        self.assertEqual(self.file.stat().st_mode & 0o777, 0o640)
        checked = run(BINARY, "serve", "--check-config", env={"HANDBILL_LIMIT_TIERS_FILE": str(self.file)})
        self.assertEqual((checked.returncode, checked.stderr), (0, ""))

    def test_ipv6_is_taken_and_a_network_that_is_smaller_than_a_client_is_left_out(self):
        self.tiers()
        self.assertEqual(self.update(LISTS / "both.json").returncode, 0)
        self.assertEqual(self.networks(), ["52.190.137.144/28", "2a01:111:f100::/48"])

    def test_a_file_is_replaced_in_one_step_and_only_if_something_has_changed(self):
        self.tiers()
        kept = self.folder / "kept"
        os.link(self.file, kept)
        before = kept.read_bytes()
        self.assertEqual(self.update(LISTS / "ipv4.json").returncode, 0)
        # The old file was not written to: another one has taken its name.
        self.assertEqual(kept.read_bytes(), before)
        written = self.file.stat()
        done = self.update(LISTS / "ipv4.json")
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        self.assertEqual((self.file.stat().st_ino, self.file.stat().st_mtime_ns), (written.st_ino, written.st_mtime_ns))

    def test_a_list_that_shrank_by_more_than_half_is_refused(self):
        four = ["20.0.0.0/28", "20.1.0.0/28", "20.2.0.0/28", "20.3.0.0/28"]
        self.tiers(*four)
        self.assert_refused(self.list_of(*four[:1]), "shrank from 4 networks to 1")
        self.assertEqual(self.update(self.list_of(*four[:2])).returncode, 0)
        self.assertEqual(self.networks(), four[:2])
        # One large network holds most addresses.
        self.tiers("20.0.0.0/20", *four[1:])
        self.assert_refused(self.list_of(*four[1:]), "more than half of the tier's IPv4 addresses")
        self.tiers("2a01:111:f100::/48", *four)
        self.assert_refused(self.list_of(*four), "more than half of the tier's IPv6 addresses")
        # The same addresses in fewer networks are no smaller list.
        self.tiers("20.0.0.0/30", "20.0.0.4/30", "20.0.0.8/30", "20.0.0.12/30")
        self.assertEqual(self.update(self.list_of("20.0.0.0/28")).returncode, 0)

    def test_an_operator_takes_a_smaller_list_by_emptying_the_tier(self):
        self.tiers()
        self.assertEqual(self.update(self.list_of("20.0.0.0/28")).returncode, 0)
        self.assertEqual(self.networks(), ["20.0.0.0/28"])

    def test_a_list_with_a_network_that_no_host_has_is_refused(self):
        self.tiers("20.0.0.0/28")
        for network in ("0.0.0.0/0", "20.0.0.0/15", "10.0.0.0/28", "127.0.0.1/32", "169.254.0.0/28", "100.64.0.0/24", "224.0.1.0/28"):
            with self.subTest(network):
                self.assert_refused(self.list_of("20.0.0.0/28", network), "is not a network of one host in the Internet")
        self.assert_refused(self.list_of("20.0.0.0/28", "23.98.128.0/17"), "23.98.128.0/17 is in another tier too")

    def test_a_text_of_another_form_is_refused(self):
        self.tiers("20.0.0.0/28")
        path = self.folder / "list.json"
        for text in (
            "", "<html>", "[]", "{}", '{"prefixes": 7}', '{"prefixes": ["20.0.0.0/28"]}', '{"prefixes": [{"cidr": "20.0.0.0/28"}]}',
            '{"prefixes": [{"ipv4Prefix": "20.0.0.1/28"}]}', '{"prefixes": [{"ipv4Prefix": "everyone"}]}', "[" * 100_000, "\xff",
        ):  # fmt: skip
            with self.subTest(text[:40]):
                path.write_text(text, encoding="latin-1")
                self.assert_refused(path, "it is not of the form that is known")
        path.write_text('{"prefixes": [{"ipv4Prefix": 340000000}]}')
        self.assert_refused(path, "a network that is no text")
        path.write_text('{"prefixes": []}')
        self.assert_refused(path, "it is empty")
        path.write_text(" " * (1 << 20) + "{}")
        self.assert_refused(path, "it has over 1048576 bytes")
        self.assert_refused(self.list_of(*["20.0.0.0/28"] * 5001), "it has over 5000 networks")
        self.assert_refused(self.folder / "absent", "it cannot be read")
        self.assert_refused("http://agents.example/list.json", "is not https")

    def test_one_list_that_is_refused_does_not_keep_another_from_being_written(self):
        self.tiers()
        done = run(SCRIPT, self.file, "nobody=/nowhere", f"openai={self.list_of('20.0.0.0/28')}")
        self.assertEqual(done.returncode, 1)
        self.assertIn("the file has no tier of this name", done.stderr)
        self.assertEqual(self.networks(), ["20.0.0.0/28"])

    def test_what_is_no_file_of_tiers_is_left_alone(self):
        for text in ("", "{}", "[7]", '[{"name": "openai"}]', '[{"name": "openai", "networks": ["everyone"]}]'):
            with self.subTest(text):
                self.file.write_text(text)
                done = self.update(LISTS / "ipv4.json")
                self.assertEqual((done.returncode, self.file.read_text()), (1, text))
                self.assertNotIn("Traceback", done.stderr)

    def test_the_defaults_of_hosted_agents_are_good_tiers(self):
        defaults = CHART / "files/hosted-agents.json"
        checked = run(BINARY, "serve", "--check-config", env={"HANDBILL_LIMIT_TIERS_FILE": str(defaults)})
        self.assertEqual((checked.returncode, checked.stderr), (0, ""))
        self.file.write_bytes(defaults.read_bytes())
        self.assertEqual(self.update(LISTS / "ipv4.json").returncode, 0)
