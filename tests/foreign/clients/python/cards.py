"""Validates the agent card with the A2A SDK, and the MCP server cards with their published schema.

    python cards.py http://127.0.0.1:8080
"""

import json
import sys
from pathlib import Path
from urllib.request import Request, urlopen

from a2a.client.card_resolver import parse_agent_card
from a2a.types import AgentCard
from a2a.utils.proto_utils import validate_proto_required_fields
from google.protobuf import json_format
from jsonschema import Draft202012Validator

[base_url] = sys.argv[1:]


def document(path, accept="application/json"):
    with urlopen(Request(base_url + path, headers={"Accept": accept})) as answer:
        assert answer.headers["Content-Type"].startswith(accept), f"{path}: {answer.headers['Content-Type']}"
        return json.load(answer)


agent_card = document("/.well-known/agent-card.json")
# The strict parser refuses fields that A2A 1.0 does not have. Clients are more lenient.
validate_proto_required_fields(json_format.ParseDict(agent_card, AgentCard()))
assert parse_agent_card(agent_card).name == agent_card["name"]

# The schema is schema.json of modelcontextprotocol/experimental-ext-server-card, without its descriptions.
schema = json.loads(Path(__file__).with_name("server-card.schema.json").read_text())
validator = Draft202012Validator({"$ref": "#/$defs/ServerCard", "$defs": schema["$defs"]})
cards = [document("/.well-known/mcp/server-card.json"), document("/mcp/server-card", "application/mcp-server-card+json")]
for card in cards:
    validator.validate(card)
assert cards[0]["name"] == cards[1]["name"] and cards[0]["remotes"] == cards[1]["remotes"]
