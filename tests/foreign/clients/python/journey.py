"""An agent that only knows the base URL. It finds the MCP server, publishes a page, edits it, recovers from a wrong key, reaches the
limit and waits as told, and deletes the page.

    python journey.py http://127.0.0.1:8080

The service should have a short `--rate-window`.
"""

import asyncio
import json
import sys
from urllib.request import urlopen

from mcp import Client


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
    block, *others = result.content
    texts = [other.text for other in others if other.type != "resource_link"]
    # The user gets a link to the editor, with the key.
    is_create = tool == "create_page" and not result.is_error
    assert len(texts) == is_create and all("/edit#hbk_" in text for text in texts), texts
    answer = json.loads(block.text)
    if result.is_error:
        assert result.structured_content is None, "a failure must have no structured content, since it does not match the output schema"
        raise Refused(answer)
    assert result.structured_content == answer, "the text must equal the structured content"
    return answer


async def until_refused(client):
    """Publishes until the limit refuses it, and returns the refusal. Even if this is slow, the window will hold enough creates."""
    while True:
        try:
            await call(client, "create_page", title="One more", content="…")
        except Refused as refused:
            return refused


async def journey(base_url):
    async with Client(mcp_url(base_url)) as client:
        assert client.protocol_version == "2026-07-28", client.protocol_version
        assert "edit_key" in client.instructions, client.instructions
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == ["create_page", "delete_page", "get_page", "update_page"], tools

        page = await call(client, "create_page", title="Hello from an agent", content="A *first* version.")
        slug, key = page["slug"], page["edit_key"]

        await call(client, "update_page", slug=slug, edit_key=key, content="A *second* version.")
        read = await call(client, "get_page", slug=slug, include_html=True)
        assert read["content"] == "A *second* version." and "<em>second</em>" in read["content_html"], read
        assert "content_html" not in await call(client, "get_page", slug=slug)

        try:
            await call(client, "update_page", slug=slug, edit_key="hbk_" + 43 * "0", title="Taken over")
            raise AssertionError("a wrong key was accepted")
        except Refused as refused:
            assert (refused.failure["status"], refused.code) == (401, "invalid_key"), refused.failure
        read = await call(client, "update_page", slug=slug, edit_key=key, title="Edited by an agent")
        assert (read["title"], read["content"]) == ("Edited by an agent", "A *second* version."), read

        refused = await until_refused(client)
        assert (refused.failure["status"], refused.code) == (429, "rate_limited"), refused.failure
        assert str(refused.failure["retry_after"]) in str(refused), refused.failure
        await asyncio.sleep(refused.failure["retry_after"])
        await call(client, "create_page", title="After the wait", content="Welcome again.")

        assert await call(client, "delete_page", slug=slug, edit_key=key) == {"slug": slug, "deleted": True}
        try:
            await call(client, "get_page", slug=slug)
            raise AssertionError("a deleted page was read")
        except Refused as refused:
            assert (refused.failure["status"], refused.code) == (410, "gone"), refused.failure


asyncio.run(journey(sys.argv[1]))
