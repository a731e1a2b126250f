# The life of one page through HANDBILL_URL: created, read, refused with a wrong key, deleted, gone. For `helm test`; needs
# sh, sed and curl. It spends one create and two edits of its client's limits, and prints no key.
set -eu

fail() { echo "FAILED: $*" >&2; exit 1; }

# Sets `answer` to what the rest of the arguments, which are curl's, are answered: the body, and the status as its last line. A Service
# that has only just been made may have no name (6) or lead nowhere (7) yet: that was no request, so it is made again. Anything
# else was one, which is not repeated, least of all one that Handbill refused.
ask() {
    tries=30
    while :; do
        code=0
        answer=$(curl -sS -m 30 -w '\n%{http_code}\n' "$@") || code=$?
        case $code in
            0) return ;;
            6 | 7) tries=$((tries - 1)) ;;
            *) fail "$HANDBILL_URL gave no answer (curl's exit code $code): see whether a NetworkPolicy or a proxy stands between, and the replicas' logs" ;;
        esac
        [ $tries -gt 0 ] || fail "$HANDBILL_URL is not to be reached (curl's exit code $code): see whether replicas are ready (kubectl get pods)"
        sleep 1
    done
}
field() { printf '%s\n' "$answer" | sed -n "s/.*\"$1\":\"\\([^\"]*\\)\".*/\\1/p"; }

# expect STATUS WHAT CURL-ARGUMENTS…
expect() {
    wanted=$1 what=$2
    shift 2
    ask "$@"
    status=$(printf '%s\n' "$answer" | sed -n '$p')
    case $status in
        "$wanted") echo "ok: $what answers $status" ;;
        429) fail "$what answered 429: this client has used up its limit. Wait until limits.window has passed, or raise limits.create and limits.edit; if others share its limit, set trustedProxies" ;;
        5??) fail "$what answered $status: the replicas' logs say why; look whether the database and Redis are well" ;;
        *) fail "$what answered $status instead of $wanted" ;;
    esac
}

expect 201 "creating a page" "$HANDBILL_URL/api/pages" -H 'Content-Type: application/json' \
    -d '{"title": "helm test", "content": "A page that `helm test` made and deletes."}'
page=$HANDBILL_URL/api/pages/$(field slug)
key=$(field edit_key)
[ -n "$key" ] || fail "the answer held no edit key"

expect 200 "reading it" "$page"
wrong=hbk_0000000000000000000000000000000000000000000
expect 401 "deleting it with a wrong key" -X DELETE "$page" -H "Authorization: Bearer $wrong"
expect 200 "reading it after that" "$page"
expect 204 "deleting it with its key" -X DELETE "$page" -H "Authorization: Bearer $key"
expect 410 "reading what was deleted" "$page"
echo "All of it works."
