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
NOT_RESOLVED, NOT_CONNECTED, TIMED_OUT = "6 0", "7 0", "28 1"
# The look for the name, or the connection, took too long.
NOT_IN_TIME = "28 0"

# A wrapper of curl: each call takes some seconds and ends with the next line of the file `codes`, its exit code and number of
# connections. When none is left, it calls curl itself.
CURL = """#!/bin/sh
cd "${0%/*}"
echo called >>calls
read -r code connections <codes
sed -i 1d codes
[ -z "$code" ] || { seq "$SECONDS_OF_CALL" >>seconds; printf '\\n%s 000\\n' "$connections"; exit "$code"; }
PATH=/usr/bin:/bin exec curl "$@"
"""
SLEEP = """#!/bin/sh
echo slept | tee -a "${0%/*}/sleeps" >>"${0%/*}/seconds"
"""
# The seconds that calls and sleeps should have taken.
DATE = """#!/bin/sh
wc -l <"${0%/*}/seconds"
"""


def live(url, *codes, seconds=0):
    """Runs the script against `url`. Its first calls of curl end with `codes` after `seconds` of its clock and send no request; in
    truth they and its sleeps take no time. Returns the finished process and the numbers of calls of curl and of sleeps."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("curl", CURL), ("sleep", SLEEP), ("date", DATE)):
            Path(folder, name).write_text(text)
            Path(folder, name).chmod(0o755)
        Path(folder, "codes").write_text("".join(f"{code}\n" for code in codes))
        for name in ("sleeps", "seconds"):
            Path(folder, name).touch()
        environment = {"HANDBILL_URL": url, "PATH": f"{folder}:{os.defpath}", "SECONDS_OF_CALL": str(seconds)}
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
            done, calls, sleeps = live(public, NOT_RESOLVED, NOT_CONNECTED, NOT_IN_TIME)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual((calls, sleeps), (9, 3))

    def test_it_waits_for_half_a_minute_at_most(self):
        done, calls, sleeps = live("http://handbill.invalid", *[NOT_CONNECTED] * 100)
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot be reached (curl's exit code 7)", done.stderr)
        self.assertEqual((calls, sleeps), (31, 30))

    def test_it_waits_no_longer_if_each_look_for_the_name_takes_long(self):
        for code in (NOT_RESOLVED, NOT_IN_TIME):
            with self.subTest(code):
                done, calls, sleeps = live("http://handbill.invalid", *[code] * 100, seconds=10)
                self.assertEqual(done.returncode, 1)
                self.assertIn("check DNS", done.stderr)
                self.assertEqual((calls, sleeps), (3, 2))

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
