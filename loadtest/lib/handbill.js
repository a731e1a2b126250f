// What every scenario shares: how Handbill is called, what counts as failed, and which thresholds are its objectives.
//
// Each request has a `kind`, `read` or `write`, by which the objectives of docs/operations.md tell requests apart. Loads
// are open: requests begin at a constant rate, however slow the answers are, so that a slow service is asked no less.
//
// BASE_URL is where Handbill is; RATE and DURATION, for scenarios that take them, how much is asked and for how long.

import exec from 'k6/execution';
import http from 'k6/http';
import { check } from 'k6';
import { Counter, Rate } from 'k6/metrics';

export const BASE = __ENV.BASE_URL || 'http://127.0.0.1:8080';

/// What the objectives count as an error: answered 5xx, or not at all.
export const failed = new Rate('failed');

/// Requests that a limit refused. A run that met one measured the limiter and not the service.
export const limited = new Counter('limited');

/// The objectives (docs/operations.md), as a client sees them: share of errors, and milliseconds within which the same
/// share of requests is answered.
const OBJECTIVES = {
  read: { failed: ['rate<=0.0005'], duration: ['p(99.95)<=50'] },
  write: { failed: ['rate<=0.001'], duration: ['p(99.9)<=250'] },
};

/// Options of a run that asks for these kinds of requests. `further` are thresholds of one scenario alone.
export function options(scenarios, kinds, further = {}) {
  const thresholds = {
    // Whatever else was not as it should be.
    checks: ['rate==1'],
    limited: ['count==0'],
    // k6 could not begin what was to be begun: what it measured is not the load that was asked for.
    dropped_iterations: ['count==0'],
    ...further,
  };
  for (const kind of kinds) {
    thresholds[`failed{kind:${kind}}`] = OBJECTIVES[kind].failed;
    thresholds[`http_req_duration{kind:${kind}}`] = OBJECTIVES[kind].duration;
  }
  return { scenarios, thresholds, summaryTrendStats: ['p(50)', 'p(95)', 'p(99)', 'p(99.9)', 'p(99.95)', 'max', 'count'] };
}

/// `rate` calls of `work` a second for `seconds`.
export function constantly(work, rate, seconds, further = {}) {
  return {
    executor: 'constant-arrival-rate',
    exec: work,
    rate,
    timeUnit: '1s',
    duration: `${seconds}s`,
    // Enough for answers that take a second; none are added while it runs, which would take from what is measured.
    preAllocatedVUs: Math.min(500, Math.max(20, rate)),
    gracefulStop: '10s',
    ...further,
  };
}

/// What a scenario is asked to do, unless RATE or DURATION say otherwise.
export function asked(rate, seconds) {
  return { rate: Number(__ENV.RATE || rate), seconds: Number(__ENV.DURATION || seconds) };
}

/// A client that has made no request yet, of 131072 in the network that RFC 2544 sets aside for measurements. Handbill takes its
/// address from the header only with `--trusted-proxies 127.0.0.0/8`.
///
/// Scenarios that run at once have the same clients, each of which asks each of them for one thing.
export function newClient() {
  return clientNumber(exec.scenario.iterationInTest % 0x10000);
}

/// The clients of `setup`, of which no iteration has the address.
export function setupClient(number) {
  return clientNumber(0x10000 + number);
}

function clientNumber(number) {
  return { 'X-Forwarded-For': `198.${18 + (number >> 16)}.${(number >> 8) & 255}.${number & 255}` };
}

/// Markdown of about `bytes`, with what pages have: headings, lists, links, code.
export function markdown(bytes, mark = '') {
  const paragraph = `## A heading

Some *words* of a paragraph, **strong** ones among them, with [a link](https://example.org/somewhere?a=1&b=2), and enough
more to make a few lines of text as people write them, neither short nor long.

* a point
* another, with \`code\`

`;
  return `${mark}\n\n${paragraph.repeat(Math.max(1, Math.round(bytes / paragraph.length)))}`;
}

/// Whether `response` has `status`; counts it under `kind`, and as refused where a limit refused it.
export function is(response, kind, status = 200) {
  failed.add(response.status === 0 || response.status >= 500, { kind });
  if (response.status === 429) {
    limited.add(1);
  }
  if (response.status !== status) {
    const { method } = response.request;
    // The error is what k6 met where there was no answer.
    console.warn(`${method}: ${response.status} in place of ${status} after ${response.timings.duration} ms, ${response.error}`);
  }
  return check(response, { 'it is answered as it should be': (answer) => answer.status === status });
}

/// How a request of `kind` is made. 404 and the like are no failures where they are what should come.
export function parameters(kind, headers = {}, status = 200, tags = {}) {
  return { headers, tags: { kind, ...tags }, responseCallback: http.expectedStatuses(status) };
}

/// Publishes a page; `slug`, `url`, `edit_key`, or `null` where that failed. Not of the kind `write` before the load begins.
export function publish(client, content, kind = 'write') {
  const headers = { 'Content-Type': 'application/json', ...client };
  const body = JSON.stringify({ title: 'A page under load', content });
  const response = http.post(`${BASE}/api/pages`, body, parameters(kind, headers, 201));
  return is(response, kind, 201) ? response.json() : null;
}

/// Changes the content of `page`. Whether it was done.
export function update(client, page, content) {
  const headers = { 'Content-Type': 'application/json', Authorization: `Bearer ${page.edit_key}`, ...client };
  const response = http.patch(
    `${BASE}/api/pages/${page.slug}`,
    JSON.stringify({ content }),
    parameters('write', headers, 200, { name: '/api/pages/{slug}' }),
  );
  return is(response, 'write');
}

/// Deletes `page`. Whether it was done.
export function remove(client, page) {
  const headers = { Authorization: `Bearer ${page.edit_key}`, ...client };
  const response = http.del(
    `${BASE}/api/pages/${page.slug}`,
    null,
    parameters('write', headers, 204, { name: '/api/pages/{slug}' }),
  );
  return is(response, 'write', 204);
}

/// The ways to read a page, and what its answer must hold to be that page.
const VIEWS = {
  json: (page) => ({ path: `/api/pages/${page.slug}`, holds: `"slug":"${page.slug}"`, name: '/api/pages/{slug}' }),
  html: (page) => ({ path: `/${page.slug}`, holds: `/${page.slug}.md`, name: '/{slug}' }),
  markdown: (page) => ({ path: `/${page.slug}.md`, holds: 'A heading', name: '/{slug}.md' }),
};

/// Reads `page` as `json`, `html` or `markdown`; the answer's text, or `null` where it is not that page.
export function read(page, view = 'json') {
  const { path, holds, name } = VIEWS[view](page);
  const response = http.get(`${BASE}${path}`, parameters('read', {}, 200, { name }));
  const right = is(response, 'read') && check(response, { 'it is the page': (answer) => answer.body.includes(holds) });
  return right ? response.body : null;
}
