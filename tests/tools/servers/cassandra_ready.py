#!/usr/bin/env python3
"""Checks that a cluster is ready: cassandra_ready.py PORT HOST…

Succeeds when every host answers CQL, lists all the others (drivers learn the nodes from there) and has the same schema.
Otherwise it prints what is missing. It speaks just enough of version 4 of the protocol to log in and to read two system tables.
"""

import socket
import struct
import sys

ERROR, STARTUP, AUTHENTICATE, QUERY, AUTH_RESPONSE = 0, 1, 3, 7, 15

# The login that a server creates at its first start, as PLAIN says it: no other name, the name, the password.
LOGIN = b"\0cassandra\0cassandra"


class NotReady(Exception):
    pass


def receive(connection, count):
    data = b""
    while len(data) < count:
        part = connection.recv(count - len(data))
        if not part:
            raise NotReady("the connection was closed")
        data += part
    return data


def call(connection, opcode, body):
    connection.sendall(struct.pack(">BBhBI", 4, 0, 0, opcode, len(body)) + body)
    _, _, _, opcode, length = struct.unpack(">BBhBI", receive(connection, 9))
    body = receive(connection, length)
    if opcode == ERROR:
        raise NotReady(body[6:].decode(errors="replace"))
    if opcode == AUTHENTICATE:
        return call(connection, AUTH_RESPONSE, struct.pack(">I", len(LOGIN)) + LOGIN)
    return body


def rows(connection, query):
    """The rows of a query whose columns are addresses and UUIDs."""
    text = query.encode()
    body = call(connection, QUERY, struct.pack(">I", len(text)) + text + struct.pack(">HB", 1, 0))
    # kind, flags, columns; one table for all columns; the columns' names and types
    _, _, columns = struct.unpack_from(">III", body)
    at = 12

    def skip_string():
        nonlocal at
        at += 2 + struct.unpack_from(">H", body, at)[0]

    skip_string()
    skip_string()
    for _ in range(columns):
        skip_string()
        at += 2
    count = struct.unpack_from(">I", body, at)[0]
    at += 4
    found = []
    for _ in range(count):
        row = []
        for _ in range(columns):
            length = struct.unpack_from(">i", body, at)[0]
            at += 4
            row.append(body[at : at + length] if length > 0 else b"")
            at += max(length, 0)
        found.append(row)
    return found


def look(port, hosts):
    schemas = set()
    for host in hosts:
        with socket.create_connection((host, port), 10) as connection:
            options = b"\0\1" + b"\0\x0bCQL_VERSION" + b"\0\x053.0.0"
            call(connection, STARTUP, options)
            schemas.add(rows(connection, "SELECT schema_version FROM system.local")[0][0])
            peers = rows(connection, "SELECT native_address, schema_version FROM system.peers_v2")
            schemas |= {schema for _, schema in peers}
            listed = {socket.inet_ntoa(address) for address, _ in peers}
            missing = set(hosts) - {host} - listed
            if missing:
                raise NotReady(f"{host} does not list {', '.join(sorted(missing))}")
    if len(schemas) != 1:
        raise NotReady(f"{len(schemas)} versions of the schema")


if __name__ == "__main__":
    try:
        look(int(sys.argv[1]), sys.argv[2:])
    except (NotReady, OSError) as reason:
        sys.exit(str(reason))
