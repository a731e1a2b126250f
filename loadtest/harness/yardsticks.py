"""Measures what a read of a page costs, compared with nginx and a bare axum handler with the same bytes and headers.

Each server has one core and the generator another. The servers take turns in each round, so that other work on the machine affects all of
them alike. Figures are medians over the rounds, and ratios are medians of the ratios within a round.
"""

import os
import re
import statistics
import subprocess

from .handbill import Handbill
from .processes import cpu_seconds, free_port, get, listens, said, until

CONNECTIONS = 32
WARM_SECONDS = 1

# Headers that each server sets itself.
OWN = {"date", "content-length", "server", "connection", "transfer-encoding"}

PARAGRAPH = """## A heading

Some *words* of a paragraph, **strong** ones among them, with [a link](https://example.org/somewhere?a=1&b=2), and enough
more to make a few lines of text as people write them, neither short nor long.

* a point
* another, with `code`

"""


class Subject:
    """A server under measurement, with the address of each view of the page."""

    def __init__(self, name, process, addresses):
        self.name, self.process, self.addresses = name, process, addresses
        self.figures = {view: [] for view in addresses}

    def measure(self, view, wrk, seconds):
        """Measures requests per second, and microseconds of CPU time per request."""
        begun = cpu_seconds(self.process)
        requests, rate = generate(self.addresses[view], wrk, seconds)
        self.figures[view].append((rate, (cpu_seconds(self.process) - begun) / requests * 1e6))


def generate(address, wrk, seconds):
    """Requests `address` as fast as possible. Returns the number of answers, and the number per second."""
    command = [*wrk, "-t", "1", "-c", str(CONNECTIONS), "-d", f"{seconds}s", address]
    said_by_wrk = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.decode()
    if "Non-2xx" in said_by_wrk or "Socket errors" in said_by_wrk:
        raise SystemExit(f"{address} was not always answered:\n{said_by_wrk}")
    requests = int(re.search(r"(\d+) requests in", said_by_wrk).group(1))
    return requests, float(re.search(r"Requests/sec:\s+([\d.]+)", said_by_wrk).group(1))


def cores():
    """The core of the server and the core of the generator."""
    available = sorted(os.sched_getaffinity(0))
    if len(available) < 2:
        raise SystemExit("the yardsticks need two cores: one for the servers, one for the generator")
    return available[0], available[1]


def start(processes, binary, yardstick, replicas=()):
    """Starts nginx, axum and Handbill with the same page, then the `replicas`: names and settings of further Handbills."""
    core, _ = cores()
    data = processes.folder / "yardstick-data"
    settings = {"Handbill": ["--data-dir", data], **dict(replicas)}
    subjects = []
    for name, options in settings.items():
        # Handbill writes a log line for each request, as nginx does, but to /dev/null.
        file = name.replace(" ", "-").replace(",", "")
        server = Handbill(processes, binary, options, f"yardstick-{file}", cpus=[core], stderr=os.devnull)
        server.until_ready()
        page = server.publish("A page to be measured", PARAGRAPH * 16)
        views = {"HTML": f"{server.url}/{page['slug']}", "JSON": f"{server.url}/api/pages/{page['slug']}"}
        subjects.append(Subject(name, server.process, views))

    files = processes.folder / "files"
    keep(files, subjects[0].addresses)

    axum = processes.start([yardstick, "axum", files], "axum", cpus=[core])
    axum_url = said(axum, r"listens on (http://\S+)")
    nginx, nginx_url = start_nginx(processes, files, core)
    views = subjects[0].addresses
    subjects.insert(0, Subject("nginx", nginx, {view: f"{nginx_url}/{view}" for view in views}))
    subjects.insert(1, Subject("bare axum", axum, {view: f"{axum_url}/{view}" for view in views}))
    for view in views:
        bodies = {get(subject.addresses[view])[1] for subject in subjects[:3]}
        assert len(bodies) == 1, f"not all of them answer with the same {view}"
    return subjects


def keep(files, addresses):
    """Keeps the answer at the address of each view in the folder `files`, for servers that repeat it. Returns the headers of each."""
    files.mkdir()
    kept = {}
    for view, address in addresses.items():
        kept[view], body = get(address)
        (files / view).write_bytes(body)
        lines = [f"{name.lower()}: {value}" for name, value in kept[view].items() if name.lower() not in OWN]
        (files / f"{view}.headers").write_text("\n".join(lines) + "\n")
    return kept


def start_nginx(processes, files, core, log="/dev/null"):
    """Starts nginx with one worker. It writes each line of its log at once, without a buffer."""
    port, folder = free_port(), processes.folder
    locations = ""
    for headers in files.glob("*.headers"):
        lines = [line.split(": ", 1) for line in headers.read_text().splitlines()]
        escaped = [(name, value.replace("\\", "\\\\").replace('"', '\\"')) for name, value in lines]
        added = "".join(f'add_header {name} "{value}";\n' for name, value in escaped if name != "content-type")
        content_type = dict(lines)["content-type"]
        locations += f'location = /{headers.stem} {{ types {{}} default_type "{content_type}"; {added} }}\n'
    temporary = "".join(
        f"{what}_temp_path {folder}/nginx-{what};\n" for what in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"""daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/nginx.err;
{"user root;" if os.geteuid() == 0 else ""}
events {{ worker_connections 1024; }}
http {{
{temporary}
log_format line escape=json '{{"timestamp":"$time_iso8601","level":"INFO","message":"answered","status":$status,'
    '"duration_seconds":$request_time,"span":{{"method":"$request_method","request_id":"$request_id"}}}}';
access_log {log} line;
sendfile on; tcp_nopush on; tcp_nodelay on; keepalive_timeout 75s; keepalive_requests 1000000000;
server_tokens off; etag off; max_ranges 0;
server {{ listen 127.0.0.1:{port}; root {files}; add_header Last-Modified ""; {locations} }}
}}
"""
    )
    environment = {**os.environ, "PATH": os.environ["PATH"] + ":/usr/sbin"}
    process = processes.start(["nginx", "-c", folder / "nginx.conf"], "nginx", cpus=[core], env=environment)
    until(lambda: listens("127.0.0.1", port), "nginx listens")
    return process, f"http://127.0.0.1:{port}"


def measure(subjects, rounds, seconds):
    """Measures all of them in turn, `rounds` times."""
    wrk = ["taskset", "-c", str(cores()[1]), "wrk"]
    views = list(subjects[0].addresses)
    for subject in subjects:
        for view in views:
            generate(subject.addresses[view], wrk, WARM_SECONDS)
    for _ in range(rounds):
        for view in views:
            for subject in subjects:
                subject.measure(view, wrk, seconds)


def rows(subjects):
    """For each view and subject: requests per second, CPU microseconds per request, and their ratios to nginx and axum."""
    for view in subjects[0].addresses:
        nginx, axum = (subject.figures[view] for subject in subjects[:2])
        for subject in subjects:
            figures = subject.figures[view]
            rate, cost = (statistics.median(column) for column in zip(*figures))
            ratios = [
                statistics.median(own[1] / other[1] for own, other in zip(figures, others)) for others in (nginx, axum)
            ]
            costs = [cost for _, cost in figures]
            yield view, subject.name, rate, cost, min(costs), max(costs), *ratios
