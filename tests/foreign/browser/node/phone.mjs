// Somebody publishes from a phone. The tab closes half way, and the browser ends; later the page is changed with the key that
// the browser has kept. Each visit is a new process of the browser over the same folder.

import assert from 'node:assert/strict';
import { expectFit } from './axe.mjs';
import { base, expectNothing, keepScreenshot, name, newProfile, withBrowser } from './browsers.mjs';
import { openEditor, openPages, openWatchedTab, read, said, shown, stored, text } from './editing.mjs';

const PHONE = { width: 360, height: 740, deviceScaleFactor: 2, isMobile: true, hasTouch: true };
const profile = newProfile(name);

/** Opens a tab on the phone. */
async function onPhone(visit) {
    await withBrowser(name, async (browser) => {
        const { tab, complaints } = await openWatchedTab(browser);
        await tab.setViewport(PHONE);
        await visit(tab);
        expectNothing(await complaints(), name);
    }, { profile });
}

/** Taps the control in the middle, as a finger does, once it is on the screen. */
async function tap(tab, selector) {
    await tab.$eval(selector, (control) => control.scrollIntoView({ block: 'center' }));
    await (await tab.$(selector)).tap();
}

async function fill(tab, selector, words) {
    await tap(tab, selector);
    await tab.keyboard.type(words);
}

await onPhone(async (tab) => {
    await openEditor(tab, base);
    await keepScreenshot(tab, `${name}-phone-empty`);
    await fill(tab, '#title', 'From a phone');
    await fill(tab, '#content', 'Half of the text');
    await stored(tab, 'Half of the text');
});

let slug;
await onPhone(async (tab) => {
    await openEditor(tab, base);
    await said(tab, 'Your draft is back');
    assert.equal(await text(tab, 'title'), 'From a phone');
    await fill(tab, '#content', '');
    await tab.keyboard.press('End');
    await tab.keyboard.type(', and the rest.');
    await tap(tab, '[value=preview]');
    await shown(tab, 'preview');
    await keepScreenshot(tab, `${name}-phone-preview`);
    // Publish is in view, whatever is shown.
    await tap(tab, '[value=publish]');
    await shown(tab, 'published');
    await expectFit(tab, 'published on a phone');
    await keepScreenshot(tab, `${name}-phone-published`);
    slug = new URL(await text(tab, 'address')).pathname.slice(1);
});
assert.equal((await read(base, slug)).content, 'Half of the text, and the rest.');

await onPhone(async (tab) => {
    // The reader's way: the page, then its footer.
    await tab.goto(`${base}/${slug}`);
    await Promise.all([tab.waitForNavigation(), tap(tab, 'footer a[href$="/edit"]')]);
    await shown(tab, 'editor');
    await tap(tab, '#title');
    await tab.$eval('#title', (field) => field.select());
    await tab.keyboard.type('A day later');
    await tap(tab, '#save');
    await said(tab, 'Saved');
    await expectFit(tab, 'edit on a phone');
    await keepScreenshot(tab, `${name}-phone-edited`);
    await openPages(tab, base);
    assert.equal(await tab.$eval('#pages a', (link) => link.textContent), 'A day later', 'the list knows the new title');
});
assert.equal((await read(base, slug)).title, 'A day later');
