// Does everything work at all? The whole life of a page, a few times a second.

import http from 'k6/http';
import { check } from 'k6';
import * as handbill from './lib/handbill.js';

const { rate, seconds } = handbill.asked(3, 10);

export const options = handbill.options({ life: handbill.constantly('life', rate, seconds) }, ['read', 'write']);

export function life() {
  const client = handbill.newClient();
  const page = handbill.publish(client, handbill.markdown(2000));
  if (!page) return;
  for (const view of ['json', 'html', 'markdown']) handbill.read(page, view);

  const path = `${handbill.BASE}/api/pages/${page.slug}`;
  const tag = http.get(path, handbill.parameters('read')).headers.Etag;
  const unchanged = http.get(path, handbill.parameters('read', { 'If-None-Match': tag }, 304));
  handbill.is(unchanged, 'read', 304);

  const wrong = { Authorization: `Bearer hbk_${'x'.repeat(43)}`, 'Content-Type': 'application/json', ...client };
  const refused = http.patch(path, '{"content":"Not mine."}', handbill.parameters('write', wrong, 401));
  handbill.is(refused, 'write', 401);

  handbill.update(client, page, 'Changed, under A heading.');
  const changed = handbill.read(page);
  check(changed, { 'the change is there': (text) => text !== null && text.includes('"content":"Changed, under') });
  handbill.remove(client, page);
  const gone = http.get(path, handbill.parameters('read', {}, 410));
  handbill.is(gone, 'read', 410);
}
