"""The script of `helm test`: the life that it lives through, and that it makes no request twice, whatever it is answered."""

import contextlib
import http.server
import os
import tempfile
import threading
import unittest
from pathlib import Path

from support import CHART, PATIENCE, handbill, run

# curl's exit codes for what never was a request: no such name, nobody listens. And for a request that nobody answered in time.
NOT_RESOLVED, NOT_CONNECTED, TIMED_OUT = 6, 7, 28

# Stands before curl: ends with the codes of the file `codes`, one a call, and is curl itself where there is none left.
CURL = """#!/bin/sh
cd "${0%/*}"
echo called >>calls
code=$(sed -n 1p codes)
sed -i 1d codes
[ -z "$code" ] || exit "$code"
PATH=/usr/bin:/bin exec curl "$@"
"""
SLEEP = """#!/bin/sh
echo slept >>"${0%/*}/sleeps"
"""


def live(url, *codes):
    """Runs the script against `url`; its first calls of curl end with `codes` and make no request. Gives what it did, and how
    often it called curl and slept, which takes no time here."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("curl", CURL), ("sleep", SLEEP)):
            Path(folder, name).write_text(text)
            Path(folder, name).chmod(0o755)
        Path(folder, "codes").write_text("".join(f"{code}\n" for code in codes))
        Path(folder, "sleeps").touch()
        environment = {"HANDBILL_URL": url, "PATH": f"{folder}:{os.defpath}"}
        done = run("sh", CHART / "files/lifecycle.sh", env=environment, timeout=PATIENCE)
        return done, *(len(Path(folder, name).read_text().split()) for name in ("calls", "sleeps"))


@contextlib.contextmanager
def refusing(status):
    """A server that answers everything with `status`, and would have a client try again in an hour. Gives its address, and the
    list of the methods that it was asked by."""
    asked = []

    class Refusal(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            asked.append(self.command)
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Retry-After", "3600")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refusal) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()


class Lifecycle(unittest.TestCase):
    def test_the_life_of_a_page_that_helm_test_lives_through(self):
        with handbill() as (public, _):
            done, calls, sleeps = live(public)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("All of it works.", done.stdout)
        self.assertNotIn("hbk_", done.stdout + done.stderr)
        self.assertEqual((calls, sleeps), (6, 0))

    def test_it_waits_for_a_service_that_has_no_name_yet_or_leads_nowhere(self):
        with handbill() as (public, _):
            done, calls, sleeps = live(public, NOT_RESOLVED, NOT_CONNECTED, NOT_CONNECTED)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual((calls, sleeps), (9, 3))

    def test_it_waits_for_half_a_minute_at_most(self):
        done, calls, sleeps = live("http://handbill.invalid", *[NOT_CONNECTED] * 100)
        self.assertEqual(done.returncode, 1)
        self.assertIn("is not to be reached (curl's exit code 7)", done.stderr)
        self.assertEqual((calls, sleeps), (30, 29))

    def test_it_does_not_repeat_a_request_that_nobody_answered(self):
        done, calls, sleeps = live("http://handbill.invalid", TIMED_OUT)
        self.assertEqual(done.returncode, 1)
        self.assertIn("gave no answer (curl's exit code 28)", done.stderr)
        self.assertEqual((calls, sleeps), (1, 0))

    def test_it_fails_at_once_when_it_is_refused_and_says_what_to_do(self):
        for status, advice in (
            (429, "Wait until limits.window has passed, or raise limits.create"),
            (500, "the replicas' logs say why"),
            (503, "the replicas' logs say why"),
            (408, "answered 408 instead of 201"),
        ):
            with self.subTest(status), refusing(status) as (url, asked):
                done, _, sleeps = live(url)
                self.assertEqual(done.returncode, 1)
                self.assertIn(f"creating a page answered {status}", done.stderr)
                self.assertIn(advice, done.stderr)
                self.assertEqual((asked, sleeps), (["POST"], 0))
