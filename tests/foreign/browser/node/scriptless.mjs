// The editor without JavaScript.

import assert from 'node:assert/strict';
import { base, expectNothing, keepScreenshot, name, withBrowser } from './browsers.mjs';
import { press, read } from './editing.mjs';

await withBrowser(name, async (browser) => {
    const tab = await browser.newPage();
    // Firefox has a preference for it. The driver's own scripts run in either browser.
    if (name === 'chromium') await tab.setJavaScriptEnabled(false);
    // Chromium writes to the console what a policy refuses.
    const complaints = [];
    tab.on('console', (message) => complaints.push(message.text()));
    const requests = [];
    tab.on('request', (request) => requests.push(`${request.method()} ${request.url()} ${JSON.stringify(request.headers())}`));
    await tab.setViewport({ width: 320, height: 700 });
    await tab.goto(`${base}/`);
    assert.ok(await tab.$eval('#pick', (button) => button.hidden), 'no script runs');
    assert.equal(await (await tab.$('.scripted')).boundingBox(), null, 'nothing is said to be remembered');
    assert.ok(await (await tab.$('.sheet noscript .hint')).isVisible(), 'it is said how a line breaks');
    const submit = (value) => Promise.all([tab.waitForNavigation(), press(tab, `[value=${value}]`)]);
    const source = async () => (await tab.content());
    await tab.type('#title', 'Without script');
    await tab.type('#content', 'First *line*.\n\nSecond line.');
    await submit('preview');
    assert.ok((await source()).includes('<p>First <em>line</em>.</p>'), 'the preview');
    await keepScreenshot(tab, `${name}-scriptless-preview`);
    await submit('publish');
    const html = await source();
    assert.ok(await (await tab.$('.address-line a')).isVisible(), 'the address is seen');
    const [, address] = html.match(/href="([^"]+\/without-script-[^"/]+)"/);
    const [, key] = html.match(/\/edit#(hbk_[0-9A-Za-z]{43})<\/code>/);
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
    assert.ok(refused.includes('The page has no title. Write one above the text') && refused.includes('No title and no heading.'), refused);
    await keepScreenshot(tab, `${name}-scriptless-refused`);

    // Editing says that it needs script, and has no form.
    await tab.goto(`${base}/never-was-2222bbbb/edit`);
    assert.ok((await source()).includes('Editing needs JavaScript'));
    assert.equal(await (await tab.$('#key')).boundingBox(), null);
    await keepScreenshot(tab, `${name}-scriptless-edit`);

    expectNothing(requests.filter((line) => line.includes(key)), 'a key left in a request line or header');
    // A refused form is a 400, which Chromium writes to the console too.
    expectNothing(complaints.filter((complaint) => !/status of 4/.test(complaint)), name);
}, name === 'firefox' ? { preferences: { 'javascript.enabled': false } } : undefined);
