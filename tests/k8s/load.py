"""Requests at a constant rate, whatever becomes of them: to publish and change pages, and mostly to read them. For Kubernetes' checks.

    load.py http://address RATE STOP

ends when the file STOP appears, or after half an hour, and prints one line of JSON: how many were answered as they should be,
the first failures, and the slowest answer in seconds. Exits with 1 if any failed. Each request has a connection of its own,
so that a listener that closes too early is met.
"""

import asyncio
import json
import os
import sys
import time
from urllib.parse import urlsplit

# Enough that two changes of one page are a second apart: it is upgrades that are tried here, not a race of writers.
PAGES = 67


async def call(host, port, method, path, body=None, key=None):
    reader, writer = await asyncio.open_connection(host, port)
    try:
        payload = json.dumps(body).encode() if body is not None else b""
        head = [f"{method} {path} HTTP/1.1", f"Host: {host}", "Connection: close", f"Content-Length: {len(payload)}"]
        head += ["Content-Type: application/json"] if payload else []
        head += [f"Authorization: Bearer {key}"] if key else []
        writer.write("\r\n".join([*head, "", ""]).encode() + payload)
        await writer.drain()
        answer = await reader.read()
        head, _, body = answer.partition(b"\r\n\r\n")
        return int(head.split(b" ", 2)[1]), body
    finally:
        writer.close()


async def main():
    address, rate, stop = urlsplit(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
    where = address.hostname, address.port or 80
    pages, answered, failures, slowest, running = [], 0, [], 0.0, set()
    create = "POST", "/api/pages", {"title": "Load", "content": "*Before*."}

    async def answer_of(expected, *details):
        status, body = await asyncio.wait_for(call(*where, *details), 30)
        assert status == expected, f"answered {status}: {body[:200]!r}"
        return body

    for _ in range(PAGES):
        pages.append(json.loads(await answer_of(201, *create)))

    def request(number):
        """Of twenty requests one publishes, two change a page, three read it as HTML and the others as JSON."""
        page, kind = pages[number % PAGES], number % 20
        path = f"/api/pages/{page['slug']}"
        if kind == 0:
            return 201, *create
        if kind < 3:
            return 200, "PATCH", path, {"content": f"*Changed* {number}."}, page["edit_key"]
        return 200, "GET", f"/{page['slug']}" if kind < 6 else path

    async def one(number):
        nonlocal answered, slowest
        started = time.monotonic()
        expected, *details = request(number)
        try:
            await answer_of(expected, *details)
            answered += 1
        except Exception as error:  # Whatever it is, a client would have seen it.
            failures.append(f"{time.strftime('%X')} {details[0]}: {type(error).__name__} {error}")
        slowest = max(slowest, time.monotonic() - started)

    begun, number = time.monotonic(), 0
    while not os.path.exists(stop) and time.monotonic() - begun < 1800:
        number += 1
        task = asyncio.create_task(one(number))
        running.add(task)
        task.add_done_callback(running.discard)
        # By the clock and not by what was answered, so that a slow service is asked no less.
        await asyncio.sleep(max(0, begun + number / rate - time.monotonic()))
    await asyncio.gather(*running)
    took = time.monotonic() - begun
    result = {"answered": answered, "failed": len(failures), "rate": round(number / took), "slowest": round(slowest, 3)}
    print(json.dumps({**result, "failures": failures[:10]}))
    sys.exit(bool(failures))


asyncio.run(main())
