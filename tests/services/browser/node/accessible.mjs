// Checks every page with axe-core, on a phone and a desktop, in light and, in Chromium, also in dark colours.
//
//   node accessible.mjs chromium|firefox <base URL>

import { violations } from './axe.mjs';
import { expectNothing, keepScreenshot, openTab, withBrowser } from './browsers.mjs';
import { everyPage } from './pages.mjs';

const [name, base] = process.argv.slice(2);

const SIZES = { phone: { width: 360, height: 740 }, desktop: { width: 1440, height: 900 } };

async function check(browser, scheme, pages) {
    const { tab, complaints } = await openTab(browser);
    if (name === 'chromium') await tab.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }]);
    for (const [page, address] of Object.entries(pages)) {
        for (const [size, viewport] of Object.entries(SIZES)) {
            await tab.setViewport(viewport);
            await tab.goto(address);
            const where = `${name}-${page}-${size}-${scheme}`;
            const seen = await tab.evaluate(() => ({
                scheme: matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light',
                scrolls: document.documentElement.scrollWidth > document.documentElement.clientWidth,
            }));
            expectNothing(seen.scheme === scheme ? [] : [seen], where);
            expectNothing(seen.scrolls ? ['the page scrolls sideways'] : [], where);
            await keepScreenshot(tab, where);
            expectNothing(await violations(tab), where);
        }
    }
    // The browser logs every 404 and 410.
    expectNothing((await complaints()).filter((complaint) => !/status of 4(04|10)/.test(complaint)), name);
}

const pages = await everyPage(base);
await withBrowser(name, async (browser) => {
    // Firefox would need another start for dark mode. Only colours differ there, and Chromium has checked those.
    for (const scheme of name === 'chromium' ? ['light', 'dark'] : ['light']) await check(browser, scheme, pages);
});
