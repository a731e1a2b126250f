// An agent that only knows the base URL, with either SDK. It finds the MCP server, publishes a page, edits it, recovers from a wrong
// key, reaches the limit and waits as told, and deletes the page. v1.mjs runs this.

import assert from 'node:assert/strict';
import { setTimeout as wait } from 'node:timers/promises';

/** The address of the MCP server, from its card. */
export async function mcpUrl(baseUrl) {
  const card = await (await fetch(`${baseUrl}/.well-known/mcp/server-card.json`)).json();
  assert.equal(card.remotes[0].type, 'streamable-http');
  return new URL(card.remotes[0].url);
}

/** `client` is connected; the service has a short `--rate-window`. */
export async function journey(client) {
  /** Calls a tool. Returns its result, or the error that it reports. */
  async function call(name, args) {
    const result = await client.callTool({ name, arguments: args });
    const answer = JSON.parse(result.content[0].text);
    assert.deepEqual(result.structuredContent, result.isError ? undefined : answer);
    return answer;
  }

  // The SDK learns the output schemas here and checks each result.
  const { tools } = await client.listTools();
  assert.deepEqual(tools.map((tool) => tool.name), ['create_page', 'delete_page', 'get_page', 'update_page']);
  assert.match(client.getInstructions(), /edit_key/);

  const { slug, edit_key } = await call('create_page', { title: 'Hello from an agent', content: 'A *first* version.' });

  await call('update_page', { slug, edit_key, content: 'A *second* version.' });
  const read = await call('get_page', { slug, include_html: true });
  assert.equal(read.content, 'A *second* version.');
  assert.match(read.content_html, /<em>second<\/em>/);
  assert.equal((await call('get_page', { slug })).content_html, undefined);

  const refused = await call('update_page', { slug, edit_key: 'hbk_' + '0'.repeat(43), title: 'Taken over' });
  assert.deepEqual([refused.status, refused.error], [401, 'invalid_key']);
  const edited = await call('update_page', { slug, edit_key, title: 'Edited by an agent' });
  assert.deepEqual([edited.title, edited.content], ['Edited by an agent', 'A *second* version.']);

  // Even if this is slow, the window will hold as many creates as the limit allows.
  let limited;
  do limited = await call('create_page', { title: 'One more', content: '…' });
  while (!limited.error);
  assert.deepEqual([limited.status, limited.error], [429, 'rate_limited']);
  await wait(limited.retry_after * 1000);
  const afterwards = await call('create_page', { title: 'After the wait', content: 'Welcome again.' });
  assert.equal(afterwards.error, undefined, afterwards.message);

  assert.deepEqual(await call('delete_page', { slug, edit_key }), { slug, deleted: true });
  const gone = await call('get_page', { slug });
  assert.deepEqual([gone.status, gone.error], [410, 'gone']);
}
