// The journey with the second generation of the official TypeScript SDK.
//
//     node v2.mjs http://127.0.0.1:8080 auto
//
// The mode is auto or pinned (both lead to 2026-07-28), or legacy, which is the SDK's default.

import assert from 'node:assert/strict';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { journey, mcpUrl } from './journey.mjs';

const [baseUrl, mode] = process.argv.slice(2);
const [options, protocol] = {
  auto: [{ versionNegotiation: { mode: 'auto' } }, '2026-07-28'],
  pinned: [{ versionNegotiation: { mode: { pin: '2026-07-28' } } }, '2026-07-28'],
  legacy: [{}, '2025-11-25'],
}[mode];
const client = new Client({ name: 'handbill-journey', version: '1' }, options);
await client.connect(new StreamableHTTPClientTransport(await mcpUrl(baseUrl)));
assert.equal(client.getNegotiatedProtocolVersion(), protocol);
await journey(client);
await client.close();
