// Checks every page with axe-core, on a phone and a desktop, in light and, in Chromium, also in dark colours.

import { look } from './axe.mjs';
import { base, expectNothing, name, openTab, withBrowser } from './browsers.mjs';
import { everyPage } from './pages.mjs';

const pages = await everyPage(base);
await withBrowser(name, async (browser) => {
    const { tab, complaints } = await openTab(browser);
    for (const [page, address] of Object.entries(pages)) {
        await tab.goto(address);
        await look(tab, name, page);
    }
    // The browser logs every 404 and 410.
    expectNothing((await complaints()).filter((complaint) => !/status of 4(04|10)/.test(complaint)), name);
});
