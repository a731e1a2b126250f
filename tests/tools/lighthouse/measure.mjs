// Prints the scores of Lighthouse for each view, and what costs points. Fails if a category has less than 99.
//
//   node measure.mjs <base URL>

import { desktopConfig, startFlow } from 'lighthouse';
import { publish, withBrowser } from './browsers.mjs';
import { fill, openEditor, press, shown } from './editing.mjs';

const [base] = process.argv.slice(2);

const LEAST = 99;

// Pages with links are kept out of search engines on purpose. Lighthouse asks for /robots.txt from inside the page, which the page's
// policy refuses (github.com/GoogleChrome/lighthouse/issues/4386); a test of ours reads the file. A fifth category, for agents, is
// still being developed, as Lighthouse says, and does the same with /llms.txt.
const FLAGS = {
    onlyCategories: ['performance', 'accessibility', 'best-practices', 'seo'],
    skipAudits: ['is-crawlable', 'robots-txt'],
};

const TEXT = 'Some **text** with [a link to something](https://example.org).\n\n## A heading\n\n- a list\n\n> A quote.\n';

let isLow = false;

await withBrowser('chromium', async (browser) => {
    const page = await publish(base, 'A page', TEXT);
    for (const [screen, config] of [['phone', undefined], ['desktop', desktopConfig]]) {
        const tab = await browser.newPage();
        const flow = await startFlow(tab, { config, flags: FLAGS });
        await flow.navigate(`${base}/`, { name: 'editor' });
        await flow.navigate(page.address, { name: 'page' });
        await flow.navigate(`${base}/help`, { name: 'help' });
        // The receipt has no address of its own: a snapshot is measured, in which nothing loads.
        await openEditor(tab, base);
        await fill(tab, 'Published', TEXT);
        await press(tab, '[value=publish]');
        await shown(tab, 'published');
        await flow.snapshot({ name: 'receipt' });
        await tab.close();
        const { steps } = await flow.createFlowResult();
        for (const { name, lhr: { lighthouseVersion, gatherMode, categories, audits } } of steps) {
            const scores = [];
            for (const { id, score, auditRefs } of Object.values(categories)) {
                const scored = auditRefs.filter(({ id }) => typeof audits[id].score === 'number');
                // A category of a snapshot is how many of its checks pass.
                const passed = scored.filter(({ id }) => audits[id].score >= 0.9).length / scored.length;
                const points = Math.round(100 * (gatherMode === 'navigation' ? score : passed));
                scores.push(`${id} ${points}`);
                isLow ||= !(points >= LEAST);
                for (const { id, weight } of scored) {
                    const { score, displayValue = '' } = audits[id];
                    if (weight > 0 && score < 1) console.error(`   ${screen}, ${name}: ${id} ${score} ${displayValue}`);
                }
            }
            console.log(`Lighthouse ${lighthouseVersion}, ${screen}, ${name}: ${scores.join(', ')}`);
        }
    }
});
process.exitCode = isLow ? 1 : 0;
