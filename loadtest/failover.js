// What do clients notice when parts of the service fail? Three replicas run behind a load balancer, with three database nodes and
// Redis. One part after the other fails and returns, under constant load.
//
// docs/operate-cluster.md states which requests may fail. Each writer reads back every acknowledged write: none may be lost.
//
// loadtest/run causes the faults: this script requests each with `POST <FAULTS>/<fault>` when its phase begins. Clients differ by
// `--local-ips`, since the load balancer trusts no X-Forwarded-For.

import http from 'k6/http';
import { check } from 'k6';
import { Counter } from 'k6/metrics';
import * as handbill from './lib/handbill.js';

const { rate, seconds } = handbill.asked(100, 15);

const PHASES = [
  { name: '1 all is well', mayFail: 0 },
  { name: '2 a replica is drained', fault: 'drain-replica-1', mayFail: 0 },
  { name: '3 it returns', fault: 'start-replica-1', mayFail: 0 },
  // These are requests that the replica had received and not answered. A load balancer must not send them to another replica.
  { name: '4 a replica is killed', fault: 'kill-replica-2', mayFail: Math.ceil(rate * 0.05) },
  { name: '5 it returns', fault: 'start-replica-2', mayFail: 0 },
  { name: '6 a database node is killed', fault: 'kill-node-3', mayFail: 0 },
  { name: '7 it returns', fault: 'start-node-3', mayFail: 0, times: 4 },
  { name: '8 Redis is killed', fault: 'kill-redis', mayFail: 0 },
  { name: '9 it returns', fault: 'start-redis', mayFail: 0 },
];
// All pages come from one address, which can create ten an hour and later belongs to a writer.
const PAGES = 8;
const READS = 0.9;

const failures = new Counter('failures');
const done = new Counter('done');

const scenarios = {};
const thresholds = {
  limited: ['count==0'],
  dropped_iterations: ['count==0'],
  'checks{check:the fault is made}': ['rate==1'],
  'checks{check:what was acknowledged is there}': ['rate==1'],
};
let begins = 0;
PHASES.forEach(({ name, fault, mayFail, times = 1 }, number) => {
  const phase = { tags: { phase: name }, startTime: `${begins}s`, preAllocatedVUs: 300 };
  const lasts = times * seconds;
  begins += lasts;
  scenarios[`reads_${number + 1}`] = handbill.constantly('readers', Math.round(rate * READS), lasts, phase);
  scenarios[`writes_${number + 1}`] = handbill.constantly('writers', Math.round(rate * (1 - READS)), lasts, phase);
  if (fault) {
    scenarios[`fault_${number + 1}`] = {
      executor: 'per-vu-iterations',
      exec: 'makeFault',
      vus: 1,
      iterations: 1,
      maxDuration: '120s',
      startTime: phase.startTime,
      env: { FAULT: fault },
    };
  }
  thresholds[`failures{phase:${name}}`] = [`count<=${mayFail}`];
  // These thresholds are always kept. They make k6 report these figures for each phase.
  thresholds[`done{phase:${name}}`] = ['count>0'];
  thresholds[`http_req_duration{phase:${name}}`] = ['max>=0'];
});

export const options = { ...handbill.options(scenarios, []), thresholds };

export function setup() {
  const pages = [];
  for (let number = 0; number < PAGES; number += 1) {
    pages.push(handbill.publish({}, handbill.markdown(2000), 'setup'));
  }
  return pages;
}

export function makeFault() {
  const response = http.post(`${__ENV.FAULTS}/${__ENV.FAULT}`, null, { timeout: '120s', tags: { kind: 'fault' } });
  check(response, { 'the fault is made': (answer) => answer.status === 200 });
}

export function readers(pages) {
  count(handbill.read(pages[Math.floor(pages.length * Math.random())]) !== null);
}

// The page of this virtual user. No other virtual user writes it.
let mine = null;
let edition = 0;

export function writers() {
  if (mine === null) {
    mine = handbill.publish({}, handbill.markdown(1000));
    count(mine !== null);
    return;
  }
  edition += 1;
  const mark = `Edition ${edition}.`;
  const acknowledged = handbill.update({}, mine, handbill.markdown(1000, mark));
  count(acknowledged);
  const text = handbill.read(mine);
  count(text !== null);
  if (acknowledged && text !== null) {
    check(text, { 'what was acknowledged is there': (is) => is.includes(mark) });
  }
}

function count(asItShouldBe) {
  (asItShouldBe ? done : failures).add(1);
}
