// A client over its limit is told how long to wait, and its text is kept. The service admits one create.

import assert from 'node:assert/strict';
import { base, keepScreenshot, name, withBrowser } from './browsers.mjs';
import { fill, openWatchedTab, press, publishByHand, shown, text, write } from './editing.mjs';

await withBrowser(name, async (browser) => {
    const { tab } = await openWatchedTab(browser);
    await publishByHand(tab, base, 'The first', 'Text.');
    await press(tab, '#another');
    await shown(tab, 'editor');
    await fill(tab, 'The second', 'More text.');
    await press(tab, '[value=publish]', 'reached its limit');
    assert.match(await text(tab, 'status'), /Your text is saved; try again after .+\.$/, 'nobody tries for an hour');
    assert.equal(await text(tab, 'content'), 'More text.');
    await keepScreenshot(tab, `${name}-limited`);

    // The preview beside the text pauses, and says until when.
    await tab.setViewport({ width: 1280, height: 800 });
    await tab.waitForFunction(() => document.getElementById('preview-article').textContent.includes('More text.'));
    let preview;
    do {
        preview = await fetch(`${base}/?action=preview`, { method: 'POST', headers: { 'content-type': 'text/markdown' }, body: 'x' });
        await preview.text();
    } while (preview.ok);
    assert.equal(preview.status, 429);
    await write(tab, 'content', 'Another text.');
    await tab.waitForFunction(() => /^Preview paused until /.test(document.getElementById('preview-note').textContent));
    assert.match(await text(tab, 'preview-article'), /More text\./, 'the last one stays');
    await keepScreenshot(tab, `${name}-limited-preview`);
});
