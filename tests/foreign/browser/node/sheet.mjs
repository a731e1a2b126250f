// Writing on the sheet with the keyboard: shortcuts, links, lists, line breaks, the preview beside the text.

import assert from 'node:assert/strict';
import { base, expectNothing, keepScreenshot, name, withBrowser } from './browsers.mjs';
import { chord, fill, follow, openEditor, openWatchedTab, press, put, read, said, shown, text, write } from './editing.mjs';

const value = (tab) => text(tab, 'content');

/** Fails if a button covers the name or a link of the bar. */
async function expectBar(tab, width) {
    const covered = await tab.evaluate(() => {
        const first = Math.min(...[...document.querySelectorAll('.actions > *')].filter((button) => button.checkVisibility()).map((button) => button.getBoundingClientRect().left));
        return [...document.querySelectorAll('.bar a')].filter((link) => link.checkVisibility() && link.getBoundingClientRect().right > first)
            .map((link) => link.textContent);
    });
    expectNothing(covered, `covered at ${width}`);
}

const select = (tab, words) => tab.$eval('#content', (field, words) => {
    const at = field.value.indexOf(words);
    field.focus();
    field.setSelectionRange(at, at + words.length);
}, words);

/** Pastes as the clipboard does: the page may take the text, else the browser types it. */
const paste = (tab, words) => tab.$eval('#content', (field, words) => {
    const data = new DataTransfer();
    data.setData('text/plain', words);
    // Firefox takes a text in words of its own.
    const event = new ClipboardEvent('paste', { bubbles: true, cancelable: true, clipboardData: data, dataType: 'text/plain', data: words });
    if (field.dispatchEvent(event)) document.execCommand('insertText', false, words);
}, words);

await withBrowser(name, async (browser) => {
    const { tab, complaints } = await openWatchedTab(browser);
    await tab.setViewport({ width: 1280, height: 800 });
    await openEditor(tab, base);
    assert.equal(await tab.evaluate(() => document.activeElement.id), 'title', 'the sheet has the focus');

    // A long title wraps, without a line break of its own.
    await tab.keyboard.type('A title that is long enough to need two lines on any screen');
    assert.ok(await tab.$eval('#title', (field) => field.getBoundingClientRect().height > 1.8 * parseFloat(getComputedStyle(field).lineHeight)));
    await tab.keyboard.press('Enter');
    assert.equal(await tab.evaluate(() => document.activeElement.id), 'content', 'Enter goes on to the text');
    assert.ok(!(await text(tab, 'title')).includes('\n'));

    // Bold, italic and links. Each can be undone.
    await tab.keyboard.type('one two three');
    await select(tab, 'two');
    await chord(tab, 'b');
    assert.equal(await value(tab), 'one **two** three');
    await chord(tab, 'b');
    assert.equal(await value(tab), 'one two three');
    await chord(tab, 'i');
    await chord(tab, 'b');
    assert.equal(await value(tab), 'one ***two*** three');
    await chord(tab, 'i');
    assert.equal(await value(tab), 'one **two** three');
    await write(tab, 'content', 'see here');
    await select(tab, 'here');
    await chord(tab, 'k');
    await tab.keyboard.type('https://a.example/');
    assert.equal(await value(tab), 'see [here](https://a.example/)', 'the address is selected');
    await write(tab, 'content', 'see here');
    await select(tab, 'here');
    await paste(tab, 'https://a.example/b_(c)');
    assert.equal(await value(tab), 'see [here](https://a.example/b_%28c%29)');
    await chord(tab, 'z');
    assert.equal(await value(tab), 'see here', 'it can be undone');
    for (const [before, pasted, after] of [['see ', 'https://a.example/', 'see https://a.example/'], ['[x](', 'https://a.example/c.png', '[x](https://a.example/c.png']]) {
        await write(tab, 'content', before);
        await paste(tab, pasted);
        assert.equal(await value(tab), after);
    }

    // Enter goes on with a list, and ends it in an empty item: behind an empty line, since the next line would be a part of the item.
    for (const [typed, expected] of [
        [['- milk', 'bread', '', 'after'], '- milk\n- bread\n\nafter'],
        [['  9. nine', 'ten'], '  9. nine\n  10. ten'],
        [['* [x] done', 'to do'], '* [x] done\n* [ ] to do'],
        [['--- ', 'text'], '--- \ntext'],
        [['text - text', 'text'], 'text - text\ntext'],
        // A person may type the marker that is there already, or another one.
        [['1) milk', '2) bread', '- jam'], '1) milk\n2) bread\n- jam'],
        // An indented marker begins a list in the item, and blanks go on with it.
        [['- one', '  - nested', 'again'], '- one\n  - nested\n  - again'],
        [['1. one', '   more text'], '1. one\n   more text'],
        [['- one', ' two'], '- one\n-  two'],
        // Code is nobody's list.
        [['```', '- one', 'two', '```', '- three', 'four'], '```\n- one\ntwo\n```\n- three\n- four'],
        [['- milk', '- bread', '* * *'], '- milk\n- bread\n* * *'],
    ]) {
        await write(tab, 'content', ' ');
        await tab.keyboard.press('Backspace');
        for (const [at, line] of typed.entries()) {
            if (at > 0) await tab.keyboard.press('Enter');
            await tab.keyboard.type(line);
        }
        assert.equal(await value(tab), expected, typed[0]);
    }
    // One Undo takes a corrected marker back.
    await write(tab, 'content', '1) milk');
    await tab.keyboard.press('Enter');
    await tab.keyboard.type('2) ');
    assert.equal(await value(tab), '1) milk\n2) ');
    await chord(tab, 'z');
    assert.equal(await value(tab), '1) milk');
    // Shift+Enter breaks a line.
    await write(tab, 'content', 'First line');
    await tab.keyboard.down('Shift');
    await tab.keyboard.press('Enter');
    await tab.keyboard.up('Shift');
    await tab.keyboard.type('second line');
    assert.equal(await value(tab), 'First line  \nsecond line');

    // A whole text keeps its lines at one press, and its lists, code and tables stay as they are.
    assert.ok(await tab.$eval('#joined', (offer) => offer.hidden), 'no line would be joined');
    const alone = '- milk\n- bread\n\n```\nlet x\nlet y\n```\n\na|b\n-|-\nc|d\n\n# Heading\n\n';
    await write(tab, 'content', `${alone}250 g flour\n500 ml milk\n**3** eggs\n`);
    await press(tab, '#breaks');
    assert.equal(await value(tab), `${alone}250 g flour  \n500 ml milk  \n**3** eggs\n`);
    assert.ok(await tab.$eval('#joined', (offer) => offer.hidden));
    // 100 KB of short lines too, before a person would notice. Front matter has its own lines.
    const long = `---\ntitle: T\ntags:\n  - a\n---\n${'Forty letters and blanks are in this line\n'.repeat(2_400)}`;
    await put(tab, 'content', long);
    const time = await tab.evaluate(() => {
        const start = performance.now();
        document.getElementById('breaks').click();
        return performance.now() - start;
    });
    assert.ok(time < 200, `${time} ms`);
    assert.equal(await value(tab), long.replaceAll('line\nF', 'line  \nF'));

    // On a phone the offer is above the preview, and Publish asks a person who has not looked. Long lines may be a file's.
    await tab.setViewport({ width: 390, height: 664 });
    await write(tab, 'content', 'Roses are red\nViolets are blue\n');
    await press(tab, '[value=preview]');
    await shown(tab, 'breaks');
    await press(tab, '#breaks');
    assert.equal(await value(tab), 'Roses are red  \nViolets are blue\n');
    await tab.waitForFunction(() => document.querySelector('#preview-article br'));
    await press(tab, '[value=preview]');
    await write(tab, 'content', 'Roses are red\nViolets are blue\n');
    await press(tab, '[value=publish]', 'will run together');
    assert.equal(await tab.evaluate(() => document.activeElement.textContent), 'Publish with line breaks');
    // A second press is no answer.
    await press(tab, '[value=publish]');
    await tab.click('[value=publish]', { count: 2 });
    await said(tab, 'will run together');
    assert.ok(await tab.$eval('#published', (receipt) => receipt.hidden));
    await keepScreenshot(tab, `${name}-sheet-breaks`);
    await tab.setViewport({ width: 1280, height: 800 });

    // Ctrl+S saves the draft at once.
    await write(tab, 'content', 'A draft to save');
    await chord(tab, 's');
    await said(tab, 'Draft saved');
    assert.ok(await tab.evaluate(() => localStorage.getItem('handbill:draft:').includes('A draft to save')));
    assert.equal(await text(tab, 'count'), '4 words · Draft saved');

    // The preview beside the text follows.
    await shown(tab, 'preview');
    const previewed = (words) => tab.waitForFunction(
        (words) => document.getElementById('preview-article').textContent.includes(words), {}, words);
    await write(tab, 'content', `${'A paragraph.\n\n'.repeat(80)}The end.`);
    await previewed('The end.');
    // The preview shows the part that is written.
    await tab.evaluate(() => scrollTo(0, document.documentElement.scrollHeight));
    await tab.waitForFunction(() => {
        const { scrollTop, scrollHeight, clientHeight } = document.getElementById('preview');
        return scrollTop > 700 && scrollHeight - clientHeight - scrollTop < 2;
    });
    // Who writes at the end sees the end: the foot of the page is below it.
    await tab.evaluate(() => scrollTo(0, 0));
    await tab.waitForFunction(() => document.getElementById('preview').scrollTop === 0);
    await tab.evaluate(() => scrollTo(0, document.getElementById('content').getBoundingClientRect().bottom + scrollY - innerHeight));
    await tab.waitForFunction(() => {
        const { scrollTop, scrollHeight, clientHeight } = document.getElementById('preview');
        return scrollHeight - clientHeight - scrollTop < 2;
    });
    await keepScreenshot(tab, `${name}-sheet-beside`);
    assert.ok(await tab.$eval('#content', (field) => field.clientHeight >= field.scrollHeight - 1), 'the sheet grows with its text');

    // Publish is in view wherever the text is, and at any height.
    for (const [width, height] of [[1280, 400], [390, 664], [320, 400]]) {
        await tab.setViewport({ width, height });
        await tab.evaluate(() => scrollTo(0, document.documentElement.scrollHeight / 2));
        const box = await tab.$eval('[value=publish]', (button) => button.getBoundingClientRect().toJSON());
        assert.ok(box.top >= 0 && box.bottom <= height && box.left >= 0 && box.right <= width, `${width}: ${JSON.stringify(box)}`);
        await expectBar(tab, width);
        if (width < 1280) {
            await press(tab, '[value=preview]');
            await expectBar(tab, width);
            await press(tab, '[value=preview]');
        }
    }

    // A discarded draft comes back, and the focus does not go with the button.
    await tab.setViewport({ width: 1280, height: 800 });
    await write(tab, 'content', 'The second');
    await press(tab, '#discard');
    assert.equal(await value(tab), '');
    await press(tab, '#status button');
    assert.equal(await value(tab), 'The second');
    assert.equal(await tab.evaluate(() => document.activeElement.id), 'content');

    // Short lines stay lines if the writer says so, and run together if not. The question comes once for a text.
    for (const [choice, kept] of [[1, 'Roses are red  \nViolets are blue\n\n- the end\n'], [2, 'Roses are red\nViolets are blue\n\n- the end\n']]) {
        await openEditor(tab, base);
        await fill(tab, 'A poem', 'Roses are red\nViolets are blue\n\n- the end');
        // The item that Enter begins is not published if it stays empty.
        await tab.keyboard.press('Enter');
        await press(tab, '[value=publish]', 'will run together');
        if (choice === 1) await chord(tab, 'Enter');
        else await press(tab, `#status button:nth-of-type(${choice})`);
        await shown(tab, 'published');
        const poem = new URL(await text(tab, 'address')).pathname.slice(1);
        assert.equal((await read(base, poem)).content, kept);
    }
    // A page whose lines run together is changed without the question, and a text with long lines is sent.
    await follow(tab, '#edit-page');
    await shown(tab, 'editor');
    await write(tab, 'content', 'Roses are red\nViolets are violet');
    await press(tab, '#save', 'Saved');
    // An item that Enter has begun is no change.
    await write(tab, 'content', '- the end');
    await tab.keyboard.press('Enter');
    await press(tab, '#save', 'Saved');
    await tab.$eval('#content', (field) => field.setSelectionRange(9, 9));
    await tab.focus('#content');
    await tab.keyboard.press('Delete');
    await tab.keyboard.press('Enter');
    await press(tab, '#save', 'You haven’t changed anything yet');
    await openEditor(tab, base);
    await fill(tab, 'Wrapped', `${'wrapped '.repeat(7)}\nand it goes on`);
    await press(tab, '[value=publish]');
    await shown(tab, 'published');

    // An empty sheet is not sent, and says so beside the field.
    await openEditor(tab, base);
    assert.equal(await text(tab, 'count'), '', 'nothing is counted where nothing is');
    await press(tab, '[value=publish]', 'Write some text first');
    assert.equal(await tab.evaluate(() => document.activeElement.id), 'content');
    // The reason stands right above the text, in view even if the text is long.
    const above = await tab.evaluate(() => {
        const [problem, field] = ['content-problem', 'content'].map((id) => document.getElementById(id).getBoundingClientRect());
        return [field.top - problem.bottom, problem.top];
    });
    assert.ok(above[0] >= 0 && above[0] < 20 && above[1] > 50, above.join());
    await put(tab, 'content', 'A line of text.\n'.repeat(7_000));
    await tab.evaluate(() => scrollTo(0, 1e6));
    await press(tab, '[value=publish]', 'Text too long');
    const seen = await tab.$eval('#content-problem', (problem) => problem.getBoundingClientRect().toJSON());
    assert.ok(seen.top > 50 && seen.bottom < 800, JSON.stringify(seen));
    // The preview asks for the pictures above, which are nowhere, if it is made between two keys. A failure of ours names its address.
    const ofPictures = ['https://a.example/', 'error: Failed to load resource: net::'];
    const ours = (await complaints()).filter((line) => !ofPictures.some((start) => line.startsWith(start)));
    expectNothing(ours, name);
});
