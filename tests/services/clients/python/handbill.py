"""Shared by the MCP scripts: finding the server from the base URL, and reading the answers of its tools."""

import json
from urllib.request import urlopen

# The protocol version that the SDK negotiates in each mode.
PROTOCOL = {"auto": "2026-07-28", "legacy": "2025-11-25"}


def mcp_url(base_url):
    """The address of the MCP server, from its card."""
    with urlopen(f"{base_url}/.well-known/mcp/server-card.json") as answer:
        [remote] = json.load(answer)["remotes"]
    assert remote["type"] == "streamable-http", remote
    return remote["url"]


class Refused(Exception):
    """The error that a tool reports: `error`, `message`, `status` and sometimes `retry_after` in seconds."""

    def __init__(self, failure):
        super().__init__(failure["message"])
        self.failure = failure
        self.code = failure["error"]


async def call(client, tool, **arguments):
    """Calls a tool and returns its answer. Raises `Refused` if it failed."""
    result = await client.call_tool(tool, arguments)
    block, *links = result.content
    assert all(link.type == "resource_link" for link in links), links
    answer = json.loads(block.text)
    if result.is_error:
        assert result.structured_content is None, "a failure must have no structured content, since it does not match the output schema"
        raise Refused(answer)
    assert result.structured_content == answer, "the text must equal the structured content"
    return answer
