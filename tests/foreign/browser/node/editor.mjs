// Publishing, editing, conflicts and deleting by hand, with every view checked for accessibility and size: none scrolls sideways on the
// narrowest phone, whatever was written.

import assert from 'node:assert/strict';
import { expectFit, look } from './axe.mjs';
import { base, change, expectNothing, name, withBrowser } from './browsers.mjs';
import { fill, follow, openEditor, openPages, openWatchedTab, press, publishByHand, read, said, shown, text, unfold, write } from './editing.mjs';

const MARKDOWN = 'Some *text* with a [link](https://elsewhere.example/).\n\n    code\n\nThe end, é and 📓.';
const TITLE = 'Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft und mehr';
const WIDE = `${MARKDOWN}\n\n${'unbroken'.repeat(20)}\n\n    ${'wide code '.repeat(20)}\n\nhttps://elsewhere.example/${'long/'.repeat(20)}`;

await withBrowser(name, async (browser) => {
    const { tab, complaints, requests } = await openWatchedTab(browser);
    await openEditor(tab, base);
    await look(tab, name, 'editor-empty');

    await fill(tab, TITLE, MARKDOWN);
    await tab.waitForFunction(() => document.getElementById('count').textContent === '13 words · Draft saved');
    await write(tab, 'content', WIDE);
    await press(tab, '.more > summary');
    await expectFit(tab, 'editor-menu');

    await press(tab, '[value=preview]');
    await shown(tab, 'preview');
    await tab.waitForFunction(() => document.activeElement.id === 'preview');
    await look(tab, name, 'editor-preview');

    await press(tab, '[value=publish]');
    await shown(tab, 'published');
    const [address, link] = [await text(tab, 'address'), await text(tab, 'edit-link')];
    const key = link.split('#')[1];
    const slug = new URL(address).pathname.slice(1);
    await look(tab, name, 'editor-published');

    // The list knows the page, and its link opens the editor with the kept key.
    await openPages(tab, base);
    await look(tab, name, 'editor-list');
    await follow(tab, '#pages a[href$="/edit"]');
    await shown(tab, 'editor');
    assert.equal(await text(tab, 'title'), TITLE);
    await look(tab, name, 'editor-edit');
    await write(tab, 'title', 'Renamed by hand');
    await press(tab, '#save', 'Saved');
    assert.equal((await read(base, slug)).title, 'Renamed by hand');

    // A text with something like a key is saved only on the second try.
    const pasted = `My key is hbk_${'x'.repeat(43)}.`;
    await write(tab, 'content', pasted);
    await press(tab, '#save', 'looks like an edit key');
    await said(tab, 'press Save again');
    assert.notEqual((await read(base, slug)).content, pasted);
    await press(tab, '#save', 'Saved');
    assert.equal((await read(base, slug)).content, pasted);

    // The page changes meanwhile (losses.mjs).
    await change(base, { slug, key }, 'PATCH', { content: 'Their text.' });
    await write(tab, 'content', 'My text.');
    await press(tab, '#save', 'This page changed since you opened it');
    assert.equal(await tab.$eval('#status a', (link) => link.getAttribute('href')), `/${slug}`);
    await look(tab, name, 'editor-conflict');
    await press(tab, '#status button:nth-of-type(2)', 'Saved');

    // Deleting asks first.
    await unfold(tab, 'deleting');
    await look(tab, name, 'editor-sure');
    await press(tab, '#not-sure');
    assert.equal((await read(base, slug)).status, 200);
    await tab.$eval('#deleting > summary', (summary) => {
        summary.scrollIntoView({ block: 'end' });
        summary.click();
    });
    // The question and its buttons come into view once the browser has said that the part is open.
    await tab.waitForFunction(() => document.getElementById('is-sure').getBoundingClientRect().bottom <= innerHeight);
    await press(tab, '#is-sure');
    await shown(tab, 'closed');
    assert.equal(await text(tab, 'opening-name'), 'Your page was deleted');
    assert.equal((await read(base, slug)).status, 410);
    await look(tab, name, 'editor-deleted');

    // The same holds for a page that is published. The warning does not repeat the key.
    await openEditor(tab, base);
    await fill(tab, 'Pasted', pasted);
    await press(tab, '[value=publish]', 'looks like an edit key');
    assert.ok(!(await text(tab, 'status')).includes('hbk_'), 'the warning shows the key');
    assert.ok(await tab.$eval('#published', (section) => section.hidden), 'it was published at once');
    await look(tab, name, 'editor-warned');
    await press(tab, '[value=publish]');
    await shown(tab, 'published');

    // A text from right to left is written in its own direction.
    await openEditor(tab, base);
    await fill(tab, 'כותרת בעברית', 'הוועדה תפרסם את ממצאיה בשבוע הבא. And English.');
    await press(tab, '[value=preview]');
    await tab.waitForFunction(() => document.activeElement.id === 'preview');
    assert.deepEqual(
        await tab.evaluate(() => ['title', 'content', 'preview-article'].map((id) => getComputedStyle(document.getElementById(id)).direction)),
        ['rtl', 'rtl', 'rtl']);
    await look(tab, name, 'editor-rtl');

    // An edit link, in a browser that does not know the page.
    const linked = await publishByHand(tab, base, 'Linked', 'Text.');
    await press(tab, '#forget-key');
    await shown(tab, 'edit-link');
    await look(tab, name, 'editor-forgotten');
    await press(tab, '#copy-link', 'The edit link, which is a secret, was copied');
    const context = await browser.createBrowserContext();
    const other = await openWatchedTab(context);
    await other.tab.goto(`${base}/help`);
    await other.tab.evaluate((link) => location.assign(link), `${base}/${linked.slug}/edit#${linked.key}`);
    await shown(other.tab, 'editor');
    const at = await other.tab.evaluate(() => [location.href, history.length]);
    assert.equal(at[0], `${base}/${linked.slug}/edit`);
    assert.ok(await (await other.tab.$('#not-kept')).isVisible(), 'it says that the key is not saved here');
    if (name === 'chromium') {
        const session = await other.tab.createCDPSession();
        const { entries } = await session.send('Page.getNavigationHistory');
        // `userTypedURL` is the browser's own note on how the entry was reached, which no page can change.
        expectNothing(entries.filter(({ url, title }) => (url + title).includes('hbk_')), 'the history of the tab');
    }
    await write(other.tab, 'content', 'Changed by a link.');
    await press(other.tab, '#save');
    await said(other.tab, 'Saved');
    assert.equal((await read(base, linked.slug)).content, 'Changed by a link.');
    // Neither browser leads back to an address with the key.
    for (const [step, address] of [['goBack', `${base}/help`], ['goForward', `${base}/${linked.slug}/edit`]]) {
        await other.tab[step]();
        assert.equal(await other.tab.evaluate(() => location.href), address, step);
    }
    expectNothing(await other.complaints(), 'the edit link');
    await context.close();

    // A wrong key opens nothing and says so.
    await tab.goto(`${base}/${linked.slug}/edit`);
    await look(tab, name, 'editor-login');
    await write(tab, 'key', `hbk_${'x'.repeat(43)}`);
    await tab.keyboard.press('Enter');
    await said(tab, 'isn’t the edit key for this page');
    await tab.goto(`${base}/help`);
    await tab.goto(`${base}/${linked.slug}/edit#hbk_wrong`);
    await said(tab, 'no edit key');
    await expectFit(tab, 'editor-refused');

    const leaks = [...requests, ...other.requests].filter((line) => line.includes(key) || line.includes(linked.key));
    expectNothing(leaks, 'a key left in a request line or header');
    expectNothing(await complaints(), name);
});
