# Creates, reads and deletes one page through HANDBILL_URL, and tries a wrong key. For `helm test`; needs sh, date, sed and curl. It uses
# up one create and two edits of its client's limits, and prints no key.
set -eu

fail() { echo "FAILED: $*" >&2; exit 1; }

silence() { fail "$HANDBILL_URL gave no answer (curl's exit code $code): check for a NetworkPolicy or a proxy in between, and read the replicas' logs"; }

# Calls curl with the arguments and sets `answer` to the body, with the number of connections and the status as the last line. A new
# Service may have no DNS name (curl's exit code 6) or no endpoint (7) yet, or either may take too long (28, without a connection). Then
# no request was sent, so curl is called again for half a minute. Any other request is never repeated, least of all one that Handbill
# refused.
ask() {
    end=$(($(date +%s) + 30))
    while :; do
        code=0
        answer=$(curl -sS --connect-timeout 10 -m 30 -w '\n%{num_connects} %{http_code}\n' "$@") || code=$?
        case $code in
            0) return ;;
            6 | 7) ;;
            28) [ "$(printf '%s\n' "$answer" | sed -n '$s/ .*//p')" = 0 ] || silence ;;
            *) silence ;;
        esac
        [ "$(date +%s)" -lt $end ] || fail "$HANDBILL_URL cannot be reached (curl's exit code $code): check DNS, and that replicas are ready (kubectl get pods)"
        sleep 1
    done
}
field() { printf '%s\n' "$answer" | sed -n "s/.*\"$1\":\"\\([^\"]*\\)\".*/\\1/p"; }

# expect STATUS WHAT CURL-ARGUMENTS…
expect() {
    wanted=$1 what=$2
    shift 2
    ask "$@"
    status=$(printf '%s\n' "$answer" | sed -n '$s/.* //p')
    case $status in
        "$wanted") echo "ok: $what answers $status" ;;
        429) fail "$what answered 429: this client has used up its limit. Wait until limits.window has passed, or raise limits.create and limits.edit; if others share its limit, set trustedProxies" ;;
        5??) fail "$what answered $status: read the replicas' logs, and check the database and Redis" ;;
        *) fail "$what answered $status instead of $wanted" ;;
    esac
}

expect 201 "creating a page" "$HANDBILL_URL/api/pages" -H 'Content-Type: application/json' \
    -d '{"title": "helm test", "content": "A page that `helm test` made and deletes."}'
page=$HANDBILL_URL/api/pages/$(field slug)
key=$(field edit_key)
[ -n "$key" ] || fail "the answer contains no edit key"

expect 200 "reading it" "$page"
wrong=hbk_0000000000000000000000000000000000000000000
expect 401 "deleting it with a wrong key" -X DELETE "$page" -H "Authorization: Bearer $wrong"
expect 200 "reading it after that" "$page"
expect 204 "deleting it with its key" -X DELETE "$page" -H "Authorization: Bearer $key"
expect 410 "reading the deleted page" "$page"
echo "All checks passed."
