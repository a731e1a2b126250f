# Read by scripts that run one replica at three nodes of their own. `program` is $HANDBILL, or what `cargo build` makes; `work` is a folder
# that goes at the end with everything that runs from it.
program=${HANDBILL:-}
[ -n "$program" ] || { cargo build --locked && program=target/debug/handbill; }
work=$(mktemp -d)
IP_PREFIX=$(tests/tools/servers/network "$work")
export IP_PREFIX
store=(--store scylla --scylla-keyspace handbill --scylla-consistency local)
public=${IP_PREFIX}9:8080 probes=${IP_PREFIX}9:9090
replica=

nodes() { tests/tools/servers/cassandra "$@" >/dev/null; }
expect() { [ "$1" = "$2" ] || { echo "$3: $1 and not $2"; exit 1; }; }

stop_serving() { [ -z "$replica" ] || { kill -KILL "$replica" && wait "$replica"; } 2>/dev/null || true; replica=; }

end() {
    stop_serving
    nodes kill "$work"
    rm -rf "$work"
}
trap end EXIT
trap 'exit 130' INT TERM

serve() { # further options…
    stop_serving
    "$program" serve "${store[@]}" --redis-url redis://127.0.0.1:1 --create-limit 0 --edit-limit 0 --log warn \
        --listen "$public" --admin-listen "$probes" --admin-socket "$work/admin.sock" "$@" >/dev/null 2>"$work/log" &
    replica=$!
    local _
    for _ in $(seq 300); do ! curl -sf "$probes/readyz" >/dev/null || return 0; sleep 0.2; done
    cat "$work/log" >&2
    return 1
}
