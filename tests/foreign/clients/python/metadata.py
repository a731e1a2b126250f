"""Validates the OAuth metadata: RFC 8414 with authlib, RFC 9728 with the MCP SDK.

    python metadata.py http://127.0.0.1:8080
"""

import json
import sys
from urllib.request import urlopen

from authlib.oauth2.rfc8414 import AuthorizationServerMetadata, get_well_known_url
from mcp.shared.auth import ProtectedResourceMetadata

[base_url] = sys.argv[1:]


def document(url):
    with urlopen(url) as answer:
        return json.load(answer)


resource = ProtectedResourceMetadata.model_validate(document(f"{base_url}/.well-known/oauth-protected-resource"))
# RFC 9728 §3.3: the document's resource must be the URL from which its address was made.
assert str(resource.resource).rstrip("/") == base_url, resource
[issuer] = (str(server).rstrip("/") for server in resource.authorization_servers)

server = AuthorizationServerMetadata(document(get_well_known_url(issuer, external=True)))
server.validate()
assert server["issuer"] == issuer, server
assert server["grant_types_supported"] == ["client_credentials"], server
