// The two pictures of the README: a page, and the editor with the same text. With `PICTURES=<folder>` they are kept there.

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { base, name, publish, withBrowser } from './browsers.mjs';
import { fill, openEditor, openWatchedTab } from './editing.mjs';

// A README is a page of text: its pictures must not be the largest part of it.
const MAX_BYTES = 120 * 1024;

const TITLE = 'Moving day: what we learnt';
const CONTENT = `We moved the archive to the new building in **one weekend**. This is what we would tell others.

## What helped

1. A list of every box, *before* the first one was packed.
2. One person at each door who did nothing but count.
3. Labels made by a script:

\`\`\`sh
seq -w 1 240 | while read -r n; do label "archive-$n"; done
\`\`\`

> Count twice, carry once.

## What did not

The lift. It carries ~~six boxes~~ four, and it knows.

The [floor plan](/floor-plan) shows where everything is now.
`;

/** Takes a picture of what the tab shows, and keeps it under this name if a folder was named. */
async function picture(tab, file) {
    const bytes = await tab.screenshot({ type: 'png' });
    assert.ok(bytes.length > 10_000 && bytes.length < MAX_BYTES, `${file}: ${bytes.length} bytes`);
    if (process.env.PICTURES) writeFileSync(join(process.env.PICTURES, file), bytes);
}

await withBrowser(name, async (browser) => {
    const { tab } = await openWatchedTab(browser);
    await tab.setViewport({ width: 800, height: 860 });
    const { slug } = await publish(base, TITLE, CONTENT);
    await tab.goto(`${base}/${slug}`);
    await tab.waitForSelector('article');
    await picture(tab, 'page.png');

    await openEditor(tab, base);
    await fill(tab, TITLE, CONTENT);
    await tab.evaluate(() => {
        document.getElementById('content').scrollTop = 0;
        window.scrollTo(0, 0);
    });
    await picture(tab, 'editor.png');
});
