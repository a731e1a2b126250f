// Shared by all scenarios: calls to Handbill, the definition of a failure, and the thresholds from the objectives.
//
// Each request has a `kind`, `read` or `write`, as in the objectives of docs/monitoring.md. Loads are open: requests begin at a
// constant rate, however slow the answers are, so that a slow service gets no fewer requests.
//
// BASE_URL is the address of Handbill. RATE and DURATION (seconds) set the load of scenarios that use them.

import exec from 'k6/execution';
import http from 'k6/http';
import { check } from 'k6';
import { Counter, Rate } from 'k6/metrics';

export const BASE = __ENV.BASE_URL || 'http://127.0.0.1:8080';

export const failed = new Rate('failed');

export const limited = new Counter('limited');

const OBJECTIVES = {
  read: { failed: ['rate<=0.0005'], duration: ['p(99.95)<=50'] },
  write: { failed: ['rate<=0.001'], duration: ['p(99.9)<=250'] },
};

export function options(scenarios, kinds, further = {}) {
  const thresholds = {
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

export function asked(rate, seconds) {
  return { rate: Number(__ENV.RATE || rate), seconds: Number(__ENV.DURATION || seconds) };
}

export const newClient = () => clientNumber(exec.scenario.iterationInTest % 0x10000);

export const setupClient = (number) => clientNumber(0x10000 + number);

function clientNumber(number) {
  return { 'X-Forwarded-For': `198.${18 + (number >> 16)}.${(number >> 8) & 255}.${number & 255}` };
}

export function markdown(bytes, mark = '') {
  const paragraph = `## A heading

Some *words* of a paragraph, **strong** ones among them, with [a link](https://example.org/somewhere?a=1&b=2), and enough
more to make a few lines of text as people write them, neither short nor long.

* a point
* another, with \`code\`

`;
  return `${mark}\n\n${paragraph.repeat(Math.max(1, Math.round(bytes / paragraph.length)))}`;
}

export function is(response, kind, status = 200) {
  failed.add(response.status === 0 || response.status >= 500, { kind });
  if (response.status === 429) {
    limited.add(1);
  }
  return check(response, { 'it is answered as it should be': (answer) => answer.status === status });
}

export function parameters(kind, headers = {}, status = 200, tags = {}) {
  return { headers, tags: { kind, ...tags }, responseCallback: http.expectedStatuses(status) };
}

export function publish(client, content, kind = 'write') {
  const headers = { 'Content-Type': 'application/json', ...client };
  const body = JSON.stringify({ title: 'A page under load', content });
  const response = http.post(`${BASE}/api/pages`, body, parameters(kind, headers, 201));
  return is(response, kind, 201) ? response.json() : null;
}

export function update(client, page, content) {
  const headers = { 'Content-Type': 'application/json', Authorization: `Bearer ${page.edit_key}`, ...client };
  const asked = parameters('write', headers, 200, { name: '/api/pages/{slug}' });
  const response = http.patch(`${BASE}/api/pages/${page.slug}`, JSON.stringify({ content }), asked);
  return is(response, 'write');
}

export function remove(client, page) {
  const headers = { Authorization: `Bearer ${page.edit_key}`, ...client };
  const asked = parameters('write', headers, 204, { name: '/api/pages/{slug}' });
  const response = http.del(`${BASE}/api/pages/${page.slug}`, null, asked);
  return is(response, 'write', 204);
}

const VIEWS = {
  json: (page) => ({ path: `/api/pages/${page.slug}`, holds: `"slug":"${page.slug}"`, name: '/api/pages/{slug}' }),
  html: (page) => ({ path: `/${page.slug}`, holds: `/${page.slug}.md`, name: '/{slug}' }),
  markdown: (page) => ({ path: `/${page.slug}.md`, holds: 'A heading', name: '/{slug}.md' }),
};

export function read(page, view = 'json') {
  const { path, holds, name } = VIEWS[view](page);
  const response = http.get(`${BASE}${path}`, parameters('read', {}, 200, { name }));
  const right = is(response, 'read') && check(response, { 'it is the page': (answer) => answer.body.includes(holds) });
  return right ? response.body : null;
}
