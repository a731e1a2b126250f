"""Shared by the tests of the chart: paths, tools, and a running Handbill."""

import contextlib
import http.client
import json
import os
import re
import socket
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
CHART = ROOT / "helm/handbill"
RULES = CHART / "files/alerts.yaml"
DASHBOARD = CHART / "files/dashboard.json"
EXAMPLES = sorted((CHART / "ci").glob("*-values.yaml"))
# Folder of tests/tools/chart/install.
TOOLS = Path(os.environ["HANDBILL_CHART_TOOLS"])
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
BINARY = Path(os.environ.get("HANDBILL_BINARY", TARGET / "debug/handbill"))
# Seconds. Long enough for a process that starts slowly; a test that waits longer hangs.
PATIENCE = 120


def run(*command, **options):
    """Runs one of the tools, or any other program. Returns the finished process, even if it failed."""
    program = TOOLS / "bin" / command[0]
    command = [str(program if program.exists() else command[0]), *map(str, command[1:])]
    return subprocess.run(command, capture_output=True, text=True, **options)


def succeed(*command, **options):
    """Like `run`, but returns the standard output, and raises an error with all output if the program failed."""
    done = run(*command, **options)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}"
    return done.stdout


def render(values, *options):
    """The objects that the chart makes with a values file, as YAML."""
    return succeed("helm", "template", "handbill", CHART, "-f", values, *options)


def certificate(folder):
    """Writes `tls.key` and `tls.crt` for pages.example into the folder."""
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=pages.example"]
    succeed(*made, "-keyout", f"{folder}/tls.key", "-out", f"{folder}/tls.crt")


@contextlib.contextmanager
def started(command, is_ready, environment=None):
    """Runs a program as long as the context lasts. Yields what `is_ready` makes of its output, once that is true."""
    with tempfile.NamedTemporaryFile() as out, subprocess.Popen(command, stdout=out, stderr=out, env=environment) as process:
        try:
            end = time.monotonic() + PATIENCE
            while not (ready := is_ready(Path(out.name).read_text())):
                assert process.poll() is None and time.monotonic() < end, Path(out.name).read_text()
                time.sleep(0.05)
            yield ready
        finally:
            process.terminate()


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@contextlib.contextmanager
def prometheus(targets, *further):
    """A real Prometheus with the chart's rules that scrapes the admin ports `targets` every second as the job
    `handbill`. `further` are more options. Yields its address once it is ready."""
    with tempfile.TemporaryDirectory() as folder:
        # Waiting 30 s for the first evaluation would show nothing more.
        Path(folder, RULES.name).write_text(re.sub("interval: (30s|5m)", "interval: 1s", RULES.read_text()))
        scraped = {"job_name": "handbill", "static_configs": [{"targets": [target.removeprefix("http://") for target in targets]}]}
        every_second = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        settings = {"global": every_second, "rule_files": [f"{folder}/*.yaml"], "scrape_configs": [scraped]}
        Path(folder, "settings.json").write_text(json.dumps(settings))
        address = f"127.0.0.1:{free_port()}"
        options = [f"--config.file={folder}/settings.json", f"--storage.tsdb.path={folder}/data", f"--web.listen-address={address}"]

        def is_ready(_):
            with contextlib.suppress(OSError):
                return request("GET", f"http://{address}/-/ready")[0] == 200

        with started([TOOLS / "bin/prometheus", *options, *further], is_ready):
            yield f"http://{address}"


@contextlib.contextmanager
def handbill(*options):
    """A Handbill on free ports, with further options. Yields the address of the public listener and a list with that of the admin port."""
    assert BINARY.exists(), f"{BINARY} does not exist: run cargo build, or set HANDBILL_BINARY"

    def addresses(text):
        found = re.search(r'"listen":"([^"]+)","admin_listen":"([^"]+)"', text)
        return found and (f"http://{found[1]}", [f"http://{found[2]}"])

    with tempfile.TemporaryDirectory() as folder:
        listeners = ["--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0"]
        command = [BINARY, "serve", *listeners, f"--data-dir={folder}/data", *options]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("HANDBILL_")}
        with started(command, addresses, environment) as ready:
            yield ready


def request(method, url, body=None, **headers):
    """Sends one request. Returns the status and the text of the answer, whatever the status is."""
    host, _, path = url.removeprefix("http://").partition("/")
    connection = http.client.HTTPConnection(host, timeout=PATIENCE)
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    if body is not None:
        headers.setdefault("Content-Type", "application/json")
        body = body if isinstance(body, str) else json.dumps(body)
    with contextlib.closing(connection):
        connection.request(method, f"/{path}", body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def use(public):
    """Light use of everything that is measured: each route and method, refusals, and tool calls of an agent."""
    pages = f"{public}/api/pages"
    _, created = request("POST", pages, {"title": "A page", "content": "*Text*"})
    created = json.loads(created)
    page, key = f"{pages}/{created['slug']}", f"Bearer {created['edit_key']}"
    request("POST", f"{public}/", "# A page\n\nText", Content_Type="text/markdown")
    request("GET", page)
    request("HEAD", page)
    request("GET", f"{public}/{created['slug']}")
    request("GET", f"{public}/openapi.json")
    request("PATCH", page, {"content": "**Text**"}, Authorization=key)
    request("DELETE", page)
    request("DELETE", page, Authorization=key)
    _use_as_agent(f"{public}/mcp")


def _use_as_agent(endpoint):
    """Calls each tool once, without a session, so that any replica can take the call."""

    def call(tool, **arguments):
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
        accept = {"Accept": "application/json, text/event-stream", "MCP_Protocol_Version": "2025-11-25"}
        status, answer = request("POST", endpoint, body, **accept)
        assert status == 200, (tool, status, answer)
        return answer

    created = call("create_page", title="A page of an agent", content="*Text*")
    page = {field: re.search(rf'"{field}":"([^"]+)"', created)[1] for field in ("slug", "edit_key")}
    call("get_page", slug=page["slug"])
    call("update_page", content="**Text**", **page)
    call("delete_page", **page)


def scrape():
    """The text of /metrics of a Handbill after light use."""
    with tempfile.TemporaryDirectory() as folder:
        blocklist = Path(folder, "blocklist")
        blocklist.write_text("spam.example\n")
        options = [f"--blocklist-file={blocklist}"]
        with handbill(*options, "--edge-max-age=1m", "--drain-timeout=0s") as (public, admin):
            use(public)
            return request("GET", f"{admin[0]}/metrics")[1]
