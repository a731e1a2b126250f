"""A Handbill that this run starts, and the objectives by its own metrics."""

import json
import re

from .processes import get, said, until, answers

SAMPLE = re.compile(r"^(\w+)\{([^}]*(?:\{slug\}[^}]*)*)\} (\S+)", re.MULTILINE)
LABEL = re.compile(r'(\w+)="([^"]*)"')

# The objectives of docs/observability.md: methods, routes, and the time limit in the server in seconds.
OBJECTIVES = {
    "read": ({"GET", "HEAD"}, {"/api/pages/{slug}", "/{slug}"}, "0.05"),
    "write": ({"POST", "PATCH", "DELETE"}, {"/api/pages", "/api/pages/{slug}"}, "0.25"),
}


class Handbill:
    """One process. With port 0 the system chooses the port."""

    def __init__(self, processes, binary, settings, name="handbill", listen="127.0.0.1:0", admin="127.0.0.1:0", **more):
        command = [binary, "serve", "--listen", listen, "--admin-listen", admin, *settings]
        self.process = processes.start(command, name, **more)
        self.url = said(self.process, r"listens on (http://\S+)")
        self.admin = said(self.process, r"Operators: (http://[^/]+)")

    def until_ready(self):
        until(lambda: answers(f"{self.admin}/readyz"), f"{self.process.name} is ready")

    def publish(self, title, content):
        body = json.dumps({"title": title, "content": content}).encode()
        return json.loads(get(f"{self.url}/api/pages", data=body, headers={"Content-Type": "application/json"})[1])

    def samples(self):
        """Every sample with labels in its metrics: name, labels, value."""
        text = get(f"{self.admin}/metrics")[1].decode()
        return [(name, dict(LABEL.findall(labels)), float(value)) for name, labels, value in SAMPLE.findall(text)]

    def gauge(self, name):
        text = get(f"{self.admin}/metrics")[1].decode()
        return float(re.search(rf"^{name} (\S+)", text, re.MULTILINE).group(1))

    def within_objective(self, kind):
        """The share of requests of a kind that were in time. As in the objectives, requests answered 5xx are left out. If the client
        disconnects first, the request has no status; it was in time if the client left within the limit."""
        methods, routes, bound = OBJECTIVES[kind]
        all_of_them = in_time = 0
        for name, labels, value in self.samples():
            if labels.get("http_request_method") not in methods or labels.get("http_route") not in routes:
                continue
            if labels.get("http_response_status_code", "").startswith("5"):
                continue
            if name == "http_server_request_duration_seconds_count":
                all_of_them += value
            elif name == "http_server_request_duration_seconds_bucket" and labels["le"] == bound:
                in_time += value
        return in_time / all_of_them if all_of_them else None
