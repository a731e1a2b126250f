// My pages: those whose keys this browser keeps.

import { exportKeys, forget, importKeys, markGone, pages } from './keys.js';
import { $, Problem, ask, copy, download, element, once, say, tell } from './ui.js';

/** So many pages are asked whether they are still there, this many at once. */
const CHECKED = 100;
const AT_ONCE = 4;

const DAY = 24 * 60 * 60 * 1000;

/** A date in words. */
function when(iso) {
    const time = new Date(iso);
    if (Number.isNaN(time.getTime())) return '';
    const midnight = (date) => new Date(date).setHours(0, 0, 0, 0);
    const days = Math.round((midnight(Date.now()) - midnight(time)) / DAY);
    return days >= 0 && days < 7
        ? new Intl.RelativeTimeFormat('en', { numeric: 'auto' }).format(-days, 'day')
        : time.toLocaleDateString('en-GB', { day: 'numeric', month: 'long', year: 'numeric' });
}

function button(label, spoken, act, className = 'quiet') {
    const made = element('button', label, { type: 'button', className, ariaLabel: spoken });
    made.addEventListener('click', act);
    return made;
}

/** Takes `item` out of the list. The focus goes on to the next one. */
function take(item) {
    const next = item.nextElementSibling ?? item.previousElementSibling;
    item.remove();
    (next?.querySelector('a, button') ?? $('pages-name')).focus();
    showParts();
}

/** Asks once more before `page` goes. */
function confirmIn(item, page) {
    const question = element('div', '', { className: 'sure' });
    const close = () => {
        question.remove();
        item.querySelector('.delete')?.focus();
    };
    const isSure = button('Delete permanently', `Delete permanently: ${page.title}`, null, 'danger');
    isSure.addEventListener('click', once(isSure, async () => {
        try {
            await ask(`/api/pages/${page.slug}`, { method: 'DELETE', headers: { authorization: `Bearer ${page.edit_key}` } });
        } catch (problem) {
            if (problem.status !== 410) throw problem;
        }
        forget(page.slug);
        const gone = entry({ ...page, gone: true });
        item.replaceWith(gone);
        gone.querySelector('button').focus();
        tell(`${page.title} was deleted.`);
    }));
    const keep = button('Keep the page', `Keep the page: ${page.title}`, close, '');
    question.append(
        element('span', 'Delete the page for everyone, or only remove the key from this list? Without another copy of the key, nobody can change the page.'),
        isSure,
        button('Remove from list', `Remove from list: ${page.title}`, () => {
            forget(page.slug);
            take(item);
            tell(`${page.title} was removed from this list.`);
        }, ''),
        keep,
    );
    item.querySelector('.sure')?.remove();
    item.append(question);
    // Enter twice, or held down, deletes nothing.
    keep.focus();
}

function entry(page) {
    const item = document.createElement('li');
    item.dataset.title = page.title.toLowerCase();
    const date = element('time', when(page.created_at), { dateTime: page.created_at });
    if (page.gone) {
        item.append(
            element('span', page.title, { className: 'title gone', dir: 'auto' }),
            element('span', 'Deleted', { className: 'hint' }),
            button('Remove', `Remove: ${page.title}`, () => {
                forget(page.slug);
                take(item);
            }),
        );
        return item;
    }
    const copyLink = button('Copy link', `Copy link: ${page.title}`, () => copy(copyLink, `${location.origin}/${page.slug}`, 'The link was'));
    item.append(
        element('a', page.title, { className: 'title', href: `/${page.slug}`, dir: 'auto' }),
        date,
        element('a', 'Edit', { className: 'quiet button', href: `/${page.slug}/edit`, ariaLabel: `Edit: ${page.title}` }),
        copyLink,
        button('Delete…', `Delete…: ${page.title}`, () => confirmIn(item, page), 'quiet delete'),
    );
    return item;
}

const items = () => [...$('pages').children];

function search() {
    const words = $('search').value.toLowerCase().trim();
    for (const item of items()) item.hidden = !item.dataset.title.includes(words);
    showParts();
}

function showParts() {
    const count = items().length;
    $('none').hidden = count > 0;
    $('searching').hidden = count < 2 && !$('search').value;
    $('nothing').hidden = !count || items().some((item) => !item.hidden);
    $('export').hidden = $('saved-here').hidden = !count;
    $('keys').hidden = false;
}

function list() {
    $('pages').replaceChildren(...pages().map(entry));
    search();
}

/** Marks the pages that were deleted elsewhere. */
async function check() {
    const left = pages().filter((page) => !page.gone).slice(0, CHECKED);
    const next = async () => {
        for (let page = left.shift(); page; page = left.shift()) {
            const { status } = await fetch(`/api/pages/${page.slug}`, { method: 'HEAD', credentials: 'omit' });
            if (status !== 410 && status !== 404) continue;
            markGone(page.slug);
            const shown = items().find((item) => item.querySelector(`a[href="/${page.slug}"]`));
            shown?.replaceWith(entry({ ...page, gone: true }));
        }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, next)).catch(() => {});
    search();
}

$('search').addEventListener('input', search);
$('export').addEventListener('click', () => download('handbill-keys.jsonl', exportKeys()));
$('import').addEventListener('change', once($('import'), async () => {
    // The service's own origin may not be the one that this browser uses.
    const own = document.querySelector('.name a').href;
    const text = await $('import').files[0].text();
    $('import').value = '';
    const { added, here, differ, none } = importKeys(text, [location.origin, new URL(own).origin]);
    list();
    const parts = [`Keys added: ${added}.`];
    if (here) parts.push(`Already here: ${here}.`);
    if (differ) parts.push(`Different key already here, which stays: ${differ}.`);
    if (none) parts.push(`Lines without a key for this site: ${none}.`);
    if (!added && !here) throw new Problem(parts.join(' '));
    say(parts.join(' '));
}));

// Another tab may change them.
for (const event of ['storage', 'pageshow']) addEventListener(event, list);
list();
check();
