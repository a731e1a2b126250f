"""A Handbill that this run starts."""

import json
import re

from .processes import get, said, until, answers

class Handbill:
    """One process. With port 0 the system chooses the port."""

    def __init__(self, processes, binary, settings, name="handbill", listen="127.0.0.1:0", admin="127.0.0.1:0", **more):
        command = [binary, "serve", "--listen", listen, "--admin-listen", admin, *settings]
        self.process = processes.start(command, name, **more)
        self.url = "http://" + said(self.process, r'"listen":"([^"]+)"', "err")
        self.admin = "http://" + said(self.process, r'"admin_listen":"([^"]+)"', "err")

    def until_ready(self):
        until(lambda: answers(f"{self.admin}/readyz"), f"{self.process.name} is ready")

    def publish(self, title, content):
        body = json.dumps({"title": title, "content": content}).encode()
        return json.loads(get(f"{self.url}/api/pages", data=body, headers={"Content-Type": "application/json"})[1])

    def gauge(self, name):
        text = get(f"{self.admin}/metrics")[1].decode()
        return float(re.search(rf"^{name} (\S+)", text, re.MULTILINE).group(1))
