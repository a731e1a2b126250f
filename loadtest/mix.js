// Does Handbill keep its objectives under the traffic it is made for: many readers of many pages, few writers?
//
// 96 % reads, half of them as HTML, most of the rest as JSON; 2.5 % updates, 1 % new pages, 0.5 % deletes of new pages.

import * as handbill from './lib/handbill.js';

const { rate, seconds } = handbill.asked(400, 60);
const PAGES = 300;

const share = (part) => Math.max(1, Math.round(rate * part));

export const options = handbill.options(
  {
    reads: handbill.constantly('reads', share(0.96), seconds),
    updates: handbill.constantly('updates', share(0.025), seconds),
    creates: handbill.constantly('creates', share(0.01), seconds),
    deletes: handbill.constantly('deletes', share(0.005), seconds),
  },
  ['read', 'write'],
);

export function setup() {
  const pages = [];
  for (let number = 0; number < PAGES; number += 1) {
    // From 200 bytes to 20 KB, most of them short.
    const bytes = 200 * Math.pow(100, (number % 100) / 99);
    pages.push(handbill.publish(handbill.setupClient(number), handbill.markdown(bytes), 'setup'));
  }
  return pages;
}

// A few pages get most of the reads.
const popular = (pages) => pages[Math.floor(pages.length * Math.pow(Math.random(), 3))];

export function reads(pages) {
  const chance = Math.random();
  handbill.read(popular(pages), chance < 0.5 ? 'html' : chance < 0.9 ? 'json' : 'markdown');
}

export function updates(pages) {
  const page = pages[Math.floor(pages.length * Math.random())];
  handbill.update(handbill.newClient(), page, handbill.markdown(2000));
}

export function creates() {
  handbill.publish(handbill.newClient(), handbill.markdown(2000));
}

export function deletes() {
  const page = handbill.publish(handbill.newClient(), handbill.markdown(500));
  if (page) handbill.remove(handbill.newClient(), page);
}
