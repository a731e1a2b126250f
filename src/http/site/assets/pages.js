// My pages: the pages whose keys this browser has.

import { exportKeys, findKey, findSlug, forget, importKeys, pages } from './keys.js';
import { $, Problem, ask, button, copy, download, element, once, say, tell } from './ui.js';

const when = (iso) => (Date.parse(iso) ? new Date(iso).toLocaleDateString('en-GB', { dateStyle: 'long' }) : '');

/** A button of the page `name`, which only screen readers hear. */
const named = (label, name, act, className = 'quiet') => button(label, act, { className, ariaLabel: `${label}: ${name}` });

function confirmIn(item, page) {
    const isSure = named('Delete', page.title, null, 'danger');
    isSure.addEventListener('click', once(isSure, async () => {
        try {
            await ask(`/api/pages/${page.slug}`, { method: 'DELETE', headers: { authorization: `Bearer ${page.edit_key}` }, after: 'Try again.' });
        } catch (problem) {
            if (problem.status !== 410) throw problem;
        }
        forget(page.slug);
        const at = [...$('pages').children].indexOf(item);
        list();
        ($('pages').children[at]?.querySelector('a') ?? $('pages-name')).focus();
        tell(`${page.title} was deleted.`);
    }));
    const cancel = named('Cancel', page.title, () => {
        question.remove();
        item.querySelector('.delete').focus();
    }, '');
    const question = element('div', `Delete “${page.title}” for everyone? This can’t be undone.`, { className: 'sure' });
    question.append(cancel, isSure);
    item.querySelector('.sure')?.remove();
    item.append(question);
    // Enter twice, or held down, deletes nothing.
    cancel.focus();
}

function entry(page) {
    const item = document.createElement('li');
    const copyLink = named('Copy link', page.title, () => copy(copyLink, `${location.origin}/${page.slug}`, 'The link was'));
    item.append(
        element('a', page.title, { className: 'title', href: `/${page.slug}`, dir: 'auto' }),
        element('time', when(page.created_at), { dateTime: page.created_at }),
        element('a', 'Edit', { className: 'quiet button', href: `/${page.slug}/edit`, ariaLabel: `Edit: ${page.title}` }),
        copyLink,
        named('Delete…', page.title, () => confirmIn(item, page), 'quiet delete'),
    );
    return item;
}

function list() {
    $('pages').replaceChildren(...pages().map(entry));
    const isEmpty = !$('pages').children.length;
    $('none').hidden = !isEmpty;
    $('export').hidden = $('saved-name').hidden = $('saved-here').hidden = isEmpty;
    $('keys').hidden = false;
}

$('open').addEventListener('submit', once($('open').querySelector('button'), () => {
    const [slug, key] = [findSlug($('link').value), findKey($('link').value)];
    if (!slug || !key) throw new Problem('This isn’t an edit link: it ends in /edit#hbk_ and 43 letters and digits.', { field: $('link') });
    $('link').value = '';
    location.assign(`/${slug}/edit#${key}`);
}));
$('export').addEventListener('click', () => download('handbill-keys.jsonl', exportKeys()));
$('import').addEventListener('change', once($('import'), async () => {
    // The service's own origin may not be the one that this browser uses.
    const own = document.querySelector('.name a').href;
    const text = await $('import').files[0].text();
    $('import').value = '';
    const { added, here, differ, none } = importKeys(text, [location.origin, new URL(own).origin]);
    list();
    const rest = [
        here && `${here} already here`,
        differ && `${differ} already here with another key, which stays`,
        none && `${none} ${none === 1 ? 'line wasn’t a key' : 'lines weren’t keys'} for this site`,
    ].filter(Boolean).join(', ');
    const words = `Added ${added} ${added === 1 ? 'page' : 'pages'}${rest && `: ${rest}`}.`;
    if (!added && !here) throw new Problem(words);
    say(words);
}));

// Another tab may change them.
for (const event of ['storage', 'pageshow']) addEventListener(event, list);
list();
