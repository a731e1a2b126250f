// Checks what a tab shows with axe-core, and that it fits the screen, on a phone and on a desktop, in light and in dark colours.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { expectNothing, keepScreenshot } from './browsers.mjs';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

const TAGS = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];

// Best practices outside of WCAG that depend on the author's text.
const LEFT_TO_AUTHORS = ['heading-order', 'empty-heading', 'image-redundant-alt'];

/** The rules whose outcome depends on colours, or on the size of the screen. All others find the same in every scheme and size. */
const OF_COLOURS = ['color-contrast', 'link-in-text-block'];
const OF_SIZES = ['scrollable-region-focusable', 'target-size'];

/** The rules of accessibility that the tab breaks: all rules, or those of `only`. */
export async function violations(tab, only = null) {
    if (!await tab.evaluate(() => Boolean(window.axe))) await tab.evaluate(axe);
    return tab.evaluate(async (tags, leftOut, only) => {
        const rules = Object.fromEntries(leftOut.map((rule) => [rule, { enabled: false }]));
        const found = await window.axe.run(document, only
            ? { runOnly: { type: 'rule', values: only } }
            : { runOnly: { type: 'tag', values: tags }, rules });
        if (!only && found.passes.length < 10) throw new Error('axe-core checked almost nothing');
        return found.violations.map(({ id, help, nodes }) => ({ id, help, nodes: nodes.map(({ html }) => html.slice(0, 200)) }));
    }, TAGS, LEFT_TO_AUTHORS, only);
}

/** Fails unless nothing is wider than the screen, and everything to touch in the editor is 44 pixels high. */
export async function expectFit(tab, where) {
    const wrong = await tab.evaluate(() => {
        const { scrollWidth, clientWidth } = document.documentElement;
        const small = [...document.querySelectorAll('button, input:not(.unseen), textarea, .button, .pages a')]
            .filter((control) => control.offsetParent)
            .filter((control) => control.getBoundingClientRect().height < 44)
            .map((control) => control.outerHTML);
        // Some parts scroll what they have, and some only screen readers get: neither makes the screen wider for anybody.
        const scrolled = [...document.querySelectorAll('*')].filter((part) => /auto|scroll|hidden|clip/.test(getComputedStyle(part).overflowX));
        const wide = [...document.body.querySelectorAll('*')]
            .filter((part) => part.checkVisibility() && !scrolled.some((outer) => outer !== part && outer.contains(part)))
            .filter((part) => part.getBoundingClientRect().right > clientWidth + 1 || part.getBoundingClientRect().left < -1)
            .map((part) => part.outerHTML.slice(0, 150));
        const hides = [document.documentElement, document.body].some((part) => getComputedStyle(part).overflowX !== 'visible');
        return [...small, ...wide, ...(hides || scrollWidth > clientWidth ? [`${scrollWidth} pixels wide of ${clientWidth}`] : [])];
    });
    expectNothing(wrong, where);
}

/** Fails unless what the tab shows is accessible and fits, in each size and, in Chromium, also in dark colours. */
export async function look(tab, name, view) {
    const check = async (size, width, scheme, rules) => {
        // Firefox would need another start for dark mode. Only colours differ there, and Chromium has checked those.
        if (name === 'chromium') await tab.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }]);
        await tab.setViewport({ width, height: 800 });
        const where = `${name}-${view}-${size}-${scheme}`;
        const seen = await tab.evaluate((scheme) => [innerWidth, matchMedia(`(prefers-color-scheme: ${scheme})`).matches], scheme);
        expectNothing(seen[0] === width && seen[1] ? [] : seen, where);
        await keepScreenshot(tab, where);
        await expectFit(tab, where);
        expectNothing(await violations(tab, rules), where);
    };
    await check('desktop', 1280, 'light', OF_SIZES);
    if (name === 'chromium') {
        await check('desktop', 1280, 'dark', OF_COLOURS);
        await check('phone', 320, 'dark', OF_COLOURS);
    }
    await check('phone', 320, 'light', null);
}
