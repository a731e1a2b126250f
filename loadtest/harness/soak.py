"""Watches the memory of one Handbill under a light and steady load of creates, reads and calls of tools."""

import os
import statistics
import time

from .figures import Figures, MEBIBYTE, resident
from .tables import table

# Requests a second. They leave most of a core idle, since memory is measured and not speed.
CREATES, READS, CALLS = int(os.environ.get("CREATES", 20)), 300, 30
# Pages that exist before the clock starts, so that the first samples do not measure a cache that fills.
PAGES = 20_000


def pages(server):
    return sum(value for name, labels, value in server.samples() if name == "handbill_store_pages" and labels["state"] == "active")


def soak(processes, binary, say):
    """Returns a table: for each sixth of the time, the median and the most of the resident memory, and the pages by then."""
    minutes = int(os.environ.get("MINUTES", 60))
    parts = Figures(processes, binary, None, say)
    server = parts.handbill("soak")
    made, paths = parts.fill(server, PAGES)
    page = server.publish("A page to be measured", parts.text)
    calls = parts.call(server, "get_page", {"slug": page["slug"]}, 8)
    load = [parts.creates(server, 8).pace(CREATES), parts.reads(server, paths, 32).pace(READS), calls.pace(CALLS)]
    running = [probe.start(minutes * 60) for probe in load]
    rows, sixth = [], minutes * 10
    for part in range(6):
        samples, end = [], time.monotonic() + sixth
        while time.monotonic() < end:
            samples.append(resident(server.process) / MEBIBYTE)
            time.sleep(5)
        span = f"{part * minutes / 6:.0f} to {(part + 1) * minutes / 6:.0f}"
        rows.append([span, f"{statistics.median(samples):.1f}", f"{max(samples):.1f}", f"{pages(server):.0f}"])
        say(f"minutes {span}: {rows[-1][1]} MiB")
    for wrk in running:
        said = wrk.communicate()[0].decode()
        if wrk.returncode != 0 or "Non-2xx" in said:
            raise SystemExit(f"not every request of the soak was answered:\n{said}")
    processes.stop(server.process)
    return table(["minutes", "median MiB", "most MiB", "pages"], rows)
