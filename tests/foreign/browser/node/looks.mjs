// How the editor looks: the preview as the page, buttons in forced colours, and a receipt in print.

import assert from 'node:assert/strict';
import { violations } from './axe.mjs';
import { base, expectNothing, keepScreenshot, name, openTab, publish, withBrowser } from './browsers.mjs';
import { fill, openEditor, openToEdit, press, shown } from './editing.mjs';

const TITLE = 'Every element';
// Every element of the subset.
const MARKDOWN = [
    'A paragraph with **bold**, *italic*, ~~struck~~, `code`, [a link](/x) and ![a picture](https://127.0.0.1:1/x.png).',
    '# Two\n\n### Three\n\n##### Four',
    '- a list\n- of items\n\n1. one\n2. two',
    '> A quote.\n>\n> > In a quote.',
    '    code',
    '---',
    'The end.',
].join('\n\n');

// These depend on the width, which differs beside the text.
const OF_WIDTH = /^(-webkit-)?(width|height|inline-size|block-size|perspective-origin|transform-origin|(margin|padding|max|min|inset)-.*|margin|padding|left|right)$|^--/;

/** The computed style of each element of the article and of the title, without what depends on the width. */
const styles = (tab, title, article) => tab.evaluate((title, article, ofWidth) => {
    const skipped = new RegExp(ofWidth);
    const all = [document.querySelector(title), ...document.querySelectorAll(`${article} *`)];
    return all.map((element) => {
        const style = getComputedStyle(element);
        const own = [...style].filter((property) => !skipped.test(property)).map((property) => `${property}: ${style.getPropertyValue(property)}`);
        return { element: element.localName, own };
    });
}, title, article, OF_WIDTH.source);

await withBrowser(name, async (browser) => {
    const { tab } = await openTab(browser);
    const page = await publish(base, TITLE, MARKDOWN);
    for (const width of [1280, 390]) {
        await tab.setViewport({ width, height: 800 });
        await tab.goto(page.address);
        const there = await styles(tab, 'h1', 'article');
        await openEditor(tab, base);
        await fill(tab, TITLE, MARKDOWN);
        if (width < 1100) await press(tab, '[value=preview]');
        await tab.waitForFunction(() => document.querySelectorAll('#preview-article *').length > 20);
        const here = await styles(tab, '#preview-title', '#preview-article');
        assert.equal(there.length, here.length);
        const elements = new Set(there.map(({ element }) => element));
        for (const element of ['h1', 'h2', 'h3', 'h4', 'p', 'ul', 'ol', 'li', 'blockquote', 'pre', 'code', 'em', 'strong', 'del', 'a', 'img', 'hr']) {
            assert.ok(elements.has(element), element);
        }
        const differing = there.flatMap(({ element, own }, at) => own.filter((line, of) => line !== here[at].own[of])
            .map((line) => `${element}: ${line} on the page`));
        expectNothing(differing, `the preview at ${width}`);
    }

    // On a wide screen the sheet is in its place from the start: nothing moves when the script opens the preview beside it.
    await tab.setViewport({ width: 1280, height: 800 });
    await tab.evaluateOnNewDocument(() => {
        window.shifts = 0;
        new PerformanceObserver((list) => { for (const { value } of list.getEntries()) window.shifts += value; })
            .observe({ type: 'layout-shift', buffered: true });
    });
    await tab.goto(`${base}/help`);
    await tab.evaluate(() => localStorage.clear());
    await openEditor(tab, base);
    await shown(tab, 'preview');
    const shifts = await tab.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(window.shifts)))));
    assert.ok(shifts < 0.01, `the layout shifts by ${shifts}`);
    // In forced colours, the one main button and dangerous ones differ from the others by more than their colour.
    const session = await tab.createCDPSession();
    await session.send('Emulation.setEmulatedMedia', { features: [{ name: 'forced-colors', value: 'active' }] });
    const button = (selector) => tab.$eval(selector, (button) => {
        const { borderTopWidth, fontWeight } = getComputedStyle(button);
        return [borderTopWidth, fontWeight];
    });
    for (const width of [1280, 390, 320]) {
        await tab.setViewport({ width, height: 800 });
        await openEditor(tab, base);
        const room = await tab.evaluate(() => document.querySelector('.actions').getBoundingClientRect().left
            - document.querySelector('.name').getBoundingClientRect().right);
        assert.ok(room > 3, `the name has its room at ${width}: ${room}`);
        assert.deepEqual(await button('[value=publish]'), ['3px', '700'], `Publish at ${width}`);
        assert.deepEqual(await button('#pick'), ['1px', '500'], `another at ${width}`);
        await keepScreenshot(tab, `${name}-looks-forced-${width}`);
        await openToEdit(tab, page);
        assert.deepEqual(await button('#is-sure'), ['3px', '700'], `Delete at ${width}`);
        await keepScreenshot(tab, `${name}-looks-forced-edit-${width}`);
        // The colours are the reader's own.
        expectNothing((await violations(tab)).filter(({ id }) => id !== 'color-contrast'), `forced colours at ${width}`);
    }

    // A printed receipt has no buttons.
    await session.send('Emulation.setEmulatedMedia', { media: '', features: [] });
    await openEditor(tab, base);
    await fill(tab, TITLE, 'Text.');
    await press(tab, '[value=publish]');
    await shown(tab, 'published');
    await session.send('Emulation.setEmulatedMedia', { media: 'print', features: [] });
    await keepScreenshot(tab, `${name}-looks-print-receipt`);
    expectNothing(await tab.$$eval('button, .button', (parts) => parts.filter((part) => part.getClientRects().length).map((part) => part.id)), 'printed');
    await session.send('Emulation.setEmulatedMedia', { media: '', features: [] });

    // The main button shows that the mouse is on it.
    await tab.setViewport({ width: 1280, height: 800 });
    await openEditor(tab, base);
    const background = () => tab.$eval('[value=publish]', (button) => getComputedStyle(button).backgroundColor);
    const before = await background();
    await tab.hover('[value=publish]');
    assert.notEqual(await background(), before);
});
