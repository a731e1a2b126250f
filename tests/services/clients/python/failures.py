"""Every way in which a tool can fail, seen through the official SDK. The service must have no limits.

    python failures.py http://127.0.0.1:8080 auto
"""

import asyncio
import sys

from handbill import PROTOCOL, Refused, call, mcp_url
from mcp import Client, MCPError
from mcp_types import INVALID_PARAMS

WRONG_KEY = "hbk_" + 43 * "0"
ABSENT = "never-published-23456789"


async def failures(base_url, mode):
    async with Client(mcp_url(base_url), mode=mode) as client:
        assert client.protocol_version == PROTOCOL[mode], client.protocol_version
        page = await call(client, "create_page", title="To be left alone", content="Unchanged.")
        slug, key = page["slug"], page["edit_key"]
        other = await call(client, "create_page", title="Deleted", content="…")
        gone, gone_key = other["slug"], other["edit_key"]
        await call(client, "delete_page", slug=gone, edit_key=gone_key)

        too_long, too_large = "x" * 201, "x" * 102401
        cases = [
            ("create_page", {"content": "…"}, 400, "invalid_body", "title"),
            ("create_page", {"title": "", "content": "…"}, 400, "invalid_body", "title"),
            ("create_page", {"title": too_long, "content": "…"}, 400, "invalid_body", "title"),
            ("create_page", {"title": "A", "content": 1}, 400, "invalid_body", "content"),
            ("create_page", {"title": "A", "content": "…", "tags": []}, 400, "invalid_body", "tags"),
            ("create_page", {"title": "A", "content": ""}, 400, "empty_content", "content"),
            ("create_page", {"title": "A", "content": too_large}, 413, "content_too_large", "content"),
            ("get_page", {}, 400, "invalid_body", "slug"),
            ("get_page", {"slug": ABSENT}, 404, "not_found", ""),
            ("get_page", {"slug": "no slug at all"}, 404, "not_found", ""),
            ("get_page", {"slug": gone}, 410, "gone", ""),
            ("update_page", {"slug": ABSENT, "edit_key": key, "content": "…"}, 404, "not_found", ""),
            ("update_page", {"slug": gone, "edit_key": gone_key, "content": "…"}, 410, "gone", ""),
            ("update_page", {"slug": slug, "content": "…"}, 401, "missing_key", "edit_key"),
            ("update_page", {"slug": slug, "edit_key": "", "content": "…"}, 401, "missing_key", "edit_key"),
            ("update_page", {"slug": slug, "edit_key": "Bearer", "content": "…"}, 401, "missing_key", "edit_key"),
            ("update_page", {"slug": slug, "edit_key": 7, "content": "…"}, 400, "invalid_body", "edit_key"),
            ("update_page", {"slug": 7, "edit_key": key, "content": "…"}, 400, "invalid_body", "slug"),
            ("update_page", {"slug": slug, "edit_key": "sesame", "content": "…"}, 401, "invalid_key", "edit key"),
            ("update_page", {"slug": slug, "edit_key": WRONG_KEY, "content": "…"}, 401, "invalid_key", "edit key"),
            ("update_page", {"slug": slug, "edit_key": gone_key, "content": "…"}, 401, "invalid_key", "edit key"),
            ("update_page", {"slug": slug, "edit_key": key, "title": too_long}, 400, "invalid_body", "title"),
            ("update_page", {"slug": slug, "edit_key": key, "text": "…"}, 400, "invalid_body", "text"),
            ("update_page", {"slug": slug, "edit_key": key, "content": ""}, 400, "empty_content", "content"),
            ("update_page", {"slug": slug, "edit_key": key, "content": too_large}, 413, "content_too_large", "content"),
            ("delete_page", {"slug": ABSENT, "edit_key": key}, 404, "not_found", ""),
            ("delete_page", {"slug": gone, "edit_key": gone_key}, 410, "gone", ""),
            ("delete_page", {"slug": slug}, 401, "missing_key", "edit_key"),
            ("delete_page", {"slug": slug, "edit_key": WRONG_KEY}, 401, "invalid_key", "edit key"),
        ]
        for tool, arguments, status, code, named in cases:
            case = f"{tool} {str(arguments)[:200]}"
            try:
                answer = await call(client, tool, **arguments)
                raise AssertionError(f"{case} succeeded: {answer}")
            except Refused as refused:
                failure = refused.failure
                assert (failure["status"], failure["error"]) == (status, code), f"{case}: {failure}"
                assert named in failure["message"], f"{case}: {failure}"
                assert "retry_after" not in failure, f"{case}: {failure}"
                for secret in (key, gone_key):
                    assert secret not in str(failure), f"{case}: the answer has the key"

        try:
            await client.call_tool("publish", {})
            raise AssertionError("there is no such tool")
        except MCPError as error:
            assert error.error.code == INVALID_PARAMS, error

        # A tool accepts a page's address as its slug, and a key with "Bearer" before it.
        by_address = await call(client, "update_page", slug=page["url"], edit_key=f"Bearer {key}")
        assert by_address["slug"] == slug, by_address
        for name in (page["url"], f"/{slug}", f"{slug}.md"):
            assert await call(client, "get_page", slug=name) == by_address, name

        read = await call(client, "get_page", slug=slug)
        assert (read["title"], read["content"]) == ("To be left alone", "Unchanged."), read


asyncio.run(failures(*sys.argv[1:]))
