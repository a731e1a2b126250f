"""What the MCP scripts share: finding the server from the base URL, and reading what its tools answer."""

import json
from urllib.request import urlopen

# What the SDK negotiates in each of its modes.
PROTOCOL = {"auto": "2026-07-28", "legacy": "2025-11-25"}


def mcp_url(base_url):
    """The address of the MCP server, as its card has it."""
    with urlopen(f"{base_url}/.well-known/mcp/server-card.json") as answer:
        [remote] = json.load(answer)["remotes"]
    assert remote["type"] == "streamable-http", remote
    return remote["url"]


class Refused(Exception):
    """A tool's failure, as the tool tells it: `error`, `message`, `status` and perhaps `retry_after`, in seconds."""

    def __init__(self, failure):
        super().__init__(failure["message"])
        self.failure = failure
        self.code = failure["error"]


async def call(client, tool, **arguments):
    """What a tool answers. Raises `Refused` if it failed."""
    result = await client.call_tool(tool, arguments)
    [block] = result.content
    answer = json.loads(block.text)
    if result.is_error:
        assert result.structured_content is None, "a failure has another shape than the tool's output schema"
        raise Refused(answer)
    assert result.structured_content == answer, "the text says the same as the structured content"
    return answer
