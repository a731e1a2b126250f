"""Each alert of the chart, fired by what it is for: real processes, real faults, and a real Prometheus with the chart's rules.

Each situation is a release of its own (the label `service`), and all of them go on at the same time. An alert must fire where it
should and nowhere else, and its entry in the runbook must quote what the log then says. Times in the rules are shortened, as
`shortened` says; nothing else in them is changed.
"""

import http.client
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.parse
from pathlib import Path

from .handbill import Handbill
from .processes import answers, free_port, get, until
from .tables import table

REPOSITORY = Path(__file__).resolve().parents[2]
RULES = REPOSITORY / "helm/handbill/files/rules"
RUNBOOK = REPOSITORY / "docs/runbook.md"
SERVERS = REPOSITORY / "tests/servers"
TOKEN = "a-token-of-the-operators-for-this-run"
# Seconds for all alerts to fire, and for which nothing else may fire after that.
PATIENCE, QUIET = 420, 30
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
# A release whose requests fail burns its budget of errors as well. A busy machine is slow, which is no fault of a rule.
BURNS = {"HandbillErrorBudgetBurnsFast", "HandbillErrorBudgetBurnsSlowly"}
# This run does not cause this one, since the kubelet's metrics are missing.
NOT_CAUSED = {"HandbillVolumeNearlyFull"}


def shortened(rules):
    """The rules with each time divided by 20, but at least 2 s and at most a minute, and evaluated every second. What six hours say
    of the next four days, a minute says of the next sixteen."""

    def shorter(match):
        seconds = int(match[2]) * UNITS[match[3]] / 20
        return f"{match[1]}{round(min(max(seconds, 2), 60))}s{match[4]}"

    rules = re.sub(r"interval: \d+\w", "interval: 1s", rules).replace("4 * 86400", "16 * 60")
    return re.sub(r"(\[|for: )(\d+)([smhd])(\]|$)", shorter, rules, flags=re.MULTILINE)


def send(server, method, path, body=None, **headers):
    """Sends a request. Returns the status and the answer, or None if there was none."""
    address = urllib.parse.urlsplit(server).netloc
    connection = http.client.HTTPConnection(address, timeout=5)
    try:
        if body is not None:
            headers.setdefault("Content_Type", "application/json")
            body = json.dumps(body)
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return answer.status, answer.read()
    except OSError:
        return None
    finally:
        connection.close()


def mount(folder, mebibytes):
    """Gives the folder a volume in memory. Only root can."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "tmpfs", folder], check=True)


def unmount(folder):
    subprocess.run(["umount", "--lazy", folder], check=True)


class Situation:
    """What happens to one release. `expected` must fire, and `allowed` may; `quoted` is what the entries quote of its log."""

    expected, allowed, quoted = set(), set(), ()
    options = ()

    def __init__(self, run):
        self.run, self.name, self.servers, self.seconds = run, type(self).__name__, [], 0
        self.folder = run.folder / self.name
        self.folder.mkdir()
        # A volume of its own, since what others write beside it would look as if the release filled it.
        mount(self.folder, 1024)

    def serve(self, *options, name="a", **more):
        token = self.folder / "token"
        token.write_text(TOKEN)
        settings = ["--data-dir", self.folder / f"data-{name}", "--create-limit", 0, "--edit-limit", 0]
        settings += ["--admin-token-file", token, *self.options, *options]
        server = Handbill(self.run.processes, self.run.binary, settings, f"{self.name}-{name}", env=self.run.environment, **more)
        self.servers.append(server)
        return server

    def command(self, *words):
        """Runs a command of operators through the process."""
        admin = self.servers[0].admin.removeprefix("http://")
        command = [self.run.binary, *words, "--admin-listen", admin, "--admin-token-file", self.folder / "token"]
        subprocess.run(command, env=self.run.environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def publish(self, content="Its text.", server=None):
        return send((server or self.servers[0]).url, "POST", "/api/pages", {"title": "A page", "content": content})

    def published(self, content="Its text.", server=None):
        status, body = self.publish(content, server)
        assert status == 201, body
        return json.loads(body)

    def read(self, slug, server=None):
        return send((server or self.servers[0]).url, "GET", f"/api/pages/{slug}")

    def begin(self):
        self.serve()

    def each_second(self):
        """What goes on while the alerts are awaited."""

    def end(self):
        """What the end of the processes does not undo."""

    def said(self, text):
        return any(text in log.read_text() for log in self.run.folder.glob(f"{self.name}-*.err") if log.is_file())


class Well(Situation):
    """A release with a light load and nothing wrong."""

    def begin(self):
        self.slug = self.serve() and self.published()["slug"]

    def each_second(self):
        self.read(self.slug)
        if self.seconds % 5 == 0:
            self.publish()


class Killed(Situation):
    expected = {"HandbillDown", "HandbillReplicaDown"}

    def each_second(self):
        if self.seconds == 5:
            self.servers[0].process.kill()


class OneOfTwoKilled(Situation):
    expected = {"HandbillReplicaDown"}

    def begin(self):
        self.serve(), self.serve(name="b")

    def each_second(self):
        if self.seconds == 5:
            self.servers[1].process.kill()


class RestartedOften(Situation):
    expected = {"HandbillRestartsOften"}

    def begin(self):
        self.admin = f"127.0.0.1:{free_port()}"
        self.serve(admin=self.admin)

    def each_second(self):
        if self.seconds in (8, 18, 28, 38):
            self.run.processes.stop(self.servers.pop().process)
            self.serve(admin=self.admin)


class ConnectionsHeldOpen(Situation):
    expected = {"HandbillConnectionsNearlyExhausted"}

    def begin(self):
        # Half of so few file descriptors are for connections: 32.
        binary, self.run.binary = self.run.binary, self.run.folder / "few-descriptors"
        self.run.binary.write_text(f'#!/bin/sh\nulimit -n 64\nexec {binary} "$@"\n')
        self.run.binary.chmod(0o755)
        self.serve()
        self.run.binary = binary
        self.held = {}

    def each_second(self):
        # One address may have a quarter of all connections. Each is idle after a request.
        for number in range(27):
            address = f"127.0.5.{number % 6 + 1}"
            if self.seconds % 30 == 0 or number not in self.held:
                host, port = urllib.parse.urlsplit(self.servers[0].url).netloc.split(":")
                connection = socket.create_connection((host, int(port)), timeout=5, source_address=(address, 0))
                connection.sendall(b"GET /robots.txt HTTP/1.1\r\nHost: x\r\n\r\n")
                self.held[number] = connection


class DamagedRecord(Situation):
    expected, allowed = {"HandbillStoreCorrupt"}, BURNS
    quoted = [("HandbillStoreCorrupt", "the store failed")]

    def begin(self):
        self.serve()
        text = "These words are flipped in the file."
        self.slug = self.published(text)["slug"]
        self.run.processes.stop(self.servers.pop().process)
        flip(self.folder / "data-a/handbill.redb", text.encode())
        self.serve()

    def each_second(self):
        if self.seconds % 10 == 5:
            assert self.read(self.slug)[0] == 500


class DamagedLedger(Situation):
    expected = {"HandbillLedgerBehind"}

    def begin(self):
        self.serve()
        page = self.published()
        path = f"/api/pages/{page['slug']}"
        assert send(self.servers[0].url, "DELETE", path, Authorization=f"Bearer {page['edit_key']}")[0] == 204
        self.run.processes.stop(self.servers.pop().process)
        flip(self.folder / "data-a/handbill.ledger", page["slug"].encode())
        self.serve()


def flip(path, part):
    """Changes a bit of each place at which `part` is in a file."""
    data = bytearray(path.read_bytes())
    places = [match.start() for match in re.finditer(re.escape(part), data)]
    assert places, f"{part} is not in {path}"
    for place in places:
        data[place] ^= 1
    path.write_bytes(data)


class UploadsOfMany(Situation):
    """More clients than the memory is made for send at a pace at which none is cut off as slow: 16 KiB in half a second."""

    expected, allowed = {"HandbillMemoryRefused"}, BURNS
    options = ("--memory", "128MiB")
    CLIENTS, PART, LENGTH = 400, 17_000, 130_000

    def begin(self):
        self.serve()
        threading.Thread(target=self.upload, daemon=True).start()

    def upload(self):
        host, port = urllib.parse.urlsplit(self.servers[0].url).netloc.split(":")
        head = f"POST /api/pages HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {self.LENGTH}\r\n\r\n"
        sending = {}
        while self.servers[0].process.poll() is None:
            for number in range(self.CLIENTS):
                try:
                    if number not in sending:
                        source = f"127.0.{6 + number // 250}.{number % 250 + 1}"
                        connection = socket.create_connection((host, int(port)), timeout=5, source_address=(source, 0))
                        connection.sendall(head.encode())
                        connection.setblocking(False)
                        sending[number] = connection, self.LENGTH
                    connection, left = sending[number]
                    sending[number] = connection, left - connection.send(b" " * min(self.PART, left))
                    connection.recv(100)
                except BlockingIOError:
                    continue
                except OSError:
                    pass
                # It was answered or cut off.
                if number in sending:
                    sending.pop(number)[0].close()
            time.sleep(0.2)


class ThreadsThatStop(Situation):
    """The thread that renders is stopped as a debugger stops it, so that a rendering does not end."""

    expected, allowed = {"HandbillRenderingHangs"}, {"HandbillWritesFail", *BURNS}
    quoted = [("HandbillRenderingHangs", "a rendering did not end")]
    # It stops the threads by ptrace (SEIZE, INTERRUPT), and the kernel lets them go on when it ends.
    STOPPER = """
import ctypes, os, signal, sys
ptrace = ctypes.CDLL(None, use_errno=True).ptrace
ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
tasks = f"/proc/{sys.argv[1]}/task"
for task in os.listdir(tasks):
    if open(f"{tasks}/{task}/comm").read().startswith("handbill-render"):
        assert ptrace(0x4206, int(task), None, None) == 0 and ptrace(0x4207, int(task), None, None) == 0, os.strerror(ctypes.get_errno())
signal.pause()
"""

    def begin(self):
        self.serve()
        self.published()
        command = [sys.executable, "-c", self.STOPPER, str(self.servers[0].process.pid)]
        self.stopper = self.run.processes.start(command, "stopper")

    def each_second(self):
        # A create waits for the rendering, and nobody else may wait for that. A second one would get a thread that is not stopped.
        if self.seconds == 1:
            threading.Thread(target=self.publish, daemon=True).start()
        # Until then the process does not end even if it is killed.
        if self.stopper and (self.expected <= set(self.fired) or self.seconds == 200):
            self.run.processes.stop(self.stopper)
            self.stopper = None


class CacheThatDoesNotAnswer(Situation):
    expected = {"HandbillPurgesWait"}
    quoted = [("HandbillPurgesWait", "a page could not be purged from a shared cache")]

    def begin(self):
        self.serve("--purge-url", f"http://127.0.0.1:{free_port()}/{{slug}}", "--edge-max-age", "60s")
        page = self.published()
        path, key = f"/api/pages/{page['slug']}", f"Bearer {page['edit_key']}"
        assert send(self.servers[0].url, "PATCH", path, {"content": "Another text."}, Authorization=key)[0] == 200


class LogThatNobodyReads(Situation):
    expected = {"HandbillLogLinesDropped"}

    def begin(self):
        pipe = self.folder / "log"
        os.mkfifo(pipe)
        self.reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        self.slug = self.serve(stderr=pipe) and self.published()["slug"]

    def each_second(self):
        for _ in range(60):
            self.read(self.slug)

    def end(self):
        os.close(self.reader)


class ProxyThatIsNotTrusted(Situation):
    expected = {"HandbillForwardedHeaderIgnored"}
    quoted = [("HandbillForwardedHeaderIgnored", "is not a trusted proxy")]

    def each_second(self):
        send(self.servers[0].url, "GET", "/robots.txt", X_Forwarded_For="192.0.2.7")


class WrongTokens(Situation):
    expected = {"HandbillOperatorTokensRefused"}
    quoted = [("HandbillOperatorTokensRefused", "had a wrong token")]

    def each_second(self):
        send(self.servers[0].admin, "GET", "/audit", Authorization="Bearer not-the-token-of-the-operators-here")


class ListWithAMistake(Situation):
    expected = {"HandbillModerationStale"}

    def begin(self):
        self.file = self.folder / "blocklist"
        self.file.write_text("spam.example\n")
        self.serve("--blocklist-file", self.file)

    def each_second(self):
        if self.seconds == 3:
            self.file.write_text("text:not-a-fingerprint\n")


class CreatesPaused(Situation):
    expected = {"HandbillCreatesPaused"}

    def begin(self):
        self.serve()
        self.command("pause", "--by", "the run of alerts")

    def each_second(self):
        assert self.publish()[0] == 503


class OfAVolume(Situation):
    """A release whose volume has a size of its own, since it is in memory."""

    mebibytes, leaves = 0, 0

    def begin(self):
        self.volume = self.folder / "data-a"
        self.volume.mkdir()
        mount(self.volume, self.mebibytes)
        self.serve()
        self.slug = self.published()["slug"]
        free = shutil.disk_usage(self.volume).free
        with open(self.volume / "of-another", "wb") as file:
            os.posix_fallocate(file.fileno(), 0, free - self.leaves * 1024 * 1024)

    def each_second(self):
        self.publish()

    def end(self):
        unmount(self.volume)


class VolumeWithATenthLeft(OfAVolume):
    expected = {"HandbillVolumeFills"}
    mebibytes, leaves = 400, 36

    def each_second(self):
        if self.seconds % 10 == 0:
            self.publish()


class FullVolume(OfAVolume):
    expected = {"HandbillVolumeFull", "HandbillVolumeFills", "HandbillWritesFail", *BURNS}
    mebibytes, leaves = 64, 0

    def each_second(self):
        self.publish(), self.read(self.slug)


class BackupsWithoutRoom(OfAVolume):
    expected = {"HandbillBackupMissing"}

    def begin(self):
        self.volume = self.folder / "backups"
        self.volume.mkdir()
        mount(self.volume, 1)
        (self.volume / "of-another").write_bytes(bytes(1024 * 1024))
        self.serve("--backup-to", self.volume, "--backup-every", "1h")

    def each_second(self):
        pass


class OfTheCluster(Situation):
    """Two replicas of a cluster."""

    def begin(self):
        self.serve(), self.serve(name="b")
        for server in self.servers:
            server.until_ready()

    def serve(self, *options, **more):
        return super().serve(*self.run.cluster, "--base-url", "http://pages.example", *options, **more)


class RedisLost(OfTheCluster):
    expected = {"HandbillRateLimitFallback"}

    def each_second(self):
        if self.seconds == 5:
            subprocess.run([SERVERS / "redis", "stop", self.run.redis], check=True)
        if self.seconds % 5 == 0:
            self.publish()


class ClockAhead(OfTheCluster):
    expected, allowed = {"HandbillClocksDiffer"}, {"HandbillRateLimitFallback"}
    quoted = [("HandbillClocksDiffer", "a stored time lies in the future")]

    def begin(self):
        self.serve()
        # Its clock is ahead by an hour, and it ends before anything scrapes it.
        binary, self.run.binary = self.run.binary, self.run.folder / "ahead"
        # The command `faketime` stays beside the process that it starts, and that one would not be ended.
        preload = "$(faketime -f +1h sh -c 'echo \"$LD_PRELOAD\"')"
        self.run.binary.write_text(f'#!/bin/sh\nLD_PRELOAD="{preload}" FAKETIME=+1h exec {binary} "$@"\n')
        self.run.binary.chmod(0o755)
        ahead = self.serve(name="ahead")
        self.run.binary = binary
        ahead.until_ready(), self.servers[0].until_ready()
        self.slug = self.published(server=ahead)["slug"]
        self.run.processes.stop(self.servers.pop().process)

    def each_second(self):
        self.read(self.slug)


class FenceMoved(OfTheCluster):
    expected, allowed = {"HandbillStoreNotWritable", *BURNS}, {"HandbillRateLimitFallback", "HandbillWritesFail"}
    quoted = [("HandbillStoreNotWritable", "this replica writes no pages")]

    def each_second(self):
        if self.seconds == 15:
            self.run.failover("east")
        self.publish()


class DatabaseLost(OfTheCluster):
    """It comes last, since it takes the database from all."""

    expected = {"HandbillStoreUnavailable", "HandbillWritesFail", *BURNS}
    # Replicas that cannot reach the database cannot read the switch of creates either.
    allowed = {"HandbillRateLimitFallback", "HandbillStoreNotWritable", "HandbillModerationStale"}

    def each_second(self):
        if self.seconds == 5:
            self.run.failover("west")
        # Both sides must have moved, and written, before both nodes are killed.
        if self.seconds == 60:
            subprocess.run([SERVERS / "datacenters", "kill", self.run.database], check=True, stdout=subprocess.DEVNULL)
        self.publish()


ONE_PROCESS = [
    Well, Killed, OneOfTwoKilled, RestartedOften, ConnectionsHeldOpen, DamagedRecord, DamagedLedger, CacheThatDoesNotAnswer,
    LogThatNobodyReads, ProxyThatIsNotTrusted, WrongTokens, ListWithAMistake, CreatesPaused,
    VolumeWithATenthLeft, FullVolume, BackupsWithoutRoom, UploadsOfMany, ThreadsThatStop,
]  # fmt: skip
CLUSTER = [RedisLost, ClockAhead]


def chosen(kinds):
    """Those of the situations that SITUATIONS names; all of them without it."""
    return [kind for kind in kinds if kind.__name__ in os.environ.get("SITUATIONS", kind.__name__).split()]


def query(node, statement):
    """Sends a statement to a node, in version 4 of the native protocol."""
    host, port = node.split(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection, connection.makefile("rwb") as stream:

        def exchange(opcode, body):
            stream.write(struct.pack(">BBhBi", 4, 0, 0, opcode, len(body)) + body)
            stream.flush()
            *_, opcode, length = struct.unpack(">BBhBi", stream.read(9))
            return opcode, stream.read(length)

        text = lambda value: struct.pack(">H", len(value)) + value.encode()
        exchange(1, struct.pack(">H", 1) + text("CQL_VERSION") + text("3.0.0"))
        quorum_without_values = struct.pack(">HB", 4, 0)
        opcode, answer = exchange(7, struct.pack(">i", len(statement)) + statement.encode() + quorum_without_values)
        assert opcode == 8, answer


class Alerts:
    """Runs all situations. `rows` are those of the table; `faults` says what was not as it should be."""

    def __init__(self, processes, binary, tools, say):
        self.processes, self.binary, self.tools, self.say = processes, binary, tools, say
        self.folder = processes.folder
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("HANDBILL_")}
        self.situations, self.rows, self.faults = [], [], []
        self.database, self.redis = self.folder / "database", self.folder / "redis"

    def measure(self):
        """Runs all, or those that SITUATIONS names."""
        runbook = RUNBOOK.read_text()
        entries = dict(re.findall(r"^## (Handbill\w+)\n(.*?)(?=^## |\Z)", runbook, re.MULTILINE | re.DOTALL))
        try:
            self.say("situations of one process")
            self.prometheus()
            self.together(ONE_PROCESS, entries)
            if chosen([*CLUSTER, FenceMoved, DatabaseLost]):
                self.say("situations of a cluster: two datacentres of one Cassandra node each, and Redis")
                self.start_cluster()
            self.together(CLUSTER, entries)
            # They share a keyspace, so from here on nobody in the west writes.
            self.together([FenceMoved], entries)
            self.together([DatabaseLost], entries)
        finally:
            for situation in self.situations:
                situation.end()
                unmount(situation.folder)
            subprocess.run([SERVERS / "datacenters", "kill", self.database], stdout=subprocess.DEVNULL)
            subprocess.run([SERVERS / "redis", "stop", self.redis])
        fired = {alert for situation in self.situations for alert in situation.fired}
        known = set(re.findall(r"- alert: (\w+)", "".join(path.read_text() for path in RULES.glob("*.yaml"))))
        if "SITUATIONS" not in os.environ:
            self.faults += [f"nothing causes {alert}" for alert in sorted(known - fired - NOT_CAUSED)]
        self.faults += [f"{alert} fired, so it can be caused" for alert in sorted(fired & NOT_CAUSED)]
        return table(["situation", "alert", "fired after s"], self.rows)

    def start_cluster(self):
        nodes = subprocess.run([SERVERS / "datacenters", "start", self.database], check=True, stdout=subprocess.PIPE)
        redis = subprocess.run([SERVERS / "redis", "start", "single", self.redis], check=True, stdout=subprocess.PIPE)
        self.store = ["--store", "scylla", "--scylla-nodes", nodes.stdout.decode().strip(), "--scylla-datacenter", "west"]
        self.cluster = [*self.store, "--redis-url", redis.stdout.decode().strip()]
        first = nodes.stdout.decode().split(",")[0]
        copies = "'class': 'NetworkTopologyStrategy', 'west': 1, 'east': 1"
        query(first, f"CREATE KEYSPACE handbill WITH replication = {{{copies}}}")
        migrate = [self.binary, "migrate", *self.store]
        subprocess.run(migrate, env=self.environment, check=True, stdout=subprocess.DEVNULL)

    def failover(self, to):
        self.processes.start([self.binary, "failover", "--to", to, *self.store], f"failover-{to}", env=self.environment)

    def prometheus(self):
        for path in RULES.glob("*.yaml"):
            (self.folder / path.name).write_text(shortened(path.read_text()))
        self.targets = self.folder / "targets.json"
        self.targets.write_text("[]")
        files = [{"files": [str(self.targets)], "refresh_interval": "1s"}]
        settings = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [f"{self.folder}/*.yaml"],
            "scrape_configs": [{"job_name": "handbill", "file_sd_configs": files}],
        }
        (self.folder / "prometheus.json").write_text(json.dumps(settings))
        self.url = f"http://127.0.0.1:{free_port()}"
        address = self.url.removeprefix("http://")
        options = [f"--config.file={self.folder}/prometheus.json", f"--storage.tsdb.path={self.folder}/series", f"--web.listen-address={address}"]
        self.processes.start([self.tools / "prometheus", *options], "prometheus")
        until(lambda: answers(f"{self.url}/-/ready"), "Prometheus is ready")

    def together(self, kinds, entries):
        current, kinds = [], chosen(kinds)
        if not kinds:
            return
        for kind in kinds:
            situation = kind(self)
            self.situations.append(situation)
            situation.fired = {}
            situation.begin()
            current.append(situation)
        self.write_targets(current)
        began, done = time.monotonic(), None
        while time.monotonic() - began < PATIENCE and (done is None or time.monotonic() - done < QUIET):
            second = time.monotonic()
            for situation in current:
                situation.each_second()
                situation.seconds += 1
            for name, alert in self.firing():
                situation = next((one for one in current if one.name == name), None)
                if situation is not None:
                    situation.fired.setdefault(alert, time.monotonic() - began)
            if done is None and all(situation.expected <= set(situation.fired) for situation in current):
                done = time.monotonic()
            time.sleep(max(0, 1 - (time.monotonic() - second)))
        for situation in current:
            self.judge(situation, entries)
            for server in situation.servers:
                self.processes.stop(server.process, signal.SIGKILL)
        # Otherwise a release without a process would go on to be down.
        self.write_targets([])

    def write_targets(self, situations):
        targets = [
            {"targets": [server.admin.removeprefix("http://") for server in situation.servers], "labels": {"service": situation.name}}
            for situation in situations
        ]
        other = self.targets.with_suffix(".new")
        other.write_text(json.dumps(targets))
        other.rename(self.targets)

    def firing(self):
        """The release and name of each alert that fires now, apart from those on latency: this machine does a lot at once."""
        alerts = json.loads(get(f"{self.url}/api/v1/alerts")[1])["data"]["alerts"]
        for alert in alerts:
            labels = alert["labels"]
            if alert["state"] == "firing" and not labels.get("slo", "").endswith("-latency"):
                yield labels.get("service"), labels["alertname"]

    def judge(self, situation, entries):
        name = situation.name
        for alert, seconds in sorted(situation.fired.items(), key=lambda fired: fired[1]):
            self.rows.append([name, alert, f"{seconds:.0f}"])
            if alert not in situation.expected | situation.allowed:
                self.faults.append(f"{name}: {alert} fired and should not")
            if alert not in entries:
                self.faults.append(f"{alert} has no entry in the runbook")
        if not situation.fired:
            self.rows.append([name, "none", ""])
        self.faults += [f"{name}: {alert} did not fire" for alert in sorted(situation.expected - set(situation.fired))]
        for alert, text in situation.quoted:
            if text not in entries[alert]:
                self.faults.append(f"the entry of {alert} does not quote {text!r}")
            if not situation.said(text):
                self.faults.append(f"{name}: the log does not say {text!r}, which the entry of {alert} looks for")
