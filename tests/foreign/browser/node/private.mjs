// A private window, and a browser that stores nothing: the editor works, says how long the key is kept, and loses none.

import assert from 'node:assert/strict';
import { base, expectNothing, keepScreenshot, name, withBrowser } from './browsers.mjs';
import { accept, openPages, openWatchedTab, press, publishByHand, read, said, shown, text, write } from './editing.mjs';

const PRIVATE = { arguments: ['--incognito'], preferences: { 'browser.privatebrowsing.autostart': true } };

// Chromium's switch is that of the web platform's test suite; Firefox's is a preference.
const WITHOUT_STORAGE = { arguments: ['--disable-local-storage'], preferences: { 'dom.storage.enabled': false } };

let page;
await withBrowser(name, async (browser) => {
    const { tab, complaints } = await openWatchedTab(browser);
    page = await publishByHand(tab, base, 'In private', 'Text.');
    await shown(tab, 'kept');
    assert.match(await text(tab, 'kept'), /a private window when you close it/);
    await keepScreenshot(tab, `${name}-private`);
    // The window keeps it as long as it is open.
    await tab.goto(`${base}/${page.slug}/edit`);
    await shown(tab, 'editor');
    await write(tab, 'content', 'Changed.');
    await press(tab, '#save', 'Saved');
    assert.equal((await read(base, page.slug)).content, 'Changed.');
    expectNothing(await complaints(), 'private');
}, PRIVATE);

// In Firefox that would take a whole start, only to test Firefox.
if (name === 'chromium') await withBrowser(name, async (browser) => {
    const { tab } = await openWatchedTab(browser);
    await openPages(tab, base);
    assert.equal((await tab.$$('#pages li')).length, 0, 'the next private window knows nothing');
    assert.ok(!await tab.$eval('#saved-here', (words) => words.checkVisibility()), 'nothing is said of keys where there are none');
}, PRIVATE);

await withBrowser(name, async (browser) => {
    const { tab, complaints } = await openWatchedTab(browser);
    const dialogs = [];
    accept(tab, dialogs);
    assert.equal(await tab.evaluate(() => {
        try {
            localStorage.setItem('a', 'b');
            return localStorage.getItem('a');
        } catch {
            return null;
        }
    }), null, 'nothing is stored');
    const lost = await publishByHand(tab, base, 'Nowhere', 'Text.');
    await shown(tab, 'not-kept');
    assert.match(await text(tab, 'not-kept'), /won’t save the edit link. Copy it now/);
    await tab.goto(`${base}/${lost.slug}`);
    assert.deepEqual(dialogs, ['beforeunload'], 'leaving without the key warns');
    // A key that was copied is safe.
    dialogs.length = 0;
    await publishByHand(tab, base, 'Copied', 'Text.');
    await press(tab, '#copy-link', 'The edit link, which is a secret, was copied');
    await tab.goto(`${base}/${lost.slug}`);
    assert.deepEqual(dialogs, []);
    // Editing needs no storage.
    await tab.goto(`${base}/${lost.slug}/edit`);
    await write(tab, 'key', lost.key);
    await tab.keyboard.press('Enter');
    await shown(tab, 'editor');
    expectNothing(await complaints(), 'without storage');
}, WITHOUT_STORAGE);
