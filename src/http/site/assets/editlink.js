// The edit link of the page on the screen: saved in this browser, copied, in a file, or nowhere.

import { forget, keep, saved } from './keys.js';
import { $, confirmOn, copy, download, tell } from './ui.js';

let page = null;
let isSaved = false;
/** Whether the person has the link elsewhere: it was copied, is in a file, or opened this page. */
let hasCopy = false;

const link = () => `${location.origin}/${page.slug}/edit#${page.edit_key}`;

/** Whether the tab can be closed without losing the link. */
export const isLinkSafe = () => !page || isSaved || hasCopy;

/** Shows what this browser knows, with `words` if it does not have the link. */
function show(words) {
    // A saved key may be another page's.
    isSaved = saved(page.slug)?.edit_key === page.edit_key;
    $('kept').hidden = $('shared-part').hidden = !isSaved;
    $('not-kept').hidden = $('keep-key').hidden = isSaved;
    $('not-kept').firstChild.textContent = words;
    $('edit-link').hidden = isLinkSafe();
    $('edit-page')?.setAttribute('href', isSaved ? `/${page.slug}/edit` : link());
}

/** Shows the link of `shown`, a page as it is saved. */
export function showLink(shown, words, isCopy = false) {
    page = shown;
    hasCopy = isCopy;
    $('edit-link').textContent = link();
    show(words);
    return isSaved;
}

export function hideLink() {
    page = null;
    $('edit-link').textContent = '';
}

$('copy-link').addEventListener('click', async () => {
    hasCopy = await copy($('copy-link'), link(), 'The edit link, which is a secret, was') || hasCopy;
});
$('save-key').addEventListener('click', () => {
    download(`${page.slug}.key.txt`, `${link()}\n${page.url}\n${page.edit_key}\n`);
    confirmOn($('save-key'), 'Saved', 'The edit link was saved to a file.');
    hasCopy = true;
});
$('keep-key').addEventListener('click', () => {
    // A person may throw away a link that the browser remembers.
    if (keep(page)) hasCopy = false;
    show('This browser won’t save the edit link. Copy it instead.');
    tell(isSaved ? 'The edit link is saved in this browser.' : $('not-kept').textContent);
    $('copy-link').focus();
});
$('forget-key').addEventListener('click', () => {
    forget(page.slug);
    show(`This browser no longer has the edit link.${hasCopy ? '' : ' Copy it before you leave.'}`);
    $('not-kept').focus();
});
