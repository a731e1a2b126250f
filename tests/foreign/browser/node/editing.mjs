// Steps that the tests of the editor share.

import assert from 'node:assert/strict';
import { openTab } from './browsers.mjs';

/** A tab that also records every request: its address and its headers. */
export async function openWatchedTab(browser) {
    const { tab, complaints } = await openTab(browser);
    const requests = [];
    // A driver shows the part after `#`, which browsers never send.
    tab.on('request', (request) => requests.push(`${request.method()} ${request.url().split('#')[0]} ${JSON.stringify({
        ...request.headers(),
        authorization: undefined,
    })}`));
    // Failed requests are part of these tests, and browsers write each of them to the console.
    const rest = async () => (await complaints()).filter((complaint) => !/status of 4|ERR_INTERNET_DISCONNECTED/.test(complaint));
    return { tab, complaints: rest, requests };
}

export const shown = (tab, id) => tab.waitForFunction((id) => {
    const element = document.getElementById(id);
    return element && !element.hidden && element.getClientRects().length > 0;
}, {}, id);

/** Waits until the page says `words`: beside the bar, beside a field, or to those who cannot see it. */
export const said = (tab, words) => tab.waitForFunction(
    (words) => [...document.querySelectorAll('#status, #told, .problem:not([hidden])')].some((place) => place.textContent.includes(words)),
    {}, words);

export const text = (tab, id) => tab.$eval(`#${id}`, (element) => element.value ?? element.textContent);

/** Replaces the text of a field as a person does: selects all, and types. Lines come at once: Enter would go on with a list. */
export async function write(tab, id, words) {
    await tab.focus(`#${id}`);
    await tab.$eval(`#${id}`, (field) => field.select());
    if (words.includes('\n')) await tab.evaluate((words) => document.execCommand('insertText', false, words), words);
    else await tab.keyboard.type(words);
}

/** Replaces the title and the text. */
export async function fill(tab, title, content) {
    await write(tab, 'title', title);
    await write(tab, 'content', content);
}

/** Waits until the browser has stored `words`. */
export const stored = (tab, words) => tab.waitForFunction(
    (words) => Object.values(localStorage).some((value) => value.includes(words)), {}, words);

/** Puts a text into a field at once, however long it is. */
export const put = (tab, id, words) => tab.$eval(`#${id}`, (field, words) => {
    field.value = words;
    field.dispatchEvent(new InputEvent('input', { bubbles: true }));
}, words);

/** Presses a key together with Control. */
export async function chord(tab, key) {
    await tab.keyboard.down('Control');
    await tab.keyboard.press(key);
    await tab.keyboard.up('Control');
}

/** Accepts each dialog of the tab, and adds to `dialogs` what it says, or that it warns of leaving. */
export function accept(tab, dialogs) {
    tab.on('dialog', (dialog) => {
        dialogs.push(dialog.type() === 'beforeunload' ? dialog.type() : dialog.message());
        dialog.accept();
    });
}

/** The text of the file that a button saves. */
export const fileOf = (tab, id) => tab.evaluate((id) => new Promise((resolve) => {
    const make = URL.createObjectURL;
    URL.createObjectURL = (blob) => {
        blob.text().then(resolve);
        return make(blob);
    };
    document.getElementById(id).click();
}), id);

/** Presses a button or follows a link with the keyboard, since a mouse misses what moves while the page is laid out. Waits until the
 *  page says `words`, if they are given. */
export async function press(tab, selector, words = null) {
    await tab.focus(selector);
    await tab.keyboard.press('Enter');
    if (words !== null) await said(tab, words);
}

/** Follows a link and waits for its page. Nothing that is then seen belongs to the page before. */
export const follow = (tab, selector) => Promise.all([tab.waitForNavigation(), press(tab, selector)]);

/** Opens the editor and waits until its script runs. */
export async function openEditor(tab, base) {
    await tab.goto(`${base}/`);
    await shown(tab, 'pick');
}

/** Opens a page for editing with its edit link. */
export async function openToEdit(tab, page) {
    await tab.goto(`${page.address}/edit#${page.key}`);
    await shown(tab, 'editor');
}

/** Opens the list of the pages whose keys this browser keeps. */
export async function openPages(tab, base) {
    await tab.goto(`${base}/pages`);
    await shown(tab, 'keys');
}

/** Opens a part that is folded, if it is. */
export async function unfold(tab, id) {
    if (!await tab.$eval(`#${id}`, (part) => part.open)) await press(tab, `#${id} > summary`);
    await tab.waitForFunction((id) => document.getElementById(id).open, {}, id);
}

/** Publishes a page in the editor. Returns its slug, its address and its key. */
export async function publishByHand(tab, base, title, content) {
    await openEditor(tab, base);
    await fill(tab, title, content);
    await press(tab, '[value=publish]');
    await shown(tab, 'published');
    const [address, link] = [await text(tab, 'address'), await text(tab, 'edit-link')];
    const [, key] = link.match(/^http\S+\/edit#(hbk_[0-9A-Za-z]{43})$/);
    return { address, key, slug: new URL(address).pathname.slice(1) };
}

/** The page as the API shows it. */
export async function read(base, slug) {
    const answer = await fetch(`${base}/api/pages/${slug}`);
    return { status: answer.status, ...await answer.json() };
}
