"""Counts what a read of a hot page takes, beside nginx: instructions of the program by step, and system calls.

Instructions are counted by Valgrind's callgrind, system calls by `perf stat`, so neither depends on how busy the machine is. The
page, the servers and their settings are those of `loadtest/run figures`. Needs root, and a program with its symbols.
"""

import re
import subprocess
import time
from collections import Counter

from .figures import Figures, Probe
from .processes import Processes, children, get
from .tables import number
from .yardsticks import keep, start_nginx

CALLGRIND = ["valgrind", "--tool=callgrind", "--trace-children=yes", "--compress-strings=no", "--compress-pos=no"]
SYSCALLS = "recvfrom writev sendfile64 write poll ppoll setsockopt openat newfstatat close epoll_wait futex".split()

# Code that serves whatever calls it, so its instructions are those of its callers.
HELPER = re.compile(r"^_*mem|^__strcmp|^[<&(]*(T|alloc|bytes|core|hashbrown|itoa|memchr|ryu|smallvec|std|str|u64|zmij)\b|core::fmt|core::num|_find_avx2|clock_gettime|pthread_")
# Sources of a helper that say what it serves: what was inlined into it.
SPECIFIC = re.compile(r"/crates/|/src/(web|api|telemetry)/|/(http|hyper|tokio)-[0-9]")
# Steps of Handbill by the source file of the code, as it was inlined, or else by the function's name.
HANDBILL = [
    ("allocator", r"jemalloc|_rjem|sdallocx|tikv|__rust_(de|re)?alloc|malloc"),
    ("connections, budgets, time limits", r"/crates/front/|handbill_front::"),
    ("line of the log, id, metrics", r"/src/telemetry/|handbill::telemetry|prometheus_client|/ports/(random|clock)|rand|chacha|siphasher|tracing"),
    ("page, its fields and its tag", r"/src/(web|api)/|handbill::(web|api|app)|handbill_core|/crates/core/|quick_cache|percent"),
    ("HTTP: parsing, fields, writing", r"hyper|httparse|/http|http::|http_body|axum|tower"),
    ("runtime: tasks, timers, epoll", r"tokio|mio|parking_lot|socket2|rustix|futures"),
]
# Steps of nginx by the nearest function before it that has a name.
NGINX = [
    ("allocator", r"_int_(malloc|free)|libc.* (malloc|free|calloc)|ngx_(p|c|n|me)?(alloc|calloc|nalloc|align)|ngx_palloc|ngx_pfree|ngx_.*_pool|ngx_create_temp_buf|ngx_array|ngx_list"),
    ("line of the log, id, metrics", r"libcrypto|ngx_http_log|ngx_log|sprintf|ngx_escape|ngx_hex|variable|ngx_gmtime|ngx_time"),
    ("page, its fields and its tag", r"static|index_|open_cached|open_file|ngx_http_(map_uri|set_content|complex|script|discard|core|update)|ngx_conf"),
    ("HTTP: parsing, fields, writing", r"ngx_(http|output|chain|linux|unix|readv|recv|str|hash|alloc_chain)"),
    ("runtime: tasks, timers, epoll", r"ngx_(event|epoll|rbtree|reusable|connection|process|queue)"),
]
ELSE = "everything else"


class Counting(Processes):
    """Starts the programs under callgrind."""

    def start(self, command, name, **more):
        out = self.folder / "callgrind"
        return super().start([*CALLGRIND, f"--callgrind-out-file={out}.%p", f"--log-file={out}-%p.log", *command], name, **more)

    def counted(self, process, probe, seconds):
        """Runs `probe`. Returns the counts of the process and its children, for one request each."""
        ids = [str(one) for one in (process.pid, *children(process.pid))]
        control(ids, "--zero")
        answered = probe.run(seconds)[3]
        control(ids, "--dump")
        dumps = [file for one in ids for file in self.folder.glob("callgrind.*") if re.search(rf"^pid: {one}$", file.read_text(errors="replace"), re.M)]
        counts = Counter()
        for file in dumps:
            counts.update(self_costs(file))
            file.unlink()
        return {what: count / answered for what, count in counts.items()}


def control(ids, what):
    for one in ids:
        subprocess.run(["callgrind_control", what, one], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(1)


def self_costs(file):
    """Instructions by object, function and source file of the code. Those of a [`HELPER`] are its callers', by what each call took."""
    costs, calls, callee = Counter(), Counter(), None
    obj = function = source = own = called_in = called = ""
    for line in file.read_text(errors="replace").splitlines():
        key, _, value = line.partition("=")
        if key == "ob":
            obj = called_in = value
        elif key == "fn":
            function, source = re.sub(r"'[0-9]+$", "", value), own
        elif key == "fl":
            source = own = value
        elif key in ("fi", "fe"):
            source = value
        elif key == "cob":
            called_in = value
        elif key == "cfn":
            called = re.sub(r"'[0-9]+$", "", value)
        elif key == "calls":
            callee, called_in = (called_in, called), obj
        elif line[:1].isdigit():
            if callee:
                calls[callee[1], (obj, function, source)] += int(line.split()[1])
            else:
                costs[obj, function, source] += int(line.split()[1])
            callee = None
    return of_callers(costs, calls)


def of_callers(costs, calls):
    callers = {}
    for (callee, caller), taken in calls.items():
        if callee != caller[1]:
            callers.setdefault(callee, Counter())[caller] += taken
    # Helpers call helpers, but not deeply.
    for _ in range(12):
        passed = Counter()
        for place, count in costs.items():
            of = callers.get(place[1]) if HELPER.search(place[1]) and not SPECIFIC.search(place[2]) else None
            total = sum(of.values()) if of else 0
            for caller, taken in of.items() if total else ():
                passed[caller] += count * taken / total
            if not total:
                passed[place] += count
        costs = passed
    return costs


def names_of(program):
    """The exported functions of `program` by address. A function without a name is called as the one before it."""
    symbols = subprocess.run(["nm", "-D", "--defined-only", program], check=True, stdout=subprocess.PIPE).stdout.decode()
    return sorted((int(at, 16), name) for at, kind, name in (line.split()[:3] for line in symbols.splitlines()) if kind in "tT")


def steps(counts, patterns, names=()):
    """Sums `counts` by step."""
    sums = Counter()
    for (obj, function, source), count in counts.items():
        if function.startswith("0x") and obj.endswith("/nginx"):
            function = max((name for name in names if name[0] <= int(function, 16)), default=(0, function))[1]
        for text in (source, f"{obj} {function}"):
            step = next((step for step, pattern in patterns if re.search(pattern, text)), None)
            if step:
                break
        sums[step or ELSE] += count
    return sums


def system_calls(process, probe, seconds):
    """System calls of one request by name, while nothing slows the server down."""
    ids = ",".join(str(one) for one in (process.pid, *children(process.pid)))
    events = ["raw_syscalls:sys_enter", *(f"syscalls:sys_enter_{name}" for name in SYSCALLS)]
    with subprocess.Popen(["perf", "stat", "-x,", "-e", ",".join(events), "-p", ids], stderr=subprocess.PIPE) as perf:
        time.sleep(1)
        answered = probe.run(seconds)[3]
        perf.send_signal(2)
        lines = [line.split(",") for line in perf.communicate()[1].decode().splitlines()]
    found = {line[2].partition("sys_enter")[2].lstrip("_"): int(line[0]) / answered for line in lines if line[0].isdigit()}
    return {"all": found.pop(""), **{name: count for name, count in found.items() if count >= 0.01}}


def measure(processes, binary, seconds, say):
    """The rows of both tables."""
    plain = Figures(processes, binary, None, say)
    server = plain.handbill("hot")
    page = server.publish("A page to be measured", plain.text)
    paths = {"JSON": f"/api/pages/{page['slug']}", "HTML": f"/{page['slug']}", "Markdown": f"/{page['slug']}.md"}
    files = processes.folder / "figures"
    keep(files, {view: server.url + path for view, path in paths.items()})
    nginx, nginx_url = start_nginx(processes, files, plain.core, processes.folder / "nginx.log")
    asked = []
    for view, path in paths.items():
        for name, process, url in (("Handbill", server.process, server.url + path), ("nginx", nginx, f"{nginx_url}/{view}")):
            probe = Probe(process, url)
            probe.run(1)
            calls = system_calls(process, probe, seconds)
            asked.append([f"{view}, {name}", number(calls.pop("all"), 1), ", ".join(f"{call} {count:.2f}" for call, count in calls.items())])
            say(" | ".join(asked[-1]))
    processes.stop(server.process)
    processes.stop(nginx)

    counting = Counting(processes.folder)
    try:
        plain.processes = counting
        server = plain.handbill("hot")
        # A first read takes longer under Valgrind than a request may.
        for path in paths.values():
            get(server.url + path)
        nginx, nginx_url = start_nginx(counting, files, plain.core, processes.folder / "nginx.log")
        columns = []
        for view, path in paths.items():
            for process, url, patterns in ((server.process, server.url + path, HANDBILL), (nginx, f"{nginx_url}/{view}", NGINX)):
                probe = Probe(process, url)
                probe.run(2)
                names = names_of("/usr/sbin/nginx") if patterns is NGINX else ()
                columns.append(steps(counting.counted(process, probe, seconds), patterns, names))
                say(f"{view}: {sum(columns[-1].values()):.0f} instructions")
    finally:
        counting.stop_all()
    order = [step for step, _ in HANDBILL] + [ELSE]
    rows = [[step, *(number(column[step], 0) for column in columns)] for step in order]
    rows.append(["all", *(number(sum(column.values()), 0) for column in columns)])
    return rows, asked
