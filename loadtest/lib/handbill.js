// Shared by all scenarios: calls to Handbill, the definition of a failure, and the thresholds from the objectives.
//
// Each request has a `kind`, `read` or `write`, as in the objectives of docs/observability.md. Loads are open: requests begin at a
// constant rate, however slow the answers are, so that a slow service gets no fewer requests.
//
// BASE_URL is the address of Handbill. RATE and DURATION (seconds) set the load of scenarios that use them.

import exec from 'k6/execution';
import http from 'k6/http';
import { check } from 'k6';
import { Counter, Rate } from 'k6/metrics';

export const BASE = __ENV.BASE_URL || 'http://127.0.0.1:8080';

/// Errors by the objectives: requests answered 5xx or not at all.
export const failed = new Rate('failed');

/// Requests that a limit refused. A run with such a request measured the limiter and not the service.
export const limited = new Counter('limited');

/// The objectives (docs/observability.md) as a client sees them: the share of errors, and the milliseconds within which the same share
/// of requests is answered.
const OBJECTIVES = {
  read: { failed: ['rate<=0.0005'], duration: ['p(99.95)<=50'] },
  write: { failed: ['rate<=0.001'], duration: ['p(99.9)<=250'] },
};

/// Options of a run with these kinds of requests. `further` are thresholds of a single scenario.
export function options(scenarios, kinds, further = {}) {
  const thresholds = {
    // All other checks must pass.
    checks: ['rate==1'],
    limited: ['count==0'],
    // Requests that k6 could not begin in time. If there are any, the load was lower than the one that was asked for.
    dropped_iterations: ['count==0'],
    ...further,
  };
  for (const kind of kinds) {
    thresholds[`failed{kind:${kind}}`] = OBJECTIVES[kind].failed;
    thresholds[`http_req_duration{kind:${kind}}`] = OBJECTIVES[kind].duration;
  }
  return { scenarios, thresholds, summaryTrendStats: ['p(50)', 'p(95)', 'p(99)', 'p(99.9)', 'p(99.95)', 'max', 'count'] };
}

/// `rate` calls of `work` per second, for `seconds`.
export function constantly(work, rate, seconds, further = {}) {
  return {
    executor: 'constant-arrival-rate',
    exec: work,
    rate,
    timeUnit: '1s',
    duration: `${seconds}s`,
    // Enough for answers that take a second. Adding users during the run would disturb the measurement.
    preAllocatedVUs: Math.min(500, Math.max(20, rate)),
    gracefulStop: '10s',
    ...further,
  };
}

/// The load of a scenario: RATE and DURATION, or these defaults.
export function asked(rate, seconds) {
  return { rate: Number(__ENV.RATE || rate), seconds: Number(__ENV.DURATION || seconds) };
}

/// A client that has made no request yet, one of 131072 in the network that RFC 2544 reserves for benchmarks. Handbill takes its
/// address from the header only with `--trusted-proxies 127.0.0.0/8`.
///
/// Scenarios that run at the same time share these clients: each client makes one request in each scenario.
export function newClient() {
  return clientNumber(exec.scenario.iterationInTest % 0x10000);
}

/// A client for `setup`. No iteration uses its address.
export function setupClient(number) {
  return clientNumber(0x10000 + number);
}

function clientNumber(number) {
  return { 'X-Forwarded-For': `198.${18 + (number >> 16)}.${(number >> 8) & 255}.${number & 255}` };
}

/// Markdown of about `bytes`, with headings, lists, links and code.
export function markdown(bytes, mark = '') {
  const paragraph = `## A heading

Some *words* of a paragraph, **strong** ones among them, with [a link](https://example.org/somewhere?a=1&b=2), and enough
more to make a few lines of text as people write them, neither short nor long.

* a point
* another, with \`code\`

`;
  return `${mark}\n\n${paragraph.repeat(Math.max(1, Math.round(bytes / paragraph.length)))}`;
}

/// Whether `response` has `status`. Counts it under `kind`, and as limited if a limit refused it.
export function is(response, kind, status = 200) {
  failed.add(response.status === 0 || response.status >= 500, { kind });
  if (response.status === 429) {
    limited.add(1);
  }
  if (response.status !== status) {
    const { method } = response.request;
    // Without an answer, `error` holds k6's reason.
    console.warn(`${method}: ${response.status} in place of ${status} after ${response.timings.duration} ms, ${response.error}`);
  }
  return check(response, { 'it is answered as it should be': (answer) => answer.status === status });
}

/// Parameters of a request of `kind`. A status such as 404 is no failure if it is the expected one.
export function parameters(kind, headers = {}, status = 200, tags = {}) {
  return { headers, tags: { kind, ...tags }, responseCallback: http.expectedStatuses(status) };
}

/// Publishes a page. Returns `slug`, `url` and `edit_key`, or `null` if that failed. Before the load begins, `kind` is `setup`.
export function publish(client, content, kind = 'write') {
  const headers = { 'Content-Type': 'application/json', ...client };
  const body = JSON.stringify({ title: 'A page under load', content });
  const response = http.post(`${BASE}/api/pages`, body, parameters(kind, headers, 201));
  return is(response, kind, 201) ? response.json() : null;
}

/// Changes the content of `page`. Returns whether that succeeded.
export function update(client, page, content) {
  const headers = { 'Content-Type': 'application/json', Authorization: `Bearer ${page.edit_key}`, ...client };
  const response = http.patch(
    `${BASE}/api/pages/${page.slug}`,
    JSON.stringify({ content }),
    parameters('write', headers, 200, { name: '/api/pages/{slug}' }),
  );
  return is(response, 'write');
}

/// Deletes `page`. Returns whether that succeeded.
export function remove(client, page) {
  const headers = { Authorization: `Bearer ${page.edit_key}`, ...client };
  const response = http.del(
    `${BASE}/api/pages/${page.slug}`,
    null,
    parameters('write', headers, 204, { name: '/api/pages/{slug}' }),
  );
  return is(response, 'write', 204);
}

/// The ways to read a page, and a text that its answer must contain.
const VIEWS = {
  json: (page) => ({ path: `/api/pages/${page.slug}`, holds: `"slug":"${page.slug}"`, name: '/api/pages/{slug}' }),
  html: (page) => ({ path: `/${page.slug}`, holds: `/${page.slug}.md`, name: '/{slug}' }),
  markdown: (page) => ({ path: `/${page.slug}.md`, holds: 'A heading', name: '/{slug}.md' }),
};

/// Reads `page` as `json`, `html` or `markdown`. Returns the answer's text, or `null` if it is not that page.
export function read(page, view = 'json') {
  const { path, holds, name } = VIEWS[view](page);
  const response = http.get(`${BASE}${path}`, parameters('read', {}, 200, { name }));
  const right = is(response, 'read') && check(response, { 'it is the page': (answer) => answer.body.includes(holds) });
  return right ? response.body : null;
}
