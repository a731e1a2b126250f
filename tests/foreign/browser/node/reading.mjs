// Checks the layout of reading pages: wide code, long titles, Korean text, and print.

import assert from 'node:assert/strict';
import { base, keepScreenshot, name, openTab, publish, withBrowser } from './browsers.mjs';
import { everyPage } from './pages.mjs';

/** For each block of code: whether it scrolls, and where it begins and ends. */
const blocks = (tab) => tab.evaluate(() => [...document.querySelectorAll('pre')].map((pre) => {
    const { left, right } = pre.getBoundingClientRect();
    return { left, right, scrolls: pre.scrollWidth > pre.clientWidth };
}));

const styleOf = (tab, selector, property) => tab.evaluate(
    (selector, property) => getComputedStyle(document.querySelector(selector))[property], selector, property);

const titleSize = async (tab, address) => {
    await tab.goto(address);
    return parseFloat(await styleOf(tab, 'h1', 'fontSize'));
};

const pages = await everyPage(base);
await withBrowser(name, async (browser) => {
    const { tab } = await openTab(browser);

    // The second block is in a list, the third is in a quote and has 300 columns, more than any screen. The screen has half as many.
    await tab.goto(pages.columns);
    await tab.setViewport({ width: await tab.$$eval('pre', ([, , wide]) => Math.ceil(wide.scrollWidth / 2)), height: 900 });
    await keepScreenshot(tab, `${name}-columns`);
    const [whole, inList, wide] = await blocks(tab);
    assert.deepEqual([whole.scrolls, inList.scrolls, wide.scrolls], [false, false, true], '88 columns on a screen of 150');
    const text = await tab.evaluate(() => document.querySelector('.dates').getBoundingClientRect().toJSON());
    const sides = [text.left - whole.left, whole.right - text.right];
    assert.ok(sides[0] > 20 && Math.abs(sides[0] - sides[1]) < 2, `code grows on both sides of the text: ${sides}`);

    for (const page of ['columns', 'wide', 'hebrew']) {
        await tab.goto(pages[page]);
        for (const width of [320, 600, 800, 1024, 1280, 1920, 3840]) {
            await tab.setViewport({ width, height: 900 });
            const seen = await tab.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth, innerWidth]);
            assert.equal(seen[2], width, page);
            assert.ok(seen[0] <= seen[1], `${page} scrolls sideways at ${width}: ${seen}`);
            for (const { left, right } of await blocks(tab)) {
                assert.ok(left >= 0 && right <= seen[1], `code of ${page} is cut off at ${width}: ${left} to ${right}`);
            }
        }
    }

    // A quote in a quote is no paler.
    await tab.goto(pages.wide);
    assert.equal(await styleOf(tab, 'blockquote blockquote p', 'color'), await styleOf(tab, 'blockquote p', 'color'));

    // A link within the page leads to its heading, and to the top by the name of the heading that repeats the title.
    const linked = await publish(base, 'Long', `# Long\n\n[down](#the-last-one) \n\n${'A line.\n\n'.repeat(200)}## The *last* one\n\n[up](#long)`);
    await tab.goto(linked.address);
    const scroll = (words) => tab.evaluate((words) => [...document.querySelectorAll('article a')].find(({ textContent }) => textContent === words).click(), words);
    await scroll('down');
    await tab.waitForFunction(() => scrollY > 1000 && document.querySelector('h2').getBoundingClientRect().top < innerHeight);
    await scroll('up');
    await tab.waitForFunction(() => scrollY === 0);

    for (const width of [360, 1280]) {
        await tab.setViewport({ width, height: 740 });
        const usual = await titleSize(tab, pages.short);
        const long = await titleSize(tab, pages.long);
        assert.ok(long < 0.85 * usual, `a long title is smaller at ${width}: ${long} of ${usual}`);
        assert.ok(long >= 20, `a long title is still a title: ${long}`);
        await keepScreenshot(tab, `${name}-long-${width}`);
    }

    await tab.goto(pages.korean);
    await keepScreenshot(tab, `${name}-korean`);
    assert.equal(await styleOf(tab, 'article p', 'wordBreak'), 'keep-all');
    assert.equal(await styleOf(tab, 'h4', 'fontStyle'), 'normal');
    await tab.goto(pages.short);
    assert.equal(await styleOf(tab, 'article p', 'wordBreak'), 'normal');

    // Puppeteer cannot switch Firefox to print.
    if (name === 'chromium') {
        await tab.goto(pages.wide);
        for (const part of ['.address', '.links']) assert.equal(await styleOf(tab, part, 'display'), 'none');
        await tab.emulateMediaType('print');
        await keepScreenshot(tab, `${name}-print`);
        assert.equal(await tab.evaluate(() => document.querySelector('.address').innerText), pages.wide);
        const listed = () => tab.evaluate(() => document.querySelector('.links')?.innerText.split('\n').filter((line) => /\//.test(line)));
        assert.deepEqual(await listed(), ['a link https://elsewhere.example/', `items ${base}/`], 'a bare address is not repeated');
        assert.equal(await tab.evaluate(() => getComputedStyle(document.querySelector('article a'), '::after').content), 'none');
        for (const { scrolls } of await blocks(tab)) assert.ok(!scrolls, 'code is printed whole');

        // A4 without its margins is 170 mm wide.
        await tab.setViewport({ width: Math.floor(170 / 25.4 * 96), height: 900 });
        await tab.goto(pages.columns);
        const height = await tab.evaluate(() => {
            const pre = document.querySelector('pre');
            const { lineHeight, paddingBlock } = getComputedStyle(pre);
            return (pre.clientHeight - 2 * parseFloat(paddingBlock)) / parseFloat(lineHeight);
        });
        assert.equal(Math.round(height), 2, '88 columns fit on paper: two lines of code are two lines');
    }
});
