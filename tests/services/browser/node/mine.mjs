// After publishing: the receipt, the list of pages, a heading that changes, a conflict, a new page from an old one.
//
//   node mine.mjs chromium <base URL>

import assert from 'node:assert/strict';
import { change, expectNothing, keepScreenshot, publish, withBrowser } from './browsers.mjs';
import { follow, openPages, openWatchedTab, press, publishByHand, read, said, shown, text, unfold, write } from './editing.mjs';
import { decode } from './qr_reader.mjs';

const [name, base] = process.argv.slice(2);

const titles = (tab) => tab.$$eval('#pages li:not([hidden]) .title', (links) => links.map((link) => link.textContent));

await withBrowser(name, async (browser) => {
    const { tab, complaints } = await openWatchedTab(browser);

    // The receipt: the address first, then ways to keep the key.
    const page = await publishByHand(tab, base, 'Mine', 'Text.');
    assert.equal(await tab.evaluate(() => document.activeElement.id), 'published-name');
    const place = () => tab.$eval('#copy-link', (button) => button.getBoundingClientRect().top);
    const before = await place();
    await press(tab, '#copy-link');
    await said(tab, 'The edit link was copied');
    assert.equal(await place(), before, 'a confirmation moves nothing');
    assert.ok(!await tab.$eval('#key', (key) => key.checkVisibility()), 'the key is not shown unasked');
    await press(tab, '#show-code');
    const code = await tab.$eval('#code path', (path) => path.getAttribute('d'));
    const edge = await tab.$eval('#code svg', (image) => Number(image.getAttribute('viewBox').split(' ')[2]));
    assert.equal(decode(code, edge), `${base}/${page.slug}/edit#${page.key}`);
    await keepScreenshot(tab, `${name}-receipt`);
    await press(tab, '#show-code');
    assert.equal(await tab.$('#code svg'), null);

    // The list: search, copy, delete, and pages that were deleted elsewhere.
    const elsewhere = await publishByHand(tab, base, 'Deleted elsewhere', 'Text.');
    const last = await publishByHand(tab, base, 'The last', 'Text.');
    await change(base, elsewhere, 'DELETE');
    await openPages(tab, base);
    await shown(tab, 'searching');
    assert.deepEqual(await titles(tab), ['The last', 'Deleted elsewhere', 'Mine'], 'the newest first');
    assert.equal(await tab.$eval('#pages time', (time) => time.textContent), 'today');
    await tab.waitForSelector('#pages .gone');
    assert.equal(await tab.$eval('#pages .gone', (title) => title.textContent), 'Deleted elsewhere');
    await keepScreenshot(tab, `${name}-pages`);
    await tab.type('#search', 'min');
    assert.deepEqual(await titles(tab), ['Mine']);
    await press(tab, '#pages li:not([hidden]) button');
    await said(tab, 'The link was copied');
    await write(tab, 'search', ' ');
    await tab.keyboard.press('Backspace');
    await press(tab, '#pages li:has(.gone) button');
    assert.deepEqual(await titles(tab), ['The last', 'Mine']);
    assert.equal(await tab.evaluate(() => document.activeElement.textContent), 'Mine', 'the focus goes on to the next page');
    await press(tab, '#pages .delete');
    assert.equal(await tab.evaluate(() => document.activeElement.textContent), 'Keep the page', 'Enter twice deletes nothing');
    await keepScreenshot(tab, `${name}-pages-delete`);
    await press(tab, '#pages .sure .danger');
    await said(tab, 'The last was deleted');
    assert.equal((await read(base, last.slug)).status, 410);
    await tab.reload();
    await shown(tab, 'keys');
    assert.deepEqual(await titles(tab), ['Mine']);

    // The edit page of a deleted page, and of one that never was, says so and leads on.
    await tab.goto(`${base}/${elsewhere.slug}/edit`);
    await shown(tab, 'closed');
    assert.equal(await text(tab, 'opening-name'), 'This page was deleted');
    assert.ok(await tab.$eval('#login', (form) => form.hidden));
    await tab.goto(`${base}/never-was-2222bbbb/edit`);
    await shown(tab, 'closed');

    // A title that came from a heading follows it, until somebody types another.
    const headed = await publishByHand(tab, base, ' ', '# First *name*\n\nText.');
    await tab.waitForFunction(() => Object.values(localStorage).some((value) => value.includes('"First name"')));
    const edit = async (slug, content) => {
        await tab.goto(`${base}/${slug}/edit`);
        await shown(tab, 'editor');
        if (content) await write(tab, 'content', content);
    };
    await edit(headed.slug, '# Second `name`\n\nText.');
    await press(tab, '#save');
    await said(tab, 'Saved');
    assert.equal((await read(base, headed.slug)).title, 'Second name');
    await edit(headed.slug, '# Third\n\nText.');
    await write(tab, 'title', 'My own');
    await press(tab, '#save');
    await said(tab, 'Saved');
    await edit(headed.slug, '# Fourth\n\nText.');
    await press(tab, '#save');
    await said(tab, 'Saved');
    assert.equal((await read(base, headed.slug)).title, 'My own');
    // A page that was published elsewhere follows too, if its title is its heading.
    const other = await publish(base, 'Elsewhere', '# Elsewhere\n\nText.');
    await tab.goto(`${base}/help`);
    await tab.goto(`${other.address}/edit#${other.key}`);
    await shown(tab, 'editor');
    assert.equal(await tab.$eval('#content', (field) => field.selectionStart), 0, 'writing begins at the beginning');
    await write(tab, 'content', '# Here\n\nText.');
    await tab.keyboard.down('Control');
    await tab.keyboard.press('s');
    await tab.keyboard.up('Control');
    await said(tab, 'Saved');
    assert.equal((await read(base, other.slug)).title, 'Here');

    // A conflict marks what differs, and saves nothing by itself.
    const long = Array.from({ length: 40 }, (_, line) => `Line ${line}.`).join('\n');
    await write(tab, 'content', long);
    await press(tab, '#save');
    await said(tab, 'Saved');
    await change(base, other, 'PATCH', { content: long.replace('Line 20.', 'Their line.') });
    await write(tab, 'content', long.replace('Line 20.', 'My line.'));
    await press(tab, '#save');
    await shown(tab, 'conflict');
    const marked = (mark) => tab.$$eval(`#compare ${mark}`, (lines) => lines.map((line) => line.textContent));
    assert.deepEqual([await marked('del'), await marked('ins')], [['Their line.'], ['My line.']]);
    assert.ok((await tab.$$('#compare > *')).length < 20, 'long parts in common are left out');
    await keepScreenshot(tab, `${name}-conflict`);
    await press(tab, '#go-on');
    await shown(tab, 'editor');
    assert.match(await text(tab, 'content'), /My line\./);
    assert.match((await read(base, other.slug)).content, /Their line\./);
    await press(tab, '#save');
    await said(tab, 'Saved');
    assert.match((await read(base, other.slug)).content, /My line\./, 'they were seen, so the next save replaces them');

    // A new page from this one.
    await follow(tab, '#copy-page');
    await shown(tab, 'pick');
    assert.deepEqual([await text(tab, 'title'), await text(tab, 'content')], ['Here', long.replace('Line 20.', 'My line.')]);
    expectNothing(await complaints(), name);
});
