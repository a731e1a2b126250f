// The narrowest phones: no view scrolls sideways at 320 pixels, and what was published is handed on to other apps.

import assert from 'node:assert/strict';
import { base, change, expectNothing, keepScreenshot, name, publish, withBrowser } from './browsers.mjs';
import { openEditor, openPages, openWatchedTab, press, publishByHand, read, said, shown, text, unfold, write } from './editing.mjs';
import { everyPage } from './pages.mjs';

const TITLE = 'Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft und mehr';
const WORDS = `${'unbroken'.repeat(20)}\n\n    ${'wide code '.repeat(20)}\n\nhttps://elsewhere.example/${'long/'.repeat(20)}`;

await withBrowser(name, async (browser) => {
    const { tab } = await openWatchedTab(browser);
    await tab.evaluateOnNewDocument(() => {
        window.shared = [];
        navigator.share = async (data) => {
            window.shared.push(data);
            throw new DOMException('Somebody changed their mind.', 'AbortError');
        };
    });
    await tab.setViewport({ width: 320, height: 568 });
    let views = 0;
    const fits = async (view) => {
        const seen = await tab.evaluate(() => {
            const { clientWidth } = document.documentElement;
            const hidden = [document.documentElement, document.body].map((part) => getComputedStyle(part).overflowX).join();
            // Some parts scroll what they have, and some only screen readers get: neither makes the screen wider for anybody.
            const scrolled = [...document.querySelectorAll('*')].filter((part) => /auto|scroll|hidden|clip/.test(getComputedStyle(part).overflowX));
            const wide = [...document.body.querySelectorAll('*')]
                .filter((part) => part.checkVisibility() && !scrolled.some((outer) => outer !== part && outer.contains(part)))
                .filter((part) => part.getBoundingClientRect().right > clientWidth + 1 || part.getBoundingClientRect().left < -1)
                .map((part) => part.outerHTML.slice(0, 150));
            return { width: [innerWidth, clientWidth], scrolls: document.documentElement.scrollWidth > clientWidth, hidden, wide };
        });
        expectNothing(seen.scrolls || seen.wide.length || seen.width[0] !== 320 || seen.hidden !== 'visible,visible' ? [seen] : [], view);
        await keepScreenshot(tab, `${name}-narrow-${view}`);
        views += 1;
    };

    // These views need no key: the editor, pages for reading, help, and that there is no page.
    for (const [view, address] of Object.entries(await everyPage(base))) {
        await tab.goto(address);
        await fits(view);
    }

    await openEditor(tab, base);
    await fits('editor');
    await write(tab, 'title', TITLE);
    await write(tab, 'content', WORDS);
    await press(tab, '.more > summary');
    await fits('editor-written');
    await press(tab, '[value=preview]');
    await shown(tab, 'preview');
    await fits('preview');

    const page = await publishByHand(tab, base, TITLE, WORDS);
    await fits('receipt');
    // The browser's own sheet of apps gets title and address, and to close it is no failure.
    await press(tab, '#share');
    await tab.waitForFunction(() => window.shared.length);
    assert.deepEqual(await tab.evaluate(() => window.shared), [{ title: TITLE, url: page.address }]);
    assert.equal(await text(tab, 'status'), '');
    await press(tab, '#forget-key');
    await fits('receipt-forgotten');
    await press(tab, '#copy-link');
    await said(tab, 'was copied');
    await tab.goto(`${page.address}/edit#${page.key}`);
    await shown(tab, 'editor');
    await press(tab, '#keep-key');
    await publishByHand(tab, base, 'Another', 'Text.');
    await openPages(tab, base);
    await press(tab, '#pages .delete');
    await fits('list');

    await tab.goto(`${page.address}/edit`);
    await shown(tab, 'editor');
    await press(tab, '.more > summary');
    await unfold(tab, 'keeping');
    await tab.$eval('#deleting > summary', (summary) => {
        summary.scrollIntoView({ block: 'end' });
        summary.click();
    });
    await tab.waitForFunction(() => document.getElementById('deleting').open);
    await fits('edit');
    // The question and its buttons come into view once the browser has said that the part is open.
    await tab.waitForFunction(() => document.getElementById('is-sure').getBoundingClientRect().bottom <= innerHeight);
    await change(base, page, 'PATCH', { content: `${WORDS} Theirs.` });
    await write(tab, 'content', `${WORDS} Mine.`);
    await press(tab, '#save');
    await said(tab, 'This page changed');
    await fits('conflict');
    await press(tab, '#status button:nth-of-type(2)');
    await said(tab, 'Saved');
    assert.match((await read(base, page.slug)).content, /Mine\.$/);

    // Messages: a failure beside the bar, one beside a field, and a page that went.
    await tab.goto(`${base}/help`);
    await tab.evaluate(() => { localStorage.clear(); sessionStorage.clear(); });
    await tab.goto(`${page.address}/edit#hbk_wrong`);
    await said(tab, 'no edit key');
    await fits('edit-refused');
    await openPages(tab, base);
    assert.ok(!await tab.$eval('#saved-here', (words) => words.checkVisibility()), 'nothing is said of keys where there are none');
    await fits('list-empty');
    const other = await publish(base, 'Soon gone', 'Text.');
    await tab.goto(`${other.address}/edit#${other.key}`);
    await shown(tab, 'editor');
    await change(base, other, 'DELETE');
    await write(tab, 'title', 'Changed');
    await press(tab, '#save');
    await shown(tab, 'closed');
    await fits('edit-gone');
    assert.ok(views > 22, `${views} views`);
});
