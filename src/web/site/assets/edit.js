// Edits and deletes one page, with its key in the `Authorization` header and nowhere else.

import { compare } from './compare.js';
import { addDraft, dropDraft, findKey, forget, keep, markGone, otherDrafts, page, saveDraft, takeDraft } from './keys.js';
import { closePreview, followAtOnce, startPreview, togglePreview } from './preview.js';
import { check, content, count, fill, form, guard, title } from './sheet.js';
import { helpTyping } from './typing.js';
import { $, Problem, ask, confirmOn, copy, editLink, mark, once, say, tell } from './ui.js';

const slug = $('page').value;
const path = `/api/pages/${slug}`;
const [login, editor] = [$('login'), $('editor')];
const loginButton = login.querySelector('button');
editor.noValidate = true;

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

// A field has LF alone, whatever the page's source has.
const asField = (text) => text.replace(/\r\n?/g, '\n');

/** There is no page to edit: it was deleted, or never was. */
function close(name) {
    opened = null;
    isSafe = true;
    for (const part of [login, editor, $('conflict')]) part.hidden = true;
    closePreview();
    $('opening').hidden = $('closed').hidden = false;
    $('opening-name').textContent = name;
    $('opening-name').focus();
}

/** Says what `problem` means for this page, if it means more than for others. */
function understand(problem) {
    if (problem.status === 410) {
        markGone(slug);
        close('This page was deleted');
    } else if (problem.status === 404) {
        close('There is no page at this address');
    } else if (problem.status === 401 && !opened) {
        throw new Problem(problem.message, { field: $('key') });
    } else {
        throw problem;
    }
}

const open = once(loginButton, async () => {
    mark($('key'), '');
    // It may be in an edit link, or in what a shell has printed.
    key = findKey($('key').value);
    if (!key) throw new Problem('This isn’t an edit key. A key is hbk_ followed by 43 letters and digits.', { field: $('key') });
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
    load(read.body, read.etag);
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
    startPreview();
    content.setSelectionRange(0, 0);
    content.focus({ preventScroll: true });
    scrollTo(0, 0);
});

function load(body, etag) {
    opened = { title: body.title ?? '', content: asField(body.content), etag };
    opened.isNamedByHeading = page(slug)?.from_heading || (opened.title !== '' && heading(opened.content) === opened.title);
    fill(opened);
    followAtOnce();
}

// The title

/** About the text of the first heading, as the server would find it. */
function heading(text) {
    const found = /^ {0,3}#[ \t]+(.+)$/m.exec(text) ?? /^ {0,3}#{2,6}[ \t]+(.+)$/m.exec(text);
    return found?.[1].replace(/[ \t]+#+[ \t]*$/, '').replace(/[*_`~\\]/g, '').replace(/\s+/g, ' ').trim();
}

/** The title that the changed heading gives, if the heading gave the title before and nobody has typed another. */
async function followedTitle() {
    if (!opened.isNamedByHeading || title.value !== opened.title || content.value === opened.content) return null;
    try {
        const { body } = await ask('/', { method: 'POST', body: form('preview', { withTitle: false }) });
        return body.title;
    } catch {
        return heading(content.value) ?? null;
    }
}

// Saving

/** The fields that differ from the page as it was read. */
function changes() {
    const fields = {};
    if (title.value !== opened.title) fields.title = title.value;
    if (content.value !== opened.content) fields.content = content.value;
    return fields;
}

const hasChanges = () => Object.keys(changes()).length > 0;

function store() {
    if (!opened) return '';
    if (!hasChanges()) {
        dropDraft();
        return 'Saved';
    }
    isDraftStored = saveDraft(slug, { title: title.value, content: content.value, etag: opened.etag });
    return isDraftStored ? 'Not published yet · Draft saved' : 'Not saved: this browser refuses';
}

async function save(fields, etag) {
    check();
    const isNamedByHeading = opened.isNamedByHeading && !('title' in fields && fields.title !== opened.title);
    const named = await followedTitle();
    if (named && named !== opened.title) fields.title = named;
    try {
        const saved = await withKey('PATCH', fields, etag);
        const kept = page(slug);
        if (kept) keep({ ...kept, title: saved.body.title ?? '', from_heading: isNamedByHeading || undefined });
        load(saved.body, saved.etag);
        keepDraft();
        if (editor.hidden) endConflict();
        confirmOn($('save'), 'Saved');
    } catch (problem) {
        if (problem.status === 412) await showTheirs();
        else understand(problem);
    }
}

const saveNow = once($('save'), () => {
    if (!hasChanges()) return say('You haven’t changed anything yet.');
    keepDraft();
    return save(changes(), opened.etag);
});

login.addEventListener('submit', open);
editor.addEventListener('submit', saveNow);
helpTyping(editor, saveNow, saveNow);
const keepDraft = guard(editor, store, () => !isSafe || (opened && hasChanges() && !isDraftStored));
$('show-preview').addEventListener('click', once($('show-preview'), togglePreview));

$('copy-page').addEventListener('click', () => {
    if (addDraft({ title: title.value, content: content.value })) location.assign('/');
    else say('This browser can’t save a copy. Copy the text yourself.', 'bad');
});

// A conflict: the page as somebody else has saved it, beside the text in the sheet

let theirs = null;

async function showTheirs() {
    theirs = await ask(path, { expect: hasText });
    const whole = ({ title, content }) => (title ? `${title}\n\n` : '') + content;
    compare(
        $('compare'),
        ['Their version', whole({ title: theirs.body.title, content: asField(theirs.body.content) })],
        ['Your version', whole({ title: title.value, content: content.value })],
    );
    closePreview();
    editor.hidden = true;
    $('conflict').hidden = false;
    scrollTo(0, 0);
    $('conflict-name').focus();
}

/** Goes on in the sheet. */
function endConflict() {
    editor.hidden = false;
    $('conflict').hidden = true;
    startPreview();
}

$('go-on').addEventListener('click', () => {
    // Their text was seen, so the next save may replace it.
    opened = { ...opened, title: theirs.body.title ?? '', content: asField(theirs.body.content), etag: theirs.etag };
    keepDraft();
    endConflict();
    content.focus();
});
$('take-theirs').addEventListener('click', () => {
    if (!confirm('Discard your changes and use their version?')) return;
    load(theirs.body, theirs.etag);
    keepDraft();
    endConflict();
    say('This is their version now.');
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
    // Somebody who came by an edit link may take it for granted that the key is saved now.
    if (!isKept) $('keeping').open = true;
}

$('keep-key').addEventListener('click', () => {
    const kept = { slug, url: `${location.origin}/${slug}`, title: opened.title || slug, edit_key: key, created_at: new Date().toISOString() };
    const isDone = keep(kept);
    isSafe ||= isDone;
    showKept();
    if (!isDone) return say('This browser won’t save the key. Copy the edit link instead.', 'bad');
    tell('The key is saved in this browser.');
    $('copy-link').focus();
});
$('forget-key').addEventListener('click', () => {
    forget(slug);
    isSafe = false;
    showKept();
    tell('The key was removed from this browser.');
    $('copy-link').focus();
});
$('copy-link').addEventListener('click', async () => {
    isSafe = await copy($('copy-link'), editLink(slug, key), 'The edit link, which is a secret, was') || isSafe;
});

// Deleting

// On a phone the question is below the screen.
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
    dropDraft();
    close('Your page was deleted');
}));

// A page that was opened without a key may not be there at all.
async function look() {
    const { status } = await fetch(path, { method: 'HEAD', credentials: 'omit' });
    if (status === 404 || status === 410) understand({ status });
}

takeKeyFromAddress();
addEventListener('hashchange', () => {
    takeKeyFromAddress();
    if (!opened && $('key').value) open();
});
loginButton.disabled = false;
$('key').value ||= page(slug)?.edit_key ?? '';
count();
if ($('key').value) open();
else look().catch(() => {});
