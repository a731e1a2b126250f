// Tries to lose a text or a key: with two tabs, a server that fails after it has published, a full storage, a crash, a reload, and a
// broken export. This runs in Chromium, because only its driver can answer in the server's place.

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { base, change, name, publish, withBrowser } from './browsers.mjs';
import { accept, fileOf, fill, openEditor, openPages, openToEdit, openWatchedTab, press, publishByHand, put, read, said, shown, stored, text, unfold, write } from './editing.mjs';

const WRONG_KEY = `hbk_${'w'.repeat(43)}`;

/** Runs `visit` in a tab of a browser that knows nothing, with the dialogs that it has accepted. */
async function inNewBrowser(browser, visit) {
    const context = await browser.createBrowserContext();
    const dialogs = [];
    const open = async () => {
        const { tab } = await openWatchedTab(context);
        accept(tab, dialogs);
        return tab;
    };
    await visit(await open(), { open, dialogs });
    await context.close();
}

const drafts = (tab) => tab.evaluate(() => Object.entries(localStorage)
    .filter(([name]) => name.startsWith('handbill:draft:')).map(([, draft]) => JSON.parse(draft).content).sort());

const keys = (tab) => tab.evaluate(() => Object.entries(localStorage)
    .filter(([name]) => name.startsWith('handbill:key:')).map(([, page]) => JSON.parse(page).edit_key));

/** The key in the edit link of the receipt. */
const keyOf = async (tab) => (await text(tab, 'edit-link')).split('#')[1];

/** Lets `answer` decide on each request that is no GET. It may answer itself, or wait and let it pass. */
async function intercept(tab, answer) {
    await tab.setRequestInterception(true);
    const handle = (request) => (request.method() === 'GET' ? request.continue() : answer(request));
    tab.on('request', handle);
    return async () => {
        tab.off('request', handle);
        await tab.setRequestInterception(false);
    };
}

/** A promise and the function that fulfils it. */
function signal() {
    let give;
    const given = new Promise((resolve) => { give = resolve; });
    return { given, give };
}

await withBrowser(name, async (browser) => {
    // Two tabs write at the same time: the second one to write has the draft, and the first one says that it has none.
    await inNewBrowser(browser, async (first, { open, dialogs }) => {
        await openEditor(first, base);
        await write(first, 'content', 'The first text');
        await stored(first, 'The first text');
        const second = await open();
        await openEditor(second, base);
        await said(second, 'Your draft is back');
        await write(second, 'content', 'The second text');
        await stored(second, 'The second text');
        await first.bringToFront();
        await write(first, 'content', 'The first text goes on');
        await said(first, 'Not saved: another tab has taken over this draft');
        assert.deepEqual(await drafts(first), ['The second text']);
        await first.goto(`${base}/help`);
        assert.deepEqual(dialogs, ['beforeunload'], 'a text that is stored nowhere is not left unasked');
        await openEditor(first, base);
        await second.bringToFront();
        await write(second, 'content', 'The second text goes on');
        // The first one is told at once, and may take the draft back.
        await stored(second, 'goes on');
        await first.bringToFront();
        await said(first, 'Not saved: another tab has taken over this draft');
        await press(first, '#status button');
        assert.deepEqual(await drafts(first), ['The second text']);
    });

    // A reload brings the draft back once, also where the browser fills in the fields itself.
    await inNewBrowser(browser, async (tab) => {
        await openEditor(tab, base);
        await fill(tab, 'Once', 'Written once');
        await stored(tab, 'Written once');
        for (let visit = 0; visit < 2; visit += 1) {
            await tab.reload();
            await shown(tab, 'pick');
            assert.deepEqual([await text(tab, 'title'), await text(tab, 'content')], ['Once', 'Written once']);
            assert.deepEqual(await drafts(tab), ['Written once']);
        }
        // After a crash the browser may fill in an older text, when the document is complete.
        await tab.evaluateOnNewDocument(() => addEventListener('DOMContentLoaded', () => {
            document.getElementById('content').value = 'Written';
        }));
        await tab.reload();
        await shown(tab, 'pick');
        assert.equal(await text(tab, 'content'), 'Written once');
        await press(tab, '#status button');
        assert.equal(await text(tab, 'content'), 'Written', 'the other text is there too');
    });

    // Whatever the server answers, the text and its draft stay, and the words do not say that nothing was published.
    await inNewBrowser(browser, async (tab) => {
        await openEditor(tab, base);
        await fill(tab, 'Answers', 'Kept whatever comes');
        const answers = {
            'a page that is no JSON': (request) => request.respond({ status: 200, contentType: 'text/html', body: '<h1>Log in</h1>' }),
            'JSON of something else': (request) => request.respond({ status: 201, contentType: 'application/json', body: '{"ok":true}' }),
            'half an answer': (request) => request.respond({ status: 201, contentType: 'application/json', body: '{"slug":"a-2222bbbb","edit' }),
            "a gateway's error": (request) => request.respond({ status: 502, contentType: 'text/html', body: '<h1>Bad gateway</h1>' }),
            'no answer after the page was published': async (request) => {
                await publish(base, 'Answers', 'Kept whatever comes');
                await request.abort('connectionreset');
            },
        };
        for (const [kind, answer] of Object.entries(answers)) {
            const end = await intercept(tab, answer);
            await press(tab, '[value=publish]', 'it won’t be published twice');
            assert.equal(await text(tab, 'content'), 'Kept whatever comes', kind);
            assert.deepEqual(await drafts(tab), ['Kept whatever comes'], kind);
            assert.ok(await tab.$eval('#published', (result) => result.hidden), kind);
            await end();
            await tab.evaluate(() => { document.getElementById('status').textContent = ''; });
        }
        const sent = await tab.evaluate(() => JSON.parse(localStorage.getItem('handbill:draft:')).sent.edit_key);
        // The message has a button for it.
        const end = await intercept(tab, (request) => request.abort('connectionreset'));
        await press(tab, '[value=publish]', 'Try again');
        await end();
        await press(tab, '#status button');
        await shown(tab, 'published');
        assert.deepEqual([await keys(tab), await keyOf(tab)], [[sent], sent], 'the key was stored before it was sent');
    });

    // While a page is published, pressing again sends nothing, leaving warns, and nothing can be typed that would be lost.
    await inNewBrowser(browser, async (tab, { dialogs }) => {
        await openEditor(tab, base);
        await fill(tab, 'Slow', 'Sent');
        const [began, goOn] = [signal(), signal()];
        let requests = 0;
        const end = await intercept(tab, async (request) => {
            requests += 1;
            began.give();
            await goOn.given;
            await request.continue();
        });
        await tab.click('[value=publish]', { count: 2 });
        await began.given;
        await press(tab, '[value=publish]');
        await tab.focus('#content');
        await tab.keyboard.type(' and more');
        assert.equal(await text(tab, 'content'), 'Sent');
        // The question is what counts; the answer is to stay.
        tab.removeAllListeners('dialog');
        tab.on('dialog', (dialog) => {
            dialogs.push(dialog.type());
            dialog.dismiss();
        });
        await tab.evaluate(() => { location.href = '/help'; }).catch(() => {});
        while (dialogs.length === 0) await tab.evaluate(() => new Promise(requestAnimationFrame));
        assert.deepEqual(dialogs, ['beforeunload']);
        goOn.give();
        await shown(tab, 'published');
        await end();
        assert.equal(requests, 1);
        assert.equal((await read(base, new URL(await text(tab, 'address')).pathname.slice(1))).content, 'Sent');
        // The result, loaded again, is an empty editor that names the page.
        const slug = new URL(await text(tab, 'address')).pathname;
        await tab.reload();
        await said(tab, 'Published: Slow.');
        assert.deepEqual(await tab.$$eval('#status a', (links) => links.map((link) => link.getAttribute('href'))), [slug, `${slug}/edit`]);
        assert.deepEqual([await text(tab, 'title'), await text(tab, 'content')], ['', '']);
        assert.deepEqual(dialogs, ['beforeunload'], 'a key that is kept may be left');
        await openPages(tab, base);
        assert.equal((await tab.$$('#pages li')).length, 1);
        assert.deepEqual(await drafts(tab), []);
    });

    // A full storage: the key takes the place of the draft, and a key without a place warns.
    await inNewBrowser(browser, async (tab, { dialogs }) => {
        const fillStorage = () => tab.evaluate(() => {
            for (let size = 1 << 20; size >= 1; size >>= 4) {
                try {
                    for (let at = 0; ; at += 1) localStorage.setItem(`full:${size}:${at}`, 'x'.repeat(size));
                } catch {
                    // A smaller piece may still fit.
                }
            }
        });
        await openEditor(tab, base);
        await write(tab, 'title', 'Tight');
        await put(tab, 'content', `A draft that is longer than a key. ${'It goes on. '.repeat(40)}`);
        await stored(tab, 'longer than a key');
        await fillStorage();
        await press(tab, '[value=publish]');
        await shown(tab, 'published');
        assert.deepEqual(await keys(tab), [await keyOf(tab)]);
        await fillStorage();
        await press(tab, '#another');
        await fill(tab, 'Full', 'No room for it.');
        await press(tab, '[value=publish]');
        await shown(tab, 'not-kept');
        assert.equal((await keys(tab)).length, 1);
        dialogs.length = 0;
        await tab.goto(`${base}/help`);
        assert.deepEqual(dialogs, ['beforeunload']);
    });

    // An export that somebody has damaged brings in what it still has, and a single download is one too.
    await inNewBrowser(browser, async (tab) => {
        const [good, single, clash, linked] = await Promise.all(['Good', 'Single', 'Clash', 'Linked'].map((title) => publish(base, title, 'x')));
        await openPages(tab, base);
        const chooser = await tab.$('#import');
        writeFileSync('clash.txt', `${clash.address}\n${clash.key}\n`);
        await chooser.uploadFile('clash.txt');
        await said(tab, 'Added 1 page.');
        writeFileSync('damaged.jsonl', [
            JSON.stringify({ url: good.address, edit_key: good.key, title: { odd: 1 }, created_at: 5 }),
            JSON.stringify({ url: clash.address, edit_key: WRONG_KEY }),
            '{"url": "https://elsew',
            `${single.address}\r\nEdit key (shown this once): ${single.key}\r\nEdit link (secret): ${single.address}/edit#${single.key}\r`,
            `${linked.address}/edit#${linked.key}`,
        ].join('\n'));
        await chooser.uploadFile('damaged.jsonl');
        await said(tab, 'Added 3 pages: 1 already here with another key, which stays, 1 line wasn’t a key for this site.');
        assert.deepEqual((await keys(tab)).sort(), [good.key, single.key, clash.key, linked.key].sort());
        await tab.reload();
        await shown(tab, 'keys');
        assert.equal((await tab.$$('#pages li')).length, 4, 'odd entries do not hide the others');
        // What this browser exports is whole again, for another one.
        const exported = await fileOf(tab, 'export');
        const lines = exported.trim().split('\n').map((line) => JSON.parse(line));
        assert.deepEqual(Object.keys(lines[0]), ['url', 'edit_key', 'title', 'created_at'], 'the form of the key file');
        writeFileSync('keys.jsonl', `${exported}${JSON.stringify({ ...lines[0], url: 'https://elsewhere.example/hello-2222bbbb' })}\n`);
        await tab.evaluate(() => localStorage.clear());
        await openPages(tab, base);
        await (await tab.$('#import')).uploadFile('keys.jsonl');
        await said(tab, 'Added 4 pages: 1 line wasn’t a key for this site.');
        assert.equal((await tab.$$('#pages li')).length, 4);
        writeFileSync('no-keys.md', 'Only text.');
        await (await tab.$('#import')).uploadFile('no-keys.md');
        await said(tab, 'Added 0 pages');
        await press(tab, '#pages .delete');
        await press(tab, '#pages .sure .danger', 'was deleted');
        assert.equal((await tab.$$('#pages li')).length, 3);
    });

    // The edit page: a wrong kept key, a whole link in the field, a forgotten key, a refused clipboard.
    const page = await publish(base, 'To edit', 'As published.');
    await inNewBrowser(browser, async (tab, { dialogs }) => {
        await tab.goto(`${base}/help`);
        await tab.evaluate((slug, key) => localStorage.setItem(`handbill:key:${slug}`, JSON.stringify({ slug, edit_key: key })), page.slug, WRONG_KEY);
        await tab.goto(`${page.address}/edit`);
        await said(tab, 'isn’t the edit key');
        await write(tab, 'key', `${page.address}/edit#${page.key}.`);
        await tab.keyboard.press('Enter');
        await shown(tab, 'editor');
        await unfold(tab, 'keeping');
        await shown(tab, 'not-kept');
        await press(tab, '#keep-key');
        await shown(tab, 'kept');
        assert.deepEqual(await keys(tab), [page.key], 'the key that opened the page is kept, not the wrong one');
        await press(tab, '#forget-key');
        await shown(tab, 'not-kept');
        await tab.evaluate(() => Object.defineProperty(navigator, 'clipboard', { value: undefined }));
        await press(tab, '#copy-link', `copy it yourself: ${page.address}/edit#${page.key}`);
        dialogs.length = 0;
        await tab.goto(`${base}/help`);
        assert.deepEqual(dialogs, ['beforeunload'], 'nobody has the key');
    });

    // The edit page: a failed save, and a page that changed meanwhile.
    await inNewBrowser(browser, async (tab) => {
        const edit = `${page.address}/edit#${page.key}`;
        await tab.goto(edit);
        await shown(tab, 'editor');
        const end = await intercept(tab, (request) => request.respond({ status: 502, contentType: 'text/html', body: 'Bad gateway' }));
        await write(tab, 'content', 'My own text.');
        await press(tab, '#save', 'can’t answer right now (502). Your text is safe');
        await end();
        await tab.goto(`${base}/help`);
        await tab.goto(edit);
        await said(tab, 'Your unsaved changes are back');
        assert.equal(await text(tab, 'content'), 'My own text.');
        await change(base, page, 'PATCH', { content: 'Their text.' });
        await press(tab, '#save', 'Your text is still here');
        assert.equal(await text(tab, 'content'), 'My own text.');
        assert.equal((await read(base, page.slug)).content, 'Their text.');
        // Who comes back later is asked again, may look at the other text, and may take either.
        await tab.goto(`${base}/help`);
        await tab.goto(edit);
        await said(tab, 'Your text is still here');
        assert.equal(await text(tab, 'content'), 'My own text.');
        await press(tab, '#status button:nth-of-type(1)', 'This is the current page');
        assert.equal(await text(tab, 'content'), 'Their text.');
        await press(tab, '#status button', 'Your text is still here');
        assert.equal(await text(tab, 'content'), 'My own text.');
        await press(tab, '#save', 'Your text is still here');
        await press(tab, '#status button:nth-of-type(2)', 'Saved');
        assert.equal((await read(base, page.slug)).content, 'My own text.');
    });

    // Changes that nobody saved can be discarded for the published text, and come back once.
    await inNewBrowser(browser, async (tab) => {
        await openToEdit(tab, page);
        assert.ok(await tab.$eval('#discard', (button) => button.hidden), 'there is nothing to discard');
        await write(tab, 'content', 'Junk.');
        await stored(tab, 'Junk.');
        await tab.goto(`${base}/help`);
        await tab.goto(`${page.address}/edit#${page.key}`);
        await said(tab, 'Your unsaved changes are back');
        await press(tab, '#status button', 'This is the published text');
        assert.equal(await text(tab, 'content'), 'My own text.');
        assert.deepEqual(await drafts(tab), []);
        await press(tab, '#status button', 'Your unsaved changes are back');
        assert.equal(await text(tab, 'content'), 'Junk.');
        await press(tab, '#discard', 'This is the published text');
        assert.equal(await text(tab, 'content'), 'My own text.');
        await tab.reload();
        await shown(tab, 'editor');
        assert.equal(await text(tab, 'content'), 'My own text.');
    });

    // A page with no title keeps its place in the list of a browser that published it by its first heading.
    await inNewBrowser(browser, async (tab) => {
        const untitled = await publishByHand(tab, base, ' ', '# A heading with `code`\n\nText.');
        assert.deepEqual(await keys(tab), [untitled.key]);
        // The title is asked for once the key is kept.
        await stored(tab, '"title":"A heading with code"');
        await openPages(tab, base);
        assert.equal(await tab.$eval('#pages .title', (link) => link.textContent), 'A heading with code');
    });
});
