"""Measures what Handbill costs beside its peers, row by row, as `docs/internals/performance.md` lists it.

Each server has one core and the generator another. The probes of a row take turns in each round, so that other work on the machine
affects all of them alike. A ratio is the median of the ratios within a round.
"""

import csv
import json
import os
import re
import statistics
import subprocess
import time
from pathlib import Path

from .cage import Limit
from .handbill import Handbill
from .processes import cpu_seconds, free_port, get, listens, said, until
from .tables import number
from .yardsticks import cores, keep, start_nginx

LUA = Path(__file__).resolve().parents[1] / "lib"
DOCUMENT = Path(__file__).resolve().parents[2] / "benches/documents/mixed.md"
PAGE_BYTES = 2048
JSON = "Content-Type: application/json"
TOOL = "\n".join([JSON, "Accept: application/json, text/event-stream", "MCP-Protocol-Version: 2025-11-25"])
MEBIBYTE = 1024 * 1024
# Reads a second while pages are created, about a quarter of what one core answers.
STEADY_READS = 6000


class Probe:
    """A kind of request to one server, and what it cost in each round: microseconds of CPU a request, requests a second, p99 in ms."""

    def __init__(self, process, url, headers=(), connections=32, script=None, **environment):
        self.process, self.url, self.connections = process, url, connections
        self.options = [part for header in headers for part in ("-H", header)]
        if script:
            self.options += ["-s", str(LUA / script)]
        self.environment = {**os.environ, **{name: str(value) for name, value in environment.items()}}
        self.rounds = []

    def pace(self, rate):
        """Sends about `rate` requests a second from now on. Each connection waits after an answer (`delay` of `wrk`), so the rate falls
        a little below it when answers are slow. Needs a script that knows DELAY."""
        self.environment["DELAY"] = str(max(1, round(self.connections / rate * 1000)))
        return self

    def start(self, seconds):
        command = ["taskset", "-c", str(cores()[1]), "wrk", "--latency", "-t", "1", "-c", str(self.connections), "-d", f"{seconds}s"]
        return subprocess.Popen([*command, *self.options, self.url], stdout=subprocess.PIPE, env=self.environment)

    def run(self, seconds):
        """Sends requests, as many as it can if it has no pace. Returns CPU, rate, p99 and the number of answers."""
        began = cpu_seconds(self.process)
        wrk = self.start(seconds)
        text = wrk.communicate()[0].decode()
        used = cpu_seconds(self.process) - began
        if wrk.returncode != 0:
            raise SystemExit(f"wrk failed: {text}")
        if "Non-2xx" in text or re.search(r"Socket errors: .*(connect|read|write) [1-9]", text):
            raise SystemExit(f"{self.process.name}: {self.url} was not always answered:\n{text}")
        answered = int(re.search(r"(\d+) requests in", text).group(1))
        rate = float(re.search(r"Requests/sec:\s+([\d.]+)", text).group(1))
        value, unit = re.search(r"99%\s+([\d.]+)(us|ms|s)", text).groups()
        return used / max(1, answered) * 1e6, rate, float(value) * {"us": 0.001, "ms": 1, "s": 1000}[unit], answered

    def median(self, column):
        return statistics.median(one[column] for one in self.rounds)

    @property
    def cost(self):
        return self.median(0)

    @property
    def rate(self):
        return self.median(1)

    def ratio(self, other, column=0):
        """The median over the rounds of this probe's figure divided by that of `other`."""
        return statistics.median(own[column] / its[column] for own, its in zip(self.rounds, other.rounds))


class Restarted(Probe):
    """A probe of wastebin, which is started for each round: it ends when a client leaves before its answer, as `wrk` does at its end.
    `path` returns the path of the view for a started process."""

    def __init__(self, start, path, **more):
        self.start_server, self.path = start, path
        super().__init__(None, None, **more)

    def run(self, seconds):
        self.process = self.start_server()
        self.url = self.process.url + self.path(self.process)
        return super().run(seconds)


class Table:
    """The rows: what was measured, the goal, the figure, and whether the goal is reached (`None` if there is no goal)."""

    def __init__(self, say):
        self.rows, self.costs, self.say = [], [], say

    def add(self, *row):
        """Adds a row, and says it at once: the run takes long, and may fail later."""
        self.rows.append(list(row))
        self.say(" | ".join(filter(None, row)))

    def ratio(self, what, probe, other, goal, column=0):
        ratio = probe.ratio(other, column)
        self.add(what, f"≤ {goal} ×" if goal else "", f"{number(ratio, 2)} ×", reached(ratio, goal))

    def at_most(self, what, figure, goal, unit, decimals=0):
        self.add(what, f"≤ {goal} {unit}", f"{number(figure, decimals)} {unit}", reached(figure, goal))

    def at_least(self, what, figure, goal):
        self.add(what, f"≥ {goal} ×", f"{number(figure, 2)} ×", "yes" if figure >= goal else "no")

    def cost(self, view, name, probe):
        self.costs.append((view, name, probe.cost, probe.rate))

    def missing(self, what, why):
        self.add(what, "", why, "")


def reached(figure, goal):
    return "" if goal is None else "yes" if figure <= goal else "no"


# The parts of the figures, in their order. Each starts servers of its own.
PARTS = ["at_rest", "hot_pages", "durable_creates", "overload", "tools", "growth"]


class Figures:
    """The servers of a run and what was measured on them."""

    def __init__(self, processes, binary, yardstick, say):
        self.processes, self.binary, self.yardstick, self.say = processes, binary, yardstick, say
        self.peer = None
        self.folder, self.core, self.table = processes.folder, cores()[0], Table(say)
        self.rounds, self.seconds = int(os.environ.get("ROUNDS", 5)), int(os.environ.get("ROUND_SECONDS", 4))
        self.pages = int(os.environ.get("PAGES", 1_000_000))
        text = DOCUMENT.read_bytes()[:PAGE_BYTES].decode(errors="ignore")
        self.create = self.file("create.json", json.dumps({"title": "A page to be measured", "content": text}))
        self.text = text

    def file(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path

    def handbill(self, name, *settings, **more):
        """A Handbill with its own data directory. Its log goes to a file on the same disk, as that of nginx."""
        data = self.folder / f"data-{name}"
        # As much memory as the chart and the package give.
        memory = ["--memory", "512MiB", "--drain-delay", "0s"]
        options = ["--data-dir", data, "--trusted-proxies", "127.0.0.0/8", *memory, *settings]
        server = Handbill(self.processes, self.binary, options, name, cpus=[self.core], stderr=self.folder / f"{name}.log", **more)
        server.data = data
        server.until_ready()
        return server

    def take_turns(self, *probes):
        """Measures the probes in turn, in each round; the first round only warms up."""
        for probe in probes:
            probe.run(1)
        for _ in range(self.rounds):
            for probe in probes:
                probe.rounds.append(probe.run(self.seconds))

    def creates(self, server, connections):
        return Probe(server.process, server.url, connections=connections, script="posts.lua", BODY=self.create, TARGET="/api/pages", HEADERS=JSON)

    def call(self, server, name, arguments, connections=32):
        """Calls of a tool for agents."""
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
        body = self.file(f"{name}.json", json.dumps(message))
        return Probe(server.process, server.url, connections=connections, script="posts.lua", BODY=body, TARGET="/mcp", HEADERS=TOOL)

    def reads(self, server, paths, connections=128):
        return Probe(server.process, server.url, connections=connections, script="random_pages.lua", PAGES=paths)

    def fill(self, server, pages, connections=256):
        """Creates at least `pages` pages of 2 KB. Returns their number, and a file with the path of each."""
        slugs = self.folder / f"slugs-{server.process.name}"
        slugs.touch()
        creating = self.creates(server, connections)
        creating.environment["SLUGS"] = str(slugs)
        made = 0
        while made < pages:
            creating.run(min(30, max(2, (pages - made) // 4000)))
            made = sum(1 for _ in slugs.open())
            self.say(f"{made} of {pages} pages")
        paths = "".join(f"/api/pages/{slug}\n" for slug in slugs.read_text().split())
        return made, self.file(f"paths-{server.process.name}", paths)

    def measure(self):
        for part in os.environ.get("PARTS", " ".join(PARTS)).split():
            getattr(self, part)()
        self.table.at_most("size of the program", self.binary.stat().st_size / 1e6, 25, "MB", 1)
        return self.table

    def at_rest(self):
        server = self.handbill("rest")
        time.sleep(1)
        self.table.at_most("memory at rest", resident(server.process) / 1e6, 20, "MB")
        self.processes.stop(server.process)

    def hot_pages(self):
        """One page of 2 KB, as JSON, HTML and Markdown, from each server; 304 of each; and compressed."""
        server = self.handbill("hot")
        page = server.publish("A page to be measured", self.text)
        paths = {"JSON": f"/api/pages/{page['slug']}", "HTML": f"/{page['slug']}", "Markdown": f"/{page['slug']}.md"}
        files = self.folder / "figures"
        kept = keep(files, {view: server.url + path for view, path in paths.items()})
        tags = {view: f"If-None-Match: {headers['ETag']}" for view, headers in kept.items()}
        nginx, nginx_url = start_nginx(self.processes, files, self.core, self.folder / "nginx.log")
        peers = {"nginx with its log": (nginx, nginx_url)}
        for stack in ("axum", "hyper"):
            process = self.processes.start([self.yardstick, stack, files], f"bare-{stack}", cpus=[self.core])
            peers[f"bare {stack}"] = process, said(process, r"listens on (http://\S+)")
        for view, path in paths.items():
            self.say(f"{view}: Handbill, nginx, axum, hyper")
            own = Probe(server.process, server.url + path)
            probes = {name: Probe(process, f"{url}/{view}") for name, (process, url) in peers.items()}
            if "WASTEBIN" in os.environ and view != "JSON":
                probes["wastebin"] = Restarted(self.wastebin, lambda process: process.paths[view])
            others = {"unchanged": Probe(server.process, server.url + path, [tags[view]])}
            others["axum unchanged"] = Probe(peers["bare axum"][0], f"{peers['bare axum'][1]}/{view}", [tags[view]])
            codings = [coding for coding in ("gzip", "br", "zstd") if self.serves(server.url + path, coding)]
            for coding in codings:
                others[coding] = Probe(server.process, server.url + path, [f"Accept-Encoding: {coding}"])
            self.take_turns(own, *probes.values(), *others.values())
            self.table.ratio(f"hot page, {view}: CPU of bare axum", own, probes["bare axum"], 1.7)
            self.table.ratio(f"hot page, {view}: CPU of nginx with its log", own, probes["nginx with its log"], 1.0)
            if "wastebin" in probes:
                self.table.at_least(f"hot page, {view}: CPU of wastebin", 1 / own.ratio(probes["wastebin"]), 4)
            self.table.ratio(f"304, {view}: CPU of a bare axum 304", others["unchanged"], others["axum unchanged"], 1.7)
            for coding in codings:
                self.table.ratio(f"compressed with {coding}, {view}: CPU of the page uncompressed", others[coding], own, 1.1)
            if not codings:
                self.table.missing(f"compressed, {view}", "this Handbill does not compress")
            for name, probe in {"Handbill": own, **probes}.items():
                self.table.cost(view, name, probe)
            self.table.cost(f"{view}, 304", "Handbill", others["unchanged"])
        for process in [server.process, *(process for process, _ in peers.values())]:
            self.processes.stop(process)

    def serves(self, url, coding):
        """Whether the page is compressed like this at last: the first answers are not, because that happens beside them."""
        for _ in range(20):
            if get(url, headers={"Accept-Encoding": coding})[0].get("Content-Encoding") == coding:
                return True
            time.sleep(0.1)
        return False

    def durable_creates(self):
        self.say("durable creates")
        server = self.handbill("creates")
        few, many = self.creates(server, 32), self.creates(server, 256)
        probes = [few, many]
        has_peer = "WASTEBIN" in os.environ
        if has_peer:
            body = self.file("wastebin.json", json.dumps({"text": self.text, "extension": "md"}))
            peer = Restarted(self.wastebin, lambda _: "", script="posts.lua", BODY=body, TARGET="/", HEADERS=JSON)
            probes.append(peer)
        self.take_turns(*probes)
        self.table.at_most("durable create of 2 KB, 32 connections: CPU", few.cost, 160, "µs")
        self.table.ratio("durable creates a second, 32 connections for each at 256", few, many, 1.0, column=1)
        if has_peer:
            self.table.at_least("durable creates a second for each of wastebin's", few.ratio(peer, 1), 10)
        self.table.cost("create, 32 connections", "Handbill", few)
        self.table.cost("create, 256 connections", "Handbill", many)
        self.reads_beside_creates(server, few.rate)
        self.processes.stop(server.process)

    def reads_beside_creates(self, server, highest):
        """p99 of reads of one page at a steady rate: alone, and while pages are created at half of the highest rate."""
        self.say("reads beside creates")
        page = server.publish("A page to be measured", self.text)
        path = self.file("one-path", f"/api/pages/{page['slug']}\n")
        alone, beside = (self.reads(server, path).pace(STEADY_READS) for _ in range(2))
        creating = self.creates(server, 32).pace(highest / 2)
        alone.run(1)
        for _ in range(self.rounds):
            alone.rounds.append(alone.run(self.seconds))
            background = creating.start(self.seconds + 1)
            time.sleep(0.5)
            beside.rounds.append(beside.run(self.seconds))
            background.communicate()
        what = f"p99 of {beside.rate:.0f} reads/s beside creates at half of their highest rate: alone"
        self.table.ratio(what, beside, alone, 2, column=2)
        self.table.add("that p99, alone and beside creates", "", f"{alone.median(2):.2f} and {beside.median(2):.2f} ms", "")

    def open_loop(self, name, target, rate, seconds, *options):
        """Starts requests at a constant rate, however slow the answers are. Returns the process and its results."""
        to, results = self.file(f"{name} target", target), self.folder / f"{name} results"
        command = ["taskset", "-c", str(cores()[1]), os.environ["VEGETA"], "attack", "-targets", to, "-output", results]
        command += ["-rate", f"{rate:.0f}/1s", "-duration", f"{seconds}s", "-timeout", "10s", "-max-body", "0"]
        return subprocess.Popen([*command, *options]), results

    def overload(self):
        """Creates of one client at twice the highest rate, on 1500 connections, beside reads of that client and of another."""
        if "VEGETA" not in os.environ:
            return self.table.missing("creates at twice the highest rate", "not run: VEGETA names no program")
        self.say("overload")
        server = self.handbill("overload", "--create-limit", "0")
        page, highest = server.publish("A page to be measured", self.text), self.creates(server, 256)
        self.take_turns(highest)
        seconds = 5 * self.seconds
        many = ["-max-connections", "1500", "-max-workers", "1500", "-header", JSON, "-body", self.create]
        reads, other = f"GET {server.url}/api/pages/{page['slug']}", ["-header", "X-Forwarded-For: 192.0.2.1"]
        before = server.gauge("handbill_store_commit_writes_sum")
        attacks = {
            "creates": self.open_loop("creates", f"POST {server.url}/api/pages", 2 * highest.rate, seconds, *many),
            "reads of the same client": self.open_loop("same", reads, 100, seconds),
            "reads of another client": self.open_loop("other", reads, 100, seconds, *other),
        }
        results = {}
        for name, (attack, file) in attacks.items():
            attack.wait()
            encoded = subprocess.run([os.environ["VEGETA"], "encode", "-to", "csv", file], stdout=subprocess.PIPE, check=True)
            # Time, status and latency in nanoseconds.
            results[name] = [(row[1], int(row[2]) / 1e6) for row in csv.reader(encoded.stdout.decode().splitlines())]
        stored = (server.gauge("handbill_store_commit_writes_sum") - before) / seconds
        self.table.at_least("creates at twice the highest rate: stored, of the highest rate", stored / highest.rate, 0.9)
        refused = sorted(latency for status, latency in results["creates"] if status == "503")
        if refused:
            self.table.at_most(f"p99 until a refusal, of {len(refused)}", refused[len(refused) * 99 // 100], 50, "ms")
        for name in list(results)[1:]:
            answered = sum(status == "200" for status, _ in results[name]) / max(1, len(results[name]))
            self.table.at_least(f"{name} that were answered", answered, 0.99)
        self.processes.stop(server.process)

    def tools(self):
        self.say("tools for agents")
        server = self.handbill("tools")
        page = server.publish("A page to be measured", self.text)

        read, create = Probe(server.process, f"{server.url}/api/pages/{page['slug']}"), self.creates(server, 32)
        get_page = self.call(server, "get_page", {"slug": page["slug"]})
        create_page = self.call(server, "create_page", {"title": "A page to be measured", "content": self.text})
        self.take_turns(read, get_page, create, create_page)
        self.table.ratio("MCP get_page: CPU of the REST read", get_page, read, 2)
        self.table.ratio("MCP create_page: CPU of the REST create", create_page, create, 2)
        self.processes.stop(server.process)

    def on_disk(self, server, pages):
        size = (server.data / "handbill.redb").stat().st_blocks * 512
        self.table.add(f"bytes on disk for each of {pages} pages", "", f"{size / pages:.0f}", "")

    def one_and_all(self, server, paths):
        """Measures reads of one page and of all pages in turn."""
        with paths.open() as listed:
            first = listed.readline().strip()
        hot = Probe(server.process, server.url + first)
        spread = self.reads(server, paths, 32)
        self.take_turns(hot, spread)
        return hot, spread

    def growth(self):
        """Up to PAGES pages: reads at random, bytes on disk, memory after their creation, start, and reads at random within 1 GiB."""
        server = self.handbill("growth")
        for pages, goal in ((10_000, 1.3), (100_000, None)):
            if pages < self.pages:
                made, paths = self.fill(server, pages)
                hot, spread = self.one_and_all(server, paths)
                self.table.ratio(f"{made} pages at random: CPU of one page", spread, hot, goal)
                self.on_disk(server, made)
        made, paths = self.fill(server, self.pages)
        self.table.at_most(f"memory after {made} creates", resident(server.process) / 1e6, 96, "MB")
        self.on_disk(server, made)
        self.processes.stop(server.process)
        limit = Limit(1024 * MEBIBYTE)
        try:
            began = time.monotonic()
            server = self.handbill("growth", preexec_fn=limit.enter)
            self.table.at_most(f"start with {made} pages, until ready", (time.monotonic() - began) * 1000, 100, "ms")
            hot, spread = self.one_and_all(server, paths)
            self.table.ratio(f"{made} pages at random, 1 GiB ({limit.kind}): CPU of one page", spread, hot, 2.5)
            half = self.reads(server, paths).pace(spread.rate / 2)
            half.rounds = [half.run(self.seconds) for _ in range(self.rounds)]
            what = f"their p99 at {half.rate:.0f}/s, half of the highest rate ({spread.rate:.0f}/s)"
            self.table.at_most(what, half.median(2), 5, "ms", 2)
        finally:
            self.processes.stop(server.process)
            limit.remove()

    def wastebin(self):
        """A wastebin that WASTEBIN names, with a database in a file and one page. It ends the one before."""
        if self.peer:
            self.processes.stop(self.peer)
        port = free_port()
        settings = {
            "WASTEBIN_ADDRESS_PORT": f"127.0.0.1:{port}",
            "WASTEBIN_BASE_URL": f"http://127.0.0.1:{port}",
            "WASTEBIN_DATABASE_PATH": str(self.folder / "wastebin.db"),
        }
        environment = {**os.environ, **settings}
        process = self.peer = self.processes.start([os.environ["WASTEBIN"]], "wastebin", cpus=[self.core], env=environment)
        until(lambda: listens("127.0.0.1", port), "wastebin listens")
        process.url = f"http://127.0.0.1:{port}"
        body = json.dumps({"text": self.text, "extension": "md"}).encode()
        path = json.loads(get(f"{process.url}/", data=body, headers={"Content-Type": "application/json"})[1])["path"]
        identity = path.strip("/").removesuffix(".md")
        process.paths = {"HTML": f"/md/{identity}", "Markdown": f"/raw/{identity}"}
        return process


def resident(process):
    """Bytes of memory that a process has."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", status).group(1)) * 1024


def chart(costs):
    """A bar chart of CPU time a request, as SVG. `costs` are view, name, microseconds and requests a second."""
    wide, high, left = 920, 26, 330
    most = max(cost for _, _, cost, _ in costs)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high * len(costs) + 40}" font-family="sans-serif" font-size="13">',
        "<title>CPU time a request, in microseconds</title>",
        '<rect width="100%" height="100%" fill="#fff"/>',
    ]
    for at, (view, name, cost, rate) in enumerate(costs):
        y, width = 20 + at * high, max(1, cost / most * (wide - left - 170))
        colour = "#1f6f8b" if name == "Handbill" else "#b0b7bd"
        lines.append(f'<text x="{left - 8}" y="{y + 14}" text-anchor="end">{view}: {name}</text>')
        lines.append(f'<rect x="{left}" y="{y}" width="{width:.1f}" height="18" fill="{colour}"/>')
        lines.append(f'<text x="{left + width + 6:.1f}" y="{y + 14}">{cost:.1f} µs, {rate:.0f}/s</text>')
    return "\n".join([*lines, "</svg>", ""])
