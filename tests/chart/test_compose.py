"""deploy/: the load balancer's configuration in a real HAProxy, every service of Compose, and the systemd unit."""

import contextlib
import http.server
import json
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import unittest
from pathlib import Path

import yaml

from support import PATIENCE, ROOT, request

DEPLOY = ROOT / "deploy"
HAPROXY = shutil.which("haproxy", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")
ANALYZE = shutil.which("systemd-analyze")


class Replica(http.server.BaseHTTPRequestHandler):
    """Answers every request, and its health check, with 200."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, *_):
        """HAProxy closes the connections of its health checks early, which is no error here."""


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def adapted(port, replica, most):
    """deploy/haproxy.cfg on `port`, in front of one server, without names to look up; a client may send `most` requests."""
    lines, in_resolvers = [], False
    for line in (DEPLOY / "haproxy.cfg").read_text().splitlines():
        if line and not line.startswith((" ", "#")):
            in_resolvers = line.startswith("resolvers")
        words = line.split()
        if in_resolvers or (words[:1] == ["server"] and words[1] != "handbill-1"):
            continue
        if words[:1] == ["bind"]:
            line = f"    bind 127.0.0.1:{port}"
        elif words[:1] == ["server"]:
            line = f"    server handbill-1 127.0.0.1:{replica}"
        elif words[:1] == ["maxconn"]:
            line = "    maxconn 200"
        line = re.sub(r"sc0_http_req_rate\(per_address\) gt \d+", f"sc0_http_req_rate(per_address) gt {most}", line)
        lines.append(line.replace("check port 9090", f"check port {replica}").split(" resolvers ")[0])
    return "\n".join(lines) + "\n"


@contextlib.contextmanager
def balancer(most=1000):
    """A HAProxy in front of one server. Yields its address, the server, and the file with its log."""
    with tempfile.TemporaryDirectory() as folder, Server(("127.0.0.1", 0), Replica) as server:
        threading.Thread(target=server.serve_forever).start()
        port, file, log = free_port(), Path(folder, "haproxy.cfg"), Path(folder, "log")
        file.write_text(adapted(port, server.server_port, most))
        with log.open("wb") as out:
            process = subprocess.Popen([HAPROXY, "-db", "-f", file], stdout=out, stderr=subprocess.STDOUT)
            try:
                address, end = f"http://127.0.0.1:{port}", time.monotonic() + PATIENCE
                while True:
                    assert process.poll() is None and time.monotonic() < end, log.read_text()
                    with contextlib.suppress(OSError):
                        if request("GET", f"{address}/load-balancer-health")[0] == 200:
                            break
                    time.sleep(0.05)
                yield address, server, log
            finally:
                process.terminate()
                process.wait(PATIENCE)
                server.shutdown()


@unittest.skipUnless(HAPROXY, "HAProxy is not installed")
class Balancer(unittest.TestCase):
    def test_one_address_cannot_ask_without_end_and_is_told_when_to_come_back(self):
        with balancer(most=20) as (address, _, _):
            answers = [request("GET", f"{address}/a-page-22222222") for _ in range(40)]
        statuses = [status for status, _ in answers]
        self.assertEqual(statuses[:10], [200] * 10)
        self.assertEqual(statuses[-1], 429)
        body = json.loads(answers[-1][1])
        self.assertEqual(body["error"], "rate_limited")
        self.assertIn("10 seconds", body["message"])

    def test_the_access_log_says_what_came_of_a_request_and_not_which_page_or_who(self):
        with balancer() as (address, _, log):
            key = "hbk_" + "a" * 43
            request("GET", f"{address}/secret-page-22222222?key={key}", Authorization=f"Bearer {key}")
            end = time.monotonic() + PATIENCE
            # Questions about the load balancer's own health are logged too, and not always before.
            while '"server":"handbill-1"' not in log.read_text():
                self.assertLess(time.monotonic(), end, log.read_text())
                time.sleep(0.05)
            text = log.read_text()
        lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        of_page = [line for line in lines if line["server"] == "handbill-1"]
        self.assertEqual(len(of_page), 1, text)
        self.assertEqual((of_page[0]["method"], of_page[0]["status"], of_page[0]["client"]), ("GET", 200, "127.0.0.0"))
        for secret in ("secret-page", "hbk_", "key=", "127.0.0.1\""):
            self.assertNotIn(secret, text)

    def test_its_health_is_that_of_its_replicas(self):
        with balancer() as (address, server, _):
            server.shutdown()
            server.server_close()
            end = time.monotonic() + PATIENCE
            while request("GET", f"{address}/load-balancer-health")[0] != 503:
                self.assertLess(time.monotonic(), end)
                time.sleep(0.05)


class Compose(unittest.TestCase):
    def test_every_service_is_started_again_and_its_log_is_bounded(self):
        for name, service in yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"].items():
            with self.subTest(name):
                self.assertEqual(service["restart"], "no" if name == "migrate" else "unless-stopped")
                self.assertEqual(set(service["logging"]["options"]), {"max-size", "max-file"})

    def test_every_service_that_others_wait_for_has_a_health_check(self):
        services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
        image = (DEPLOY / "Dockerfile").read_text()
        for name, service in services.items():
            for other, condition in service.get("depends_on", {}).items():
                if condition["condition"] == "service_healthy":
                    has_check = "healthcheck" in services[other] or (services[other]["image"] == "handbill" and "HEALTHCHECK" in image)
                    self.assertTrue(has_check, f"{name} waits for {other}")


@unittest.skipUnless(ANALYZE, "systemd is not installed")
class Unit(unittest.TestCase):
    def test_systemd_knows_every_line_and_finds_little_that_is_open(self):
        unit = DEPLOY / "handbill.service"
        done = subprocess.run([ANALYZE, "security", "--offline=true", "--threshold=15", unit], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        with tempfile.TemporaryDirectory() as folder:
            # The program is not installed here; any other stands in for it.
            copy = Path(folder, "handbill.service")
            copy.write_text(unit.read_text().replace("/usr/local/bin/handbill", "/bin/true"))
            done = subprocess.run([ANALYZE, "verify", "--man=no", copy], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
