// How fast can many people publish pages at once? Each client has its own address, as behind a load balancer.
//
// Load from a single address would only measure the limit. The second scenario shows that the limit works, so the first did not
// pass by accident.

import http from 'k6/http';
import { check } from 'k6';
import * as handbill from './lib/handbill.js';

const { rate, seconds } = handbill.asked(100, 30);
const CREATES_AN_HOUR = 10;

export const options = handbill.options(
  {
    many_clients: handbill.constantly('manyClients', rate, seconds),
    one_client: {
      executor: 'per-vu-iterations',
      exec: 'oneClient',
      vus: 1,
      iterations: 1,
      startTime: `${seconds + 11}s`,
    },
  },
  ['write'],
);

export function manyClients() {
  handbill.publish(handbill.newClient(), handbill.markdown(2000));
}

export function oneClient() {
  const headers = { 'Content-Type': 'application/json' };
  const body = JSON.stringify({ title: 'One too many', content: 'A page.' });
  const parameters = { headers, tags: { kind: 'limited' }, responseCallback: http.expectedStatuses(201, 429) };
  for (let number = 1; number <= CREATES_AN_HOUR + 1; number += 1) {
    const { status } = http.post(`${handbill.BASE}/api/pages`, body, parameters);
    const expected = number <= CREATES_AN_HOUR ? 201 : 429;
    check(status, { 'without its header a client reaches the limit': (is) => is === expected });
  }
}
