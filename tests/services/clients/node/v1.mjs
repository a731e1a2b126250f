// The journey with the first generation of the official TypeScript SDK, which knows the protocol up to 2025-11-25.
//
//     node v1.mjs http://127.0.0.1:8080

import assert from 'node:assert/strict';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { journey, mcpUrl } from './journey.mjs';

const [baseUrl] = process.argv.slice(2);
const client = new Client({ name: 'handbill-journey', version: '1' });
const transport = new StreamableHTTPClientTransport(await mcpUrl(baseUrl));
await client.connect(transport);
assert.equal(transport.protocolVersion, '2025-11-25');
assert.equal(transport.sessionId, undefined);
await journey(client);
await client.close();
