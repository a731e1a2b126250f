// Edits and deletes one page, with its key in the `Authorization` header and nowhere else.

import { hideLink, isLinkSafe, showLink } from './editlink.js';
import { dropDraft, findKey, findSlug, forget, keep, keepInTab, pages, saved, tabKey, takeDraft } from './keys.js';
import { closePreview, follow, startPreview, togglePreview } from './preview.js';
import { askForBreaks, check, content, differing, fill, guard, helpTyping, sheet, textOf } from './sheet.js';
import { $, Problem, answer, ask, confirmOn, element, mark, once, say } from './ui.js';

const slug = $('page').value;
const path = `/api/pages/${slug}`;
const [login, editor] = [$('login'), $('editor')];
const loginButton = login.querySelector('button');
editor.noValidate = true;

let [key, opened] = [null, null];

/** A link may bring the key after `#`, which is never sent. The key leaves the address bar and the history at once. */
function takeKeyFromAddress() {
    if (!location.hash) return;
    const given = findKey(location.hash);
    history.replaceState(null, '', location.pathname);
    if (given) $('key').value = given;
    else mark($('key'), 'This link has no edit key in it. Enter the key here.');
}

const hasText = (body) => 'content' in body;
const withKey = (method, fields, etag) => ask(path, {
    method,
    expect: fields && hasText,
    headers: {
        authorization: `Bearer ${key}`,
        ...(fields && { 'content-type': 'application/json' }),
        ...(etag && { 'if-match': etag }),
    },
    body: fields && JSON.stringify(fields),
});

/** There is no page to edit: it was deleted, or never was. */
function close(name) {
    opened = null;
    hideLink();
    login.hidden = editor.hidden = true;
    closePreview();
    // The address leads nowhere now.
    $('where').textContent = $('where').textContent;
    $('opening').hidden = $('closed').hidden = false;
    // A page that operators have hidden may come back, so its key goes only when its owner says so.
    $('remove').hidden = !saved(slug);
    $('opening-name').textContent = name;
    $('opening-name').focus();
}

function understand(problem) {
    if (problem.status === 410) return close('This page was deleted');
    if (problem.status === 404) return close('There is no page at this link');
    if (problem.status !== 401 || opened) throw problem;
    const other = pages().find(({ edit_key }) => edit_key === key);
    throw new Problem(other && other.slug !== slug ? `This is the edit key of another page, “${other.title}”.` : problem.message, { field: $('key') });
}

const open = once(loginButton, async () => {
    mark($('key'), '');
    // It may be in an edit link, or in what a shell has printed.
    const given = $('key').value;
    key = findKey(given);
    if (!key) throw new Problem('This isn’t an edit link or key. A key is hbk_ followed by 43 letters and digits.', { field: $('key') });
    if ((findSlug(given) ?? slug) !== slug) throw new Problem(`This edit link is for another page, ${findSlug(given)}.`, { field: $('key') });
    let read;
    try {
        // An update without fields changes nothing, and shows whether the key is right.
        read = await withKey('PATCH', {});
    } catch (problem) {
        return understand(problem);
    }
    $('opening').hidden = true;
    $('key').value = '';
    editor.hidden = false;
    load(read);
    keepInTab(slug, key);
    const { title: name, created_at } = read.body;
    const shown = { slug, url: `${location.origin}/${slug}`, title: name || slug, edit_key: key, created_at };
    // A person who opened an edit link may think that it is saved now.
    $('keeping').open = !showLink(shown, 'This browser doesn’t remember the edit link. You will need it next time.', saved(slug)?.edit_key !== key);
    const unsaved = takeDraft(slug);
    startPreview();
    content.setSelectionRange(0, 0);
    content.focus({ preventScroll: true });
    scrollTo(0, 0);
    if (unsaved && changes(unsaved)) resume(unsaved, read);
});

function show(text) {
    fill(text);
    keepDraft();
    follow();
}

function load({ body, etag }) {
    opened = { ...textOf(body), updated_at: body.updated_at, etag };
    show(opened);
}

/** Goes on with the draft `mine` of the page that is `now` on the screen. */
function resume(mine, now) {
    if (mine.updated_at !== opened.updated_at) return choose(mine, now);
    show(mine);
    say('Your unsaved changes are back.', '', answer('Discard them', discard));
}

const discard = once($('discard'), async () => {
    const mine = draft();
    const now = await ask(path, { expect: hasText });
    load(now);
    say('This is the published text.', '', answer('Back to my text', () => resume(mine, now)));
    content.focus();
});
$('discard').addEventListener('click', discard);

$('remove').addEventListener('click', () => {
    forget(slug);
    location.assign('/pages');
});

/** The fields of `text` that differ from the page; none if they are equal. */
function changes(text = sheet()) {
    const changed = differing(text, opened).map((field) => [field, text[field] ?? '']);
    return changed.length ? Object.fromEntries(changed) : null;
}

/** The draft, with what the page was when its writing began. */
const draft = () => ({ ...sheet(), updated_at: opened.updated_at, etag: opened.etag });

/** Shows the draft `mine` of a page that has changed to `now`, and lets its writer choose. */
function choose(mine, now) {
    opened = { ...opened, updated_at: mine.updated_at, etag: mine.etag };
    show(mine);
    say('This page changed since you opened it, maybe in another tab. Your text is still here.', 'bad',
        element('a', 'See current page', { href: `/${slug}`, target: '_blank', className: 'button' }),
        answer('Use current page', () => {
            load(now);
            say('This is the current page.', '', answer('Back to my text', () => choose(mine, now)));
        }),
        answer('Save mine anyway', once($('save'), () => save(null))));
}

async function save(etag) {
    try {
        done(await withKey('PATCH', changes(), etag));
    } catch (problem) {
        if (problem.status !== 412) return understand(problem);
        const now = await ask(path, { expect: hasText });
        // It may be this very text, saved by a request whose answer was lost.
        if (!differing(textOf(now.body), sheet()).length) return done(now);
        choose(draft(), now);
    }
}

function done(read) {
    load(read);
    if (saved(slug)) keep({ ...saved(slug), title: opened.title });
    confirmOn($('save'), 'Saved');
}

const saveNow = once($('save'), () => {
    check();
    if (!changes()) return say('You haven’t changed anything yet.');
    keepDraft();
    return askForBreaks(saveNow, opened.content) || save(opened.etag);
});

login.addEventListener('submit', open);
editor.addEventListener('submit', saveNow);
helpTyping(saveNow, saveNow);
const keepDraft = guard(slug, () => {
    const isChanged = opened && changes();
    $('discard').hidden = !isChanged;
    return isChanged && draft();
}, 'Not published yet · Draft saved', isLinkSafe);
$('show-preview').addEventListener('click', once($('show-preview'), togglePreview));

// On a phone, the question is below the screen.
$('deleting').addEventListener('toggle', () => $('deleting').scrollIntoView({ block: 'nearest' }));
$('not-sure').addEventListener('click', () => {
    $('deleting').open = false;
    $('deleting').querySelector('summary').focus();
});
$('is-sure').addEventListener('click', once($('is-sure'), async () => {
    try {
        await withKey('DELETE');
    } catch (problem) {
        return understand(problem);
    }
    forget(slug);
    dropDraft(slug);
    close('Your page was deleted');
}));

takeKeyFromAddress();
addEventListener('hashchange', () => {
    takeKeyFromAddress();
    if (!opened && $('key').value) open();
});
loginButton.disabled = false;
$('key').value ||= saved(slug)?.edit_key ?? tabKey(slug) ?? '';
if ($('key').value) open();
// A person who has no key learns that the page was deleted.
else ask(path, { method: 'HEAD' }).catch(understand).catch(() => {});
