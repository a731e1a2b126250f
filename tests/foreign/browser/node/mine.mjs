// After publishing: the receipt, the list of pages, a page that changed meanwhile.

import assert from 'node:assert/strict';
import { base, change, expectNothing, keepScreenshot, name, publish, withBrowser } from './browsers.mjs';
import { accept, chord, fileOf, follow, openPages, openToEdit, openWatchedTab, press, publishByHand, read, said, shown, text, write } from './editing.mjs';

const titles = (tab) => tab.$$eval('#pages .title', (links) => links.map((link) => link.textContent));

await withBrowser(name, async (browser) => {
    const { tab, complaints } = await openWatchedTab(browser);
    await tab.evaluateOnNewDocument(() => {
        window.shared = [];
        navigator.share = async (data) => {
            window.shared.push(data);
            throw new DOMException('Somebody changed their mind.', 'AbortError');
        };
    });

    // The receipt: two links, and Edit.
    const page = await publishByHand(tab, base, 'Mine', 'Text.');
    assert.equal(await tab.evaluate(() => document.activeElement.id), 'published-name');
    const place = () => tab.$eval('#copy-link', (button) => button.getBoundingClientRect().top + scrollY);
    const before = await place();
    await press(tab, '#copy-link', 'The edit link, which is a secret, was copied');
    assert.equal(await place(), before, 'a confirmation moves nothing');
    await press(tab, '#copy-address', 'The link was copied');
    assert.ok(!await tab.$eval('#edit-link', (link) => link.checkVisibility()), 'the edit link is not shown where it is saved');
    await keepScreenshot(tab, `${name}-receipt`);
    // The file has the edit link, and is an import too.
    assert.equal(await fileOf(tab, 'save-key'), `${page.address}/edit#${page.key}\n${page.address}\n${page.key}\n`);
    // The browser's own sheet of apps gets title and address, and to close it is no failure.
    await tab.evaluate(() => { document.getElementById('status').textContent = ''; });
    await press(tab, '#share');
    await tab.waitForFunction(() => window.shared.length);
    assert.deepEqual(await tab.evaluate(() => window.shared), [{ title: 'Mine', url: page.address }]);
    assert.equal(await text(tab, 'status'), '');
    await follow(tab, '#edit-page');
    await shown(tab, 'editor');
    assert.equal(await text(tab, 'title'), 'Mine');

    // The list: copy, delete, and a page that was deleted elsewhere.
    const elsewhere = await publishByHand(tab, base, 'Deleted elsewhere', 'Text.');
    const last = await publishByHand(tab, base, 'The last', 'Text.');
    await change(base, elsewhere, 'DELETE');
    await openPages(tab, base);
    assert.deepEqual(await titles(tab), ['The last', 'Deleted elsewhere', 'Mine'], 'the newest first');
    assert.match(await tab.$eval('#pages time', (time) => time.textContent), /^\d{1,2} \w+ \d{4}$/);
    await keepScreenshot(tab, `${name}-pages`);
    await press(tab, '#pages li:last-child button', 'The link was copied');
    await press(tab, '#pages li:nth-child(2) .delete');
    await press(tab, '#pages .sure .danger', 'Deleted elsewhere was deleted');
    assert.deepEqual(await titles(tab), ['The last', 'Mine']);
    assert.equal(await tab.evaluate(() => document.activeElement.textContent), 'Mine', 'the focus goes on to the next page');
    await press(tab, '#pages .delete');
    assert.equal(await tab.evaluate(() => document.activeElement.textContent), 'Cancel', 'Enter twice deletes nothing');
    await keepScreenshot(tab, `${name}-pages-delete`);
    await press(tab, '#pages .sure .danger', 'The last was deleted');
    assert.equal((await read(base, last.slug)).status, 410);
    await tab.reload();
    await shown(tab, 'keys');
    assert.deepEqual(await titles(tab), ['Mine']);

    // The edit page of a deleted page, and of one that never was, says so and leads on.
    await tab.goto(`${base}/${elsewhere.slug}/edit#${elsewhere.key}`);
    await shown(tab, 'closed');
    assert.equal(await text(tab, 'opening-name'), 'This page was deleted');
    assert.ok(await tab.$eval('#login', (form) => form.hidden));
    assert.ok(await tab.$eval('#remove', (button) => button.hidden), 'its key is not saved here');
    const gone = await publishByHand(tab, base, 'Gone', 'Text.');
    await change(base, gone, 'DELETE');
    await tab.goto(`${base}/${gone.slug}/edit`);
    await shown(tab, 'closed');
    await follow(tab, '#remove');
    await shown(tab, 'keys');
    assert.deepEqual(await titles(tab), ['Mine']);
    await tab.goto(`${base}/never-was-2222bbbb/edit#${elsewhere.key}`);
    await shown(tab, 'closed');
    assert.equal(await text(tab, 'opening-name'), 'There is no page at this link');

    // A person without a key learns it too.
    await tab.goto(`${base}/${elsewhere.slug}/edit`);
    await shown(tab, 'closed');
    assert.equal(await text(tab, 'opening-name'), 'This page was deleted');

    // A key of another page is told from a wrong one, in an edit link and alone.
    const strange = await publish(base, 'Strange', 'Text.');
    await tab.goto(`${strange.address}/edit`);
    await write(tab, 'key', `${page.address}/edit#${page.key}`);
    await tab.keyboard.press('Enter');
    await said(tab, `This edit link is for another page, ${page.slug}.`);
    await write(tab, 'key', page.key);
    await tab.keyboard.press('Enter');
    await said(tab, 'This is the edit key of another page, “Mine”.');

    // The list takes an edit link. A reload of this tab opens the page again, and the browser remembers nothing unasked.
    await openPages(tab, base);
    await write(tab, 'link', strange.address);
    await tab.keyboard.press('Enter');
    await said(tab, 'This isn’t an edit link');
    await write(tab, 'link', `${strange.address}/edit#${strange.key}`);
    await Promise.all([tab.waitForNavigation(), tab.keyboard.press('Enter')]);
    await shown(tab, 'editor');
    assert.equal(await tab.evaluate(() => location.hash), '');
    await tab.reload();
    await shown(tab, 'editor');
    await shown(tab, 'not-kept');
    assert.ok(await tab.evaluate((key) => !Object.values(localStorage).some((value) => value.includes(key)), strange.key));
    await press(tab, '#keep-key');
    await shown(tab, 'kept');
    await press(tab, '#forget-key');
    await shown(tab, 'edit-link');
    assert.match(await text(tab, 'not-kept'), /Copy it before you leave/);
    await press(tab, '#copy-link', 'was copied');
    await tab.reload();
    await shown(tab, 'login');

    // A copy counts when the browser forgets.
    await publishByHand(tab, base, 'Copied', 'Text.');
    await press(tab, '#copy-link', 'was copied');
    await press(tab, '#forget-key');
    assert.equal(await text(tab, 'not-kept'), 'This browser no longer has the edit link.');
    const dialogs = [];
    accept(tab, dialogs);
    await press(tab, '#another');
    await shown(tab, 'editor');
    expectNothing(dialogs, 'a question about a link that was copied');

    // A page that goes while it is edited.
    const soon = await publish(base, 'Soon gone', 'Text.');
    await openToEdit(tab, soon);
    await change(base, soon, 'DELETE');
    await write(tab, 'title', 'Changed');
    await press(tab, '#save');
    await shown(tab, 'closed');

    // A save whose answer was lost is no conflict.
    const other = await publish(base, 'Elsewhere', 'Text.');
    await tab.goto(`${base}/help`);
    await openToEdit(tab, other);
    assert.equal(await tab.$eval('#content', (field) => field.selectionStart), 0, 'writing begins at the beginning');
    await change(base, other, 'PATCH', { content: 'My text.' });
    await write(tab, 'content', 'My text.');
    await chord(tab, 's');
    await said(tab, 'Saved');

    expectNothing(await complaints(), name);
});
