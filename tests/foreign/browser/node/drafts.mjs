// Drafts, files, keyboards and lost connections. This runs in Chromium, because only its driver can be offline.

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { base, expectNothing, name, withBrowser } from './browsers.mjs';
import { accept, chord, fill, openEditor, openWatchedTab, press, publishByHand, put, said, shown, stored, text, write } from './editing.mjs';

await withBrowser(name, async (browser) => {
    const { tab, complaints } = await openWatchedTab(browser);
    const dialogs = [];
    accept(tab, dialogs);
    await openEditor(tab, base);
    await fill(tab, 'A draft', 'Half a page');
    await stored(tab, 'Half a page');

    // Publishing without a connection keeps the text, and works once there is one.
    await tab.setOfflineMode(true);
    await press(tab, '[value=publish]', 'You’re offline');
    assert.equal(await text(tab, 'content'), 'Half a page');
    await stored(tab, 'Half a page');
    await tab.setOfflineMode(false);
    await tab.focus('#content');
    await chord(tab, 'Enter');
    await shown(tab, 'published');
    assert.equal(await tab.evaluate(() => localStorage.getItem('handbill:draft:')), null, 'the draft is published');

    // Leaving a key that is kept nowhere brings up a warning.
    await press(tab, '#forget-key');
    assert.equal(await tab.evaluate(() => document.activeElement.id), 'not-kept', 'the focus goes on to what is left to do');
    dialogs.length = 0;
    await press(tab, '#another');
    expectNothing(dialogs.length === 1 ? [] : dialogs, 'one warning');
    assert.match(dialogs[0], /not saved anywhere/);
    await publishByHand(tab, base, 'Safe', 'Text.');
    await openEditor(tab, base);

    // A file, chosen and dropped.
    await shown(tab, 'pick');
    writeFileSync('note.md', '# From a file\r\n\r\nIts text.\r\n');
    writeFileSync('latin.md', Buffer.from([0x61, 0xe9]));
    writeFileSync('plain.md', 'Only text.');
    const input = await tab.$('#file');
    // A title that stands alone survives a file.
    await write(tab, 'title', 'My own title');
    await input.uploadFile('plain.md');
    await said(tab, 'plain.md was opened');
    assert.deepEqual([await text(tab, 'title'), await text(tab, 'content')], ['My own title', 'Only text.']);
    await input.uploadFile('note.md');
    await said(tab, 'note.md was opened');
    assert.deepEqual([await text(tab, 'title'), await text(tab, 'content')], ['', '# From a file\n\nIts text.\n']);
    await input.uploadFile('latin.md');
    await said(tab, 'isn’t a text file');
    assert.equal(await text(tab, 'content'), '# From a file\n\nIts text.\n', 'nothing was replaced');
    await tab.evaluate(() => {
        const data = new DataTransfer();
        data.items.add(new File(['Dropped text.'], 'dropped.md'));
        document.getElementById('content').dispatchEvent(new DragEvent('drop', { bubbles: true, cancelable: true, dataTransfer: data }));
    });
    await said(tab, 'dropped.md was opened');
    assert.deepEqual([await text(tab, 'title'), await text(tab, 'content')], ['dropped', 'Dropped text.']);

    // A title is asked for in words for people.
    await write(tab, 'title', ' ');
    await press(tab, '[value=publish]', 'Give your page a title');
    assert.deepEqual(
        await tab.evaluate(() => [document.activeElement.id, document.activeElement.getAttribute('aria-invalid')]), ['title', 'true']);
    await tab.keyboard.type('T');
    assert.equal(await tab.$eval('#title-problem', (problem) => problem.hidden), true, 'typing takes the problem away');
    // A character that titles must not have is named there too, not by its number.
    await put(tab, 'title', 'a\u202eb');
    await press(tab, '[value=publish]');
    await tab.waitForFunction(() => document.getElementById('title-problem').textContent.includes('a character in it that can’t be shown'));
    // One that is too long is counted, not cut.
    await put(tab, 'title', '📓'.repeat(1000));
    await press(tab, '[value=publish]', 'Title too long: 1000 of 200');
    assert.equal([...await text(tab, 'title')].length, 1000);
    // A title in front matter is the page's title.
    writeFileSync('front.md', '---\ntitle: In front\n---\n\nDropped text.');
    await input.uploadFile('front.md');
    await said(tab, 'front.md was opened');
    assert.equal(await text(tab, 'title'), '');
    await put(tab, 'title', 'T');

    // The limit is shown from four fifths of it on. A text that is too long is reported and not sent.
    for (const [bytes, counted] of [[81_919, /^1 word · Draft saved$/], [81_920, /^1 word · 80 of 100 KB · Draft saved$/]]) {
        await put(tab, 'content', 'a'.repeat(bytes));
        assert.match(await text(tab, 'count'), counted);
    }
    await put(tab, 'content', 'é'.repeat(51_201));
    assert.match(await text(tab, 'count'), /^1 word · Text too long: 101 of 100 KB · Draft saved$/);
    await press(tab, '[value=publish]', 'Text too long: 101 of 100 KB');

    // The keys lead from the text to Publish and to the preview.
    await put(tab, 'content', '');
    await openEditor(tab, base);
    await tab.focus('#content');
    for (const next of ['publish', 'preview']) {
        await tab.keyboard.press('Tab');
        assert.equal(await tab.evaluate(() => document.activeElement.value), next);
    }
    await tab.keyboard.press('Enter');
    await tab.waitForFunction(() => document.activeElement.id === 'preview');
    expectNothing(await complaints(), name);
});
