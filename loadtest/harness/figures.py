"""Measures what Handbill costs beside its peers, row by row, as `docs/performance.md` lists it.

Each server has one core and the generator another. The probes of a row take turns in each round, so that other work on the machine
affects all of them alike. A ratio is the median of the ratios within a round.
"""

import json
import os
import re
import statistics
import subprocess
import time
from pathlib import Path

from .handbill import Handbill
from .processes import cpu_seconds, free_port, get, listens, said, until
from .tables import number

LUA = Path(__file__).resolve().parents[1] / "lib"
DOCUMENT = Path(__file__).resolve().parents[2] / "benches/documents/mixed.md"
PAGE_BYTES = 2048
JSON = "Content-Type: application/json"
MCP = f"{JSON}\nAccept: application/json, text/event-stream\nMCP-Protocol-Version: 2025-11-25"
# Headers that each server sets itself.
OWN = {"date", "content-length", "server", "connection", "transfer-encoding"}


class Probe:
    """A kind of request to one server, and what it cost in each round: microseconds of CPU a request, requests a second."""

    def __init__(self, process, url, connections=32, script=None, header=None, succeeds=True, **environment):
        self.process, self.url, self.connections, self.succeeds = process, url, connections, succeeds
        self.options = [*(["-s", str(LUA / script)] if script else []), *(["-H", header] if header else [])]
        self.environment = {**os.environ, **{name: str(value) for name, value in environment.items()}}
        self.rounds = []

    def run(self, seconds):
        """Sends requests, as many as it can. Returns CPU and rate."""
        began = cpu_seconds(self.process)
        command = ["taskset", "-c", str(cores()[1]), "wrk", "-t", "1", "-c", str(self.connections), "-d", f"{seconds}s"]
        wrk = subprocess.run([*command, *self.options, self.url], stdout=subprocess.PIPE, env=self.environment)
        text = wrk.stdout.decode()
        used = cpu_seconds(self.process) - began
        if wrk.returncode != 0 or ("Non-2xx" in text) == self.succeeds or re.search(r"Socket errors: .*(connect|read|write) [1-9]", text):
            raise SystemExit(f"{self.process.name}: {self.url} was not always answered:\n{text}")
        answered = int(re.search(r"(\d+) requests in", text).group(1))
        rate = float(re.search(r"Requests/sec:\s+([\d.]+)", text).group(1))
        return used / max(1, answered) * 1e6, rate

    @property
    def cost(self):
        return statistics.median(one[0] for one in self.rounds)

    @property
    def rate(self):
        return statistics.median(one[1] for one in self.rounds)

    def ratio(self, other, column=0):
        """The median over the rounds of this probe's figure divided by that of `other`."""
        return statistics.median(own[column] / its[column] for own, its in zip(self.rounds, other.rounds))


class Restarted(Probe):
    """A probe of wastebin, started for each round: it ends when a client leaves before its answer, as `wrk` does."""

    def __init__(self, start, path, **more):
        self.start_server, self.path = start, path
        super().__init__(None, None, **more)

    def run(self, seconds):
        self.process = self.start_server()
        self.url = self.process.url + self.path(self.process)
        return super().run(seconds)


class Table:
    """The rows: what was measured, the goal, the figure, and whether the goal is reached."""

    def __init__(self, say):
        self.rows, self.costs, self.say = [], [], say

    def at_most(self, what, figure, goal=None, unit="×"):
        """Adds a row, and says it at once: the run takes long, and may fail later."""
        row = [what, f"≤ {goal} {unit}" if goal else "", f"{number(figure, 2)} {unit}", "" if goal is None else "yes" if figure <= goal else "no"]
        self.rows.append(row)
        self.say(" | ".join(filter(None, row)))

    def ratio(self, what, probe, other, goal=None, column=0):
        self.at_most(what, probe.ratio(other, column), goal)

    def cost(self, view, name, probe):
        self.costs.append((view, name, probe.cost, probe.rate))


class Figures:
    """The servers of a run and what was measured on them."""

    def __init__(self, processes, binary, yardstick, say):
        self.processes, self.binary, self.yardstick, self.say, self.peer = processes, binary, yardstick, say, None
        self.folder, self.core, self.table = processes.folder, cores()[0], Table(say)
        self.rounds, self.seconds = int(os.environ.get("ROUNDS", 5)), int(os.environ.get("ROUND_SECONDS", 4))
        self.pages = int(os.environ.get("PAGES", 10_000))
        self.text = DOCUMENT.read_bytes()[:PAGE_BYTES].decode(errors="ignore")
        self.create = self.file("create.json", json.dumps({"title": "A page to be measured", "content": self.text}))

    def file(self, name, text):
        (self.folder / name).write_text(text)
        return self.folder / name

    def handbill(self, name, *settings, **more):
        """A Handbill with its own data directory. Its log goes to a file on the same disk, as that of nginx."""
        data = self.folder / f"data-{name}"
        options = ["--data-dir", data, "--trusted-proxies=127.0.0.0/8", *settings]
        server = Handbill(self.processes, self.binary, options, name, cpus=[self.core], **more)
        server.until_ready()
        return server

    def take_turns(self, *probes):
        """Measures the probes in turn, in each round; the first round only warms up."""
        for probe in probes:
            probe.run(1)
        for _ in range(self.rounds):
            for probe in probes:
                probe.rounds.append(probe.run(self.seconds))

    def posts(self, server, target, body, headers, connections=32):
        return Probe(server.process, server.url, connections=connections, script="posts.lua", BODY=body, TARGET=target, HEADERS=headers)

    def creates(self, server, connections):
        return self.posts(server, "/api/pages", self.create, JSON, connections)

    def fill(self, server, pages, connections=256):
        """Creates pages of 2 KB. Returns a file with the paths of `pages` of them, as HTML."""
        slugs = self.folder / f"slugs-{server.process.name}"
        slugs.touch()
        creating = self.creates(server, connections)
        creating.environment["SLUGS"] = str(slugs)
        made = 0
        while made < pages:
            creating.run(min(30, max(2, (pages - made) // 4000)))
            made = sum(1 for _ in slugs.open())
        paths = "".join(f"/{slug}\n" for slug in slugs.read_text().split()[:pages])
        return self.file(f"paths-{server.process.name}", paths)

    def measure(self):
        self.hot_pages()
        self.durable_creates()
        self.pages_at_random()
        self.table.at_most("size of the program", self.binary.stat().st_size / 1e6, 25, "MB")
        return self.table

    def hot_pages(self):
        """One page of 2 KB, as JSON, HTML and Markdown, from each server."""
        server = self.handbill("hot")
        page = server.publish("A page to be measured", self.text)
        paths = {"JSON": f"/api/pages/{page['slug']}", "HTML": f"/{page['slug']}", "Markdown": f"/{page['slug']}.md"}
        files = self.folder / "figures"
        keep(files, {view: server.url + path for view, path in paths.items()})
        nginx, urls = start_nginx(self.processes, files, self.core, self.folder / "nginx.log")
        peers = {name: (nginx, url) for name, url in urls.items()}
        axum = self.processes.start([self.yardstick, files], "bare-axum", cpus=[self.core])
        peers["bare axum"] = axum, said(axum, r"listens on (http://\S+)")
        for view, path in paths.items():
            self.say(f"{view}: Handbill, nginx, axum")
            own = Probe(server.process, server.url + path)
            probes = {name: Probe(process, f"{url}/{view}") for name, (process, url) in peers.items()}
            if "WASTEBIN" in os.environ and view != "JSON":
                probes["wastebin"] = Restarted(self.wastebin, lambda process: process.paths[view])
            self.take_turns(own, *probes.values())
            self.table.ratio(f"hot page, {view}: CPU of bare axum", own, probes["bare axum"])
            self.table.ratio(f"hot page, {view}: CPU of nginx with the same line of log", own, probes["nginx, same line"], 1.3)
            self.table.ratio(f"hot page, {view}: CPU of nginx with its default line of log", own, probes["nginx, combined line"])
            if "wastebin" in probes:
                self.table.ratio(f"hot page, {view}: CPU of wastebin", own, probes["wastebin"], 0.33)
            for name, probe in {"Handbill": own, **probes}.items():
                self.table.cost(view, name, probe)
        read = Probe(server.process, server.url + paths["JSON"])
        held = "If-None-Match: " + get(read.url)[0]["etag"]
        unchanged = [Probe(process, url, header=held) for process, url in ((server.process, read.url), (axum, f"{peers['bare axum'][1]}/JSON"))]
        absent = Probe(server.process, f"{server.url}/api/pages/absent-page", succeeds=False)
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "get_page", "arguments": {"slug": page["slug"]}}}
        tool = self.posts(server, "/mcp", self.file("call.json", json.dumps(call)), MCP)
        self.take_turns(read, *unchanged, absent, tool)
        self.table.ratio("304, JSON: CPU of the 304 of bare axum", *unchanged, 1.5)
        self.table.ratio("304, JSON: CPU of the page", unchanged[0], read)
        self.table.ratio("404, JSON: CPU of a page", absent, read)
        self.table.ratio("tool get_page: CPU of the page as JSON", tool, read, 5)
        for process in (server.process, nginx, axum):
            self.processes.stop(process)

    def durable_creates(self):
        self.say("durable creates")
        server = self.handbill("creates")
        few = self.creates(server, 32)
        probes = [few]
        if "WASTEBIN" in os.environ:
            body = self.file("wastebin.json", json.dumps({"text": self.text, "extension": "md"}))
            peer = Restarted(self.wastebin, lambda _: "", script="posts.lua", BODY=body, TARGET="/", HEADERS=JSON)
            probes.append(peer)
        self.take_turns(*probes)
        self.table.at_most("durable create of 2 KB, 32 connections: CPU", few.cost, 280, "µs")
        if "WASTEBIN" in os.environ:
            self.table.at_most("durable creates a second of wastebin for each", 1 / few.ratio(peer, 1), 0.125)
        self.table.cost("create, 32 connections", "Handbill", few)
        self.processes.stop(server.process)

    def pages_at_random(self):
        server = self.handbill("random")
        paths = self.fill(server, self.pages)
        with paths.open() as listed:
            hot = Probe(server.process, server.url + listed.readline().strip())
        spread = Probe(server.process, server.url, script="random_pages.lua", PAGES=paths)
        self.take_turns(hot, spread)
        self.table.ratio(f"{self.pages} pages of HTML at random: CPU of one page", spread, hot, 1.6)
        self.processes.stop(server.process)

    def wastebin(self):
        """A wastebin that WASTEBIN names, with a database in a file and one page. It ends the one before."""
        if self.peer:
            self.processes.stop(self.peer)
        port = free_port()
        environment = {**os.environ, "WASTEBIN_ADDRESS_PORT": f"127.0.0.1:{port}", "WASTEBIN_BASE_URL": f"http://127.0.0.1:{port}"}
        environment["WASTEBIN_DATABASE_PATH"] = str(self.folder / "wastebin.db")
        process = self.peer = self.processes.start([os.environ["WASTEBIN"]], "wastebin", cpus=[self.core], env=environment)
        until(lambda: listens("127.0.0.1", port), "wastebin listens")
        process.url = f"http://127.0.0.1:{port}"
        body = json.dumps({"text": self.text, "extension": "md"}).encode()
        path = json.loads(get(f"{process.url}/", data=body, headers={"Content-Type": "application/json"})[1])["path"]
        identity = path.strip("/").removesuffix(".md")
        process.paths = {"HTML": f"/md/{identity}", "Markdown": f"/raw/{identity}"}
        return process


def cores():
    """The core of the server and the core of the generator."""
    available = sorted(os.sched_getaffinity(0))
    if len(available) < 2:
        raise SystemExit("the figures need two cores: one for the servers, one for the generator")
    return available[0], available[1]


def keep(files, addresses):
    """Keeps the answer at the address of each view, and its headers, in the folder `files`, for servers that repeat it."""
    files.mkdir()
    for view, address in addresses.items():
        headers, body = get(address)
        (files / view).write_bytes(body)
        lines = [f"{name.lower()}: {value}" for name, value in headers.items() if name.lower() not in OWN]
        (files / f"{view}.headers").write_text("\n".join(lines) + "\n")


def start_nginx(processes, files, core, log):
    """Starts nginx with one worker, which writes each line of its log at once. Returns it, and its address for each form of line."""
    folder, locations = processes.folder, ""
    for headers in files.glob("*.headers"):
        fields = [line.replace('"', '\\"').split(": ", 1) for line in headers.read_text().splitlines()]
        added = "".join(f'add_header {name} "{value}";\n' for name, value in fields if name != "content-type")
        locations += f'location = /{headers.stem} {{ types {{}} default_type "{dict(fields)["content-type"]}"; {added} }}\n'
    temporary = "".join(f"{what}_temp_path {folder}/nginx-{what};\n" for what in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    ports = {line: free_port() for line in ("same", "combined")}
    servers = "".join(
        f'server {{ listen 127.0.0.1:{port}; access_log {log} {line}; root {files}; add_header Last-Modified ""; {locations} }}\n'
        for line, port in ports.items()
    )
    (folder / "nginx.conf").write_text(
        f"""daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/nginx.err;
events {{ worker_connections 1024; }} http {{
{temporary}
log_format same escape=json '{{"timestamp":"$time_iso8601","level":"INFO","message":"answered","status":$status,'
    '"duration_seconds":$request_time,"method":"$request_method","request_id":"$request_id"}}';
sendfile on; tcp_nopush on; keepalive_requests 1000000000; server_tokens off; etag off; max_ranges 0;
{servers}
}}
"""
    )
    process = processes.start(["/usr/sbin/nginx", "-c", folder / "nginx.conf"], "nginx", cpus=[core])
    until(lambda: all(listens("127.0.0.1", port) for port in ports.values()), "nginx listens")
    return process, {f"nginx, {line} line": f"http://127.0.0.1:{port}" for line, port in ports.items()}
