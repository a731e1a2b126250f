"""deploy/: the configurations of nginx and Caddy with real requests, what Compose mounts and waits for, the systemd unit."""

import contextlib
import http.server
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
import time
import unittest
from pathlib import Path

import yaml

from support import PATIENCE, ROOT, TOOLS, certificate, free_port, request, started

DEPLOY = ROOT / "deploy"
PATH = "/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin"
NGINX, ANALYZE = shutil.which("nginx", path=PATH), shutil.which("systemd-analyze")


class Replica(http.server.BaseHTTPRequestHandler):
    """Answers with the header fields and the length of the body that arrived, and notes when it did."""

    protocol_version = "HTTP/1.1"

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.arrived.append(time.monotonic())
        text = json.dumps({"forwarded": self.headers.get_all("X-Forwarded-For"), "host": self.headers["Host"], "length": len(body)}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = answer

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def proxied(command, configuration):
    """Runs a proxy in front of a `Replica`. `configuration` makes the text of its file out of the replica's port, the proxy's port and a
    folder, `command` its command out of the file. Yields the proxy's port, the replica, and the folder."""
    with tempfile.TemporaryDirectory() as folder, http.server.ThreadingHTTPServer(("127.0.0.1", 0), Replica) as replica:
        replica.arrived = []
        threading.Thread(target=replica.serve_forever).start()
        port, file = free_port(), Path(folder, "configuration")
        file.write_text(configuration(replica.server_port, port, folder))
        environment = {**os.environ, "HOME": folder, "UPSTREAM": f"127.0.0.1:{replica.server_port}"}

        def is_ready(_):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                return True

        try:
            with started(command(file), is_ready, environment):
                yield port, replica, Path(folder)
        finally:
            replica.shutdown()


def nginx(**changed):
    """deploy/edge/nginx.conf as it is, but for its addresses, files and the values `changed`."""

    def configuration(replica, port, folder):
        text = (DEPLOY / "edge/nginx.conf").read_text()
        text = re.sub(r"\n.*listen \[::\]:443.*|(?m:^ +server \{ listen 80; .*$)", "", text)
        text = text.replace("listen 443 ssl", f"listen 127.0.0.1:{port} ssl").replace("server 127.0.0.1:8080", f"server 127.0.0.1:{replica}")
        text = text.replace("/etc/ssl/pages.example", "tls").replace("/var/log/nginx", ".").replace("20000", "2000").replace("8192", "1000")
        # The tests choose the client's address.
        text = text.replace("http {", "http { set_real_ip_from 127.0.0.1; real_ip_header X-Test;", 1)
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"):
            text = text.replace("http {", f"http {{ {name}_temp_path {name};", 1)
        for name, value in changed.items():
            text = re.sub(rf"\b{name} [^;]+;", f"{name} {value};", text)
        certificate(folder)
        user = "user root; " if os.geteuid() == 0 else ""
        return f"daemon off; {user}pid pid; error_log stderr;\n" + text

    return proxied(lambda file: [NGINX, "-p", file.parent, "-e", "stderr", "-c", file], configuration)


def connection(port):
    trusting = ssl._create_unverified_context()
    return http.client.HTTPSConnection("127.0.0.1", port, timeout=PATIENCE, context=trusting)


def half_sent(port, client_address="192.0.2.1"):
    """A connection with the first half of a create."""
    client = connection(port)
    client.putrequest("POST", "/api/pages")
    client.putheader("Content-Length", "10")
    client.putheader("X-Test", client_address)
    client.endheaders(b"half ")
    return contextlib.closing(client)


def ask(port, method="GET", path="/a-page-22222222", body=None, **headers):
    with contextlib.closing(connection(port)) as client:
        client.request(method, path, body, {"Host": "pages.example", **{name.replace("_", "-"): value for name, value in headers.items()}})
        answer = client.getresponse()
        return answer.status, answer.headers, answer.read()


@unittest.skipUnless(NGINX, "nginx is not installed")
class Nginx(unittest.TestCase):
    def test_it_replaces_what_clients_say_about_their_address(self):
        with nginx() as (port, _, _):
            status, _, body = ask(port, X_Forwarded_For="203.0.113.9", X_Test="192.0.2.1")
        self.assertEqual((status, json.loads(body)), (200, {"forwarded": ["192.0.2.1"], "host": "pages.example", "length": 0}))

    def test_one_client_has_a_share_of_connections(self):
        with nginx(limit_conn="connections 2") as (port, _, _), contextlib.ExitStack() as held:
            for number in (1, 2):
                held.enter_context(half_sent(port, f"2001:db8::{number}"))
            # nginx may not have read both heads yet.
            end = time.monotonic() + PATIENCE
            while ask(port, X_Test="2001:db8::ffff")[0] != 429:
                self.assertLess(time.monotonic(), end, "a third connection is still served")
            self.assertEqual(ask(port, X_Test="2001:db8:0:1::1")[0], 200)

    def test_a_slow_body_arrives_whole_and_one_that_stops_ends(self):
        with nginx(client_body_timeout="1s") as (port, replica, _):
            with half_sent(port) as client:
                self.assertEqual(replica.arrived, [])
                client.send(b"whole")
                sent = time.monotonic()
                self.assertEqual(json.loads(client.getresponse().read())["length"], 10)
                self.assertGreater(replica.arrived[0], sent - 1)
            with half_sent(port) as client:
                with contextlib.suppress(http.client.RemoteDisconnected):
                    self.assertEqual(client.getresponse().status, 408)
            self.assertEqual(len(replica.arrived), 1)

    def test_a_body_of_128_kb_passes_and_the_log_names_no_page(self):
        with nginx() as (port, _, folder):
            status, _, body = ask(port, "POST", "/a-secret-page-22222222?key=hbk_x", b"x" * 131072, Authorization="Bearer hbk_y")
            self.assertEqual((status, json.loads(body)["length"]), (200, 131072))
            # nginx writes the line after the answer.
            log, end = "", time.monotonic() + PATIENCE
            while "POST 200 " not in log:
                self.assertLess(time.monotonic(), end, f"the log has no line of the request: {log!r}")
                log = (folder / "access.log").read_text()
                time.sleep(0.01)
        self.assertNotRegex(log, "secret|hbk_|127.0.0.1")


class Caddy(unittest.TestCase):
    def test_it_replaces_addresses_and_passes_bodies_on(self):
        def configuration(_, port, __):
            text = (DEPLOY / "edge/Caddyfile").read_text().replace("\n{\n", "\n{\n\tadmin off\n\tdefault_bind 127.0.0.1\n", 1)
            return text.replace("{$DOMAIN} {", f"http://pages.example:{port} {{")

        with proxied(lambda file: [TOOLS / "python/bin/caddy", "run", "--adapter", "caddyfile", "--config", file], configuration) as (port, _, _):
            _, body = request("POST", f"http://127.0.0.1:{port}/api/pages", "x" * 131072, Host="pages.example", X_Forwarded_For="203.0.113.9")
        self.assertEqual(json.loads(body)["forwarded"], ["127.0.0.1"])
        self.assertEqual(json.loads(body)["length"], 131072)


class Compose(unittest.TestCase):
    def test_mounts_exist_and_what_is_awaited_has_a_health_check(self):
        for file in sorted(DEPLOY.glob("compose*.yaml")):
            made = yaml.safe_load(file.read_text())
            for name, service in made["services"].items():
                for source in (volume.split(":")[0] for volume in service.get("volumes", [])):
                    known = (DEPLOY / source).exists() if source.startswith(".") else source in made["volumes"]
                    self.assertTrue(known, f"{file.name}: {name}: {source}")
                for other, condition in service.get("depends_on", {}).items():
                    waits = condition["condition"] == "service_healthy"
                    has_check = "healthcheck" in made["services"][other] or made["services"][other]["image"] == "handbill"
                    self.assertTrue(not waits or has_check, f"{file.name}: {name} waits for {other}")


@unittest.skipUnless(ANALYZE, "systemd is not installed")
class Unit(unittest.TestCase):
    def test_systemd_knows_every_line_and_finds_little_that_is_open(self):
        unit = DEPLOY / "handbill.service"
        done = subprocess.run([ANALYZE, "security", "--offline=true", "--threshold=15", unit], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        with tempfile.TemporaryDirectory() as folder:
            # Any other program stands in for Handbill, which is not installed here.
            copy = Path(folder, "handbill.service")
            copy.write_text(unit.read_text().replace("/usr/local/bin/handbill", "/bin/true"))
            done = subprocess.run([ANALYZE, "verify", "--man=no", copy], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
