"""Exchanges a page's key for a token with an OAuth library, and edits and deletes the page with it.

    python tokens.py http://127.0.0.1:8080 authlib client_secret_basic

Libraries are authlib and requests-oauthlib, authentications client_secret_basic and client_secret_post.
"""

import os
import sys

import requests
from authlib.integrations.base_client import OAuthError
from authlib.integrations.requests_client import OAuth2Session as AuthlibSession
from oauthlib.oauth2 import BackendApplicationClient
from oauthlib.oauth2.rfc6749.errors import InvalidClientError
from requests_oauthlib import OAuth2Session as RequestsSession

base_url, library, authentication = sys.argv[1:]
metadata = requests.get(f"{base_url}/.well-known/oauth-authorization-server").json()
token_url = metadata["token_endpoint"]
assert authentication in metadata["token_endpoint_auth_methods_supported"], metadata


def with_authlib(slug, key):
    session = AuthlibSession(slug, key, token_endpoint_auth_method=authentication)
    return session, session.fetch_token(token_url, grant_type="client_credentials")


def with_requests_oauthlib(slug, key):
    # The library requires TLS, except with this setting for a test on one machine.
    os.environ["OAUTHLIB_INSECURE_TRANSPORT"] = "1"
    session = RequestsSession(client=BackendApplicationClient(client_id=slug))
    # By default the library sends the credentials by HTTP Basic.
    in_form = authentication == "client_secret_post"
    token = session.fetch_token(token_url, client_id=slug, client_secret=key, include_client_id=in_form)
    return session, token


session_for = {"authlib": with_authlib, "requests-oauthlib": with_requests_oauthlib}[library]

created = requests.post(f"{base_url}/api/pages", json={"title": "With a token", "content": "Before."}).json()
slug, key = created["slug"], created["edit_key"]
page_url = f"{base_url}/api/pages/{slug}"

try:
    session_for(slug, "hbk_" + 43 * "0")
    raise AssertionError("a wrong key got a token")
except (OAuthError, InvalidClientError) as error:
    assert error.error == "invalid_client" and error.description, error

session, token = session_for(slug, key)
assert token["access_token"] == key and token["token_type"] == "Bearer", "the token must be the key"
# requests-oauthlib returns the scope as a list.
scope = token["scope"] if isinstance(token["scope"], str) else " ".join(token["scope"])
assert scope == "post:edit post:delete", scope

edited = session.patch(page_url, json={"content": "After."})
assert (edited.status_code, edited.json()["content"]) == (200, "After."), edited.text
assert session.delete(page_url).status_code == 204
assert requests.get(page_url).status_code == 410

try:
    session_for(slug, key)
    raise AssertionError("a deleted page got a token")
except (OAuthError, InvalidClientError) as error:
    assert error.error == "invalid_client", error
