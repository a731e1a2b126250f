// The receipt of a page that was just published: its address, and ways to keep its key.

import { forget, keep } from './keys.js';
import { qr } from './qr.js';
import { $, confirmOn, copy, download, editLink } from './ui.js';

/** The page whose receipt is shown, and whether its key is safe: kept here, copied or downloaded. */
let page = null;
let isSafe = true;

export const isKeySafe = () => isSafe;

function showKept(isKept) {
    $('kept').hidden = $('shared-part').hidden = !isKept;
    $('not-kept').hidden = isKept;
    $('key-part').open = !isKept;
}

/** The key may be on its way, so nothing may close the tab. */
export const expectKey = (isExpected) => { isSafe = !isExpected; };

/** Keeps the key of `published`, calls `makeRoom`, and shows the receipt. */
export function showReceipt(published, makeRoom) {
    page = published;
    // The key is stored before anything else happens. The draft may take the room that it needs.
    isSafe = keep(page);
    makeRoom();
    isSafe ||= keep(page);
    $('address').href = $('open-page').href = $('address').textContent = page.url;
    $('key').textContent = page.edit_key;
    $('share').hidden = !navigator.share;
    showKept(isSafe);
    $('published').hidden = false;
    $('published-name').focus();
    scrollTo(0, 0);
}

/** Puts the receipt away. Returns false if somebody would rather keep it, because the key is nowhere else. */
export function closeReceipt() {
    if (!isSafe && !confirm('The edit key is not saved anywhere. Leave without it?')) return false;
    page = null;
    isSafe = true;
    $('key').textContent = '';
    hideCode();
    $('shared-part').open = false;
    $('published').hidden = true;
    return true;
}

const link = () => editLink(page.slug, page.edit_key);
const safe = (isDone) => { isSafe ||= isDone; };

function hideCode() {
    $('code').querySelector('svg')?.remove();
    $('code').hidden = true;
    $('show-code').textContent = 'Show QR code';
    $('show-code').setAttribute('aria-expanded', false);
}

$('copy-address').addEventListener('click', () => copy($('copy-address'), page.url, 'The link was'));
$('share').addEventListener('click', () => navigator.share({ title: page.title, url: page.url }).catch(() => {}));
$('copy-link').addEventListener('click', async () => safe(await copy($('copy-link'), link(), 'The edit link was')));
$('copy-key').addEventListener('click', async () => safe(await copy($('copy-key'), page.edit_key, 'The key was')));
$('save-key').addEventListener('click', () => {
    download(`${page.slug}.key.txt`, `${page.url}\n${page.edit_key}\n`);
    confirmOn($('save-key'), 'Downloaded', 'The key was downloaded.');
    safe(true);
});
$('show-code').addEventListener('click', () => {
    if (!$('code').hidden) return hideCode();
    $('code').prepend(qr(link(), 'QR code of the edit link') ?? '');
    $('code').hidden = false;
    $('show-code').textContent = 'Hide QR code';
    $('show-code').setAttribute('aria-expanded', true);
});
$('forget-key').addEventListener('click', () => {
    forget(page.slug);
    isSafe = false;
    showKept(false);
    $('not-kept').focus();
});
