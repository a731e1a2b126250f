// The editor without JavaScript. This runs in Chromium, because the driver of Firefox needs JavaScript itself.
//
//   node scriptless.mjs chromium <base URL>

import assert from 'node:assert/strict';
import { keepScreenshot, withBrowser } from './browsers.mjs';
import { read } from './editing.mjs';

const [name, base] = process.argv.slice(2);

await withBrowser(name, async (browser) => {
    const tab = await browser.newPage();
    await tab.setJavaScriptEnabled(false);
    await tab.setViewport({ width: 320, height: 700 });
    await tab.goto(`${base}/`);
    const submit = (value) => Promise.all([tab.waitForNavigation(), tab.click(`[value=${value}]`)]);
    const source = async () => (await tab.content());
    await tab.type('#title', 'Without script');
    await tab.type('#content', 'First *line*.\n\nSecond line.');
    await submit('preview');
    assert.ok((await source()).includes('<p>First <em>line</em>.</p>'), 'the preview');
    await keepScreenshot(tab, `${name}-scriptless-preview`);
    await submit('publish');
    const html = await source();
    assert.ok(await (await tab.$('.page-address a')).isVisible(), 'the address is seen');
    const [, address] = html.match(/href="([^"]+\/without-script-[^"/]+)"/);
    const [, key] = html.match(/>(hbk_[0-9A-Za-z]{43})</);
    await keepScreenshot(tab, `${name}-scriptless-published`);
    const slug = new URL(address).pathname.slice(1);
    const page = await read(base, slug);
    assert.deepEqual([page.title, page.content], ['Without script', 'First *line*.\n\nSecond line.']);
    const deleted = await fetch(`${base}/api/pages/${slug}`, { method: 'DELETE', headers: { authorization: `Bearer ${key}` } });
    assert.equal(deleted.status, 204, 'the key on the page is the key');

    // A refused text comes back.
    await tab.goto(`${base}/`);
    await tab.type('#content', 'No title and no heading.');
    await submit('publish');
    const refused = await source();
    assert.ok(refused.includes('The page has no title') && refused.includes('No title and no heading.'), refused);
    await keepScreenshot(tab, `${name}-scriptless-refused`);

    // Editing says that it needs script, and its button does nothing.
    await tab.goto(`${base}/never-was-2222bbbb/edit`);
    assert.ok((await source()).includes('Editing needs JavaScript'));
    await tab.type('#key', 'hbk_typed');
    await tab.keyboard.press('Enter');
    assert.equal(tab.url(), `${base}/never-was-2222bbbb/edit`);
    await keepScreenshot(tab, `${name}-scriptless-edit`);
});
