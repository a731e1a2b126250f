// Checks what a tab shows with axe-core, and that it fits the screen.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { expectNothing } from './browsers.mjs';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

const TAGS = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];

// Best practices outside of WCAG that depend on the author's text.
const LEFT_TO_AUTHORS = ['heading-order', 'empty-heading', 'image-redundant-alt'];

/** The rules of accessibility that the tab breaks. */
export async function violations(tab) {
    await tab.evaluate(axe);
    return tab.evaluate(async (tags, leftOut) => {
        const rules = Object.fromEntries(leftOut.map((rule) => [rule, { enabled: false }]));
        const found = await window.axe.run(document, { runOnly: { type: 'tag', values: tags }, rules });
        if (found.passes.length < 10) throw new Error('axe-core checked almost nothing');
        return found.violations.map(({ id, help, nodes }) => ({ id, help, nodes: nodes.map(({ html }) => html.slice(0, 200)) }));
    }, TAGS, LEFT_TO_AUTHORS);
}

/** Fails unless nothing is wider than the screen, and everything to touch in the editor is 44 pixels high. */
export async function expectFit(tab, where) {
    const wrong = await tab.evaluate(() => {
        const { scrollWidth, clientWidth } = document.documentElement;
        const small = [...document.querySelectorAll('button, input:not(.unseen), textarea, .button, .pages a')]
            .filter((control) => control.offsetParent)
            .filter((control) => control.getBoundingClientRect().height < 44)
            .map((control) => control.outerHTML);
        return scrollWidth > clientWidth ? [...small, `${scrollWidth} pixels wide of ${clientWidth}`] : small;
    });
    expectNothing(wrong, where);
}
