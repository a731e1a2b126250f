# The life of one page through HANDBILL_URL: created, read, refused with a wrong key, deleted, gone. For `helm test`; needs
# sh, sed and curl. It spends one create and two edits of its client's limits, and prints no key.
set -eu

fail() { echo "FAILED: $*" >&2; exit 1; }

# What a step answered: its status as the last line, its body before that. A Service that has only just been made may
# not lead anywhere yet, and a refused connection was no request, so that one may be tried again.
ask() { curl -sS -m 30 --retry 30 --retry-delay 1 --retry-connrefused -w '\n%{http_code}\n' "$@"; }
status() { printf '%s\n' "$1" | sed -n '$p'; }
field() { printf '%s\n' "$1" | sed -n "s/.*\"$2\":\"\\([^\"]*\\)\".*/\\1/p"; }
expect() { [ "$(status "$2")" = "$1" ] || fail "$3 answered $(status "$2") instead of $1"; echo "ok: $3 answers $1"; }

created=$(ask "$HANDBILL_URL/api/pages" -H 'Content-Type: application/json' \
    -d '{"title": "helm test", "content": "A page that `helm test` made and deletes."}')
expect 201 "$created" "creating a page"
page=$HANDBILL_URL/api/pages/$(field "$created" slug)
key=$(field "$created" edit_key)
[ -n "$key" ] || fail "the answer held no edit key"

expect 200 "$(ask "$page")" "reading it"
wrong=hbk_0000000000000000000000000000000000000000000
expect 401 "$(ask -X DELETE "$page" -H "Authorization: Bearer $wrong")" "deleting it with a wrong key"
expect 200 "$(ask "$page")" "reading it after that"
expect 204 "$(ask -X DELETE "$page" -H "Authorization: Bearer $key")" "deleting it with its key"
expect 410 "$(ask "$page")" "reading what was deleted"
echo "All of it works."
