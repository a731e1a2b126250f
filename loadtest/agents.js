// Do agents get the same service as people? Whole lives of pages through the four tools of /mcp. Half of the clients use the revision
// 2026-07-28, which has no handshake, and half use 2025-11-25, which begins with `initialize`.

import exec from 'k6/execution';
import http from 'k6/http';
import { check } from 'k6';
import * as handbill from './lib/handbill.js';

// Lives per second. A life is six calls, or eight with a handshake.
const { rate, seconds } = handbill.asked(25, 30);

export const options = handbill.options({ lives: handbill.constantly('life', rate, seconds) }, ['read', 'write']);

const CLIENT = { name: 'loadtest', version: '1' };

const REVISIONS = {
  '2026-07-28': {
    begin: () => true,
    headers: (method, params) => ({ 'Mcp-Method': method, ...(params.name ? { 'Mcp-Name': params.name } : {}) }),
    meta: {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientInfo': CLIENT,
      'io.modelcontextprotocol/clientCapabilities': {},
    },
  },
  '2025-11-25': {
    begin: (agent) => {
      const params = { protocolVersion: agent.revision, capabilities: {}, clientInfo: CLIENT };
      const agreed = result(ask(agent, 'initialize', params, 'handshake'));
      const told = post(agent, { jsonrpc: '2.0', method: 'notifications/initialized' }, 'handshake', {}, 202);
      return check(agreed, { 'the revision is agreed on': (is) => is !== null && is.protocolVersion === agent.revision }) &&
        handbill.is(told, 'handshake', 202);
    },
    headers: () => ({}),
    meta: undefined,
  },
};

export function life() {
  const revision = Object.keys(REVISIONS)[exec.scenario.iterationInTest % 2];
  const agent = { revision, client: handbill.newClient() };
  if (!REVISIONS[revision].begin(agent)) return;

  const listed = result(ask(agent, 'tools/list', {}, 'handshake'));
  check(listed, { 'four tools are listed': (is) => is !== null && is.tools.length === 4 });

  const page = call(agent, 'create_page', { title: 'By an agent', content: handbill.markdown(2000) }, 'write');
  if (!page) return;
  const { slug, edit_key } = page;
  call(agent, 'get_page', { slug }, 'read');
  const changed = call(agent, 'update_page', { slug, edit_key, content: 'Changed.' }, 'write');
  const seen = call(agent, 'get_page', { slug, include_html: false }, 'read');
  check([changed, seen], { 'the change is there': (pages) => pages.every((is) => is !== null && is.content === 'Changed.') });
  const deleted = call(agent, 'delete_page', { slug, edit_key }, 'write');
  check(deleted, { 'it is deleted': (is) => is !== null && is.deleted === true });
}

/// Calls a tool. Returns its structured result, or `null`. Failed calls are answered 200 too, so this checks the result.
function call(agent, name, args, kind) {
  const response = ask(agent, 'tools/call', { name, arguments: args }, kind);
  const outcome = result(response);
  const error = outcome && outcome.isError ? JSON.parse(outcome.content[0].text) : null;
  handbill.failed.add(outcome === null || (error !== null && error.status >= 500), { kind });
  if (error !== null && error.status === 429) handbill.limited.add(1);
  const done = check(outcome, { 'the tool did it': (is) => is !== null && !is.isError });
  return done ? outcome.structuredContent : null;
}

function ask(agent, method, params, kind) {
  const { headers, meta } = REVISIONS[agent.revision];
  const message = { jsonrpc: '2.0', id: 1, method, params: meta ? { ...params, _meta: meta } : params };
  return post(agent, message, kind, headers(method, params));
}

function post(agent, message, kind, headers = {}, status = 200) {
  const all = {
    'Content-Type': 'application/json',
    Accept: 'application/json, text/event-stream',
    'MCP-Protocol-Version': agent.revision,
    ...headers,
    ...agent.client,
  };
  const tags = { name: `/mcp ${message.params && message.params.name ? message.params.name : message.method}` };
  return http.post(`${handbill.BASE}/mcp`, JSON.stringify(message), handbill.parameters(kind, all, status, tags));
}

/// The result of a JSON-RPC answer, or `null` if it has none.
function result(response) {
  const body = response.status === 200 ? response.json() : {};
  const right = check(body, { 'it is a JSON-RPC result': (is) => is.result !== undefined });
  return right ? body.result : null;
}
