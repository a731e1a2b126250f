// The home page: writing, the draft, files, publishing, and the receipt of a page that was just published.

import { dropDraft, forget, isPage, keep, newKey, saveDraft, takeDraft } from './keys.js';
import { closePreview, followAtOnce, startPreview, togglePreview } from './preview.js';
import { check, content, count, fill, form, guard, helpTyping, title } from './sheet.js';
import { $, Problem, answer, ask, confirmOn, copy, download, editLink, once, say, tell } from './ui.js';

const editor = $('editor');
editor.noValidate = true;

let isDraftStored = true;

/** The text that was sent last and the key that was made for it, until its page is there. The draft holds both. */
let sent = null;

const sheet = () => ({ title: title.value, content: content.value });

/** Returns in words how storing the draft went. */
function store() {
    const isEmpty = !title.value && !content.value;
    $('discard').hidden = isEmpty;
    if (isEmpty) dropDraft('');
    const refusal = isEmpty ? '' : saveDraft('', { ...sheet(), ...(sent && { sent }) });
    isDraftStored = !refusal;
    return refusal || (isEmpty ? '' : 'Draft saved');
}

function show(text) {
    fill(text);
    sent = text.sent ?? null;
    keepDraft();
    followAtOnce();
}

$('discard').addEventListener('click', () => {
    const discarded = { ...sheet(), sent };
    show({ title: '', content: '' });
    say('Draft discarded.', '', answer('Undo', () => {
        show(discarded);
        content.focus();
    }));
    title.focus();
});

async function openFile(file) {
    if (!file || editor.hidden) return;
    if (file.type.startsWith('image/')) {
        throw new Problem('Handbill can’t store pictures. Put the picture on the web, and write ![what it shows](its link).');
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
    // The first heading becomes the title by itself.
    const name = /^#/m.test(text) ? '' : file.name.replace(/\.\w{1,8}$/, '');
    show({ title: title.value || name, content: text });
    say(`${file.name} was opened.`);
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

const [publishButton, previewButton] = ['publish', 'preview'].map((value) => editor.querySelector(`[value=${value}]`));

/** Milliseconds before a text is sent again whose answer was lost. */
const AGAIN_AFTER = [500, 2000];

const isLost = ({ status }) => navigator.onLine && [0, 502, 504].includes(status);

/** Sends the text with its key, which is stored before. If it is sent again, the server finds the page that it made. */
async function send() {
    if (sent?.title !== title.value || sent.content !== content.value) sent = { ...sheet(), edit_key: newKey() };
    keepDraft();
    for (const pause of [...AGAIN_AFTER, null]) {
        const body = form('publish');
        body.append('edit_key', sent.edit_key);
        try {
            const after = 'Your text is safe. Try again: it won’t be published twice.';
            return await ask('/', { method: 'POST', body, expect: isPage, after });
        } catch (problem) {
            if (problem.code === 'key_in_use') sent = null;
            if (pause === null || !isLost(problem)) throw problem;
            await new Promise((done) => setTimeout(done, pause));
        }
    }
}

const publish = once(publishButton, async () => {
    keepDraft();
    check();
    publishButton.textContent = 'Publishing…';
    // The key may be on its way, so nothing may close the tab.
    isKeySafe = false;
    let made;
    try {
        ({ body: made } = await send());
    } finally {
        publishButton.textContent = 'Publish';
        isKeySafe = true;
    }
    sent = null;
    const name = title.value.trim();
    showReceipt({ ...made, title: name || made.slug });
    editor.hidden = true;
    closePreview();
    fill({ title: '', content: '' });
    tell('');
    scrollTo(0, 0);
    if (!name) nameByServer(made).catch(() => {});
});

/** Asks which heading became the title of the page `made`, and saves that too. */
async function nameByServer(made) {
    const { body } = await ask(`/api/pages/${made.slug}`);
    if (page?.slug === made.slug && !$('kept').hidden) keep({ ...made, title: body.title });
}

editor.addEventListener('submit', (event) => {
    event.preventDefault();
    if (event.submitter === previewButton) showPreview();
    else publish();
});
const showPreview = once(previewButton, togglePreview);
helpTyping(publish, () => {
    keepDraft();
    tell('Draft saved.');
});

// The receipt

/** The page whose receipt is shown, and whether its key is safe: saved here, copied or in a file. */
let page = null;
let isKeySafe = true;

const keepDraft = guard(store, () => !isKeySafe || !isDraftStored);
const link = () => editLink(page.slug, page.edit_key);
const safe = (isDone) => { isKeySafe ||= isDone; };

function showKept(isKept, why) {
    $('kept').hidden = $('shared-part').hidden = !isKept;
    $('not-kept').hidden = $('edit-link').hidden = isKept;
    $('not-kept').firstChild.textContent = why ?? '';
    $('edit-page').href = isKept ? `/${page.slug}/edit` : link();
}

function showReceipt(published) {
    page = published;
    // The key is stored before anything else happens. The draft may take the room that it needs.
    isKeySafe = keep(page);
    dropDraft('');
    isKeySafe ||= keep(page);
    $('address').href = $('open-page').href = $('address').textContent = page.url;
    $('edit-link').textContent = link();
    $('share').hidden = !navigator.share;
    showKept(isKeySafe, 'This browser won’t save the edit link. Copy it now: you won’t see it again.');
    $('published').hidden = false;
    $('published-name').focus();
}

$('copy-address').addEventListener('click', () => copy($('copy-address'), page.url, 'The link was'));
$('share').addEventListener('click', () => navigator.share({ title: page.title, url: page.url }).catch(() => {}));
$('copy-link').addEventListener('click', async () => safe(await copy($('copy-link'), link(), 'The edit link, which is a secret, was')));
$('save-key').addEventListener('click', () => {
    download(`${page.slug}.key.txt`, `${link()}\n${page.url}\n${page.edit_key}\n`);
    confirmOn($('save-key'), 'Saved', 'The edit link was saved to a file.');
    safe(true);
});
$('forget-key').addEventListener('click', () => {
    forget(page.slug);
    isKeySafe = false;
    showKept(false, 'This browser no longer has the edit link. Copy it before you leave.');
    $('not-kept').focus();
});
$('another').addEventListener('click', () => {
    if (!isKeySafe && !confirm('The edit link is not saved anywhere. Leave without it?')) return;
    page = null;
    isKeySafe = true;
    $('edit-link').textContent = '';
    $('published').hidden = true;
    say('');
    editor.hidden = false;
    startPreview();
    title.focus();
});

// The sheet at the start. The fields may have a text already: the browser's, after a reload or a crash, or the server's, with an error.

function restore() {
    const found = sheet();
    const isAnswer = Boolean(content.defaultValue);
    const draft = isAnswer ? null : takeDraft('');
    if (draft) show(draft);
    else keepDraft();
    const isOther = draft && found.content && (found.content !== draft.content || found.title !== draft.title);
    if (draft || (!isAnswer && found.content)) {
        say('Your draft is back.', '', ...(isOther ? [answer('Use the text that was here', () => show(found))] : []));
    }
    count();
    $('pick').hidden = false;
    startPreview();
    if (matchMedia('(min-width: 48rem)').matches) (title.value ? content : title).focus({ preventScroll: true });
}

// After a crash the browser fills in the fields when the document is complete.
if (document.readyState === 'complete') restore();
else addEventListener('load', restore);
