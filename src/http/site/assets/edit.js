// Edits and deletes one page, with its key in the `Authorization` header and nowhere else.

import { dropDraft, findKey, forget, keep, page, saveDraft, takeDraft } from './keys.js';
import { closePreview, followAtOnce, startPreview, togglePreview } from './preview.js';
import { check, content, fill, guard, helpTyping, title } from './sheet.js';
import { $, Problem, answer, ask, confirmOn, copy, editLink, element, mark, once, say, tell } from './ui.js';

const slug = $('page').value;
const path = `/api/pages/${slug}`;
const [login, editor] = [$('login'), $('editor')];
const loginButton = login.querySelector('button');
editor.noValidate = true;

let key = null;
let opened = null;
let isDraftStored = true;
/** False once this browser was told to forget the key. */
let isKeySafe = true;

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
    isKeySafe = true;
    login.hidden = editor.hidden = true;
    closePreview();
    $('opening').hidden = $('closed').hidden = false;
    // A page that operators have hidden may come back, so its key goes only when its owner says so.
    $('remove').hidden = !page(slug);
    $('opening-name').textContent = name;
    $('opening-name').focus();
}

function understand(problem) {
    if (problem.status === 410) return close('This page was deleted');
    if (problem.status === 404) return close('There is no page at this link');
    throw problem.status === 401 && !opened ? new Problem(problem.message, { field: $('key') }) : problem;
}

const open = once(loginButton, async () => {
    mark($('key'), '');
    // It may be in an edit link, or in what a shell has printed.
    key = findKey($('key').value);
    if (!key) throw new Problem('This isn’t an edit link or key. A key is hbk_ followed by 43 letters and digits.', { field: $('key') });
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
    const unsaved = takeDraft(slug);
    if (unsaved && Object.keys(changes(unsaved)).length) {
        fill(unsaved);
        // If the page has changed since, saving says so.
        opened.etag = unsaved.etag;
        say('Your unsaved changes are back.');
    }
    showKept();
    startPreview();
    content.setSelectionRange(0, 0);
    content.focus({ preventScroll: true });
    scrollTo(0, 0);
});

function load({ body, etag }) {
    // A field has LF alone, whatever the page's source has.
    opened = { title: body.title ?? '', content: body.content.replace(/\r\n?/g, '\n'), etag };
    fill(opened);
    followAtOnce();
}

$('remove').addEventListener('click', () => {
    forget(slug);
    location.assign('/pages');
});

// Saving

/** The fields of the sheet that differ from `from`. */
function changes(sheet = { title: title.value, content: content.value }, from = opened) {
    return Object.fromEntries(['title', 'content'].filter((field) => sheet[field] !== from[field]).map((field) => [field, sheet[field]]));
}

const hasChanges = () => Object.keys(changes()).length > 0;

function store() {
    isDraftStored = true;
    if (!opened) return '';
    if (!hasChanges()) {
        dropDraft(slug);
        return 'Saved';
    }
    const refusal = saveDraft(slug, { title: title.value, content: content.value, etag: opened.etag });
    isDraftStored = !refusal;
    return refusal || 'Not published yet · Draft saved';
}

async function save(etag) {
    check();
    try {
        done(await withKey('PATCH', changes(), etag));
    } catch (problem) {
        if (problem.status !== 412) return understand(problem);
        const now = await ask(path, { expect: hasText });
        // It may be this very text, saved by a request whose answer was lost.
        if ((now.body.title ?? '') === title.value && now.body.content === content.value) return done(now);
        say('This page changed since you opened it, maybe in another tab. Your text is still here.', 'bad',
            element('a', 'See the current page', { href: `/${slug}`, target: '_blank', className: 'quiet button' }),
            answer('Save mine anyway', once($('save'), () => save(null))));
    }
}

function done(saved) {
    load(saved);
    const kept = page(slug);
    if (kept) keep({ ...kept, title: opened.title });
    keepDraft();
    confirmOn($('save'), 'Saved');
}

const saveNow = once($('save'), () => {
    if (!hasChanges()) return say('You haven’t changed anything yet.');
    keepDraft();
    return save(opened.etag);
});

login.addEventListener('submit', open);
editor.addEventListener('submit', saveNow);
helpTyping(saveNow, saveNow);
const keepDraft = guard(store, () => !isKeySafe || !isDraftStored);
$('show-preview').addEventListener('click', once($('show-preview'), togglePreview));

// The key

function showKept() {
    // An imported key may be another page's.
    const isKept = page(slug)?.edit_key === key;
    $('kept').hidden = $('forget-key').hidden = !isKept;
    $('not-kept').hidden = $('keep-key').hidden = isKept;
    // A person who opened an edit link may think that the key is saved now.
    if (!isKept) $('keeping').open = true;
}

$('keep-key').addEventListener('click', () => {
    const isDone = keep({ slug, url: `${location.origin}/${slug}`, title: opened.title || slug, edit_key: key, created_at: new Date().toISOString() });
    isKeySafe ||= isDone;
    showKept();
    if (!isDone) return say('This browser won’t save the edit link. Copy it instead.', 'bad');
    tell('The edit link is saved in this browser.');
    $('copy-link').focus();
});
$('forget-key').addEventListener('click', () => {
    forget(slug);
    isKeySafe = false;
    showKept();
    tell('This browser no longer has the edit link.');
    $('copy-link').focus();
});
$('copy-link').addEventListener('click', async () => {
    isKeySafe = await copy($('copy-link'), editLink(slug, key), 'The edit link, which is a secret, was') || isKeySafe;
});

// Deleting

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
$('key').value ||= page(slug)?.edit_key ?? '';
if ($('key').value) open();
