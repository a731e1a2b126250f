// Starts Debian's browsers and controls them over their own protocols: Chromium over DevTools, Firefox over WebDriver BiDi.

import { mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { inspect } from 'node:util';
import puppeteer from 'puppeteer-core';

/** What every script is given: the browser, `chromium` or `firefox`, and the address of the service. */
export const [name, base] = process.argv.slice(2);

// A step that takes longer than this, in ms, never ends. A slow machine makes no test fail.
const TIMEOUT = 120_000;

// Options that keep a browser quiet and let it run as root in a container. It only opens pages of the tests.
const CHROMIUM = [
    '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--disable-background-networking',
    '--disable-component-update', '--disable-sync', '--no-first-run',
];

const FIREFOX = {
    'app.update.enabled': false,
    // Pages of the history are loaded again. Its driver does not see that Firefox takes one from memory.
    'browser.sessionhistory.max_total_viewers': 0,
    'browser.safebrowsing.update.enabled': false,
    'datareporting.policy.dataSubmissionEnabled': false,
    // 0 is dark, 1 is light.
    'layout.css.prefers-color-scheme.content-override': 1,
    'network.captive-portal-service.enabled': false,
    'network.connectivity-service.enabled': false,
};

/** The folder of a browser without any state. */
export const newProfile = (name) => mkdtempSync(join(process.cwd(), `${name}-`));

/** Starts a browser. `profile` is the folder with its state; `arguments` are Chromium's, `preferences` Firefox's. */
export const launch = (name, { profile = newProfile(name), arguments: more = [], preferences = {} } = {}) => puppeteer.launch({
    acceptInsecureCerts: true,
    protocolTimeout: TIMEOUT,
    timeout: TIMEOUT,
    headless: true,
    userDataDir: profile,
    env: { ...process.env, FONTCONFIG_FILE: join(import.meta.dirname, 'fonts.conf') },
    ...name === 'firefox'
        ? { browser: 'firefox', executablePath: '/usr/bin/firefox-esr', extraPrefsFirefox: { ...FIREFOX, ...preferences } }
        : { browser: 'chrome', executablePath: '/usr/bin/chromium', args: [...CHROMIUM, ...more] },
});

/** Runs `visit` with a browser that knows nothing, and ends it in any case. `own` are settings of `launch`. */
export async function withBrowser(name, visit, own) {
    const browser = await launch(name, own);
    try {
        return await visit(browser);
    } finally {
        await browser.close();
    }
}

// The browsers' words for a request that the next navigation has ended, such as that of an icon on a slow machine.
const ENDED = ['net::ERR_ABORTED', 'NS_BINDING_ABORTED'];

/** A new tab that records the page's console messages and errors, and what its Content-Security-Policy refused. */
export async function openTab(browser) {
    const tab = await browser.newPage();
    tab.setDefaultTimeout(TIMEOUT);
    const complaints = [];
    tab.on('console', (message) => complaints.push(`${message.type()}: ${message.text()}`));
    tab.on('pageerror', (error) => complaints.push(String(error)));
    tab.on('requestfailed', (request) => {
        const reason = request.failure()?.errorText;
        if (!ENDED.includes(reason)) complaints.push(`${request.url()}: ${reason}`);
    });
    await tab.evaluateOnNewDocument(() => {
        window.refused = [];
        document.addEventListener('securitypolicyviolation', (event) => {
            window.refused.push(`${event.effectiveDirective} ${event.blockedURI}`);
        });
    });
    const all = async () => [...complaints, ...await tab.evaluate(() => window.refused)];
    return { tab, complaints: all };
}

/** Publishes a page and returns its address, slug and key. */
export async function publish(base, title, content) {
    const answer = await fetch(`${base}/api/pages`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ title, content }),
    });
    if (answer.status !== 201) throw new Error(`${answer.status}: ${await answer.text()}`);
    const { slug, edit_key: key } = await answer.json();
    return { address: `${base}/${slug}`, slug, key };
}

/** Changes or deletes a page with its key. */
export async function change(base, page, method, fields) {
    const answer = await fetch(`${base}/api/pages/${page.slug}`, {
        method,
        headers: { authorization: `Bearer ${page.key}`, 'content-type': 'application/json' },
        body: fields && JSON.stringify(fields),
    });
    if (!answer.ok) throw new Error(`${answer.status}: ${await answer.text()}`);
}

/** Saves a screenshot of the tab if SCREENSHOTS names a folder. */
export async function keepScreenshot(tab, name) {
    const folder = process.env.SCREENSHOTS;
    if (folder) writeFileSync(join(folder, `${name}.png`), await tab.screenshot({ fullPage: true }));
}

/** Fails with all of `found`, unless it is empty. */
export function expectNothing(found, where) {
    if (found.length > 0) throw new Error(`${where}: ${inspect(found, { depth: null })}`);
}
