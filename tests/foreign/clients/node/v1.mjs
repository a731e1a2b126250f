// An agent with the first generation of the official TypeScript SDK, which knows the protocol up to 2025-11-25. It finds the MCP server by its host,
// publishes a page, edits it, recovers from a wrong key and deletes the page.
//
//     node v1.mjs http://127.0.0.1:8080

import assert from 'node:assert/strict';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

const [baseUrl] = process.argv.slice(2);
const catalog = await (await fetch(`${baseUrl}/.well-known/ai-catalog.json`)).json();
const entry = catalog.entries.find((entry) => entry.type === 'application/mcp-server-card+json');
const card = await (await fetch(entry.url, { headers: { accept: entry.type } })).json();
const transport = new StreamableHTTPClientTransport(new URL(card.remotes[0].url));
const client = new Client({ name: 'handbill-agent', version: '1' });
await client.connect(transport);
assert.equal(transport.protocolVersion, '2025-11-25');
assert.equal(transport.sessionId, undefined);
assert.match(client.getInstructions(), /edit_key/);

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

const { slug, edit_key } = await call('create_page', { title: 'Hello from an agent', content: 'A *first* version.' });
const refused = await call('update_page', { slug, edit_key: 'hbk_' + '0'.repeat(43), title: 'Taken over' });
assert.deepEqual([refused.status, refused.error], [401, 'invalid_key']);
const edited = await call('update_page', { slug, edit_key, title: 'Edited by an agent' });
assert.deepEqual([edited.title, edited.content], ['Edited by an agent', 'A *first* version.']);
const read = await call('get_page', { slug, include_html: true });
assert.match(read.content_html, /<em>first<\/em>/);
assert.deepEqual(await call('delete_page', { slug, edit_key }), { slug, deleted: true });
const gone = await call('get_page', { slug });
assert.deepEqual([gone.status, gone.error], [410, 'gone']);
await client.close();
