"""Measures what requests cost in a cluster: reads of distinct pages beside a bare driver that sends the same two queries, and reads of
one page beside bare axum.

One Cassandra node has the one copy of every page, so that a quorum costs as little as it can, and the machine has CPU left for what is
measured. The database shares both cores with the others; its CPU is listed on its own.
"""

import json
import os
import random
import re
import subprocess
from types import SimpleNamespace

from .cluster import SERVERS
from .figures import JSON, Figures, Probe
from .handbill import Handbill
from .processes import cpu_seconds, get, said
from .tables import number
from .yardsticks import keep

# The queries of an operation, by the label `operation` of the metric.
QUERIES = {"head": 1, "page": 1, "lookup": 2}
# Readers of the hot page.
HOT_CONNECTIONS = 32, 512


class ClusterReads(Figures):
    """The servers of a run and what was measured on them."""

    def __init__(self, processes, binary, yardstick, bare_driver, say):
        super().__init__(processes, binary, yardstick, say)
        self.bare_driver = bare_driver
        self.pages = int(os.environ.get("PAGES", 10_000))

    def measure(self):
        database, redis = self.folder / "cassandra", self.folder / "windows"
        environment = {**os.environ, "IP_PREFIX": f"127.{random.randint(96, 99)}.{random.randint(0, 255)}."}
        try:
            self.nodes = output([SERVERS / "cassandra", "start", "1", database], env=environment)
            redis_url = output([SERVERS / "redis", "start", "single", redis])
            self.database = SimpleNamespace(pid=int((database / "node1/pid").read_text()))
            (redis_pid,) = redis.glob("*/pid")
            self.redis, self.redis_url = SimpleNamespace(pid=int(redis_pid.read_text())), redis_url
            nodes = ["--store", "scylla", "--scylla-nodes", self.nodes]
            self.store = [*nodes, "--redis-url", redis_url]
            migrate = [self.binary, "migrate", "--log", "error", "--scylla-replication-factor", "1", *nodes]
            subprocess.run(migrate, check=True, stdout=subprocess.DEVNULL)
            self.distinct_pages()
            self.hot_page()
        finally:
            # Handbill would wait for the database to end its requests.
            self.processes.stop_all()
            subprocess.run([SERVERS / "redis", "stop", redis], check=True)
            subprocess.run([SERVERS / "cassandra", "stop", database], check=True)
        return self.table

    def replica(self, name, *options):
        options = [*self.store, "--trusted-proxies", "127.0.0.0/8", "--drain-delay", "0s", *options]
        server = Handbill(self.processes, self.binary, options, name, cpus=[self.core], stderr=self.folder / f"{name}.log")
        server.until_ready()
        return server

    def probe(self, process, url, **more):
        return ClusterProbe(self.database, process, url, **more)

    def distinct_pages(self):
        """Reads of all pages at random, of which Handbill keeps few in memory; 304 of them; and creates."""
        server = self.replica("distinct", "--memory", "128MiB")
        # With more connections, writes would wait for longer than a replica lets them.
        began, held = cpu_seconds(self.redis), self.redis_bytes()
        made, paths = self.fill(server, self.pages, connections=32)
        self.table.add("CPU of Redis for each create", "", f"{number((cpu_seconds(self.redis) - began) / made * 1e6)} µs", "")
        self.table.add("bytes of Redis for each client that created once", "", f"{(self.redis_bytes() - held) / made:.0f}", "")
        slugs = [path.rpartition("/")[2] for path in paths.read_text().split()]
        short = self.file("short-paths", "".join(f"/{slug}\n" for slug in slugs))
        driver = self.processes.start([self.bare_driver, self.nodes, "handbill"], "bare-driver", cpus=[self.core])
        bare_url = said(driver, r"listens on (http://\S+)")
        page = json.loads(get(f"{server.url}/api/pages/{slugs[0]}")[1])
        bare = get(f"{bare_url}/{slugs[0]}")[1].decode()
        assert bare == page["content"] + page["content_html"], "the bare driver answers with another text"

        for view, path in {"JSON": f"/api/pages/{slugs[0]}", "HTML": f"/{slugs[0]}"}.items():
            self.table.add(f"bytes of an answer, {view}, without its headers", "", str(len(get(server.url + path)[1])), "")

        self.say(f"{made} pages at random: Handbill and the bare driver")
        at_random = {"script": "random_pages.lua"}
        posts = {"script": "posts.lua", "BODY": self.create, "TARGET": "/api/pages", "HEADERS": JSON}
        peer = self.probe(driver, bare_url, PAGES=short, **at_random)
        reads = {
            "JSON": self.probe(server.process, server.url, PAGES=paths, **at_random),
            "HTML": self.probe(server.process, server.url, PAGES=short, **at_random),
        }
        unchanged = self.probe(server.process, server.url, headers=["If-None-Match: *"], PAGES=paths, **at_random)
        creates = self.probe(server.process, server.url, **posts)
        for what, probe in {**reads, "304": unchanged}.items():
            self.queries_row(f"{what} of distinct pages", server, probe)
        self.take_turns(*reads.values(), peer, unchanged, creates)
        for view, probe in reads.items():
            what = f"{made} distinct pages, {view}: CPU of a bare driver with the same two queries"
            self.table.ratio(what, probe, peer, 1.5)
            self.table.cost(f"distinct pages in a cluster, {view}", "Handbill", probe)
        self.table.cost("distinct pages in a cluster, text", "bare driver", peer)
        self.table.cost("304 of distinct pages in a cluster", "Handbill", unchanged)
        self.table.cost("create in a cluster", "Handbill", creates)
        self.database_row("read of distinct pages by the bare driver (two queries)", peer)
        self.database_row("304 of distinct pages (one query)", unchanged)
        self.database_row("create (a text and a transaction)", creates)
        self.processes.stop(driver)
        self.processes.stop(server.process)
        self.pages_in_memory(paths)

    def pages_in_memory(self, paths):
        """Reads of all pages at random, each of which is in Handbill's memory, so that only its head is read."""
        server = self.replica("in-memory", "--memory", "4GiB")
        probe = self.probe(server.process, server.url, script="random_pages.lua", PAGES=paths)
        missed = None
        while missed != server.gauge("handbill_page_cache_misses_total"):
            missed = server.gauge("handbill_page_cache_misses_total")
            probe.run(self.seconds)
        self.queries_row("JSON of distinct pages in memory", server, probe)
        self.take_turns(probe)
        self.table.cost("distinct pages in memory in a cluster, JSON", "Handbill", probe)
        self.processes.stop(server.process)

    def hot_page(self):
        """Reads of one page, whose readers share queries and whose answer is in memory.

        Shared queries are some milliseconds apart, so a few connections leave Handbill's core idle most of the time, and axum's never.
        With many, both are busy.
        """
        server = self.replica("hot-in-a-cluster")
        page = server.publish("A page to be measured", self.text)
        views = {"JSON": f"{server.url}/api/pages/{page['slug']}", "HTML": f"{server.url}/{page['slug']}"}
        files = self.folder / "hot-in-a-cluster"
        keep(files, views)
        axum = self.processes.start([self.yardstick, "axum", files], "bare-axum", cpus=[self.core])
        axum_url = said(axum, r"listens on (http://\S+)")
        for view, url in views.items():
            for connections in HOT_CONNECTIONS:
                what = f"{view}, {connections} connections"
                self.say(f"one page, {what}: Handbill and bare axum")
                own = self.probe(server.process, url, connections=connections)
                peer = self.probe(axum, f"{axum_url}/{view}", connections=connections)
                self.take_turns(own, peer)
                self.table.ratio(f"hot page in a cluster, {what}: CPU of bare axum", own, peer, 3)
                self.table.cost(f"hot page in a cluster, {what}", "Handbill", own)
                self.table.cost(f"hot page in a cluster, {what}", "bare axum", peer)
                self.database_row(f"read of the hot page, {what}", own)

    def queries_row(self, what, server, probe):
        before = queries(server)
        answered = probe.run(self.seconds)[3]
        self.table.add(f"queries of the database for each {what}", "", number((queries(server) - before) / answered, 2), "")

    def redis_bytes(self):
        info = output(["redis-cli", "-u", self.redis_url, "info", "memory"])
        return int(re.search(r"used_memory:(\d+)", info).group(1))

    def database_row(self, what, probe):
        self.table.add(f"CPU of the database for each {what}", "", f"{number(probe.median(4))} µs", "")


class ClusterProbe(Probe):
    """A probe whose fifth figure is the CPU of the database for each request, in microseconds."""

    def __init__(self, database, *of_probe, **more):
        super().__init__(*of_probe, **more)
        self.database = database

    def run(self, seconds):
        began = cpu_seconds(self.database)
        figures = super().run(seconds)
        return *figures, (cpu_seconds(self.database) - began) / max(1, figures[3]) * 1e6


def queries(server):
    """The queries about pages that the replica has sent, by its own metrics. An error or a repetition would count too little."""
    counts = [
        value * QUERIES.get(labels["operation"], 0)
        for name, labels, value in server.samples()
        if name == "handbill_store_duration_seconds_count"
    ]
    return sum(counts)


def output(command, **more):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, **more).stdout.decode().strip()
