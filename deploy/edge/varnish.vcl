# Varnish in front of Handbill (docs/proxy-and-caches.md, "Shared caches"). Debian's Varnish 7.1 runs this file in the tests.
#
# Without --edge-max-age Varnish keeps pages, but asks Handbill at each request whether they have changed: nothing is ever stale, and
# most answers of Handbill have no body. With it, Varnish shows a page for as long as CDN-Cache-Control says, and Handbill purges the
# page when it changes (--purge-url 'http://127.0.0.1:6081/{slug}').
vcl 4.1;

import std;

backend handbill {
    .host = "127.0.0.1";
    .port = "8080";
    .probe = {
        .url = "/robots.txt";
        .interval = 2s;
        .timeout = 2s;
        .window = 3;
        .threshold = 2;
        .initial = 2;
    }
}

# The machines that Handbill runs on. They alone may purge.
acl handbill_hosts {
    "127.0.0.1";
    "::1";
}

sub vcl_recv {
    if (req.method == "PURGE") {
        if (client.ip !~ handbill_hosts) {
            return (synth(403, "Only Handbill may purge"));
        }
        if (req.url !~ "^/[0-9a-z-]+(\.md)?$") {
            return (synth(400, "Not a page"));
        }
        # The HTML and the Markdown of a page have its slug as their key, in all their forms.
        ban("obj.http.Surrogate-Key == " + regsub(req.url, "^/([0-9a-z-]+)(\.md)?$", "\1"));
        return (synth(200, "Purged"));
    }
    if (req.method != "GET" && req.method != "HEAD") {
        return (pass);
    }
    # Pages alone are kept, as HTML at their address and as Markdown at /SLUG.md.
    if (req.url !~ "^/[0-9a-z-]+-[2-9b-df-hj-km-np-tv-z]{8}(\.md)?$" || req.http.Accept ~ "text/markdown") {
        return (pass);
    }
    # Browsers name what they accept in many ways, and all get the same HTML.
    if (req.http.Accept ~ "text/html" && req.http.Accept !~ "application/json") {
        set req.http.Accept = "text/html";
    }
    # A request does not wait for the answer to an earlier one, which it could not use: it may have been read before a change.
    set req.hash_ignore_busy = true;
    # 10 s, or --edge-max-age if that is less. While Handbill fails, the whole grace of a page counts instead.
    if (std.healthy(req.backend_hint)) {
        set req.grace = 10s;
    }
    return (hash);
}

# Without --edge-max-age every request is for Handbill: also one that comes while an earlier answer is still to be had, which may have been
# read before a change.
sub vcl_hit {
    if (!obj.http.CDN-Cache-Control) {
        return (pass);
    }
}

sub vcl_backend_response {
    if (bereq.uncacheable) {
        return (deliver);
    }
    set beresp.grace = 0s;
    if (beresp.status != 200 || beresp.http.Cache-Control ~ "private|no-store" || !beresp.http.Surrogate-Key) {
        set beresp.ttl = 0s;
        set beresp.uncacheable = true;
        return (deliver);
    }
    # A page whose time is over is kept, so that Handbill need only say that it has not changed. Varnish asks so only about a page that had
    # a time at all, so it gets a millisecond, in which vcl_hit does not use it.
    set beresp.ttl = 1ms;
    set beresp.keep = 1h;
    if (beresp.http.CDN-Cache-Control ~ "max-age=[0-9]+") {
        set beresp.ttl = std.duration(regsub(beresp.http.CDN-Cache-Control, "^.*max-age=([0-9]+).*$", "\1s"), 0s);
        set beresp.grace =
            std.duration(regsub(beresp.http.CDN-Cache-Control, "^.*stale-while-revalidate=([0-9]+).*$", "\1s"), 0s)
            + std.duration(regsub(beresp.http.CDN-Cache-Control, "^.*stale-if-error=([0-9]+).*$", "\1s"), 0s);
    }
    return (deliver);
}

sub vcl_deliver {
    # Another cache behind this one would keep the page for the same time once more.
    unset resp.http.CDN-Cache-Control;
    unset resp.http.Surrogate-Key;
    unset resp.http.Cache-Tag;
}
