// A letter with hundreds of marks above and below it paints nothing outside its block of text, and a tall letter is not cut off.

import assert from 'node:assert/strict';
import { base, keepScreenshot, name, openTab, publish, withBrowser } from './browsers.mjs';

// An acute accent is drawn above the letter and each further one above the last.
const tower = (height) => `o${'\u0301'.repeat(height)}`;

// The sign of millions is drawn around the letter and needs space beside it, but no line may break there.
const beam = (length) => `o${'\u0489'.repeat(length)}`;

// Marks of real languages.
const LETTERS = 'l ÅẾỘŐǗÇĢ gjpqyŲ ỵợ|{} ﷺ Ѣѣ Ё ў';

const page = await publish(base, `A title ${tower(50)} ${LETTERS} ${beam(80)}`, [
    'The first paragraph.',
    LETTERS,
    `Sideways ${beam(500)}`,
    `A paragraph with ${tower(200)} in it. ${LETTERS}`,
    `## A heading with ${tower(200)} ${LETTERS}`,
    `- a list\n- with ${tower(200)} ${LETTERS}\n- in it`,
    `> ${tower(200)}`,
    `    code with ${tower(200)}`,
    'The last paragraph.',
].join('\n\n'));

// Each block has stacked marks, and no block contains another.
const BLOCKS = ['h1', 'article > p:nth-of-type(3)', 'article > p:nth-of-type(4)', 'h2', 'li:nth-child(2)', 'blockquote p', 'pre'];

await withBrowser(name, async (browser) => {
    const { tab } = await openTab(browser);
    await tab.setViewport({ width: 600, height: 1100 });
    await tab.goto(page.address);
    await keepScreenshot(tab, `${name}-marks`);
    const { width, sideways, height } = await tab.evaluate(() => {
        const { clientWidth, scrollWidth, scrollHeight } = document.documentElement;
        return { width: clientWidth, sideways: scrollWidth - clientWidth, height: scrollHeight };
    });
    assert.equal(sideways, 0, 'the page scrolls sideways');

    // The space above the first block, between the blocks, and below the last.
    const boxes = await tab.evaluate((blocks) => blocks.map((block) => {
        const { top, bottom } = document.querySelector(block).getBoundingClientRect();
        return { top: Math.floor(top + scrollY), bottom: Math.ceil(bottom + scrollY) };
    }), BLOCKS);
    const tops = [0, ...boxes.map((box) => box.bottom)];
    const bottoms = [...boxes.map((box) => box.top), height];
    const look = async () => {
        const pictures = [];
        for (const [at, y] of tops.entries()) {
            const clip = { x: 0, y, width, height: bottoms[at] - y };
            pictures.push(clip.height > 0 ? await tab.screenshot({ clip, encoding: 'base64' }) : '');
        }
        return { whole: await tab.screenshot({ encoding: 'base64' }), pictures };
    };
    const shown = await look();
    await tab.evaluate((blocks) => blocks.forEach((block) => {
        document.querySelector(block).style.visibility = 'hidden';
    }), BLOCKS);
    const hidden = await look();
    assert.ok(shown.whole !== hidden.whole, 'the blocks paint something');
    for (const [at, picture] of shown.pictures.entries()) {
        const where = `after ${BLOCKS[at - 1] ?? 'the beginning'} and before ${BLOCKS[at] ?? 'the end'}`;
        assert.ok(picture === hidden.pictures[at], `marks paint ${where}`);
    }

    // And the reverse: a letter as tall as those of any font is not cut off. Fonts differ from machine to machine, so it is a box.
    const plain = await publish(
        base, LETTERS, ['', '## ', '### ', '#### ', '- ', '> '].map((marker) => marker + LETTERS).join('\n\n'));
    await tab.goto(plain.address);
    await keepScreenshot(tab, `${name}-letters`);
    await tab.evaluate(() => {
        for (const block of document.querySelectorAll('h1, h2, h3, h4, article p, li')) {
            block.style.webkitTextFillColor = 'transparent';
            const letter = document.createElement('span');
            // It reaches from 0.5em below the base line to 1.25em above it, and takes no height in its line.
            Object.assign(letter.style, {
                display: 'inline-block', inlineSize: '0.5em', blockSize: '1.75em', marginBlock: '-1.25em -0.5em', background: 'currentColor',
            });
            block.append(letter);
        }
    });
    await keepScreenshot(tab, `${name}-tall-letters`);
    const cut = await tab.screenshot({ encoding: 'base64' });
    await tab.evaluate(() => document.querySelectorAll('main *').forEach((element) => { element.style.overflow = 'visible'; }));
    assert.ok(await tab.screenshot({ encoding: 'base64' }) === cut, 'letters are cut off');
});
