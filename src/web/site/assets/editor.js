// The home page: writing, drafts, files and publishing.

import { addDraft, dropDraft, isPage, keep, leaveDraft, newKey, otherDrafts, saveDraft, takeDraft } from './keys.js';
import { closePreview, followAtOnce, startPreview, togglePreview } from './preview.js';
import { closeReceipt, expectKey, isKeySafe, showReceipt } from './receipt.js';
import { check, content, count, fill, form, guard, title } from './sheet.js';
import { helpTyping } from './typing.js';
import { $, Problem, ask, once, say, tell } from './ui.js';

const editor = $('editor');
// The script says what is missing beside the field.
editor.noValidate = true;

// Drafts

let isDraftStored = true;

/** The text that was sent last, with the key that was made for it, until its page is there. It is a part of the draft. */
let sent = null;

/** Stores the sheet as a draft. Returns how that went, in words. */
function store() {
    // The fields of a page that was published are empty.
    const isEmpty = !title.value && !content.value;
    isDraftStored = isEmpty || saveDraft('', { title: title.value, content: content.value, ...(sent && { sent }) });
    if (isEmpty) dropDraft();
    showDrafts();
    return isEmpty ? '' : isDraftStored ? 'Draft saved' : 'Draft not saved: this browser won’t store it';
}

function showDrafts() {
    const others = otherDrafts('').length;
    $('other-draft').hidden = !others;
    $('other-draft').textContent = others > 1 ? `Other drafts (${others})` : 'Other draft';
    showTools();
}

/** An empty sheet has nothing to discard. */
function showTools() {
    $('new-page').hidden = $('discard').hidden = !title.value && !content.value;
}

editor.addEventListener('input', showTools);

const keepDraft = guard(editor, store, () => !isKeySafe() || !isDraftStored);

function show(text) {
    fill(text);
    sent = text.sent ?? null;
    keepDraft();
    followAtOnce();
}

function open(draft, words) {
    takeDraft(draft);
    show(draft);
    say(words);
}

$('other-draft').addEventListener('click', () => {
    keepDraft();
    // The oldest: each has its turn.
    open(otherDrafts('').at(-1), 'This is another draft. The previous one is saved.');
    content.focus();
});
$('new-page').addEventListener('click', () => {
    keepDraft();
    if (!isDraftStored) return say('This browser can’t save your draft, so it stays here.', 'bad');
    leaveDraft();
    show({ title: '', content: '' });
    say('This is a new page. Your draft is saved: “Other draft” brings it back.');
    title.focus();
});
$('discard').addEventListener('click', () => {
    const discarded = { title: title.value, content: content.value };
    dropDraft();
    show({ title: '', content: '' });
    say('Draft discarded.', '', ['Undo', () => {
        // Something else may have been written meanwhile.
        if (title.value || content.value) addDraft(discarded);
        else show(discarded);
        showDrafts();
        content.focus();
    }]);
    title.focus();
});

// Files

// A heading with markup is left to the server, which takes its text as the title.
const HEADING = /^\uFEFF?#[ \t]+([^\n*_`[\]<>&\\~]*?)[ \t]*#*[ \t]*(?:\n+|$)/;

/** Moves a leading heading to the title, if there is none yet. */
function liftHeading() {
    const found = HEADING.exec(content.value);
    const rest = found && content.value.slice(found[0].length);
    if (title.value.trim() || !found?.[1] || !rest) return;
    show({ title: found[1], content: rest });
    say('The first heading became the title.');
}

content.addEventListener('paste', () => setTimeout(liftHeading));

async function openFile(file) {
    if (!file || editor.hidden) return;
    if (file.type.startsWith('image/')) {
        throw new Problem('Handbill can’t store pictures. Put the picture on the web, and paste its address here.');
    }
    let text;
    try {
        text = new TextDecoder('utf-8', { fatal: true }).decode(await file.arrayBuffer());
    } catch {
        throw new Problem(`${file.name} isn’t a text file. Nothing was changed.`);
    }
    if (content.value.trim()) {
        if (!confirm(`Replace your text with ${file.name}?`)) return;
        title.value = '';
    }
    content.value = text;
    say(`${file.name} was opened.`);
    liftHeading();
    if (!title.value && !/^#/m.test(content.value)) title.value = file.name.replace(/\.\w{1,8}$/, '');
    show({ title: title.value, content: content.value });
}

$('file').addEventListener('change', once($('file'), async () => {
    await openFile($('file').files[0]);
    $('file').value = '';
}));
const drop = once(editor, (event) => openFile(event.dataTransfer.files[0]));
// Anywhere on the page: beside the sheet, a browser would leave the page for the file.
for (const type of ['dragenter', 'dragover', 'dragleave', 'drop']) {
    addEventListener(type, (event) => {
        if (!event.dataTransfer?.types.includes('Files')) return;
        event.preventDefault();
        content.classList.toggle('dropping', type === 'dragenter' || type === 'dragover');
        if (type === 'drop') drop(event);
    });
}

// Publishing

const publishButton = editor.querySelector('[value=publish]');
const previewButton = editor.querySelector('[value=preview]');

const UNKNOWN = 'Your text is safe here. Publish it again as it is: it will go online only once.';

/** Pauses before a text is sent again whose answer was lost, in milliseconds. */
const AGAIN_AFTER = [500, 2000];

const isLost = ({ status }) => navigator.onLine && [0, 502, 504].includes(status);

/** Sends the text with its key, which is stored before. Sent again, the server finds the page that it made. */
async function send() {
    if (sent?.title !== title.value || sent.content !== content.value) {
        sent = { title: title.value, content: content.value, edit_key: newKey() };
    }
    keepDraft();
    for (const pause of [...AGAIN_AFTER, null]) {
        const body = form('publish');
        body.append('edit_key', sent.edit_key);
        try {
            return await ask('/', { method: 'POST', body, expect: isPage, unknown: UNKNOWN });
        } catch (problem) {
            if (problem.code === 'key_in_use') sent = null;
            if (pause === null || !isLost(problem)) throw problem;
            await new Promise((done) => setTimeout(done, pause));
        }
    }
}

/** Asks which heading became the title of `published`, and keeps that too. */
async function nameByHeading(published) {
    const { body } = await ask(`/api/pages/${published.slug}`);
    if (isPage(published) && !$('published').hidden) keep({ ...published, title: body.title });
}

const publish = once(publishButton, async () => {
    keepDraft();
    check();
    publishButton.textContent = 'Publishing…';
    expectKey(true);
    let made;
    try {
        ({ body: made } = await send());
    } finally {
        publishButton.textContent = 'Publish';
        expectKey(false);
    }
    sent = null;
    const name = title.value.trim();
    const published = { ...made, title: name || made.slug, ...(!name && { from_heading: true }) };
    showReceipt(published, dropDraft);
    editor.hidden = true;
    closePreview();
    fill({ title: '', content: '' });
    tell('');
    // The page may be named later: its slug names it until then.
    if (!name) nameByHeading(published).catch(() => {});
});

editor.addEventListener('submit', (event) => {
    event.preventDefault();
    if (event.submitter === previewButton) showPreview();
    else publish();
});
const showPreview = once(previewButton, togglePreview);
helpTyping(editor, publish, () => {
    keepDraft();
    tell('Draft saved.');
});

$('another').addEventListener('click', () => {
    if (!closeReceipt()) return;
    say('');
    editor.hidden = false;
    keepDraft();
    startPreview();
    title.focus();
});

// The sheet at the start

/** A text that a link brings, `/?title=…&text=…`. It leaves the address, so that a reload does not bring it again. */
function takeLinked() {
    const given = new URLSearchParams(location.search);
    const linked = { title: (given.get('title') ?? '').replace(/[\r\n]+/g, ' '), content: given.get('text') ?? '' };
    if (!linked.title && !linked.content) return null;
    history.replaceState(null, '', location.pathname);
    return linked;
}

// The fields may have a text already: the browser's, after a reload or a crash, or the server's, with an error.
function restore() {
    const linked = takeLinked();
    const drafts = otherDrafts('');
    const isAnswer = Boolean($('status').textContent);
    const own = drafts.find((draft) => [draft.title, ''].includes(title.value) && [draft.content, ''].includes(content.value));
    if (own) {
        takeDraft(own);
        show(own);
    } else if (drafts[0] && !content.defaultValue) {
        keepDraft();
        if (isDraftStored) {
            takeDraft(drafts[0]);
            show(drafts[0]);
        }
    }
    const isWritten = title.value || content.value;
    if (linked && !isWritten) {
        show(linked);
        say('A link filled in this text. Nothing is public until you publish it.');
    } else if (linked) {
        say('A link brought some text. Your draft was here first, so it stays.', '', ['Open that text', () => {
            keepDraft();
            leaveDraft();
            show(linked);
            content.focus();
        }]);
    } else if (own || (isWritten && !isAnswer)) {
        say('Your draft is back.');
    }
    count();
    showDrafts();
    $('pick').hidden = false;
    startPreview();
    if (matchMedia('(min-width: 48rem)').matches) (title.value ? content : title).focus({ preventScroll: true });
}

// Another tab may change them.
for (const event of ['storage', 'pageshow']) addEventListener(event, showDrafts);
// After a crash the browser fills in the fields when the document is complete.
if (document.readyState === 'complete') restore();
else addEventListener('load', restore);
