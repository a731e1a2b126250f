// Loads a page, reloads it and opens it in a new tab. It must look the same each time, with Handbill's font and icon and with its
// images.
//
//   node visits.mjs chromium|firefox <base URL> <certificate> <key>     for a server of images over https

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:https';
import { expectNothing, keepScreenshot, openTab, publish, withBrowser } from './browsers.mjs';

const [name, base, cert, key] = process.argv.slice(2);

// The smallest image that has a size: one red pixel.
const PIXEL = Buffer.from(
    'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==', 'base64');

const images = createServer({ cert: readFileSync(cert), key: readFileSync(key) }, (_, response) => {
    response.writeHead(200, { 'content-type': 'image/png', 'cache-control': 'no-store' }).end(PIXEL);
});
images.listen(0, '127.0.0.1');
await once(images, 'listening');

const page = await publish(base, 'Visited twice', [
    'A page with a picture and [a link elsewhere](https://elsewhere.example/).',
    `![a pixel](https://127.0.0.1:${images.address().port}/pixel.png)`,
    '    a block of code',
].join('\n\n'));

/** The parts of a page that a reader would notice. */
async function look(tab) {
    await tab.waitForFunction(() => [...document.images].every((image) => image.complete));
    return tab.evaluate(async () => {
        const style = (selector) => getComputedStyle(document.querySelector(selector));
        // The browser loads the icon under the page's policy for images.
        const icon = new Image();
        icon.src = document.querySelector('link[rel=icon]').href;
        await icon.decode().catch(() => {});
        return {
            font: style('body').fontFamily.split(',')[0],
            heading: style('h1').fontSize,
            ink: style('body').color,
            code: style('pre').overflowX,
            images: [...document.images].map((image) => image.naturalWidth),
            icon: icon.naturalWidth > 0,
        };
    });
}

await withBrowser(name, async (browser) => {
    const { tab, complaints } = await openTab(browser);
    const loaded = await tab.goto(page.address);
    assert.equal(loaded.status(), 200);
    const first = await look(tab);
    assert.deepEqual([first.font, first.images, first.icon, first.code], ['Charter', [1], true, 'auto'], 'first visit');
    await keepScreenshot(tab, `${name}-visit-1`);
    expectNothing(await complaints(), 'first visit');

    // This time the answer has no body: the browser shows its cached page with the headers of the 304.
    const answers = [];
    tab.on('response', (response) => response.url() === page.address && answers.push(response.status()));
    await tab.reload();
    assert.deepEqual(await look(tab), first, 'reload');
    await keepScreenshot(tab, `${name}-visit-2`);
    expectNothing(await complaints(), 'reload');
    assert.deepEqual(answers, [304], 'the page was requested again and had not changed');

    const other = await openTab(browser);
    await other.tab.goto(page.address);
    assert.deepEqual(await look(other.tab), first, 'new tab');
    expectNothing(await other.complaints(), 'new tab');

    // Once more in the first tab, which has cached the headers of every answer.
    await tab.bringToFront();
    await tab.goto(`${base}/`);
    await tab.goto(page.address);
    assert.deepEqual(await look(tab), first, 'return');
    expectNothing(await complaints(), 'return');
});
images.close();
