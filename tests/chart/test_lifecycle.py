"""The script of `helm test`: it goes through the life of a page and never repeats a request, whatever the answer is."""

import contextlib
import http.server
import os
import tempfile
import threading
import unittest
from pathlib import Path

from support import CHART, PATIENCE, handbill, run

# curl's exit codes: the host name has no address, nothing listens, no answer in time. With the first two no request was sent.
NOT_RESOLVED, NOT_CONNECTED, TIMED_OUT = 6, 7, 28

# A wrapper of curl: each call ends with the next code of the file `codes`. When none is left, it calls curl itself.
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
    """Runs the script against `url`. Its first calls of curl end with `codes` and send no request; its sleeps take no time.
    Returns the finished process and the numbers of calls of curl and of sleeps."""
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
    """A server that answers every request with `status` and `Retry-After: 3600`. Yields its address and the list of the methods
    of its requests."""
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
        self.assertIn("All checks passed.", done.stdout)
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
        self.assertIn("cannot be reached (curl's exit code 7)", done.stderr)
        self.assertEqual((calls, sleeps), (30, 29))

    def test_it_does_not_repeat_a_request_that_nobody_answered(self):
        done, calls, sleeps = live("http://handbill.invalid", TIMED_OUT)
        self.assertEqual(done.returncode, 1)
        self.assertIn("gave no answer (curl's exit code 28)", done.stderr)
        self.assertEqual((calls, sleeps), (1, 0))

    def test_it_fails_at_once_when_it_is_refused_and_says_what_to_do(self):
        for status, advice in (
            (429, "Wait until limits.window has passed, or raise limits.create"),
            (500, "read the replicas' logs"),
            (503, "read the replicas' logs"),
            (408, "answered 408 instead of 201"),
        ):
            with self.subTest(status), refusing(status) as (url, asked):
                done, _, sleeps = live(url)
                self.assertEqual(done.returncode, 1)
                self.assertIn(f"creating a page answered {status}", done.stderr)
                self.assertIn(advice, done.stderr)
                self.assertEqual((asked, sleeps), (["POST"], 0))
