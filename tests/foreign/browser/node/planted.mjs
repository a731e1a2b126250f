// A script that stands in a page's HTML, as if the sanitiser had failed, cannot read the keys that the editor keeps.
//
// A relay between browser and service plants the scripts, and leaves every header as it is. Without the policy the same
// scripts run: so the test sees that the policy is what stops them.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { base, name, openTab, publish, withBrowser } from './browsers.mjs';
import { shown } from './editing.mjs';

const STEAL = 'document.documentElement.dataset.stolen = Object.values(localStorage).join();';
const program = await publish(base, 'A program', STEAL);
const page = await publish(base, 'A page', 'Text.');
const PLANTED = `<script>${STEAL}</script><img src="/none" onerror="${STEAL}"><script src="/${program.slug}.md"></script>`
    + `<script src="/api/pages/${program.slug}"></script><svg onload="${STEAL}"></svg>`;

let keepsPolicy = true;
const relay = createServer(async (request, response) => {
    const answer = await fetch(base + request.url, { headers: { accept: request.headers.accept ?? '*/*' } });
    const headers = Object.fromEntries([...answer.headers].filter(([header]) =>
        !['content-length', 'content-encoding', 'transfer-encoding', 'connection', 'etag'].includes(header)));
    if (!keepsPolicy) delete headers['content-security-policy'];
    let body = Buffer.from(await answer.arrayBuffer());
    if (answer.headers.get('content-type')?.startsWith('text/html')) body = body.toString().replace('</main>', `${PLANTED}</main>`);
    response.writeHead(answer.status, { ...headers, 'cache-control': 'no-store' }).end(body);
});
relay.listen(0, '127.0.0.1');
await once(relay, 'listening');
const origin = `http://127.0.0.1:${relay.address().port}`;

await withBrowser(name, async (browser) => {
    const { tab } = await openTab(browser);
    const stolen = () => tab.evaluate(() => document.documentElement.dataset.stolen ?? null);
    await tab.goto(`${origin}/`);
    await shown(tab, 'pick');
    await tab.evaluate((page) => localStorage.setItem(`handbill:key:${page.slug}`, JSON.stringify({
        slug: page.slug, edit_key: page.key, title: 'A page', url: '', created_at: '',
    })), page);

    // The editor itself, the list of pages, a page, and the page for editing.
    for (const path of ['/', '/pages', `/${page.slug}`, `/${page.slug}/edit`]) {
        await tab.goto(origin + path, { waitUntil: 'networkidle0' });
        assert.equal(await stolen(), null, path);
        const refused = await tab.evaluate(() => window.refused);
        assert.ok(refused.some((report) => report.startsWith('script-src')), `${path}: ${refused}`);
    }

    keepsPolicy = false;
    await tab.goto(`${origin}/${page.slug}`, { waitUntil: 'networkidle0' });
    assert.ok((await stolen())?.includes(page.key), 'without the policy the planted script reads the key');
});
relay.close();
