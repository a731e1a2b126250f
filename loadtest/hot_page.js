// What happens if everybody reads the same page while its author keeps writing? Reads must not wait for writes, and the author must
// see each write at once.

import exec from 'k6/execution';
import { check } from 'k6';
import * as handbill from './lib/handbill.js';

const { rate, seconds } = handbill.asked(500, 30);

export const options = handbill.options(
  {
    readers: handbill.constantly('readers', rate, seconds),
    author: handbill.constantly('author', 1, seconds, { preAllocatedVUs: 5 }),
  },
  ['read', 'write'],
);

export function setup() {
  return handbill.publish(handbill.setupClient(0), handbill.markdown(8000), 'setup');
}

export function readers(page) {
  handbill.read(page, exec.scenario.iterationInTest % 2 ? 'html' : 'json');
}

export function author(page) {
  const mark = `Edition ${exec.scenario.iterationInTest}.`;
  if (!handbill.update(handbill.newClient(), page, handbill.markdown(8000, mark))) return;
  // No one else writes, and the next edition comes a second later.
  check(handbill.read(page), { 'a write is seen at once': (text) => text !== null && text.includes(mark) });
}
