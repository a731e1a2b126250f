// The page that edits and deletes one page, with its key in the `Authorization` header and nowhere else.

import { KEY_FORM, draft, dropDraft, forget, keep, page, saveDraft } from './keys.js';
import { preview } from './preview.js';
import { $, Problem, ask, copy, count, editLink, onShortcut, once, say } from './ui.js';

const slug = $('page').value;
const path = `/api/pages/${slug}`;
const [login, editor, title, content] = [$('login'), $('editor'), $('title'), $('content')];
const loginButton = login.querySelector('button');

/** The key, once it has opened the page, and the page as it was read. */
let key = null;
let opened = null;
let isDraftStored = true;

/** A link may bring the key after `#`, which browsers never send. It leaves the address bar and the history at once. */
function takeKeyFromAddress() {
    const given = location.hash.slice(1);
    if (!given) return;
    history.replaceState(null, '', location.pathname);
    if (KEY_FORM.test(given)) $('key').value = given;
    else say('The link does not hold a key. Enter the key below.');
}

const withKey = (method, fields, etag) => ask(path, {
    method,
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
    key = $('key').value.trim().replace(/^Bearer\s+/i, '');
    if (!KEY_FORM.test(key)) throw new Problem('This is not an edit key: a key is hbk_ and 43 letters or digits.');
    // An update without fields changes nothing, and shows whether the key is right.
    const { body, etag } = await withKey('PATCH', {});
    login.hidden = true;
    $('key').value = '';
    for (const part of [editor, $('keeping'), $('deleting')]) part.hidden = false;
    load(body, etag);
    say('');
    const unsaved = draft(slug);
    if (unsaved && (unsaved.title !== title.value || unsaved.content !== content.value)) {
        title.value = unsaved.title;
        content.value = unsaved.content;
        // If the page has changed since, saving shows both texts.
        opened.etag = unsaved.etag;
        say('Your unsaved changes are back.');
    }
    count(title, content);
    showKept();
    content.focus();
});

function load(body, etag) {
    opened = { title: body.title ?? '', content: asField(body.content), etag };
    title.value = opened.title;
    content.value = opened.content;
    count(title, content);
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
    else dropDraft(slug);
}

async function save(fields, etag) {
    if (!count(title, content)) throw new Problem('The text or its title is too long. Shorten it.');
    try {
        const saved = await withKey('PATCH', fields, etag);
        load(saved.body, saved.etag);
        dropDraft(slug);
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
    theirs = await ask(path, {});
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
let timer;
editor.addEventListener('input', () => {
    count(title, content);
    clearTimeout(timer);
    timer = setTimeout(store, 300);
});
addEventListener('pagehide', store);
addEventListener('beforeunload', (event) => {
    if (opened && hasChanges() && !isDraftStored) event.preventDefault();
});

$('show-preview').addEventListener('click', once($('show-preview'), () => preview(title.value, content.value)));
$('take-theirs').addEventListener('click', () => {
    load(theirs.body, theirs.etag);
    dropDraft(slug);
    $('conflict').hidden = true;
    say('The form has the text that was saved meanwhile.');
    content.focus();
});
$('save-mine').addEventListener('click', once($('save-mine'), () =>
    save({ title: title.value, content: content.value }, theirs.etag)));

// The key

function showKept() {
    const isKept = page(slug) !== null;
    $('kept').textContent = isKept
        ? 'The key of this page is kept in this browser. Anyone who uses it can edit the page.'
        : 'This browser does not keep the key. You need it again the next time.';
    $('keep-key').hidden = isKept;
    $('forget-key').hidden = !isKept;
}

$('keep-key').addEventListener('click', () => {
    const kept = { slug, url: `${location.origin}/${slug}`, title: opened.title || slug, edit_key: key, created_at: new Date().toISOString() };
    say(keep(kept) ? 'The key is kept in this browser.' : 'This browser refuses to keep it. Copy an edit link instead.');
    showKept();
});
$('forget-key').addEventListener('click', () => {
    forget(slug);
    say('This browser has forgotten the key.');
    showKept();
});
$('copy-link').addEventListener('click', () => copy(editLink(slug, key), 'The edit link, which is a secret,'));

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
    dropDraft(slug);
    opened = null;
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
