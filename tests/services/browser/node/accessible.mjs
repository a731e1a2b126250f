// Checks every page with axe-core, on a phone and a desktop, in light and, in Chromium, also in dark colours.
//
//   node accessible.mjs chromium|firefox <base URL>

import { OF_COLOURS, OF_SIZES, violations } from './axe.mjs';
import { expectNothing, keepScreenshot, openTab, withBrowser } from './browsers.mjs';
import { everyPage } from './pages.mjs';

const [name, base] = process.argv.slice(2);

const PHONE = { width: 360, height: 740 };
const DESKTOP = { width: 1440, height: 900 };

// Firefox would need another start for dark mode. Only colours differ there, and Chromium has checked those.
const LOOKS = [
    { look: 'phone-light', viewport: PHONE, scheme: 'light', rules: null },
    { look: 'desktop-light', viewport: DESKTOP, scheme: 'light', rules: OF_SIZES },
    ...name === 'chromium' ? [
        { look: 'desktop-dark', viewport: DESKTOP, scheme: 'dark', rules: OF_COLOURS },
        { look: 'phone-dark', viewport: PHONE, scheme: 'dark', rules: OF_COLOURS },
    ] : [],
];

const pages = await everyPage(base);
await withBrowser(name, async (browser) => {
    const { tab, complaints } = await openTab(browser);
    for (const [page, address] of Object.entries(pages)) {
        await tab.goto(address);
        for (const { look, viewport, scheme, rules } of LOOKS) {
            await tab.setViewport(viewport);
            if (name === 'chromium') await tab.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }]);
            const where = `${name}-${page}-${look}`;
            const seen = await tab.evaluate(() => ({
                scheme: matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light',
                width: innerWidth,
                scrolls: document.documentElement.scrollWidth > document.documentElement.clientWidth,
            }));
            expectNothing(seen.scheme === scheme && seen.width === viewport.width ? [] : [seen], where);
            expectNothing(seen.scrolls ? ['the page scrolls sideways'] : [], where);
            await keepScreenshot(tab, where);
            expectNothing(await violations(tab, rules), where);
        }
    }
    // The browser logs every 404 and 410.
    expectNothing((await complaints()).filter((complaint) => !/status of 4(04|10)/.test(complaint)), name);
});
