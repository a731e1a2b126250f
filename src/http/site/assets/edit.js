// Edits and deletes one page, with its key in the `Authorization` header and nowhere else.

import { dropDraft, findKey, forget, keep, otherDrafts, page, saveDraft, takeDraft } from './keys.js';
import { preview } from './preview.js';
import { $, Problem, ask, check, content, copy, editLink, fill, guard, onShortcut, once, say, title } from './ui.js';

const slug = $('page').value;
const path = `/api/pages/${slug}`;
const [login, editor] = [$('login'), $('editor')];
const loginButton = login.querySelector('button');

/** The key, once it has opened the page, and the page as it was read. */
let key = null;
let opened = null;
let isDraftStored = true;
/** False once this browser was told to forget the key. */
let isSafe = true;

/** A link may bring the key after `#`, which is never sent. It leaves the address bar and the history at once. */
function takeKeyFromAddress() {
    if (!location.hash) return;
    const given = findKey(location.hash);
    history.replaceState(null, '', location.pathname);
    if (given) $('key').value = given;
    else say('The link does not hold a key. Enter the key below.');
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

// A field has LF alone, whatever the page's source has.
const asField = (text) => text.replace(/\r\n?/g, '\n');

const open = once(loginButton, async () => {
    // It may be in an edit link, or in what a shell has printed.
    key = findKey($('key').value);
    if (!key) throw new Problem('This is not an edit key: a key is hbk_ and 43 letters or digits.');
    // An update without fields changes nothing, and shows whether the key is right.
    const { body, etag } = await withKey('PATCH', {});
    login.hidden = true;
    $('key').value = '';
    for (const part of [editor, $('keeping'), $('deleting')]) part.hidden = false;
    load(body, etag);
    say('');
    const [unsaved] = otherDrafts(slug);
    if (unsaved) {
        takeDraft(unsaved);
        fill(unsaved);
        if (hasChanges()) {
            // If the page has changed since, saving shows both texts.
            opened.etag = unsaved.etag;
            say('Your unsaved changes are back.');
        } else {
            dropDraft();
        }
    }
    showKept();
    content.focus();
});

function load(body, etag) {
    opened = { title: body.title ?? '', content: asField(body.content), etag };
    fill(opened);
}

/** The fields that differ from the page as it was read. */
function changes() {
    const fields = {};
    if (title.value !== opened.title) fields.title = title.value;
    if (content.value !== opened.content) fields.content = content.value;
    return fields;
}

const hasChanges = () => Object.keys(changes()).length > 0;

function store() {
    if (!opened) return;
    if (hasChanges()) isDraftStored = saveDraft(slug, { title: title.value, content: content.value, etag: opened.etag });
    else dropDraft();
}

async function save(fields, etag) {
    check();
    try {
        const saved = await withKey('PATCH', fields, etag);
        load(saved.body, saved.etag);
        dropDraft();
        $('conflict').hidden = true;
        const kept = page(slug);
        if (kept) keep({ ...kept, title: saved.body.title ?? slug });
        say('Saved. The page has the new text.');
    } catch (problem) {
        if (problem.status !== 412) throw problem;
        await showTheirs();
    }
}

/** The page as somebody else has saved it, beside the text in the form. */
let theirs = null;

async function showTheirs() {
    theirs = await ask(path, { expect: hasText });
    $('their-title').textContent = theirs.body.title ?? '';
    $('theirs').value = theirs.body.content;
    $('conflict').hidden = false;
    say('The page has changed since you opened it. Nothing was saved yet: compare both texts.');
    $('conflict-name').focus();
}

const saveNow = once($('save'), () => {
    if (!hasChanges()) return say('Nothing has changed, so there is nothing to save.');
    store();
    return save(changes(), opened.etag);
});

login.addEventListener('submit', open);
editor.addEventListener('submit', saveNow);
onShortcut(editor, saveNow);
guard(editor, store, () => !isSafe || (opened && hasChanges() && !isDraftStored));

$('show-preview').addEventListener('click', once($('show-preview'), preview));
$('take-theirs').addEventListener('click', () => {
    if (!confirm('Give up your own text, and take this one?')) return;
    load(theirs.body, theirs.etag);
    dropDraft();
    $('conflict').hidden = true;
    say('The form has the text that was saved meanwhile.');
    content.focus();
});
$('save-mine').addEventListener('click', once($('save-mine'), () =>
    save({ title: title.value, content: content.value }, theirs.etag)));

// The key

function showKept() {
    // A key that was imported may be another one.
    const isKept = page(slug)?.edit_key === key;
    $('kept').hidden = $('forget-key').hidden = !isKept;
    $('not-kept').hidden = $('keep-key').hidden = isKept;
}

$('keep-key').addEventListener('click', () => {
    const kept = { slug, url: `${location.origin}/${slug}`, title: opened.title || slug, edit_key: key, created_at: new Date().toISOString() };
    const isDone = keep(kept);
    isSafe ||= isDone;
    say(isDone ? 'The key is kept in this browser.' : 'This browser refuses to keep it. Copy an edit link instead.');
    showKept();
});
$('forget-key').addEventListener('click', () => {
    forget(slug);
    isSafe = false;
    say('This browser has forgotten the key. Without a copy, the page can never be changed.');
    showKept();
});
$('copy-link').addEventListener('click', async () => {
    isSafe = await copy(editLink(slug, key), 'The edit link, which is a secret,') || isSafe;
});

// Deleting

$('delete').addEventListener('click', () => {
    $('sure').hidden = false;
    $('sure-question').focus();
});
$('not-sure').addEventListener('click', () => {
    $('sure').hidden = true;
    $('delete').focus();
});
$('is-sure').addEventListener('click', once($('is-sure'), async () => {
    await withKey('DELETE');
    forget(slug);
    dropDraft();
    opened = null;
    isSafe = true;
    for (const part of [editor, $('keeping'), $('deleting'), $('preview'), $('conflict')]) part.hidden = true;
    say('The page was deleted. Its address is never used again.');
}));

takeKeyFromAddress();
addEventListener('hashchange', () => {
    takeKeyFromAddress();
    if (!opened && $('key').value) open();
});
loginButton.disabled = false;
$('key').value ||= page(slug)?.edit_key ?? '';
if ($('key').value) open();
