// The home page: writing, the draft, files, publishing, and the receipt of a page that was just published.

import { hideLink, isLinkSafe, showLink } from './editlink.js';
import { dropDraft, isPage, keep, newKey, notePublished, published, saved, takeDraft } from './keys.js';
import { closePreview, follow, startPreview, togglePreview } from './preview.js';
import { askForBreaks, check, content, count, differing, fill, form, guard, helpTyping, sheet, title } from './sheet.js';
import { $, Problem, answer, ask, copy, element, once, say, tell } from './ui.js';

const editor = $('editor');
editor.noValidate = true;

/** The text that was sent last and the key that was made for it, until its page is there. The draft holds both. */
let sent = null;
/** Whether the key is on its way, so that nothing may close the tab. */
let isSending = false;

const keepDraft = guard('', () => {
    const isEmpty = !Object.values(sheet()).join('');
    $('discard').hidden = isEmpty;
    return isEmpty ? null : { ...sheet(), ...(sent && { sent }) };
}, 'Draft saved', () => !isSending && isLinkSafe());

function show(text) {
    fill(text);
    sent = text.sent ?? null;
    keepDraft();
    follow();
}

$('discard').addEventListener('click', () => {
    const discarded = { ...sheet(), sent };
    show({});
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
    // The first heading becomes the title by itself, and so does front matter's title.
    const name = /^#/m.test(text) || /^\ufeff?---\s[^]*?^title:/m.test(text) ? '' : file.name.replace(/\.\w{1,8}$/, '');
    show({ ...sheet(), title: title.value || name, content: text });
    say(`${file.name} was opened.`);
}

$('file').addEventListener('change', once($('file'), async () => {
    await openFile($('file').files[0]);
    $('file').value = '';
}));
const drop = once(editor, (event) => openFile(event.dataTransfer.files[0]));
// Anywhere on the page: beside the sheet, a browser would leave the page for the file.
for (const type of ['dragover', 'dragleave', 'drop']) {
    addEventListener(type, (event) => {
        if (!event.dataTransfer?.types.includes('Files')) return;
        event.preventDefault();
        content.classList.toggle('dropping', type === 'dragover');
        if (type === 'drop') drop(event);
    });
}

const [publishButton, previewButton] = ['publish', 'preview'].map((value) => editor.querySelector(`[value=${value}]`));

/** Milliseconds before a text is sent again whose answer was lost. */
const AGAIN_AFTER = [500, 2000];
const isLost = ({ status }) => navigator.onLine && [0, 502, 504].includes(status);

/** Sends the text with its key, which is stored before. If it is sent again, the server finds the page that it made. */
async function send() {
    if (!sent || differing(sent, sheet()).length) sent = { ...sheet(), edit_key: newKey() };
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
    if (askForBreaks(publish)) return;
    publishButton.textContent = 'Publishing…';
    isSending = true;
    let made;
    try {
        ({ body: made } = await send());
    } finally {
        publishButton.textContent = 'Publish';
        isSending = false;
    }
    sent = null;
    const name = title.value.trim();
    showReceipt({ ...made, title: name || made.slug });
    editor.hidden = true;
    closePreview();
    fill({});
    tell('');
    scrollTo(0, 0);
    // A heading has become the title.
    if (!name) ask(`/api/pages/${made.slug}`).then(({ body }) => saved(made.slug) && keep({ ...made, title: body.title })).catch(() => {});
});

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

function showReceipt(page) {
    // The key is stored before anything else happens. The draft may take the room that it needs.
    const isStored = keep(page);
    dropDraft('');
    if (!isStored) keep(page);
    $('address').href = $('open-page').href = $('address').textContent = page.url;
    showLink(page, 'This browser won’t save the edit link. Copy it now: you won’t see it again.');
    notePublished(page.slug);
    $('share').hidden = !navigator.share;
    $('share').onclick = () => navigator.share({ title: page.title, url: page.url }).catch(() => {});
    $('published').hidden = false;
    $('published-name').focus();
}

$('copy-address').addEventListener('click', () => copy($('copy-address'), $('address').textContent, 'The link was'));
$('another').addEventListener('click', () => {
    if (!isLinkSafe() && !confirm('The edit link is not saved anywhere. Leave without it?')) return;
    hideLink();
    $('published').hidden = true;
    notePublished('');
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
    const isOther = draft && found.content && differing(found, draft).length;
    if (draft || (!isAnswer && found.content)) {
        say('Your draft is back.', '', ...(isOther ? [answer('Use the text that was here', () => show(found))] : []));
    } else if (published() && performance.getEntriesByType('navigation')[0].type !== 'navigate') {
        const { slug, title: name } = published();
        const link = (words, href) => element('a', words, { href, className: 'button' });
        say(`Published: ${name || slug}.`, '', link('View', `/${slug}`), link('Edit', `/${slug}/edit`));
    }
    count();
    $('pick').hidden = false;
    startPreview();
    if (matchMedia('(min-width: 48rem)').matches) (title.value ? content : title).focus({ preventScroll: true });
}

// After a crash the browser fills in the fields when the document is complete.
if (document.readyState === 'complete') restore();
else addEventListener('load', restore);
