"""The service as in production: three replicas behind HAProxy, with three Cassandra nodes and Redis, and their faults."""

import http.server
import os
import random
import signal
import subprocess
import threading
from pathlib import Path

from .handbill import Handbill
from .processes import listens, until

REPOSITORY = Path(__file__).resolve().parents[2]
SERVERS = REPOSITORY / "tests/tools/servers"
REPLICAS = 3


class Cluster:
    """`start` starts it. `stop` ends it, even if `start` failed halfway."""

    def __init__(self, processes, binary):
        self.processes, self.binary = processes, binary
        self.database, self.redis = processes.folder / "cluster", processes.folder / "redis"
        self.network = f"127.{random.randint(200, 250)}.{random.randint(0, 255)}"
        self.replicas = {}

    def start(self):
        subprocess.run([SERVERS / "cluster", "start", self.database], check=True)
        started = subprocess.run([SERVERS / "redis", "start", "single", self.redis], check=True, stdout=subprocess.PIPE)
        self.redis_url = started.stdout.decode().strip()
        prefix = (self.database / "prefix").read_text()
        nodes = ",".join(f"{prefix}{node + 10}:9042" for node in (1, 2, 3))
        database = ["--store", "scylla", "--scylla-nodes", nodes]
        self.store = [*database, "--redis-url", self.redis_url]
        subprocess.run([self.binary, "migrate", "--log", "error", *database], check=True, stdout=subprocess.DEVNULL)
        for number in range(1, REPLICAS + 1):
            self.start_replica(number)
        self.balance()

    def start_replica(self, number):
        settings = [*self.store, "--base-url", self.url, "--trusted-proxies", "127.0.0.1", "--drain-delay", "4s"]
        address = f"{self.network}.{number}"
        self.replicas[number] = Handbill(self.processes, self.binary, settings, f"replica-{number}", f"{address}:8080", f"{address}:9090")
        self.replicas[number].until_ready()

    @property
    def url(self):
        return f"http://{self.network}.30:8080"

    def balance(self):
        """Starts HAProxy with tests/tools/servers/haproxy.cfg at these addresses."""
        text = (SERVERS / "haproxy.cfg").read_text().replace(" LISTEN", f" {self.network}.30:8080")
        for number in range(1, REPLICAS + 1):
            text = text.replace(f" REPLICA-{number}", f" {self.network}.{number}:8080")
        file = self.processes.folder / "haproxy.cfg"
        file.write_text(text)
        path = os.environ["PATH"] + ":/usr/sbin"
        self.processes.start(["haproxy", "-db", "-f", file], "haproxy", env={**os.environ, "PATH": path})
        until(lambda: listens(f"{self.network}.30", 8080), "HAProxy listens")

    def stop(self):
        subprocess.run([SERVERS / "redis", "stop", self.redis], check=True)
        subprocess.run([SERVERS / "cluster", "stop", self.database], check=True)


class Faults:
    """Causes the fault that a `POST` names. Answers 200 once it has happened, or 500 with the reason if that failed."""

    def __init__(self, cluster):
        self.cluster = cluster
        faults = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                try:
                    faults.make(self.path.strip("/"))
                    status, text = 200, "made"
                except BaseException as error:  # In any case the scenario must know that there was no fault.
                    status, text = 500, repr(error)
                    print(f"the fault {self.path} was not made: {error!r}", flush=True)
                self.send_response(status)
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_):
                pass

        # The server has a single thread: a process that it starts ends when the thread that started the process ends.
        self.server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def make(self, fault):
        verb, _, part = fault.partition("-")
        kind, _, number = part.partition("-")
        getattr(self, f"{verb}_{kind}")(*([int(number)] if number else []))

    def drain_replica(self, number):
        self.cluster.replicas[number].process.send_signal(signal.SIGTERM)

    def kill_replica(self, number):
        self.cluster.replicas[number].process.kill()

    def start_replica(self, number):
        ended = self.cluster.replicas[number].process.wait(60)
        # The replica must have ended after draining, or have been killed.
        assert ended in (0, -signal.SIGKILL), f"replica {number} ended with {ended}"
        self.cluster.start_replica(number)

    def kill_node(self, number):
        subprocess.run([SERVERS / "cassandra", "kill", self.cluster.database, str(number)], check=True)

    def start_node(self, _):
        subprocess.run([SERVERS / "cluster", "start", self.cluster.database], check=True)

    def kill_redis(self):
        os.kill(int(self.redis_pid_file().read_text()), signal.SIGKILL)

    def start_redis(self):
        # If no replica counted on its own, the phase without Redis would have tested nothing.
        alone = [replica.gauge("handbill_rate_limit_fallback") for replica in self.cluster.replicas.values()]
        assert any(alone), "no replica has noticed that Redis was gone"
        port = self.cluster.redis_url.rpartition(":")[2]
        memory_only = ["--save", "", "--appendonly", "no"]
        command = ["redis-server", "--bind", "127.0.0.1", "--port", port, *memory_only]
        process = self.cluster.processes.start(command, "redis-again")
        self.redis_pid_file().write_text(str(process.pid))

    def redis_pid_file(self):
        (file,) = self.cluster.redis.glob("*/pid")
        return file
