// The preview in the editor is the published page, byte for byte, for each kind of Markdown and for attacks. Neither of them runs
// anything.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { base, expectNothing, name, openTab, publish, withBrowser } from './browsers.mjs';
import { openEditor, press, shown } from './editing.mjs';

// `tests/it` compares the same texts, and whole corpora, without a browser.
const ROWS = readFileSync('own.jsonl', 'utf8').trim().split('\n').map((row) => JSON.parse(row));
const TEXTS = ROWS.filter(({ kind }) => kind === 'preview').map(({ input }) => input);

// Firefox reads every fourth: its steps take longer, and it differs in how it reads HTML, not in how the server makes it.
const READ = TEXTS.filter((_, at) => name === 'chromium' || at % 4 === 0);

const ran = (tab) => tab.evaluate(() => document.documentElement.dataset.ran ?? null);

await withBrowser(name, async (browser) => {
    const editor = await openTab(browser);
    const reader = await openTab(browser);
    await openEditor(editor.tab, base);
    // The bytes as the browser received them.
    await editor.tab.evaluate(() => {
        const original = window.fetch;
        window.fetch = async (...request) => {
            const answer = await original(...request);
            window.received = (await answer.clone().json()).article_html;
            return answer;
        };
    });
    assert.ok(TEXTS.length > 50, `${TEXTS.length} texts`);
    for (const text of READ) {
        await editor.tab.bringToFront();
        await editor.tab.evaluate((text) => {
            document.getElementById('title').value = 'T';
            document.getElementById('content').value = text;
            window.received = null;
        }, text);
        // A field has LF alone, whatever was put into it.
        const written = await editor.tab.$eval('#content', (field) => field.value);
        await press(editor.tab, '[value=preview]');
        await shown(editor.tab, 'preview');
        await editor.tab.waitForFunction(() => window.received !== null && !document.getElementById('content').readOnly);
        const previewed = await editor.tab.evaluate(() => ({
            bytes: window.received,
            tree: document.getElementById('preview-article').innerHTML,
        }));

        // Back to the text.
        await press(editor.tab, '[value=preview]');

        const page = await publish(base, 'T', written);
        const html = await (await fetch(page.address)).text();
        assert.ok(html.includes(`<article dir="auto">\n${previewed.bytes}\n</article>`), JSON.stringify(text));
        await reader.tab.goto(page.address);
        const tree = await reader.tab.$eval('article', (article) => article.innerHTML);
        assert.equal(tree, `\n${previewed.tree}\n`, JSON.stringify(text));
        assert.deepEqual([await ran(editor.tab), await ran(reader.tab)], [null, null], JSON.stringify(text));
    }
    // Images elsewhere are loaded, in vain. Nothing else is, and the policy has nothing to refuse.
    const others = [...await editor.complaints(), ...await reader.complaints()].filter((complaint) =>
        !/127\.0\.0\.1:1\/|own\.png|status of 404|ERR_UNSAFE_PORT/.test(complaint));
    expectNothing(others, name);
});
